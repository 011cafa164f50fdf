"""Sizes of E3 under other budgets: how many samples are potable, how much is spent, from which size
on budgets bind.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ..case import RAW, RAW_BUDGETS
from ..grids import BUDGET_SIZES
from ..results import Results
from ..rows import Row
from . import NAMES, Columns, columns, mean, rounded

SHARING = ("ssg", "dd-paper", "dd", "prices")


def standard(rows: Results) -> Results:
    """The records with budgets in standard deviations, at the sizes that every seed has."""
    return rows.where(problem="water", size=BUDGET_SIZES)


def levels(rows: Results) -> list[float]:
    """The budgets in standard deviations for which records are stored, the smallest first."""
    return sorted(standard(rows).distinct("budget"))


def potable_share(row: Row) -> float:
    """Potable samples over all samples; a run without a point counts as 0."""
    return (row.objective or 0.0) / row.size


def spent(row: Row, limits: np.ndarray | None = None) -> np.ndarray:
    """What the record's point spends of each budget, as a share: what is added to each feature,
    then what is taken away.

    `limits` are the budgets of a record whose own are not in standard deviations.
    """
    return (row.spent / (row.budget if limits is None else limits)).ravel()


def spent_mean(rows: Results) -> float | None:
    """Fraction of all budgets that the points of these records spend, mean over the records; None
    without a point.
    """
    return mean([spent(row).mean() for row in rows if row.point])


def binds_from(rows: Results, method: str = "prices") -> dict[float, int | None]:
    """By budget: the smallest size at which some run of the method leaves a sample that is not
    potable, None where every run reaches all samples.
    """
    found: dict[float, int | None] = {}
    for budget in levels(rows):
        short = [
            row.size
            for row in standard(rows).where(method=method, budget=budget)
            if potable_share(row) < 1
        ]
        found[budget] = min(short, default=None)
    return found


def by_budget(rows: Results, sizes: Sequence[int] = BUDGET_SIZES) -> Columns:
    """Of each budget and method: mean fraction of potable samples at each size, and what its points
    spend at the last.
    """
    lines = []
    for budget in levels(rows):
        for method in SHARING:
            cells = standard(rows).where(budget=budget, method=method)
            shares = [
                mean([potable_share(row) for row in cells.where(size=size)]) for size in sizes
            ]
            used = [spent_mean(cells.where(size=size)) for size in (sizes[0], sizes[-1])]
            lines.append([f"γ = {budget:g}, {NAMES[method]}", *shares, *used, len(cells)])
    ends = [f"spent, n = {size}" for size in (sizes[0], sizes[-1])]
    return columns(["budget and method", *(f"n = {size}" for size in sizes), *ends, "runs"], lines)


def rounds(
    rows: Results, budget: float, sizes: Sequence[int], method: str = "prices"
) -> list[float | None]:
    """Rounds or iterations of a method under a budget, mean over the seeds, at each size."""
    cells = standard(rows).where(budget=budget, method=method)
    return [mean(cells.where(size=size).values("iterations"), 1) for size in sizes]


def raw_counts(rows: Results) -> Columns:
    """Under the budgets in raw units: samples that are potable untreated and by each method, means
    over the seeds.
    """
    raw = rows.where(problem=RAW)
    lines = []
    for size in sorted(raw.distinct("size")):
        cell = raw.where(size=size)
        held = [mean(cell.where(method=method).values("objective"), 1) for method in SHARING]
        lines.append([size, mean(cell.values("untreated"), 1), *held, len(cell.distinct("seed"))])
    return columns(
        ["samples n", "untreated", *(NAMES[method] for method in SHARING), "seeds"], lines
    )


def in_deviations(names: Sequence[str], deviations: Sequence[float]) -> Columns:
    """The budgets in raw units beside the same in standard deviations of the features."""
    lines = [
        [name, up, down, rounded(up / unit, 3), rounded(down / unit, 3)]
        for name, up, down, unit in zip(names, *RAW_BUDGETS, deviations, strict=True)
    ]
    return columns(
        ["feature", "to add", "to take away", "to add, deviations", "to take away, deviations"],
        lines,
    )


def held_at(counts: Columns, size: int) -> Mapping[str, float]:
    """The line of `raw_counts` for a size, by the names of its columns; empty where that size has
    no record.
    """
    place = counts["samples n"].index(size) if size in counts["samples n"] else None
    return (
        {}
        if place is None
        else {name: float(str(c[place])) for name, c in counts.items() if c[place] is not None}
    )

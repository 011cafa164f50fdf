"""E3 in tables: what each method returns, its fraction of the best known value, and the exact model
beside it.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ..results import Results, same_objective_ratio
from . import NAMES, Columns, columns, mean, rounded, small, whole

E3_METHODS = ("ssg-printed", "ssg", "dd-paper", "dd-no-multipliers", "dd", "bigm")


def one_instance(rows: Results) -> Columns:
    """Runs on one instance: what they hold, what they held last, and how far apart the copies
    ended.
    """
    lines = [
        [
            NAMES[row.method],
            whole(row.objective),
            whole(row.objective_last),
            small(row.primal_residual),
            row.iterations,
        ]
        for row in rows
    ]
    return columns(["method", "potable", "last", "last residual", "iterations"], lines)


def stored(full: Results) -> Columns:
    """Of each method: runs, verified points, runs that satisfy the paper's test, iterations."""
    lines = []
    for name in E3_METHODS:
        rows = full.where(method=name)
        steps = sorted({row.iterations for row in rows if row.iterations is not None})
        span = (
            None
            if not steps
            else f"{steps[0]}"
            if steps[0] == steps[-1]
            else f"{steps[0]} to {steps[-1]}"
        )
        met = sum(row.converged is True for row in rows)
        lines.append(
            [NAMES[name], len(rows), sum(row.objective is not None for row in rows), met, span]
        )
    return columns(
        ["method", "runs", "with a verified point", "satisfy the test", "iterations"], lines
    )


def beside_exact(rows: Results) -> Columns:
    """Big-M after 300 s beside three methods on the same instance: counts, and how much sooner they
    held as much.
    """
    lines = []
    for exact in sorted(rows.where(method="bigm"), key=lambda row: row.size):
        cell = {"size": exact.size, "experiment": exact.experiment}
        rivals = [rows.one(method=name, **cell) for name in ("ssg", "dd-paper", "dd")]
        held = [None if row is None else whole(row.objective) for row in rivals]
        sooner = [
            None if row is None else rounded(same_objective_ratio(exact, row), 0) for row in rivals
        ]
        lines.append(
            [exact.size, whole(exact.objective), whole(exact.bound), *held, *map(whole, sooner)]
        )
    names = ["samples n", "Big-M", "its bound", "SSG repaired", "paper's settings", "our defaults"]
    return columns([*names, "SSG, sooner", "paper's, sooner", "ours, sooner"], lines)


def of_exact(table: Columns) -> list[float]:
    """The paper's settings over Big-M, where both hold a point."""
    pairs = zip(table["paper's settings"], table["Big-M"], strict=True)
    return [float(str(ours)) / float(str(exact)) for ours, exact in pairs if ours and exact]


def shares(found: Mapping[str, Mapping[int, Sequence[float]]], sizes: Sequence[int]) -> Columns:
    """Mean fraction of the best known value by method and size."""
    lines = []
    for name, cells in found.items():
        every = [share for cell in cells.values() for share in cell]
        lines.append(
            [NAMES[name], *(mean(cells.get(size, [])) for size in sizes), mean(every), len(every)]
        )
    return columns(["method", *(f"n = {size}" for size in sizes), "all", "runs"], lines)


def twin_seconds(with_: Results, without: Results) -> Columns:
    """Median of the processor seconds without multipliers over those with them, by size."""
    ratio = without.values("cpu_seconds") / with_.values("cpu_seconds")
    sizes = with_.values("size")
    lines = [
        [int(size), int((sizes == size).sum()), rounded(float(np.median(ratio[sizes == size])), 2)]
        for size in sorted(set(sizes))
    ]
    return columns(["samples n", "pairs", "seconds, without over with"], lines)

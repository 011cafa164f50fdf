"""Figures of E3: the gradient heuristic and Algorithm 1, with and without multipliers, against the
exact model.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ddmip_lib.plots import BLUE, INK
from ..experiments.claims.printed import (
    DD_ITERATIONS,
    DD_QUALITY,
    DD_SPEEDUPS,
    E3_SIZES_PRINTED,
    SSG_ITERATIONS,
    SSG_QUALITY,
    SSG_SPEEDUPS,
)
from ..experiments.grids import BUDGET_SIZES
from ..experiments.results import Results
from ..experiments.rows import Row
from ..experiments.tables import budgets
from .kit import (
    GREY,
    HOLLOW,
    METHOD_LOOKS,
    legend_outside,
    look,
    method_look,
    names_below,
    ranges,
    ticks_at,
)

WITH = "dd-paper"
WITHOUT = "dd-no-multipliers"
CAP = 50
"""The paper's limit of iterations."""
Instance = tuple[str, str, int, int, float | None]


def instance_of(row: Row) -> Instance:
    """What two records must share to have been run on the same problem."""
    return row.problem, row.network, row.size, row.seed, row.budget


def best_by_instance(rows: Iterable[Row]) -> dict[Instance, float]:
    """The best verified objective of each instance, whoever found it."""
    found: dict[Instance, float] = {}
    for row in rows:
        if row.objective is not None:
            known = found.setdefault(instance_of(row), row.objective)
            found[instance_of(row)] = row.sign * max(row.sign * row.objective, row.sign * known)
    return found


def twins(rows: Results, first: str = WITH, second: str = WITHOUT) -> list[tuple[Row, Row]]:
    """Pairs of runs of two methods on the same instance."""
    others = {instance_of(row): row for row in rows.where(method=second)}
    return [
        (row, others[instance_of(row)])
        for row in rows.where(method=first)
        if instance_of(row) in others
    ]


def relative_quality(
    rows: Results, method: str, reference: Mapping[Instance, float]
) -> dict[int, list[float]]:
    """By size: each run's objective over the reference of its instance; a run without a point
    counts as 0.
    """
    found: dict[int, list[float]] = {}
    for row in rows.where(method=method):
        if instance_of(row) in reference:
            found.setdefault(row.size, []).append(
                (row.objective or 0.0) / reference[instance_of(row)]
            )
    return dict(sorted(found.items()))


def speedups_of(rows: Results, method: str) -> dict[int, list[float]]:
    """By size: seconds of the exact model over seconds of the method, on instances that both have
    run.
    """
    found: dict[int, list[float]] = {}
    for exact, row in twins(rows, "bigm", method):
        if exact.seconds and row.seconds:
            found.setdefault(row.size, []).append(exact.seconds / row.seconds)
    return dict(sorted(found.items()))


def _lines(axes: Any, sizes: Sequence[int], found: Mapping[str, Mapping[int, Any]]) -> None:
    """Means by size and their range for each method, side by side."""
    for shift, (method, values) in zip(
        np.linspace(-0.24, 0.24, len(found)), found.items(), strict=True
    ):
        cells = {sizes.index(size) + shift: cell for size, cell in values.items() if size in sizes}
        ranges(axes, cells, **method_look(method, capsize=3))
    names_below(axes, [str(size) for size in sizes])


def plot_panels(rows: Results, sizes: Sequence[int] = E3_SIZES_PRINTED) -> Figure:
    """The paper's three panels: quality over the exact model's, iterations, speed-up; its own
    figures as grey signs to the left of ours. SSG as published stands in the first panel only.
    """
    figure, (quality, iterations, speed) = plt.subplots(3, 1, sharex=True, figsize=(6.2, 7.6))
    exact = {instance_of(row): row.objective for row in rows.where(method="bigm") if row.objective}
    methods = ("ssg-printed", "ssg", WITH, "dd")
    steps = {
        m: {n: rows.where(method=m, size=n).values("iterations") for n in sizes} for m in methods
    }
    _lines(quality, sizes, {method: relative_quality(rows, method, exact) for method in methods})
    _lines(iterations, sizes, {method: steps[method] for method in methods[1:]})
    _lines(speed, sizes, {method: speedups_of(rows, method) for method in methods[1:]})
    printed = (
        (quality, "ssg", dict(zip(E3_SIZES_PRINTED, SSG_QUALITY, strict=True))),
        (quality, WITH, dict(zip(E3_SIZES_PRINTED, DD_QUALITY, strict=True))),
        (iterations, "ssg", dict.fromkeys(E3_SIZES_PRINTED, SSG_ITERATIONS)),
        (iterations, WITH, dict(zip(E3_SIZES_PRINTED, DD_ITERATIONS, strict=True))),
        (speed, "ssg", {**SSG_SPEEDUPS, 60: 25.0, 80: 25.0}),
        (speed, WITH, DD_SPEEDUPS),
    )
    for axes, method, figures in printed:
        shown = {sizes.index(n) - 0.4: value for n, value in figures.items() if n in sizes}
        label = "SSG, in the paper" if method == "ssg" else "Algorithm 1, in the paper"
        axes.plot(
            list(shown),
            list(shown.values()),
            METHOD_LOOKS[method].marker,
            color=GREY,
            label=label,
            **HOLLOW,
        )
    for axes, level in ((quality, 1), (iterations, CAP), (speed, 1)):
        axes.axhline(level, color=INK, linewidth=0.8, linestyle=":")
    quality.set(ylabel="objective / Big-M's", ylim=(-0.1, max(1.15, 1.05 * quality.get_ylim()[1])))
    iterations.set(yscale="log", ylabel="iterations run", ylim=(5, 300))
    speed.set(yscale="log", ylabel="speed-up over Big-M", xlabel="samples n")
    legend_outside(figure, 2)
    return figure


def plot_shares(rows: Results, sizes: Sequence[int], reference: Mapping[Instance, float]) -> Figure:
    """Objective over the best known, mean and range over the seeds, for every size."""
    figure, axes = plt.subplots(figsize=(6.2, 3.8))
    _lines(
        axes, sizes, {m: relative_quality(rows, m, reference) for m in ("ssg", WITH, WITHOUT, "dd")}
    )
    axes.set(ylabel="objective / best known", ylim=(0, 1.05), xlabel="samples n")
    legend_outside(figure, 2)
    return figure


def plot_twins(pairs: Sequence[tuple[Row, Row]]) -> Figure:
    """Each instance with and without multipliers: the objective, and the median residual by
    iteration.
    """
    figure, (counts, residuals) = plt.subplots(1, 2, figsize=(6.2, 3.2))
    ends = np.array([[a.objective or 0, b.objective or 0] for a, b in pairs]).reshape(-1, 2)
    top = max(1.0, ends.max(initial=1.0)) * 1.05
    counts.plot([0, top], [0, top], ":", color=INK, linewidth=0.8)
    counts.plot(ends[:, 0], ends[:, 1], "o", color=BLUE, alpha=0.6)
    counts.set(
        xlabel="potable, with multipliers", ylabel="potable, without", xlim=(0, top), ylim=(0, top)
    )
    for side, (method, label) in enumerate(((WITH, "with"), (WITHOUT, "without"))):
        traces = [
            np.array(pair[side].trace["primal_residual"], dtype=float)
            for pair in pairs
            if pair[side].trace
        ]
        if traces:
            shortest = min(map(len, traces))
            median = np.median([trace[:shortest] for trace in traces], axis=0)
            style = method_look(method, label=label, linestyle="-", markevery=10)
            residuals.plot(np.arange(1, shortest + 1), median, **style)
    residuals.axhline(1e-4, color=INK, linewidth=0.8, linestyle=":")
    residuals.set(
        yscale="log", ylim=(5e-5, 1), xlabel="iteration k", ylabel="median residual |u - x|"
    )
    if residuals.get_legend_handles_labels()[0]:
        residuals.legend()
    return figure


def plot_budgets(rows: Results, sizes: Sequence[int] = E3_SIZES_PRINTED) -> Figure:
    """Potable fraction over the size, a curve for each budget: Algorithm 1 with the paper's
    settings, and price coordination; below, the rounds of the latter beside the iterations that the
    paper prints for the former.
    """
    titles = {WITH: "Algorithm 1, paper's settings", "prices": "price coordination"}
    figure, panels = plt.subplot_mosaic([list(titles), ["rounds", "rounds"]], figsize=(6.6, 6.4))
    for number, budget in enumerate(budgets.levels(rows)):
        style = look(number, label=f"γ = {budget:g}", markersize=5)
        for method, title in titles.items():
            cells = budgets.standard(rows).where(method=method, budget=budget)
            shown = sorted(cells.distinct("size"))
            shares = [
                np.mean([budgets.potable_share(row) for row in cells.where(size=n)]) for n in shown
            ]
            panels[method].plot(shown, shares, **style)
            panels[method].set(title=title, xlabel="samples n", ylim=(0, 1.05))
        shown = [
            n
            for n in sizes
            if len(budgets.standard(rows).where(method="prices", budget=budget, size=n))
        ]
        panels["rounds"].plot(
            shown, np.array(budgets.rounds(rows, budget, shown), dtype=float), **style
        )
    panels["prices"].sharey(panels[WITH])
    panels[WITH].set_ylabel("potable fraction")
    printed = {
        "color": GREY,
        "label": "in the paper",
        "markeredgewidth": 1.6,
        **HOLLOW,
        "linestyle": ":",
    }
    panels["rounds"].plot(E3_SIZES_PRINTED, DD_ITERATIONS, METHOD_LOOKS[WITH].marker, **printed)
    panels["rounds"].axhline(CAP, color=INK, linewidth=0.8, linestyle=":")
    panels["rounds"].set(xlabel="samples n", ylabel="rounds or iterations", ylim=(0, CAP + 10))
    for name, axes in panels.items():
        ticks_at(axes, E3_SIZES_PRINTED if name == "rounds" else BUDGET_SIZES)
    legend_outside(figure, 3)
    return figure

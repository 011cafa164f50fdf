"""Figures of E3: the gradient heuristic and Algorithm 1, with and without multipliers, against the exact model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from ddmip_lib.plots import BLUE, GREEN, INK, ORANGE, RED
from matplotlib.figure import Figure

from ..experiments.claims.printed import (
    DD_ITERATIONS,
    DD_QUALITY,
    DD_SPEEDUPS,
    E3_SIZES_PRINTED,
    SSG_ITERATIONS,
    SSG_QUALITY,
    SSG_SPEEDUPS,
)
from ..experiments.results import Results
from ..experiments.rows import Row

WITH, WITHOUT = "dd-paper", "dd-no-multipliers"
CAP = 50
"""The paper's limit of iterations."""
SHOWN: dict[str, tuple[str, str, str]] = {
    "ssg-printed": ("SSG as printed", "x", INK),
    "ssg": ("SSG repaired", "s", RED),
    WITH: ("Algorithm 1, paper", "o", BLUE),
    WITHOUT: ("… without multipliers", "^", GREEN),
    "dd": ("Algorithm 1, our defaults", "D", ORANGE),
}
"""Label, marker and colour of each method."""
Instance = tuple[str, str, int, int, float | None]


def instance_of(row: Row) -> Instance:
    """What two rows must share to have been run on the same problem."""
    return row.problem, row.network, row.size, row.seed, row.budget


def best_by_instance(rows: Iterable[Row]) -> dict[Instance, float]:
    """The best verified objective of each instance, whoever found it.

    >>> best_by_instance([])
    {}
    """
    found: dict[Instance, float] = {}
    for row in rows:
        if row.objective is not None:
            known = found.setdefault(instance_of(row), row.objective)
            found[instance_of(row)] = row.sign * max(row.sign * row.objective, row.sign * known)
    return found


def twins(rows: Results, first: str = WITH, second: str = WITHOUT) -> list[tuple[Row, Row]]:
    """Pairs of runs of two methods on the same instance.

    >>> twins(Results([]))
    []
    """
    others = {instance_of(row): row for row in rows.where(method=second)}
    return [(row, others[instance_of(row)]) for row in rows.where(method=first) if instance_of(row) in others]


def relative_quality(rows: Results, method: str, reference: Mapping[Instance, float]) -> dict[int, list[float]]:
    """By size: each run's objective over the reference of its instance; a run without a point counts as 0."""
    found: dict[int, list[float]] = {}
    for row in rows.where(method=method):
        if instance_of(row) in reference:
            found.setdefault(row.size, []).append((row.objective or 0.0) / reference[instance_of(row)])
    return dict(sorted(found.items()))


def speedups_of(rows: Results, method: str) -> dict[int, list[float]]:
    """By size: seconds of the exact model over seconds of the method, on instances that both have run."""
    found: dict[int, list[float]] = {}
    for exact, row in twins(rows, "bigm", method):
        if exact.seconds and row.seconds:
            found.setdefault(row.size, []).append(exact.seconds / row.seconds)
    return dict(sorted(found.items()))


def _line(
    axes: Any, sizes: Sequence[int], method: str, values: Mapping[int, Sequence[float]], shift: float = 0
) -> None:
    """Means by size and their range, moved sideways; sizes without a run stay empty."""
    label, marker, colour = SHOWN[method]
    cells = {sizes.index(size): np.array(cell) for size, cell in values.items() if size in sizes and len(cell)}
    mean = np.array([cell.mean() for cell in cells.values()])
    reach = [[m - cell.min(), cell.max() - m] for m, cell in zip(mean, cells.values(), strict=True)]
    style = {"marker": marker, "color": colour, "linestyle": "none", "label": label, "capsize": 3}
    axes.errorbar(np.array(list(cells)) + shift, mean, yerr=np.array(reach).T if reach else None, **style)


def _finish(figure: Figure, axes: Any, sizes: Sequence[int], labelled: Any) -> Figure:
    axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    axes.set(xlim=(-0.5, len(sizes) - 0.5), xlabel="samples n")
    figure.legend(*labelled.get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=9)
    return figure


def plot_panels(rows: Results, sizes: Sequence[int] = E3_SIZES_PRINTED) -> Figure:
    """The paper's three panels: quality over the exact model's, iterations, speed-up; its own figures as grey signs."""
    figure, (quality, iterations, speed) = plt.subplots(3, 1, sharex=True, figsize=(6.2, 7.6))
    exact = {instance_of(row): row.objective for row in rows.where(method="bigm") if row.objective}
    for shift, method in zip((-0.24, -0.08, 0.08, 0.24), ("ssg-printed", "ssg", WITH, "dd"), strict=True):
        steps = {n: list(rows.where(method=method, size=n).values("iterations")) for n in sizes}
        _line(quality, sizes, method, relative_quality(rows, method, exact), shift)
        _line(iterations, sizes, method, steps, shift)
        _line(speed, sizes, method, speedups_of(rows, method), shift)
    printed = (
        (quality, "ssg", dict(zip(E3_SIZES_PRINTED, SSG_QUALITY, strict=True))),
        (quality, WITH, dict(zip(E3_SIZES_PRINTED, DD_QUALITY, strict=True))),
        (iterations, "ssg", dict.fromkeys(E3_SIZES_PRINTED, SSG_ITERATIONS)),
        (iterations, WITH, dict(zip(E3_SIZES_PRINTED, DD_ITERATIONS, strict=True))),
        (speed, "ssg", {**SSG_SPEEDUPS, 60: 25.0, 80: 25.0}),
        (speed, WITH, DD_SPEEDUPS),
    )
    for axes, method, figures in printed:
        shown = {sizes.index(n): value for n, value in figures.items() if n in sizes}
        label = "SSG, in the paper" if method == "ssg" else "Algorithm 1, in the paper"
        style = {"marker": SHOWN[method][1], "markerfacecolor": "none", "color": "#777777", "markersize": 10}
        axes.plot(list(shown), list(shown.values()), linestyle="none", label=label, **style)
    for axes, level in ((quality, 1), (iterations, CAP), (speed, 1)):
        axes.axhline(level, color=INK, linewidth=0.8, linestyle=":", marker="")
    quality.set(ylabel="objective / Big-M's", ylim=(-0.1, max(1.15, 1.05 * quality.get_ylim()[1])))
    iterations.set(yscale="log", ylabel="iterations run", ylim=(5, 300))
    speed.set(yscale="log", ylabel="speed-up over Big-M")
    return _finish(figure, speed, sizes, quality)


def plot_shares(rows: Results, sizes: Sequence[int], reference: Mapping[Instance, float]) -> Figure:
    """Objective over the best known, mean and range over the seeds, for every size."""
    figure, axes = plt.subplots(figsize=(6.2, 3.8))
    for shift, method in zip((-0.24, -0.08, 0.08, 0.24), ("ssg", WITH, WITHOUT, "dd"), strict=True):
        _line(axes, sizes, method, relative_quality(rows, method, reference), shift)
    axes.set(ylabel="objective / best known", ylim=(0, 1.05))
    return _finish(figure, axes, sizes, axes)


def plot_twins(pairs: Sequence[tuple[Row, Row]]) -> Figure:
    """Each instance with and without multipliers: the objective, and the median residual by iteration."""
    figure, (counts, residuals) = plt.subplots(1, 2, figsize=(6.2, 3.2))
    ends = np.array([[a.objective or 0, b.objective or 0] for a, b in pairs]).reshape(-1, 2)
    top = max(1.0, ends.max(initial=1.0)) * 1.05
    counts.plot([0, top], [0, top], color=INK, linewidth=0.8, linestyle=":", marker="")
    counts.plot(ends[:, 0], ends[:, 1], "o", color=BLUE, alpha=0.6, linestyle="none")
    counts.set(xlabel="potable, with multipliers", ylabel="potable, without", xlim=(0, top), ylim=(0, top))
    for side, method in enumerate((WITH, WITHOUT)):
        traces = [np.array(pair[side].trace["primal_residual"], dtype=float) for pair in pairs if pair[side].trace]
        if traces:
            shortest = min(map(len, traces))
            median = np.median([trace[:shortest] for trace in traces], axis=0)
            label, marker, colour = ("with", *SHOWN[method][1:]) if side == 0 else ("without", *SHOWN[method][1:])
            k = np.arange(1, shortest + 1)
            residuals.plot(k, median, marker=marker, color=colour, markevery=10, label=label, linestyle="-")
    residuals.axhline(1e-4, color=INK, linewidth=0.8, linestyle=":", marker="")
    residuals.set(yscale="log", ylim=(5e-5, 1), xlabel="iteration k", ylabel="median residual |u - x|")
    if residuals.get_legend_handles_labels()[0]:
        residuals.legend(fontsize=9)
    return figure


def plot_lines(x: Sequence[float], curves: Mapping[str, Sequence[float]], xlabel: str, ylabel: str,
               log: str = "x") -> Figure:  # fmt: skip
    """Several curves over one axis; `log` names the axes with a logarithmic scale."""
    figure, axes = plt.subplots()
    for (label, values), cycle in zip(curves.items(), plt.rcParams["axes.prop_cycle"], strict=False):
        axes.plot(x, values, label=label, **cycle)
    axes.set(xlabel=xlabel, ylabel=ylabel, **{f"{axis}scale": "log" for axis in log})
    axes.legend(fontsize=9)
    return figure

"""Figures of column selection: evaluated points in the plane, origins of selected columns,
penalties, gains on the grid.
"""

from collections.abc import Callable, Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ddmip_lib import NeuralMIP
from ddmip_lib.plots import BLUE, INK, MARKERS, ORANGE, RED
from ddmip_lib.pricing.columns import ColumnPool
from ..examples.recovery import Visits
from ..experiments.results import Results
from ..experiments.rows import Row
from .kit import (
    METHOD_LOOKS,
    HeatMap,
    Look,
    draw_lines,
    draw_panels,
    each_cell,
    heat_maps,
    legend_outside,
    ticks_at,
)

RECOVERED = {"dd-paper": "dd-paper-recover", "dd": "dd-recover"}
"""The methods of E1 and what they are called with recovery."""


def plot_plane(
    problem: NeuralMIP, runs: Mapping[str, tuple[Sequence[np.ndarray], Visits, np.ndarray]]
) -> Figure:
    """Contours of a logit on the plane, the paths of u from each sample, columns after boundary
    search, and the selected ones.

    >>> from ddmip_book.examples.recovery import plane_network, plane_problem, visited_options
    >>> problem, path = (
    ...     plane_problem(plane_network(), np.zeros((1, 2)), 2.0),
    ...     [np.full((1, 2), 1.5)],
    ... )
    >>> len(
    ...     plot_plane(problem, {"one": (path, visited_options(problem, path), np.array([0]))}).axes
    ... )
    1
    """
    assert problem.blocks is not None
    w = problem.blocks.base
    every = np.concatenate([w, *(visits.pool.u for _, visits, _ in runs.values())])
    low = every.min(axis=0) - 0.3
    high = every.max(axis=0) + 0.3
    figure, panels = draw_panels(len(runs), 3.9, 6.6, sharex=True, sharey=True)
    for axes, (title, (path, visits, chosen)) in zip(panels, runs.items(), strict=True):
        _draw_logit(axes, problem, low, high)
        for i, sample in enumerate(w):
            steps = np.array([sample, *(u[i] for u in path)])
            label = None if i else "path of $u$"
            axes.plot(*steps.T, "o-", color=BLUE, linewidth=0.8, markersize=2.5, label=label)
        _draw_options(axes, w, visits.pool, chosen)
        axes.plot(*w.T, "s", color=INK, markersize=6, label="sample $w$")
        axes.set(title=title, xlabel="$u_1$", xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        axes.label_outer()
    panels[0].set_ylabel("$u_2$")
    legend_outside(figure, 4)
    return figure


def _draw_logit(ax: Axes, problem: NeuralMIP, low: np.ndarray, high: np.ndarray) -> None:
    xs, ys = np.linspace(low, high, 120).T
    points = np.stack(np.meshgrid(xs, ys), axis=-1)
    logit = problem.predictors[0].raw(points.reshape(-1, 2)).reshape(120, 120)
    levels = ax.contour(xs, ys, logit, [-3, -2, -1, 1], colors="#bbbbbb", linewidths=1)
    ax.clabel(levels, fontsize=8)
    ax.contour(xs, ys, logit, [0], colors=INK, linewidths=2)


def _draw_options(ax: Axes, w: np.ndarray, pool: ColumnPool, chosen: np.ndarray) -> None:
    for option in chosen:
        change = np.stack([w[pool.at[option]], pool.u[option]])
        ax.plot(*change.T, "--", color=RED, linewidth=1.4)
    ax.plot(*pool.u.T, "^", color=ORANGE, markersize=5, label="after boundary search")
    star: Look = {"color": RED, "markersize": 13, "markeredgecolor": INK}
    ax.plot(*pool.u[chosen].T, "*", label="selected", **star)


def plot_origins(
    runs: Mapping[str, tuple[np.ndarray, np.ndarray]], iterations: int, n: int
) -> Figure:
    """For each run the iteration, counted from 1, from which each selected column comes: (samples,
    iterations).

    >>> plot_origins({"weak": (np.array([0, 2]), np.array([5, 1]))}, 6, 3).axes[0].get_ylabel()
    'iteration'
    """
    figure, grid = plt.subplots(
        len(runs), 1, figsize=(6.6, 1.7 * len(runs) + 0.6), sharex=True, squeeze=False
    )
    for axes, (title, (samples, origins)), mark in zip(
        grid[:, 0], runs.items(), MARKERS, strict=False
    ):
        axes.vlines(samples, 0, origins, color="#bbbbbb", linewidth=1)
        axes.plot(samples, origins, mark, color=BLUE)
        axes.set(ylim=(0, iterations + 1), xlim=(-1, n), ylabel="iteration")
        axes.set_title(
            f"{title}: {len(samples)} selected, from {len(np.unique(origins))} iterations"
        )
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    grid[-1, 0].set_xlabel("sample")
    return figure


def plot_penalties(
    rhos: Sequence[float], table: Mapping[str, Sequence[float]], spread: Sequence[float]
) -> Figure:
    """Counts against the penalty, a curve for each name, and below the spread of the copies.

    >>> len(plot_penalties([0.1, 1.0], {"last": [1, 2], "best": [2, 2]}, [0.5, 0.1]).axes)
    2
    """
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(6.2, 4.6), sharex=True, height_ratios=[2, 1]
    )
    draw_lines(above, table, rhos)
    above.set(ylabel="samples", xscale="log")
    legend_outside(figure, 4)
    below.plot(rhos, spread, "D-", color=INK)
    below.set(xlabel=r"penalty $\rho$", ylabel="spread", ylim=(0, None))
    ticks_at(below, rhos)
    return figure


def recovery_pairs(e1: Results, e6: Results, method: str) -> list[tuple[Row, Row]]:
    """Every stored run with recovery beside the run of E1 on the same instance without it."""
    found = []
    for row in e6.where(method=RECOVERED[method], problem="water"):
        same = {name: getattr(row, name) for name in ("network", "size", "seed", "time_limit")}
        plain = e1.one(method=method, **same)
        if plain is not None and None not in (plain.objective, row.objective):
            found.append((plain, row))
    return found


def recovery_share(row: Row) -> float:
    """The fraction of a run's seconds after the last iteration of Algorithm 1."""
    return 1.0 - (row.trace["seconds"][-1] or 0.0) / (row.seconds or np.nan)


def plot_gains(e1: Results, e6: Results) -> Figure:
    """Above, the potable fraction with recovery; below, what it adds in samples; mean over the
    pairs stored.
    """
    found = {method: recovery_pairs(e1, e6, method) for method in RECOVERED}

    def cells(method: str, value: Callable[[float, float, int], float]) -> np.ndarray:
        """The mean of `value`(without, with, samples) over the pairs of each cell."""
        return each_cell(
            found[method], lambda a, b: value(a.objective or 0.0, b.objective or 0.0, b.size)
        )

    shares = [
        HeatMap(f"{METHOD_LOOKS[m].label}, recovered", cells(m, lambda a, b, n: b / n))
        for m in found
    ]
    gains = [
        HeatMap("samples gained", cells(m, lambda a, b, n: b - a), 0.0, 30.0, ".0f") for m in found
    ]
    return heat_maps([*shares, *gains])

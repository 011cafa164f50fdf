"""Figures of certificates: one block in the plane, many blocks, the bound by time, and the
certified grid of E1.
"""

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from ddmip_lib.bounds import Bounds, Graph
from ddmip_lib.certificates import Losses
from ddmip_lib.plots import BLUE, GREEN, INK, PALE_BLUE, PALE_RED, RED
from ..experiments.grids import E1_NETWORKS, E1_SIZES
from ..experiments.results import Results
from ..experiments.rows import Row
from .kit import draw_lines, draw_panels, hold, legend_outside, look


def plot_plane(
    graph: Graph, losses: Losses, radius: float, panels: Mapping[str, tuple[Bounds, float]]
) -> Figure:
    """A sample in the plane: the region of class 1, the ball, where the linear bound is zero,
    and the ball proven empty.

    >>> from ddmip_lib.bounds import Box, crown
    >>> from ddmip_book.examples.certificates import plane_graph, plane_losses
    >>> graph, losses = plane_graph(), plane_losses()
    >>> panels = {"box": (crown(graph, Box(losses.lower, losses.upper)), 0.0)}
    >>> len(plot_plane(graph, losses, 0.5, panels).axes)
    1
    """
    figure, grid = draw_panels(len(panels), 3.3, 6.8, sharey=True)
    ends = zip(losses.lower[0].tolist(), losses.upper[0].tolist(), strict=True)
    sides = [torch.linspace(low, high, 121, dtype=torch.float64) for low, high in ends]
    points = torch.stack(torch.meshgrid(*sides, indexing="xy"), -1)
    output = graph(points)[..., 0].numpy()
    cost = losses.cost(points).numpy()
    for axes, (title, (bounds, proven)) in zip(grid, panels.items(), strict=True):
        yes = axes.contourf(*sides, output, levels=[0, np.inf], colors=[PALE_RED], hatches=["///"])
        yes.set(edgecolor=RED, linewidth=0)
        axes.contour(*sides, output, levels=[0], colors=RED, linewidths=1.4)
        if proven > 0:
            axes.contourf(*sides, cost, levels=[-1, proven], colors=[PALE_BLUE])
            axes.contour(*sides, cost, levels=[proven], colors=BLUE, linewidths=1.6)
        axes.contour(*sides, cost, levels=[radius], colors=INK, linewidths=1.4, linestyles="--")
        _draw_zero(axes, sides, points, bounds)
        axes.plot(*losses.base[0].tolist(), "o", color=INK, markersize=5)
        axes.set_title(f"{title}\nproven {proven:.2f} of {radius:.2f}")
        axes.set(xlabel="$u_1$", aspect="equal")
        axes.grid(False)
    grid[0].set_ylabel("$u_2$")
    looks = {
        "class changes": (RED, "-"),
        "known cost": (INK, "--"),
        "linear bound is 0": (GREEN, "-."),
        "proven": (BLUE, "-"),
    }
    for name, (colour, dash) in looks.items():
        grid[0].plot([], [], dash, color=colour, label=name)
    legend_outside(figure, 4)
    return figure


def _draw_zero(axes: Axes, sides: list[Tensor], points: Tensor, bounds: Bounds) -> None:
    """Where the linear upper bound of the network is 0."""
    slope, constant = bounds.upper_linear
    bound = (points @ slope[0, 0] + constant[0, 0]).numpy()
    if bound.min() < 0 < bound.max():
        axes.contour(*sides, bound, levels=[0], colors=GREEN, linewidths=1.8, linestyles="-.")


def plot_blocks(proven: Mapping[str, np.ndarray], known: np.ndarray) -> Figure:
    """The cost of every sample that each method proves, beside the known cost.

    >>> plot_blocks({"interval": np.zeros(2)}, np.ones(2)).axes[0].get_ylabel()
    'cost to change the class'
    """
    figure, axes = plt.subplots(figsize=(6.4, 3.6))
    order = np.argsort(known, kind="stable")
    places = np.arange(1, len(known) + 1)
    axes.bar(
        places, known[order], 0.8, color="#E8E8E8", edgecolor=INK, linewidth=0.8, label="known"
    )
    draw_lines(
        axes, {name: values[order] for name, values in proven.items()}, linestyle="", markersize=6
    )
    axes.set(xlabel="samples that need treatment, by known cost", ylabel="cost to change the class")
    legend_outside(figure, 3)
    return figure


def plot_anytime(history: Sequence[Sequence[float]], objective: float, lp_value: float) -> Figure:
    """The bound by seconds, with the objective and the value of the linear program.

    >>> len(plot_anytime([(0.1, 9.0), (1.0, 7.5)], 7.0, 7.2).axes[0].lines)
    3
    """
    figure, axes = plt.subplots(figsize=(6.2, 3.2))
    end = max(1.05 * history[-1][0], history[0][0] + 0.1)
    axes.step(*hold(history, end), "-", where="post", color=BLUE, label="proven bound")
    axes.axhline(lp_value, color=GREEN, linestyle="-.", label="linear program, no bound")
    axes.axhline(objective, color=RED, linestyle="--", label="objective, verified")
    axes.set(xlabel="seconds", ylabel="potable", xlim=(0, end))
    legend_outside(figure, 3)
    return figure


def whole_bound(row: Row) -> float:
    """The bound of a stored certificate, as an integer where the values are.

    >>> from ddmip_book.experiments.case import Case
    >>> case = Case("e6", "water", "2x16", 50, 42, "certificate", 600.0)
    >>> whole_bound(
    ...     Row(
    ...         case.key,
    ...         **case.setting(),
    ...         status="time_limit",
    ...         details={"certificate": {"bound": 39.58}},
    ...     )
    ... )
    39.0
    """
    bound = float(row.details["certificate"]["bound"])
    return float(math.floor(bound + 1e-6)) if row.problem == "water" else bound


def gap(row: Row) -> float:
    """(bound - objective) / objective; the bound is rounded down where the values are integers."""
    assert row.objective is not None
    return max(0.0, whole_bound(row) - row.objective) / row.objective


def exact_bound(e1: Results, row: Row) -> float | None:
    """Big-M's bound after 300 s on the same instance, None where no run is stored or it ran out of
    memory.
    """
    found = e1.one(
        network=row.network, size=row.size, seed=row.seed, method="bigm", time_limit=300.0
    )
    if found is None or found.status == "memory_limit":
        return None
    return float(row.size if found.bound is None else min(found.bound, row.size))


def plot_certified(e1: Results, certified: Results) -> Figure:
    """Of every cell: objective, linear program, certified bound and Big-M's bound, as fractions of
    the samples.
    """
    figure, axes = plt.subplots(figsize=(6.6, 5.4))
    cells = [(network, size) for network in E1_NETWORKS for size in E1_SIZES]
    looks = {
        "objective": ("s", RED),
        "linear program, no bound": ("|", INK),
        "certified bound": ("o", BLUE),
        "Big-M's bound, 300 s": ("x", GREEN),
    }
    marks: dict[str, list[tuple[float, int]]] = {name: [] for name in looks}
    for row in certified:
        at = cells.index((row.network, row.size))
        values = (
            row.objective,
            row.details.get("lp_value"),
            whole_bound(row),
            exact_bound(e1, row),
        )
        for name, value in zip(looks, values, strict=True):
            if value is not None:
                marks[name].append((value / row.size, at))
        axes.plot(
            np.array([row.objective or 0.0, whole_bound(row)]) / row.size,
            [at, at],
            "-",
            color=INK,
            linewidth=1.0,
        )
    for name, (mark, colour) in looks.items():
        places = np.reshape(marks[name], (-1, 2))
        axes.plot(*places.T, mark, color=colour, label=name, markersize=11 if mark == "|" else 6)
    axes.set(xlabel="fraction of the samples", ylim=(len(cells) - 0.4, -0.6), xlim=(0, 1.03))
    axes.set_yticks(
        range(len(cells)), [f"{network}, {size}" for network, size in cells], fontsize=9
    )
    legend_outside(figure, 2)
    return figure


def plot_histories(certified: Results, size: int = 50) -> Figure:
    """Bound by seconds of the stored certificates of one size, as fractions of the samples, and
    their objectives.
    """
    figure, axes = plt.subplots(figsize=(6.4, 3.5))
    for number, network in enumerate(E1_NETWORKS):
        for row in certified.where(network=network, size=size).rows[:1]:
            told = row.details["certificate"]
            seconds, bounds = hold(told["history"], told["seconds"])
            axes.step(
                seconds, bounds / size, where="post", **look(number, marker="", label=network)
            )
            axes.plot(seconds[-1], (row.objective or 0.0) / size, **look(number, linestyle=""))
    axes.set(
        xlabel="seconds", ylabel="bound, fraction of the samples", xscale="symlog", ylim=(0, 1.03)
    )
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower left")
    return figure


def plot_safe(errors: Mapping[int, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """Errors of two bounds by the decimals of the multipliers; above 0 a bound is wrong.

    >>> len(plot_safe({2: (np.array([1e-3]), np.array([-1e-3]))}).axes)
    2
    """
    figure, panels = draw_panels(2, 3.2, 6.6, sharey=True)
    titles = ("constraint part only", "safe bound")
    for axes, title, which in zip(panels, titles, (0, 1), strict=True):
        for decimals, both in errors.items():
            places = np.full(len(both[which]), decimals)
            axes.plot(places, both[which], "o", color=(RED, BLUE)[which], alpha=0.5, markersize=4)
        axes.axhline(0.0, color=INK, linewidth=1)
        axes.set_yscale("symlog", linthresh=1e-8)
        axes.set(title=title, xlabel="decimals of the multipliers", xticks=list(errors))
        axes.set_yticks([-1e-1, -1e-4, -1e-7, 0.0, 1e-7, 1e-4, 1e-1])
    panels[0].set_ylabel("bound minus optimum")
    return figure

"""Figures of price coordination: the dual function, multipliers by rounds, the selection, the
ablation, and the grid of E1.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ddmip_lib.plots import BLUE, GREEN, INK, RED
from ddmip_lib.pricing import Blocks
from ..examples.prices import Listed
from ..experiments.grids import E1_NETWORKS, E1_SIZES
from ..experiments.results import Results, time_to
from ..experiments.rows import Row
from ..experiments.tables.prices import FULL, VARIANTS, beside_full, relative
from .e1 import by_cell, mean_share
from .kit import (
    METHOD_LOOKS,
    HeatMap,
    Look,
    draw_lines,
    draw_panels,
    heat_maps,
    legend_outside,
    look,
    method_look,
    names_below,
    ticks_at,
    whole,
)


def plot_dual(listed: Listed, paths: Mapping[str, np.ndarray], most: float = 1.0) -> Figure:
    r"""Level curves of $\theta$ over the multipliers of two resources, with their paths.

    >>> from ddmip_book.examples.prices import hand_market
    >>> plot_dual(hand_market(), {"path": np.array([[0, 0], [0.5, 0.25]])}).axes[0].get_xlabel()
    'price of resource 1'
    """
    figure, axes = plt.subplots(figsize=(6.2, 3.8))
    grid = np.linspace(0, most, 61)
    values = np.array([[listed.demand((a, b))[0] for a in grid] for b in grid])
    levels = axes.contour(
        grid, grid, values, levels=np.arange(2.5, 7, 0.25), colors=INK, linewidths=0.7, alpha=0.6
    )
    axes.clabel(levels, fontsize=8.5)
    for number, (name, path) in enumerate(paths.items()):
        axes.plot(
            *np.transpose(path), **look(number, label=name, markersize=4, clip_on=False, zorder=4)
        )
    axes.plot(
        *listed.linear().prices, "*", color=INK, markersize=15, label="lowest point", zorder=5
    )
    axes.set(
        xlim=(0, most), ylim=(0, most), xlabel="price of resource 1", ylabel="price of resource 2"
    )
    legend_outside(figure, 3)
    return figure


def plot_price_paths(
    paths: Mapping[str, Sequence[np.ndarray]], names: Sequence[str], most: int = 4
) -> Figure:
    """Multipliers by rounds, a panel for each run: the most expensive resources at the end of the
    first run.

    >>> len(plot_price_paths({"one": [np.ones(2), np.ones(2)]}, ["a", "b"]).axes)
    1
    """
    figure, panels = draw_panels(len(paths), 3.5, 6.6, sharey=True)
    dearest = np.argsort(-np.asarray(next(iter(paths.values())))[-1], kind="stable")[:most]
    for axes, (title, path) in zip(panels, paths.items(), strict=True):
        draw_lines(
            axes,
            {names[resource]: np.asarray(path)[:, resource] for resource in dearest},
            markersize=4,
        )
        axes.set(title=title, xlabel="round")
    whole(*panels)
    panels[0].set_ylabel("price")
    legend_outside(figure, 2)
    return figure


def plot_market(blocks: Blocks, prices: np.ndarray, inputs: np.ndarray) -> Figure:
    """The selection: the steps of every treated block away from its base point, and the multiplier
    of each resource.

    >>> from ddmip_book.networks import mlp
    >>> from ddmip_book.problems import water_potability
    >>> problem = water_potability(n=3, net=mlp(2, 16, 9, seed=1))
    >>> len(plot_market(problem.blocks, np.ones(18), problem.start[0] + 0.1).axes)
    2
    """
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(6.6, 4.0), width_ratios=(2.4, 1), sharey=True
    )
    p = inputs.shape[1]
    steps = inputs - blocks.base[: len(inputs)]
    moved = (np.abs(steps) > 1e-9).sum(axis=1)
    steps = steps[np.argsort(-moved, kind="stable")[: np.count_nonzero(moved)]]
    _draw_steps(left, steps, marker="^", color=BLUE)
    _draw_steps(left, -steps, marker="v", color=RED)
    names = [name.removeprefix("up ") for name in blocks.resources[:p]]
    left.set(
        xlabel="treated samples",
        yticks=range(p),
        ylim=(p - 0.4, -0.6),
        title="added (up) and taken away (down)",
    )
    left.set_yticklabels(names, fontsize=9)
    place = np.arange(p)
    right.barh(place - 0.19, prices[:p], 0.36, color=BLUE, edgecolor="white", label="to add")
    down: Look = {"color": RED, "hatch": "////", "label": "to take away"}
    right.barh(place + 0.19, prices[p : 2 * p], 0.36, edgecolor="white", **down)
    right.set(xlabel="price of one unit", title="prices")
    legend_outside(figure, 2)
    return figure


def _draw_steps(ax: Axes, steps: np.ndarray, **look: Any) -> None:
    """A mark for each positive step, the larger the step."""
    which, feature = np.nonzero(steps > 1e-9)
    size = 14 + 120 * steps[which, feature]
    ax.scatter(which + 1, feature, s=size, alpha=0.75, linewidths=0, **look)


def plot_rounds(rounds: Any) -> Figure:
    """Value of the linear program and best verified selection by rounds; below, size of the pool.

    >>> from ddmip_lib.pricing.state import Rounds
    >>> len(plot_rounds(Rounds()).axes)
    2
    """
    figure, (top, low) = plt.subplots(2, 1, figsize=(6.2, 3.8), sharex=True, height_ratios=(2, 1))
    k = rounds["k"]
    top.plot(k, rounds["lp_value"], "o-", color=BLUE, label="linear program over the pool")
    top.step(
        k, rounds["incumbent"], "s--", where="post", color=RED, label="best selection, verified"
    )
    top.set(ylabel="potable")
    top.legend()
    low.bar(k, rounds["options"], color=GREEN, width=0.6)
    low.set(xlabel="round", ylabel="columns")
    return figure


def promised_share(cell: Results) -> float:
    """Mean value of the linear program, divided by the samples, over the runs of a cell; NaN
    without a run.
    """
    shares = [
        row.details["lp_value"] / row.size
        for row in cell
        if row.details.get("lp_value") is not None
    ]
    return float(np.mean(shares)) if shares else float("nan")


def plot_grid(e1: Results, e6: Results) -> Figure:
    """Potable fraction, network by size: the exact model, Algorithm 1, price coordination, and its
    linear program.
    """
    paid = e6.where(method="prices", problem="water")
    promised = paid.pivot("network", "size", promised_share, E1_NETWORKS, E1_SIZES)
    return heat_maps(
        [
            HeatMap("Big-M, 300 s", by_cell(e1, "bigm", mean_share)),
            HeatMap("Algorithm 1, our defaults", by_cell(e1, "dd", mean_share)),
            HeatMap(
                "price coordination",
                paid.pivot("network", "size", mean_share, E1_NETWORKS, E1_SIZES),
            ),
            HeatMap("its linear program, no bound", promised),
        ]
    )


def pairs(e1: Results, e6: Results, method: str = "dd") -> list[tuple[Row, Row]]:
    """Records of price coordination with those of an earlier method on the same instance, where
    that fitted in memory.
    """
    found = []
    for row in e6.where(method="prices", problem="water"):
        other = e1.one(
            network=row.network, size=row.size, seed=row.seed, method=method, time_limit=300.0
        )
        if other is None or other.status == "memory_limit":
            continue
        if row.size in E1_SIZES and row.network in E1_NETWORKS:
            found.append((other, row))
    return found


def sooner(other: Row, row: Row) -> float:
    """How much sooner price coordination held what the other run ended with: t_other(v) /
    t_prices(v).
    """
    assert other.objective is not None
    return time_to(other, other.objective) / time_to(row, other.objective)


def plot_sooner(e1: Results, e6: Results) -> Figure:
    """How much sooner price coordination holds what Algorithm 1 ends with, a mark for each pair of
    runs.
    """
    figure, axes = plt.subplots(figsize=(6.6, 3.6))
    cells = [(network, size) for network in E1_NETWORKS for size in E1_SIZES]
    for method, shift in (("dd-paper", -0.15), ("dd", 0.15)):
        found = pairs(e1, e6, method)
        at = [cells.index((row.network, row.size)) + shift for _, row in found]
        heights = [max(sooner(*pair), 0.01) for pair in found]
        label = f"than Algorithm 1, {METHOD_LOOKS[method].label}"
        axes.plot(
            at,
            heights,
            **method_look(method, linestyle="", markersize=5.5, alpha=0.75, label=label),
        )
    axes.axhline(1.0, color=INK, linewidth=1.2, linestyle="--")
    axes.set(yscale="log", ylabel="times sooner", xlabel="network and samples")
    names_below(axes, [f"{network} {size}" for network, size in cells], rotation=90, fontsize=9)
    legend_outside(figure, 2)
    return figure


def slope(rows: Results, field: str = "seconds") -> float:
    """Exponent a of the fit field ~ n^a over stored sizes, NaN for fewer than three."""
    if len(rows) < 3:
        return float("nan")
    return float(np.polyfit(np.log(rows.values("size")), np.log(rows.values(field)), 1)[0])


def plot_scaling(rows: Results) -> Figure:
    """Seconds in all and in the NN block, and peak memory, against the number of samples."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(6.6, 3.4))
    ordered = Results(sorted(rows, key=lambda row: row.size))
    n = ordered.values("size")
    draw_lines(
        left, {"in all": ordered.values("seconds"), "NN block": ordered.values("seconds_nn")}, n
    )
    right.plot(n, ordered.values("peak_memory") / 1024, "^-", color=GREEN)
    for axes, title in ((left, "seconds"), (right, "peak memory, GiB")):
        axes.set(title=title, xlabel="samples $n$", xscale="log", xlim=(80, 6500))
        ticks_at(axes, [100, 1000, 5000])
    if len(n):
        left.set_yscale("log")
        right.set_ylim(0, None)
    left.legend()
    return figure


def plot_ablation(rows: Results) -> Figure:
    """Objective without each part of price coordination, relative to the full method.

    >>> len(plot_ablation(Results([])).axes[0].get_yticklabels())
    4
    """
    figure, axes = plt.subplots(figsize=(6.4, 2.8))
    variants = [method for method in VARIANTS if method != FULL]
    for place, method in enumerate(variants):
        values = relative(beside_full(rows, method))
        axes.plot(values, [place] * len(values), "o", color=BLUE, alpha=0.5, markersize=5)
        if values:
            axes.plot(np.mean(values), place, "|", color=RED, markersize=18, markeredgewidth=2.5)
    axes.axvline(1.0, color=INK, linestyle="--", linewidth=1)
    axes.set(xlabel="objective, relative to the full method", ylim=(len(variants) - 0.5, -0.5))
    axes.set_yticks(range(len(variants)), [VARIANTS[method] for method in variants])
    return figure

"""Figures of the first experiment: the paper's heat maps, incumbents over time, times to the same
objective.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ddmip_lib.plots import ORANGE
from ..experiments.grids import E1_NETWORKS, E1_SIZES
from ..experiments.results import Results, qualifying_pairs
from .kit import (
    METHOD_LOOKS,
    HeatMap,
    beside,
    heat_maps,
    hold,
    legend_outside,
    look,
    method_look,
    names_below,
    plain_log,
    ticks_at,
)

SHOWN = ("bigm", "dd-paper", "dd", "dd-graph", "prices")
NEVER = 0.01
"""Where a ratio of zero is drawn on a logarithmic axis."""


def mean_share(cell: Results, field: str = "objective") -> float:
    """Mean potable fraction of the runs that hold a point, NaN where none does."""
    shares = cell.values(field) / cell.values("size")
    found = shares[np.isfinite(shares)]
    return float(found.mean()) if len(found) else float("nan")


def mean_seconds(cell: Results) -> float:
    """Mean processor seconds; of a run that was ended from outside, what the clock on the wall
    said.

    A run that ran out of memory has no time of its own and is left out.
    """
    rows = [row for row in cell if row.status != "memory_limit"]
    times = [row.seconds if row.cpu_seconds is None else row.cpu_seconds for row in rows]
    known = [time for time in times if time is not None]
    return float(np.mean(known)) if known else float("nan")


def all_cut(cell: Results) -> bool:
    """Whether the time limit ended every run that has a time, so that a mean of their times is at
    most the true one.
    """
    return all(row.status == "time_limit" for row in cell if row.status != "memory_limit")


def by_cell(full: Results, method: str, value: Callable[[Results], float]) -> np.ndarray:
    """One number for each network (down) and size (across) of the grid, NaN where nothing is
    stored.
    """
    return full.where(method=method, time_limit=300.0).pivot(
        "network", "size", value, E1_NETWORKS, E1_SIZES
    )


def plot_rates(full: Results) -> Figure:
    """Potable fraction, network by size: the exact model, the paper's settings (best and last
    iterate), our defaults.
    """
    last = by_cell(full, "dd-paper", lambda cell: mean_share(cell, "objective_last"))
    return heat_maps(
        [
            HeatMap("Big-M, 300 s", by_cell(full, "bigm", mean_share)),
            HeatMap("paper's settings, last iterate", last),
            HeatMap("paper's settings, best iterate", by_cell(full, "dd-paper", mean_share)),
            HeatMap("our defaults, best iterate", by_cell(full, "dd", mean_share)),
        ]
    )


def plot_times(full: Results) -> Figure:
    """Processor seconds of Algorithm 1, and the ratio of running times that the paper calls a
    speed-up; "at least" where the time limit ended all Big-M runs of a cell.
    """
    times = {method: by_cell(full, method, mean_seconds) for method in ("bigm", "dd-paper", "dd")}
    cut = by_cell(full, "bigm", all_cut) == 1
    ratio = times["bigm"] / times["dd-paper"]
    return heat_maps(
        [
            HeatMap("paper's settings, s", times["dd-paper"], 0.3, 100, ".1f", log=True),
            HeatMap("our defaults, s", times["dd"], 0.3, 100, ".0f", log=True),
            HeatMap("Big-M / paper's settings", ratio, 1, 1000, ".0f", cut, log=True),
        ]
    )


def plot_profiles(full: Results, cells: Sequence[tuple[str, int]], seed: int) -> Figure:
    """Best verified potable fraction against wall-clock seconds, a panel for each (network, size);
    an open triangle where the time limit ended a run.
    """
    down = (len(cells) + 1) // 2
    size_of = (6.6, 2.3 * down + 0.4)
    figure, grid = plt.subplots(down, 2, figsize=size_of, sharex=True, sharey=True, squeeze=False)
    for axes, (network, size) in zip(grid.flat, cells, strict=False):
        for row in full.where(
            network=network, size=size, seed=seed, method=SHOWN, time_limit=300.0
        ):
            if row.incumbents:
                times, values = hold(row.incumbents, row.seconds or 0)
                axes.step(
                    times, values / size, where="post", **method_look(row.method, markersize=4)
                )
                if row.status == "time_limit":
                    ink = {
                        "facecolors": "white",
                        "edgecolors": METHOD_LOOKS[row.method].color,
                        "zorder": 3,
                    }
                    axes.scatter(
                        times[-1],
                        values[-1] / size,
                        42,
                        marker=">",
                        label="ended by its time limit",
                        **ink,
                    )
        axes.set(title=f"{network}, $n$ = {size}", xscale="log", xlim=(0.03, 400), ylim=(0, 1.05))
    for axes in grid.flat[len(cells) :]:
        axes.remove()
    legend_outside(figure, 3)
    figure.supxlabel("seconds since the call", fontsize=10.5)
    figure.supylabel("potable fraction", fontsize=10.5)
    return figure


def plot_ratios(full: Results, methods: Sequence[str] = ("dd-paper", "dd")) -> Figure:
    """Time to the same verified objective, Big-M's over the method's, a mark for each qualifying
    run; open marks, with their number where they are several, for runs that never held it.
    """
    figure, axes = plt.subplots(figsize=(6.6, 3.8))
    pairs = {method: qualifying_pairs(full, method) for method in methods}
    qualify = {(exact.network, exact.size) for found in pairs.values() for exact, _, _ in found}
    cells = [cell for cell in product(E1_NETWORKS, (*E1_SIZES, 500)) if cell in qualify]
    for shift, (method, found) in zip(
        np.linspace(-0.17, 0.17, len(methods)), pairs.items(), strict=True
    ):
        places = [
            (cells.index((exact.network, exact.size)) + shift, ratio) for exact, _, ratio in found
        ]
        reached = [place for place in places if place[1] > 0]
        axes.plot(
            *zip(*reached, strict=True) if reached else ([], []),
            **method_look(method, linestyle="", markersize=6, alpha=0.8),
        )
        hollow = method_look(method, label="", linestyle="", markersize=6, markerfacecolor="white")
        for at, count in Counter(at for at, ratio in places if ratio == 0).items():
            axes.plot(at, NEVER, **hollow)
            if count > 1:
                beside(axes, f"{count}", (at, NEVER), (0, 5), ha="center", fontsize=9)
    axes.axhspan(10, 100, color=ORANGE, alpha=0.18, label="the paper's 10 to 100")
    axes.set(yscale="log", ylim=(0.6 * NEVER, 2e4), ylabel="times sooner than Big-M")
    axes.set_yticks(
        [NEVER, 0.1, 1, 10, 100, 1000, 1e4], ["never", "0.1", "1", "10", "100", "1,000", "10,000"]
    )
    names = [f"{network}\n{size}" for network, size in cells]
    names_below(axes, names, fontsize=9, rotation=90 if len(cells) > 12 else 0)
    axes.set_xlabel("network and samples" if cells else "no run qualifies yet")
    legend_outside(figure, 3)
    return figure


def plot_growth(full: Results) -> Figure:
    """Variables (lines: formula; marks: models built), seconds to build, memory (arrows: at least)
    against `n`.
    """
    figure, axes = plt.subplots(1, 3, figsize=(6.8, 3.3))
    n = np.array(E1_SIZES)
    for number, network in enumerate(E1_NETWORKS):
        depth, width = map(int, network.split("x"))
        axes[0].plot(n, n * (29 + 3 * depth * width), **look(number, marker=""))
        rows = [
            row
            for row in full.where(method="bigm", network=network, seed=42)
            if row.size in E1_SIZES
        ]
        cut = [(row.size, row.peak_memory) for row in rows if row.status == "memory_limit"]
        rows = [row for row in rows if row.status != "memory_limit"]
        values = [
            (row.size, row.details.get("model_variables"), row.build_seconds, row.peak_memory)
            for row in rows
        ]
        for place, column in zip(axes, (1, 2, 3), strict=True):
            known = np.array(
                [(row[0], row[column]) for row in values if row[column] is not None], dtype=float
            )
            if len(known):
                place.plot(*known.T, **look(number, linestyle="", markersize=6))
        if cut:
            sizes, memory = np.array(cut, dtype=float).T
            axes[2].plot(
                sizes, memory, **look(number, linestyle="", marker=r"$\uparrow$", markersize=11)
            )
        axes[0].plot([], [], **look(number, label=network))
    for place, title in zip(axes, ("variables", "seconds to build", "memory, MiB"), strict=True):
        place.set(title=title, xscale="log", yscale="log", xlabel="samples $n$", xlim=(20, 500))
        ticks_at(place, [25, 100, 400])
        if place is not axes[0]:
            plain_log(place.yaxis)
            place.margins(y=0.15)
    legend_outside(figure, 4)
    return figure

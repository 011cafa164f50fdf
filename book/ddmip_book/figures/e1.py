"""Figures of the first experiment: the paper's heat maps, incumbents over time, times to the same objective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from ddmip_lib.plots import BLUE, DASHES, GREEN, INK, MARKERS, ORANGE, PINK, RED
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, StrMethodFormatter

from ..experiments.grids import E1_NETWORKS, E1_SIZES
from ..experiments.methods import METHODS
from ..experiments.results import Results, same_objective_ratio
from ..experiments.rows import Row

STYLES = {
    "bigm": (INK, DASHES[3]),
    "dd-paper": (RED, DASHES[1]),
    "dd": (BLUE, DASHES[0]),
    "dd-graph": (GREEN, DASHES[2]),
    "prices": (PINK, DASHES[4]),
}
MARKS = {"bigm": "x", "dd-paper": "s", "dd": "o", "dd-graph": "^", "prices": "D"}
NEVER = 0.01
"""Where a ratio of zero is drawn on a logarithmic axis."""
SHORT = {"bigm": "Big-M", "dd-paper": "paper's settings", "dd": "our defaults", "dd-graph": "graph split",
         "prices": "price coordination"}  # fmt: skip


def mean_share(cell: Results, field: str = "objective") -> float:
    """Mean potable share of the runs that hold a point, NaN where none does.

    >>> mean_share(Results([]))
    nan
    """
    shares = cell.values(field) / cell.values("size")
    found = shares[np.isfinite(shares)]
    return float(found.mean()) if len(found) else float("nan")


def mean_seconds(cell: Results) -> float:
    """Mean processor seconds; of a run that was ended from outside, what the clock on the wall said.

    A run that ran out of memory has no time of its own and is left out.

    >>> mean_seconds(Results([]))
    nan
    """
    rows = [row for row in cell if row.status != "memory_limit"]
    times = [row.seconds if row.cpu_seconds is None else row.cpu_seconds for row in rows]
    known = [time for time in times if time is not None]
    return float(np.mean(known)) if known else float("nan")


def by_cell(full: Results, method: str, value: Callable[[Results], float]) -> np.ndarray:
    """One number for each network (down) and size (across) of the grid, NaN where nothing is stored.

    >>> by_cell(Results([]), "dd", mean_share).shape
    (4, 5)
    """
    return full.where(method=method, time_limit=300.0).pivot("network", "size", value, E1_NETWORKS, E1_SIZES)


def _heat(axes: Axes, values: np.ndarray, title: str, low: float, high: float, form: str) -> None:
    axes.imshow(values, vmin=low, vmax=high, cmap="Blues", aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        dark = np.isfinite(value) and value > low + 0.6 * (high - low)
        word = format(value, form) if np.isfinite(value) else "–"
        axes.text(j, i, word, ha="center", va="center", color="white" if dark else INK, fontsize=10)
    axes.set(title=title, xticks=range(len(E1_SIZES)), yticks=range(len(E1_NETWORKS)), xlabel="samples $n$")
    axes.set_xticklabels([str(size) for size in E1_SIZES])
    axes.set_yticklabels(E1_NETWORKS)
    axes.grid(False)
    axes.title.set_fontsize(10.5)


def plot_rates(full: Results) -> Figure:
    """Potable share, network by size: the exact model, the paper's settings (best and last iterate), our defaults.

    >>> len(plot_rates(Results([])).axes)
    4
    """
    figure, axes = plt.subplots(2, 2, figsize=(6.6, 5.0), sharex=True, sharey=True)
    last = by_cell(full, "dd-paper", lambda cell: mean_share(cell, "objective_last"))
    panels = [
        (by_cell(full, "bigm", mean_share), "Big-M, 300 s"),
        (last, "paper's settings, last iterate"),
        (by_cell(full, "dd-paper", mean_share), "paper's settings, best iterate"),
        (by_cell(full, "dd", mean_share), "our defaults, best iterate"),
    ]
    for place, (values, title) in zip(axes.flat, panels, strict=True):
        _heat(place, values, title, 0.0, 1.0, ".2f")
        place.label_outer()
    return figure


def plot_times(full: Results) -> Figure:
    """Base-ten logarithm of processor seconds, and the ratio of seconds that the paper calls a speed-up.

    >>> [axes.get_title() for axes in plot_times(Results([])).axes][0]
    'Big-M'
    """
    figure, axes = plt.subplots(2, 2, figsize=(6.6, 5.0), sharex=True, sharey=True)
    times = {method: by_cell(full, method, mean_seconds) for method in ("bigm", "dd-paper", "dd")}
    for place, (method, values) in zip(axes.flat, times.items(), strict=False):
        _heat(place, np.log10(values), SHORT[method], -0.5, 2.8, ".1f")
        place.label_outer()
    _heat(axes[1, 1], times["bigm"] / times["dd-paper"], "Big-M over paper's settings", 0, 400, ".0f")
    axes[1, 1].label_outer()
    return figure


def plot_profiles(full: Results, cells: Sequence[tuple[str, int]], seed: int) -> Figure:
    """Best verified potable share against wall-clock seconds, a panel for each (network, size).

    >>> len(plot_profiles(Results([]), [("2x16", 25), ("4x32", 50)], 42).axes)
    2
    """
    figure, grid = plt.subplots((len(cells) + 1) // 2, 2, figsize=(6.6, 2.3 * ((len(cells) + 1) // 2) + 0.4),
                                sharex=True, sharey=True, squeeze=False)  # fmt: skip
    for axes, (network, size) in zip(grid.flat, cells, strict=False):
        for row in full.where(network=network, size=size, seed=seed, method=list(STYLES), time_limit=300.0):
            if not row.incumbents:
                continue
            colour, dashes = STYLES[row.method]
            found = np.array([*row.incumbents, [max(row.seconds or 0, row.incumbents[-1][0]), row.incumbents[-1][1]]])
            axes.step(found[:, 0], found[:, 1] / size, where="post", color=colour, linestyle=dashes,
                      marker=MARKS[row.method], markersize=4, label=SHORT[row.method])  # fmt: skip
        axes.set(title=f"{network}, $n$ = {size}", xscale="log", xlim=(0.03, 400), ylim=(0, 1.05))
        axes.title.set_fontsize(10.5)
    for axes in grid.flat[len(cells) :]:
        axes.remove()
    named = {label: line for axes in figure.axes for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    if named:
        figure.legend(named.values(), named.keys(), loc="outside upper center", ncols=4, fontsize=9.5)
    figure.supxlabel("seconds since the call", fontsize=10.5)
    figure.supylabel("potable share", fontsize=10.5)
    return figure


def qualifying_pairs(full: Results, method: str) -> list[tuple[Row, Row, float]]:
    """Every qualifying run: the exact row, the method's row on the same instance, and the ratio of their times.

    >>> qualifying_pairs(Results([]), "dd")
    []
    """
    found = []
    for exact in full.where(method="bigm"):
        other = full.one(method=method, network=exact.network, size=exact.size, seed=exact.seed)
        ratio = None if other is None else same_objective_ratio(exact, other)
        if other is not None and ratio is not None:
            found.append((exact, other, ratio))
    return found


def plot_ratios(full: Results, methods: Sequence[str] = ("dd-paper", "dd")) -> Figure:
    """Time to the same verified objective, Big-M's over the method's, a mark for each qualifying run.

    >>> plot_ratios(Results([])).axes[0].get_ylabel()
    'times sooner than Big-M'
    """
    figure, axes = plt.subplots(figsize=(6.6, 3.8))
    pairs = {method: qualifying_pairs(full, method) for method in methods}
    qualify = {(exact.network, exact.size) for found in pairs.values() for exact, _, _ in found}
    cells = [cell for cell in product(E1_NETWORKS, (*E1_SIZES, 500)) if cell in qualify]
    for shift, (method, found) in zip(np.linspace(-0.17, 0.17, len(methods)), pairs.items(), strict=True):
        at = [cells.index((exact.network, exact.size)) + shift for exact, _, _ in found]
        heights = [max(ratio, NEVER) for _, _, ratio in found]
        axes.plot(at, heights, MARKS[method], color=STYLES[method][0], label=SHORT[method], markersize=6, alpha=0.8)
    axes.axhspan(10, 100, color=ORANGE, alpha=0.18, label="the paper's 10 to 100")
    axes.set(
        yscale="log", ylim=(0.6 * NEVER, 2e4), xlim=(-0.6, max(0.6, len(cells) - 0.4)), ylabel="times sooner than Big-M"
    )
    axes.set_yticks([NEVER, 0.1, 1, 10, 100, 1000, 1e4], ["never", "0.1", "1", "10", "100", "1,000", "10,000"])
    names = [f"{network}\n{size}" for network, size in cells]
    axes.set_xticks(range(len(cells)), names, fontsize=9, rotation=90 if len(cells) > 12 else 0)
    axes.set_xlabel("network and samples" if cells else "no run qualifies yet")
    figure.legend(loc="outside upper center", ncols=3, fontsize=9.5)
    return figure


def plot_growth(full: Results) -> Figure:
    """Variables (lines: the formula; marks: models that were built), seconds of building and memory against `n`.

    >>> len(plot_growth(Results([])).axes)
    3
    """
    figure, axes = plt.subplots(1, 3, figsize=(6.8, 3.3))
    n = np.array(E1_SIZES)
    handles: list[Line2D] = []
    for number, network in enumerate(E1_NETWORKS):
        depth, width = map(int, network.split("x"))
        colour, mark = (BLUE, RED, GREEN, INK)[number], MARKERS[number]
        axes[0].plot(n, n * (29 + 3 * depth * width), color=colour, linestyle=DASHES[number], marker="")
        look: dict[str, Any] = {"color": colour, "linestyle": DASHES[number], "marker": mark}
        handles.append(Line2D([], [], label=network, **look))
        rows = [row for row in full.where(method="bigm", network=network, seed=42) if row.size in E1_SIZES]
        values = [[row.details.get("model_variables") for row in rows], [row.build_seconds for row in rows],
                  [row.peak_memory for row in rows]]  # fmt: skip
        for place, column in zip(axes, values, strict=True):
            known = [(row.size, v) for row, v in zip(rows, column, strict=True) if v is not None]
            if known:
                place.plot(*np.transpose(known), mark, linestyle="", color=colour, markersize=6)
    for place, title in zip(axes, ("variables", "seconds to build", "memory, MiB"), strict=True):
        place.set(title=title, xscale="log", yscale="log" if place.lines else "linear", xlabel="samples $n$")
        place.set_xlim(20, 500)
        place.set_xticks([25, 100, 400], ["25", "100", "400"])
        place.minorticks_off()
        if place is not axes[0] and place.lines:
            place.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            place.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
            place.margins(y=0.15)
        place.title.set_fontsize(10.5)
    figure.legend(handles=handles, loc="outside upper center", ncols=4, fontsize=9.5)
    return figure


assert set(STYLES) <= set(METHODS)

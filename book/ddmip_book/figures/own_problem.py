"""Figures of one's own problems: a recipe among random ones, loads of a kiln, a shared supply, and what runs say."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ddmip_lib.plots import BLUE, GREEN, INK, PALE_BLUE, RED
from ..experiments.rows import Row
from .kit import GREY, legend_outside


def plot_recipes(outcomes: np.ndarray, costs: np.ndarray, kept: np.ndarray, answer: Sequence[float],
                 limits: tuple[float, float]) -> Figure:  # fmt: skip
    """Random recipes by what the network predicts of them: those that keep the rows, the others, and the answer.

    >>> outcomes, kept = np.array([[21, 30], [10, 50]]), np.array([True, False])
    >>> plot_recipes(outcomes, np.array([5, 4]), kept, [20, 35], (20, 35)).axes[0].get_xlabel()
    'strength, MPa'
    """
    figure, ax = plt.subplots(figsize=(6.4, 3.8))
    ax.plot(*outcomes[~kept].T, "x", color=GREY, markersize=3.5, alpha=0.5, label="breaks a row")
    shades = ax.scatter(
        outcomes[kept, 0], outcomes[kept, 1], c=costs[kept], cmap="viridis", s=26, edgecolor=INK, linewidth=0.4
    )
    shades.set_label("keeps all rows")
    ax.plot(*answer, "*", color=RED, markersize=17, markeredgecolor="white", label="the answer", zorder=5)
    ax.axvline(limits[0], color=INK, linestyle="--", linewidth=1.2)
    ax.axhline(limits[1], color=INK, linestyle="--", linewidth=1.2)
    near = [(limit - below, limit + above) for limit, below, above in zip(limits, (4.5, 7), (3.5, 22), strict=True)]
    ax.set(xlabel="strength, MPa", ylabel="curing time, minutes", xlim=near[0], ylim=near[1])
    figure.colorbar(shades, ax=ax, label="cost, euros a part")
    legend_outside(figure, 3)
    return figure


def plot_loads(loads: np.ndarray, mass: np.ndarray, glazed: np.ndarray, thick: np.ndarray, capacity: float,
               titles: Sequence[str]) -> Figure:  # fmt: skip
    """Which orders go into which firing, as bars of kilograms with their number; hatched: glazed, dotted: thick-walled.

    >>> orders = np.ones(2, dtype=bool), np.zeros(2, dtype=bool)
    >>> plot_loads(np.eye(2), np.array([5, 7]), *orders, 10, ["first", "second"]).axes[0].get_xlabel()
    'kilograms'
    """
    figure, ax = plt.subplots(figsize=(6.4, 2.6))
    for k, load in enumerate(loads.T):
        left = 0.0
        for order in np.flatnonzero(load > 0.5):
            hatch = "////" * bool(glazed[order]) + ".." * bool(thick[order])
            colour = PALE_BLUE if not thick[order] else "#f6d3bd"
            ax.barh(k, mass[order], 0.6, left=left, color=colour, edgecolor=INK, hatch=hatch, linewidth=1.0)
            middle = left + mass[order] / 2
            ax.text(middle, k, str(order + 1), ha="center", va="center",
                    bbox={"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": INK})  # fmt: skip
            left += mass[order]
    ax.axvline(capacity, color=RED, linestyle="--", label="what the kiln holds")
    for name, hatch, colour in (("glazed", "////", PALE_BLUE), ("thick-walled", "..", "#f6d3bd")):
        ax.bar(0, 0, edgecolor=INK, label=name, hatch=hatch, facecolor=colour)
    ax.set(yticks=range(len(titles)), yticklabels=titles, xlabel="kilograms", ylim=(len(titles) - 0.45, -0.55))
    ax.grid(visible=False)
    legend_outside(figure, 3)
    return figure


def plot_stores(outside: np.ndarray, inside: np.ndarray, fans: np.ndarray, won: np.ndarray) -> Figure:
    """What each store does with its share of the power, the hottest to the right: degrees, fans, and tonnes won.

    >>> len(plot_stores(np.array([20, 30]), np.array([5, 3]), np.array([0, 2]), np.array([1, 2])).axes)
    2
    """
    figure, (top, low) = plt.subplots(2, 1, figsize=(6.4, 4.2), sharex=True, height_ratios=(1.5, 1))
    order = np.argsort(outside, kind="stable")
    place = np.arange(1, len(order) + 1)
    top.vlines(place, inside[order], outside[order], color=GREY, linewidth=1.0)
    top.plot(place, outside[order], "o", color=RED, markersize=8, label="outside")
    top.plot(place, inside[order], "s", color=BLUE, markersize=8, label="inside")
    for x, count in zip(place, np.rint(fans[order]).astype(int), strict=True):
        word = {0: "", 1: "1 fan"}.get(int(count), f"{count} fans")
        top.annotate(word, (x, inside[order][x - 1]), (6, 6), textcoords="offset points", fontsize=9)
    top.set(ylabel="degrees Celsius", ylim=(0, None))
    low.bar(place, won[order], 0.65, color=GREEN, edgecolor=INK)
    low.set(xlabel="store, from the coolest to the hottest place", ylabel="tonnes won", xticks=place)
    legend_outside(figure, 2)
    return figure


def plot_gap(points: Mapping[str, float], bound: float, start: float) -> Figure:
    """Objectives of some plans below a proven bound, all as bars from a plan without effort.

    >>> plot_gap({"prices": 3.0}, 4.0, 1.0).axes[0].get_xlabel()
    'tonnes saleable'
    """
    figure, ax = plt.subplots(figsize=(6.4, 1.1 + 0.42 * len(points)))
    names = list(points)
    ax.barh(names, [points[name] - start for name in names], 0.55, left=start, color=PALE_BLUE, edgecolor=INK)
    for name in names:
        ax.annotate(f"{points[name]:.2f}", (points[name], name), (4, 0), textcoords="offset points", va="center")
    ax.axvline(bound, color=RED, linestyle="--", label=f"proved: at most {bound:.2f}")
    ax.set(xlabel="tonnes saleable", xlim=(start, bound + 0.18 * (bound - start)))
    ax.invert_yaxis()
    legend_outside(figure, 1)
    return figure


class Cell(NamedTuple):
    """What runs of one method on one kind of problem say: runs, those with a point, distance, seconds."""

    runs: int
    found: int
    distance: float  #: Median, from the best known objective, relative; infinite where nothing is found.
    seconds: float  #: Median.


KINDS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "few combinations": lambda f: f["points"] is not None,
    "blocks": lambda f: f["blocks"] > 1,
    "whole inputs": lambda f: f["whole"] > 0,
    "continuous inputs alone": lambda f: f["whole"] == 0,
    "rows on outputs": lambda f: f["output_rows"] > 0,
    "ReLU alone": lambda f: list(f["activations"]) == ["ReLU"],
    "other layers": lambda f: list(f["activations"]) != ["ReLU"],
}
"""What can be seen of a problem, told from the features that a row of the suite stores."""


def choice_cells(rows: Iterable[Row]) -> dict[str, dict[str, Cell]]:
    """By kind of problem and method: how far from the best known objective of each model, after how many seconds.

    The best known objective is the best that any of these rows holds, so it is found, not proved. Runs that a method
    refused are left out; a model counts under every kind that it has.
    """
    rows = [row for row in rows if row.status != "refused"]
    best: dict[tuple[Any, ...], float] = {}
    for row in rows:
        if row.objective is not None:
            best[_model(row)] = max(best.get(_model(row), -np.inf), row.sign * row.objective)
    cells: dict[str, dict[str, Cell]] = {}
    for kind, fits in KINDS.items():
        own = [row for row in rows if _model(row) in best and fits(row.details["features"])]
        for method in dict.fromkeys(row.method for row in own):
            runs = [row for row in own if row.method == method]
            off = [_distance(row, best[_model(row)]) for row in runs]
            seconds = [np.nan if row.seconds is None else row.seconds for row in runs]
            found = sum(row.objective is not None for row in runs)
            cell = Cell(len(runs), found, float(np.median(off)), float(np.median(seconds)))
            cells.setdefault(kind, {})[method] = cell
    return cells


def _model(row: Row) -> tuple[Any, ...]:
    return row.problem, row.network, row.size


def _distance(row: Row, best: float) -> float:
    if row.objective is None:
        return np.inf
    return (best - row.sign * row.objective) / max(1.0, abs(best))


def plot_choice(cells: Mapping[str, Mapping[str, Cell]], labels: Mapping[str, str] | None = None) -> Figure:
    """The decision chart: features down, methods across; in each cell the median distance and the median seconds.

    >>> cells = {"tanh": {"dd": Cell(3, 3, 0.021, 4.0), "bigm": Cell(3, 0, np.inf, 60.0)}}
    >>> [text.get_text() for text in plot_choice(cells).axes[0].texts]
    ['2.1 %\\n4.0 s', 'nothing\\n60 s']
    """
    if not cells:
        figure, ax = plt.subplots(figsize=(6.6, 1.2))
        ax.text(0.5, 0.5, "no rows of the suite are stored yet", ha="center", va="center")
        ax.set_axis_off()
        return figure
    methods = list(dict.fromkeys(method for line in cells.values() for method in line))
    names = [(labels or {}).get(method, method) for method in methods]
    values = np.array([[line[m].distance if m in line else np.nan for m in methods] for line in cells.values()])
    figure, ax = plt.subplots(figsize=(6.6, 1.4 + 0.52 * len(cells)))
    shade = np.log10(np.clip(np.nan_to_num(values, nan=0.0, posinf=1.0), 1e-4, 1.0))
    ax.imshow(shade, vmin=-4, vmax=0, cmap="Blues", aspect="auto")
    for i, j in np.ndindex(values.shape):
        line = list(cells.values())[i]
        dark = shade[i, j] > -1.6
        ax.text(j, i, _said(line.get(methods[j])), ha="center", va="center", fontsize=9, color="white" if dark else INK)
    ax.set_xticks(range(len(methods)), names, rotation=20, ha="right")
    ax.set_yticks(range(len(cells)), list(cells))
    ax.grid(visible=False)
    return figure


def _said(cell: Cell | None) -> str:
    if cell is None:
        return "–"
    seconds = f"{cell.seconds:.1f} s" if cell.seconds < 10 else f"{cell.seconds:.0f} s"
    return f"nothing\n{seconds}" if np.isinf(cell.distance) else f"{100 * cell.distance:.2g} %\n{seconds}"

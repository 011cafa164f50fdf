"""Figures of the seventh experiment, the suite: how far methods are from the best known values, and
what suits what.
"""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ddmip_lib.plots import BLUE, COLOURS, DASHES, INK, MARKERS
from ..experiments.rows import Row
from ..experiments.suite import (
    NEAR,
    REFUSED,
    Choice,
    chart,
    distances,
    methods_of,
    models_of,
    profile,
)
from .kit import GREY, legend_outside

__all__ = ["chart", "distances", "plot_chart", "plot_distances", "plot_profile", "profile", "short"]
SHORT = {
    "solve": "solve",
    "sequential": "SequentialMIP",
    "dd": "Algorithm 1, our defaults",
    "dd-graph": "… graph split",
    "dd-paper": "… paper's settings",
    "ssg": "SSG repaired",
    "prices": "price coordination",
    "bigm": "Big-M",
    "enumeration": "enumeration",
    "random-points": "random feasible points",
    "relax-walk": "relax-and-walk",
    "gradient-walk": "gradient walk",
    "omlt-highs": "OMLT with HiGHS",
    "gurobi-ml": "gurobi-machinelearning",
}
WITHIN = np.logspace(-4, 0, 81)
"""Relative distances of a profile, from 0.01 % to 100 %."""
PEERS = {
    "omlt-highs": {"color": INK, "linestyle": "-", "marker": "X", "markersize": 6},
    "gurobi-ml": {"color": INK, "linestyle": "--", "marker": "*", "markersize": 8},
}
FIRST = ("solve", "sequential", "dd")
"""Drawn in strong colours."""


def short(method: str) -> str:
    """A method's name in the figures.

    >>> short("relax-walk")
    'relax-and-walk'
    """
    return SHORT.get(method, method)


def _look(method: str) -> dict[str, Any]:
    """Own methods in the book's colours, rivals thinner."""
    at = list(SHORT).index(method) if method in SHORT else len(SHORT)
    strong = method in FIRST
    colour = COLOURS[at] if at < len(COLOURS) else GREY
    look = {
        "color": colour,
        "linestyle": DASHES[at % len(DASHES)],
        "marker": MARKERS[at % len(MARKERS)],
        "linewidth": 2.2 if strong else 1.2,
        "markersize": 4,
        "label": short(method),
    }
    return look | PEERS.get(method, {})


def plot_profile(rows: Sequence[Row], methods: Sequence[str] | None = None) -> Axes:
    """The share of the models within each distance of the best known value, one line for each
    method.
    """
    ax = plt.subplots(figsize=(6.2, 4.2))[1]
    shares = profile(rows, WITHIN)
    for method in methods_of(rows) if methods is None else methods:
        at = list(SHORT).index(method) if method in SHORT else 0
        ax.plot(
            100 * WITHIN,
            100 * shares[method],
            markevery=(2 * at % 16, 16),
            drawstyle="steps-post",
            **_look(method),
        )
    ax.axvline(100 * NEAR, color=INK, linewidth=0.8)
    ax.set(
        xscale="log",
        xlabel="distance to the best known value, %",
        ylabel="models within it, %",
        ylim=(-2, 102),
    )
    ax.set_xticks([0.01, 0.1, 1, 10, 100], ["0.01", "0.1", "1", "10", "100"])
    legend_outside(ax.figure, 2, "lower")
    return ax


def plot_distances(rows: Sequence[Row], methods: Sequence[str] | None = None) -> Axes:
    """Median distance of every method on every model as a map: darker is closer, a dot is a run
    without a point.
    """
    names = models_of(rows)
    shown = list(methods_of(rows) if methods is None else methods)
    gaps = distances(rows)
    values = np.full((len(names), len(shown)), np.nan)
    for (i, name), (j, method) in ((a, b) for a in enumerate(names) for b in enumerate(shown)):
        if name in gaps.get(method, {}):
            values[i, j] = np.median(gaps[method][name])
    ax = plt.subplots(figsize=(6.6, 0.24 * len(names) + 1.8))[1]
    depth = np.where(np.isfinite(values), -np.log10(np.maximum(values, 1e-4)), np.nan)
    ax.imshow(depth, cmap="Blues", vmin=-1, vmax=5.5, aspect="auto")
    for (i, j), value in np.ndenumerate(values):
        dark = np.isfinite(value) and value < 3e-3
        ax.text(
            j, i, _word(value), ha="center", va="center", fontsize=7, color="white" if dark else INK
        )
    ax.set_yticks(range(len(names)), names, fontsize=8)
    ax.set_xticks(
        range(len(shown)), [short(method) for method in shown], rotation=40, ha="right", fontsize=8
    )
    ax.grid(visible=False)
    return ax


def _word(value: float) -> str:
    """A distance in per cent; a dash where the method refuses, a cross where it found nothing."""
    if np.isnan(value):
        return "–"
    if np.isinf(value):
        return "×"
    return "0" if value < 5e-5 else f"{100 * value:.2g}" if value < 1 else ">100"


def plot_chart(choices: Sequence[Choice], methods: Sequence[str] = FIRST) -> Axes:
    """Seconds until a method is within 1 % of the best known value, model by model; no mark where
    it never was.
    """
    ax = plt.subplots(figsize=(6.2, 0.22 * len(choices) + 1.6))[1]
    for method in methods:
        known = [
            (choice.seconds[method], at)
            for at, choice in enumerate(choices)
            if method in choice.seconds
        ]
        if known:
            seconds, places = zip(*known, strict=True)
            ax.plot(
                np.maximum(seconds, 1e-2),
                places,
                **_look(method) | {"linestyle": "", "markersize": 6},
            )
    ax.axvline(1.0, color=BLUE, linewidth=0.6)
    ax.set_yticks(range(len(choices)), [choice.model for choice in choices], fontsize=8)
    ax.set(
        xscale="log",
        xlabel="seconds until within 1 % of the best known value",
        ylim=(len(choices) - 0.4, -0.6),
    )
    legend_outside(ax.figure, 3, "lower")
    return ax


def refusals(rows: Sequence[Row]) -> dict[str, list[str]]:
    """By method, the models that it declines."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.status == REFUSED:
            found.setdefault(row.method, []).append(row.network)
    return found

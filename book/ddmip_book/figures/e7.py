"""Figures of the seventh experiment, the suite: how far methods are from the best known values, and
what suits what.
"""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ddmip_lib.plots import COLOURS, DASHES, INK, MARKERS
from ..experiments.rows import Row
from ..experiments.suite import (
    NEAR,
    methods_of,
    profile,
)
from .kit import GREY, legend_outside

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
STRONG = ("solve", "sequential", "dd")
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
    strong = method in STRONG
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
    """The share of the models within each distance of the best known value, one curve for each
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

"""One style for all figures: colour-blind safe, on white, told apart by markers and dashes as well as colour."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
from cycler import cycler

BLUE, RED, GREEN, PINK, ORANGE, INK = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#333333"
PALE_BLUE, PALE_RED, PALE = "#E3F0F8", "#FBE9DF", "#F4F4F4"
COLOURS = (BLUE, RED, GREEN, PINK, ORANGE, INK)
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P")

STYLE: dict[str, Any] = {
    "figure.figsize": (6.2, 3.4),
    "figure.dpi": 160,
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "savefig.facecolor": "white",
    "axes.facecolor": "white",
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=COLOURS) + cycler(linestyle=DASHES) + cycler(marker=MARKERS),
    "font.size": 10.5,
    "grid.color": "#dddddd",
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "text.color": INK,
    "lines.markersize": 5,
}


def use_style() -> None:
    """Set matplotlib to the book's style; the first cell of a chapter calls it.

    >>> use_style()
    >>> plt.rcParams["figure.facecolor"]
    'white'
    """
    plt.rcParams.update(STYLE)  # type: ignore[arg-type]

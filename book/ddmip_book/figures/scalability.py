"""Figures about cost: power laws with their fits, and where the time of an iteration goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from ddmip_lib.plots import COLOURS, INK, MARKERS, PALE_BLUE, RED
from matplotlib.axes import Axes

from ..examples.costs import PowerLaw

Curve = tuple[Sequence[float], Sequence[float], PowerLaw | None]


def plot_power_laws(curves: Mapping[str, Curve], xlabel: str, ylabel: str, ax: Axes | None = None) -> Axes:
    """Measured points on logarithmic axes, each kind with its own mark, and the fitted line where there is one.

    >>> from ddmip_book.examples.costs import power_law
    >>> x, y = [1, 10, 100], [1, 9, 110]
    >>> plot_power_laws({"dense": (x, y, power_law(x, y))}, "P", "s").get_xscale()
    'log'
    """
    ax = plt.subplots()[1] if ax is None else ax
    for i, (name, (x, y, law)) in enumerate(curves.items()):
        colour, label = COLOURS[i], name
        if law is not None:
            label += f": slope {law.slope:.2f} ± {law.error:.2f}"
            line = np.geomspace(min(x), max(x), 30)
            ax.plot(line, law(line), color=colour, marker="", linestyle="--")
        ax.plot(x, y, MARKERS[i], color=colour, linestyle="", label=label)
    ax.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
    ax.legend()
    return ax


def plot_shares(names: Sequence[str], mip: Sequence[float], nn: Sequence[float]) -> Axes:
    """Stacked bars: milliseconds of an iteration in the MIP block and in the NN block.

    >>> len(plot_shares(["2x16", "4x32"], [1.0, 1.1], [2.0, 3.0]).patches)
    4
    """
    ax = plt.subplots()[1]
    place = np.arange(len(names))
    ax.bar(place, nn, bottom=mip, color=PALE_BLUE, edgecolor=INK, hatch="//", label="NN block")
    ax.bar(place, mip, color=RED, edgecolor=INK, label="MIP block")
    ax.set_xticks(place, names)
    ax.set(xlabel="network", ylabel="milliseconds of an iteration")
    ax.legend(loc="upper left")
    return ax

"""Figures about cost: power laws with their fits, and where the time of an iteration goes."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ddmip_lib.plots import COLOURS, INK, PALE_BLUE, RED
from ..examples.costs import PowerLaw
from .kit import look, names_below

FITTED = 3
"""How many of the largest sizes a power law is fitted to."""
Curve = tuple[Sequence[float], Sequence[float], PowerLaw | None]


def plot_power_laws(curves: Mapping[str, Curve], xlabel: str, ylabel: str) -> Axes:
    """Measured points on logarithmic axes, each kind with its own mark; where there is a fitted
    line, it is drawn over the sizes that it was fitted to, and nowhere else.

    >>> from ddmip_book.examples.costs import power_law
    >>> x, y = [1, 10, 100], [1, 9, 110]
    >>> plot_power_laws({"dense": (x, y, power_law(x, y))}, "P", "s").get_xscale()
    'log'
    """
    ax = plt.subplots()[1]
    for i, (name, (x, y, law)) in enumerate(curves.items()):
        label = name
        if law is not None:
            label += f": slope {law.slope:.2f} ± {law.error:.2f}"
            ends = np.sort(x)[[-FITTED, -1]]
            ax.plot(ends, law(ends), "--", color=COLOURS[i])
        ax.plot(x, y, **look(i, linestyle="", label=label))
    lowest = min(float(np.min(y)) for _, y, _ in curves.values())
    ax.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel, ylim=(lowest / 3, None))
    ax.legend()
    return ax


def plot_shares(names: Sequence[str], mip: Sequence[float], nn: Sequence[float]) -> Axes:
    """Stacked bars: milliseconds of an iteration in the MIP block and in the NN block.

    >>> len(plot_shares(["2x16", "4x32"], [1.0, 1.1], [2.0, 3.0]).patches)
    4
    """
    ax = plt.subplots()[1]
    ax.bar(
        range(len(names)),
        nn,
        bottom=mip,
        color=PALE_BLUE,
        edgecolor=INK,
        hatch="//",
        label="NN block",
    )
    ax.bar(range(len(names)), mip, color=RED, edgecolor=INK, label="MIP block")
    names_below(ax, names)
    ax.set(xlabel="network", ylabel="milliseconds of an iteration")
    ax.legend(loc="upper left")
    return ax

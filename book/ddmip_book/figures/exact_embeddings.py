"""Figures of the chapter on exact embeddings."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from ddmip_lib.plots import BLUE, INK, PALE_BLUE, RED
from matplotlib.axes import Axes

from .kit import beside, draw_lines, draw_panels, look, plain_log, ticks_at


def plot_envelopes(pairs: Sequence[tuple[float, float]]) -> np.ndarray:
    """The ReLU and its triangle over each $[M^-, M^+]$, side by side on the same axes.

    >>> plot_envelopes([(-1.0, 1.0), (-2.0, 3.0)]).shape
    (2,)
    """
    axes = draw_panels(len(pairs), 2.9, sharex=True, sharey=True)[1]
    for ax, (low, high) in zip(axes, pairs, strict=True):
        ax.fill([low, 0, high], [0, 0, high], facecolor=PALE_BLUE, edgecolor=BLUE, linestyle="--", hatch="//")
        ax.plot([low, 0, high], [0, 0, high], "-", color=INK, linewidth=2.4)
        top = -low * high / (high - low)
        arrow = {"arrowstyle": "<->", "color": RED, "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", (0, 0), (0, top), arrowprops=arrow)
        ax.plot([low, high], [0, high], "o", color=INK)
        ax.set(title=f"$M^-={low:g}$, $M^+={high:g}$\narea {-low * high / 2:g}", xlabel="$a$")
    axes[0].set_ylabel("$z$")
    return np.asarray(axes)


def plot_widths(widths: Mapping[str, Any]) -> Axes:
    """Width of what is known about a unit, layer by layer, log scale; one line for each way to know it.

    >>> plot_widths({"seen": [1.0, 2.0], "intervals": [1.0, 9.0]}).get_yscale()
    'log'
    """
    ax = plt.subplots()[1]
    draw_lines(ax, widths, markersize=6)
    for label, values in widths.items():
        beside(ax, label, (len(values), values[-1]), (8, 0), va="center")
    count = len(next(iter(widths.values())))
    ax.set(yscale="log", xlabel="layer (the last one is the logit)", ylabel="mean width", xlim=(0.8, 1.2 * count))
    ax.set_xticks(range(1, count + 1))
    return ax


def plot_nodes(radii: Sequence[float], runs: Mapping[str, Any]) -> Axes:
    """Nodes of a search (log scale) against the radius of a box; `runs` maps a label to one pair (ambiguous units,
    nodes) for each radius, and the units are written at the marks.

    >>> plot_nodes([0.1, 0.2], {"CROWN": [(3, 5), (9, 80)]}).get_xlabel()
    'radius of the box'
    """
    ax = plt.subplots()[1]
    for number, (label, pairs) in enumerate(runs.items()):
        units, nodes = np.array(pairs, dtype=float).T
        ax.loglog(radii, nodes, **look(number, markersize=6, label=label))
        shift, side = ((-5, 5), "right") if number == 0 else ((5, -12), "left")
        for r, count, height in zip(radii, units, nodes, strict=True):
            beside(ax, f"{count:.0f}", (r, height), shift, ha=side, fontsize=9.5)
    ax.set(xlabel="radius of the box", ylabel="nodes", xlim=(0.85 * min(radii), 1.18 * max(radii)))
    ax.set_ylim(0.7 * ax.get_ylim()[0], 1.4 * ax.get_ylim()[1])
    ticks_at(ax, radii)
    ax.legend(loc="upper left")
    return ax


def plot_sweep(sizes: Sequence[int], seconds: Mapping[str, Any], limit: float) -> Axes:
    """Seconds to a proof against the number of samples, log scale; infinite where none came, a cross at the limit.

    >>> plot_sweep([1, 2], {"SOS1": [0.1, 2.0]}, limit=2.0).get_ylabel()
    'seconds'
    """
    ax = plt.subplots()[1]
    times = {label: np.asarray(values, dtype=float) for label, values in seconds.items()}
    draw_lines(ax, {label: np.minimum(values, limit) for label, values in times.items()}, sizes, markersize=6)
    late = [n for values in times.values() for n, time in zip(sizes, values, strict=True) if not np.isfinite(time)]
    ax.plot(late, [limit] * len(late), "x", color=INK, markersize=12, markeredgewidth=2, label="stopped")
    ax.axhline(limit, color=INK, linestyle=":", linewidth=1.2)
    beside(ax, "time limit", (sizes[0], limit), (0, 4), fontsize=9.5)
    ax.set(yscale="log", xlabel="samples $n$", ylabel="seconds", xticks=list(sizes), ylim=(None, 2.2 * limit))
    plain_log(ax.yaxis)
    ax.legend(loc="lower right")
    return ax

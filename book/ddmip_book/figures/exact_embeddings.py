"""Figures of the chapters on exact formulations, bound propagation and exact models."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ddmip_lib.plots import BLUE, INK, PALE_BLUE, RED
from .kit import beside, draw_lines, draw_panels, look, names_below, ranges, ticks_at


def plot_envelopes(pairs: Sequence[tuple[float, float]]) -> np.ndarray:
    """The ReLU and its triangle over each $[M^-, M^+]$, side by side on the same axes.

    >>> plot_envelopes([(-1.0, 1.0), (-2.0, 3.0)]).shape
    (2,)
    """
    axes = draw_panels(len(pairs), 2.9, sharex=True, sharey=True)[1]
    for ax, (low, high) in zip(axes, pairs, strict=True):
        ax.fill(
            [low, 0, high],
            [0, 0, high],
            facecolor=PALE_BLUE,
            edgecolor=BLUE,
            linestyle="--",
            hatch="//",
        )
        ax.plot([low, 0, high], [0, 0, high], "-", color=INK, linewidth=2.4)
        top = -low * high / (high - low)
        arrow = {"arrowstyle": "<->", "color": RED, "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", (0, 0), (0, top), arrowprops=arrow)
        ax.plot([low, high], [0, high], "o", color=INK)
        ax.set(title=f"$M^-={low:g}$, $M^+={high:g}$\narea {-low * high / 2:g}", xlabel="$a$")
    axes[0].set_ylabel("$z$")
    return np.asarray(axes)


def plot_widths(widths: Mapping[str, Any]) -> Axes:
    """Mean width of the range of a unit by layer, on a logarithmic scale; one curve for each
    method.

    >>> plot_widths({"seen": [1.0, 2.0], "intervals": [1.0, 9.0]}).get_yscale()
    'log'
    """
    ax = plt.subplots()[1]
    draw_lines(ax, widths, markersize=6)
    for label, values in widths.items():
        beside(ax, label, (len(values), values[-1]), (8, 0), va="center")
    count = len(next(iter(widths.values())))
    ax.set(
        yscale="log",
        xlabel="layer (the last one is the logit)",
        ylabel="mean width",
        xlim=(0.8, 1.2 * count),
    )
    ax.set_xticks(range(1, count + 1))
    return ax


def plot_nodes(radii: Sequence[float], runs: Mapping[str, Any]) -> Axes:
    """Nodes of a search (log scale) against the radius of a box; `runs` maps a label to one pair
    (ambiguous units, nodes) for each radius, and the units are written at the marks.

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


def plot_sweep(
    found: Mapping[int, Sequence[float]],
    caps: Mapping[int, Sequence[float]],
    ended: Mapping[int, int],
) -> Axes:
    """Fractions of the samples by size: potable in the best solution (mean and range), and the
    upper bound; numbers count the runs that were solved.

    >>> ax = plot_sweep({5: [1.0], 10: [0.7, 0.9]}, {5: [1.0], 10: [1.0, 1.0]}, {5: 1, 10: 0})
    >>> [text.get_text() for text in ax.texts]
    ['1 of 1', '0 of 2']
    """
    ax = plt.subplots()[1]
    places = {size: float(at) for at, size in enumerate(found)}
    looks: dict[str, Any] = {"markersize": 7, "capsize": 4}
    for shares, style in (
        (caps, look(1, label="upper bound")),
        (found, look(0, label="best solution")),
    ):
        ranges(ax, {places[size]: cell for size, cell in shares.items()}, **looks, **style)
    for size, at in places.items():
        beside(
            ax, f"{ended[size]} of {len(found[size])}", (at, 1.0), (0, 9), ha="center", fontsize=9.5
        )
    names_below(ax, [str(size) for size in found])
    ax.set(xlabel="samples $n$ in one model", ylabel="fraction of the samples", ylim=(0, 1.14))
    ax.legend(loc="lower left")
    return ax

"""Figures of the chapter on exact embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from ddmip_lib.plots import BLUE, COLOURS, DASHES, INK, MARKERS, PALE_BLUE, RED
from matplotlib.axes import Axes


def plot_envelopes(pairs: Sequence[tuple[float, float]]) -> np.ndarray:
    """The ReLU and its triangle over each $[M^-, M^+]$, side by side on the same axes.

    >>> plot_envelopes([(-1.0, 1.0), (-2.0, 3.0)]).shape
    (2,)
    """
    axes = plt.subplots(1, len(pairs), sharex=True, sharey=True, figsize=(6.2, 2.9), squeeze=False)[1][0]
    for ax, (low, high) in zip(axes, pairs, strict=True):
        ax.fill([low, 0, high], [0, 0, high], facecolor=PALE_BLUE, edgecolor=BLUE, linestyle="--", hatch="//")
        ax.plot([low, 0, high], [0, 0, high], color=INK, linestyle="-", marker="", linewidth=2.4)
        top = -low * high / (high - low)
        arrow = {"arrowstyle": "<->", "color": RED, "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", (0, 0), (0, top), arrowprops=arrow)
        ax.plot([low, high], [0, high], color=INK, linestyle="none", marker="o")
        ax.set_title(f"$M^-={low:g}$, $M^+={high:g}$\narea {-low * high / 2:g}", fontsize=10.5)
        ax.set_xlabel("$a$")
    axes[0].set_ylabel("$z$")
    return np.asarray(axes)


def plot_widths(widths: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Width of what is known about a unit, layer by layer, log scale; one line for each way to know it.

    >>> plot_widths({"seen": [1.0, 2.0], "intervals": [1.0, 9.0]}).get_yscale()
    'log'
    """
    ax = plt.subplots()[1] if ax is None else ax
    for number, (label, values) in enumerate(widths.items()):
        ax.semilogy(range(1, len(values) + 1), values, color=COLOURS[number], linestyle=DASHES[number],
                    marker=MARKERS[number], markersize=6)  # fmt: skip
        ax.annotate(label, (len(values), values[-1]), xytext=(8, 0), textcoords="offset points", va="center")
    count = len(next(iter(widths.values())))
    ax.set(xlabel="layer (the last one is the logit)", ylabel="mean width", xlim=(0.8, 1.2 * count))
    ax.set_xticks(range(1, count + 1))
    return ax


def plot_nodes(radii: Sequence[float], runs: Mapping[str, Any], ax: Axes | None = None) -> Axes:
    """Nodes of a search (log scale) against the radius of a box; `runs` maps a label to one pair (ambiguous units,
    nodes) for each radius, and the units are written at the marks.

    >>> plot_nodes([0.1, 0.2], {"CROWN": [(3, 5), (9, 80)]}).get_xlabel()
    'radius of the box'
    """
    ax = plt.subplots()[1] if ax is None else ax
    for number, (label, pairs) in enumerate(runs.items()):
        units, nodes = np.array(pairs, dtype=float).T
        ax.loglog(radii, nodes, color=COLOURS[number], linestyle=DASHES[number], marker=MARKERS[number],
                  markersize=6, label=label)  # fmt: skip
        shift, side = ((-5, 5), "right") if number == 0 else ((5, -12), "left")
        for r, count, height in zip(radii, units, nodes, strict=True):
            ax.annotate(f"{count:.0f}", (r, height), xytext=shift, textcoords="offset points", ha=side, fontsize=9.5)
    ax.set(xlabel="radius of the box", ylabel="nodes", xlim=(0.85 * min(radii), 1.18 * max(radii)))
    ax.set_ylim(0.7 * ax.get_ylim()[0], 1.4 * ax.get_ylim()[1])
    ax.set_xticks(list(radii), [f"{r:g}" for r in radii])
    ax.minorticks_off()
    ax.legend(loc="upper left")
    return ax


def plot_sweep(sizes: Sequence[int], seconds: Mapping[str, Any], limit: float, ax: Axes | None = None) -> Axes:
    """Seconds to a proof against the number of samples, log scale; infinite where none came, a cross at the limit.

    >>> plot_sweep([1, 2], {"SOS1": [0.1, 2.0]}, limit=2.0).get_ylabel()
    'seconds'
    """
    ax = plt.subplots()[1] if ax is None else ax
    for number, (label, values) in enumerate(seconds.items()):
        late = ~np.isfinite(np.asarray(values, dtype=float))
        values = np.minimum(np.asarray(values, dtype=float), limit)
        ax.semilogy(sizes, values, color=COLOURS[number], linestyle=DASHES[number], marker=MARKERS[number],
                    markersize=6, label=label)  # fmt: skip
        ax.plot(np.asarray(sizes)[late], values[late], color=INK, linestyle="none", marker="x", markersize=12,
                markeredgewidth=2, label="stopped" if number == len(seconds) - 1 else None)  # fmt: skip
    ax.axhline(limit, color=INK, linestyle=":", linewidth=1.2)
    ax.annotate("time limit", (sizes[0], limit), xytext=(0, 4), textcoords="offset points", fontsize=9.5)
    ax.set(xlabel="samples $n$", ylabel="seconds", xticks=list(sizes), ylim=(None, 2.2 * limit))
    low, high = ax.get_ylim()
    ticks = [tick for power in range(-2, 5) for tick in (10.0**power, 2 * 10.0**power, 5 * 10.0**power)]
    shown = [tick for tick in ticks if low <= tick <= high]
    ax.set_yticks(shown, [f"{tick:g}" for tick in shown])
    ax.minorticks_off()
    ax.legend(loc="lower right")
    return ax

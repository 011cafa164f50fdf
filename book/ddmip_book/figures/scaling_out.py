"""Figures of scaling out: what a serial fraction allows, and a model and measurements of more
workers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from ddmip_lib.plots import BLUE, GREEN, INK, RED
from ..experiments.scaling import Cost
from .kit import legend_outside

STYLES = ((BLUE, "-"), (GREEN, "--"), (RED, "-."), (INK, ":"))


def plot_ceiling(shares: Sequence[float] = (0.1, 0.01, 0.001), most: int = 10_000) -> Figure:
    """Speed-up against workers where a fraction of the work is sequential.

    >>> plot_ceiling().axes[0].get_ylabel()
    'speed-up'
    """
    figure, ax = plt.subplots(figsize=(6.4, 3.4))
    workers = np.geomspace(1, most, 100)
    ax.loglog(
        workers, workers, "-", marker="", color=INK, linewidth=0.8, label="perfectly parallel"
    )
    for share, (colour, line) in zip(shares, STYLES, strict=False):
        ax.loglog(
            workers,
            1 / (share + (1 - share) / workers),
            line,
            color=colour,
            label=f"{100 * share:g} % sequential",
        )
    ax.axvline(1000, color=INK, linewidth=0.8, linestyle=":")
    ax.set(xlabel="workers", ylabel="speed-up")
    legend_outside(figure, 4)
    return figure


def plot_efficiency(
    cost: Cost, sizes: Mapping[int, int], seen: Mapping[int, float], most: int = 1024
) -> Figure:
    """Efficiency by the model, one curve for each number of blocks (and shards), and as `seen` with
    some workers.

    >>> figure = plot_efficiency(Cost(0.0, 1e-3, 1e-5), {1000: 16, 10**6: 123}, {2: 0.8})
    >>> [float(end) for end in figure.axes[0].get_ylim()]
    [0.0, 1.05]
    """
    figure, ax = plt.subplots(figsize=(6.4, 3.4))
    workers = np.geomspace(1, most, 200)
    for (n, shards), (colour, line) in zip(sizes.items(), STYLES, strict=False):
        values = [cost.efficiency(n, w, shards) for w in workers]
        ax.semilogx(
            workers, values, line, color=colour, label=f"{n:,} blocks, {shards} shards, predicted"
        )
    for k, (count, value) in enumerate(seen.items()):
        label = f"{next(iter(sizes)):,} blocks, measured" if not k else None
        ax.plot(count, min(value, 1.05), "o", color=INK, label=label)
    ax.set(xlabel="workers", ylabel="efficiency", ylim=(0.0, 1.05))
    legend_outside(figure, 2)
    return figure


def plot_speedups(
    rows: Sequence[Mapping[str, Any]], times: Mapping[str, Sequence[float]]
) -> Figure:
    """Speed-ups that were measured with some processes, and that of a round by the formula.

    >>> rows = [{"processes": 1, "seconds_networks": 3.0, "seconds_rest": 1.0}]
    >>> len(plot_speedups(rows, {"round": [1.0]}).axes[0].lines)
    3
    """
    figure, ax = plt.subplots(figsize=(6.4, 3.4))
    counts = np.array([row["processes"] for row in rows])
    networks = rows[0]["seconds_networks"]
    rest = rows[0]["seconds_rest"]
    ax.plot(counts, counts, "-", marker="", color=INK, linewidth=0.8, label="linear speed-up")
    ax.plot(
        counts,
        (networks + rest) / (networks / counts + rest),
        ":",
        marker="",
        color=BLUE,
        label="round, model",
    )
    for (name, values), (colour, line) in zip(times.items(), STYLES, strict=False):
        ax.plot(counts, values, line, marker="o", color=colour, label=name)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    ticks = [str(count) for count in counts]
    ax.set_xticks(counts, ticks)
    ax.set_yticks(counts, ticks)
    ax.set(xlabel="processes", ylabel="speed-up")
    legend_outside(figure, 3)
    return figure

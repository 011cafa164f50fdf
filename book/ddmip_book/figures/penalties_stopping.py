"""Figures of the chapter on penalties and stopping."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ddmip_lib.plots import BLUE, GREEN, INK, ORANGE, RED, legend_below
from ..examples.tiny import Path, quadratic
from .kit import Look, legend_outside, look, whole


def plot_picks(paths: Mapping[int, Path], shown: Sequence[int]) -> tuple[Axes, Axes]:
    """Left: $u^k$ of the runs named by `shown`; right: the final $x$ of each run against its key.

    >>> from ddmip_book.examples.tiny import quadratic
    >>> run = quadratic([[0], [1]], centre=0.5).run(2.0, 3)
    >>> len(plot_picks({10: run, 11: run}, shown=[10])[0].get_lines())
    1
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(6.2, 3.2), width_ratios=(3, 2), sharey=True)
    for number, key in enumerate(shown):
        u = paths[key].u[: max(shown) + 9, 0]
        style = look(
            number, markersize=4.5, markevery=(2 * number, 4), label=f"first raised after {key}"
        )
        left.plot(np.arange(1, len(u) + 1), u, **style)
    left.set(xlabel="iteration $k$", ylabel="$u^k$ (left), final $x$ (right)")
    legend_below(left, 1)
    right.plot(
        list(paths), [path.x[-1, 0] for path in paths.values()], "s:", color=INK, markersize=7
    )
    right.set(xlabel="first raised after iteration", yticks=[0, 0.5, 1])
    whole(right)
    return left, right


def plot_opening() -> tuple[Axes, Axes]:
    """Ten runs on two decisions that differ only in when the penalty is raised.

    >>> _, right = plot_opening()
    >>> sorted({float(x) for x in right.get_lines()[0].get_ydata()})
    [0.0, 1.0]
    """
    two = quadratic([[0], [1]], curvature=1.0, centre=0.5, cost=-1 / 50)
    runs = {}
    for first in range(10, 20):
        rule = partial(lambda path, first: 0.5 if len(path.rows) < first else 2.5, first=first)
        runs[first] = two.run(rule, steps=60, u=0.3, lam=0.2)
    return plot_picks(runs, shown=[10, 11])


def plot_rules(histories: Mapping[str, Any]) -> list[Axes]:
    """Runs under different rules, a panel each: residual and penalty (log scale), and the best
    count so far.

    >>> history = {"primal_residual": [1.0, 0.1], "rho": [1.0, 2.0], "incumbent": [3.0, 4.0]}
    >>> [ax.get_title() for ax in plot_rules({"one rule": history})]
    ['one rule']
    """
    rows = -(-len(histories) // 2)
    figure, grid = plt.subplots(
        rows, 2, figsize=(6.6, 0.9 + 1.7 * rows), sharex=True, sharey=True, squeeze=False
    )
    counts = [np.asarray(history["incumbent"], dtype=float) for history in histories.values()]
    low = min(np.nanmin(c) for c in counts)
    high = max(np.nanmax(c) for c in counts)
    panels = list(grid.flat)[: len(histories)]
    for place, (ax, (label, history)) in enumerate(zip(panels, histories.items(), strict=True)):
        _draw_positive(ax, history["primal_residual"], "-", color=RED, label="residual")
        _draw_positive(ax, history["rho"], ":", color=INK, label="penalty")
        other = ax.twinx()
        k = np.arange(1, len(counts[place]) + 1)
        best: Look = {"color": BLUE, "linewidth": 2.2, "label": "best so far (right scale)"}
        other.step(k, counts[place], "-", where="post", **best)
        other.set(ylim=(low - 0.5, high + 0.5))
        other.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        other.grid(visible=False)
        other.tick_params(labelright=place % 2 == 1)
        ax.set_title(label, fontsize=9.5)
        whole(ax)
    for ax in grid[-1]:
        ax.set_xlabel("iteration")
    for ax in grid[len(histories) // 2 + len(histories) % 2 :].flat:
        ax.set_visible(False)
    legend_outside(figure, 3, "lower")
    return panels


def _draw_positive(ax: Axes, values: Any, style: str, **look: Any) -> None:
    """The values by iteration on a log scale, with gaps where they are 0."""
    values = np.asarray(values, dtype=float)
    k = np.arange(1, len(values) + 1)
    ax.semilogy(k, np.where(values > 0, values, np.nan), style, marker="", **look)


def plot_price_cycle(x: Any, u: Any, lam: Any, threshold: float) -> tuple[Axes, Axes]:
    r"""One coordinate of a run: $x^k$ and $u^k$ above; below $\lambda^k$ and the price above which
    $x$ becomes 1.

    >>> upper, lower = plot_price_cycle([0, 1], [0.5, 0.5], [1.0, 0.5], threshold=0.75)
    >>> lower.get_lines()[1].get_ydata()[0]
    0.75
    """
    k = np.arange(1, len(x) + 1)
    _, (upper, lower) = plt.subplots(2, 1, sharex=True, figsize=(6.2, 4.0))
    upper.plot(k, x, "s", color=RED, markersize=7, markerfacecolor="none", label="$x_1^k$")
    upper.plot(k, u, "o-", color=INK, markersize=4, label="$u_1^k$")
    upper.set(ylabel="both copies", yticks=[0, 0.25, 1])
    lower.plot(k, lam, "^-", color=BLUE, label=r"$\lambda_1^k$")
    lower.axhline(threshold, color=GREEN, linestyle="--", label="above it, the next $x_1$ is 1")
    lower.set(xlabel="iteration", ylabel="multiplier")
    whole(lower)
    upper.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    legend_below(lower, 2, 0.3)
    return upper, lower


def plot_trade_off(rhos: Sequence[float], last: Any, best: Any, stopped: Any) -> tuple[Axes, Axes]:
    r"""Distance to the optimum of the last and of the best visited $x$ against $\rho$; below, the
    share of runs that pass the stopping test.

    >>> upper, lower = plot_trade_off([0.1, 1.0], [0.3, 0.2], [0.0, 0.1], [0.0, 1.0])
    >>> upper.get_xscale()
    'log'
    """
    _, (upper, lower) = plt.subplots(2, 1, sharex=True, figsize=(6.2, 4.2), height_ratios=(3, 2))
    upper.semilogx(rhos, last, "s--", color=RED, label="last $x$")
    upper.semilogx(rhos, best, "o-", color=BLUE, label="best visited $x$")
    upper.set(ylabel="mean $F - v^*$")
    upper.legend(loc="upper left")
    lower.semilogx(rhos, stopped, "D:", color=ORANGE)
    lower.set(xlabel=r"penalty $\rho$", ylabel="share of runs\nthat stop", ylim=(-0.08, 1.08))
    return upper, lower

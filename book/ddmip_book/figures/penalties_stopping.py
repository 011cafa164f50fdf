"""Figures of the chapter on penalties and stopping."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from ddmip_lib.plots import BLUE, GREEN, INK, ORANGE, RED, legend_below
from matplotlib.axes import Axes

from ..examples.tiny import Path
from .kit import look, whole


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
        style = look(number, markersize=4.5, markevery=(2 * number, 4), label=f"first raised after {key}")
        left.plot(np.arange(1, len(u) + 1), u, **style)
    left.set(xlabel="iteration $k$", ylabel="$u^k$ (left), final $x$ (right)")
    legend_below(left, 1)
    right.plot(list(paths), [path.x[-1, 0] for path in paths.values()], "s:", color=INK, markersize=7)
    right.set(xlabel="first raised after iteration", yticks=[0, 0.5, 1])
    whole(right)
    return left, right


def plot_price_cycle(x: Any, u: Any, lam: Any, threshold: float) -> tuple[Axes, Axes]:
    r"""One coordinate of a run: $x^k$ and $u^k$ above; below $\lambda^k$ and the price above which $x$ becomes 1.

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
    r"""Distance to the optimum of the last and of the best visited $x$ against $\rho$; below, the share of runs that
    pass the stopping test.

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

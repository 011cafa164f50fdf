"""Figures of the chapter on penalties and stopping."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ddmip_lib.plots import BLUE, GREEN, INK, ORANGE, RED, legend_below
from ..examples.tiny import Path, quadratic
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


def plot_rules(
    runs: Mapping[str, Mapping[str, Any]], columns: int = 3, linear: Collection[str] = ()
) -> list[Axes]:
    """Runs under different rules, side by side: for each run one strip for each quantity.

    Strips of one quantity have one scale, which is logarithmic except for those in `linear`.

    >>> axes = plot_rules({"a": {"penalty": [1.0, 2.0]}, "b": {"penalty": [1.0, 8.0]}})
    >>> [ax.get_title() for ax in axes], axes[0].get_ylabel(), bool(axes[0].get_ylim()[1] > 8)
    (['a', 'b'], 'penalty', True)
    """
    names = list(next(iter(runs.values())))
    height = -(-len(runs) // columns) * len(names)
    options: dict[str, Any] = {"sharex": True, "squeeze": False}
    grid = plt.subplots(height, columns, figsize=(6.6, 0.7 + 1.05 * height), **options)[1]
    blocks = grid.reshape(-1, len(names), columns).swapaxes(1, 2).reshape(-1, len(names))
    for axes, (label, run) in zip(blocks, runs.items(), strict=False):
        for number, (ax, name) in enumerate(zip(axes, names, strict=True)):
            _draw_strip(ax, run[name], number, name in linear)
        axes[0].set_title(label, fontsize=9.5)
        axes[-1].set_xlabel("iteration")
    for same, name in zip(blocks[: len(runs)].T, names, strict=True):
        _share_scale(same)
        for ax in same[::columns]:
            ax.set_ylabel(name, fontsize=9)
            ax.tick_params(labelleft=True)
    for ax in blocks[len(runs) :].flat:
        ax.set_visible(False)
    return list(blocks[: len(runs)].T.flat)


def _share_scale(axes: Any) -> None:
    """One range along y for all, with labels at none of them."""
    low, high = zip(*(ax.get_ylim() for ax in axes), strict=True)
    for ax in axes:
        ax.set_ylim(min(low), max(high))
        ax.tick_params(labelleft=False)


def _draw_strip(ax: Axes, values: Any, number: int, linear: bool) -> None:
    """One quantity by iteration, as steps; a logarithmic scale has gaps where it is zero."""
    values = np.asarray(values, dtype=float)
    shown = values if linear else np.where(values > 0, values, np.nan)
    k = np.arange(1, len(values) + 1)
    ax.step(k, shown, where="post", **look(number, linestyle="-", marker="", linewidth=1.6))
    if linear:
        ax.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        ax.margins(y=0.2)
    else:
        ax.set_yscale("log")
    ax.xaxis.set_major_locator(MaxNLocator(3, integer=True))


def plot_price_cycle(x: Any, u: Any, lam: Any, threshold: float) -> tuple[Axes, Axes]:
    r"""One coordinate of a run: $x^k$ and $u^k$ above; below $\lambda^k$ and the threshold
    above which $x$ becomes 1.

    >>> upper, lower = plot_price_cycle([0, 1], [0.5, 0.5], [1.0, 0.5], threshold=0.75)
    >>> lower.get_lines()[1].get_ydata()[0]
    0.75
    """
    k = np.arange(1, len(x) + 1)
    _, (upper, lower) = plt.subplots(2, 1, sharex=True, figsize=(6.2, 4.0))
    upper.plot(k, x, "s", color=RED, markersize=7, markerfacecolor="none", label="$x_1^k$")
    upper.plot(k, u, "o-", color=INK, markersize=4, label="$u_1^k$")
    upper.set(ylabel="$x_1^k$ and $u_1^k$", yticks=[0, 0.25, 1])
    lower.plot(k, lam, "^-", color=BLUE, label=r"$\lambda_1^k$")
    lower.axhline(
        threshold, color=GREEN, linestyle="--", label="threshold: above it, the next $x_1$ is 1"
    )
    lower.set(xlabel="iteration", ylabel="multiplier")
    whole(lower)
    upper.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    legend_below(lower, 2, 0.3)
    return upper, lower


def plot_trade_off(rhos: Sequence[float], last: Any, best: Any, stopped: Any) -> tuple[Axes, Axes]:
    r"""Distance to the optimum of the last and of the best iterate against $\rho$; below, the
    fraction of runs that pass the stopping test.

    >>> upper, lower = plot_trade_off([0.1, 1.0], [0.3, 0.2], [0.0, 0.1], [0.0, 1.0])
    >>> upper.get_xscale()
    'log'
    """
    _, (upper, lower) = plt.subplots(2, 1, sharex=True, figsize=(6.2, 4.2), height_ratios=(3, 2))
    upper.semilogx(rhos, last, "s--", color=RED, label="last iterate")
    upper.semilogx(rhos, best, "o-", color=BLUE, label="best iterate")
    upper.set(ylabel="mean $F - v^*$")
    upper.legend(loc="upper left")
    lower.semilogx(rhos, stopped, "D:", color=ORANGE)
    lower.set(xlabel=r"penalty $\rho$", ylabel="fraction of runs\nthat stop", ylim=(-0.08, 1.08))
    return upper, lower

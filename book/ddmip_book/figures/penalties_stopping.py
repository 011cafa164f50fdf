"""Penalty rules on exact small problems, and the figures of the chapter on penalties and stopping."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from ddmip_lib.decomposition.penalty import Penalty, PenaltyRule, Progress
from ddmip_lib.plots import BLUE, COLOURS, DASHES, GREEN, INK, MARKERS, ORANGE, RED
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from ..examples.tiny import Path, RhoRule


def ruled_by(rule: PenaltyRule, scale: float = 1.0, tolerance: float = 1e-4) -> RhoRule:
    r"""A penalty rule of `ddmip_lib` as the ``rho`` of `Tiny.run`; a rule that ends the run holds its last penalty.

    >>> from ddmip_lib.decomposition.penalty import IncreaseOnStagnation
    >>> from ddmip_book.examples.tiny import quadratic
    >>> path = quadratic([[0], [1]], centre=0.5).run(ruled_by(IncreaseOnStagnation(0.5, patience=2)), 9, u=0.3)
    >>> path.rho[0], path.rho[-1]
    (np.float64(0.5), np.float64(1.0))
    """
    own = copy.deepcopy(rule)

    def weight(path: Path) -> float:
        if not path.rows:
            return own.first(Penalty.both(scale)).inputs
        x, u, lam, rho = path.rows[-1]
        old = path.rows[-2][:3] if len(path.rows) > 1 else None
        problem, u_old = path.problem, path.start[0] if old is None else old[1]

        def descends(sigma: float) -> bool:
            if old is None:
                return True
            before, after = problem.lagrangian(*old, rho), problem.lagrangian(x, u, lam, rho)
            enough = after <= before - sigma * rho * float((u - u_old) @ (u - u_old)) + 1e-13
            return enough and after >= problem.total(x) - 1e-13

        primal, dual = float(np.abs(u - x).max()), float(rho * np.abs(u - u_old).max())
        settled = max(primal, dual) < tolerance
        following = own.after(Progress(Penalty.both(rho), (primal, 0.0), (dual, 0.0), settled, descends))
        return rho if following is None else following.inputs

    return weight


def _style(number: int) -> dict[str, Any]:
    at = number % len(COLOURS)
    return {"color": COLOURS[at], "linestyle": DASHES[at], "marker": MARKERS[at], "markersize": 4.5}


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
        every = {"markevery": (2 * number, 4)}
        left.plot(np.arange(1, len(u) + 1), u, **_style(number) | every, label=f"first raised after {key}")
    left.set(xlabel="iteration $k$", ylabel="$u^k$ (left), final $x$ (right)")
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=9.5)
    keys = list(paths)
    right.plot(keys, [paths[key].x[-1, 0] for key in keys], color=INK, marker="s", markersize=7, linestyle=":")
    right.set(xlabel="first raised after iteration", yticks=[0, 0.5, 1])
    right.xaxis.set_major_locator(MaxNLocator(integer=True))
    return left, right


def plot_runs(runs: Mapping[str, Any], columns: Mapping[str, str], linear: Sequence[str] = ()) -> list[Axes]:
    """One panel for each column (name: axis label), one line for each run; a run maps a name to a series.

    Columns named in `linear` are counts on a linear scale; all others have a logarithmic one, where values that are
    not positive leave a gap.

    >>> axes = plot_runs({"a": {"rho": [1.0, 2.0]}, "b": {"rho": [3.0]}}, {"rho": "penalty"})
    >>> axes[0].get_yscale(), len(axes[0].get_lines())
    ('log', 2)
    """
    count = len(columns)
    _, grid = plt.subplots(count, 1, sharex=True, figsize=(6.2, 1.0 + 1.65 * count), squeeze=False)
    axes: list[Axes] = list(grid[:, 0])
    for ax, (column, label) in zip(axes, columns.items(), strict=True):
        for number, (name, run) in enumerate(runs.items()):
            values = np.asarray(run[column], dtype=float)
            if column not in linear:
                values = np.where(values > 0, values, np.nan)
                ax.set_yscale("log")
            every = {"markevery": (2 * number, 2 * len(runs))}
            ax.plot(np.arange(1, len(values) + 1), values, **_style(number) | every, label=name)
        ax.set_ylabel(label)
        if column in linear:
            ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        low, high = ax.get_ylim()
        if ax.get_yscale() == "log" and high < 100 * low:  # too narrow for powers of ten alone
            ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            ax.yaxis.set_minor_formatter(NullFormatter())
    axes[-1].set_xlabel("iteration")
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    handles, labels = axes[0].get_legend_handles_labels()
    axes[-1].legend(handles, labels, loc="upper center", bbox_to_anchor=(0.5, -0.3), ncols=2, fontsize=9.5)
    return axes


def plot_price_cycle(x: Any, u: Any, lam: Any, threshold: float) -> tuple[Axes, Axes]:
    r"""One coordinate of a run: $x^k$ and $u^k$ above; below $\lambda^k$ and the price above which $x$ becomes 1.

    >>> upper, lower = plot_price_cycle([0, 1], [0.5, 0.5], [1.0, 0.5], threshold=0.75)
    >>> lower.get_lines()[1].get_ydata()[0]
    0.75
    """
    k = np.arange(1, len(x) + 1)
    _, (upper, lower) = plt.subplots(2, 1, sharex=True, figsize=(6.2, 4.0))
    upper.plot(k, x, color=RED, marker="s", markersize=7, markerfacecolor="none", linestyle="none", label="$x_1^k$")
    upper.plot(k, u, color=INK, marker="o", markersize=4, linestyle="-", label="$u_1^k$")
    upper.set(ylabel="both copies", yticks=[0, 0.25, 1])
    lower.plot(k, lam, color=BLUE, marker="^", linestyle="-", label=r"$\lambda_1^k$")
    lower.axhline(threshold, color=GREEN, linestyle="--", marker="", label="above it, the next $x_1$ is 1")
    lower.set(xlabel="iteration", ylabel="multiplier")
    lower.xaxis.set_major_locator(MaxNLocator(integer=True))
    upper.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    lower.legend(loc="upper center", bbox_to_anchor=(0.5, -0.3), ncols=2)
    return upper, lower


def plot_trade_off(rhos: Sequence[float], last: Any, best: Any, stopped: Any) -> tuple[Axes, Axes]:
    r"""Distance to the optimum of the last and of the best visited $x$ against $\rho$; below, the share of runs that
    pass the stopping test.

    >>> upper, lower = plot_trade_off([0.1, 1.0], [0.3, 0.2], [0.0, 0.1], [0.0, 1.0])
    >>> upper.get_xscale()
    'log'
    """
    _, (upper, lower) = plt.subplots(2, 1, sharex=True, figsize=(6.2, 4.2), height_ratios=(3, 2))
    upper.semilogx(rhos, last, color=RED, marker="s", linestyle="--", label="last $x$")
    upper.semilogx(rhos, best, color=BLUE, marker="o", linestyle="-", label="best visited $x$")
    upper.set(ylabel="mean $F - v^*$")
    upper.legend(loc="upper left")
    lower.semilogx(rhos, stopped, color=ORANGE, marker="D", linestyle=":")
    lower.set(xlabel=r"penalty $\rho$", ylabel="share of runs\nthat stop", ylim=(-0.08, 1.08))
    return upper, lower

"""Figures on penalties and multipliers: level lines, curves, and what supports a value function from below."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from ddmip_lib.plots import BLUE, COLOURS, DASHES, GREEN, INK, MARKERS, ORANGE, RED
from matplotlib.axes import Axes
from matplotlib.figure import Figure


def _panels(count: int, height: float = 3.4, **options: Any) -> tuple[Figure, Sequence[Axes]]:
    figure, axes = plt.subplots(1, count, figsize=(6.2, height), squeeze=False, **options)
    return figure, axes[0]


def _legend_under(figure: Figure, ax: Axes, ncols: int) -> None:
    """The legend of one panel, below all panels."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=ncols)


def plot_level_panels(
    functions: Mapping[str, Callable[[np.ndarray], float]],
    box: tuple[float, float, float, float],
    total: float,
    marks: Mapping[str, Mapping[str, Any]],
    paths: Mapping[str, np.ndarray] | None = None,
) -> Sequence[Axes]:
    """Level lines of functions of two variables, a panel each, with the line $x_1 + x_2 =$ ``total``.

    ``marks`` holds the points of every panel by label, ``paths`` the iterates of a method for some of them.

    >>> bowl = {"bowl": lambda x: float(x @ x)}
    >>> len(plot_level_panels(bowl, (-1, 1, -1, 1), 0.0, {"bowl": {"minimum": (0, 0)}}))
    1
    """
    figure, axes = _panels(len(functions), 3.9, sharey=True)
    first, second = np.linspace(box[0], box[1], 91), np.linspace(box[2], box[3], 91)
    for ax, (title, function) in zip(axes, functions.items(), strict=True):
        heights = np.array([[function(np.array([a, b])) for a in first] for b in second])
        levels = np.unique(np.quantile(heights, np.linspace(0.02, 0.98, 14)))
        ax.contour(first, second, heights, levels, colors=INK, linewidths=0.7, alpha=0.5, linestyles="-")
        ax.plot(first, total - first, color=GREEN, linestyle="--", marker="", label="constraint")
        if paths and title in paths:
            ax.plot(
                *paths[title].T,
                color=BLUE,
                linestyle="-",
                linewidth=0.8,
                marker=".",
                markersize=4,
                label="gradient steps",
            )
        looks = (("s", RED, 9), ("^", ORANGE, 6))
        for (label, point), (marker, colour, size) in zip(marks[title].items(), looks, strict=False):
            ax.plot(*np.asarray(point, dtype=float), marker, color=colour, markersize=size, markeredgecolor="white",
                    linestyle="none", label=label, zorder=5)  # fmt: skip
        ax.set(title=title, xlabel="$x_1$", xlim=box[:2], ylim=box[2:], aspect="equal")
        ax.grid(visible=False)
    axes[0].set_ylabel("$x_2$")
    _legend_under(figure, axes[-1], 2)
    return axes


def plot_shifted_penalty(
    cost: Callable[[np.ndarray], np.ndarray], target: float, rho: float, prices: Sequence[float]
) -> Axes:
    r"""$F(x) + \lambda(x - t) + \tfrac{\rho}{2}(x - t)^2$ over $x$ for several prices, with their lowest points.

    >>> ax = plot_shifted_penalty(lambda x: (x - 2) ** 2 / 2, 0.5, 2.0, [0.0, 1.0])
    >>> [line.get_label() for line in ax.get_lines()][0]
    'cost alone'
    """
    figure, (ax,) = _panels(1)
    x = np.linspace(target - 1.5, target + 2.5, 1601)
    ax.plot(x, cost(x), color=INK, linestyle=":", marker="", label="cost alone")
    for number, price in enumerate(prices):
        curve = cost(x) + price * (x - target) + rho / 2 * (x - target) ** 2
        low = int(curve.argmin())
        ax.plot(x, curve, color=COLOURS[number], linestyle=DASHES[number], marker="", label=f"price {price:.3g}")
        ax.plot(x[low], curve[low], MARKERS[number], color=COLOURS[number], markersize=8, markeredgecolor="white")
    ax.axvline(target, color=GREEN, linewidth=1.2, linestyle="-", marker="")
    ax.annotate("constraint", (target, 0.04), xycoords=("data", "axes fraction"), xytext=(-5, 0),
                textcoords="offset points", ha="right", va="bottom", color=GREEN)  # fmt: skip
    floor = float(cost(x).min())
    ax.set(xlabel="$x$", ylabel="value", ylim=(floor - 0.2, floor + 2.4))
    _legend_under(figure, ax, 2)
    return ax


def plot_supports(panels: Mapping[str, tuple[Callable[..., Any], Mapping[str, Callable[..., Any]]]]) -> Sequence[Axes]:
    """Value functions $v(t)$, a panel each, and what was pushed up against them from below, by label.

    >>> axes = plot_supports({"convex": (lambda t: t**2, {"line": lambda t: 0 * t})})
    >>> axes[0].get_title()
    'convex'
    """
    figure, axes = _panels(len(panels), 3.3)
    t = np.linspace(-0.7, 0.7, 601)
    style = {"line": (BLUE, "--", "o"), "parabola": (RED, "-.", "s"), "wedge": (GREEN, ":", "^")}
    for ax, (title, (value, supports)) in zip(axes, panels.items(), strict=True):
        curve = value(t)
        ax.plot(t, curve, color=INK, linestyle="-", marker="", linewidth=2.4, label="value $v(t)$")
        for label, support in supports.items():
            colour, dashes, marker = style[label]
            ax.plot(t, support(t), color=colour, linestyle=dashes, marker=marker, markevery=[300], label=label)
        room = np.ptp(curve)
        ax.set(title=title, xlabel="violation $t$", ylim=(curve.min() - 0.25 * room, curve.max() + 0.1 * room))
    entries = {}
    for ax in axes:
        entries.update({label: handle for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)})
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=4)
    return axes


def plot_curve_panels(
    panels: Mapping[str, Mapping[str, tuple[Any, Any]]], xlabel: str, log: bool = True, level: float | None = None
) -> Sequence[Axes]:
    """Curves (x, y) by label, a panel for each title; ``level`` draws a horizontal line that the curves aim at.

    >>> plot_curve_panels({"error": {"halving": ([0, 1, 2], [4, 2, 1])}}, "step")[0].get_yscale()
    'log'
    """
    figure, axes = _panels(len(panels), 3.5)
    for ax, (title, curves) in zip(axes, panels.items(), strict=True):
        for number, (label, (x, y)) in enumerate(curves.items()):
            ax.plot(x, y, color=COLOURS[number], linestyle=DASHES[number], marker=MARKERS[number], markersize=4,
                    markevery=max(1, len(np.asarray(x)) // 12), label=label)  # fmt: skip
        if level is not None:
            ax.axhline(level, color=INK, linewidth=1.2, linestyle="-", marker="", zorder=1)
        ax.set(title=title, xlabel=xlabel, yscale="log" if log else "linear")
    _legend_under(figure, axes[-1], min(3, len(curves)))
    return axes

"""Figures on penalties and multipliers: contours, curves, and supports of a value function."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ddmip_lib.plots import BLUE, GREEN, INK, ORANGE, RED
from .kit import Look, draw_panels, legend_outside, look

MARKS: tuple[Look, ...] = (
    {"marker": "s", "linestyle": "", "color": RED, "ms": 9, "mec": "white"},
    {"marker": "^", "linestyle": "", "color": ORANGE, "ms": 6, "mec": "white"},
)


def plot_level_panels(
    functions: Mapping[str, Callable[[np.ndarray], float]],
    box: tuple[float, float, float, float],
    total: float,
    marks: Mapping[str, Mapping[str, Any]],
    paths: Mapping[str, np.ndarray] | None = None,
) -> Sequence[Axes]:
    """Contours of functions of two variables, a panel each, with the constraint $x_1 + x_2 =$
    ``total``.

    ``marks`` holds the points of every panel by label, ``paths`` the iterates of a method for some
    of them.

    >>> bowl = {"bowl": lambda x: float(x @ x)}
    >>> len(plot_level_panels(bowl, (-1, 1, -1, 1), 0.0, {"bowl": {"minimum": (0, 0)}}))
    1
    """
    figure, axes = draw_panels(len(functions), 3.9, sharey=True)
    first = np.linspace(box[0], box[1], 91)
    second = np.linspace(box[2], box[3], 91)
    for ax, (title, function) in zip(axes, functions.items(), strict=True):
        points = np.stack(np.meshgrid(first, second), axis=-1)
        heights = np.apply_along_axis(function, -1, points)
        levels = np.unique(np.quantile(heights, np.linspace(0.02, 0.98, 14)))
        thin: Look = {"colors": INK, "linewidths": 0.7, "alpha": 0.5, "linestyles": "-"}
        ax.contour(first, second, heights, levels, **thin)
        ax.plot(first, total - first, "--", color=GREEN, label="constraint")
        if paths and title in paths:
            steps: Look = {"linewidth": 0.8, "markersize": 4, "label": "gradient steps"}
            ax.plot(*paths[title].T, ".-", color=BLUE, **steps)
        for (label, point), mark in zip(marks[title].items(), MARKS, strict=False):
            ax.plot(*np.asarray(point, dtype=float), label=label, zorder=5, **mark)
        ax.set(title=title, xlabel="$x_1$", xlim=box[:2], ylim=box[2:], aspect="equal")
        ax.grid(visible=False)
    axes[0].set_ylabel("$x_2$")
    legend_outside(figure, 2, "lower")
    return axes


def plot_shifted_penalty(
    cost: Callable[[np.ndarray], np.ndarray],
    target: float,
    rho: float,
    multipliers: Sequence[float],
) -> Axes:
    r"""$F(x) + \lambda(x - t) + \tfrac{\rho}{2}(x - t)^2$ over $x$ for several multipliers, with
    the minimisers.

    >>> ax = plot_shifted_penalty(lambda x: (x - 2) ** 2 / 2, 0.5, 2.0, [0.0, 1.0])
    >>> [line.get_label() for line in ax.get_lines()][0]
    'objective'
    """
    figure, ax = plt.subplots()
    x = np.linspace(target - 1.5, target + 2.5, 1601)
    ax.plot(x, cost(x), ":", color=INK, label="objective")
    shades = plt.get_cmap("Blues")(
        np.linspace(0.45, 1.0, max(2, len(multipliers)))
    )  # later multipliers are darker
    for number, lam in enumerate(multipliers):
        curve = cost(x) + lam * (x - target) + rho / 2 * (x - target) ** 2
        low = int(curve.argmin())
        colour = {"color": shades[number]}
        ax.plot(x, curve, **look(number, marker="") | colour)
        ax.plot(
            x[low],
            curve[low],
            **look(number, markersize=9, markeredgecolor="white", linestyle="") | colour,
        )
        ax.plot([], [], **look(number, label=rf"$\lambda = {lam:.3g}$") | colour)
    ax.axvline(target, color=GREEN, linewidth=1.2, linestyle="-")
    ax.annotate(
        "constraint ", (target, 0.04), xycoords=("data", "axes fraction"), ha="right", color=GREEN
    )
    floor = float(cost(x).min())
    ax.set(xlabel="$x$", ylabel="value", ylim=(floor - 0.2, floor + 2.4))
    legend_outside(figure, 2, "lower")
    return ax


def plot_supports(
    panels: Mapping[str, tuple[Callable[..., Any], Mapping[str, Callable[..., Any]]]],
) -> Sequence[Axes]:
    """Value functions $v(t)$, a panel each, with their supports from below by label.

    >>> axes = plot_supports({"convex": (lambda t: t**2, {"linear": lambda t: 0 * t})})
    >>> axes[0].get_title()
    'convex'
    """
    figure, axes = draw_panels(len(panels), 3.3)
    t = np.linspace(-0.7, 0.7, 601)
    style = {"linear": (BLUE, "--", "o"), "quadratic": (RED, "-.", "s"), "norm": (GREEN, ":", "^")}
    for ax, (title, (value, supports)) in zip(axes, panels.items(), strict=True):
        curve = value(t)
        ax.plot(t, curve, "-", color=INK, linewidth=2.4, label="value function $v(t)$")
        for label, support in supports.items():
            colour, dashes, marker = style[label]
            ax.plot(
                t,
                support(t),
                color=colour,
                linestyle=dashes,
                marker=marker,
                markevery=[300],
                label=label,
            )
        room = np.ptp(curve)
        ax.set(
            title=title,
            xlabel="residual $t$",
            ylim=(curve.min() - 0.25 * room, curve.max() + 0.1 * room),
        )
    legend_outside(figure, 4, "lower")
    return axes


def plot_curve_panels(
    panels: Mapping[str, Mapping[str, tuple[Any, Any]]],
    xlabel: str,
    log: bool = True,
    level: float | None = None,
) -> Sequence[Axes]:
    """Curves (x, y) by label, a panel for each title; ``level`` draws a horizontal
    reference line.

    >>> plot_curve_panels({"error": {"halving": ([0, 1, 2], [4, 2, 1])}}, "step")[0].get_yscale()
    'log'
    """
    figure, axes = draw_panels(len(panels), 3.5)
    for ax, (title, curves) in zip(axes, panels.items(), strict=True):
        for number, (label, (x, y)) in enumerate(curves.items()):
            ax.plot(
                x,
                y,
                **look(
                    number, markersize=4, markevery=max(1, len(np.asarray(x)) // 12), label=label
                ),
            )
        if level is not None:
            ax.axhline(level, color=INK, linewidth=1.2, zorder=1)
        ax.set(title=title, xlabel=xlabel, yscale="log" if log else "linear")
    legend_outside(figure, min(3, len(curves)), "lower")
    return axes

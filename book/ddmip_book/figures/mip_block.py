"""Figures of the chapter on the MIP block: price regions, chords of a parabola, perspectives."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap

from ddmip_lib.decomposition.scip_block import square_cuts
from ddmip_lib.plots import BLUE, INK, PALE_RED, RED
from .kit import GREY, Look, beside, whole

FILLS = ("#FFFFFF", "#E3F0F8", "#FBE9DF", "#E6E6E6")


def nearest_site(sites: Any, where: Any) -> np.ndarray:
    """Number of the site that is nearest to each point of `where`; of equally near ones the first.

    >>> nearest_site([[0, 0], [2, 0]], [[0.9, 5.0], [1.1, 5.0]])
    array([0, 1])
    """
    sites = np.asarray(sites, dtype=float)
    where = np.asarray(where, dtype=float)
    distance: np.ndarray = ((where[..., None, :] - sites) ** 2).sum(axis=-1)
    return distance.argmin(axis=-1)


def plot_regions(
    panels: Mapping[str, tuple[Any, Any]], window: tuple[float, float], names: tuple[str, str]
) -> list[Axes]:
    """Voronoi cells in the plane, one panel for each (points, sites); every site bears the name of
    its point.

    >>> [ax] = plot_regions({"two": ([[0, 0], [1, 0]], [[0, 0], [1, 0]])}, (-1, 2), ("a", "b"))
    >>> [text.get_text() for text in ax.texts]
    ['(0, 0)', '(1, 0)']
    """
    single = len(panels) == 1
    figure, axes = plt.subplots(
        1, len(panels), figsize=(5.0, 4.6) if single else (6.2, 3.5), squeeze=False
    )
    side = np.linspace(*window, 241)
    grid = np.stack(np.meshgrid(side, side), axis=-1)
    for ax, (title, (points, sites)) in zip(axes.flat, panels.items(), strict=True):
        sites = np.asarray(sites, dtype=float)
        _draw_cells(ax, side, nearest_site(sites, grid), len(sites))
        ax.plot(*sites.T, "o", markersize=7, color="white", markeredgecolor=INK, zorder=5)
        for point, site in zip(points, sites, strict=True):
            name = f"({', '.join(f'{value:g}' for value in point)})"
            beside(ax, name, site, (0, 7), ha="center", fontsize=10, fontweight="bold", zorder=6)
        ax.set(
            title=title, xlim=window, ylim=window, xlabel=names[0], ylabel=names[1], aspect="equal"
        )
        ax.grid(visible=False)
    return list(figure.axes)


def _draw_cells(ax: Axes, side: np.ndarray, cell: np.ndarray, cells: int) -> None:
    colours = ListedColormap(FILLS)
    ax.pcolormesh(side, side, cell, cmap=colours, vmin=0, vmax=len(FILLS) - 1, rasterized=True)
    for number in range(cells):
        ax.contour(side, side, cell == number, [0.5], colors=INK, linewidths=1.2, linestyles="-")


def plot_targets(targets: Any, shown: int = 20) -> tuple[Axes, Axes]:
    """The way of the target over the cells of four binary decisions, and its first coordinate by
    iteration.

    >>> _, right = plot_targets([[-1.0, 0.0], [0.2, 1.0], [0.7, 1.0]])
    >>> [len(line.get_xdata()) for line in right.get_lines()[1:3]]
    [1, 2]
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(6.6, 3.4), width_ratios=(1, 1.15))
    steps = np.asarray(targets, dtype=float)
    _draw_path_over_cells(left, steps)
    _draw_first_coordinate(right, steps[:shown, 0])
    return left, right


def _draw_path_over_cells(ax: Axes, steps: np.ndarray) -> None:
    low = float(min(steps.min(), -0.5)) - 0.2
    ax.plot([0.5, 0.5], [low, 1.8], "-", [low, 1.8], [0.5, 0.5], "-", color=INK, linewidth=1.2)
    corners = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    ax.plot(*corners.T, "o", markersize=7, color="white", markeredgecolor=INK, zorder=5)
    bold: Look = {"ha": "center", "fontsize": 9.5, "fontweight": "bold", "zorder": 6}
    for a, b in corners:
        off = 15 if b else -19  # clear of the line between the cells
        beside(ax, f"({a}, {b})", (a, b), (0, off), **bold)
    ax.plot(*steps.T, "s-", color=RED, linewidth=0.9, markersize=3.5, zorder=7)
    arrow = {"arrowstyle": "->", "color": RED, "linewidth": 1.4}
    for k, (start, end) in enumerate(pairwise(steps[:3])):
        ax.annotate("", end, start, arrowprops=arrow, zorder=8)
        beside(ax, f"$t^{k}$", start, (7, -4), color=RED, zorder=9)
    ax.set(xlabel="$t_1$", ylabel="$t_2$", xlim=(low, 1.8), ylim=(low, 1.8), aspect="equal")
    ax.set_title("over the cells")
    ax.grid(visible=False)


def _draw_first_coordinate(ax: Axes, first: np.ndarray) -> None:
    k = np.arange(len(first))
    one = first > 0.5
    ax.plot(k, first, "-", color=RED, linewidth=0.9)
    squares: Look = {"color": RED, "markersize": 5}
    ax.plot(k[one], first[one], "s", label="next $x_1 = 1$", **squares)
    ax.plot(k[~one], first[~one], "s", markerfacecolor="white", label="next $x_1 = 0$", **squares)
    ax.axhline(0.5, color=INK, linewidth=1.2, linestyle="-")
    ax.set(xlabel="iteration $k$", ylabel="$t_1^k$", title="first coordinate")
    ax.legend(loc="lower right")
    whole(ax)


def plot_square_cuts(low: int, high: int) -> tuple[Axes, Axes]:
    """The parabola with its chords between neighbouring integers, and how far their maximum lies
    above it.

    >>> left, right = plot_square_cuts(-1, 2)
    >>> float(right.lines[0].get_ydata().max())
    0.25
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(6.2, 3.2))
    x = np.linspace(low, high, 32 * (high - low) + 1)
    chords = np.array([slope * x + intercept for slope, intercept in square_cuts(low, high)])
    for number, chord in enumerate(chords):
        left.plot(x, chord, ":", color="#999999", linewidth=1.2, label=None if number else "chords")
    left.plot(x, chords.max(axis=0), "-", color=RED, label="their maximum")
    left.plot(x, x**2, "--", color=BLUE, label="$x^2$")
    integers = np.arange(low, high + 1)
    left.plot(integers, integers**2, "o", color=INK, label="integers", zorder=5)
    left.set(xlabel="$x$", ylabel="$z$", ylim=(-1.2, max(low**2, high**2) + 0.4))
    left.legend(loc="upper center")
    right.plot(x, chords.max(axis=0) - x**2, "-", color=RED)
    right.plot(integers, 0 * integers, "o", color=INK, clip_on=False, zorder=5)
    right.set(xlabel="$x$", ylabel="maximum of chords $-\\ x^2$", ylim=(0, 0.3), yticks=(0, 0.25))
    whole(left, right)
    return left, right


def plot_perspective(
    value: float = 0.8, share: float = 0.5, tangents: int = 5
) -> tuple[Axes, Axes]:
    r"""The relaxed square of a variable that a binary controls: from off to on at $v$ = `value`,
    and in the section $b$ = `share`.

    >>> left, right = plot_perspective(0.8, 0.5)
    >>> perspective = left.lines[0]
    >>> bool(np.allclose(perspective.get_ydata(), 0.64 * perspective.get_xdata()))
    True
    """
    _, (left, right) = plt.subplots(1, 2, figsize=(6.2, 3.5), sharey=True)
    b = np.linspace(0, 1, 101)
    strong: dict[str, Any] = {
        "color": RED,
        "linestyle": "-",
        "marker": "",
        "label": "$w^2 / b$",
    }
    weak: dict[str, Any] = {"color": BLUE, "linestyle": "--", "marker": "", "label": "$w^2$"}
    left.plot(b, b * value**2, **strong)
    left.plot(b, (b * value) ** 2, **weak)
    left.fill_between(
        b, (b * value) ** 2, b * value**2, facecolor=PALE_RED, hatch="//", edgecolor="#cccccc"
    )
    left.plot([0, 1], [0, value**2], "o", color=INK, clip_on=False, zorder=5)
    left.set(title="from off to on", xlabel=f"$b$, with $w = {value:g}\\,b$", ylabel=r"$t$")
    product = np.linspace(0, share, 101)
    right.plot(product, product**2 / share, **strong)
    right.plot(product, product**2, **weak)
    for number, a in enumerate(np.linspace(0, 1, tangents)):
        label = None if number else "tangents"
        tangent = 2 * a * product - a**2 * share
        right.plot(product, tangent, ":", color=GREY, linewidth=1.1, label=label)
    right.set(title=f"section at $b = {share:g}$", xlabel="$w$", ylim=(-0.02, 0.7))
    right.legend(loc="upper left")
    return left, right

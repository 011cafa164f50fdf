"""Figures of the chapter on variable splitting and Algorithm 1."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from ddmip_lib import NeuralMIP, Trace
from ddmip_lib.plots import BLUE, INK, LAST_ITERATE_STYLE, PATH_STYLE, RED
from ..examples.tiny import Path
from .kit import Look, beside, draw_panels, legend_outside
from .neural_mips import landscape

UNIT_SQUARE = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
MARGIN = 0.14
LARGEST_AREA = 420.0
"""Area of the square of a decision that all iterates have, in points of print."""


def plot_paths(problem: NeuralMIP, traces: Mapping[str, Trace]) -> list[Axes]:
    r"""Runs of a problem with two inputs, a panel each: $x^k$ and $u^k$ over contours of the
    objective.

    Dark is low; the area of a square is proportional to the number of iterates $x^k$ at it. A run
    with one decision has an inset that enlarges the path of $u^k$.

    >>> from ddmip_lib import DualDecomposition
    >>> from ddmip_lib.problems import hand_sized
    >>> trace = Trace()
    >>> _ = DualDecomposition(penalty=10.0, callback=trace).solve(hand_sized())
    >>> len(plot_paths(hand_sized(), {"rho = 10": trace}))
    1
    """
    figure, axes = draw_panels(len(traces), 4.3, 3.7 * len(traces))
    for ax, (title, trace) in zip(axes, traces.items(), strict=True):
        _contours(ax, problem)
        _path(ax, trace)
        _decisions(ax, problem, trace)
        ax.set(title=title, xlabel="$x_1$, $u_1$", ylabel="$x_2$, $u_2$", aspect="equal")
        ax.set(xlim=(-MARGIN, 1 + MARGIN), ylim=(-MARGIN, 1 + MARGIN))
        ax.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
        ax.grid(visible=False)
        if len(np.unique(trace.x, axis=0)) == 1:
            _enlarge(ax, problem, trace)
    legend_outside(figure, 3, "lower")
    return axes


def _contours(ax: Axes, problem: NeuralMIP) -> None:
    """Filled contours of the objective over the unit square."""
    side = np.linspace(0, 1, 81)
    square = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    heights = landscape(problem, square).reshape(81, 81)
    levels = np.arange(heights.min(), heights.max() + 0.25, 0.25)
    ax.contourf(side, side, heights, levels, cmap="Blues_r")


def _path(ax: Axes, trace: Trace) -> None:
    """The copies $u^k$ and the last of them."""
    u = np.array(trace.u)
    ax.plot(*u.T, **PATH_STYLE, clip_on=False, zorder=7)
    ax.plot(*u[-1], **LAST_ITERATE_STYLE, clip_on=False, zorder=9)


def _decisions(ax: Axes, problem: NeuralMIP, trace: Trace) -> None:
    """The decisions with their costs, and how many iterates have each."""
    points, counts = np.unique(np.round(trace.x, 6), axis=0, return_counts=True)
    areas = LARGEST_AREA * counts / counts.sum()
    frame: Look = {"facecolors": "none", "edgecolors": RED, "linewidths": 2.0}
    frame |= {"marker": "s", "label": "$x^k$", "clip_on": False, "zorder": 8}
    ax.scatter(points[:, 0], points[:, 1], areas, **frame)
    number = {tuple(point): count for point, count in zip(points, counts, strict=True)}
    text: Look = {"fontsize": 10, "ha": "center", "va": "center", "color": INK, "zorder": 10}
    text["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 2.0}
    for corner in UNIT_SQUARE:
        count = number.get(tuple(corner), 0)
        label = f"cost {landscape(problem, corner[None])[0]:g}" + (f"\n{count}×" if count else "")
        beside(ax, label, corner, (36 - 72 * corner[0], 28 - 56 * corner[1]), **text)


def _enlarge(ax: Axes, problem: NeuralMIP, trace: Trace) -> None:
    """An inset with the neighbourhood of the path of $u^k$."""
    reach = 1.4 * max(0.1, np.max(trace.u))
    inset = ax.inset_axes((0.52, 0.37, 0.34, 0.34), zorder=11)
    _contours(inset, problem)
    _path(inset, trace)
    ticks = [0, round(reach / 1.4, 1)]
    inset.set(xlim=(-reach / 8, reach), ylim=(-reach / 8, reach), xticks=ticks, yticks=ticks)
    inset.grid(visible=False)
    ax.indicate_inset_zoom(inset, edgecolor=INK)


def plot_bids(paths: Mapping[str, Path], i: int = 0) -> list[Axes]:
    r"""The value $\lambda_i^k + \rho u_i^k$ of a binary against the threshold $c_i + \rho/2$ of the
    MIP subproblem.

    Filled marks are values that are followed by $x_i^{k+1} = 1$.

    >>> from ddmip_book.examples.tiny import quadratic
    >>> path = quadratic([[0], [1]], curvature=1.0, centre=0.5).run(rho=2.0, steps=4)
    >>> len(plot_bids({"rho = 2": path}))
    1
    """
    figure, axes = draw_panels(len(paths), width=3.3 * len(paths))
    for ax, (title, path) in zip(axes, paths.items(), strict=True):
        k = np.arange(1, len(path.rows))
        rho = path.rho[:-1]
        value = path.lam[:-1, i] + rho * path.u[:-1, i]
        threshold = path.problem.cost[i] + rho / 2
        selected = path.x[1:, i] == 1
        ax.plot(k, value, "-", color=BLUE)
        circle: Look = {"color": BLUE, "markersize": 8}
        ax.plot(k[selected], value[selected], "o", label="value, $x$ set to 1", **circle)
        hollow = circle | {"markerfacecolor": "white"}
        ax.plot(k[~selected], value[~selected], "o", label="value, $x$ set to 0", **hollow)
        ax.plot(k, threshold, "--", color=RED, label="threshold")
        ax.set(
            title=title,
            xlabel="iteration",
            xticks=k[:: max(1, len(k) // 6)],
            ylim=(0, 1.1 * max(*value, *threshold)),
        )
    axes[0].set_ylabel(f"value and threshold of $x_{i + 1}$")
    legend_outside(figure, 3, "lower")
    return axes

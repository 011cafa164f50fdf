"""The book's figures, in one style: colour-blind safe, on white, told apart by markers and dashes as well as colour.

Every function draws into a new figure, or into axes that are handed in, and returns the axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.ticker import MaxNLocator

from .compiled import Compiled
from .data.tables import WATER_FEATURES
from .problem import NeuralMIP
from .solution import Solution

BLUE, RED, GREEN, PINK, ORANGE, INK = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#333333"
PALE_BLUE, PALE_RED, PALE = "#E3F0F8", "#FBE9DF", "#F4F4F4"
COLOURS = (BLUE, RED, GREEN, PINK, ORANGE, INK)
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P")

STYLE: dict[str, Any] = {
    "figure.figsize": (6.2, 3.4),
    "figure.dpi": 160,
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,
    "savefig.facecolor": "white",
    "axes.facecolor": "white",
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": cycler(color=COLOURS) + cycler(linestyle=DASHES) + cycler(marker=MARKERS),
    "font.size": 10.5,
    "grid.color": "#dddddd",
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "text.color": INK,
    "lines.markersize": 5,
}


def use_style() -> None:
    """Set matplotlib to the book's style; the first cell of a chapter calls it.

    >>> use_style()
    >>> plt.rcParams["figure.facecolor"]
    'white'
    """
    plt.rcParams.update(STYLE)  # type: ignore[arg-type]


def plot_history(solution: Solution) -> tuple[Axes, Axes]:
    r"""Objective above; residuals $\lVert u-x\rVert_\infty$, $\rho\lVert u-u'\rVert_\infty$ and $\rho$ below."""
    history = solution.history
    if not len(history):
        raise ValueError(f"this solution ({solution.method}) has no iterations to plot: use plot_incumbents.")
    _, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(6.2, 4.6), height_ratios=(3, 2))
    k = history["k"]
    above.plot(k, history["objective"], color=ORANGE, marker="o", markersize=3, linestyle="none",
               label="this iterate, verified")  # fmt: skip
    above.step(
        k, history["incumbent"], where="post", color=BLUE, linestyle="-", marker="", label="best so far"
    )
    above.set_ylabel("objective")
    above.legend(loc="best")
    rows = (("primal_residual", "primal residual", RED, "-"), ("dual_residual", "dual residual", GREEN, "--"),
            ("rho", "penalty ρ", INK, ":"))  # fmt: skip
    for column, label, colour, dashes in rows:
        values = history[column]
        below.semilogy(
            k, np.where(values > 0, values, np.nan), color=colour, linestyle=dashes, marker="", label=label
        )
    below.set(xlabel="iteration", ylabel="residuals, penalty")
    below.legend(loc="upper center", bbox_to_anchor=(0.5, -0.32), ncols=3)
    below.xaxis.set_major_locator(MaxNLocator(integer=True))
    return above, below


def incumbent_times(solution: Solution) -> tuple[np.ndarray, np.ndarray]:
    """When the solver held which verified objective: seconds and values, the last one held to the end.

    >>> from ddmip_lib.problems import hand_sized
    >>> from ddmip_lib import BigM
    >>> incumbent_times(BigM().solve(hand_sized(), time_limit=10))[1][-1]
    np.float64(0.5)
    """
    if len(solution.history):
        seconds, values = solution.history["seconds"], solution.history["incumbent"]
    else:
        pairs = np.array(solution.details.get("incumbents", []), dtype=float).reshape(-1, 2)
        seconds, values = pairs.T
    if solution.objective is None:
        return seconds, values
    return np.append(seconds, solution.seconds), np.append(values, solution.objective)


def plot_incumbents(solutions: Mapping[str, Solution], ax: Axes | None = None) -> Axes:
    """Verified objective against seconds, one line for each solver; a mark ends each line where the run ended."""
    if ax is None:
        _, ax = plt.subplots()
    for number, (label, solution) in enumerate(solutions.items()):
        seconds, values = incumbent_times(solution)
        if not np.isfinite(values).any():
            label += " (no solution)"
        colour, dashes = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
        ax.step(seconds, values, where="post", color=colour, linestyle=dashes, marker="", label=label)
        ax.plot(seconds[-1:], values[-1:], color=colour, linestyle="none",
                marker=MARKERS[number % len(MARKERS)], markersize=7)  # fmt: skip
        if solution.bound is not None:
            ax.axhline(solution.bound, color=colour, linestyle=":", linewidth=1.2)
            ax.annotate(f"bound of {label}", (0.99, solution.bound), xycoords=("axes fraction", "data"), ha="right",
                        va="top", fontsize=9, color=INK, xytext=(0, -2), textcoords="offset points")  # fmt: skip
    ax.set(xlabel="seconds", ylabel="verified objective", xlim=(0, None))
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
    return ax


def plot_treatment(
    problem: NeuralMIP, solution: Solution, names: Sequence[str] = WATER_FEATURES, ax: Axes | None = None
) -> Axes:
    """What was added to (right) and taken from (left) each feature; a bar is cut where one sample's share ends.

    The number at the end of a bar counts the samples that share it.
    """
    if problem.start is None or not solution.found:
        raise ValueError("plot_treatment needs a problem with a start point and a solution with a point.")
    moved = solution.inputs[0] - problem.start[0]
    limit = problem.predictors[0].inputs[0, 0].getUbOriginal() - problem.start[0][0, 0]
    if ax is None:
        _, ax = plt.subplots(figsize=(6.2, 3.9))
    ax.set_yticks(range(len(names)), names)
    for sign, colour, label in ((1, BLUE, "raised"), (-1, ORANGE, "lowered")):
        share = np.where(sign * moved > 1e-6, moved, 0.0)
        share = np.take_along_axis(share, np.argsort(-np.abs(share), axis=0), axis=0)
        left = np.cumsum(share, axis=0) - share
        used = share != 0
        hatch = "///" if sign < 0 else None
        ax.barh(np.nonzero(used)[1], share[used], left=left[used], color=colour, edgecolor="white", linewidth=0.6,
                hatch=hatch, label=label)  # fmt: skip
        for j, (total, samples) in enumerate(zip(share.sum(axis=0), used.sum(axis=0), strict=True)):
            ax.annotate(str(samples), (total, j), ha="left" if sign > 0 else "right", va="center", fontsize=9,
                        xytext=(3 * sign, 0), textcoords="offset points")  # fmt: skip
        ax.axvline(
            sign * limit, color=INK, linestyle="--", linewidth=1.2, label="budget" if sign < 0 else None
        )
    ax.axvline(0, color=INK, linewidth=0.8, linestyle="-")
    ax.set(xlabel="standard deviations, all samples together", xlim=(-1.2 * limit, 1.2 * limit))
    ax.grid(axis="y", visible=False)
    ax.invert_yaxis()
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=3)
    return ax


def landscape(problem: NeuralMIP, points: np.ndarray) -> np.ndarray:
    r"""$c^\top x + d^\top f(x)$ at the rows of `points`, also at fractional ones, for a problem whose only variables
    are the inputs and outputs of one regression.

    >>> from ddmip_lib.problems import hand_sized
    >>> landscape(hand_sized(), np.array([[0, 0], [1, 0], [0, 1], [1, 1]]))
    array([1.5, 3.5, 2. , 0.5])
    """
    compiled = Compiled(problem.model, problem.predictors)
    where, predictor = compiled.maps[0], compiled.predictors[0]
    values = np.zeros((len(points), compiled.snapshot.n_variables))
    values[:, where.index.ravel()] = points
    values[:, where.output.ravel()] = predictor.raw(points)
    return np.array([compiled.snapshot.objective(v) for v in values])


def plot_landscape(
    problem: NeuralMIP, marks: Mapping[str, Any] | None = None, ax: Axes | None = None
) -> Axes:
    """Height map of the objective over the unit square, its four integer points with values, and `marks`."""
    if ax is None:
        _, ax = plt.subplots(figsize=(5.4, 4.6))
    side = np.linspace(0, 1, 81)
    grid = np.stack(np.meshgrid(side, side), axis=-1)
    heights = landscape(problem, grid.reshape(-1, 2)).reshape(81, 81)
    levels = np.arange(np.floor(4 * heights.min()) / 4, heights.max() + 0.25, 0.25)
    ax.contourf(side, side, heights, levels, cmap="Blues_r")
    lines = ax.contour(side, side, heights, levels[::2], colors="white", linewidths=0.8, linestyles="-")
    ax.clabel(lines, fontsize=8, colors=INK, fmt="%g")
    corners = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    for corner, value in zip(corners, landscape(problem, corners), strict=True):
        ax.plot(
            *corner, marker="o", markersize=13, color="white", markeredgecolor=INK, clip_on=False, zorder=5
        )
        ax.annotate(f"{value:g}", corner, xytext=(15 - 30 * corner[0], 0), textcoords="offset points", va="center",
                    ha="right" if corner[0] else "left", fontsize=11, fontweight="bold", zorder=6,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5})  # fmt: skip
    for number, (label, point) in enumerate((marks or {}).items()):
        ax.plot(*np.asarray(point, dtype=float), MARKERS[number + 1], color=COLOURS[number + 1], markersize=8,
                markeredgecolor="white", label=label, linestyle="none", clip_on=False, zorder=7)  # fmt: skip
    if marks:
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    ax.set(xlabel="$x_1$", ylabel="$x_2$", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.grid(visible=False)
    return ax


def _canvas(width: float, height: float) -> Axes:
    """Axes without frame whose unit is a tenth of an inch, so that boxes keep their shape."""
    _, ax = plt.subplots(figsize=(width, height))
    ax.set(xlim=(0, 10 * width), ylim=(0, 10 * height), aspect="equal")
    ax.set_axis_off()
    return ax


def _box(ax: Axes, x: float, y: float, width: float, height: float, title: str, text: str = "",
         edge: str = INK, fill: str = PALE) -> None:  # fmt: skip
    """A rounded box with its lower left corner at (x, y)."""
    ax.add_patch(FancyBboxPatch((x + 0.6, y + 0.6), width - 1.2, height - 1.2, boxstyle="round,pad=0.6",
                                facecolor=fill, edgecolor=edge, linewidth=1.6))  # fmt: skip
    middle, top = x + width / 2, y + height / 2 if not text else y + height - 2.6
    ax.text(middle, top, title, ha="center", va="center", fontsize=10.5, fontweight="bold", color=INK)
    ax.text(middle, y + (height - 2.6) / 2, text, ha="center", va="center", fontsize=10, linespacing=1.35)


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], label: str = "",
           at: tuple[float, float] | None = None, dashed: bool = False, bend: float = 0.0) -> None:  # fmt: skip
    ax.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=14, linewidth=1.6, color=INK,
                                 linestyle="--" if dashed else "-", shrinkA=1, shrinkB=1,
                                 connectionstyle=f"arc3,rad={bend}"))  # fmt: skip
    if label:
        x, y = at or ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2 + 1)
        ax.text(x, y, label, ha="center", va="center", fontsize=9.5, color=INK)


def draw_workflow() -> Axes:
    """From data and rules to a checked decision: training, model, solver, verification."""
    ax = _canvas(5.8, 4.6)
    _box(ax, 1, 34.5, 24, 10.5, "Data", "what was observed:\ninputs and outcomes", BLUE, PALE_BLUE)
    _box(ax, 33, 34.5, 24, 10.5, "Rules", "costs, budgets, limits,\nyes/no choices", RED, PALE_RED)
    _box(ax, 1, 18.5, 24, 10.5, "Network", "$y = f(x)$, trained,\nthen frozen", BLUE, PALE_BLUE)
    _box(ax, 33, 18.5, 24, 10.5, "Neural MIP", "rows, integers,\nand $y = f(x)$", RED, PALE_RED)
    _box(ax, 33, 2.5, 24, 10.5, "Solver", "exact model,\nor decomposition")
    _box(ax, 1, 2.5, 24, 10.5, "Verified decision", "$f$ evaluated again,\nevery row checked")
    _arrow(ax, (13, 34.5), (13, 29), "train", (17, 31.8))
    _arrow(ax, (45, 34.5), (45, 29), "model", (49.3, 31.8))
    _arrow(ax, (25, 23.8), (33, 23.8), "embed", (29, 25.3))
    _arrow(ax, (45, 18.5), (45, 13), "solve", (48.9, 15.8))
    _arrow(ax, (33, 7.8), (25, 7.8), "$x$", (29, 9.3))
    _arrow(ax, (13, 18.5), (13, 13), "check", (17.2, 15.8), dashed=True)
    return ax


def draw_split() -> Axes:
    """One iteration of Algorithm 1: MIP block, NN block, multiplier, and the check of every iterate."""
    ax = _canvas(5.8, 4.4)
    mip = "rows, integers\nmoves $x$, keeps $u$\nMIP or QP solver"
    nn = "the network itself\nmoves $u$, keeps $x$\ngradient steps"
    _box(ax, 1, 26, 22, 16.5, "1  MIP block", mip, RED, PALE_RED)
    _box(ax, 35, 26, 22, 16.5, "2  NN block", nn, BLUE, PALE_BLUE)
    _box(ax, 18, 11.5, 22, 9, "3  Multiplier", r"$\lambda \leftarrow \lambda + \rho\,(u - x)$")
    _box(ax, 1, 1, 56, 6, "every $x$ is checked by the true network; the best one is kept")
    _arrow(ax, (23, 38), (35, 38), "$x$", (29, 39.6))
    _arrow(ax, (35, 31), (23, 31), "$u$", (29, 32.6))
    _arrow(ax, (46, 26), (40, 17), "$u - x$", (47.5, 20.8), bend=-0.25)
    _arrow(ax, (18, 17), (12, 26), r"$\lambda,\ \rho$", (10.8, 20.8), bend=-0.25)
    _arrow(ax, (33, 20.5), (40, 26), r"$\lambda,\ \rho$", (33.6, 24.3), bend=0.15)
    _arrow(ax, (5.5, 26), (5.5, 7), dashed=True)
    return ax

"""Figures of the chapter on neural MIPs: costs of the running example as numbers and as a map."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ddmip_lib import NeuralMIP
from ddmip_lib.plots import COLOURS, INK, MARKERS, legend_below
from .kit import Look, beside


def landscape(problem: NeuralMIP, points: np.ndarray) -> np.ndarray:
    r"""$c^\top x + d^\top f(x)$ at the rows of `points`, also at fractional ones, for a problem
    whose only variables are the inputs and outputs of one regression.

    >>> from ddmip_lib.problems import hand_sized
    >>> landscape(hand_sized(), np.array([[0, 0], [1, 0], [0, 1], [1, 1]]))
    array([1.5, 3.5, 2. , 0.5])
    """
    instance = problem.instance()
    where = instance.maps[0]
    predictor = instance.predictors[0]
    values = np.zeros((len(points), instance.milp.n_variables))
    values[:, where.index.ravel()] = points
    values[:, where.output.ravel()] = predictor.raw(points)
    return np.array([instance.milp.objective(v) for v in values])


def plot_landscape(problem: NeuralMIP, marks: Mapping[str, Any] | None = None) -> Axes:
    """Height map of the objective over the unit square, its four integer points with values, and
    `marks`.
    """
    ax = plt.subplots(figsize=(5.4, 4.6))[1]
    side = np.linspace(0, 1, 81)
    grid = np.stack(np.meshgrid(side, side), axis=-1)
    heights = landscape(problem, grid.reshape(-1, 2)).reshape(81, 81)
    levels = np.arange(np.floor(4 * heights.min()) / 4, heights.max() + 0.25, 0.25)
    ax.contourf(side, side, heights, levels, cmap="Blues_r")
    lines = ax.contour(
        side, side, heights, levels[::2], colors="white", linewidths=0.8, linestyles="-"
    )
    ax.clabel(lines, fontsize=8, colors=INK, fmt="%g")
    corners = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    circle: Look = {"markersize": 13, "color": "white", "markeredgecolor": INK, "zorder": 5}
    ax.plot(*corners.T, "o", clip_on=False, **circle)
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    bold: Look = {"fontsize": 11, "fontweight": "bold", "va": "center", "zorder": 6, "bbox": box}
    for corner, value in zip(corners, landscape(problem, corners), strict=True):
        align = "right" if corner[0] else "left"
        beside(ax, f"{value:g}", corner, (15 - 30 * corner[0], 0), ha=align, **bold)
    mark: Look = {"markersize": 8, "markeredgecolor": "white", "zorder": 7, "clip_on": False}
    for number, (label, point) in enumerate((marks or {}).items(), 1):
        x, y = np.asarray(point, dtype=float)
        ax.plot(x, y, MARKERS[number], color=COLOURS[number], label=label, linestyle="", **mark)
    if marks:
        legend_below(ax, 2, 0.14)
    ax.set(xlabel="$x_1$", ylabel="$x_2$", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    ax.grid(visible=False)
    return ax

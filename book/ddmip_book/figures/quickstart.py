"""The figure of the first model: treatment of water samples by feature."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ddmip_book.data.tables import WATER_FEATURES
from ddmip_lib import NeuralMIP, Solution
from ddmip_lib.plots import BLUE, INK, ORANGE, legend_below
from .kit import Look, beside


def plot_treatment(
    problem: NeuralMIP, solution: Solution, names: Sequence[str] = WATER_FEATURES
) -> Axes:
    """Amounts added to (right) and subtracted from (left) each feature, one segment of a bar for
    each sample.

    The number at the end of a bar counts its samples.
    """
    if problem.start is None or not solution.found:
        raise ValueError(
            "plot_treatment needs a problem with a start point and a solution with a point."
        )
    moved = solution.inputs[0] - problem.start[0]
    limit = problem.predictors[0].inputs[0, 0].getUbOriginal() - problem.start[0][0, 0]
    ax = plt.subplots(figsize=(6.2, 3.9))[1]
    ax.set_yticks(range(len(names)), names)
    dashed: Look = {"color": INK, "linestyle": "--", "linewidth": 1.2}
    _draw_shares(ax, moved, 1, color=BLUE, label="raised")
    ax.axvline(limit, **dashed)
    _draw_shares(ax, moved, -1, color=ORANGE, label="lowered", hatch="///")
    ax.axvline(-limit, label="budget", **dashed)
    ax.axvline(0, color=INK, linewidth=0.8, linestyle="-")
    ax.set(xlabel="standard deviations, all samples together", xlim=(-1.2 * limit, 1.2 * limit))
    ax.grid(axis="y", visible=False)
    ax.invert_yaxis()
    legend_below(ax, 3, 0.17)
    return ax


def _draw_shares(ax: Axes, moved: np.ndarray, sign: int, **look: Any) -> None:
    """Bars of the changes of one sign, the largest first, with the number of samples at the end."""
    share = np.where(sign * moved > 1e-6, moved, 0.0)
    share = np.take_along_axis(share, np.argsort(-np.abs(share), axis=0), axis=0)
    left = np.cumsum(share, axis=0) - share
    used = share != 0
    feature = np.nonzero(used)[1]
    ax.barh(feature, share[used], left=left[used], edgecolor="white", linewidth=0.6, **look)
    side = "left" if sign > 0 else "right"
    for j, (total, samples) in enumerate(zip(share.sum(axis=0), used.sum(axis=0), strict=True)):
        beside(ax, str(samples), (total, j), (3 * sign, 0), ha=side, va="center", fontsize=9)

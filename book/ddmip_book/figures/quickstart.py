"""The figure of the quickstart: what a treatment of water samples does."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from ddmip_lib import NeuralMIP, Solution
from ddmip_lib.data.tables import WATER_FEATURES
from ddmip_lib.plots import BLUE, INK, ORANGE, legend_below


def plot_treatment(
    problem: NeuralMIP, solution: Solution, names: Sequence[str] = WATER_FEATURES
) -> Axes:
    """What was added to (right) and taken from (left) each feature; a bar is cut where one sample's
    share ends.

    The number at the end of a bar counts the samples that share it.
    """
    if problem.start is None or not solution.found:
        raise ValueError(
            "plot_treatment needs a problem with a start point and a solution with a point."
        )
    moved = solution.inputs[0] - problem.start[0]
    limit = problem.predictors[0].inputs[0, 0].getUbOriginal() - problem.start[0][0, 0]
    ax = plt.subplots(figsize=(6.2, 3.9))[1]
    ax.set_yticks(range(len(names)), names)
    for sign, colour, label in ((1, BLUE, "raised"), (-1, ORANGE, "lowered")):
        share = np.where(sign * moved > 1e-6, moved, 0.0)
        share = np.take_along_axis(share, np.argsort(-np.abs(share), axis=0), axis=0)
        left = np.cumsum(share, axis=0) - share
        used = share != 0
        hatch = "///" if sign < 0 else None
        ax.barh(
            np.nonzero(used)[1],
            share[used],
            left=left[used],
            color=colour,
            edgecolor="white",
            linewidth=0.6,
            hatch=hatch,
            label=label,
        )
        for j, (total, samples) in enumerate(zip(share.sum(axis=0), used.sum(axis=0), strict=True)):
            ax.annotate(
                str(samples),
                (total, j),
                ha="left" if sign > 0 else "right",
                va="center",
                fontsize=9,
                xytext=(3 * sign, 0),
                textcoords="offset points",
            )
        ax.axvline(
            sign * limit,
            color=INK,
            linestyle="--",
            linewidth=1.2,
            label="budget" if sign < 0 else None,
        )
    ax.axvline(0, color=INK, linewidth=0.8, linestyle="-")
    ax.set(xlabel="standard deviations, all samples together", xlim=(-1.2 * limit, 1.2 * limit))
    ax.grid(axis="y", visible=False)
    ax.invert_yaxis()
    legend_below(ax, 3, 0.17)
    return ax

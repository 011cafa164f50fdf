"""Figures of the chapter on the split."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ddmip_lib import NeuralMIP, Trace
from ddmip_lib.plots import BLUE, RED, plot_iterates
from ..examples.tiny import Path
from .kit import Look, beside, draw_panels, legend_outside
from .neural_mips import landscape


def plot_paths(problem: NeuralMIP, traces: Mapping[str, Trace]) -> list[Axes]:
    r"""Runs of a problem with two inputs, a panel each: $x^k$ and $u^k$ over the height map of the
    objective.

    Dark is cheap; bold numbers are the costs of the four corners, small ones count the visits of
    $x^k$.

    >>> from ddmip_lib import DualDecomposition
    >>> from ddmip_lib.problems import hand_sized
    >>> trace = Trace()
    >>> _ = DualDecomposition(penalty=10.0, callback=trace).solve(hand_sized())
    >>> len(plot_paths(hand_sized(), {"rho = 10": trace}))
    1
    """
    figure, axes = draw_panels(len(traces), 4.1, 3.6 * len(traces))
    side = np.linspace(0, 1, 81)
    square = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    heights = landscape(problem, square).reshape(81, 81)
    levels = np.arange(heights.min(), heights.max() + 0.25, 0.25)
    corners = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    for ax, (title, trace) in zip(axes, traces.items(), strict=True):
        ax.contourf(side, side, heights, levels, cmap="Blues_r")
        plot_iterates(np.array(trace.x), np.array(trace.u), ax=ax)
        shown = np.max(trace.u) < 0.6 and len(np.unique(trace.x, axis=0)) == 1
        bold: Look = {"fontsize": 11, "fontweight": "bold", "ha": "center", "va": "center"}
        bold["bbox"] = {"facecolor": "white", "pad": 2.0}
        for corner in corners[:1] if shown else corners:
            cost = landscape(problem, corner[None])[0]
            beside(ax, f"{cost:g}", corner, (26 - 52 * corner[0], 18 - 36 * corner[1]), **bold)
        several = len(np.unique(trace.x, axis=0)) > 1
        reach = 1.1 if several else 1.6 * max(0.1, np.max(trace.u))  # or all is a corner
        ax.set(title=title, xlim=(-reach / 11, reach), ylim=(-reach / 11, reach))
        if reach < 1:
            ax.xaxis.set_major_locator(MaxNLocator(4))
            ax.yaxis.set_major_locator(MaxNLocator(4))
        ax.grid(visible=False)
        ax.legend_ = None  # one for both panels, below
    legend_outside(figure, 3, "lower")
    return axes


def plot_bids(paths: Mapping[str, Path], i: int = 0) -> list[Axes]:
    r"""The NN block's bid $\lambda_i^k + \rho u_i^k$ for a binary against the MIP block's ask $c_i
    + \rho/2$.

    Filled marks are bids that are followed by $x_i^{k+1} = 1$.

    >>> from ddmip_book.examples.tiny import quadratic
    >>> path = quadratic([[0], [1]], curvature=1.0, centre=0.5).run(rho=2.0, steps=4)
    >>> len(plot_bids({"rho = 2": path}))
    1
    """
    figure, axes = draw_panels(len(paths), width=3.3 * len(paths))
    for ax, (title, path) in zip(axes, paths.items(), strict=True):
        k = np.arange(1, len(path.rows))
        rho = path.rho[:-1]
        bid = path.lam[:-1, i] + rho * path.u[:-1, i]
        ask = path.problem.cost[i] + rho / 2
        taken = path.x[1:, i] == 1
        ax.plot(k, bid, "-", color=BLUE)
        circle: Look = {"color": BLUE, "markersize": 8}
        ax.plot(k[taken], bid[taken], "o", label="bid, taken", **circle)
        hollow = circle | {"markerfacecolor": "white"}
        ax.plot(k[~taken], bid[~taken], "o", label="bid, refused", **hollow)
        ax.plot(k, ask, "--", color=RED, label="ask")
        ax.set(
            title=title,
            xlabel="iteration",
            xticks=k[:: max(1, len(k) // 6)],
            ylim=(0, 1.1 * max(*bid, *ask)),
        )
    axes[0].set_ylabel(f"bid and ask for $x_{i + 1}$")
    legend_outside(figure, 3, "lower")
    return axes

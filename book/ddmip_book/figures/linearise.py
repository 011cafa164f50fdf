"""Figures of linearisation: one step, a descent, prices, a kink, and boxes around a point."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ddmip_lib import NeuralMIP
from ddmip_lib.linearisation import linearise
from ddmip_lib.plots import BLUE, GREEN, INK, ORANGE, PALE_BLUE, RED
from ..examples.linearise import Descent, Tried
from .kit import Look, beside, draw_panels, legend_outside, look, ticks_at, whole


def curve(problem: NeuralMIP, count: int = 401) -> tuple[np.ndarray, np.ndarray]:
    """A network of one input over its range: points and outputs."""
    instance = problem.instance()
    (at,) = instance.free_inputs
    x = np.linspace(instance.milp.lower[at], instance.milp.upper[at], count)
    return x, problem.predictors[0].raw(x[:, None])[:, 0]


def plot_steps(problem: NeuralMIP, descent: Descent, tries: Sequence[int]) -> Figure:
    """Some tries of a descent on one input: network, tangent, region, the MIP's choice and the
    truth there.

    >>> from ddmip_book.examples.linearise import descend, wave
    >>> len(plot_steps(wave(), descend(wave(), [0.05]), [0, 1]).axes)
    2
    """
    figure, grid = draw_panels(len(tries), 3.3, 6.6, sharey=True)
    x, y = curve(problem)
    for ax, number in zip(grid, tries, strict=True):
        _draw_try(ax, descent, descent.tried[number], (x[0], x[-1]))
        ax.plot(x, y, color=INK, linestyle="-", marker="", label="network")
        ax.set(
            xlabel="input $x$",
            ylim=(min(min(y), *(descent.tried[k].aim.cost for k in tries)) - 0.4, max(y) + 0.5),
        )
        ax.set_title(
            f"trial {number + 1}: {'accepted' if descent.tried[number].taken else 'rejected'}"
        )
    grid[0].set_ylabel("output $y$")
    legend_outside(figure, 3)
    return figure


def _draw_try(ax: Axes, descent: Descent, step: Tried, ends: tuple[float, float]) -> None:
    (at,) = descent.elastic.inputs
    line = linearise(descent.elastic.instance, step.point.values)
    here = step.point.values[at]
    reach = step.radius * (ends[1] - ends[0])
    inside = np.array([max(ends[0], here - reach), min(ends[1], here + reach)])
    aim = step.aim.values[at]
    there = step.new.values[at]

    def tangent(x: Any) -> Any:
        return line.offset[0] + line.jacobian[0, at] * x

    ax.axvspan(*inside, color=PALE_BLUE, label="trust region")
    ax.plot(inside, tangent(inside), "--", marker="", color=BLUE, label="tangent")
    ax.plot(here, line.values[0], "o", color=INK, markersize=7, label="current point")
    ax.plot(aim, tangent(aim), "v", color=BLUE, markersize=8, label="minimiser of the model")
    ax.plot(there, step.new.cost, "s", color=RED, markersize=7, label="network at that point")


def plot_descent(descents: Mapping[str, Descent], price: float = 0.0) -> Figure:
    """Merit (above) and radius (below) by try, one curve for each descent; hollow marks are tries
    not taken.

    >>> from ddmip_book.examples.linearise import descend, wave
    >>> len(plot_descent({"left": descend(wave(), [0.05])}).axes)
    2
    """
    figure, (above, below) = plt.subplots(2, 1, figsize=(6.2, 4.2), sharex=True)
    for number, (name, descent) in enumerate(descents.items()):
        at = np.arange(1, len(descent.tried) + 1)
        taken = np.array([step.taken for step in descent.tried], dtype=bool)
        merit = np.array(
            [(step.new if step.taken else step.point).merit(price) for step in descent.tried]
        )
        first = descent.tried[0].point.merit(price)
        above.plot([0, 1], [first, merit[0]], **look(number, marker=""))
        style = look(number, linestyle="", markersize=6)
        above.plot(0, first, **style)
        for ax, values in (
            (above, merit),
            (below, np.array([step.radius for step in descent.tried])),
        ):
            ax.plot(at, values, **look(number, marker="", label=name))
            ax.plot(at[taken], values[taken], **style)
            ax.plot(at[~taken], values[~taken], **style | {"markerfacecolor": "white"})
    above.set(ylabel="merit after the trial")
    below.set(ylabel=r"radius $\Delta$ of the trial", yscale="log", xlabel="trial")
    whole(below)
    legend_outside(figure, 3)
    return figure


def plot_prices(problem: NeuralMIP, prices: Sequence[float], least: float) -> Figure:
    r"""The merit $x + \pi\,(\mathit{least} - f(x))_+$ of a row on an output, with its lowest point,
    for some prices.

    >>> from ddmip_book.examples.linearise import flat_row
    >>> len(plot_prices(flat_row(), [1.0, 10.0], 0.999).axes[0].lines)
    5
    """
    figure, ax = plt.subplots(figsize=(6.2, 3.4))
    x, y = curve(problem, 4001)
    for number, price in enumerate(prices):
        merit = x + price * np.maximum(0.0, least - y)
        ax.plot(x, merit, **look(number, marker="", label=rf"$\nu = {price:g}$"))
        low = int(merit.argmin())
        ax.plot(x[low], merit[low], **look(number, linestyle="", markersize=9))
    edge = x[np.argmax(y >= least)]
    ax.axvline(edge, color=INK, linestyle=":", marker="")
    beside(ax, "feasible from here on", (edge, 0.1), (6, 0), va="center", fontsize=9)
    ax.set(xlabel="input $x$", ylabel="merit", ylim=(0, 1.6), xlim=(0, 1))
    ax.legend(loc="lower left")
    return figure


def plot_ridge(problem: NeuralMIP, descent: Descent, best: np.ndarray) -> Figure:
    """A function of two inputs with a kink: the whole square, and the end of a descent from near.

    >>> from ddmip_book.examples.linearise import descend, ridge
    >>> len(plot_ridge(ridge(), descend(ridge(), [0.9, 0.65]), np.zeros(2)).axes)
    2
    """
    figure, (left, right) = draw_panels(2, 3.3, 6.6)
    end = descent.inputs
    _draw_square(left, problem, descent, np.zeros(2), np.ones(2))
    _draw_square(right, problem, descent, end - 0.06, end + 0.06)
    right.xaxis.set_major_locator(MaxNLocator(3))
    right.yaxis.set_major_locator(MaxNLocator(4))
    style: Look = {"arrowprops": {"arrowstyle": "->", "color": INK}, "backgroundcolor": "white"}
    left.annotate("falls all the way", (0.12, 0.12), (0.5, 0.3), fontsize=9, **style)
    left.plot(*best, "*", color=ORANGE, markersize=16, clip_on=False, label="the optimum")
    left.set(ylabel="$x_2$", title="the square")
    right.set(title="near its end")
    legend_outside(figure, 4)
    return figure


def _draw_square(
    ax: Axes, problem: NeuralMIP, descent: Descent, low: np.ndarray, high: np.ndarray
) -> None:
    """Contours of the network between two corners, its kink, and the descent."""
    xs, ys = np.linspace(low, high, 121).T
    points = np.stack(np.meshgrid(xs, ys), -1).reshape(-1, 2)
    heights = problem.predictors[0].raw(points).reshape(121, 121)
    ax.contour(xs, ys, heights, 12, colors=[INK], linewidths=0.7, alpha=0.6)
    ends = [low.max(), high.min()]
    ax.plot(ends, ends, color=GREEN, linestyle="-.", marker="", label="nondifferentiable points")
    ax.plot(*descent.path.T, "o-", color=BLUE, markersize=5, label="the descent")
    ax.plot(*descent.inputs, "X", color=RED, markersize=10, label="where it ends")
    ax.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel="$x_1$", aspect="equal")
    ax.grid(visible=False)


def plot_boxes(
    radii: Sequence[float], counts: Mapping[str, Sequence[float]], units: int, closed: float
) -> Figure:
    """ReLUs that can switch in a box around a point, by the box's size; shaded up to the largest
    box with a proof.

    >>> plot_boxes([0.1, 1.0], {"CROWN": [1, 9]}, 16, 0.1).axes[0].get_xscale()
    'log'
    """
    figure, ax = plt.subplots(figsize=(6.2, 3.4))
    ax.axvspan(0.8 * min(radii), closed, color=PALE_BLUE, label="point proved optimal in the box")
    for number, (name, values) in enumerate(counts.items()):
        ax.plot(radii, values, **look(number, label=name))
    ax.axhline(units, color=INK, linestyle=":", marker="", label="all units")
    ax.set(
        xscale="log",
        xlabel="radius of the box, as a fraction of each range",
        ylabel="units",
        ylim=(-1, 1.08 * units),
    )
    ax.set_xlim(0.8 * min(radii), 1.25 * max(radii))
    ticks_at(ax, radii)
    legend_outside(figure, 2)
    return figure

"""Figures of the second experiment: six networks, each twice as deep and twice as wide as the one
before.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ddmip_lib.plots import BLUE, GREEN, INK, RED
from ..examples.costs import PowerLaw, power_law
from ..experiments.grids import E2_NETWORKS
from ..experiments.networks import REACTING
from ..experiments.results import Results
from .kit import (
    GREY,
    HOLLOW,
    draw_lines,
    draw_panels,
    legend_outside,
    look,
    method_look,
    names_below,
)

AGREEMENT = 1e-4
"""Of the paper's stopping test."""
LOWER_END = 2e-5
"""Where a residual of zero is drawn on a logarithmic axis."""
PRINTED_SHARE = {"2x16": 0.4, "16x128": 1.0, "32x256": 1.0, "64x512": 1.0}
PRINTED_SECONDS = 90.0
"""The paper's upper end for 64x512."""
DEVICES = {"cpu": ("one core", "o", BLUE), "cuda": ("GPU", "^", GREEN)}


def sizes_of(network: str, n_in: int = 9) -> tuple[int, int, int]:
    """Hidden layers, units in each, and parameters of a dense network with one output.

    >>> sizes_of("2x16")
    (2, 16, 449)
    """
    depth, width = map(int, network.removesuffix(REACTING).split("x"))
    return depth, width, (n_in + 1) * width + (depth - 1) * (width + 1) * width + width + 1


def plain_names(rows: Results) -> Results:
    """The runs on input-sensitive networks, each under the name of the network of E2 that has
    its shape.
    """
    return Results([replace(row, network=row.network.removesuffix(REACTING)) for row in rows])


def decompositions(full: Results, device: str | tuple[str, ...]) -> Results:
    """The runs of Algorithm 1 with the paper's settings on that device, or on any of several."""
    return full.where(method=("dd-paper", "dd-paper-float32"), device=device)


def by_network(rows: Results, *fields: str) -> dict[str, float]:
    """Mean sum of `fields` in one iteration, for each of the six networks that has records."""
    found = {}
    for network in E2_NETWORKS:
        own = rows.where(network=network)
        own = (
            own.where(converged=False) or own
        )  # of the few iterations of others what is done once is a large part
        if len(own):
            total = sum(own.values(field) for field in fields)
            found[network] = float(np.mean(total / own.values("iterations")))
    return found


def slope_in_parameters(cost: Mapping[str, float], last: int | None = None) -> PowerLaw | None:
    """The power law of `cost` in the parameters over all networks, or over the `last` ones; None
    for less than three.

    >>> round(slope_in_parameters({"2x16": 449.0, "4x32": 3521.0, "8x64": 29825.0}).slope, 6)
    1.0
    """
    chosen = list(cost)[-last:] if last else list(cost)
    if len(chosen) < 3:
        return None
    return power_law(
        [sizes_of(network)[2] for network in chosen], [cost[network] for network in chosen]
    )


def _devices(full: Results) -> Iterator[tuple[float, Results, dict[str, Any]]]:
    """For each device: how far its marks are moved sideways, its runs, and its look."""
    for shift, (device, (label, mark, colour)) in zip((-0.15, 0.15), DEVICES.items(), strict=True):
        yield (
            shift,
            decompositions(full, device),
            {"linestyle": "", "marker": mark, "color": colour, "label": label},
        )


def _each(
    ax: Axes, rows: Results, value: Callable[[Results], Any], shift: float, style: dict[str, Any]
) -> None:
    """A mark for each number that `value` finds in the runs of a network."""
    for place, network in enumerate(E2_NETWORKS):
        own = rows.where(network=network)
        found = np.atleast_1d(value(own)) if len(own) else np.empty(0)
        ax.plot(
            [place + shift] * len(found),
            found,
            alpha=0.8,
            **style | ({"label": None} if place else {}),
        )
    names_below(ax, E2_NETWORKS, rotation=60)


def plot_paper_panels(full: Results) -> Figure:
    """The paper's three panels with our runs: fraction that satisfies its test, total seconds,
    seconds of an iteration.
    """
    figure, panels = plt.subplot_mosaic([["left", "middle"], ["right"] * 2], figsize=(6.6, 5.8))
    left = panels["left"]
    middle = panels["middle"]
    right = panels["right"]
    for shift, rows, style in _devices(full):
        _each(left, rows, lambda own: own.values("converged").mean(), shift, style)
        _each(middle, rows, lambda own: own.values("seconds"), shift, style)
        if cost := by_network(rows, "seconds"):
            right.plot([sizes_of(n)[2] for n in cost], list(cost.values()), **style)
        for ends in (
            list(cost)[:3],
            list(cost)[-3:],
        ):  # the small and the large networks: the line bends in between
            if law := slope_in_parameters({network: cost[network] for network in ends}):
                line = np.array([sizes_of(ends[0])[2], sizes_of(ends[-1])[2]])
                right.plot(line, law(line), "--", color=style["color"])
    places = [E2_NETWORKS.index(network) for network in PRINTED_SHARE]
    left.plot(places, list(PRINTED_SHARE.values()), "D", color=RED, label="paper", **HOLLOW)
    middle.plot(len(E2_NETWORKS) - 1, PRINTED_SECONDS, "D", color=RED, **HOLLOW)
    left.set(title="fraction of runs converged", ylim=(-0.06, 1.06))
    middle.set(title="seconds of a run", yscale="log")
    right.set(title="seconds of an iteration", xscale="log", yscale="log", xlabel="parameters $P$")
    legend_outside(figure, 3, "lower")
    return figure


def plot_blocks(full: Results) -> Figure:
    """Seconds of an iteration in the NN block and in the MIP block against the parameters, one
    panel a device.
    """
    figure, axes = draw_panels(2, 3.3, 6.4, sharey=True)
    for ax, device in zip(axes, DEVICES, strict=True):
        rows = decompositions(full, device)
        for i, (field, label) in enumerate(
            {"seconds_nn": "NN block", "seconds_mip": "MIP block"}.items()
        ):
            if cost := by_network(rows, field):
                ax.plot([sizes_of(n)[2] for n in cost], list(cost.values()), **look(i, label=label))
        ax.set(xscale="log", yscale="log", xlabel="parameters $P$", title=DEVICES[device][0])
    axes[0].set_ylabel("seconds of an iteration")
    axes[0].legend()
    return figure


def _visible(own: Results) -> np.ndarray:
    """Last residuals; those of zero at the lower end of the axis."""
    return np.maximum(own.values("primal_residual"), LOWER_END)


def _gained(own: Results) -> np.ndarray:
    return own.values("objective") - own.values("untreated")


def _finish(left: Axes, right: Axes) -> None:
    left.axhline(AGREEMENT, color=INK, linestyle="--", label="paper's test")
    left.set(yscale="log", title=r"last $\|u - x\|_\infty$")
    right.set_title("samples gained, of 100")


def plot_what_moves(full: Results) -> Figure:
    """Of every run: the last residual with the paper's tolerance, and the samples gained over the
    untreated count.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(6.4, 3.3))
    for shift, rows, style in _devices(full):
        _each(left, rows, _visible, shift, style)
        _each(right, rows, _gained, shift, style)
    _finish(left, right)
    left.legend(fontsize=8, loc="lower left", bbox_to_anchor=(0.0, 0.25))
    return figure


def plot_recipes(full: Results, reacting: Results) -> Figure:
    """Residuals and gains again, by how the networks were trained; and what price coordination
    gains where they are input-sensitive.

    `reacting` has the plain names.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(6.4, 3.9))
    any_device = tuple(DEVICES)
    drawn = (
        (
            decompositions(full, any_device),
            {"marker": "x", "color": GREY, "label": "E2's training protocol"},
        ),
        (
            decompositions(reacting, any_device),
            {"marker": "o", "color": BLUE, "label": "input-sensitive networks"},
        ),
        (reacting.where(method="prices"), method_look("prices", label="… with price coordination")),
    )
    for shift, (rows, style) in zip((-0.25, 0.0, 0.25), drawn, strict=True):
        style = style | {"linestyle": ""}
        _each(right, rows, _gained, shift, style)
        if shift < 0.25:
            _each(left, rows, _visible, shift, style | {"label": None})
    _finish(left, right)
    legend_outside(figure, 2, "lower")
    return figure


def plot_slopes(
    depths: Sequence[int], found: Mapping[str, Sequence[float]], laws: Mapping[str, Sequence[float]]
) -> Axes:
    """Slopes of networks against their depth, on a logarithmic axis: measured (marks) and by
    formula (lines).

    >>> plot_slopes([1, 2], {"torch": [0.2, 0.1]}, {"torch": [0.24, 0.1]}).get_yscale()
    'log'
    """
    ax = plt.subplots()[1]
    draw_lines(ax, found, depths, linestyle="")
    for i, name in enumerate(found):
        ax.plot(depths, laws[name], **look(i, marker=""))
    ax.set(yscale="log", xlabel="hidden layers $L$", ylabel="norm of the input gradient")
    ax.legend(loc="lower left")
    return ax

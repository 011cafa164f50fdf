"""Figures of the fourth experiment: five architectures on nine features, and what Algorithm 1 does
with them.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

from ddmip_lib.plots import BLUE, INK, MARKERS, PALE_BLUE, RED
from ..experiments.claims.printed import ACCURACY, CONVERGENCE, E4_SECONDS
from ..experiments.grids import E4_NETWORKS, E4_SIZES
from ..experiments.networks import load_weights, untrained
from ..experiments.results import Results
from ..experiments.store import results_folder
from .kit import (
    HOLLOW,
    Look,
    draw_panels,
    legend_outside,
    look,
    method_look,
    names_below,
    plain_log,
    ranges,
    ticks_at,
)

PALE_GREY = "#cccccc"
Link = tuple[int, int, int, int]
"""From node i of layer a to node j of layer b, as (a, i, b, j)."""
POTABLE = (
    ("dd-paper", "untreated", "untreated", "x"),
    ("dd-paper", "objective_last", "paper's settings, last", "v"),
    ("dd-paper", "objective", "paper's settings, best", "s"),
    ("dd", "objective", "our defaults, best", "o"),
)


def caricature(network: str) -> tuple[list[int], list[Link]]:
    """A caricature of an architecture: units in each layer, from the features up, and which unit
    reads which.

    >>> units, read = caricature("conv1d")
    >>> units, len([link for link in read if link[0] == 0])
    ([9, 9, 9, 1], 25)
    """
    units = {
        "fc": [9, 6, 6, 1],
        "conv1d": [9, 9, 9, 1],
        "resnet": [9, 6, 6, 1],
        "lstm": [9, 9, 1],
    }.get(network, [9, 9, 9, 1])
    near = {("conv1d", 0): 1, ("conv1d", 1): 1, ("lstm", 0): 0, ("attention", 0): 0}
    read = [
        (a, i, a + 1, j)
        for a in range(len(units) - 1)
        for i in range(units[a])
        for j in range(units[a + 1])
        if abs(i - j) <= near.get((network, a), 9)
    ]
    if network == "lstm":  # each step reads the step before; only the last one is read by the head
        read = (
            [link for link in read if link[0] == 0]
            + [(1, i, 1, i + 1) for i in range(8)]
            + [(1, 8, 2, 0)]
        )
    if network == "resnet":
        read += [(1, i, 2, i) for i in range(6)] * 3  # the sum that skips a block, drawn heavier
    return units, read


def draw_architectures(networks: Sequence[str] = E4_NETWORKS) -> Figure:
    """One small graph for each architecture: features below, the logit on top.

    >>> len(draw_architectures(["fc", "lstm"]).axes)
    2
    """
    figure, axes = plt.subplots(1, len(networks), figsize=(6.4, 2.5), squeeze=False)
    for ax, network in zip(axes[0], networks, strict=True):
        _draw_graph(ax, *caricature(network))
        ax.set_title(network)
        ax.axis("off")
    return figure


def _draw_graph(ax: Axes, units: Sequence[int], read: Sequence[tuple[int, int, int, int]]) -> None:
    """Units in layers, and the links between them; links within a layer are drawn heavier."""
    step = 3.0 / (len(units) - 1)
    places = [
        np.column_stack([np.arange(count) - (count - 1) / 2, np.full(count, layer * step)])
        for layer, count in enumerate(units)
    ]
    across: Look = {"color": INK, "linewidth": 0.5, "alpha": 0.5}
    along: Look = {"color": BLUE, "linewidth": 2.2, "alpha": 1.0}
    for a, i, b, j in read:
        ends = np.array([places[a][i], places[b][j]])
        ax.plot(*ends.T, "-", **(along if a == b else across))
    for layer, points in enumerate(places):
        mark = "o" if layer else "s"
        ax.plot(*points.T, mark, color=INK, markerfacecolor=PALE_BLUE, markersize=4)


def plot_paper_panels(full: Results, majority: float) -> Figure:
    """The paper's three panels with our runs of its settings: accuracy, share converged, seconds
    (processor time).
    """
    runs = full.where(method="dd-paper", device="cpu")
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(6.6, 3.3))
    for place, network in enumerate(E4_NETWORKS):
        own = runs.where(network=network)
        scores = sorted(set(own.values("test_score")))
        left.plot([place] * len(scores), scores, "o", color=BLUE, label=None if place else "ours")
        if len(own):
            middle.bar(place, own.values("converged").mean(), color=PALE_BLUE, edgecolor=BLUE)
            middle.plot(place, own.values("converged").mean(), "o", color=BLUE)
        for size, mark in zip(E4_SIZES, MARKERS, strict=False):
            seconds = own.where(size=size).values("cpu_seconds")
            mean = [np.exp(np.log(seconds).mean())] if len(seconds) else []
            right.plot(
                [place] * len(mean), mean, mark, color=BLUE, label=None if place else f"n = {size}"
            )
    left.axhline(majority, color=INK, linestyle="--", label="majority")
    for ax, printed in ((left, ACCURACY), (middle, CONVERGENCE), (right, E4_SECONDS)):
        at = [E4_NETWORKS.index(network) for network in printed]
        ax.plot(at, list(printed.values()), "D", color=RED, label="paper", **HOLLOW)
        names_below(ax, E4_NETWORKS, rotation=60)
    left.set(title="test accuracy", ylim=(0.5, 0.95))
    middle.set(title="converged", ylim=(-0.05, 1))
    right.set(title="seconds", yscale="log", ylim=(0.3, 2000))
    left.legend(fontsize=8, loc="upper left")
    right.legend(fontsize=8, loc="upper left")
    return figure


def plot_potable(full: Results) -> Figure:
    """Fraction of potable samples by architecture, one panel for each size: mean over the seeds,
    and their range.
    """
    figure, axes = draw_panels(len(E4_SIZES), width=6.6, sharey=True)
    for ax, size in zip(axes, E4_SIZES, strict=True):
        for shift, (method, field, label, mark) in zip(
            (-0.255, -0.085, 0.085, 0.255), POTABLE, strict=True
        ):
            runs = full.where(method=method, size=size, device="cpu")
            shares = [runs.where(network=network).values(field) / size for network in E4_NETWORKS]
            style = {"label": label, "marker": mark} | (
                {"color": INK} if field == "untreated" else {}
            )
            cells = {place + shift: share for place, share in enumerate(shares)}
            ranges(ax, cells, **method_look(method, elinewidth=1) | style)
        names_below(ax, E4_NETWORKS, rotation=60)
        ax.set(title=f"n = {size}", ylim=(0, 1))
    axes[0].set_ylabel("fraction of potable samples")
    legend_outside(figure, 2, "lower")
    return figure


def logit_size(net: nn.Module) -> float:
    r"""Median of $\lvert f(x)\rvert$ over standard normal inputs: how large a network's logits are,
    without any data.

    >>> round(logit_size(lambda x: 3.0 * x[:, :1]), 1)
    2.0
    """
    with torch.no_grad():
        return float(net(_normal()).abs().median())


def boundary_distance(net: nn.Module) -> float:
    r"""Median of $-f(x) / \lVert\nabla f(x)\rVert_\infty$ over the standard normal inputs with
    $f(x) < 0$: how far, to first order, the cheapest single feature must move to change the class.
    The scale of $f$ cancels.

    >>> round(boundary_distance(lambda x: 3.0 * x[:, :1]), 1)
    0.7
    """
    x = _normal().requires_grad_(True)
    value = net(x)[:, 0]
    (slope,) = torch.autograd.grad(value.sum(), x)
    value = value.detach()
    return float((-value / slope.abs().amax(dim=1).clamp(min=1e-12))[value < 0].median())


def _normal(n_in: int = 9) -> torch.Tensor:
    return torch.randn(2000, n_in, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def of_stored(
    full: Results, measure: Callable[[nn.Module], float], folder: Path | None = None
) -> dict[tuple[str, int], float]:
    """A measure of the stored network of every pair of architecture and seed among the records."""
    files = {
        (row.network, row.seed): row.weights["files"][0] for row in full if row.weights["files"]
    }
    place = (results_folder() if folder is None else folder) / "networks"
    return {
        key: measure(load_weights(untrained(key[0], 9, key[1]), place / name))
        for key, name in files.items()
    }


class Gain(NamedTuple):
    """What was gained over no treatment on one instance."""

    network: str
    seed: int
    size: int
    share: float
    """By the defaults, of all samples."""
    part: float
    """What the paper's settings gain, over what the defaults gain."""


def gains(full: Results) -> list[Gain]:
    """All instances that both methods solved and on which the defaults gained something."""
    found = []
    for ours in full.where(method="dd", device="cpu"):
        paper = full.one(
            method="dd-paper", device="cpu", network=ours.network, size=ours.size, seed=ours.seed
        )
        if paper is not None and (most := (ours.objective or 0) - (ours.untreated or 0)) > 0:
            reached = (paper.objective or 0) - (paper.untreated or 0)
            found.append(Gain(ours.network, ours.seed, ours.size, most / ours.size, reached / most))
    return found


def plot_two_causes(
    full: Results, distance: Mapping[tuple[str, int], float], size: Mapping[tuple[str, int], float]
) -> Figure:
    """Above: fraction gained by the defaults against the distance to the boundary. Below: the part
    of that gain which the paper's settings attain, against the size of the logits. A panel for each
    architecture, with the instances of the others in grey behind.
    """
    figure, grid = plt.subplots(2, len(E4_NETWORKS), figsize=(6.8, 4.2), sharey="row")
    known = [gain for gain in gains(full) if gain[:2] in distance]
    for i, network in enumerate(E4_NETWORKS):
        above, below = grid[:, i]
        style = look(i, linestyle="", markersize=4.5)
        for ours in (False, True):
            rows = [gain for gain in known if (gain.network == network) == ours]
            ink = style if ours else {"linestyle": "", "marker": ".", "color": PALE_GREY}
            above.plot([distance[row[:2]] for row in rows], [row.share for row in rows], **ink)
            below.plot([size[row[:2]] for row in rows], [row.part for row in rows], **ink)
        above.set(title=network)
        below.set(title=network)
    for ax in grid.flat:
        ax.set(xscale="log", ylim=(0, None))
        ticks_at(ax, [0.25, 1, 4])
    grid[0, 0].set_ylabel("gain of the defaults")
    grid[1, 0].set_ylabel("part attained,\npaper's settings")
    grid[0, 2].set_xlabel("distance to the boundary, standard deviations")
    grid[1, 2].set_xlabel("median size of a logit")
    return figure


def plot_iteration_cost(full: Results, work: Mapping[str, float]) -> Figure:
    """Milliseconds of the NN block in an iteration, against parameters and multiply-adds, at the
    largest size.
    """
    figure, axes = draw_panels(2, 3.2, 6.4, sharey=True)
    size = max(full.distinct("size"), default=0)
    for i, network in enumerate(E4_NETWORKS):
        rows = full.where(method="dd-paper", network=network, size=size, device="cpu")
        if len(rows):
            part = rows.values("seconds_nn") / rows.values(
                "seconds"
            )  # of the wall clock; the processor's is not split
            each = 1e3 * float(
                np.mean(part * rows.values("cpu_seconds") / rows.values("iterations"))
            )
            for ax, x in zip(axes, (rows.values("parameters")[0], work[network]), strict=True):
                ax.plot(x, each, **look(i, linestyle="", markersize=7, label=network))
    for ax, label in zip(axes, ("parameters $P$", "multiply-adds $W$"), strict=True):
        ax.set(xscale="log", yscale="log", xlabel=f"{label}, thousands")
        plain_log(ax.xaxis, 1000.0)
        plain_log(ax.yaxis)
    axes[0].set_ylabel("ms in the NN block")
    legend_outside(figure, 5, "lower")
    return figure

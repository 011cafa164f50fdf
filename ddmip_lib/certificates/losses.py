r"""The loss of a point: by how much it falls short of the largest value that its block can earn.
Certificates bound this quantity from below.

At prices $\pi$ a block in one mode (an entry of the table of `Blocks`) earns at most `top`, less
the *loss* of its point:

$$\text{loss}(u) = \sum_j a_j (u_j - w_j)_+ + d_j (w_j - u_j)_+ \; + \; g\,(h - f(u))_+ .$$

The first part is the cost of the resources that the point uses, the second the value that its
output misses: $h$ is the largest output that counts and $g$ the value of a unit of it. A class is
the same with $h = 0$ and $g = \infty$.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from numpy import ndarray
from torch import Tensor

from ..bounds import Ball, Box, Graph, crown, intervals
from ..bounds.result import Batch
from ..model.blocks import Blocks
from ..numerics import gamma
from ..pricing.pricing_problem import MIN_LOGIT, PricingProblem, ascend, reduce_to_boundary

MAX_MULTIPLIER = 1e12  # value per unit of output, where the linear bound cannot reach the output
MIN_DECREASE = 1e-300  # output units: guards a division by zero


@dataclass(eq=False)
class Losses(Batch):
    """Losses of k blocks with one network at given prices.

    Attributes
    ----------
    lower, upper : Tensor
        Boxes of the inputs, (k, p).
    base : Tensor
        Points from which the use of resources is counted, (k, p).
    up, down : Tensor
        Costs of a unit of movement above and below `base`, (k, p).
    gain : Tensor
        Value of a unit of output, (k,); infinite for classes.
    level : Tensor
        Largest output that counts, (k,).
    top : Tensor
        Value of a point without loss, less the cost of the mode, (k,).
    """

    lower: Tensor
    upper: Tensor
    base: Tensor
    up: Tensor
    down: Tensor
    gain: Tensor
    level: Tensor
    top: Tensor

    def to(self, device: str | torch.device) -> "Losses":
        """Return the same losses with their tensors on another device."""
        return Losses(*(part.to(device) for part in vars(self).values()))

    def task(self) -> PricingProblem:
        """Return the problem of finding points with a small loss, for the steps of pricing."""
        first = (self.lower, self.upper, self.base, self.up, self.down, self.gain)
        return PricingProblem(*first, self.level, 2 * MIN_LOGIT)

    def cost(self, u: Tensor) -> Tensor:
        """Return the first part of the loss, the cost of the resources that points use.

        Parameters
        ----------
        u : Tensor
            One point for each block, (k, p).

        Returns
        -------
        Tensor
            The costs, (k,).
        """
        return self.task().cost(u)

    def at(self, u: Tensor, output: Tensor, margin: float = 0.0) -> Tensor:
        """Return the losses of points.

        Parameters
        ----------
        u : Tensor
            One point for each block, (k, p).
        output : Tensor
            The network's outputs at the points, (k,).
        margin : float
            A point is in the class if its output exceeds this.

        Returns
        -------
        Tensor
            The losses, (k,); infinite for points outside the class.
        """
        shortfall = (self.level - output).clamp(min=0.0)
        outside_class = torch.where(output > margin, 0.0, torch.inf)
        missed = torch.where(self.gain.isinf(), outside_class, self.gain * shortfall)
        return self.cost(u) + missed.nan_to_num(posinf=torch.inf)


def search_points(graph: Graph, losses: Losses, start: Tensor, **settings: Any) -> Tensor:
    """Search points with small losses by the steps of pricing.

    Parameters
    ----------
    graph : Graph
        The network.
    losses : Losses
        The losses, all of classes or all of other outputs.
    start : Tensor
        Points to start from, (k, p).
    **settings
        As for `ascend`.

    Returns
    -------
    Tensor
        The points, (k, p).
    """
    task = losses.task()
    points, _ = ascend(graph, task, start, **settings)
    if not bool(losses.gain.isinf().all()):
        return points
    return reduce_to_boundary(graph, task, points)


class Least(NamedTuple):
    """The best Lagrangian bound of the loss from one linear bound of the network.

    Attributes
    ----------
    value : Tensor
        Lower bounds of the losses, (k,).
    multiplier : Tensor
        The multipliers of the linear bounds, (k,).
    point : Tensor
        Points at which the bounds are attained, (k, p).
    """

    value: Tensor
    multiplier: Tensor
    point: Tensor


def least_loss(losses: Losses, region: Ball, coef: Tensor, const: Tensor) -> Least:
    """Maximise the Lagrangian bound of the loss over the multiplier of one linear bound.

    Parameters
    ----------
    losses : Losses
        The losses, one for each region.
    region : Ball
        The balls over which the losses are bounded.
    coef, const : Tensor
        The linear bounds `coef` u + `const` <= -f(u), (k, p) and (k,).

    Returns
    -------
    Least
        The largest bounds. Where the linear bound proves nothing (the centre, or points that it
        reaches without cost, need not lose anything) the value is not positive, and the multiplier
        is one from which gradient steps can start.
    """
    at_centre = coef * region.centre
    need = losses.level + at_centre.sum(-1) + const
    knapsack = _Knapsack(region, coef, need)
    multiplier = knapsack.multiplier(region.radius).minimum(losses.gain)
    reduced = knapsack.reduction(multiplier)
    terms = losses.level.abs() + at_centre.abs().sum(-1) + const.abs()
    rounding = gamma(4 * coef.shape[-1] + 32) * (multiplier * terms + reduced)
    value = multiplier * need - reduced - rounding
    return Least(value, multiplier, region.centre + knapsack.move(multiplier))


class _Knapsack:
    """Fractional knapsacks: coordinates move so that a linear function decreases by `need`, in the
    order of their prices per unit of decrease (the breakpoints of the dual function).
    """

    def __init__(self, region: Ball, coef: Tensor, need: Tensor) -> None:
        falls = coef > 0
        size = coef.abs()
        price = torch.where(falls, region.down, region.up)
        room = torch.where(falls, region.centre - region.lower, region.upper - region.centre)
        prices = torch.where(size != 0, price / size, torch.inf)
        self.breakpoints, self.order = prices.sort(-1)
        decrease = (size * room).gather(-1, self.order).cumsum(-1)
        covered = decrease >= need[:, None]
        first = covered.to(torch.int8).argmax(-1, keepdim=True)
        self.missing = need - decrease[:, -1]
        self.reaches = covered[:, -1]
        self.surplus = decrease.gather(-1, first)[:, 0] - need
        self.critical = self.breakpoints.gather(-1, first)[:, 0]
        self.last = self.order.gather(-1, first)
        self.proves = (need > 0) & (~self.reaches | (self.critical > 0))
        self.falls = falls
        self.size = size
        self.price = price
        self.room = room

    def multiplier(self, radius: Tensor) -> Tensor:
        """The best multipliers; where nothing is proved, those at which moves begin to pay.

        Where no move reaches the needed decrease, they prove more than the radius.
        """
        finite = torch.where(self.breakpoints.isfinite(), self.breakpoints, 0.0).amax(-1)
        beyond = finite + 2 * radius / self.missing.clamp(min=MIN_DECREASE)
        best = torch.where(self.reaches, self.critical, beyond.clamp(max=MAX_MULTIPLIER))
        smallest = torch.where(self.breakpoints > 0, self.breakpoints, torch.inf).amin(-1)
        start = torch.where(smallest.isfinite(), smallest, 1.0)
        return torch.where(self.proves, best, start)

    def reduction(self, multiplier: Tensor) -> Tensor:
        """By how much moves that pay lower the value of the Lagrangian at the centre."""
        profit = (multiplier[:, None] * self.size - self.price).clamp(min=0.0)
        return (self.room * profit).sum(-1)

    def move(self, multiplier: Tensor) -> Tensor:
        """The minimisers less the centre; the critical coordinate may move a fraction."""
        moved = (self.price < multiplier[:, None] * self.size).to(self.size.dtype)
        unused = self.surplus / (self.size * self.room).gather(-1, self.last)[:, 0]
        used = 1.0 - unused.clamp(0.0, 1.0).nan_to_num(0.0)
        at_breakpoint = self.proves & self.reaches & (self.critical <= multiplier)
        fraction = torch.where(at_breakpoint, used, moved.gather(-1, self.last)[:, 0])
        distance = moved.scatter(-1, self.last, fraction[:, None]) * self.room
        return torch.where(self.falls, -distance, distance)


def losses_at(
    blocks: Blocks, prices: ndarray, rows: ndarray, graph: Graph, classes: bool
) -> Losses:
    """Return the losses of some blocks at given prices.

    Parameters
    ----------
    blocks : Blocks
        The blocks of the problem.
    prices : ndarray
        The prices of the resources, (m,).
    rows : ndarray
        Indices into the table of `blocks`, all with the same network.
    graph : Graph
        The network.
    classes : bool
        Whether the network's output is a logit, of which only the sign counts. Other outputs count
        up to their cap, or to an upper bound over the box.

    Returns
    -------
    Losses
        The losses, in the order of `rows`.

    Examples
    --------
    >>> import numpy as np
    >>> from ddmip_lib.bounds import network_graph
    >>> from ddmip_lib.pricing.recognition import find_blocks
    >>> from ddmip_lib.problems import shared_budget
    >>> problem = shared_budget()
    >>> blocks = find_blocks(problem, problem.instance())
    >>> graph = network_graph(problem.predictors[0].net, 1)
    >>> losses = losses_at(blocks, np.array([1.0]), np.arange(2), graph, classes=False)
    >>> losses.top.round(decimals=3)
    tensor([2., 2.], dtype=torch.float64)
    """
    up, down = blocks.rates(prices)
    gains = blocks.worth * blocks.gains(prices)
    task = PricingProblem.of(blocks, rows, up[rows], down[rows], gains[rows])
    gain = task.gain
    if classes:
        level = torch.zeros_like(gain)
        top = gain
        gain = torch.full_like(gain, torch.inf)
    else:
        level = _largest_output(graph, Box(task.lower, task.upper)).minimum(task.cap)
        top = gain * level
    top = top - torch.from_numpy(blocks.fixed[rows] @ prices)
    return Losses(*task[:5], gain, level, top)


def _largest_output(graph: Graph, box: Box) -> Tensor:
    """Upper bounds of the outputs; where a box is a point, intervals are as tight as CROWN."""
    point = (box.lower == box.upper).all(-1)
    found = intervals(graph, box).upper[:, 0]
    if point.all():
        return found
    return torch.where(point, found, crown(graph, box).upper[:, 0])

r"""The pricing problem of a network: the best point of every block at given prices, in one batch.

At prices $\pi$ a point of class 1 is best if its cost $\pi^\top r$ is smallest among all $u$ with
$f(u) > 0$; for an output, $g\,\min(f(u), h) - \pi^\top r$ is maximised, $g$ being the objective
coefficient of one unit. The cost is a weighted $\ell_1$ distance from the base point, so with $f$
replaced by its linearisation at $u$ and steps limited to a box of radius $\Delta$ the problem is a
fractional knapsack: start at the cheapest point of that box, then move the coordinates in the order
of derivative by cost until the class is reached, or until a unit of output costs more than it
earns. Each step is one forward and one backward pass through the network; $\Delta$ decreases from
step to step.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from ..clock import check_time
from ..model.blocks import BlockRows, Blocks
from ..model.gradients import vjp

MIN_LOGIT = 1e-6
"""Smallest logit of a point of class 1, in double precision."""
TRUST_REGION_FACTOR = 0.85
"""Factor of the radius of the trust region from one step to the next."""

Network = Callable[[Tensor], Tensor]


class PricingProblem(NamedTuple):
    """A batch of k pricing problems for one network with p inputs.

    Attributes
    ----------
    lower, upper, base
        Boxes of the inputs, and the points from which costs are counted, (k, p).
    up, down
        Cost of one unit above and below the base point, (k, p).
    gain
        Objective coefficient of one unit of output, infinite for a class, (k,).
    cap
        Largest output that counts, (k,).
    margin
        Smallest logit of a point of class 1.
    """

    lower: Tensor
    upper: Tensor
    base: Tensor
    up: Tensor
    down: Tensor
    gain: Tensor
    cap: Tensor
    margin: float = MIN_LOGIT

    @classmethod
    def of(
        cls,
        blocks: Blocks | BlockRows,
        at: ndarray,
        up: ndarray,
        down: ndarray,
        gain: ndarray,
        margin: float = MIN_LOGIT,
    ) -> "PricingProblem":
        """Return the pricing problems of rows `at` of the table of `Blocks`.

        Parameters
        ----------
        blocks
            The table, or some rows of it.
        at
            Numbers of the rows; a row may occur several times.
        up, down, gain, margin
            As in `PricingProblem`.
        """
        box = blocks.lower[at], blocks.upper[at], blocks.base[at]
        arrays = *box, up, down, gain, blocks.cap[at]
        return cls._make([*map(torch.from_numpy, arrays), margin])

    def in_class(self, network: Network, u: Tensor) -> Tensor:
        """Return which of the points u are of class 1."""
        return network(u)[:, 0] >= self.margin

    def cost(self, u: Tensor) -> Tensor:
        """Return the cost of the points u, over their last axis."""
        move = u - self.base
        return (self.up * move.clamp(min=0) + self.down * (-move).clamp(min=0)).sum(dim=-1)

    @property
    def target(self) -> Tensor:
        """Output beyond which the objective does not increase; for a class twice the margin.

        A step that is exact but for rounding errors would end below the margin itself.
        """
        return torch.where(self.gain.isinf(), 2 * self.margin, self.cap)

    def profit(self, u: Tensor, output: Tensor) -> Tensor:
        """Return the objective at points u with these outputs; -inf if the class is not 1."""
        of_class = torch.where(output >= self.margin, 0.0, -torch.inf)
        of_output = self.gain.nan_to_num(posinf=0.0) * output.minimum(self.cap)
        return torch.where(self.gain.isinf(), of_class, of_output) - self.cost(u)


def values_and_slopes(network: Network, u: Tensor) -> tuple[Tensor, Tensor]:
    """Return the outputs of a batch, (k,), and their gradients, (k, p)."""
    u = u.detach().requires_grad_(True)
    with torch.enable_grad():
        output = network(u)[:, 0]
    return output.detach(), vjp([output], u, np.ones(len(u)))


def linear_step(
    task: PricingProblem, u: Tensor, output: Tensor, slope: Tensor, radius: Tensor
) -> Tensor:
    """Solve the pricing problems with the network replaced by its linearisation at u.

    Parameters
    ----------
    task
        The pricing problems.
    u, output, slope
        Points, (k, p), the network's outputs there, (k,), and its gradients, (k, p).
    radius
        Largest change of each coordinate, (k, p).

    Returns
    -------
    Tensor
        The optimal points, (k, p).
    """
    lower = torch.maximum(task.lower, u - radius)
    upper = torch.minimum(task.upper, u + radius)
    cheapest = torch.maximum(torch.minimum(task.base, upper), lower)
    rises = slope > 0
    length = torch.where(rises, upper - cheapest, cheapest - lower)
    ratio = slope.abs() / torch.where(rises, task.up, task.down).clamp(min=1e-12)
    increase = torch.where(ratio * task.gain.unsqueeze(1) > 1.0, slope.abs() * length, 0.0)
    missing = task.target - output - (slope * (cheapest - u)).sum(dim=1)
    move = torch.where(increase > 0, _knapsack(ratio, increase, missing) * length, 0.0)
    return cheapest + torch.where(rises, move, -move)


def _knapsack(ratio: Tensor, increase: Tensor, missing: Tensor) -> Tensor:
    """Return the fraction of each item, by decreasing ratio, until nothing is missing."""
    order = ratio.argsort(dim=1, descending=True)
    size = increase.gather(1, order)
    before = size.cumsum(dim=1) - size
    taken = (missing.unsqueeze(1) - before).clamp(min=0).minimum(size)
    return torch.zeros_like(increase).scatter(1, order, taken / size.clamp(min=1e-300))


def ascend(
    network: Network, task: PricingProblem, u: Tensor, steps: int = 24, radius: float = 0.5
) -> tuple[Tensor, Tensor]:
    """Improve points by steps that are optimal for linearisations of the network.

    Parameters
    ----------
    network
        The network.
    task
        The pricing problems.
    u
        Points from which the steps start, (k, p).
    steps
        Number of steps.
    radius
        First radius of the trust region, relative to the box.

    Returns
    -------
    tuple of Tensor
        The best of all points, (k, p), and its objective, (k,).
    """
    best = u
    best_profit = torch.full((len(u),), -torch.inf, dtype=u.dtype)
    for k in range(steps + 1):
        check_time()
        output, gradient = values_and_slopes(network, u)
        profit = task.profit(u, output)
        better = profit > best_profit
        best = torch.where(better[:, None], u, best)
        best_profit = torch.where(better, profit, best_profit)
        if k < steps:
            lengths = (task.upper - task.lower) * radius * TRUST_REGION_FACTOR**k
            u = linear_step(task, u, output, gradient, lengths)
    return best, best_profit


def reduce_to_boundary(
    network: Network, task: PricingProblem, u: Tensor, halvings: int = 14
) -> Tensor:
    """Move points of class 1 towards their base points as far as the class stays 1.

    First single coordinates are reset to the base point, those of the highest cost before the
    others; then all of them move together, by bisection.

    Parameters
    ----------
    network, task, u
        As in `ascend`.
    halvings
        Number of bisection steps.

    Returns
    -------
    Tensor
        Points of class 1 that cost no more, (k, p).
    """
    cost = (u - task.base).abs() * torch.where(u > task.base, task.up, task.down)
    points = torch.arange(len(u))
    with torch.no_grad():
        for coordinate in cost.argsort(dim=1, descending=True).T:
            check_time()
            trial = u.clone()
            trial[points, coordinate] = task.base[points, coordinate]
            u = torch.where(task.in_class(network, trial)[:, None], trial, u)
        return _bisect(network, task, u, halvings)


def _bisect(network: Network, task: PricingProblem, u: Tensor, halvings: int) -> Tensor:
    """Return the last points of class 1 on the path from u to the base points."""
    inside = torch.ones(len(u), dtype=u.dtype)
    outside = task.in_class(network, task.base).to(u.dtype)
    for _ in range(halvings):
        check_time()
        middle = 0.5 * (inside + outside)
        feasible = task.in_class(network, task.base + middle[:, None] * (u - task.base))
        inside = torch.where(feasible, middle, inside)
        outside = torch.where(feasible, outside, middle)
    return task.base + inside[:, None] * (u - task.base)

r"""The NN block of price coordination: the best option of every block at given prices, all of them
in one batch.

At prices $\pi$ a class is worth having at the smallest cost $\pi^\top r$ of a point with $f(u) >
0$; an output at the largest $g\,\min(f(u), h) - \pi^\top r$, $g$ being the worth of one unit. The
cost is a weighted $\ell_1$ distance from the base point, so with $f$ replaced by its linearisation
at $u$ and steps limited to a box of radius $\Delta$ the problem is a fractional knapsack: go to the
cheapest point of that box, then take the coordinates in the order of slope by cost until the class
is reached, or until a unit of output costs more than it is worth. Each step is one pass forward and
one back through the network; $\Delta$ shrinks from step to step.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..clock import check_time
from ..model.blocks import BlockRows, Blocks
from ..model.gradients import vjp

MARGIN = 1e-6  # logit that a point of class 1 keeps from zero in double precision

Network = Callable[[Tensor], Tensor]


class PricingProblem(NamedTuple):
    """A batch of points for one network: boxes, base points, cost of a unit up and down, all (k,
    p); `gain` is what a unit of output is worth, (k,), infinite for a class; `cap` the largest
    output that counts.
    """

    lower: Tensor
    upper: Tensor
    base: Tensor
    up: Tensor
    down: Tensor
    gain: Tensor
    cap: Tensor
    margin: float = MARGIN

    @classmethod
    def of(
        cls,
        blocks: Blocks | BlockRows,
        at: np.ndarray,
        up: np.ndarray,
        down: np.ndarray,
        gain: np.ndarray,
        margin: float = MARGIN,
    ) -> "PricingProblem":
        """The task of rows `at` of the blocks' table."""
        parts = (
            blocks.lower[at],
            blocks.upper[at],
            blocks.base[at],
            up,
            down,
            gain,
            blocks.cap[at],
        )
        lower, upper, base, up_, down_, gain_, cap = map(torch.from_numpy, parts)
        return cls(lower, upper, base, up_, down_, gain_, cap, margin)

    def cost(self, u: Tensor) -> Tensor:
        """The cost of moving from the base points to u."""
        move = u - self.base
        return (self.up * move.clamp(min=0) + self.down * (-move).clamp(min=0)).sum(dim=1)

    @property
    def target(self) -> Tensor:
        """The output at which there is nothing more to gain; for a class a little beyond the
        margin, since a step that is exact but for rounding would end just short of it.
        """
        return torch.where(self.gain.isinf(), 2 * self.margin, self.cap)

    def profit(self, u: Tensor, output: Tensor) -> Tensor:
        """What is to be maximised; of a class not reached minus infinity."""
        loss = torch.where(output >= self.margin, 0.0, -torch.inf)
        earned = torch.where(
            self.gain.isinf(), loss, self.gain.nan_to_num(posinf=0.0) * output.minimum(self.cap)
        )
        return earned - self.cost(u)


def values_and_slopes(network: Network, u: Tensor) -> tuple[Tensor, Tensor]:
    """The output of each row and its gradient, by one pass forward and one back."""
    u = u.detach().requires_grad_(True)
    with torch.enable_grad():
        output = network(u)[:, 0]
    return output.detach(), vjp([output], u, np.ones(len(u)))


def linear_step(
    task: PricingProblem, u: Tensor, output: Tensor, slope: Tensor, radius: Tensor
) -> Tensor:
    """The best point for the linearisation at u, within `radius` (k, p) of it and the boxes."""
    low = torch.maximum(task.lower, u - radius)
    high = torch.minimum(task.upper, u + radius)
    cheapest = torch.maximum(torch.minimum(task.base, high), low)
    need = task.target - output - (slope * (cheapest - u)).sum(dim=1)
    rises = slope > 0
    room = torch.where(rises, high - cheapest, cheapest - low)
    price = torch.where(rises, task.up, task.down).clamp(min=1e-12)
    ratio = slope.abs() / price
    worth_it = ratio * task.gain.unsqueeze(1) > 1.0
    yields = torch.where(worth_it, slope.abs() * room, 0.0)
    order = ratio.argsort(dim=1, descending=True)
    sorted_yields = yields.gather(1, order)
    before = sorted_yields.cumsum(dim=1) - sorted_yields
    taken = (need.unsqueeze(1) - before).clamp(min=0).minimum(sorted_yields)
    share = torch.zeros_like(u).scatter(1, order, taken / sorted_yields.clamp(min=1e-300))
    step = torch.where(yields > 0, share * room, 0.0)
    return cheapest + torch.where(rises, step, -step)


def ascend(
    network: Network,
    task: PricingProblem,
    u: Tensor,
    steps: int = 24,
    radius: float = 0.5,
    shrink: float = 0.85,
) -> tuple[Tensor, Tensor]:
    """The most profitable point on a path of linear steps from u, and its profit; `radius` is a
    share of the box.
    """
    best = u
    most = torch.full((len(u),), -torch.inf, dtype=u.dtype)
    width = task.upper - task.lower
    for k in range(steps + 1):
        check_time()
        output, slope = values_and_slopes(network, u)
        profit = task.profit(u, output)
        better = profit > most
        best = torch.where(better[:, None], u, best)
        most = torch.where(better, profit, most)
        if k < steps:
            u = linear_step(task, u, output, slope, width * radius * shrink**k)
    return best, most


def reduce_to_boundary(
    network: Network, task: PricingProblem, u: Tensor, halvings: int = 14
) -> Tensor:
    """Points of class 1, moved towards their base points: whole coordinates first, the dearest
    before the others, then all together until the class is about to change.
    """
    move = (u - task.base).abs() * torch.where(u > task.base, task.up, task.down)
    order = move.argsort(dim=1, descending=True)
    rows = torch.arange(len(u))
    with torch.no_grad():
        for k in range(u.shape[1]):
            check_time()
            trial = u.clone()
            trial[rows, order[:, k]] = task.base[rows, order[:, k]]
            keeps = network(trial)[:, 0] >= task.margin
            u = torch.where(keeps[:, None], trial, u)
        inside = torch.ones(len(u), dtype=u.dtype)
        outside = torch.zeros(len(u), dtype=u.dtype)
        outside = torch.where(network(task.base)[:, 0] >= task.margin, 1.0, outside)
        for _ in range(halvings):
            check_time()
            middle = 0.5 * (inside + outside)
            keeps = network(task.base + middle[:, None] * (u - task.base))[:, 0] >= task.margin
            inside = torch.where(keeps, middle, inside)
            outside = torch.where(keeps, outside, middle)
        return task.base + inside[:, None] * (u - task.base)

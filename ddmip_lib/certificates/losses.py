r"""What an option can miss of the most that its block could earn: the quantity that certificates
bound from below.

At prices $\pi$ a row of the table of `Blocks` earns at most its `top`, less the *loss* of its
point:

$$\text{loss}(u) = \sum_j a_j (u_j - w_j)_+ + d_j (w_j - u_j)_+ \; + \; g\,(h - f(u))_+ .$$

The first part is what the point uses of the resources, the second what its output misses: $h$ is
the largest output that counts and $g$ what a unit of it is worth. A class is the same with $h = 0$
and $g = \infty$.
"""

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..bounds import Ball, Box, Graph, crown, intervals
from ..model.blocks import Blocks
from ..numerics import gamma
from ..pricing.pricing_problem import MARGIN, PricingProblem


@dataclass(frozen=True, eq=False)
class Losses:
    """Rows of one network at given prices: boxes, base points and rates (k, p); `gain`, `level` and
    `top` (k,).
    """

    lower: Tensor
    upper: Tensor
    base: Tensor
    up: Tensor
    down: Tensor
    gain: Tensor
    level: Tensor
    top: Tensor  # what the row earns where nothing is lost, less what the mode itself costs

    def __getitem__(self, rows: Tensor) -> "Losses":
        return Losses(*(getattr(self, part.name)[rows] for part in fields(self)))

    def to(self, device: str | torch.device) -> "Losses":
        return Losses(*(getattr(self, part.name).to(device) for part in fields(self)))

    def task(self) -> PricingProblem:
        """The same for the NN block, which looks for points that lose little."""
        cap = torch.where(self.gain.isinf(), torch.inf, self.level)
        return PricingProblem(
            self.lower, self.upper, self.base, self.up, self.down, self.gain, cap, 2 * MARGIN
        )

    def cost(self, u: Tensor) -> Tensor:
        """The first part of the loss, what the points use."""
        move = u - self.base
        return (self.up * move.clamp(min=0.0) + self.down * (-move).clamp(min=0.0)).sum(-1)

    def at(self, u: Tensor, output: Tensor, margin: float = 0.0) -> Tensor:
        """The losses of points (k, p) with outputs (k,); a class counts from `margin` on."""
        short = (self.level - output).clamp(min=0.0)
        missed = torch.where(
            self.gain.isinf(), torch.where(output > margin, 0.0, torch.inf), self.gain * short
        )
        return self.cost(u) + missed.nan_to_num(posinf=torch.inf)


class Least(NamedTuple):
    """A lower bound of the loss (k,), the multiplier that gives it, and the point where it is
    attained (k, p).
    """

    value: Tensor
    multiplier: Tensor
    point: Tensor


def least_loss(losses: Losses, region: Ball, coef: Tensor, const: Tensor) -> Least:
    """The largest bound that one form `coef` u + `const` <= -f(u) gives over each ball, or where it
    proves nothing (at the centre, or where moves that cost nothing lead to) a negative one, with a
    multiplier that steps can begin with.
    """
    falls = coef > 0
    size = coef.abs()
    price = torch.where(falls, region.down, region.up)
    room = torch.where(falls, region.centre - region.lower, region.upper - region.centre)
    need = losses.level + (coef * region.centre).sum(-1) + const
    ratio, order = torch.where(coef != 0, price / size, torch.inf).sort(-1)
    got = (size * room).gather(-1, order).cumsum(-1)
    enough = got >= need[:, None]
    reaches = got[:, -1] >= need
    first = enough.to(torch.int8).argmax(-1, keepdim=True)
    kink = ratio.gather(-1, first)[:, 0]
    missing = (need - got[:, -1]).clamp(min=1e-300)
    beyond = torch.where(ratio.isfinite(), ratio, 0.0).amax(-1) + 2 * region.radius / missing
    smallest = torch.where(ratio > 0, ratio, torch.inf).amin(-1)
    proves = (need > 0) & (~reaches | (kink > 0))
    best = torch.where(reaches, kink, beyond.clamp(max=1e12))
    best = torch.where(proves, best, torch.where(smallest.isfinite(), smallest, 1.0)).minimum(
        losses.gain
    )
    last = order.gather(-1, first)  # the coordinate that moves a part of its way
    spared = (got.gather(-1, first)[:, 0] - need) / (size * room).gather(-1, last)[:, 0]
    partly = proves & reaches & (kink <= losses.gain)
    moved = (price < best[:, None] * size).to(coef.dtype)
    share = torch.where(
        partly, 1.0 - spared.clamp(0.0, 1.0).nan_to_num(0.0), moved.gather(-1, last)[:, 0]
    )
    moved = moved.scatter(-1, last, share[:, None]) * room
    back = (room * (best[:, None] * size - price).clamp(min=0.0)).sum(-1)
    added = best * (losses.level.abs() + (coef * region.centre).abs().sum(-1) + const.abs()) + back
    value = best * need - back - gamma(4 * coef.shape[-1] + 32) * added
    return Least(value, best, region.centre + torch.where(falls, -moved, moved))


def losses_at(
    blocks: Blocks, prices: np.ndarray, rows: np.ndarray, graph: Graph, classes: bool
) -> Losses:
    """The losses of some rows of the table, all of one network.

    An output counts up to its cap, or to what it cannot exceed on its box.

    >>> from ddmip_lib.bounds import network_graph
    >>> from ddmip_lib.predictors import mlp
    >>> from ddmip_lib.problems import water_potability
    >>> net = mlp(2, 4, 9)
    >>> blocks = water_potability(n=3, net=net).blocks
    >>> losses_at(blocks, np.full(18, 0.1), np.arange(2), network_graph(net, 9), classes=True).top
    tensor([1., 1.], dtype=torch.float64)
    """
    lower, upper, base = (
        torch.from_numpy(part[rows]) for part in (blocks.lower, blocks.upper, blocks.base)
    )
    up, down = (torch.from_numpy(rate[rows]) for rate in blocks.rates(prices))
    worth = torch.from_numpy((blocks.worth * blocks.gains(prices))[rows])
    fixed = torch.from_numpy(blocks.fixed[rows] @ prices)
    if classes:
        level = torch.zeros_like(worth)
        gain = torch.full_like(worth, torch.inf)
        most = worth
    else:
        level = _largest(graph, Box(lower, upper)).minimum(torch.from_numpy(blocks.cap[rows]))
        gain = worth
        most = worth * level
    return Losses(lower, upper, base, up, down, gain, level, most - fixed)


def _largest(graph: Graph, box: Box) -> Tensor:
    """Upper bounds of the outputs; where a box is a point, intervals are as good as anything."""
    point = (box.lower == box.upper).all(-1)
    found = intervals(graph, box).upper[:, 0]
    return found if point.all() else torch.where(point, found, crown(graph, box).upper[:, 0])

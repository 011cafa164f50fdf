r"""Gradient steps on the bounds of nodes: on the lower slopes, and on the multipliers of the
splits.

With these given, the output is followed back to a form $q^\top u + \kappa \le -f(u)$, whose best
multiplier $\mu$ and point $u$ where its bound is attained are those of a fractional knapsack
(`least_loss`). So the bound is a function of the form alone, and $\mu u$ and $\mu$ are its
derivatives by $q$ and $\kappa$. The rest needs no tape: let $v_0 = u$, and let $v_i$ be what node
$i$ makes of its parents there if activations are replaced by the lines that the form took. Then
$\mu\, v_i$ is the derivative by the coefficients of node $i$, hence $\mu\, (c_i)_+ v$ that by the
lower slopes of an activation with coefficients $c_i$ and parent $v$, and $-\mu\, s\, v$ that by the
multipliers of its splits $s$: one pass back, one forth. (Steps on $\mu$ as on the others get caught
at kinks, where a coordinate moves a part of its way.)

What steps propose is bounded again by whoever asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor

from ..bounds.graph import Affine, Elementwise, Graph
from ..bounds.propagation import BoundPropagation
from ..bounds.regions import Ball
from .losses import Losses, least_loss

RATE = 0.2
FADE = 0.95
DROP = 0.9  # share of the nodes in a step that must still need it; else the others are taken out


class Taken(NamedTuple):
    """What a form took of an activation: its coefficients there, and the lines that take the units'
    place.
    """

    coef: Tensor
    line: Tensor
    shift: Tensor


@dataclass(eq=False)
class Ascent:
    """What steps need of nodes, one row each; units (k, units) are those of all activations, one
    after another.
    """

    graph: Graph
    losses: Losses
    region: Ball
    below_shift: Tensor
    above: Tensor
    above_shift: Tensor
    free: Tensor
    split: Tensor

    @classmethod
    def of(cls, sweep: BoundPropagation, losses: Losses, region: Ball) -> "Ascent":
        lines = [sweep.lines[index] for index in sweep.graph.activations]
        shift, above, above_shift, free = (
            concatenated([getattr(line, name) for line in lines], region.centre)
            for name in ("below_shift", "above", "above_shift", "free")
        )
        splits = [
            torch.zeros_like(line.above) if split is None else split.to(line.above)
            for line, split in zip(lines, sweep.splits or [None] * len(lines), strict=True)
        ]
        split = concatenated(splits, region.centre)
        return cls(sweep.graph, losses, region, shift, above, above_shift, free.bool(), split)

    def __getitem__(self, rows: Tensor) -> "Ascent":
        return Ascent(self.graph, *(getattr(self, field.name)[rows] for field in fields(self)[1:]))

    def step(self, slopes: Tensor, duals: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The bounds (k,) and their derivatives by slopes and by the multipliers of splits."""
        coef, const, taken = self._back(slopes, duals)
        value, multiplier, point = least_loss(self.losses, self.region, coef, const)
        entered = multiplier[:, None] * self._forth(point, taken)
        by_slope = torch.where(self.free, self._coefs(taken).clamp(min=0.0), 0.0) * entered
        return value, by_slope, -self.split * entered

    def coefs(self, slopes: Tensor, duals: Tensor) -> Tensor:
        """The coefficients of all units on the way back, (k, units)."""
        return self._coefs(self._back(slopes, duals)[2])

    def _coefs(self, taken: dict[int, Taken]) -> Tensor:
        each = [taken[index].coef.expand(len(self.free), -1) for index in self.graph.activations]
        return concatenated(each, self.region.centre)

    def _back(self, slopes: Tensor, duals: Tensor) -> tuple[Tensor, Tensor, dict[int, Taken]]:
        """The form of the input, (k, p) and (k,), and what it took of each activation."""
        nodes = self.graph.nodes
        last = len(self.graph.nodes) - 1
        end = slopes.shape[1]
        pulled = duals * self.split
        taken = dict[int, Taken]()
        coefs = {last: -slopes.new_ones(1, 1)}
        const = slopes.new_zeros(len(slopes))
        for i in range(last, 0, -1):
            node = nodes[i]
            coef = coefs.pop(i)
            if isinstance(node, Elementwise):
                here = slice(end - node.units, end)
                end = end - node.units
                rises = coef >= 0
                line = torch.where(rises, slopes[:, here], self.above[:, here])
                shift = torch.where(rises, self.below_shift[:, here], self.above_shift[:, here])
                taken[i] = Taken(coef, line, shift)
                const = const + (coef * shift).sum(-1)
                coef = coef * line - pulled[:, here]
            elif isinstance(node, Affine):
                const = const + coef @ node.bias
                coef = coef @ node.weight
            for parent in node.parents:
                coefs[parent] = coefs[parent] + coef if parent in coefs else coef
        return coefs[0].expand(len(slopes), -1), const, taken

    def _forth(self, point: Tensor, taken: dict[int, Taken]) -> Tensor:
        """What enters the activations at points (k, p), if these lines are in their places; (k,
        units).
        """
        values = [point]
        for i, node in enumerate(self.graph.nodes[1:], 1):
            if isinstance(node, Affine):
                values.append(torch.addmm(node.bias, values[node.parent], node.weight.T))
            elif isinstance(node, Elementwise):
                values.append(torch.addcmul(taken[i].shift, taken[i].line, values[node.parent]))
            else:
                values.append(torch.stack([values[parent] for parent in node.parents]).sum(0))
        return concatenated([values[index] for index in self.graph.hidden], point)


def climb(
    ascent: Ascent, slopes: Tensor, duals: Tensor, record: Tensor, steps: Tensor, goal: Tensor
) -> tuple[Tensor, Tensor]:
    """The best slopes and multipliers of so many steps of Adam; nodes whose bound is at their goal
    take no more.

    `record` holds the bounds that they begin with. Slopes stay in [0, 1], multipliers at or above
    0.
    """
    units = slopes.shape[1]
    able = (ascent.free | (ascent.split != 0)).any(1)
    steps = torch.where(able, steps, 0)
    best = torch.cat([slopes, duals], 1)
    now = best.clone()
    most = torch.ones_like(best[0])
    most[units:] = torch.inf
    mean = torch.zeros_like(now)
    square = torch.zeros_like(now)
    at = torch.arange(len(goal), device=goal.device)
    taken = 0
    while True:
        going = (record[at] < goal[at]) & (taken < steps[at])
        if not going.any():
            return best[:, :units], best[:, units:]
        if taken == 0 or int(going.sum()) < DROP * len(at):  # those that go on are put together
            at = at[going]
            ascent = ascent[going]
            now = now[going]
            mean = mean[going]
            square = square[going]
        value, *gradients = ascent.step(now[:, :units], now[:, units:])
        better = value > record[at]
        rows = at[better]
        record[rows], best[rows] = value[better], now[better]
        gradient = torch.cat(gradients, 1)
        taken += 1
        mean.lerp_(gradient, 0.1)
        square.lerp_(gradient.square_(), 0.001)
        size = (square / (1 - 0.999**taken)).sqrt_().add_(1e-12)
        rate = RATE * FADE ** (taken - 1) / (1 - 0.9**taken)
        now = torch.addcdiv(now, mean, size, value=rate).clamp_(0.0).minimum(most)


def concatenated(parts: Sequence[Tensor], like: Tensor) -> Tensor:
    """Those of all activations one after another, (k, units); without any, as many rows of
    nothing.
    """
    return torch.cat(list(parts), 1) if parts else like[:, :0]

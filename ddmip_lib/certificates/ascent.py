r"""Gradient steps on the bounds of nodes: on lower slopes, on the multipliers of the splits and on that of the form.

With slopes and multipliers given, the output is followed back to a form $q^\top u + \kappa \le -f(u)$, and for every
$\mu \ge 0$ the bound is $\mu\,(h + q^\top u + \kappa) + \text{cost}(u)$ at the point $u$ of the box where it is least.
Its gradient needs no tape. Let $v_0 = u$, and let $v_i$ be what node $i$ makes of its parents there if activations are
replaced by the lines that the form took. Then the bound falls or rises by $\mu\, v_i$ with the coefficients of node
$i$, so that $\mu\, (c_i)_+ v$ is the derivative by the lower slopes of an activation with coefficients $c_i$ and parent
$v$, and $-\mu\, s\, v$ that by the multipliers of splits $s$: one pass back and one forth.

Steps are not rounded: what they propose is bounded again by whoever asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor

from ..bounds.graph import Activation, Affine, Graph
from ..bounds.regions import Ball
from ..bounds.sweep import Sweep
from .losses import Losses

RATE, FADE = 0.1, 0.97
DROP = 0.9  # share of the nodes in a step that must still need it; else the others are taken out


class Taken(NamedTuple):
    """What a form took of an activation: its coefficients there, and the lines that take the units' place."""

    coef: Tensor
    line: Tensor
    shift: Tensor


@dataclass(eq=False)
class Ascent:
    """What steps need of nodes, one row each; units (k, units) are those of all activations, one after another."""

    graph: Graph
    below_shift: Tensor
    above: Tensor
    above_shift: Tensor
    free: Tensor
    split: Tensor
    centre: Tensor
    room_up: Tensor
    room_down: Tensor
    up: Tensor
    down: Tensor
    level: Tensor
    gain: Tensor

    @classmethod
    def of(cls, sweep: Sweep, losses: Losses, region: Ball) -> "Ascent":
        lines = [sweep.lines[index] for index in sweep.graph.activations]
        shift, above, above_shift, free = (
            joined([getattr(line, name) for line in lines], region.centre)
            for name in ("below_shift", "above", "above_shift", "free")
        )
        splits = [torch.zeros_like(line.above) if split is None else split.to(line.above)
                  for line, split in zip(lines, sweep.splits or [None] * len(lines), strict=True)]  # fmt: skip
        return cls(
            sweep.graph, shift, above, above_shift, free.bool(), joined(splits, region.centre), region.centre,
            region.upper - region.centre, region.centre - region.lower, region.up, region.down, losses.level,
            losses.gain,
        )  # fmt: skip

    def __getitem__(self, rows: Tensor) -> "Ascent":
        return Ascent(self.graph, *(getattr(self, field.name)[rows] for field in fields(self)[1:]))

    def step(self, slopes: Tensor, duals: Tensor, multiplier: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The bounds (k,) and their derivatives by slopes, by the multipliers of splits and by that of the form."""
        coef, const, taken = self._back(slopes, duals)
        falls, best = coef > 0, multiplier.minimum(self.gain)
        price, room = torch.where(falls, self.down, self.up), torch.where(falls, self.room_down, self.room_up)
        room = torch.where(best[:, None] * coef.abs() > price, room, 0.0)
        point = self.centre + torch.where(falls, -room, room)
        missed = self.level + (coef * point).sum(-1) + const
        entered = best[:, None] * self._forth(point, taken)
        by_slope = torch.where(self.free, self._coefs(taken).clamp(min=0.0), 0.0) * entered
        by_multiplier = torch.where(multiplier < self.gain, missed, 0.0)
        return best * missed + (price * room).sum(-1), by_slope, -self.split * entered, by_multiplier

    def coefs(self, slopes: Tensor, duals: Tensor) -> Tensor:
        """The coefficients of all units on the way back, (k, units)."""
        return self._coefs(self._back(slopes, duals)[2])

    def _coefs(self, taken: dict[int, Taken]) -> Tensor:
        each = [taken[index].coef.expand(len(self.centre), -1) for index in self.graph.activations]
        return joined(each, self.centre)

    def _back(self, slopes: Tensor, duals: Tensor) -> tuple[Tensor, Tensor, dict[int, Taken]]:
        """The form of the input, (k, p) and (k,), and what it took of each activation."""
        nodes, last, end = self.graph.nodes, len(self.graph.nodes) - 1, slopes.shape[1]
        pulled, taken = duals * self.split, dict[int, Taken]()
        coefs, const = {last: -slopes.new_ones(1, 1)}, slopes.new_zeros(len(slopes))
        for i in range(last, 0, -1):
            node, coef = nodes[i], coefs.pop(i)
            if isinstance(node, Activation):
                here, end = slice(end - node.units, end), end - node.units
                rises = coef >= 0
                line = torch.where(rises, slopes[:, here], self.above[:, here])
                shift = torch.where(rises, self.below_shift[:, here], self.above_shift[:, here])
                taken[i] = Taken(coef, line, shift)
                const, coef = const + (coef * shift).sum(-1), coef * line - pulled[:, here]
            elif isinstance(node, Affine):
                const, coef = const + coef @ node.bias, coef @ node.weight
            for parent in node.parents:
                coefs[parent] = coefs[parent] + coef if parent in coefs else coef
        return coefs[0].expand(len(slopes), -1), const, taken

    def _forth(self, point: Tensor, taken: dict[int, Taken]) -> Tensor:
        """What enters the activations at points (k, p), if these lines are in their places; (k, units)."""
        values = [point]
        for i, node in enumerate(self.graph.nodes[1:], 1):
            if isinstance(node, Affine):
                values.append(torch.addmm(node.bias, values[node.parent], node.weight.T))
            elif isinstance(node, Activation):
                values.append(torch.addcmul(taken[i].shift, taken[i].line, values[node.parent]))
            else:
                values.append(torch.stack([values[parent] for parent in node.parents]).sum(0))
        return joined([values[index] for index in self.graph.hidden], point)


def climb(
    ascent: Ascent, slopes: Tensor, duals: Tensor, multiplier: Tensor, record: Tensor, steps: Tensor, goal: Tensor
) -> tuple[Tensor, Tensor]:
    """The best slopes and multipliers of so many steps of Adam; nodes whose bound is at their goal take no more.

    `record` holds the bounds that they begin with. Slopes stay in [0, 1], multipliers at or above 0.
    """
    units, able = slopes.shape[1], (ascent.free | (ascent.split != 0)).any(1)
    steps = torch.where(able, steps, 0)
    best, now = torch.cat([slopes, duals], 1), torch.cat([slopes, duals, multiplier.clamp(1e-9, 1e9).log()[:, None]], 1)
    low, high = torch.zeros_like(now[0]), torch.ones_like(now[0])
    high[units:], low[-1], high[-1] = torch.inf, -20.0, 20.0
    mean, square = torch.zeros_like(now), torch.zeros_like(now)
    at, taken = torch.arange(len(goal), device=goal.device), 0
    while True:
        going = (record[at] < goal[at]) & (taken < steps[at])
        if not going.any():
            return best[:, :units], best[:, units:]
        if taken == 0 or int(going.sum()) < DROP * len(at):  # those that go on are put together
            at, ascent = at[going], ascent[going]
            now, mean, square = now[going], mean[going], square[going]
        multiplier = now[:, -1].exp()
        value, by_slope, by_dual, by_multiplier = ascent.step(now[:, :units], now[:, units:-1], multiplier)
        better = value > record[at]
        rows = at[better]
        record[rows] = value[better]
        best[rows] = now[better, :-1]
        gradient = torch.cat([by_slope, by_dual, (multiplier * by_multiplier)[:, None]], 1)
        taken += 1
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        move = mean / (1 - 0.9**taken) / ((square / (1 - 0.999**taken)).sqrt() + 1e-12)
        now = (now + RATE * FADE ** (taken - 1) * move).clamp(low, high)


def joined(parts: Sequence[Tensor], like: Tensor) -> Tensor:
    """Those of all activations one after another, (k, units); without any, as many rows of nothing."""
    return torch.cat(list(parts), 1) if parts else like[:, :0]

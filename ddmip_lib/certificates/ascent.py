r"""Gradient steps on the bounds of nodes: on the slopes of lower bounds of activations, and on the
multipliers of the splits.

With these given, the output is propagated back to a linear bound $q^\top u + \kappa \le -f(u)$,
whose best multiplier $\mu$ and minimiser $u$ are those of a fractional knapsack (`least_loss`). So
the bound is a function of $q$ and $\kappa$ alone, and $\mu u$ and $\mu$ are its derivatives by
them. The others need no automatic differentiation: let $v_0 = u$, and let $v_i$ be the value of
node $i$ there if every activation is replaced by the linear function that the backward pass chose
for it. Then $\mu\, v_i$ is the derivative by the coefficients of node $i$, hence $\mu\, (c_i)_+ v$
that by the slopes below an activation with coefficients $c_i$ and parent $v$, and $-\mu\, s\, v$
that by the multipliers of its splits $s$: one backward and one forward pass. (Steps on $\mu$ of the
same kind stall at breakpoints, where a coordinate moves a fraction of its room.)

The steps only propose: their bounds are computed again with rounding.
"""

from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor

from ..bounds.adam import Adam
from ..bounds.graph import Affine, Elementwise, Graph
from ..bounds.propagation import BoundPropagation
from ..bounds.regions import Ball
from .losses import Losses, least_loss
from .nodes import concatenated

ADAM_RATE = 0.2  # length of the first step
ADAM_RATE_DECAY = 0.95  # factor of the step length from one step to the next
MIN_ACTIVE_FRACTION = 0.9  # fraction of nodes that still take steps, below which others are removed


class Taken(NamedTuple):
    """The linear functions that replace one activation in a backward pass.

    Attributes
    ----------
    coef : Tensor
        Coefficients of the activation in the linear bound, (k, units).
    line, shift : Tensor
        Slopes and constants of the linear functions, (k, units).
    """

    coef: Tensor
    line: Tensor
    shift: Tensor


@dataclass(eq=False)
class Ascent:
    """The data of gradient steps on k nodes, one row each.

    Attributes
    ----------
    graph : Graph
        The network.
    losses : Losses
        The losses of the nodes.
    region : Ball
        The balls over which they are bounded.
    below, below_shift : Tensor
        Slopes and constants of the lower bounds of the activations, (k, units of all activations).
    above, above_shift : Tensor
        Slopes and constants of their upper bounds.
    free : Tensor
        Whether the slope of the lower bound can be chosen in [0, 1].
    split : Tensor
        Signs of the splits, 0 without one.
    """

    graph: Graph
    losses: Losses
    region: Ball
    below: Tensor
    below_shift: Tensor
    above: Tensor
    above_shift: Tensor
    free: Tensor
    split: Tensor

    @classmethod
    def of(cls, sweep: BoundPropagation, losses: Losses, region: Ball, splits: Tensor) -> "Ascent":
        """Collect the data from a bound propagation over the nodes, with their splits."""

        def joined(name: str) -> Tensor:
            parts = [getattr(sweep.lines[index], name) for index in sweep.graph.activations]
            return concatenated(parts, region.centre)

        return cls(
            sweep.graph,
            losses,
            region,
            joined("below"),
            joined("below_shift"),
            joined("above"),
            joined("above_shift"),
            joined("free").bool(),
            splits,
        )

    def __getitem__(self, rows: Tensor) -> "Ascent":
        return Ascent(self.graph, *(getattr(self, field.name)[rows] for field in fields(self)[1:]))

    def step(self, slopes: Tensor, duals: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Compute the bounds and their derivatives.

        Parameters
        ----------
        slopes, duals : Tensor
            Slopes of the lower bounds and multipliers of the splits, (k, units of all activations).

        Returns
        -------
        value : Tensor
            The bounds, (k,).
        by_slopes, by_duals : Tensor
            Their derivatives, (k, units).
        """
        coef, const, taken = self._back(slopes, duals)
        value, multiplier, point = least_loss(self.losses, self.region, coef, const)
        entered = multiplier[:, None] * self._forth(point, taken)
        by_slopes = torch.where(self.free, self._coefs(taken).clamp(min=0.0), 0.0) * entered
        return value, by_slopes, -self.split * entered

    def coefs(self, slopes: Tensor, duals: Tensor) -> Tensor:
        """Return the coefficients of all units in the backward pass, (k, units)."""
        return self._coefs(self._back(slopes, duals)[2])

    def _coefs(self, taken: dict[int, Taken]) -> Tensor:
        each = (taken[index].coef.expand(len(self.free), -1) for index in self.graph.activations)
        return concatenated(each, self.region.centre)

    def _back(self, slopes: Tensor, duals: Tensor) -> tuple[Tensor, Tensor, dict[int, Taken]]:
        """The linear bound in the inputs, (k, p) and (k,), and how it replaced each activation."""
        end = slopes.shape[1]
        split_coefs = duals * self.split
        taken = dict[int, Taken]()
        coefs = {len(self.graph.nodes) - 1: -slopes.new_ones(1, 1)}
        const = slopes.new_zeros(len(slopes))
        for index, node in reversed(list(enumerate(self.graph.nodes))[1:]):
            coef = coefs.pop(index)
            if isinstance(node, Elementwise):
                units = slice(end - node.units, end)
                end -= node.units
                taken[index] = self._replace(coef, slopes, units)
                const = const + (coef * taken[index].shift).sum(-1)
                coef = coef * taken[index].line - split_coefs[:, units]
            elif isinstance(node, Affine):
                const = const + coef @ node.bias
                coef = coef @ node.weight
            for parent in node.parents:
                coefs[parent] = coefs[parent] + coef if parent in coefs else coef
        return coefs[0].expand(len(slopes), -1), const, taken

    def _replace(self, coef: Tensor, slopes: Tensor, units: slice) -> Taken:
        """Lower bounds of the units with coefficients that are not negative, else upper bounds."""
        below = coef >= 0
        line = torch.where(below, slopes[:, units], self.above[:, units])
        shift = torch.where(below, self.below_shift[:, units], self.above_shift[:, units])
        return Taken(coef, line, shift)

    def _forth(self, point: Tensor, taken: dict[int, Taken]) -> Tensor:
        """The inputs (k, units) of all activations at points (k, p), with activations replaced."""
        values = [point]
        for i, node in enumerate(self.graph.nodes[1:], 1):
            if isinstance(node, Affine):
                value = torch.addmm(node.bias, values[node.parent], node.weight.T)
            elif isinstance(node, Elementwise):
                value = torch.addcmul(taken[i].shift, taken[i].line, values[node.parent])
            else:
                value = node.total(values)
            values.append(value)
        return concatenated((values[index] for index in self.graph.hidden), point)


def climb(
    ascent: Ascent, slopes: Tensor, duals: Tensor, record: Tensor, steps: Tensor, goal: Tensor
) -> tuple[Tensor, Tensor]:
    """Improve slopes and multipliers by steps of Adam.

    Parameters
    ----------
    ascent : Ascent
        The data of the nodes.
    slopes, duals : Tensor
        Slopes, kept in [0, 1], and multipliers, kept nonnegative, to start from, (k, units).
    record : Tensor
        The bounds at the start, (k,); the best bounds on return.
    steps : Tensor
        The largest number of steps, (k,) or a single number.
    goal : Tensor
        Bounds at which nodes take no more steps, (k,).

    Returns
    -------
    slopes, duals : Tensor
        Those of the best bounds.
    """
    units = slopes.shape[1]
    best = torch.cat([slopes, duals], 1)
    steps = torch.where((ascent.free | (ascent.split != 0)).any(1), steps, 0)
    active = torch.arange(len(goal), device=goal.device)
    upper = torch.ones_like(best[0])
    upper[units:] = torch.inf
    adam = Adam(best.clone(), upper, ADAM_RATE, ADAM_RATE_DECAY)
    while True:
        going = (record[active] < goal[active]) & (adam.steps < steps[active])
        if not going.any():
            return best[:, :units], best[:, units:]
        if adam.steps == 0 or int(going.sum()) < MIN_ACTIVE_FRACTION * len(active):
            active = active[going]
            ascent = ascent[going]
            adam.select(going)
        value, *gradients = ascent.step(adam.point[:, :units], adam.point[:, units:])
        better = value > record[active]
        record[active[better]] = value[better]
        best[active[better]] = adam.point[better]
        adam.step(torch.cat(gradients, 1))

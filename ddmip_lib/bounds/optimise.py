"""CROWN with slopes chosen by gradient steps (alpha-CROWN) and with multipliers for the splits
(beta-CROWN).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from .adam import Adam
from .crown import batch_size, require_slopes
from .graph import Graph
from .propagation import BoundPropagation, PerUnit
from .regions import Box
from .result import Bounds, Range, in_chunks

TAPE_TENSORS_PER_NODE = 2  # tensors of coefficients that automatic differentiation keeps


@torch.no_grad()
def optimised_crown(
    graph: Graph,
    region: Box,
    steps: int = 20,
    inner: int = 5,
    rate: float = 0.2,
    splits: PerUnit | None = None,
    known: Sequence[Range] | None = None,
    tighten: bool = True,
    start: Sequence[Tensor] | None = None,
) -> Bounds:
    r"""Bound a network by CROWN with slopes chosen by gradient steps.

    Every slope in [0, 1] below an activation that can switch is sound, so each unit, side and
    region has slopes of its own and keeps its best bound. A unit with a split $s = \pm 1$ satisfies
    $s a \ge 0$, so $f \ge f - \beta s a$ for every $\beta \ge 0$: these multipliers are optimised
    in the same steps.

    Parameters
    ----------
    graph : Graph
        The network.
    region : Box
        The n regions.
    steps : int
        Gradient steps for the outputs.
    inner : int
        Gradient steps for each node that enters an activation.
    rate : float
        Step length of Adam.
    splits : sequence of Tensor or None, optional
        As in `crown`.
    known : sequence of pairs of Tensor, optional
        Sound bounds of all nodes to be improved, such as `Bounds.nodes` of the parent in a search.
    tighten : bool
        Whether nodes before the output have backward passes of their own.
    start : sequence of Tensor, optional
        Slopes to start from, such as `Bounds.slopes` of a similar region.

    Returns
    -------
    Bounds
        The bounds, with the slopes of the last pass.

    Raises
    ------
    ValueError
        If a slope of `start` is not in [0, 1].

    Examples
    --------
    >>> from ddmip_lib.problems import hand_sized_net
    >>> from .reader import network_graph
    >>> graph, box = network_graph(hand_sized_net(), 2), Box(torch.zeros(1, 2), torch.ones(1, 2))
    >>> round(optimised_crown(graph, box, steps=60).upper.item(), 2)  # 4.25 without
    3.13
    """
    require_slopes(start)

    def solve(region: Box, splits: Any, known: Any, start: Any) -> Bounds:
        propagation = _OptimisedPropagation(graph, region, None, splits, inner=inner, rate=rate)
        propagation.run(known, tighten)
        return propagation.optimised_result(steps, start)

    tensors = TAPE_TENSORS_PER_NODE * len(graph.nodes) if inner and tighten else 1
    return in_chunks(batch_size(graph, tensors), region, solve, splits, known, start)


@dataclass(eq=False)
class _OptimisedPropagation(BoundPropagation):
    """Bound propagation whose backward passes optimise their slopes."""

    inner: int = field(default=0, kw_only=True)
    rate: float = field(default=0.2, kw_only=True)

    def bounds(self, index: int, units: Tensor | None = None) -> Tensor:
        assert units is None, "all units of a node are optimised together"
        return self.climb(index, self.inner)[2]

    def optimised_result(self, steps: int, start: Sequence[Tensor] | None) -> Bounds:
        """The bounds of all nodes, with optimised slopes for the outputs."""
        slopes, duals, _ = self.climb(len(self.graph.nodes) - 1, steps, start)
        return replace(self.result(slopes, duals), slopes=slopes)

    def climb(
        self, index: int, steps: int, start: Sequence[Tensor] | None = None
    ) -> tuple[list[Tensor], list[Tensor] | None, Tensor]:
        """Optimised slopes and multipliers for one node, and its bounds (n, 2k)."""
        first = self._first_slopes(index, start)
        count = len(first)
        units = [part.shape[-1] for part in first]
        upper = self.region.lower.new_ones(sum(units))
        if self.splits is not None:
            first += [torch.zeros_like(part) for part in first]
            upper = torch.cat([upper, torch.full_like(upper, torch.inf)])
            units += units
        best = torch.cat([upper[:0], *first], -1)
        record = upper.new_tensor(-torch.inf)
        adam = Adam(best, upper, self.rate)
        for step in range(steps + 1):
            point = adam.point.requires_grad_()
            with torch.enable_grad():
                parts = point.split(units, -1)
                value = self._value(index, parts[:count], parts[count:] or None)
            better = value > record  # never where steps have overflowed
            best = torch.where(better[..., None], point, best).detach()
            record = torch.where(better, value.detach(), record)
            if step == steps or not value.requires_grad:
                break
            adam.step(torch.autograd.grad(value, point, torch.ones_like(value))[0])
        parts = best.split(units, -1)
        return list(parts[:count]), list(parts[count:]) or None, record

    def _value(self, index: int, slopes: PerUnit, duals: PerUnit | None) -> Tensor:
        """Lower bounds of the values of a node and of their negatives."""
        coef, const = self.linear_bounds(index, slopes, duals)
        return self.region.smallest(coef) + const

    def _first_slopes(self, index: int, start: Sequence[Tensor] | None) -> list[Tensor]:
        """Slopes to start from, for each function of the node's values and each activation before
        it.
        """
        functions = 2 * self.graph.nodes[index].units
        slopes = []
        for i, node in enumerate(self.graph.activations):
            if node > index:
                break
            line = self.lines[node]
            below = line.below[:, None]
            if start is not None:
                below = torch.where(line.free[:, None], start[i], below)
            slopes.append(below.expand(-1, functions, -1).clone())
        return slopes

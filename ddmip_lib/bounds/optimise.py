"""Lower slopes by gradient steps (alpha-CROWN), and multipliers for the splits (beta-CROWN)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from .crown import batch_size, require_slopes
from .graph import Graph
from .propagation import BoundPropagation, PerUnit
from .regions import Box
from .result import Bounds, Range, in_chunks

TAPE = 2  # coefficient tensors that automatic differentiation keeps for each node


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
    r"""CROWN with lower slopes chosen by gradient: `steps` for the outputs, `inner` for the nodes
    before them.

    Every slope in [0, 1] is sound, so each unit, side and row has slopes of its own and keeps its
    best bound. A unit with a split $s = \pm 1$ satisfies $s a \ge 0$, so $f \ge f - \beta s a$ for
    every $\beta \ge 0$: these multipliers are optimised in the same steps. `start`: slopes of a
    similar region to begin with, its `Bounds.slopes`. `known`: sound bounds of all nodes
    (`Bounds.nodes` of the parent in a search), to be improved; with `tighten=False` the nodes
    before the output get no pass of their own. The rest is as in `crown`.

    >>> from ddmip_lib.problems import hand_sized_net
    >>> from .reader import network_graph
    >>> bounds = optimised_crown(
    ...     network_graph(hand_sized_net(), 2), Box(torch.zeros(1, 2), torch.ones(1, 2)), steps=60
    ... )
    >>> round(bounds.upper.item(), 2)  # 4.25 without
    3.13
    """

    require_slopes(start)

    def solve(region: Box, splits: Any, known: Any, start: Any) -> Bounds:
        sweep = _Climb(graph, region, None, splits, inner=inner, rate=rate)
        sweep.run(known, tighten)
        slopes, duals, _ = sweep.climb(len(graph.nodes) - 1, steps, start)
        return replace(
            sweep.result(slopes, duals), slopes=[slope for slope in slopes if slope is not None]
        )

    rows = batch_size(graph, TAPE * len(graph.nodes) if inner and tighten else 1)
    return in_chunks(rows, region, solve, splits, known, start)


@dataclass(eq=False)
class _Climb(BoundPropagation):
    """A sweep whose passes optimise their slopes."""

    inner: int = field(default=0, kw_only=True)
    rate: float = field(default=0.2, kw_only=True)

    def bounds(self, index: int, units: Tensor | None = None) -> Tensor:
        assert units is None, "all units of a node climb together"
        return self.climb(index, self.inner)[2]

    def climb(
        self, index: int, steps: int, start: Sequence[Tensor] | None = None
    ) -> tuple[list[Tensor | None], list[Tensor | None], Tensor]:
        """Slopes and multipliers for the bounds of one node by Adam, and the best bounds,
        (n, 2k).
        """
        before = [node for node in self.graph.activations if node <= index]
        splits = [None] * len(before) if self.splits is None else self.splits[: len(before)]
        slopes = [
            self._first(node, index, start[i] if start else None) for i, node in enumerate(before)
        ]
        duals = [
            torch.zeros_like(a)
            for a, split in zip(slopes, splits, strict=True)
            if split is not None
        ]
        now = [*slopes, *duals]
        best = now
        record = None
        means, squares = ([torch.zeros_like(part) for part in now] for _ in range(2))
        for step in range(1, steps + 2 if now else 2):
            with torch.enable_grad():
                moving = [part.requires_grad_() for part in now]
                coef, const = self.forms(index, *self._placed(moving, splits))
                value = self.region.smallest(coef) + const
                total = value.sum()
            if record is None:
                record = value.detach()
            better = (value > record)[..., None]
            best = [
                torch.where(better, new, old).detach()
                for new, old in zip(moving, best, strict=True)
            ]
            record = torch.maximum(record, value.detach())
            if step > steps or not now:
                break
            gradients = torch.autograd.grad(
                total, moving, allow_unused=True, materialize_grads=True
            )
            for i, (part, gradient) in enumerate(zip(moving, gradients, strict=True)):
                means[i] = 0.9 * means[i] + 0.1 * gradient
                squares[i] = 0.999 * squares[i] + 0.001 * gradient**2
                move = (
                    means[i] / (1 - 0.9**step) / ((squares[i] / (1 - 0.999**step)).sqrt() + 1e-12)
                )
                now[i] = (part.detach() + self.rate * move).clamp(
                    0.0, 1.0 if i < len(slopes) else None
                )
        assert record is not None
        return *self._placed(best, splits), record

    def _first(self, node: int, index: int, start: Tensor | None) -> Tensor:
        """The slopes to start from, of their own for each unit of the bounded node and side."""
        below = self.lines[node].below[:, None]
        if start is not None:
            below = torch.where(self.lines[node].free[:, None], start, below)
        return below.expand(-1, 2 * self.graph.nodes[index].units, -1).clone()

    def _placed(
        self, parts: list[Tensor], splits: Sequence[Tensor | None]
    ) -> tuple[list[Tensor | None], list[Tensor | None]]:
        """Slopes and multipliers as lists over all activations."""
        count = len(splits)
        rest = len(self.graph.activations) - len(splits)
        duals = iter(parts[count:])
        placed = [None if split is None else next(duals) for split in splits]
        return [*parts[:count], *[None] * rest], [*placed, *[None] * rest]

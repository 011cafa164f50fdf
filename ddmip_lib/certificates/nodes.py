"""Nodes of the search: parts of a ball on which some units of the network are switched on
or off.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from ..bounds.graph import Elementwise, Graph
from ..bounds.result import Range, select
from .losses import Losses


@dataclass(eq=False)
class Nodes:
    """Parallel arrays, one entry for each node: which row of the losses, its box, and what its
    ancestors found out.

    `splits`: -1 (off), 0 or 1 (on) for each unit of each activation. `least`: no point of the node
    loses less. `ranges`: of the nodes of the network that enter activations. `cut`: a plane behind
    which no point of the node has a loss within the radius. `slopes` and `duals`: where the
    optimisation of the bound starts.
    """

    row: Tensor
    lower: Tensor
    upper: Tensor
    splits: list[Tensor]
    least: Tensor
    ranges: list[Range]
    cut: tuple[Tensor, Tensor]
    slopes: list[Tensor]
    duals: list[Tensor]

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, rows: Any) -> "Nodes":
        return Nodes(*(select(getattr(self, field.name), rows) for field in fields(self)))

    def bytes(self) -> int:
        """What the nodes take in memory, roughly."""
        return (
            len(self)
            * 8
            * (4 * sum(split.shape[1] for split in self.splits) + 4 * self.lower.shape[1])
        )

    def kept(self) -> "Nodes":
        """What is left of nodes that are done, for the next radius: their place, nothing that holds
        in a ball alone.
        """
        return fresh(self.row, self.lower, self.upper, self.splits)


def fresh(row: Tensor, lower: Tensor, upper: Tensor, splits: list[Tensor]) -> Nodes:
    """Nodes of which only the place is known; the other entries take no memory."""

    def full(like: Tensor, value: float) -> Tensor:
        return torch.full((1, 1), value, dtype=torch.float64, device=row.device).expand(like.shape)

    return Nodes(
        row,
        lower,
        upper,
        splits,
        least=torch.zeros(len(row), dtype=torch.float64, device=row.device),
        ranges=[(full(split, -torch.inf), full(split, torch.inf)) for split in splits],
        cut=(torch.zeros_like(lower), torch.zeros_like(lower[:, 0])),
        slopes=[full(split, torch.nan) for split in splits],
        duals=[full(split, 0.0) for split in splits],
    )


def roots(graph: Graph, losses: Losses) -> Nodes:
    """One node for each row, its whole box.

    >>> from ddmip_lib.bounds import network_graph
    >>> from ddmip_lib.predictors import mlp
    >>> one, graph = torch.ones(3, 2), network_graph(mlp(2, 4, 2), 2)
    >>> nodes = roots(graph, Losses(-one, one, 0 * one, one, one, one[:, 0], one[:, 0], one[:, 0]))
    >>> len(nodes), [split.shape for split in nodes[:2].splits]
    (3, [torch.Size([2, 4]), torch.Size([2, 4])])
    """
    k = len(losses.lower)
    row = torch.arange(k, device=losses.lower.device)
    units = [graph.nodes[index].units for index in graph.activations]
    splits = [torch.zeros(k, count, dtype=torch.int8, device=row.device) for count in units]
    return fresh(row, losses.lower, losses.upper, splits)


def switched(nodes: Nodes, unit: Tensor, sign: int) -> Nodes:
    """The children of nodes in which a unit, counted through all activations, is on (`sign` 1) or
    off (-1).
    """
    splits = [split.clone() for split in nodes.splits]
    first = 0
    for split in splits:
        here = ((unit >= first) & (unit < first + split.shape[1])).nonzero()[:, 0]
        split[here, unit[here] - first] = sign
        first += split.shape[1]
    return replace(nodes, splits=splits)


def halved(nodes: Nodes, coordinate: Tensor, sign: int) -> Nodes:
    """The children of nodes in the upper (`sign` 1) or lower half of their boxes."""
    lower = nodes.lower.clone()
    upper = nodes.upper.clone()
    each = torch.arange(len(nodes), device=nodes.row.device)
    middle = 0.5 * (lower + upper)[each, coordinate]
    (lower if sign > 0 else upper)[each, coordinate] = middle
    return replace(nodes, lower=lower, upper=upper)


def switches(graph: Graph) -> list[bool]:
    """Which activations are ReLUs, whose units can be split."""
    return [
        isinstance(n, Elementwise) and n.kind == "relu"
        for n in (graph.nodes[i] for i in graph.activations)
    ]

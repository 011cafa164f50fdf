"""Nodes of branch and bound: parts of a ball on which some units of the network are switched on or
off.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from ..bounds.activations import ACTIVATIONS
from ..bounds.graph import Elementwise, Graph
from ..bounds.result import Range, select
from .losses import Losses


@dataclass(eq=False)
class Nodes:
    """Nodes as parallel arrays, with one entry for each.

    Attributes
    ----------
    row : Tensor
        The index of each node's entry in the losses, (k,).
    lower, upper : Tensor
        The boxes of the nodes, (k, p).
    splits : list of Tensor
        For each activation -1 (off), 0 or 1 (on) for each unit, (k, units).
    least : Tensor
        Lower bounds of the losses, (k,).
    ranges : list of pairs of Tensor
        Lower and upper bounds of the inputs of each activation, (k, units).
    cut : pair of Tensor
        Half-spaces that contain every point of the node with a loss within the radius.
    slopes, duals : list of Tensor
        Slopes of lower bounds and multipliers of splits to start the optimisation from.
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
        """Return roughly how many bytes of memory the nodes take."""
        units = sum(split.shape[1] for split in self.splits)
        return len(self) * 8 * (4 * units + 4 * self.lower.shape[1])

    def kept(self) -> "Nodes":
        """Return the boxes and splits of the nodes alone, which hold in balls of any radius."""
        return fresh(self.row, self.lower, self.upper, self.splits)


def fresh(row: Tensor, lower: Tensor, upper: Tensor, splits: list[Tensor]) -> Nodes:
    """Return nodes of which only boxes and splits are given.

    Parameters
    ----------
    row : Tensor
        The index of each node's entry in the losses, (k,).
    lower, upper : Tensor
        The boxes, (k, p).
    splits : list of Tensor
        The splits of each activation, (k, units).

    Returns
    -------
    Nodes
        The nodes; their other entries are constants that take no memory.
    """

    def full(like: Tensor, value: float) -> Tensor:
        return lower.new_full((1, 1), value, dtype=torch.float64).expand(like.shape)

    return Nodes(
        row,
        lower,
        upper,
        splits,
        least=lower.new_zeros(len(row), dtype=torch.float64),
        ranges=[(full(split, -torch.inf), full(split, torch.inf)) for split in splits],
        cut=(torch.zeros_like(lower), torch.zeros_like(lower[:, 0])),
        slopes=[full(split, torch.nan) for split in splits],
        duals=[full(split, 0.0) for split in splits],
    )


def roots(graph: Graph, losses: Losses) -> Nodes:
    """Return one node for each loss, its entire box.

    Parameters
    ----------
    graph : Graph
        The network.
    losses : Losses
        The losses.

    Returns
    -------
    Nodes
        The nodes, without splits.

    Examples
    --------
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
    splits = [row.new_zeros(k, count, dtype=torch.int8) for count in units]
    return fresh(row, losses.lower, losses.upper, splits)


def switched(nodes: Nodes, unit: Tensor, sign: int) -> Nodes:
    """Return the children of nodes in which one more unit is split.

    Parameters
    ----------
    nodes : Nodes
        The nodes.
    unit : Tensor
        The unit that is split in each node, counted through all activations, (k,).
    sign : int
        1 for on, -1 for off.

    Returns
    -------
    Nodes
        One child for each node.
    """
    sizes = [split.shape[1] for split in nodes.splits]
    splits = torch.cat(nodes.splits, 1)
    splits[torch.arange(len(nodes), device=unit.device), unit] = sign
    return replace(nodes, splits=list(splits.split(sizes, 1)))


def halved(nodes: Nodes, coordinate: Tensor, sign: int) -> Nodes:
    """Return the children of nodes with one half of their boxes.

    Parameters
    ----------
    nodes : Nodes
        The nodes.
    coordinate : Tensor
        The input that is bisected in each node, (k,).
    sign : int
        1 for the upper half, -1 for the lower half.

    Returns
    -------
    Nodes
        One child for each node.
    """
    at = torch.arange(len(nodes), device=nodes.row.device), coordinate
    middle = 0.5 * (nodes.lower + nodes.upper)[at]
    if sign > 0:
        return replace(nodes, lower=nodes.lower.index_put(at, middle))
    return replace(nodes, upper=nodes.upper.index_put(at, middle))


def switches(graph: Graph) -> list[bool]:
    """Return for each activation whether its units can be split at 0, as those of a ReLU."""
    kinds = [node.kind for node in graph.nodes if isinstance(node, Elementwise)]
    return [ACTIVATIONS[kind].switches for kind in kinds]

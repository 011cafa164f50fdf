"""Nodes of branch and bound: parts of a ball on which some units of the network are switched on or
off.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..bounds.activations import ACTIVATIONS
from ..bounds.graph import Elementwise, Graph
from ..bounds.result import Batch
from .losses import Losses


@dataclass(eq=False)
class Nodes(Batch):
    r"""Nodes as parallel arrays, with one entry for each; units are those of all activations.

    Attributes
    ----------
    row : Tensor
        The index of each node's entry in the losses, (k,).
    lower, upper : Tensor
        The boxes of the nodes, (k, p).
    splits : Tensor
        -1 (off), 0 or 1 (on) for each unit, (k, units).
    least : Tensor
        Lower bounds of the losses, (k,).
    low, high : Tensor
        Lower and upper bounds of the inputs of the activations, (k, units).
    cut, level : Tensor
        Half-spaces $c^\top u + l \ge 0$ that contain every point of the node with a loss within
        the radius, (k, p) and (k,).
    slopes, duals : Tensor
        Slopes of lower bounds and multipliers of splits to start the optimisation from, (k, units).
    """

    row: Tensor
    lower: Tensor
    upper: Tensor
    splits: Tensor
    least: Tensor
    low: Tensor
    high: Tensor
    cut: Tensor
    level: Tensor
    slopes: Tensor
    duals: Tensor

    def __len__(self) -> int:
        return len(self.row)

    def kept(self) -> "Nodes":
        """Return the boxes and splits of the nodes alone, which hold in balls of any radius."""
        return fresh(self.row, self.lower, self.upper, self.splits)


def fresh(row: Tensor, lower: Tensor, upper: Tensor, splits: Tensor) -> Nodes:
    """Return nodes of which only boxes and splits are given.

    Parameters
    ----------
    row : Tensor
        The index of each node's entry in the losses, (k,).
    lower, upper : Tensor
        The boxes, (k, p).
    splits : Tensor
        The splits, (k, units).

    Returns
    -------
    Nodes
        The nodes; their other entries are constants that take no memory.
    """

    def full(value: float) -> Tensor:
        return lower.new_full((1, 1), value, dtype=torch.float64).expand(splits.shape)

    return Nodes(
        row,
        lower,
        upper,
        splits,
        least=lower.new_zeros(len(row), dtype=torch.float64),
        low=full(-torch.inf),
        high=full(torch.inf),
        cut=torch.zeros_like(lower),
        level=torch.zeros_like(lower[:, 0]),
        slopes=full(torch.nan),
        duals=full(0.0),
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
    >>> from ddmip_lib.problems import hand_sized_net
    >>> one, graph = torch.ones(3, 2), network_graph(hand_sized_net(), 2)
    >>> nodes = roots(graph, Losses(-one, one, 0 * one, one, one, one[:, 0], one[:, 0], one[:, 0]))
    >>> len(nodes), nodes[:2].splits.shape
    (3, torch.Size([2, 3]))
    """
    k = len(losses.lower)
    row = torch.arange(k, device=losses.lower.device)
    splits = row.new_zeros(k, len(switches(graph)), dtype=torch.int8)
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
    return replace(nodes, splits=nodes.splits.scatter(1, unit[:, None], sign))


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
    column = coordinate[:, None]
    middle = 0.5 * (nodes.lower + nodes.upper).gather(1, column)
    if sign > 0:
        return replace(nodes, lower=nodes.lower.scatter(1, column, middle))
    return replace(nodes, upper=nodes.upper.scatter(1, column, middle))


def switches(graph: Graph) -> Tensor:
    """Return for each unit whether it can be split at 0, as that of a ReLU."""
    activations = [node for node in graph.nodes if isinstance(node, Elementwise)]
    kinds = [node.kind for node in activations for _ in range(node.units)]
    return torch.tensor([ACTIVATIONS[kind].switches for kind in kinds], dtype=torch.bool)


def by_activation(graph: Graph, units: Tensor) -> list[Tensor]:
    """Return the columns of each activation.

    Parameters
    ----------
    graph : Graph
        The network.
    units : Tensor
        One column for each unit of all activations, (k, units).
    """
    return list(units.split([graph.nodes[index].units for index in graph.activations], 1))


def concatenated(parts: Iterable[Tensor], like: Tensor) -> Tensor:
    """Return the columns of all activations side by side, (k, units); without any, (k, 0).

    Parameters
    ----------
    parts : iterable of Tensor
        One matrix (k, units) for each activation.
    like : Tensor
        A matrix with k rows.
    """
    return torch.cat([like[:, :0], *parts], 1)

"""Networks as lists of nodes: affine maps, elementwise activations, and sums."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .activations import ACTIVATIONS


@dataclass(frozen=True, eq=False)
class Node:
    """A node of a graph.

    Attributes
    ----------
    parents : tuple of int
        The indices of the nodes that it is computed from.
    units : int
        The number of its values.
    """

    parents: tuple[int, ...]
    units: int

    @property
    def parent(self) -> int:
        """The first of its parents, of most nodes the only one."""
        return self.parents[0]

    def total(self, values: Sequence[Tensor]) -> Tensor:
        """Return the sum of the values of its parents, among those of all nodes."""
        return torch.stack([values[parent] for parent in self.parents]).sum(0)


class Input(Node):
    """The input of the network."""


class Sum(Node):
    """The sum of several nodes of the same size."""


@dataclass(frozen=True, eq=False)
class Affine(Node):
    """The affine map `weight @ parent + bias`.

    Attributes
    ----------
    weight, bias : Tensor
        The matrix, (units, parent's units), and the constants.
    weight_size, bias_size : Tensor
        Bounds of the absolute values that were summed for them (see `rounding`).
    terms : int
        A bound of the number of terms of these sums.
    """

    weight: Tensor
    bias: Tensor
    weight_size: Tensor
    bias_size: Tensor
    terms: int


@dataclass(frozen=True, eq=False)
class Elementwise(Node):
    """An activation, named as in `ACTIVATIONS`, of every unit of the parent."""

    kind: str


@dataclass(frozen=True, eq=False)
class Graph:
    """A network as an acyclic graph of nodes; calling it evaluates the outputs.

    Attributes
    ----------
    nodes : tuple of Node
        The nodes, each after its parents; the first is the input, the last the output.
    layers : tuple of str
        The names of the layers that the nodes come from, for messages.

    Examples
    --------
    >>> from ddmip_lib.problems import hand_sized_net
    >>> from .reader import network_graph
    >>> graph = network_graph(hand_sized_net(), 2)
    >>> [type(node).__name__ for node in graph.nodes], graph.activations, graph.hidden
    (['Input', 'Affine', 'Elementwise', 'Affine'], [2], [1])
    >>> graph(torch.ones(1, 2, dtype=torch.float64))
    tensor([[-3.]], dtype=torch.float64)
    """

    nodes: tuple[Node, ...]
    layers: tuple[str, ...] = ()

    @property
    def n_in(self) -> int:
        """The number of inputs."""
        return self.nodes[0].units

    @property
    def n_out(self) -> int:
        """The number of outputs."""
        return self.nodes[-1].units

    @property
    def activations(self) -> list[int]:
        """The indices of the activations; lists with one entry for each have this order."""
        return [index for index, node in enumerate(self.nodes) if isinstance(node, Elementwise)]

    @property
    def hidden(self) -> list[int]:
        """The nodes that enter the activations, in the same order."""
        return [self.nodes[index].parent for index in self.activations]

    @property
    def kinds(self) -> list[str]:
        """The kinds of the activations, in the same order."""
        return [node.kind for node in self.nodes if isinstance(node, Elementwise)]

    @property
    def curved(self) -> list[str]:
        """The kinds of activations without an exact mixed-integer linear model."""
        return [kind for kind in self.kinds if ACTIVATIONS[kind].constraints is None]

    def values(self, points: Tensor) -> list[Tensor]:
        """Evaluate all nodes.

        Parameters
        ----------
        points : Tensor
            Inputs, (..., n_in).

        Returns
        -------
        list of Tensor
            The values of each node, (..., units).
        """
        values = [points]
        for node in self.nodes[1:]:
            if isinstance(node, Affine):
                value = values[node.parent] @ node.weight.T + node.bias
            elif isinstance(node, Elementwise):
                value = ACTIVATIONS[node.kind].value(values[node.parent])
            else:
                value = node.total(values)
            values.append(value)
        return values

    def __call__(self, points: Tensor) -> Tensor:
        return self.values(points)[-1]

    def before_relu(self) -> "Graph":
        """Return the graph without activations at its end that keep positive values, such as ReLUs:
        the class of the output is the same.
        """
        last = self.nodes[-1]
        if not isinstance(last, Elementwise) or not ACTIVATIONS[last.kind].keeps_positive:
            return self
        end = len(self.nodes) - 1
        if end < 2 or last.parent != end - 1:
            return self
        return Graph(self.nodes[:end], self.layers[:end]).before_relu()

    def name(self, index: int) -> str:
        """Return a description of a node for messages."""
        node = self.nodes[index]
        layer = f" of layer {self.layers[index]}" if self.layers else ""
        return f"node {index} ({type(node).__name__}, {node.units} units{layer})"

    def to(self, device: str | torch.device) -> "Graph":
        """Return the same graph with its matrices on another device."""
        return Graph(tuple(_moved(node, device) for node in self.nodes), self.layers)


def _moved(node: Node, device: str | torch.device) -> Node:
    if not isinstance(node, Affine):
        return node
    names = ("weight", "bias", "weight_size", "bias_size")
    return replace(node, **{name: getattr(node, name).to(device) for name in names})


class GraphBuilder:
    """Build a graph node by node; consecutive affine maps are merged.

    Parameters
    ----------
    n_in : int
        The number of inputs.

    Attributes
    ----------
    nodes : list of Node
        The nodes so far.
    layer : str
        The name of the layer that the next nodes come from.
    layers : list of str
        The names of the layers of `nodes`.

    Examples
    --------
    >>> builder, one = GraphBuilder(2), torch.ones(1, 1, dtype=torch.float64)
    >>> first = builder.affine(0, torch.ones(1, 2, dtype=torch.float64), one[0])
    >>> graph = builder.graph(builder.affine(first, 2 * one, one[0]))
    >>> [(node.weight.tolist(), node.bias.item()) for node in graph.nodes[1:]]
    [([[2.0, 2.0]], 3.0)]
    """

    def __init__(self, n_in: int) -> None:
        self.nodes: list[Node] = [Input((), n_in)]
        self.layer = ""
        self.layers = [""]

    def add(self, node: Node) -> int:
        """Append a node, and return its index."""
        self.nodes.append(node)
        self.layers.append(self.layer)
        return len(self.nodes) - 1

    def affine(
        self, parent: int, weight: Tensor, bias: Tensor, bias_size: Tensor | None = None
    ) -> int:
        """Add an affine map.

        Parameters
        ----------
        parent : int
            The node whose values it maps.
        weight, bias : Tensor
            The matrix and the constants.
        bias_size : Tensor, optional
            Bounds of the absolute values that were summed for `bias`; by default its own.

        Returns
        -------
        int
            The index of the node.
        """
        size = bias.abs() if bias_size is None else bias_size
        terms = weight.shape[1] + 8
        node = Affine((parent,), len(bias), weight, bias, weight.abs(), size, terms)
        first = self.nodes[parent]
        if isinstance(first, Affine):
            node = _composed(first, node)
        return self.add(node)

    def activation(self, parent: int, kind: str) -> int:
        """Add an activation of a node, and return its index; an existing one is used again."""
        for index, node in enumerate(self.nodes):
            if isinstance(node, Elementwise) and (node.parent, node.kind) == (parent, kind):
                return index
        return self.add(Elementwise((parent,), self.nodes[parent].units, kind))

    def sum(self, parents: tuple[int, ...]) -> int:
        """Add the sum of nodes of the same size, and return its index."""
        return self.add(Sum(parents, self.nodes[parents[0]].units))

    def graph(self, output: int) -> Graph:
        """Return the graph of the nodes on which one node depends.

        Parameters
        ----------
        output : int
            The index of the output node.
        """
        needed = {0, output}
        for index in range(output, 0, -1):
            if index in needed:
                needed.update(self.nodes[index].parents)
        kept = sorted(needed)
        nodes = []
        for old in kept:
            parents = tuple(kept.index(parent) for parent in self.nodes[old].parents)
            nodes.append(replace(self.nodes[old], parents=parents))
        layers = tuple(self.layers[old] for old in kept)
        return Graph(tuple(nodes), layers if any(self.layers) else ())


def _composed(first: Affine, second: Affine) -> Affine:
    return Affine(
        first.parents,
        second.units,
        second.weight @ first.weight,
        second.weight @ first.bias + second.bias,
        weight_size=second.weight_size @ first.weight_size,
        bias_size=second.weight_size @ first.bias_size + second.bias_size,
        terms=first.terms + 2 * second.terms,
    )

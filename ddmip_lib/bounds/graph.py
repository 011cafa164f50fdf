"""A network as a list of nodes: affine maps, activations of one unit each, and sums."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .activations import ACTIVATIONS


@dataclass(frozen=True)
class Input:
    """The input row."""

    units: int
    parents: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Affine:
    """`weight @ parent + bias`; sizes and terms say how exactly it is evaluated (see
    `rounding`).
    """

    parent: int
    weight: Tensor
    bias: Tensor
    weight_size: Tensor
    bias_size: Tensor
    terms: int

    @property
    def parents(self) -> tuple[int, ...]:
        return (self.parent,)

    @property
    def units(self) -> int:
        return len(self.bias)


@dataclass(frozen=True)
class Elementwise:
    """One of `ACTIVATIONS`, by its name, of every unit of the parent."""

    parent: int
    kind: str
    units: int

    @property
    def parents(self) -> tuple[int, ...]:
        return (self.parent,)


@dataclass(frozen=True)
class Sum:
    """The sum of several nodes of the same size."""

    parents: tuple[int, ...]
    units: int


Node = Input | Affine | Elementwise | Sum


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in an order in which each comes after its parents; the first is the input, the last the
    output.

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
    """The layers that the nodes come from, for messages."""

    @property
    def n_in(self) -> int:
        return self.nodes[0].units

    @property
    def n_out(self) -> int:
        return self.nodes[-1].units

    @property
    def activations(self) -> list[int]:
        """The indices of the activations: slopes and splits are lists in this order."""
        return [index for index, node in enumerate(self.nodes) if isinstance(node, Elementwise)]

    @property
    def hidden(self) -> list[int]:
        """The nodes that enter the activations, in the same order."""
        return [self.nodes[index].parents[0] for index in self.activations]

    @property
    def curved(self) -> list[str]:
        """The kinds of activations that no mixed-integer linear model says exactly."""
        kinds = (node.kind for node in self.nodes if isinstance(node, Elementwise))
        return [kind for kind in kinds if not ACTIVATIONS[kind].rows]

    def values(self, points: Tensor) -> list[Tensor]:
        """The values of all nodes at points (..., n_in)."""
        found: list[Tensor] = []
        for node in self.nodes:
            if isinstance(node, Input):
                found.append(points)
            elif isinstance(node, Affine):
                found.append(found[node.parent] @ node.weight.T + node.bias)
            elif isinstance(node, Elementwise):
                found.append(ACTIVATIONS[node.kind].value(found[node.parent]))
            else:
                found.append(torch.stack([found[parent] for parent in node.parents]).sum(0))
        return found

    def __call__(self, points: Tensor) -> Tensor:
        return self.values(points)[-1]

    def before_relu(self) -> "Graph":
        """Without ReLUs at its end, which change no sign: positive is positive."""
        nodes = self.nodes
        while (
            isinstance(last := nodes[-1], Elementwise)
            and last.kind == "relu"
            and last.parent == len(nodes) - 2 > 0
        ):
            nodes = nodes[:-1]
        return Graph(nodes, self.layers[: len(nodes)])

    def name(self, index: int) -> str:
        """A node in words."""
        where = f" of layer {self.layers[index]}" if self.layers else ""
        return (
            f"node {index} ({type(self.nodes[index]).__name__}, {self.nodes[index].units}"
            f" units{where})"
        )

    def to(self, device: str | torch.device) -> "Graph":
        """The same graph with its matrices on another device."""
        return Graph(tuple(_moved(node, device) for node in self.nodes), self.layers)


def _moved(node: Node, device: str | torch.device) -> Node:
    if not isinstance(node, Affine):
        return node
    names = ("weight", "bias", "weight_size", "bias_size")
    return replace(node, **{name: getattr(node, name).to(device) for name in names})


class GraphBuilder:
    """Collects nodes; adjacent affine maps become one.

    >>> builder, one = GraphBuilder(2), torch.ones(1, 1, dtype=torch.float64)
    >>> first = builder.affine(0, torch.ones(1, 2, dtype=torch.float64), one[0])
    >>> graph = builder.graph(builder.affine(first, 2 * one, one[0]))
    >>> [(node.weight.tolist(), node.bias.item()) for node in graph.nodes[1:]]
    [([[2.0, 2.0]], 3.0)]
    """

    def __init__(self, n_in: int) -> None:
        self.nodes: list[Node] = [Input(n_in)]
        self.layer = ""
        self.layers = [""]

    def add(self, node: Node) -> int:
        self.nodes.append(node)
        self.layers.append(self.layer)
        return len(self.nodes) - 1

    def affine(
        self, parent: int, weight: Tensor, bias: Tensor, bias_size: Tensor | None = None
    ) -> int:
        size = bias.abs() if bias_size is None else bias_size
        node = Affine(parent, weight, bias, weight.abs(), size, terms=weight.shape[1] + 8)
        above = self.nodes[parent]
        return self.add(_composed(above, node) if isinstance(above, Affine) else node)

    def activation(self, parent: int, kind: str) -> int:
        """A new node, or the one that does the same already."""
        for index, node in enumerate(self.nodes):
            if isinstance(node, Elementwise) and (node.parent, node.kind) == (parent, kind):
                return index
        return self.add(Elementwise(parent, kind, self.nodes[parent].units))

    def sum(self, parents: tuple[int, ...]) -> int:
        return self.add(Sum(parents, self.nodes[parents[0]].units))

    def graph(self, output: int) -> Graph:
        """What the node `output` needs, and nothing else."""
        needed = {0, output}
        for index in range(output, 0, -1):
            if index in needed:
                needed.update(self.nodes[index].parents)
        place = {old: new for new, old in enumerate(sorted(needed))}
        nodes = tuple(_renumbered(self.nodes[old], place) for old in sorted(needed))
        return Graph(
            nodes, tuple(self.layers[old] for old in sorted(needed)) if any(self.layers) else ()
        )


def _composed(first: Affine, second: Affine) -> Affine:
    return Affine(
        first.parent,
        second.weight @ first.weight,
        second.weight @ first.bias + second.bias,
        weight_size=second.weight_size @ first.weight_size,
        bias_size=second.weight_size @ first.bias_size + second.bias_size,
        terms=first.terms + 2 * second.terms,
    )


def _renumbered(node: Node, place: dict[int, int]) -> Node:
    if isinstance(node, Sum):
        return replace(node, parents=tuple(place[parent] for parent in node.parents))
    return node if isinstance(node, Input) else replace(node, parent=place[node.parent])

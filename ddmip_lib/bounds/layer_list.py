"""What exact models of other packages read: a network as a list of layers, and the range of its
outputs.
"""

import numpy as np
import torch
from torch import nn

from ..errors import UnsupportedNetworkError
from .activations import ACTIVATIONS
from .crown import intervals
from .graph import Affine, Graph, Sum
from .layer import linear_layer
from .reader import network_graph
from .regions import Box


def flat_layers(net: nn.Module, n_in: int) -> list[nn.Module]:
    """Linear layers and activations, one after another, that compute the same function as `net`, in
    float64.

    >>> net = nn.Sequential(
    ...     nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)), nn.ReLU(), nn.Linear(3, 1)
    ... ).eval()
    >>> [type(layer).__name__ for layer in flat_layers(net, 2)]
    ['Linear', 'ReLU', 'Linear']
    """
    try:
        return sequential_layers(network_graph(net, n_in))
    except UnsupportedNetworkError as problem:
        needs = ", ".join(unit.layer.__name__ for unit in ACTIVATIONS.values())
        raise UnsupportedNetworkError(
            f"an exact model needs Linear, {needs} in a chain (BatchNorm and convolutions are"
            f" folded); {str(problem).split(': they need')[0]}. DualDecomposition takes any"
            " differentiable module."
        ) from problem


def sequential_layers(graph: Graph) -> list[nn.Module]:
    """The layers of a graph in which each node enters the next and no other."""
    layers: list[nn.Module] = []
    for index, node in enumerate(graph.nodes[1:]):
        if isinstance(node, Sum) or node.parents != (index,):
            raise UnsupportedNetworkError(
                f"a chain cannot hold the sum of layers at {graph.name(index + 1)}"
            )
        if isinstance(node, Affine):
            layers.append(linear_layer(node.weight, node.bias))
        else:
            layers.append(ACTIVATIONS[node.kind].layer())  # type: ignore[union-attr]
    if not any(isinstance(layer, nn.Linear) for layer in layers):
        raise UnsupportedNetworkError(
            "the network has no Linear layer, so there is nothing to embed"
        )
    return layers


def output_range(
    net: nn.Module, lower: np.ndarray, upper: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Sound ends of the outputs over boxes, row by row, by interval arithmetic.

    >>> layer = nn.Linear(2, 1)
    >>> _ = layer.weight.data.copy_(torch.tensor([[1.0, -2.0]])), layer.bias.data.zero_()
    >>> [end.round(9).tolist() for end in output_range(layer, np.zeros((1, 2)), np.ones((1, 2)))]
    [[[-2.0]], [[1.0]]]
    """
    found = intervals(
        network_graph(net, lower.shape[1]), Box(torch.tensor(lower), torch.tensor(upper))
    )
    return found.lower.numpy(), found.upper.numpy()

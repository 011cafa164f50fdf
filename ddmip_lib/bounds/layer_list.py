"""Networks as lists of layers, and the ranges of their outputs, for exact models of other
packages.
"""

import torch
from numpy import ndarray
from torch import nn

from ..errors import UnsupportedNetworkError
from .activations import ACTIVATIONS
from .crown import intervals
from .graph import Affine, Elementwise, Graph, Sum
from .layer import linear_layer
from .reader import network_graph
from .regions import Box


def flat_layers(net: nn.Module, n_in: int) -> list[nn.Module]:
    """Return linear layers and activations that compute the same function as a network.

    Parameters
    ----------
    net : Module
        A chain of layers; BatchNorm and convolutions become linear layers.
    n_in : int
        The number of inputs.

    Returns
    -------
    list of Module
        The layers, in float64.

    Raises
    ------
    UnsupportedNetworkError
        If the network is not a chain of supported layers.

    Examples
    --------
    >>> net = nn.Sequential(
    ...     nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)), nn.ReLU(), nn.Linear(3, 1)
    ... ).eval()
    >>> [type(layer).__name__ for layer in flat_layers(net, 2)]
    ['Linear', 'ReLU', 'Linear']
    """
    try:
        return _layers_of(network_graph(net, n_in))
    except UnsupportedNetworkError as error:
        supported = ", ".join(unit.layer.__name__ for unit in ACTIVATIONS.values())
        reason = str(error).split(": they need")[0]
        raise UnsupportedNetworkError(
            f"an exact model needs Linear, {supported} in a chain (BatchNorm and convolutions are"
            f' folded); {reason}. BigM(ranges="crown") takes sums of layers too,'
            " DualDecomposition any differentiable module."
        ) from error


def _layers_of(graph: Graph) -> list[nn.Module]:
    """The layers of a graph in which each node enters the next and no other."""
    layers: list[nn.Module] = []
    for index, node in enumerate(graph.nodes[1:]):
        if isinstance(node, Sum) or node.parents != (index,):
            raise UnsupportedNetworkError(
                f"a chain cannot hold the sum of layers at {graph.name(index + 1)}"
            )
        if isinstance(node, Affine):
            layers.append(linear_layer(node.weight, node.bias))
        elif isinstance(node, Elementwise):
            layers.append(ACTIVATIONS[node.kind].layer())
    if not any(isinstance(layer, nn.Linear) for layer in layers):
        raise UnsupportedNetworkError(
            "the network has no Linear layer, so there is nothing to embed"
        )
    return layers


def output_range(net: nn.Module, lower: ndarray, upper: ndarray) -> tuple[ndarray, ndarray]:
    """Bound the outputs of a network over boxes by interval arithmetic.

    Parameters
    ----------
    net : Module
        The network.
    lower, upper : ndarray
        The ends of the boxes, (n, p).

    Returns
    -------
    lower, upper : ndarray
        Sound bounds of the outputs, (n, q).

    Examples
    --------
    >>> layer = nn.Linear(2, 1)
    >>> _ = layer.weight.data.copy_(torch.tensor([[1.0, -2.0]])), layer.bias.data.zero_()
    >>> import numpy as np
    >>> [end.round(9).tolist() for end in output_range(layer, np.zeros((1, 2)), np.ones((1, 2)))]
    [[[-2.0]], [[1.0]]]
    """
    graph = network_graph(net, lower.shape[1])
    found = intervals(graph, Box(torch.tensor(lower), torch.tensor(upper)))
    return found.lower.numpy(), found.upper.numpy()

"""A network as a flat list of layers, for what reads its structure: exact models and bounds."""

import copy

import numpy as np
import torch
from torch import nn

from ..errors import UnsupportedNetworkError

ACTIVATIONS = (nn.ReLU, nn.Sigmoid, nn.Tanh)


def flat_layers(net: nn.Module, n_in: int) -> list[nn.Module]:
    """Linear layers and activations that compute the same function as `net`, in float64.

    Nested Sequentials are unrolled, Dropout and Identity dropped, BatchNorm1d folded into the Linear before it.
    Anything else is refused by name.

    >>> net = nn.Sequential(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)), nn.ReLU(), nn.Linear(3, 1)).eval()
    >>> [type(layer).__name__ for layer in flat_layers(net, 2)]
    ['Linear', 'ReLU', 'Linear']
    """
    layers: list[nn.Module] = []
    for layer in _unroll(net):
        if isinstance(layer, nn.Linear):
            layers.append(_with_bias(layer))
        elif isinstance(layer, nn.BatchNorm1d) and layers and isinstance(layers[-1], nn.Linear):
            layers[-1] = _fold(layers[-1], layer)
        elif isinstance(layer, ACTIVATIONS):
            layers.append(layer)
        elif not isinstance(layer, (nn.Dropout, nn.Identity)):
            raise UnsupportedNetworkError(
                f"unsupported layer {type(layer).__name__}: an exact model needs Linear, ReLU, Sigmoid, Tanh (and "
                "Dropout, Identity, BatchNorm1d after Linear). DualDecomposition takes any differentiable module."
            )
    if not any(isinstance(layer, nn.Linear) for layer in layers):
        raise UnsupportedNetworkError("the network has no Linear layer, so there is nothing to embed.")
    probe = torch.tensor(np.random.default_rng(0).standard_normal((4, n_in)))
    with torch.no_grad():
        same = torch.allclose(nn.Sequential(*layers)(probe), copy.deepcopy(net).double()(probe), rtol=1e-9, atol=1e-9)
    if not same:
        raise UnsupportedNetworkError(
            f"{type(net).__name__} does more in forward() than its layers say: use DualDecomposition instead."
        )
    return layers


def interval_bounds(layers: list[nn.Module], lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Bounds of a flat network over boxes, row by row, by interval arithmetic.

    A layer $Wx + b$ maps $[l, u]$ to $W^+ l + W^- u + b$ and $W^+ u + W^- l + b$; activations are monotone.

    >>> layer = nn.Linear(2, 1).double()
    >>> _ = layer.weight.data.copy_(torch.tensor([[1.0, -2.0]])), layer.bias.data.zero_()
    >>> interval_bounds([layer], np.zeros((1, 2)), np.ones((1, 2)))
    (array([[-2.]]), array([[1.]]))
    """
    low, high = torch.tensor(lower), torch.tensor(upper)
    with torch.no_grad():
        for layer in layers:
            if isinstance(layer, nn.Linear):
                plus, minus = layer.weight.clamp(min=0), layer.weight.clamp(max=0)
                low, high = (low @ plus.T + high @ minus.T + layer.bias, high @ plus.T + low @ minus.T + layer.bias)
            else:
                low, high = layer(low), layer(high)
    return low.numpy(), high.numpy()


def _unroll(net: nn.Module) -> list[nn.Module]:
    if isinstance(net, nn.Sequential):
        return [leaf for child in net for leaf in _unroll(child)]
    return [net]


def _with_bias(layer: nn.Linear) -> nn.Linear:
    layer = copy.deepcopy(layer).double().requires_grad_(False)
    if layer.bias is None:
        layer.bias = nn.Parameter(torch.zeros(layer.out_features, dtype=torch.float64), requires_grad=False)
    return layer


def _fold(linear: nn.Module, norm: nn.BatchNorm1d) -> nn.Linear:
    """The Linear layer that equals `norm` (in eval mode) after `linear`."""
    assert isinstance(linear, nn.Linear)
    if norm.running_mean is None or norm.running_var is None:
        raise UnsupportedNetworkError("BatchNorm1d without running statistics depends on the batch: track them.")
    folded = _with_bias(linear)
    scale = (norm.running_var.double() + norm.eps).rsqrt()
    shift = -norm.running_mean.double() * scale
    if norm.affine:
        shift = norm.bias.double() + shift * norm.weight.double()
        scale = scale * norm.weight.double()
    with torch.no_grad():
        folded.weight.mul_(scale.unsqueeze(1))
        folded.bias.mul_(scale).add_(shift)
    return folded

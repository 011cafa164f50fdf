"""A linear layer from its weights, with no random ones before."""

import torch
from torch import Tensor, nn


def linear_layer(weight: Tensor, bias: Tensor) -> nn.Linear:
    """The frozen layer of a copy of these weights.

    `nn.Linear` would first draw random ones; `torch.nn.utils.skip_init` draws none, and imports
    SymPy.

    >>> linear_layer(torch.tensor([[2.0, 1.0]]), torch.tensor([0.5]))(torch.ones(2)).item()
    3.5
    """
    layer = nn.Linear.__new__(nn.Linear)
    nn.Module.__init__(layer)
    layer.out_features, layer.in_features = weight.shape
    copies = (
        values.detach().clone(memory_format=torch.contiguous_format) for values in (weight, bias)
    )
    layer.weight, layer.bias = (nn.Parameter(values, requires_grad=False) for values in copies)
    return layer

"""Linear layers from given weights, without drawing random ones first."""

import torch
from torch import Tensor, nn


def linear_layer(weight: Tensor, bias: Tensor) -> nn.Linear:
    """Return a linear layer with fixed copies of weights.

    `nn.Linear` would first draw random ones; `torch.nn.utils.skip_init` draws none, and imports
    SymPy.

    Parameters
    ----------
    weight : Tensor
        The matrix, (outputs, inputs).
    bias : Tensor
        The constants, (outputs,).

    Returns
    -------
    Linear
        The layer; its parameters require no gradient.

    Examples
    --------
    >>> linear_layer(torch.tensor([[2.0, 1.0]]), torch.tensor([0.5]))(torch.ones(2)).item()
    3.5
    """
    layer = nn.Linear.__new__(nn.Linear)
    nn.Module.__init__(layer)
    layer.out_features, layer.in_features = weight.shape
    layer.weight = _parameter(weight)
    layer.bias = _parameter(bias)
    return layer


def _parameter(values: Tensor) -> nn.Parameter:
    copied = values.detach().clone(memory_format=torch.contiguous_format)
    return nn.Parameter(copied, requires_grad=False)

"""The activations that bounds know, one entry each: a new one needs its lines."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .lines import EPSILON, Lines, relu_lines, sigmoid_lines, tanh_lines


@dataclass(frozen=True)
class Unit:
    r"""A function $g$ of one number that does not fall, with $|g(a)| \le |a| +$ `offset`, also for its lines.

    `lines` give a line below and above on an interval; `error` is what torch's value may be wrong by. One that
    `switches` is linear on either side of 0: a binary says exactly what it does, others have no exact linear model.

    >>> unit = ACTIVATIONS["relu"]
    >>> unit.value(torch.tensor([-1.0, 2.0])), unit.switches
    (tensor([0., 2.]), True)
    """

    value: Callable[[Tensor], Tensor]
    lines: Callable[[Tensor, Tensor], Lines]
    layer: type[nn.Module]
    offset: float = 1.0
    error: float = 32 * EPSILON
    switches: bool = False


ACTIVATIONS = {
    "relu": Unit(torch.relu, relu_lines, nn.ReLU, offset=0.0, error=0.0, switches=True),
    "tanh": Unit(torch.tanh, tanh_lines, nn.Tanh),
    "sigmoid": Unit(torch.sigmoid, sigmoid_lines, nn.Sigmoid),
}
"""By torch's name of the operation."""

"""The activations that bounds know, one entry each: a new one needs its lines, and an exact model if it has one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .lines import EPSILON, Lines, relu_lines, sigmoid_lines, tanh_lines


@dataclass(frozen=True)
class Unit:
    r"""A function $g$ of one number that does not fall, with $|g(a)| \le |a| +$ `offset`, also for its lines.

    `lines` give a line below and above on an interval; `error` is what torch's value may be wrong by; `rows` write
    $z = g(a)$ into a model. One that `switches` is linear on either side of 0.

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
    rows: Callable[..., Any] | None = None


def relu_rows(model: Any, a: Any, low: float, high: float, relaxed: bool) -> Any:
    """A variable that equals the positive part of `a`, which lies between `low` and `high`."""
    z = model.addVar(lb=max(low, 0.0), ub=max(high, 0.0))
    if low < 0 < high:
        on = model.addVar(vtype="C" if relaxed else "B", ub=1.0)
        model.addCons(z >= a)
        model.addCons(z <= a - low * (1 - on))
        model.addCons(z <= high * on)
    elif low >= 0:
        model.addCons(z == a)
    return z


ACTIVATIONS = {
    "relu": Unit(torch.relu, relu_lines, nn.ReLU, offset=0.0, error=0.0, switches=True, rows=relu_rows),
    "tanh": Unit(torch.tanh, tanh_lines, nn.Tanh),
    "sigmoid": Unit(torch.sigmoid, sigmoid_lines, nn.Sigmoid),
}
"""By torch's name of the operation."""

r"""The activations that bounds know, one entry each: a new one needs lines below and above it on an
interval, $\alpha a + \beta \le g(a) \le \sigma a + \tau$.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..numerics import EPSILON


class Lines(NamedTuple):
    r"""Slope and shift of the line below and of the line above; where `free`, any lower slope in
    [0, 1] is sound.
    """

    below: Tensor
    below_shift: Tensor
    above: Tensor
    above_shift: Tensor
    free: Tensor


def relu_lines(low: Tensor, high: Tensor) -> Lines:
    r"""Units that cannot switch get their own line, others the chord above and the slope 1 or 0 of
    less area below.

    >>> lines = relu_lines(torch.tensor([-1.0, -3.0, 1.0]), torch.tensor([3.0, 1.0, 2.0]))
    >>> lines.below, lines.above, lines.above_shift
    (tensor([1., 0., 1.]), tensor([0.7500, 0.2500, 1.0000]), tensor([0.7500, 0.7500, 0.0000]))
    """
    free = (low < 0) & (high > 0)
    on = (low >= 0).to(low.dtype)
    chord = torch.where(free, high / torch.where(free, high - low, 1.0), on)
    shift = torch.maximum(-chord * low, (1 - chord) * high) * (
        1 + 4 * EPSILON
    )  # above both ends, rounded as they are
    below = torch.where(free, (high > -low).to(low.dtype), on)
    return Lines(below, torch.zeros_like(low), chord, torch.where(free, shift, 0.0), free)


def tanh_lines(low: Tensor, high: Tensor) -> Lines:
    """Chords, and tangents through an end or in the middle; tanh is odd, so the line above is one
    below, mirrored.

    >>> lines = tanh_lines(torch.tensor([-1.0]).double(), torch.tensor([2.0]).double())
    >>> [round(part.item(), 3) for part in lines[:4]]
    [0.582, -0.199, 0.816, 0.055]
    """
    slope, shift = _below_tanh(low, high)
    above, above_shift = _below_tanh(-high, -low)
    return Lines(slope, shift, above, -above_shift, torch.zeros_like(low, dtype=torch.bool))


def sigmoid_lines(low: Tensor, high: Tensor) -> Lines:
    r"""From those of tanh: the sigmoid of $a$ is $(1 + \tanh(a/2))/2$.

    >>> lines = sigmoid_lines(torch.tensor([-2.0]).double(), torch.tensor([4.0]).double())
    >>> [round(part.item(), 3) for part in lines[:4]]
    [0.145, 0.4, 0.204, 0.527]
    """
    below, below_shift, above, above_shift, free = tanh_lines(low / 2, high / 2)
    return Lines(below / 4, 0.5 + below_shift / 2, above / 4, 0.5 + above_shift / 2, free)


def _below_tanh(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The slope is a good choice; the shift makes it sound, whatever the slope."""
    width = high - low
    flat = width < 1e-9  # the difference quotient would be noise
    chord = torch.where(
        flat, _derivative(high), (high.tanh() - low.tanh()) / torch.where(flat, 1.0, width)
    )
    left = low.clamp(max=0.0)
    right = high.clamp(max=0.0)
    for _ in range(14):  # the point left of 0 whose tangent goes through the upper end
        middle = (left + right) / 2
        under = _passes_under(middle, high)
        left = torch.where(under, middle, left)
        right = torch.where(under, right, middle)
    tangent = _derivative(torch.where(high <= 0, (low + high) / 2, left))
    slope = torch.where((high <= 0) | _passes_under(low, high), tangent, chord).clamp(0.0, 1.0)
    return slope, _tanh_shift(slope, low, high)


def _tanh_shift(slope: Tensor, low: Tensor, high: Tensor) -> Tensor:
    r"""The smallest value of $\tanh a - s a$ on the interval: at an end, or where $\tanh' = s$ on
    the convex part, at $a = -\log((1 + r)/\sqrt s)$ with $r = \sqrt{1 - s}$.
    """
    root = (1 - slope).sqrt()
    place = ((1 + root) / slope.clamp(min=1e-300).sqrt()).log()
    ends = torch.minimum(low.tanh() - slope * low, high.tanh() - slope * high)
    near = 1e-6 * (1 + place)
    inside = (-place >= low - near) & (-place <= high + near)
    found = torch.where(inside, torch.minimum(ends, slope * place - root), ends)
    return found - 32 * EPSILON * (1 + slope * torch.maximum(low.abs(), high.abs()))


def _passes_under(at: Tensor, high: Tensor) -> Tensor:
    """Whether the tangent at a point is below tanh at the upper end."""
    return at.tanh() + _derivative(at) * (high - at) < high.tanh()


def _derivative(at: Tensor) -> Tensor:
    return 1 - at.tanh() ** 2


@dataclass(frozen=True)
class Activation:
    r"""A function $g$ of one number that does not fall, with $|g(a)| \le |a| +$ `offset`, also for
    its lines.

    `lines` give a line below and above on an interval; `error` is what torch's value may be wrong
    by. One that `switches` is linear on either side of 0: a binary says exactly what it does,
    others have no exact linear model.

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

    @property
    def rows(self) -> bool:
        """Whether rows of a mixed-integer program say exactly what it does."""
        return self.switches


ACTIVATIONS = {
    "relu": Activation(torch.relu, relu_lines, nn.ReLU, offset=0.0, error=0.0, switches=True),
    "tanh": Activation(torch.tanh, tanh_lines, nn.Tanh),
    "sigmoid": Activation(torch.sigmoid, sigmoid_lines, nn.Sigmoid),
}
"""By torch's name of the operation."""

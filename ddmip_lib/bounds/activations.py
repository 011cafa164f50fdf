r"""All activations that the library supports, one entry each: a new one is added here alone.

An entry of `ACTIVATIONS` is an activation that is a node of graphs. It needs linear bounds on an
interval, $\alpha a + \beta \le g(a) \le \sigma a + \tau$, and, where it is piecewise linear,
constraints of a mixed-integer program. An entry of `LEAKY` is one that graphs write as $s a + (1 -
s)(a)_+$, for any real slope $s$: bounds, splits and constraints are those of the ReLU.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..numerics import EPSILON

TANGENT_BISECTIONS = 14  # steps that locate the tangent of tanh through the upper end
MIN_CHORD_WIDTH = 1e-9  # input units: below it the difference quotient of tanh is rounding noise
STATIONARY_MARGIN = 1e-6
"""Distance from an interval, relative to 1 + |a|, at which a minimiser still counts as inside."""


class Lines(NamedTuple):
    """Linear bounds of activations on intervals.

    Attributes
    ----------
    below, below_shift : Tensor
        Slopes and constants of the lower bounds.
    above, above_shift : Tensor
        Slopes and constants of the upper bounds.
    free : Tensor
        Where any slope in [0, 1] gives a lower bound with the constant 0.
    """

    below: Tensor
    below_shift: Tensor
    above: Tensor
    above_shift: Tensor
    free: Tensor


def relu_lines(low: Tensor, high: Tensor) -> Lines:
    """Return linear bounds of ReLUs.

    Units that cannot switch are linear; others have the chord above, and below the slope 1 or 0,
    whichever leaves less area.

    Parameters
    ----------
    low, high : Tensor
        The ends of the intervals.

    Returns
    -------
    Lines
        The linear bounds.

    Examples
    --------
    >>> lines = relu_lines(torch.tensor([-1.0, -3.0, 1.0]), torch.tensor([3.0, 1.0, 2.0]))
    >>> lines.below, lines.above, lines.above_shift
    (tensor([1., 0., 1.]), tensor([0.7500, 0.2500, 1.0000]), tensor([0.7500, 0.7500, 0.0000]))
    """
    free = (low < 0) & (high > 0)
    on = (low >= 0).to(low.dtype)
    below = torch.where(free, (high > -low).to(low.dtype), on)
    above = torch.where(free, high / torch.where(free, high - low, 1.0), on)
    # above both ends, although the slope is rounded
    shift = torch.maximum(-above * low, (1 - above) * high) * (1 + 4 * EPSILON)
    return Lines(below, torch.zeros_like(low), above, torch.where(free, shift, 0.0), free)


def tanh_lines(low: Tensor, high: Tensor) -> Lines:
    """Return linear bounds of tanh: chords, and tangents through an end or in the middle.

    Parameters
    ----------
    low, high : Tensor
        The ends of the intervals.

    Returns
    -------
    Lines
        The linear bounds; tanh is odd, so upper bounds are lower bounds, mirrored.

    Examples
    --------
    >>> lines = tanh_lines(torch.tensor([-1.0]).double(), torch.tensor([2.0]).double())
    >>> [round(part.item(), 3) for part in lines[:4]]
    [0.582, -0.199, 0.816, 0.055]
    """
    below, shift = _below_tanh(low, high)
    above, above_shift = _below_tanh(-high, -low)
    return Lines(below, shift, above, -above_shift, torch.zeros_like(low, dtype=torch.bool))


def sigmoid_lines(low: Tensor, high: Tensor) -> Lines:
    r"""Return linear bounds of the sigmoid from those of tanh, as $(1 + \tanh(a/2))/2$.

    Parameters
    ----------
    low, high : Tensor
        The ends of the intervals.

    Returns
    -------
    Lines
        The linear bounds.

    Examples
    --------
    >>> lines = sigmoid_lines(torch.tensor([-2.0]).double(), torch.tensor([4.0]).double())
    >>> [round(part.item(), 3) for part in lines[:4]]
    [0.145, 0.4, 0.204, 0.527]
    """
    below, below_shift, above, above_shift, free = tanh_lines(low / 2, high / 2)
    return Lines(below / 4, 0.5 + below_shift / 2, above / 4, 0.5 + above_shift / 2, free)


def _below_tanh(low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Slopes and constants of lower bounds: the constant makes any slope sound."""
    concave_end = _tangent_through(low, high)
    tangent = _derivative(torch.where(high <= 0, (low + high) / 2, concave_end))
    uses_tangent = (high <= 0) | _passes_under(low, high)
    slope = torch.where(uses_tangent, tangent, _chord(low, high)).clamp(0.0, 1.0)
    return slope, _tanh_shift(slope, low, high)


def _chord(low: Tensor, high: Tensor) -> Tensor:
    """The slope of the chord, or the derivative where the interval is almost a point."""
    width = high - low
    flat = width < MIN_CHORD_WIDTH
    quotient = (high.tanh() - low.tanh()) / torch.where(flat, 1.0, width)
    return torch.where(flat, _derivative(high), quotient)


def _tangent_through(low: Tensor, high: Tensor) -> Tensor:
    """The point left of 0 whose tangent goes through the upper end, by bisection."""
    left = low.clamp(max=0.0)
    right = high.clamp(max=0.0)
    for _ in range(TANGENT_BISECTIONS):
        middle = (left + right) / 2
        under = _passes_under(middle, high)
        left = torch.where(under, middle, left)
        right = torch.where(under, right, middle)
    return left


def _tanh_shift(slope: Tensor, low: Tensor, high: Tensor) -> Tensor:
    r"""The smallest value of $\tanh a - s a$ on the interval: at an end, or where $\tanh' = s$ on
    the convex part, at $a = -\log((1 + r)/\sqrt s)$ with $r = \sqrt{1 - s}$.
    """
    root = (1 - slope).sqrt()
    size = ((1 + root) / slope.clamp(min=1e-300).sqrt()).log()
    at_ends = torch.minimum(low.tanh() - slope * low, high.tanh() - slope * high)
    margin = STATIONARY_MARGIN * (1 + size)
    inside = (-size >= low - margin) & (-size <= high + margin)
    smallest = torch.where(inside, torch.minimum(at_ends, slope * size - root), at_ends)
    return smallest - 32 * EPSILON * (1 + slope * torch.maximum(low.abs(), high.abs()))


def _passes_under(at: Tensor, high: Tensor) -> Tensor:
    """Whether the tangent at a point is below tanh at the upper end."""
    return at.tanh() + _derivative(at) * (high - at) < high.tanh()


def _derivative(at: Tensor) -> Tensor:
    return 1 - at.tanh() ** 2


def relu_constraints(
    program: Any, at: int, number: float, low: float, high: float
) -> tuple[int, float]:
    r"""Add $z = (a)_+$ to a program.

    Where $a$ can have both signs, a binary $\delta$ is 1 if the unit is on: $z \ge a$,
    $z \le a - l (1 - \delta)$, $0 \le z \le h \delta$.

    Parameters
    ----------
    program : NetworkEncoder
        The program.
    at, number : int and float
        The index of the variable $a$; if it is -1, $a$ is the number.
    low, high : float
        The range $[l, h]$ of $a$.

    Returns
    -------
    at, number : int and float
        $z$, in the same form.

    Examples
    --------
    >>> relu_constraints(None, 3, 0.0, 0.5, 1.0), relu_constraints(None, -1, -2.0, -3.0, 1.0)
    ((3, 0.0), (-1, 0.0))
    """
    if at < 0:
        return -1, max(number, 0.0)
    if high <= 0:
        return -1, 0.0
    if low >= 0:
        return at, number
    z = program.variable(0.0, high)
    on = program.variable(0.0, 1.0, integer=True)
    program.add_constraint([z, at], [1.0, -1.0], 0.0, np.inf)
    program.add_constraint([z, at, on], [1.0, -1.0, -low], -np.inf, -low)
    program.add_constraint([z, on], [1.0, -high], -np.inf, 0.0)
    return z, number


@dataclass(frozen=True)
class Activation:
    r"""A nondecreasing function $g$ of one number with $|g(a)| \le |a| +$ `offset`, also for its
    linear bounds.

    Attributes
    ----------
    value : callable
        The function on tensors.
    linear_bounds : callable
        Linear bounds from the ends of intervals.
    layer : type
        The class of torch's layer.
    sklearn : str, optional
        The name in scikit-learn.
    constraints : callable, optional
        Adds the activation of one unit to a program, as `relu_constraints` does, for a value that
        torch does not round; None if no mixed-integer linear program is exact.
    offset : float
        The offset in the bound of $|g|$.
    error : float
        A bound of the error of torch's value.
    switches : bool
        Whether $g$ is linear on either side of 0, so that units can be split there, and $g(c a) = c
        g(a)$ for $c > 0$. Intervals with 0 inside must then have a `free` lower bound: others count
        as linear.
    keeps_positive : bool
        Whether $g(a) = a$ for $a > 0$ and $g(a) \le 0$ for $a \le 0$, so that a class is the same
        without it.
    one_sign : bool
        Whether all values are positive, so that they are no logits.

    Examples
    --------
    >>> unit = ACTIVATIONS["relu"]
    >>> unit.value(torch.tensor([-1.0, 2.0])), unit.switches
    (tensor([0., 2.]), True)
    """

    value: Callable[[Tensor], Tensor]
    linear_bounds: Callable[[Tensor, Tensor], Lines]
    layer: type[nn.Module]
    sklearn: str | None = None
    constraints: Callable[..., tuple[int, float]] | None = None
    offset: float = 1.0
    error: float = 32 * EPSILON
    switches: bool = False
    keeps_positive: bool = False
    one_sign: bool = False


ACTIVATIONS = {
    "relu": Activation(
        torch.relu,
        relu_lines,
        nn.ReLU,
        "relu",
        relu_constraints,
        offset=0.0,
        error=0.0,
        switches=True,
        keeps_positive=True,
    ),
    "tanh": Activation(torch.tanh, tanh_lines, nn.Tanh, "tanh"),
    "sigmoid": Activation(torch.sigmoid, sigmoid_lines, nn.Sigmoid, "logistic", one_sign=True),
}
"""By torch's name of the operation."""
LEAKY: dict[str, type[nn.Module]] = {"leaky_relu": nn.LeakyReLU, "_prelu_kernel": nn.PReLU}
r"""Layers whose value is $a$ for $a \ge 0$ and $s a$ for $a < 0$, by torch's name of the operation,
which has the slope $s$, or one for each channel, as its second argument.
"""
LAYERS = [*(unit.layer for unit in ACTIVATIONS.values()), *LEAKY.values()]
"""The layers of all activations."""

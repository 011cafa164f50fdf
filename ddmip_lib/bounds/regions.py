r"""Input regions over which networks are bounded: boxes, and weighted $l_1$ balls in boxes.

An object holds a batch of n regions of one kind. Weights of a ball may differ between directions,
so that a step up costs more or less than a step down. Arrays have the axes n (regions), k (linear
functions of a region) and p (inputs of the network).
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..numerics import EPSILON
from .result import Batch

MAX_WEIGHT = 1e120  # also of radii: sums of products of larger numbers could overflow


def _double(values: Any) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float64)


@dataclass(eq=False)
class Box(Batch):
    r"""Boxes $\{u : l \le u \le h\}$.

    Attributes
    ----------
    lower, upper : Tensor
        The bounds $l$ and $h$, (n, p). Whatever `torch.as_tensor` accepts is converted to double
        precision.

    Raises
    ------
    ValueError
        If shapes differ, a bound is not finite, or a lower bound exceeds an upper one.

    Examples
    --------
    >>> box = Box(torch.zeros(1, 2), torch.ones(1, 2))
    >>> box.smallest(torch.tensor([[[1.0, -2.0]]]))
    tensor([[-2.]], dtype=torch.float64)
    """

    lower: Tensor
    upper: Tensor

    def __post_init__(self) -> None:
        self.lower = _double(self.lower)
        self.upper = _double(self.upper)
        if self.lower.dim() != 2 or self.lower.shape != self.upper.shape:
            raise ValueError("lower and upper of a box are two matrices (n, p) of the same shape.")
        finite = self.lower.isfinite() & self.upper.isfinite()
        if not (finite & (self.lower <= self.upper)).all():
            raise ValueError("a box needs finite bounds, with lower <= upper.")

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def size(self) -> Tensor:
        """The largest absolute value of each coordinate, (n, p)."""
        return torch.maximum(self.lower.abs(), self.upper.abs())

    def box(self) -> "Box":
        """Return the bounding boxes of the regions, here the boxes themselves."""
        return self

    def argsmallest(self, coef: Tensor) -> Tensor:
        """Return minimisers of linear functions over the regions.

        Parameters
        ----------
        coef : Tensor
            Coefficients of k functions for each region, (n, k, p).

        Returns
        -------
        Tensor
            Minimisers, (n, k, p).
        """
        return torch.where(coef > 0, self.lower[:, None], self.upper[:, None])

    def smallest(self, coef: Tensor) -> Tensor:
        """Return the minima of linear functions over the regions, up to rounding errors.

        Gradients flow to the coefficients, with the minimiser held fixed (Danskin's theorem).

        Parameters
        ----------
        coef : Tensor
            Coefficients of k functions for each region, (n, k, p).

        Returns
        -------
        Tensor
            The minima, (n, k).
        """
        return (coef * self.argsmallest(coef.detach())).sum(-1)


@dataclass(eq=False)
class Ball(Box):
    r"""Balls $\{u \text{ in the box} : \sum_j a_j (u_j - c_j)_+ + d_j (c_j - u_j)_+ \le r\}$.

    Minimising a linear function over a ball is a fractional knapsack problem: the radius is the
    capacity, and coordinates leave the centre in the order of their decrease per unit of weight,
    each up to its bound. Those of weight zero come first.

    Attributes
    ----------
    lower, upper : Tensor
        Bounds of the boxes, (n, p).
    centre : Tensor
        The centres $c$, (n, p) or a shape that broadcasts to it.
    up, down : Tensor
        The weights $a$ and $d$ of a unit above and below the centre, (n, p) or a shape that
        broadcasts to it.
    radius : Tensor
        The radii $r$, (n,) or a number.

    Raises
    ------
    ValueError
        If a weight or radius is negative, not finite or above 1e120, or a centre is outside its
        box.

    Examples
    --------
    >>> ball = Ball(
    ...     -torch.ones(1, 2), torch.ones(1, 2), torch.zeros(1, 2), up=1.0, down=4.0, radius=2.0
    ... )
    >>> coef = torch.tensor([[[1.0, -2.0]]])
    >>> ball.argsmallest(coef), ball.smallest(coef).item()
    (tensor([[[-0.2500,  1.0000]]], dtype=torch.float64), -2.25)
    >>> ball.box().lower
    tensor([[-0.5000, -0.5000]], dtype=torch.float64)
    """

    centre: Tensor
    up: Tensor
    down: Tensor
    radius: Tensor

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = self.lower.shape
        for name in ("centre", "up", "down"):
            setattr(self, name, _double(getattr(self, name)).expand(shape))
        self.radius = _double(self.radius).expand(shape[0])
        weights = torch.stack([self.up, self.down, self.radius[:, None].expand(shape)])
        if not (weights.isfinite() & (weights >= 0)).all():
            raise ValueError("weights and radius of a ball must be finite and not negative.")
        cost = (self.up + self.down) * (self.upper - self.lower)
        if not (weights <= MAX_WEIGHT).all() or not cost.sum(-1).isfinite().all():
            raise ValueError(
                f"weights and radius of a ball must not exceed {MAX_WEIGHT:g}: rescale them."
            )
        if not ((self.lower <= self.centre) & (self.centre <= self.upper)).all():
            raise ValueError("the centre of a ball must lie in its box: clip it first.")

    def box(self) -> Box:
        """Return the bounding boxes of the balls, rounded outward."""
        lower = torch.maximum(self.lower, self.centre - self._distance(self.down))
        upper = torch.minimum(self.upper, self.centre + self._distance(self.up))
        return Box(lower, upper)

    def _distance(self, weight: Tensor) -> Tensor:
        """Upper bound of the distance that each coordinate alone can move within the radius."""
        distance = torch.where(weight > 0, self.radius[:, None] / weight, torch.inf)
        return distance + 4 * EPSILON * (distance + self.centre.abs())

    def argsmallest(self, coef: Tensor) -> Tensor:
        """Return minimisers of linear functions over the balls; see `Box.argsmallest`."""
        downward = coef > 0
        size = coef.abs()
        width = torch.where(
            downward, (self.centre - self.lower)[:, None], (self.upper - self.centre)[:, None]
        )
        width = torch.where(size > 0, width, 0.0)
        weight = torch.where(downward, self.down[:, None], self.up[:, None])
        # the knapsack is filled greedily; the last coordinate that fits moves by a fraction
        order = torch.where(size > 0, weight / size, torch.inf).argsort(-1)
        cost = (weight * width).gather(-1, order)
        used = torch.cat([torch.zeros_like(cost[..., :1]), cost.cumsum(-1)[..., :-1]], -1)
        remaining = (self.radius[:, None, None] - used).clamp(min=0.0)
        fraction = torch.where(cost > remaining, remaining / cost, 1.0)
        step = width * torch.empty_like(fraction).scatter(-1, order, fraction)
        point = self.centre[:, None] + torch.where(downward, -step, step)
        return point.maximum(self.lower[:, None]).minimum(self.upper[:, None])

r"""Regions of the inputs, n at a time: boxes, and balls of a weighted, two-sided $l_1$ norm in
boxes.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..numerics import EPSILON
from .result import Batch

MAX_PRICE = 1e120  # prices and radii of balls: sums of products of larger ones could overflow


def _double(values: Any) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float64)


@dataclass(eq=False)
class Box(Batch):
    r"""Boxes $\{u : l \le u \le h\}$.

    Attributes
    ----------
    lower, upper : Tensor
        The ends $l$ and $h$, (n, p); anything that torch can convert.

    Raises
    ------
    ValueError
        If shapes differ, an end is not finite, or a lower end exceeds an upper one.

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
            raise ValueError("a box needs finite ends, with lower <= upper.")

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def size(self) -> Tensor:
        """The largest absolute value of each coordinate."""
        return torch.maximum(self.lower.abs(), self.upper.abs())

    def box(self) -> "Box":
        """Return the smallest boxes around the regions."""
        return self

    def argsmallest(self, coef: Tensor) -> Tensor:
        """Minimise linear functions over the regions.

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
        """Return the smallest values of linear functions over the regions, up to rounding.

        Parameters
        ----------
        coef : Tensor
            Coefficients of k functions for each region, (n, k, p); may require a gradient.

        Returns
        -------
        Tensor
            The values, (n, k).
        """
        return (coef * self.argsmallest(coef.detach())).sum(-1)


@dataclass(eq=False)
class Ball(Box):
    r"""Balls $\{u \text{ in the box} : \sum_j a_j (u_j - c_j)_+ + d_j (c_j - u_j)_+ \le r\}$.

    A linear function is smallest where the radius is used by the coordinates with the largest
    decrease per price (a fractional knapsack); those without a price move first, to the end of the
    box.

    Attributes
    ----------
    lower, upper : Tensor
        The boxes, (n, p).
    centre : Tensor
        The centres $c$, (n, p) or fewer axes.
    up, down : Tensor
        The prices $a$ and $d$ of a unit of movement, (n, p) or fewer axes.
    radius : Tensor
        The radii $r$, (n,) or a number.

    Raises
    ------
    ValueError
        If a price or radius is negative, not finite or above 1e120, or a centre is outside its box.

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
        prices = torch.stack([self.up, self.down, self.radius[:, None].expand(shape)])
        if not (prices.isfinite() & (prices >= 0)).all():
            raise ValueError("prices and radius of a ball are finite and not negative.")
        cost = (self.up + self.down) * (self.upper - self.lower)
        if not (prices <= MAX_PRICE).all() or not cost.sum(-1).isfinite().all():
            raise ValueError(
                f"prices and radius of a ball must not exceed {MAX_PRICE:g}: rescale them."
            )
        if not ((self.lower <= self.centre) & (self.centre <= self.upper)).all():
            raise ValueError("the centre of a ball lies in its box: clip it first.")

    def box(self) -> Box:
        """Return the smallest boxes around the balls, rounded outward."""
        lower = torch.maximum(self.lower, self.centre - self._distance(self.down))
        upper = torch.minimum(self.upper, self.centre + self._distance(self.up))
        return Box(lower, upper)

    def _distance(self, price: Tensor) -> Tensor:
        """How far each coordinate can move within the radius."""
        distance = torch.where(price > 0, self.radius[:, None] / price, torch.inf)
        return distance + 4 * EPSILON * (distance + self.centre.abs())

    def argsmallest(self, coef: Tensor) -> Tensor:
        """Minimise linear functions over the balls; see `Box.argsmallest`."""
        falls = coef > 0
        size = coef.abs()
        room = torch.where(
            falls, (self.centre - self.lower)[:, None], (self.upper - self.centre)[:, None]
        )
        room = torch.where(size > 0, room, 0.0)
        price = torch.where(falls, self.down[:, None], self.up[:, None])
        order = torch.where(size > 0, price / size, torch.inf).argsort(-1)
        cost = (price * room).gather(-1, order)
        before = torch.cat([torch.zeros_like(cost[..., :1]), cost.cumsum(-1)[..., :-1]], -1)
        left = (self.radius[:, None, None] - before).clamp(min=0.0)
        fraction = torch.where(cost > left, left / cost, 1.0)
        move = room * torch.empty_like(fraction).scatter(-1, order, fraction)
        point = self.centre[:, None] + torch.where(falls, -move, move)
        return point.maximum(self.lower[:, None]).minimum(self.upper[:, None])

r"""Where the inputs may be, one region for each row: boxes, and balls of a weighted, two-sided
$l_1$ norm in boxes.
"""

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from ..numerics import EPSILON

MOST = 1e120


def _double(values: Any) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float64)


@dataclass(eq=False)
class Box:
    r"""$\{u : l \le u \le h\}$ for every row; `lower` and `upper` are (n, p).

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
        if not (
            self.lower.isfinite().all()
            and self.upper.isfinite().all()
            and (self.lower <= self.upper).all()
        ):
            raise ValueError("a box needs finite ends, with lower <= upper.")

    def __len__(self) -> int:
        return len(self.lower)

    def __getitem__(self, rows: Any) -> Any:
        """The regions of some rows, given by a slice, a mask or a list of indices."""
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))

    @property
    def size(self) -> Tensor:
        """The largest absolute value of each coordinate."""
        return torch.maximum(self.lower.abs(), self.upper.abs())

    def box(self) -> "Box":
        """The smallest box around the region."""
        return self

    def argsmallest(self, coef: Tensor) -> Tensor:
        """Points (n, k, p) at which the forms `coef` (n, k, p) are smallest."""
        return torch.where(coef > 0, self.lower[:, None], self.upper[:, None])

    def smallest(self, coef: Tensor) -> Tensor:
        """The smallest values (n, k) of the forms `coef` (n, k, p), up to rounding;
        differentiable.
        """
        return (coef * self.argsmallest(coef.detach())).sum(-1)


@dataclass(eq=False)
class Ball(Box):
    r"""$\{u \text{ in the box} : \sum_j a_j (u_j - c_j)_+ + d_j (c_j - u_j)_+ \le r\}$ with the
    prices `up` $= a$ and `down` $= d$ for each unit of movement.

    A linear form is smallest where the radius is spent on the coordinates with the largest gain for
    their price (a fractional knapsack); those without a price move first, to the end of the box.

    >>> ball = Ball(
    ...     -torch.ones(1, 2), torch.ones(1, 2), torch.zeros(1, 2), up=1.0, down=4.0, radius=2.0
    ... )
    >>> form = torch.tensor([[[1.0, -2.0]]])
    >>> ball.argsmallest(form), ball.smallest(form).item()
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
        self.centre, self.up, self.down = (
            _double(v).expand(shape) for v in (self.centre, self.up, self.down)
        )
        self.radius = _double(self.radius).expand(shape[0])
        prices = torch.stack([self.up, self.down, self.radius[:, None].expand(shape)])
        if not (prices.isfinite().all() and (prices >= 0).all()):
            raise ValueError("prices and radius of a ball are finite and not negative.")
        spent = (self.up + self.down) * (self.upper - self.lower)
        if not (prices <= MOST).all() or not spent.sum(-1).isfinite().all():
            raise ValueError(
                f"prices and radius of a ball up to {MOST:g} are computed with: rescale them."
            )
        if not ((self.lower <= self.centre) & (self.centre <= self.upper)).all():
            raise ValueError("the centre of a ball lies in its box: clip it first.")

    def box(self) -> Box:
        reach = [
            torch.where(price > 0, self.radius[:, None] / price, torch.inf)
            for price in (self.down, self.up)
        ]
        down, up = (far + 4 * EPSILON * (far + self.centre.abs()) for far in reach)  # outward
        return Box(
            torch.maximum(self.lower, self.centre - down),
            torch.minimum(self.upper, self.centre + up),
        )

    def argsmallest(self, coef: Tensor) -> Tensor:
        falls = coef > 0
        gain = coef.abs()
        room = torch.where(
            falls, (self.centre - self.lower)[:, None], (self.upper - self.centre)[:, None]
        )
        room = torch.where(gain > 0, room, 0.0)
        price = torch.where(falls, self.down[:, None], self.up[:, None])
        order = torch.where(gain > 0, price / gain, torch.inf).argsort(-1)
        cost = (price * room).gather(-1, order)
        before = torch.cat([torch.zeros_like(cost[..., :1]), cost.cumsum(-1)[..., :-1]], -1)
        left = (self.radius[:, None, None] - before).clamp(min=0.0)
        share = torch.where(cost > left, left / cost, 1.0)
        move = room * torch.empty_like(share).scatter(-1, order, share)
        point = self.centre[:, None] + torch.where(falls, -move, move)
        return torch.minimum(torch.maximum(point, self.lower[:, None]), self.upper[:, None])

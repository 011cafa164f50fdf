"""Balls cut by a half-space outside which no point has a loss within the radius."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..bounds import Ball
from ..bounds.regions import _double
from ..numerics import EPSILON, gamma

PLANE_WEIGHTS = (0.5, 1.0, 2.0)
"""Multipliers of the plane that are tried, relative to the ratio of the steepest decreases of the
linear function and of the plane.
"""
MIN_DIVISOR_PRICE = 1e-9  # cost per unit of movement: smaller prices are not divided by


@dataclass(eq=False)
class CutBall(Ball):
    r"""The points of a ball with $c^\top u + l \ge 0$.

    The smallest value of a linear function with coefficients $k$ is bounded by that over the ball
    alone, and by weak duality: for all $\gamma, \lambda \ge 0$, with $q = k - \gamma c$, rooms
    $\omega_j$ and prices $\pi_j$ in the direction in which $q_j$ falls,

    $$k^\top u \ge q^\top w - \gamma l - \lambda r - \sum_j \omega_j \, (|q_j|
    - \lambda \pi_j)_+ .$$

    A few $\gamma$ are tried; $\lambda$ is the largest $|q_j|/\pi_j$ of a coordinate that could use
    the whole radius.

    Attributes
    ----------
    cut : Tensor
        The normal vectors $c$, (n, p).
    level : Tensor
        The constants $l$, (n,).

    Examples
    --------
    >>> one = torch.ones(1, 2)
    >>> box, prices, plane = (-one, one, 0 * one), (1.0, 1.0, 1.0), (one, torch.tensor([-0.5]))
    >>> ball = CutBall(*box, *prices, *plane)
    >>> coef = torch.tensor([[[1.0, 0.0]]]).double()
    >>> round(Ball.smallest(ball, coef).item(), 9), round(ball.smallest(coef).item(), 9)
    (-1.0, -0.25)
    """

    cut: Tensor
    level: Tensor

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cut = _double(self.cut)
        self.level = _double(self.level)
        self.rooms = torch.stack([self.upper - self.centre, self.centre - self.lower])
        self.prices = torch.stack([self.up, self.down])
        whole_way = self.prices * self.rooms >= self.radius[:, None]
        self.uses_radius = (self.prices > MIN_DIVISOR_PRICE) & whole_way
        self.all_use_radius = bool(self.uses_radius.all())
        self.slack = (self.cut * self.centre).sum(-1) + self.level
        self.extent = (self.cut.abs() * self.size).sum(-1) + self.level.abs()

    def smallest(self, coef: Tensor) -> Tensor:
        """Return lower bounds of linear functions over the cut balls.

        Parameters
        ----------
        coef : Tensor
            Coefficients of k functions for each ball, (n, k, p).

        Returns
        -------
        Tensor
            The bounds, (n, k).
        """
        bound = super().smallest(coef)
        at_centre = (coef * self.centre[:, None]).sum(-1)
        ratio = self._steepest(coef) / self._steepest(-self.cut[:, None])
        ratio = torch.where(ratio.isfinite(), ratio, 0.0)
        relative_error = gamma(8 * coef.shape[-1] + 64)
        for weight in PLANE_WEIGHTS:
            multiplier = weight * ratio
            decrease = self._decrease(coef - multiplier[..., None] * self.cut[:, None])
            rounding = relative_error * (multiplier * self.extent[:, None] + decrease)
            value = at_centre - multiplier * self.slack[:, None] - decrease - rounding
            bound = torch.maximum(bound, value)
        return bound

    def _in_direction(self, coef: Tensor, parts: Tensor) -> Tensor:
        """Of values for steps up and down, those of the direction in which a function decreases."""
        return torch.where(coef < 0, parts[0][:, None], parts[1][:, None])

    def _steepest(self, coef: Tensor) -> Tensor:
        """The largest decrease per unit of cost, over coordinates that could use the whole
        radius.
        """
        ratio = coef.abs() / self._in_direction(coef, self.prices)
        counted = torch.where(self._in_direction(coef, self.uses_radius), ratio, 0.0)
        return counted.nan_to_num(nan=0.0).amax(-1)

    def _decrease(self, coef: Tensor) -> Tensor:
        """Upper bounds of the decrease of a linear function from its value at the centre."""
        dual = self._steepest(coef) * (1 + 4 * EPSILON)
        within_radius = dual * self.radius[:, None]
        if self.all_use_radius:
            return within_radius
        excess = coef.abs() - dual[..., None] * self._in_direction(coef, self.prices)
        free_moves = self._in_direction(coef, self.rooms) * excess.clamp(min=0.0)
        return within_radius + free_moves.sum(-1)

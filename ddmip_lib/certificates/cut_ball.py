"""A ball that is known to hold nothing of interest behind a plane."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..bounds import Ball
from ..bounds.regions import _double
from ..numerics import EPSILON, gamma

WEIGHTS = (
    0.5,
    1.0,
    2.0,
)  # multipliers of the plane that are tried, in units of the form's size by the plane's
CHEAP = 1e-9  # prices up to this are not divided by


@dataclass(eq=False)
class CutBall(Ball):
    r"""The points of a ball with $c^\top u + l \ge 0$; `cut` is $c$, (n, p), and `level` $l$, (n,).

    The smallest value of a form $k$ is bounded by that over the ball alone, and by weak duality:
    for all $\gamma, \lambda \ge 0$, with $q = k - \gamma c$, rooms $\omega_j$ and prices $\pi_j$ in
    the direction in which $q_j$ falls,

    $$k^\top u \ge q^\top w - \gamma l - \lambda r - \sum_j \omega_j \, (|q_j|
    - \lambda \pi_j)_+ .$$

    A few $\gamma$ are tried; $\lambda$ is the largest $|q_j|/\pi_j$ of a coordinate that could take
    the whole radius.

    >>> one = torch.ones(1, 2)
    >>> ball = CutBall(
    ...     -one,
    ...     one,
    ...     0 * one,
    ...     1.0,
    ...     1.0,
    ...     1.0,
    ...     cut=torch.tensor([[1.0, 1.0]]),
    ...     level=torch.tensor([-0.5]),
    ... )
    >>> form = torch.tensor([[[1.0, 0.0]]]).double()
    >>> round(Ball.smallest(ball, form).item(), 9), round(ball.smallest(form).item(), 9)
    (-1.0, -0.25)
    """

    cut: Tensor
    level: Tensor

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cut = _double(self.cut)
        self.level = _double(self.level)
        radius = self.radius[:, None]
        self.rooms = torch.stack([self.upper - self.centre, self.centre - self.lower])
        self.prices = torch.stack([self.up, self.down])
        self.reach = (self.prices > CHEAP) & (self.prices * self.rooms >= radius)
        self.some_short = not bool(self.reach.all())
        self.slack = (self.cut * self.centre).sum(-1) + self.level
        self.extent = (self.cut.abs() * self.size).sum(-1) + self.level.abs()

    def smallest(self, coef: Tensor) -> Tensor:
        found = super().smallest(coef)
        at_centre = (coef * self.centre[:, None]).sum(-1)
        size = self._steepest(coef) / self._steepest(-self.cut[:, None])
        size = torch.where(size.isfinite(), size, 0.0)
        for weight in WEIGHTS:
            multiplier = weight * size
            form = coef - multiplier[..., None] * self.cut[:, None]
            fall = self._fall(form)
            rounding = gamma(8 * coef.shape[-1] + 64) * (multiplier * self.extent[:, None] + fall)
            found = torch.maximum(
                found, at_centre - multiplier * self.slack[:, None] - fall - rounding
            )
        return found

    def _sides(self, form: Tensor, parts: Tensor) -> Tensor:
        """Of a pair for the ways up and down, what belongs to the way in which the form falls."""
        return torch.where(form < 0, parts[0][:, None], parts[1][:, None])

    def _steepest(self, form: Tensor) -> Tensor:
        """The largest fall for one unit of cost, among coordinates that could take the whole
        radius.
        """
        ratio = form.abs() / self._sides(form, self.prices)
        return torch.where(self._sides(form, self.reach), ratio, 0.0).nan_to_num(nan=0.0).amax(-1)

    def _fall(self, form: Tensor) -> Tensor:
        """By how much a form can fall from its value at the centre, at most."""
        dual = self._steepest(form) * (1 + 4 * EPSILON)
        spent = dual * self.radius[:, None]
        if not self.some_short:
            return spent
        rest = form.abs() - dual[..., None] * self._sides(form, self.prices)
        return spent + (self._sides(form, self.rooms) * rest.clamp(min=0.0)).sum(-1)

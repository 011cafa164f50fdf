r"""Newton's method for barrier functions: points strictly inside, their gradients, and directions
by CG.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ..errors import ProblemError
from .nn_block import finite

CENTRED = 1e-2  # what may be left to gain at the end of the path, in units of the gap mu sum(kappa)


class BarrierProblem:
    r"""$\min\ \varphi(u)$ over $l < u < r$ and $h_j(u) < 0$ for the rows in `barred`; all of it
    falls into groups.

    `parts(u)` gives phi by group and h; `kappa` weighs the logarithms of the lower sides, the upper
    sides, the rows; `convexity` is a curvature that phi has by design, for the preconditioner.
    """

    def __init__(
        self,
        parts: Callable[[Tensor], tuple[Tensor, Tensor]],
        box: tuple[Tensor, Tensor],
        groups: tuple[Tensor, Tensor, int],
        barred: Tensor,
        kappa: Tensor,
        convexity: float,
    ) -> None:
        self.parts = parts
        self.barred = barred
        self.kappa = kappa
        self.convexity = convexity
        self.lower, self.upper = box
        self.group, constraint_group, self.n_groups = groups
        self.side_group = torch.cat([self.group, self.group, constraint_group])
        self.gap = self.total(kappa)

    def total(self, values: Tensor) -> Tensor:
        """Sums by group, of coordinates or of sides."""
        group = self.group if len(values) == len(self.group) else self.side_group
        return values.new_zeros(self.n_groups).index_add(0, group, values)


class BarrierPoint:
    """A point u with phi, h and the slacks there; `differentiate` adds what Newton's method
    needs.
    """

    def __init__(self, f: BarrierProblem, u: Tensor) -> None:
        self.f = f
        with torch.enable_grad():
            self.u = u.detach().requires_grad_(True)
            self.values, self.h = f.parts(self.u)
        self.phi = finite(self.values.detach())
        rows = torch.where(f.barred, -finite(self.h.detach()), 1.0)
        self.slack = torch.cat([u - f.lower, f.upper - u, rows])
        self.logs = f.total(f.kappa * torch.log(self.slack))  # outside: NaN, which no test accepts

    def differentiate(self, dual: Tensor) -> None:
        r"""Graphs of $\nabla\varphi$ and of $\sum_j (\kappa_j / s_j) \nabla h_j$, whose derivatives
        along v make up $Hv$; the curvature of side j is $z_j / s_j$, with the dual estimate $z_j$
        for the path's $\mu\kappa_j/s_j$.
        """
        p = len(self.u)
        weight = self.f.kappa / self.slack
        curvature = dual / self.slack
        self.box_pull = weight[p : 2 * p] - weight[:p]
        self.box_bend = (weight / self.slack)[: 2 * p].view(2, p).sum(0)
        self.box_curvature = curvature[:p] + curvature[p : 2 * p]
        total = self.values.sum()
        self.row_pull = torch.zeros_like(self.box_pull)
        with torch.enable_grad():
            if len(self.h):
                total = total + 0.5 * (curvature[2 * p :] * (self.h - self.h.detach()) ** 2).sum()
                self.row_pull = grad((weight[2 * p :] * self.h).sum(), self.u)
            self.slope = grad(total, self.u)
        finite(self.slope.detach() + self.row_pull.detach())

    def gradient(self, mu: Tensor) -> Tensor:
        """Gradient of the barrier function."""
        return self.slope.detach() + mu[self.f.group] * (self.row_pull.detach() + self.box_pull)

    def hessian_times(self, v: Tensor, mu: Tensor) -> Tensor:
        """Hessian of the barrier function times v, by one backward pass through the graph of the
        gradient.
        """
        along = (self.slope * v).sum() + (self.row_pull * (mu[self.f.group] * v)).sum()
        product = self.box_curvature * v  # all there is where phi and h are piecewise linear
        return product + grad(along, self.u, twice=False) if along.requires_grad else product


def newton_direction(
    at: BarrierPoint,
    slope: Tensor,
    mu: Tensor,
    live: Tensor,
    steps: int,
    late: Callable[[], bool] = lambda: False,
) -> tuple[Tensor, Tensor]:
    """Preconditioned conjugate gradients on H d = -slope, all groups at once, each with its own
    step lengths.

    A group that meets negative curvature keeps what it has so far, or else takes steepest descent.
    """
    f = at.f
    inverse = 1 / (at.f.convexity + at.box_curvature)
    d = torch.zeros_like(slope)
    r = torch.where(live[f.group], -slope, 0.0)
    p = inverse * r
    size = f.total(r * p)
    goal = torch.minimum(0.01 * size, 0.5 * CENTRED * mu * f.gap).clamp(min=1e-12 * size)
    for k in range(steps):
        hp = at.hessian_times(p, mu)
        bend = f.total(p * hp)
        concave = live & (bend <= 1e-12 * f.total(p * p / inverse))
        if k == 0:
            d = torch.where(concave[f.group], p, d)
        live = live & ~concave
        length = torch.where(live, size / bend, 0.0)[f.group]
        d = d + length * p
        r = r - length * hp
        before = size
        size = f.total(r * r * inverse)
        live = live & (size > goal)
        if not live.any() or late():
            break
        p = torch.where(live[f.group], inverse * r + (size / before)[f.group] * p, 0.0)
    return d, size


def grad(of: Tensor, u: Tensor, twice: bool = True) -> Tensor:
    """Gradient of a scalar with respect to u, with a graph of its own if `twice`."""
    try:
        (slope,) = torch.autograd.grad(
            of, u, retain_graph=True, create_graph=twice, allow_unused=True
        )
    except RuntimeError as error:
        raise ProblemError(
            f"the network cannot be differentiated twice ({error}). Newton's method needs that:"
            ' use PGD() or LogBarrier(method="lbfgsb").'
        ) from error
    return torch.zeros_like(u) if slope is None else slope

r"""Newton's method for barrier functions: interior points, their derivatives, and directions by
conjugate gradients.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import ProblemError
from .nn_block import finite

CENTRED = 1e-2
"""Decrease that may be left at the end of the path, in units of the gap mu sum(weights)."""
CG_REDUCTION = 0.01
"""Reduction of the residual at which conjugate gradients stop."""
CG_GAP_FRACTION = 0.5
"""Residual at which conjugate gradients stop, in units of `CENTRED` times the gap."""
NO_CURVATURE = 1e-12
"""Relative size up to which curvature, or a residual, counts as zero."""


@dataclass
class BarrierProblem:
    r"""$\min\ \varphi(u)$ over $l < u < r$ and the constraints $h_j(u) < 0$ in `barred`, in
    independent groups.

    Attributes
    ----------
    parts
        Function that returns $\varphi$ by group, and h.
    lower, upper
        Bounds of u.
    group, constraint_group, n_groups
        Group of each coordinate, group of each constraint, and number of groups.
    barred
        Which constraints have a barrier.
    weights
        Weights of the logarithms of the lower bounds, the upper bounds and the constraints.
    convexity
        Curvature that $\varphi$ has by construction, for the preconditioner.
    out_of_time
        Function that returns whether the deadline has passed.
    side_group
        Group of each lower bound, upper bound and constraint.
    gap
        Sum of the weights of each group.
    """

    parts: Callable[[Tensor], tuple[Tensor, Tensor]]
    lower: Tensor
    upper: Tensor
    group: Tensor
    constraint_group: Tensor
    n_groups: int
    barred: Tensor
    weights: Tensor
    convexity: float
    out_of_time: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        self.side_group = torch.cat([self.group, self.group, self.constraint_group])
        self.gap = self.total(self.weights)

    def total(self, values: Tensor) -> Tensor:
        """Return the sums by group, of coordinates or of sides."""
        group = self.group if len(values) == len(self.group) else self.side_group
        return values.new_zeros(self.n_groups).index_add(0, group, values)


class BarrierPoint:
    r"""A point u of a barrier problem, with $\varphi$, h and the slacks; `differentiate` adds
    derivatives.

    Parameters
    ----------
    f
        The problem.
    u
        The point; outside, sums of logarithms are NaN, which no test accepts.
    """

    def __init__(self, f: BarrierProblem, u: Tensor) -> None:
        self.f = f
        with torch.enable_grad():
            self.u = u.detach().requires_grad_(True)
            self.values, self.h = f.parts(self.u)
        self.phi = finite(self.values.detach())
        of_constraints = torch.where(f.barred, -finite(self.h.detach()), 1.0)
        self.slack = torch.cat([u - f.lower, f.upper - u, of_constraints])
        self.logs = f.total(f.weights * torch.log(self.slack))

    def differentiate(self, dual: Tensor) -> None:
        r"""Build the graphs of $\nabla\varphi$ and of $\sum_j (\omega_j / s_j) \nabla h_j$, whose
        derivatives along v give $Hv$.

        Parameters
        ----------
        dual
            Estimates $z_j$ of $\mu\omega_j/s_j$; side j has the curvature $z_j / s_j$.
        """
        p = len(self.u)
        weight = self.f.weights / self.slack
        curvature = dual / self.slack
        self.box_gradient = weight[p : 2 * p] - weight[:p]
        self.barrier_curvature = (weight / self.slack)[: 2 * p].view(2, p).sum(0)
        self.box_curvature = curvature[:p] + curvature[p : 2 * p]
        self.preconditioner = 1 / (self.f.convexity + self.box_curvature)
        total = self.values.sum()
        self.constraint_gradient = torch.zeros_like(self.box_gradient)
        with torch.enable_grad():
            if len(self.h):
                total = total + 0.5 * (curvature[2 * p :] * (self.h - self.h.detach()) ** 2).sum()
                self.constraint_gradient = grad((weight[2 * p :] * self.h).sum(), self.u)
            self.objective_gradient = grad(total, self.u)
        finite(self.objective_gradient.detach() + self.constraint_gradient.detach())

    def gradient(self, mu: Tensor) -> Tensor:
        """Return the gradient of the barrier function, with one mu for each group."""
        of_barrier = self.constraint_gradient.detach() + self.box_gradient
        return self.objective_gradient.detach() + mu[self.f.group] * of_barrier

    def hessian_times(self, v: Tensor, mu: Tensor) -> Tensor:
        """Return the Hessian of the barrier function times v, by one backward pass."""
        along = (self.objective_gradient * v).sum()
        along = along + (self.constraint_gradient * (mu[self.f.group] * v)).sum()
        product = self.box_curvature * v
        if not along.requires_grad:  # phi and h are piecewise linear
            return product
        return product + grad(along, self.u, twice=False)


def newton_direction(
    at: BarrierPoint, gradient: Tensor, mu: Tensor, active: Tensor, steps: int
) -> tuple[Tensor, Tensor]:
    """Return an approximate Newton direction of the active groups, and the squared norm of its
    residual by group.

    The direction is that of preconditioned conjugate gradients, with step lengths for each group. A
    group stops at a direction of negative curvature; if that is its first one, its preconditioned
    gradient, it is its result (Nocedal and Wright, *Numerical Optimization*, Algorithm 7.1).

    Parameters
    ----------
    at
        The point, differentiated.
    gradient
        Gradient of the barrier function there.
    mu
        Barrier parameter of each group.
    active
        Groups for which a direction is computed; the others have zero.
    steps
        Maximum number of steps of conjugate gradients.
    """
    direction = torch.zeros_like(gradient)
    residual = torch.where(active[at.f.group], -gradient, 0.0)
    search = at.preconditioner * residual
    size = at.f.total(residual * search)
    goal = torch.minimum(CG_REDUCTION * size, CG_GAP_FRACTION * CENTRED * mu * at.f.gap)
    goal = goal.clamp(min=NO_CURVATURE * size)
    for k in range(steps):
        product = at.hessian_times(search, mu)
        curvature = at.f.total(search * product)
        concave = active & (
            curvature <= NO_CURVATURE * at.f.total(search * search / at.preconditioner)
        )
        if k == 0:
            direction = torch.where(concave[at.f.group], search, direction)
        active = active & ~concave
        length = torch.where(active, size / curvature, 0.0)[at.f.group]
        direction = direction + length * search
        residual = residual - length * product
        before = size
        size = at.f.total(residual * residual * at.preconditioner)
        active = active & (size > goal)
        search = at.preconditioner * residual + (size / before)[at.f.group] * search
        search = torch.where(active[at.f.group], search, 0.0)
        if not active.any() or at.f.out_of_time():
            break
    return direction, size


def grad(of: Tensor, u: Tensor, twice: bool = True) -> Tensor:
    """Return the gradient of a scalar with respect to u.

    Parameters
    ----------
    of
        The scalar.
    u
        A leaf of its graph.
    twice
        Whether the gradient has a graph of its own.

    Raises
    ------
    ProblemError
        If the network has no second derivatives.
    """
    try:
        (gradient,) = torch.autograd.grad(
            of, u, retain_graph=True, create_graph=twice, allow_unused=True
        )
    except RuntimeError as error:
        raise ProblemError(
            f"the network cannot be differentiated twice ({error}). Newton's method needs that:"
            ' use PGD() or LogBarrier(method="lbfgsb").'
        ) from error
    return torch.zeros_like(u) if gradient is None else gradient

r"""Newton's method for barrier functions: interior points, their derivatives, and directions by
conjugate gradients.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from ..errors import ProblemError
from .nn_block import finite

CENTRED = 1e-2
"""Decrease that may be left at the end of the path, in units of the gap mu sum(kappa)."""
CG_REDUCTION = 0.01
"""Reduction of the residual at which conjugate gradients stop."""
CG_GAP_FRACTION = 0.5
"""Residual at which conjugate gradients stop, in units of `CENTRED` times the gap."""
NO_CURVATURE = 1e-12
"""Relative size up to which curvature, or a residual, counts as zero."""


class BarrierProblem:
    r"""$\min\ \varphi(u)$ over $l < u < r$ and the constraints $h_j(u) < 0$ in `barred`, in
    independent groups.

    Parameters
    ----------
    parts
        Function that returns $\varphi$ by group, and h.
    box
        Lower and upper bounds of u.
    groups
        Group of each coordinate, group of each constraint, and number of groups.
    barred
        Which constraints have a barrier.
    kappa
        Weights of the logarithms of the lower bounds, the upper bounds and the constraints.
    convexity
        Curvature that $\varphi$ has by construction, for the preconditioner.
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
        self.logs = f.total(f.kappa * torch.log(self.slack))

    def differentiate(self, dual: Tensor) -> None:
        r"""Build the graphs of $\nabla\varphi$ and of $\sum_j (\kappa_j / s_j) \nabla h_j$, whose
        derivatives along v give $Hv$.

        Parameters
        ----------
        dual
            Estimates $z_j$ of $\mu\kappa_j/s_j$; side j has the curvature $z_j / s_j$.
        """
        p = len(self.u)
        weight = self.f.kappa / self.slack
        curvature = dual / self.slack
        self.box_gradient = weight[p : 2 * p] - weight[:p]
        self.barrier_curvature = (weight / self.slack)[: 2 * p].view(2, p).sum(0)
        self.box_curvature = curvature[:p] + curvature[p : 2 * p]
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


class ConjugateGradients:
    """Preconditioned conjugate gradients for H d = -gradient, with step lengths for each group.

    A group stops at a direction of negative curvature; if that is its first one, its preconditioned
    gradient, it is its result.

    Attributes
    ----------
    direction
        The current d.
    size
        Squared norm of the residual, by group.
    active
        Groups that have not stopped.
    """

    def __init__(self, at: BarrierPoint, gradient: Tensor, mu: Tensor, active: Tensor) -> None:
        f = at.f
        self.at = at
        self.mu = mu
        self.active = active
        self.direction = torch.zeros_like(gradient)
        self._inverse = 1 / (f.convexity + at.box_curvature)
        self._residual = torch.where(active[f.group], -gradient, 0.0)
        self._search = self._inverse * self._residual
        self.size = f.total(self._residual * self._search)
        goal = torch.minimum(CG_REDUCTION * self.size, CG_GAP_FRACTION * CENTRED * mu * f.gap)
        self._goal = goal.clamp(min=NO_CURVATURE * self.size)

    def step(self, first: bool) -> None:
        """Do one step of all active groups."""
        f = self.at.f
        search = self._search
        product = self.at.hessian_times(search, self.mu)
        curvature = f.total(search * product)
        smallest = NO_CURVATURE * f.total(search * search / self._inverse)
        concave = self.active & (curvature <= smallest)
        if first:
            self.direction = torch.where(concave[f.group], search, self.direction)
        self.active = self.active & ~concave
        length = torch.where(self.active, self.size / curvature, 0.0)[f.group]
        self.direction = self.direction + length * search
        self._residual = self._residual - length * product
        before = self.size
        self.size = f.total(self._residual * self._residual * self._inverse)
        self.active = self.active & (self.size > self._goal)
        conjugate = self._inverse * self._residual + (self.size / before)[f.group] * search
        self._search = torch.where(self.active[f.group], conjugate, 0.0)


def newton_direction(
    at: BarrierPoint,
    gradient: Tensor,
    mu: Tensor,
    active: Tensor,
    steps: int,
    out_of_time: Callable[[], bool],
) -> tuple[Tensor, Tensor]:
    """Return an approximate Newton direction of the active groups, and the squared norm of its
    residual by group.

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
    out_of_time
        Function that returns whether the deadline has passed.
    """
    method = ConjugateGradients(at, gradient, mu, active)
    for k in range(steps):
        method.step(first=k == 0)
        if not method.active.any() or out_of_time():
            break
    return method.direction, method.size


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

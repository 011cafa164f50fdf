"""L-BFGS-B for barrier functions of constraints, with the box as bounds."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from .central_path import MIN_SLACK_FRACTION, PathSettings
from .interior import BarrierPoint, BarrierProblem, grad
from .nn_block import finite

FALLBACK_SLACK_REDUCTION = 0.01
"""Factor on the slack below which a logarithm is continued, after an infeasible end point."""


@dataclass
class ContinuedBarrier:
    """The barrier function with each logarithm continued by a parabola below a small slack.

    SciPy's line search needs a finite value everywhere.

    Attributes
    ----------
    f
        The problem.
    mu
        Barrier parameter of all groups.
    min_slack
        Slack of each constraint below which its logarithm is continued.
    """

    f: BarrierProblem
    mu: float
    min_slack: Tensor

    def value_and_gradient(self, v: ndarray) -> tuple[float, ndarray]:
        """Return the value and gradient at v, divided by the convexity of the problem."""
        point = torch.tensor(v, requires_grad=True)
        phi, h = self.f.parts(point)
        below = torch.clamp(-h / self.min_slack - 1, max=0)
        logs = torch.log(torch.maximum(-h, self.min_slack)) + below - 0.5 * below**2
        weights = self.f.weights[2 * len(v) :]
        barrier = torch.where(self.f.barred, weights * logs, 0.0).sum()
        value = (phi.sum() - self.mu * barrier) / self.f.convexity
        return finite(value.detach()).item(), finite(grad(value, point, twice=False)).numpy()

    def minimise(self, u: Tensor, steps: int) -> Tensor:
        """Return the result of L-BFGS-B after at most `steps` iterations from u."""
        from scipy.optimize import minimize

        def stop_at_deadline(_: ndarray) -> None:
            if self.f.out_of_time():
                raise StopIteration

        result = minimize(
            self.value_and_gradient,
            u.numpy(),
            jac=True,
            method="L-BFGS-B",
            bounds=np.stack([self.f.lower.numpy(), self.f.upper.numpy()], axis=1),
            options={"maxiter": steps, "ftol": 1e-15, "gtol": 1e-9},
            callback=stop_at_deadline,
        )
        return torch.tensor(result.x)


def follow_by_lbfgsb(
    f: BarrierProblem,
    u: Tensor,
    mu: float,
    last: float,
    settings: PathSettings,
) -> Tensor:
    """Return the end of the central path, whose points are found by L-BFGS-B.

    A group that ends outside goes back to its start and repeats with its logarithms continued at
    smaller slacks.

    Parameters
    ----------
    f
        The problem.
    u
        The start.
    mu, last
        First and last barrier parameter.
    settings
        What the user chose: the factor between barrier parameters, and the largest number of calls
        of L-BFGS-B and of the iterations of each.
    """
    min_slack = MIN_SLACK_FRACTION * BarrierPoint(f, u).slack[2 * len(u) :]
    for _ in range(settings.steps):
        end = ContinuedBarrier(f, mu, min_slack).minimise(u, settings.steps)
        slack = torch.where(f.barred, -f.parts(end)[1].detach(), 1.0)
        n_outside = torch.zeros(f.n_groups).index_add(0, f.constraint_group, (slack <= 0).float())
        outside = n_outside > 0
        u = torch.where(outside[f.group], u, end)
        smaller = FALLBACK_SLACK_REDUCTION * min_slack
        min_slack = torch.where(outside[f.constraint_group], smaller, MIN_SLACK_FRACTION * slack)
        if f.out_of_time() or (mu <= last and not outside.any()):
            break
        if not outside.any():
            mu = max(last, settings.shrink * mu)
    return u

"""Phase I of the log-barrier block: starts in the interior of the box and of the constraints."""

import torch
from torch import Tensor

from .central_path import CentralPath, PathSettings
from .interior import BarrierPoint, BarrierProblem, grad
from .nn_block import NNSubproblem, finite

FIRST_START_MARGIN = 1e-2
"""Distance of a start from the bounds, as a fraction of the range."""
FIRST_MU = 0.1
"""First barrier parameter of phase I."""
LAST_MU = 1e-6
"""Last barrier parameter of phase I."""
STEP_FACTOR = 5
"""Number of steps of phase I, in units of the steps of a call."""


def move_inside(u: Tensor, sub: NNSubproblem, fraction: float) -> Tensor:
    """Return u, at least this fraction of the range (and more than rounding) from the bounds."""
    rounding = 1e-14 * torch.maximum(sub.lower.abs(), sub.upper.abs())
    margin = torch.maximum(fraction * (sub.upper - sub.lower), rounding)
    return torch.clamp(u, sub.lower + margin, sub.upper - margin)


def interior_start(
    sub: NNSubproblem, u: Tensor, excluded: Tensor, settings: PathSettings
) -> tuple[Tensor, Tensor]:
    """Return a start that is strictly feasible for the inequalities where one is found, and the
    groups for which none is.

    Parameters
    ----------
    sub
        The subproblem.
    u
        The first guess, in the interior of the box.
    excluded
        Groups for which no start is searched.
    settings
        What the user chose for the central path.
    """
    infeasible = _largest_constraint(sub, sub.parts(u)[1]) >= 0
    for guess in (u, sub.x, 0.5 * (sub.lower + sub.upper)):
        todo = infeasible & ~excluded
        if not todo.any() or sub.out_of_time:
            break
        start = torch.where(todo[sub.group], move_inside(guess, sub, FIRST_START_MARGIN), u)
        end = _minimise_violation(sub, start, todo, settings)
        found = todo & (_largest_constraint(sub, sub.parts(end)[1]) < 0)
        u = torch.where(found[sub.group], end, u)
        infeasible = infeasible & ~found
    return u, infeasible


def _largest_constraint(sub: NNSubproblem, h: Tensor) -> Tensor:
    """The largest value of the inequalities of each group, minus infinity where it has none."""
    h = torch.where(sub.constraint_has_interior, finite(h.detach()), -torch.inf)
    smallest = h.new_full((sub.n_groups,), -torch.inf)
    return smallest.scatter_reduce(0, sub.constraint_group, h, "amax")


def _minimise_violation(
    sub: NNSubproblem, u: Tensor, todo: Tensor, settings: PathSettings
) -> Tensor:
    """Minimise t subject to h <= t for the groups `todo`, with h in units of its variation."""
    p = len(u)
    unit, t = _violation_units(sub, u, todo)
    barred = sub.constraint_has_interior

    def parts(v: Tensor) -> tuple[Tensor, Tensor]:
        h = sub.parts(v[:p])[1]
        return v[p:], h / unit[sub.constraint_group] - v[p:][sub.constraint_group]

    of_box = torch.ones(2 * (p + len(t)), dtype=t.dtype)
    problem = BarrierProblem(
        parts,
        lower=torch.cat([sub.lower, 0 * t - 1]),
        upper=torch.cat([sub.upper, 2 * t + 1]),
        group=torch.cat([sub.group, torch.arange(len(t))]),
        constraint_group=sub.constraint_group,
        n_groups=len(t),
        barred=barred,
        weights=torch.cat([of_box, barred.to(t.dtype)]),
        convexity=0.0,
        out_of_time=lambda: sub.out_of_time,
    )
    at = BarrierPoint(problem, torch.cat([u, t]))
    dual = FIRST_MU * problem.weights / at.slack
    path = CentralPath(settings, LAST_MU, at, torch.full_like(t, FIRST_MU), dual, todo)
    return path.follow(STEP_FACTOR * settings.steps)[:p]


def _violation_units(sub: NNSubproblem, u: Tensor, todo: Tensor) -> tuple[Tensor, Tensor]:
    """Units of h by group, from its variation over a part of the box, and a feasible t."""
    point = u.clone().requires_grad_(True)
    h = sub.parts(point)[1]
    violation = torch.relu(torch.where(sub.constraint_has_interior, h, 0.0)).sum()
    variation = grad(violation, point, twice=False) * (sub.upper - sub.lower)
    largest = _largest_constraint(sub, h)
    unit = torch.maximum(largest, 0.1 * sub.sum_by_group(variation.abs()))
    unit = torch.where(todo & (unit > 0), unit, 1.0)
    return unit, largest.clamp(min=0) / unit + 0.5

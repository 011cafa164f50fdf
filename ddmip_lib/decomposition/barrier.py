r"""The NN block by a logarithmic barrier: Newton's method in the interior of the box and of the
constraints $h(u) < 0$.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .interior import CENTRED, BarrierPoint, BarrierProblem, grad, newton_direction
from .nn_block import NNBlock, NNSubproblem, finite

MIN_SLACK_FRACTION = 0.005
"""Fraction of each slack that a step keeps (one minus the fraction to the boundary)."""
RECOMPUTED_SLACK_FRACTION = 0.99 * MIN_SLACK_FRACTION
"""The same after rounding, for slacks of the new point."""
RESIDUAL_BEFORE_END = 10.0
"""Residual at which mu decreases before the end of the path, in units of the gap mu sum(kappa)."""
MAX_REDUCTIONS = 4
STEP_REDUCTION = 0.2
"""A rejected step is shortened by this factor, at most `MAX_REDUCTIONS` times; no length is
accepted near some points of nondifferentiability.
"""
ARMIJO_FRACTION = 1e-4
"""Required decrease, as a fraction of the predicted one."""
BARRIER_NOISE = 1e-14
"""Relative rounding errors of the barrier function."""
MAX_DUAL_RATIO = 1e8
"""Largest ratio of a dual estimate to its value on the path, and of that value to the estimate."""
FIRST_START_MARGIN = 1e-2
LATER_START_MARGIN = 1e-12
"""Distance of a start from the bounds, as a fraction of the range, in the first and later calls."""
PHASE_ONE_MU = 0.1
PHASE_ONE_FINAL_MU = 1e-6
"""First and last barrier parameter of phase I."""
PHASE_ONE_STEP_FACTOR = 5
"""Number of steps of phase I, in units of the steps of a call."""
FALLBACK_SLACK_REDUCTION = 0.01
"""Factor on the slack below which a logarithm is continued, after an infeasible end point."""


@dataclass
class Carried:
    """What a run carries from call to call.

    Attributes
    ----------
    end
        The barrier parameter at which the next call ends.
    dual
        Dual estimates.
    failed
        Groups for which phase I found no start.
    phase_one
        Result of phase I in the last call.
    """

    end: float
    dual: Tensor = field(default_factory=lambda: torch.zeros(0))
    failed: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    phase_one: str | None = None


@dataclass(frozen=True, repr=False)
class LogBarrier(NNBlock):
    r"""Newton's method on $\Phi_\mu(u) = \varphi(u) - \mu \sum_j \kappa_j \log s_j(u)$ with $\mu
    \to 0$.

    The slacks $s_j$ are those of both sides of the box, $u_i - l_i$ and $r_i - u_i$, and of the
    constraints, $-h_j(u)$. The weights make $\mu$ dimensionless: $\kappa_i = \rho (r_i - l_i)^2$
    for the box and the group's mean of these for a constraint. On a convex problem $\varphi(u_\mu)
    - \varphi^\star \le \mu \sum_j \kappa_j$, hence $\lVert u_\mu - u^\star \rVert^2 \le 2 \mu
    \sum_j \kappa_j / \rho$.

    A call starts with $\mu$ proportional to the squared length of the next step, at most `mu`, and
    multiplies it by `shrink` (or takes $\mu^{1.5}$ if that is less) whenever a group of inputs is
    near its minimiser. Steps keep 0.5 % of every slack, then satisfy Armijo's rule. A constraint
    without a strictly feasible start gets one by phase I (min t subject to h <= t); where that
    fails, and for equalities, the squared hinge of `PGD` is used instead.

    Attributes
    ----------
    method
        "newton", or "lbfgsb" for SciPy's L-BFGS-B with the box as bounds and a barrier for the
        constraints alone.
    mu
        Largest barrier parameter.
    mu_final
        Smallest barrier parameter.
    shrink
        Factor between consecutive barrier parameters.
    steps
        Maximum number of Newton steps of a call.
    cg_steps
        Maximum number of conjugate-gradient steps for each of them.
    primal_dual
        Whether the Hessian has the curvature $z_j / s_j$ of a side, with dual estimates $z_j$
        carried from call to call, instead of $\mu\kappa_j / s_j^2$.
    callback
        Function `callback(u, mu)` that is called after each Newton step, with one mu for each
        group.
    anneal
        Whether the first call ends at $\sqrt{\mu \mu_{final}}$ and each later one `shrink` times
        lower, down to `mu_final`. If all calls end at the same $\mu$, u does not converge to an x
        on the boundary.

    Raises
    ------
    ValueError
        If a setting is out of range.

    Examples
    --------
    >>> LogBarrier(mu_final=1e-8)
    LogBarrier(method='newton', mu=0.01, mu_final=1e-08)
    """

    method: str = "newton"
    mu: float = 1e-2
    mu_final: float = 1e-12
    shrink: float = 0.1
    steps: int = 10
    cg_steps: int = 50
    primal_dual: bool = True
    callback: Callable[[np.ndarray, np.ndarray], None] | None = None
    anneal: bool = True
    _carried: Carried = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if self.method not in ("newton", "lbfgsb"):
            raise ValueError(f"method={self.method!r} is unknown; choose 'newton' or 'lbfgsb'.")
        if not 0 < self.mu_final <= self.mu < np.inf:
            raise ValueError(
                f"mu={self.mu}, mu_final={self.mu_final}: 0 < mu_final <= mu is needed."
            )
        if not 0 < self.shrink < 1:
            raise ValueError(f"shrink={self.shrink} must lie between 0 and 1.")
        if min(self.steps, self.cg_steps) < 1:
            raise ValueError(
                f"steps={self.steps}, cg_steps={self.cg_steps}: at least one of each is needed."
            )
        end = float(np.sqrt(self.mu * self.mu_final)) if self.anneal else self.mu_final
        object.__setattr__(self, "_carried", Carried(end))

    def fresh(self) -> "LogBarrier":
        """Return a copy that has carried nothing from earlier calls."""
        return replace(self)

    @property
    def phase_one(self) -> str | None:
        """Result of phase I in the last call: "ok", "failed" or "no rows" (no inequalities)."""
        return self._carried.phase_one

    @property
    def holds_rows(self) -> bool:
        """Whether the last call had a strictly feasible start for all inequalities."""
        return self.phase_one == "ok"

    def remarks(self) -> dict[str, Any]:
        """Return `phase_one`, if it failed."""
        return {"phase_one": "failed"} if self.phase_one == "failed" else {}

    @classmethod
    def paper(cls, method: str = "newton") -> "LogBarrier":
        r"""Return the paper's block: damped Newton steps of five CG steps each, $\mu \leftarrow 0.1
        \mu$, the same $\mu$ in every call.

        The paper does not state $\mu$; here the barrier changes u by the paper's tolerance of 1e-4
        at its last value. The number of steps is that of Adam.

        Parameters
        ----------
        method
            As in `LogBarrier`.
        """
        return cls(method, mu_final=1e-8, steps=25, cg_steps=5, primal_dual=False, anneal=False)

    @torch.enable_grad()
    def minimise(self, sub: NNSubproblem, u: np.ndarray) -> np.ndarray:
        """Return an approximate minimiser of `sub`, from the start `u`."""
        carried = self._carried
        margin = LATER_START_MARGIN
        if not len(carried.failed):
            carried.failed = torch.zeros(sub.n_groups, dtype=torch.bool)
            margin = FIRST_START_MARGIN
        start = move_inside(torch.tensor(u), sub, margin)
        barred = sub.constraint_has_interior
        carried.phase_one = "no rows"
        if barred.any():
            start, feasible = self._phase_one(sub, start)
            barred = barred & feasible[sub.constraint_group]
            carried.phase_one = "failed" if carried.failed.any() else "ok"
        solve = self._lbfgsb if self.method == "lbfgsb" else self._newton
        end = solve(sub, _barrier_problem(sub, barred), start)
        carried.end = max(self.mu_final, self.shrink * carried.end)
        return end.numpy()

    def _newton(self, sub: NNSubproblem, f: BarrierProblem, u: Tensor) -> Tensor:
        at = BarrierPoint(f, u)
        known = self._carried.dual
        if len(known) != len(f.kappa):
            known = torch.zeros_like(f.kappa)
        mu = self._first_mu(at, known)
        dual = torch.where(known > 0, known, f.kappa * mu[f.side_group] / at.slack)
        path = CentralPath(self, sub, at, mu, dual, self._carried.end)
        path.follow(self.steps, self.callback)
        if self.primal_dual:
            self._carried.dual = path.dual
        return path.at.u.detach()

    def _first_mu(self, at: BarrierPoint, dual: Tensor) -> Tensor:
        """The squared length of a projected gradient step, in units of the box, by group."""
        f = at.f
        u = at.u.detach()
        gradient = grad(at.values.sum() + dual[2 * len(u) :] @ at.h, at.u, twice=False)
        ahead = torch.clamp(u - gradient / f.convexity, f.lower, f.upper)
        step = (ahead - u).abs() / (f.upper - f.lower)
        longest = step.new_zeros(f.n_groups).scatter_reduce(0, f.group, step, "amax")
        return longest.square().clamp(self._carried.end, self.mu)

    def _phase_one(self, sub: NNSubproblem, u: Tensor) -> tuple[Tensor, Tensor]:
        """Return a start that is strictly feasible for the inequalities where one is found, and the
        groups for which it is.
        """
        infeasible = _largest_constraint(sub, sub.parts(u)[1]) >= 0
        for guess in (u, sub.x, 0.5 * (sub.lower + sub.upper)):
            todo = infeasible & ~self._carried.failed
            if not todo.any() or sub.out_of_time:
                break
            start = torch.where(todo[sub.group], move_inside(guess, sub, FIRST_START_MARGIN), u)
            end = self._minimise_violation(sub, start, todo)
            found = todo & (_largest_constraint(sub, sub.parts(end)[1]) < 0)
            u = torch.where(found[sub.group], end, u)
            infeasible = infeasible & ~found
        self._carried.failed = self._carried.failed | infeasible
        return u, ~infeasible

    def _minimise_violation(self, sub: NNSubproblem, u: Tensor, todo: Tensor) -> Tensor:
        """Minimise t subject to h <= t for the groups `todo`, with h in units of its variation."""
        unit, t = _violation_units(sub, u, todo)
        at = BarrierPoint(_violation_problem(sub, unit, t), torch.cat([u, t]))
        mu = torch.full_like(t, PHASE_ONE_MU)
        dual = PHASE_ONE_MU * at.f.kappa / at.slack
        path = CentralPath(self, sub, at, mu, dual, PHASE_ONE_FINAL_MU)
        path.active = todo
        path.follow(PHASE_ONE_STEP_FACTOR * self.steps)
        return path.at.u.detach()[: len(u)]

    def _lbfgsb(self, sub: NNSubproblem, f: BarrierProblem, u: Tensor) -> Tensor:
        """L-BFGS-B for decreasing mu; a group that ends outside goes back to its start and repeats
        with its logarithms continued at smaller slacks.
        """
        last = self._carried.end
        slack = BarrierPoint(f, u).slack[2 * len(u) :]
        mu = self.mu if f.barred.any() else last
        objective = ContinuedBarrier(f, mu, MIN_SLACK_FRACTION * slack)
        for _ in range(self.steps):
            end = objective.minimise(u, self.steps, sub)
            slack = torch.where(f.barred, -f.parts(end)[1].detach(), 1.0)
            outside = sub.sum_by_group((slack <= 0).to(u.dtype), sub.constraint_group) > 0
            u = torch.where(outside[f.group], u, end)
            smaller = FALLBACK_SLACK_REDUCTION * objective.min_slack
            objective.min_slack = torch.where(
                outside[sub.constraint_group], smaller, MIN_SLACK_FRACTION * slack
            )
            if sub.out_of_time:
                break
            if not outside.any():
                if objective.mu <= last:
                    break
                objective.mu = max(last, self.shrink * objective.mu)
        return u

    def __repr__(self) -> str:
        return f"LogBarrier(method={self.method!r}, mu={self.mu:g}, mu_final={self.mu_final:g})"


class CentralPath:
    r"""The path of the minimisers of $\Phi_\mu$, which each group follows at its own pace.

    Parameters
    ----------
    block
        Settings of the method.
    sub
        The subproblem, for its deadline.
    at
        The start.
    mu
        First barrier parameter of each group.
    dual
        Dual estimates at the start.
    end
        Last barrier parameter.

    Attributes
    ----------
    active
        Groups that have not reached the end.
    """

    def __init__(
        self,
        block: LogBarrier,
        sub: NNSubproblem,
        at: BarrierPoint,
        mu: Tensor,
        dual: Tensor,
        end: float,
    ) -> None:
        self.block = block
        self.sub = sub
        self.at = at
        self.mu = mu
        self.dual = dual
        self.end = end
        self.active = torch.ones(at.f.n_groups, dtype=torch.bool)
        self._stuck = ~self.active  # groups whose last step was rejected at all lengths
        self._residual = torch.full_like(mu, torch.inf)
        self._decrease = self._residual  # estimate of the decrease that is left
        self._longest = torch.ones_like(mu)

    def follow(
        self, steps: int, callback: Callable[[np.ndarray, np.ndarray], None] | None = None
    ) -> None:
        """Do Newton steps until all groups have reached the end."""
        for _ in range(steps):
            self.at.differentiate(self.dual)
            centred = self._centred()
            self.active = self.active & ~(centred & (self.mu <= self.end))
            if not self.active.any() or self.sub.out_of_time:
                return
            self._decrease_mu(centred)
            self._step()
            if callback is not None:
                callback(self.at.u.detach().numpy(), self.mu.numpy())

    def _centred(self) -> Tensor:
        """Groups whose mu may decrease, or that may stop where it is the last one."""
        f = self.at.f
        curvature = f.convexity + self.mu[f.group] * self.at.barrier_curvature
        decrement = f.total(self.at.gradient(self.mu) ** 2 / curvature)
        near = torch.minimum(decrement, self._decrease) <= CENTRED * self.mu * f.gap
        passing = (self._residual <= RESIDUAL_BEFORE_END * self.mu * f.gap) & (self.mu > self.end)
        return self._stuck | near | passing

    def _decrease_mu(self, centred: Tensor) -> None:
        """Decrease mu; a group at a point of nondifferentiability goes on at the end of the
        path.
        """
        superlinear = self.mu**1.5 if self.block.primal_dual else self.mu
        lower = torch.minimum(self.block.shrink * self.mu, superlinear).clamp(min=self.end)
        lower = torch.where(self._stuck, self.end, lower)
        self.mu = torch.where(centred, lower, self.mu)

    def _step(self) -> None:
        f = self.at.f
        gradient = self.at.gradient(self.mu)
        direction, residual = newton_direction(
            self.at,
            gradient,
            self.mu,
            self.active,
            self.block.cg_steps,
            lambda: self.sub.out_of_time,
        )
        predicted = -f.total(gradient * direction)
        new, length = self._search(direction, predicted)
        self._stuck = length == 0
        self._longest = torch.where(self._stuck, 1.0, (length / STEP_REDUCTION).clamp(max=1.0))
        on_path = self._update_dual(new, length)
        # after a full step with duals on the path the residual of CG is left; else the predicted
        # decrease bounds the error of the model
        self._residual = torch.where((length == 1) & on_path, residual, torch.inf)
        self._decrease = torch.maximum(predicted, self._residual)
        self.at = new

    def _search(self, direction: Tensor, predicted: Tensor) -> tuple[BarrierPoint, Tensor]:
        """The longest tried step, by group, that keeps a fraction of all slacks and satisfies
        Armijo's rule.
        """
        at = self.at
        f = at.f
        length = self._first_length(direction)
        before = at.phi - self.mu * at.logs + BARRIER_NOISE * (at.phi.abs() + f.gap)
        for attempt in range(MAX_REDUCTIONS + 1):
            new = BarrierPoint(f, at.u.detach() + length[f.group] * direction)
            lost = f.total((new.slack < RECOMPUTED_SLACK_FRACTION * at.slack).double())
            value = new.phi - self.mu * new.logs
            accepted = (lost == 0) & (value <= before - ARMIJO_FRACTION * length * predicted)
            if accepted.all():
                break
            shorter = STEP_REDUCTION * length if attempt < MAX_REDUCTIONS - 1 else 0.0
            length = torch.where(accepted, length, shorter)
        return new, length

    def _first_length(self, direction: Tensor) -> Tensor:
        """The longest step that may be tried, by group, and keeps a fraction of the slacks of the
        box.
        """
        at = self.at
        towards = torch.cat([-direction, direction]).clamp(min=1e-300)
        ratio = (1 - MIN_SLACK_FRACTION) * at.slack[: len(towards)] / towards
        return self._longest.scatter_reduce(0, at.f.side_group[: len(ratio)], ratio, "amin")

    def _update_dual(self, new: BarrierPoint, length: Tensor) -> Tensor:
        """Update the dual estimates; return the groups whose estimates are near the path."""
        f = new.f
        target = f.kappa * self.mu[f.side_group]
        path = target / new.slack
        dual = path
        if self.block.primal_dual:
            slack = self.at.slack
            change = length[f.side_group] * (target / slack - self.dual)
            dual = self.dual + change - self.dual * (new.slack / slack - 1)
            dual = torch.maximum(dual, MIN_SLACK_FRACTION * self.dual)
            dual = dual.clamp(1 / MAX_DUAL_RATIO * path, MAX_DUAL_RATIO * path)
        self.dual = dual
        return f.total(((dual - path).abs() > 0.5 * path).double()) == 0


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

    def __init__(self, f: BarrierProblem, mu: float, min_slack: Tensor) -> None:
        self.f = f
        self.mu = mu
        self.min_slack = min_slack

    def value_and_gradient(self, v: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and gradient at v, divided by the convexity of the problem."""
        point = torch.tensor(v, requires_grad=True)
        phi, h = self.f.parts(point)
        below = torch.clamp(-h / self.min_slack - 1, max=0)
        logs = torch.log(torch.maximum(-h, self.min_slack)) + below - 0.5 * below**2
        kappa = self.f.kappa[2 * len(v) :]
        barrier = torch.where(self.f.barred, kappa * logs, 0.0).sum()
        value = (phi.sum() - self.mu * barrier) / self.f.convexity
        return finite(value.detach()).item(), finite(grad(value, point, twice=False)).numpy()

    def minimise(self, u: Tensor, steps: int, sub: NNSubproblem) -> Tensor:
        """Return the result of L-BFGS-B after at most `steps` iterations from u."""
        from scipy.optimize import minimize

        def stop_at_deadline(_: np.ndarray) -> None:
            if sub.out_of_time:
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


def move_inside(u: Tensor, sub: NNSubproblem, fraction: float) -> Tensor:
    """u, at least this fraction of the range (and more than rounding) from the bounds."""
    rounding = 1e-14 * torch.maximum(sub.lower.abs(), sub.upper.abs())
    margin = torch.maximum(fraction * (sub.upper - sub.lower), rounding)
    return torch.clamp(u, sub.lower + margin, sub.upper - margin)


def _barrier_problem(sub: NNSubproblem, barred: Tensor) -> BarrierProblem:
    """The subproblem with a barrier for the box and for some constraints, and a hinge for the
    others.
    """
    hinged = ~barred

    def parts(v: Tensor) -> tuple[Tensor, Tensor]:
        phi, h = sub.parts(v)
        if hinged.any():
            phi = phi + sub.hinge(h, hinged)
        return phi, h

    box = sub.rho.inputs * (sub.upper - sub.lower) ** 2
    mean = sub.sum_by_group(box) / sub.sum_by_group(torch.ones_like(box))
    of_constraints = torch.where(barred, mean[sub.constraint_group], 0.0)
    return BarrierProblem(
        parts,
        (sub.lower, sub.upper),
        (sub.group, sub.constraint_group, sub.n_groups),
        barred,
        torch.cat([box, box, of_constraints]),
        sub.rho.inputs,
    )


def _largest_constraint(sub: NNSubproblem, h: Tensor) -> Tensor:
    """The largest value of the inequalities of each group, minus infinity where it has none."""
    h = torch.where(sub.constraint_has_interior, finite(h.detach()), -torch.inf)
    smallest = h.new_full((sub.n_groups,), -torch.inf)
    return smallest.scatter_reduce(0, sub.constraint_group, h, "amax")


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


def _violation_problem(sub: NNSubproblem, unit: Tensor, t: Tensor) -> BarrierProblem:
    """Minimise t subject to h / unit <= t, around a feasible t; its point is u followed by t."""
    p = len(sub.lower)
    barred = sub.constraint_has_interior

    def parts(v: Tensor) -> tuple[Tensor, Tensor]:
        h = sub.parts(v[:p])[1]
        return v[p:], h / unit[sub.constraint_group] - v[p:][sub.constraint_group]

    of_box = torch.ones(2 * (p + len(t)), dtype=t.dtype)
    return BarrierProblem(
        parts,
        (torch.cat([sub.lower, 0 * t - 1]), torch.cat([sub.upper, 2 * t + 1])),
        (torch.cat([sub.group, torch.arange(len(t))]), sub.constraint_group, len(t)),
        barred,
        torch.cat([of_box, barred.to(t.dtype)]),
        convexity=0.0,
    )

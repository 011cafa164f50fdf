r"""The path of the minimisers of a barrier function, followed by damped Newton steps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from numpy import ndarray
from torch import Tensor

from .interior import CENTRED, BarrierPoint, newton_direction

MIN_SLACK_FRACTION = 0.005
"""Fraction of each slack that a step keeps (one minus the fraction to the boundary)."""
RECOMPUTED_SLACK_FRACTION = 0.99 * MIN_SLACK_FRACTION
"""The same after rounding, for slacks of the new point."""
RESIDUAL_BEFORE_END = 10.0
"""Residual at which mu decreases before the end of the path, in units of mu times all weights."""
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


class PathSettings(NamedTuple):
    """The settings of `LogBarrier` for its path."""

    shrink: float
    steps: int
    cg_steps: int
    primal_dual: bool


@dataclass
class CentralPath:
    r"""The path of the minimisers of $\Phi_\mu$, which each group follows at its own pace.

    Attributes
    ----------
    settings
        What the user chose.
    end
        Last barrier parameter.
    at
        The current point.
    mu
        Barrier parameter of each group.
    dual
        Dual estimates.
    active
        Groups that have not reached the end.
    """

    settings: PathSettings
    end: float
    at: BarrierPoint
    mu: Tensor
    dual: Tensor
    active: Tensor

    def __post_init__(self) -> None:
        self._stuck = torch.zeros_like(self.active)  # the last step was rejected at all lengths
        self._residual = torch.full_like(self.mu, torch.inf)
        self._decrease = self._residual  # estimate of the decrease that is left
        self._longest = torch.ones_like(self.mu)

    def follow(
        self, steps: int, callback: Callable[[ndarray, ndarray], None] | None = None
    ) -> Tensor:
        """Do Newton steps until all groups have reached the end, and return the last point."""
        for _ in range(steps):
            self.at.differentiate(self.dual)
            centred = self._centred()
            self.active = self.active & ~(centred & (self.mu <= self.end))
            if not self.active.any() or self.at.f.out_of_time():
                break
            lower = self.settings.shrink * self.mu
            if self.settings.primal_dual:
                lower = torch.minimum(lower, self.mu**1.5)
            # a group at a point of nondifferentiability goes on at the end of the path
            lower = torch.where(self._stuck, self.end, lower.clamp(min=self.end))
            self.mu = torch.where(centred, lower, self.mu)
            self._step()
            if callback is not None:
                callback(self.at.u.detach().numpy(), self.mu.numpy())
        return self.at.u.detach()

    def _centred(self) -> Tensor:
        """Groups whose mu may decrease, or that may stop where it is the last one."""
        f = self.at.f
        curvature = f.convexity + self.mu[f.group] * self.at.barrier_curvature
        decrement = f.total(self.at.gradient(self.mu) ** 2 / curvature)
        near = torch.minimum(decrement, self._decrease) <= CENTRED * self.mu * f.gap
        passing = (self._residual <= RESIDUAL_BEFORE_END * self.mu * f.gap) & (self.mu > self.end)
        return self._stuck | near | passing

    def _step(self) -> None:
        gradient = self.at.gradient(self.mu)
        direction, residual = newton_direction(
            self.at, gradient, self.mu, self.active, self.settings.cg_steps
        )
        predicted = -self.at.f.total(gradient * direction)
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
        # the longest step that may be tried, and keeps a fraction of the slacks of the box
        towards = torch.cat([-direction, direction]).clamp(min=1e-300)
        ratio = (1 - MIN_SLACK_FRACTION) * at.slack[: len(towards)] / towards
        length = self._longest.scatter_reduce(0, f.side_group[: len(ratio)], ratio, "amin")
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

    def _update_dual(self, new: BarrierPoint, length: Tensor) -> Tensor:
        """Update the dual estimates; return the groups whose estimates are near the path."""
        f = new.f
        target = f.weights * self.mu[f.side_group]
        path = target / new.slack
        if not self.settings.primal_dual:
            self.dual = path
            return torch.ones_like(self.active)
        slack = self.at.slack
        change = length[f.side_group] * (target / slack - self.dual)
        dual = self.dual + change - self.dual * (new.slack / slack - 1)
        dual = torch.maximum(dual, MIN_SLACK_FRACTION * self.dual)
        self.dual = dual.clamp(1 / MAX_DUAL_RATIO * path, MAX_DUAL_RATIO * path)
        return f.total(((self.dual - path).abs() > 0.5 * path).double()) == 0

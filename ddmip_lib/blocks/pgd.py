"""The NN block by projected gradient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from .nn import NNSubproblem

MAX_CURVATURE = 100.0
"""Largest curvature believed without having seen it along a step of some length, in units of rho."""
NOISE = 1e-12


@dataclass(frozen=True)
class Move:
    """A gradient step that waits for its test: where it began and the decrease that it promised, by group."""

    u: torch.Tensor
    values: torch.Tensor
    slope: torch.Tensor
    drop: torch.Tensor


class PGD:
    r"""Projected gradient: $u \leftarrow P(u - \eta \nabla\varphi(u))$, a fixed number of steps.

    ``method="gradient"`` takes $\eta = 1/(\rho + L)$ with $L$ found by backtracking on the descent inequality
    $\varphi(u^+) \le \varphi(u) + \langle\nabla\varphi(u), u^+ - u\rangle + \tfrac{\rho + L}{2}\lVert u^+ - u\rVert^2$
    and carried from call to call, for each independent group of inputs (each sample, say) on its own.
    ``method="adam"`` is what the paper runs: a fresh Adam, projected after every step; on a box, and only there,
    its fixed points are right. It moves each coordinate by at most about ``learning_rate`` a step, whatever the
    gradient's size.

    >>> PGD(steps=10)
    PGD(steps=10, method='gradient')
    """

    def __init__(
        self, steps: int = 25, method: str = "gradient", learning_rate: float = 0.01, tolerance: float = 1e-10
    ) -> None:
        if method not in ("gradient", "adam"):
            raise ValueError(f"method={method!r} is unknown; choose 'gradient' or 'adam'.")
        if steps < 1:
            raise ValueError(f"steps={steps}: at least one step is needed.")
        if not learning_rate > 0:
            raise ValueError(f"learning_rate={learning_rate} must be positive.")
        self.steps = steps
        self.method = method
        self.learning_rate = learning_rate
        self.tolerance = tolerance
        self._curvature = torch.zeros(0)

    def minimise(self, sub: NNSubproblem, u: np.ndarray) -> np.ndarray:
        """Approximate minimiser of `sub`, started at `u`."""
        start = sub.project(torch.tensor(u))
        end = self._adam(sub, start) if self.method == "adam" else self._gradient(sub, start)
        return end.numpy()

    def _adam(self, sub: NNSubproblem, u: torch.Tensor) -> torch.Tensor:
        u = u.clone().requires_grad_(True)
        optimiser = torch.optim.Adam([u], lr=self.learning_rate)
        for _ in range(self.steps):
            u.grad = sub.gradient(u)
            optimiser.step()
            with torch.no_grad():
                u.copy_(sub.project(u))
            if sub.out_of_time:
                break
        return u.detach()

    def _gradient(self, sub: NNSubproblem, u: torch.Tensor) -> torch.Tensor:
        split, group = sub.split, sub.split.group
        if len(self._curvature) != split.n_groups:
            self._curvature = torch.zeros(split.n_groups, dtype=torch.float64)
            self._bend = torch.zeros(split.n_groups, dtype=torch.float64)
        best, least = u, torch.full((split.n_groups,), float("inf"), dtype=torch.float64)
        before: Move | None = None
        for _ in range(self.steps):
            values, slope = sub.values_and_gradient(u)
            if before is not None:  # groups whose last step failed the test go back and take a shorter one
                failed = self._learn(sub, before, u, values, slope)
                u = torch.where(failed[group], before.u, u)
                slope = torch.where(failed[group], before.slope, slope)
                values = torch.where(failed, before.values, values)
            best = torch.where((values < least)[group], u, best)
            least = torch.minimum(values, least)
            step = sub.project(u - slope / (sub.rho.inputs + self._curvature)[group]) - u
            slack = 0.5 * (sub.rho.inputs + self._curvature) * split.sum_by_group(step * step)
            before = Move(u, values, slope, drop=-split.sum_by_group(slope * step) - slack)
            u = u + step
            if step.abs().max().item() <= self.tolerance or sub.out_of_time:
                break
        with torch.no_grad():
            return torch.where((sub.values(u) <= least)[group], u, best)

    def _learn(
        self, sub: NNSubproblem, before: Move, u: torch.Tensor, values: torch.Tensor, slope: torch.Tensor
    ) -> torch.Tensor:
        """Update L of each group from what its step promised and reached; tell which groups failed the test."""
        split, step = sub.split, u - before.u
        # curvature seen along steps that are not short: a bend shows there, a kink only looks curved up close
        lower, upper = split.box_tensors
        length = torch.zeros(split.n_groups, dtype=torch.float64)
        length = length.scatter_reduce(0, split.group, step.abs() / (upper - lower), "amax")
        bend = (
            split.sum_by_group((slope - before.slope) * step) / split.sum_by_group(step * step)
            - sub.rho.inputs
        )
        self._bend = torch.where(length > 0.01, torch.maximum(self._bend, bend), self._bend)
        cap = self._bend.clamp(min=MAX_CURVATURE * sub.rho.inputs)
        # a group at the cap sits at a kink, where no step passes however short: let it step across
        noise = NOISE * values.abs().clamp(min=1.0)
        failed = (values > before.values - before.drop + noise) & (self._curvature < cap)
        # near the minimiser the test passes on rounding noise alone and says nothing about the curvature
        relaxed = torch.where(before.drop > 1e3 * noise, 0.9 * self._curvature, self._curvature)
        longer = torch.clamp(2 * self._curvature, min=0.1 * sub.rho.inputs)
        self._curvature = torch.minimum(torch.where(failed, longer, relaxed), cap)
        return failed

    def __repr__(self) -> str:
        rate = f", learning_rate={self.learning_rate:g}" if self.method == "adam" else ""
        return f"PGD(steps={self.steps}, method={self.method!r}{rate})"

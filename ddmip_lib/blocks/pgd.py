"""The NN block by projected gradient."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch

from ..errors import ProblemError
from ..split import PaperSplit

MAX_DOUBLINGS = 20
NOISE = 1e-12


@dataclass(frozen=True)
class NNSubproblem:
    r"""$\min_u\ \varphi(u) = g(u) + \lambda^\top (u - x) + \tfrac{\rho}{2} \lVert u - x \rVert^2$ over the box."""

    split: PaperSplit
    x: torch.Tensor
    lam: torch.Tensor
    rho: float
    deadline: float = float("inf")

    def value(self, u: torch.Tensor) -> torch.Tensor:
        r = u - self.x
        return self.split.g(u) + (self.lam * r).sum() + 0.5 * self.rho * (r * r).sum()

    def project(self, u: torch.Tensor) -> torch.Tensor:
        """Projection on the box of the coupled variables."""
        lower, upper = self.split.box_tensors
        return torch.clamp(u, lower, upper)

    def value_and_gradient(self, u: torch.Tensor) -> tuple[float, torch.Tensor]:
        """Value and gradient of the objective; only g goes through autograd."""
        u = u.detach().requires_grad_(True)
        g = self.split.g(u)
        (slope,) = torch.autograd.grad(g, u)
        with torch.no_grad():
            r = u - self.x
            pull = self.lam + self.rho * r
            value = g + 0.5 * ((self.lam + pull) * r).sum()
            slope = slope + pull
        if not (torch.isfinite(value) and torch.isfinite(slope).all()):
            raise ProblemError(
                "the network's value or gradient is NaN or infinite inside the box of its inputs: "
                "tighten their bounds, or use a network that is finite there."
            )
        return value.item(), slope

    @property
    def out_of_time(self) -> bool:
        return time.perf_counter() >= self.deadline


class NNBlock(Protocol):
    """What Algorithm 1 needs of an NN block: forget the last run, and minimise from a starting point."""

    def reset(self) -> None: ...

    def minimise(self, sub: NNSubproblem, u: np.ndarray) -> np.ndarray: ...


class PGD:
    r"""Projected gradient: $u \leftarrow P(u - \eta \nabla\varphi(u))$, a fixed number of steps.

    ``method="gradient"`` takes $\eta = 1/(\rho + L)$ with $L$ found by backtracking on the descent inequality
    $\varphi(u^+) \le \varphi(u) + \langle\nabla\varphi(u), u^+ - u\rangle + \tfrac{\rho + L}{2}\lVert u^+ - u\rVert^2$
    and carried from call to call. ``method="adam"`` is what the paper runs: a fresh Adam, projected after every
    step; on a box, and only there, its fixed points are right. It moves each coordinate by at most about
    ``learning_rate`` a step, whatever the gradient's size.

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
        self.reset()

    def reset(self) -> None:
        """Forget the curvature estimate of an earlier run."""
        self._curvature = 0.0

    def minimise(self, sub: NNSubproblem, u: np.ndarray) -> np.ndarray:
        """Approximate minimiser of `sub`, started at `u`."""
        start = sub.project(torch.tensor(u))
        end = self._adam(sub, start) if self.method == "adam" else self._gradient(sub, start)
        return end.numpy()

    def _adam(self, sub: NNSubproblem, u: torch.Tensor) -> torch.Tensor:
        u = u.clone().requires_grad_(True)
        optimiser = torch.optim.Adam([u], lr=self.learning_rate)
        for _ in range(self.steps):
            _, u.grad = sub.value_and_gradient(u)
            optimiser.step()
            with torch.no_grad():
                u.copy_(sub.project(u))
            if sub.out_of_time:
                break
        return u.detach()

    def _gradient(self, sub: NNSubproblem, u: torch.Tensor) -> torch.Tensor:
        for _ in range(self.steps):
            value, slope = sub.value_and_gradient(u)
            step = self._step(sub, u, value, slope)
            u = u + step
            if step.abs().max().item() <= self.tolerance or sub.out_of_time:
                break
        return u

    def _step(self, sub: NNSubproblem, u: torch.Tensor, value: float, slope: torch.Tensor) -> torch.Tensor:
        """The projected step of length 1/(rho + L), with the smallest tried L that passes the descent test."""
        curvature = self._curvature
        for _ in range(MAX_DOUBLINGS):
            weight = sub.rho + curvature
            step = sub.project(u - slope / weight) - u
            with torch.no_grad():
                ahead = sub.value(u + step).item()
            model = value + (slope @ step).item() + 0.5 * weight * (step @ step).item()
            if ahead <= model + NOISE * max(1.0, abs(value)):
                # near the minimiser the test passes on rounding noise alone and says nothing about the curvature
                informative = value - model > 1e3 * NOISE * max(1.0, abs(value))
                self._curvature = 0.9 * curvature if informative else curvature
                return step
            curvature = max(2 * curvature, 0.1 * sub.rho)
        # at a kink the gradient need not be a direction of descent, however short the step: take the usual one
        return sub.project(u - slope / (sub.rho + self._curvature)) - u

    def __repr__(self) -> str:
        rate = f", learning_rate={self.learning_rate:g}" if self.method == "adam" else ""
        return f"PGD(steps={self.steps}, method={self.method!r}{rate})"

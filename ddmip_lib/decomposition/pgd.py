"""The NN block by projected gradient."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from .nn_block import NNBlock, NNSubproblem

MAX_CURVATURE = 100.0
"""Largest curvature believed without having seen it along a step of some length, in units of rho.
"""


class PendingStep(NamedTuple):
    """A gradient step that waits for its test: where it began and, by group, the decrease that it
    promised.
    """

    u: np.ndarray
    step: np.ndarray
    size: np.ndarray
    values: np.ndarray
    slope: np.ndarray
    square: np.ndarray
    drop: np.ndarray


@dataclass
class StepSizeState:
    """What gradient steps have seen so far, by group."""

    curvature: np.ndarray = field(default_factory=lambda: np.zeros(0))
    bend: np.ndarray = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, repr=False)
class PGD(NNBlock):
    r"""Projected gradient: $u \leftarrow P(u - \eta \nabla\varphi(u))$, a fixed number of steps.

    ``method="gradient"`` takes $\eta = 1/(\rho + L)$ with $L$ found by backtracking on the descent
    inequality $\varphi(u^+) \le \varphi(u) + \langle\nabla\varphi(u), u^+ - u\rangle + \tfrac{\rho
    + L}{2}\lVert u^+ - u\rVert^2$ and carried from call to call, for each independent group of
    inputs (each sample, say) on its own. ``method="adam"`` is what the paper runs: a fresh Adam,
    projected after every step; on a box, and only there, its fixed points are right. It moves each
    coordinate by at most about ``learning_rate`` a step, whatever the gradient's size.

    >>> PGD(steps=10)
    PGD(steps=10, method='gradient')
    """

    steps: int = 20
    method: str = "gradient"
    learning_rate: float = 0.01
    tolerance: float = 1e-7
    _learned: StepSizeState = field(default_factory=StepSizeState, init=False, compare=False)

    def __post_init__(self) -> None:
        if self.method not in ("gradient", "adam"):
            raise ValueError(f"method={self.method!r} is unknown; choose 'gradient' or 'adam'.")
        if self.steps < 1:
            raise ValueError(f"steps={self.steps}: at least one step is needed.")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate={self.learning_rate} must be positive.")

    def fresh(self) -> Self:
        return replace(self)

    def minimise(self, sub: NNSubproblem, u: np.ndarray) -> np.ndarray:
        """Approximate minimiser of `sub`, started at `u`."""
        start = sub.project(u)
        return self._adam(sub, start) if self.method == "adam" else self._gradient(sub, start)

    def _adam(self, sub: NNSubproblem, u: np.ndarray) -> np.ndarray:
        """Adam with its usual constants; torch's own costs as much as a small network's passes."""
        mean = np.zeros_like(u)
        square = np.zeros_like(u)
        for t in range(1, self.steps + 1):
            slope = sub.gradient(u)
            mean = 0.9 * mean + 0.1 * slope
            square = 0.999 * square + 0.001 * slope * slope
            size = np.sqrt(square / (1 - 0.999**t)) + 1e-8
            u = sub.project(u - self.learning_rate * mean / (1 - 0.9**t) / size)
            if sub.out_of_time:
                break
        return u

    def _gradient(self, sub: NNSubproblem, u: np.ndarray) -> np.ndarray:
        group = sub.split.group_index
        rho = sub.rho.inputs
        learned = self._learned
        if len(learned.curvature) != sub.n_groups:
            learned.curvature = np.zeros(sub.n_groups)
            learned.bend = np.zeros(sub.n_groups)
        learned.curvature = np.minimum(learned.curvature, self._cap(rho))
        best = u
        least = np.full(sub.n_groups, np.inf)
        before: PendingStep | None = None
        for k in range(self.steps + 1):
            values, slope = sub.values_and_gradient(u)
            if before is not None and k < self.steps:
                failed = self._learn(sub, before, values, slope)
                if failed is not None:  # these groups go back and take a shorter step
                    back = failed[group]
                    u = np.where(back, before.u, u)
                    slope = np.where(back, before.slope, slope)
                    values = np.where(failed, before.values, values)
            worse = values > least
            if worse.any():
                best = np.where(worse[group], best, u)
                least = np.minimum(values, least)
            else:
                best = u
                least = values
            if k == self.steps or sub.out_of_time:
                break
            modulus = rho + learned.curvature
            step = sub.project(u - slope / modulus[group]) - u
            size = np.abs(step)
            if size.max() <= self.tolerance:
                break
            square = sub.group_sums(step * step)
            drop = -sub.group_sums(slope * step) - 0.5 * modulus * square
            before = PendingStep(u, step, size, values, slope, square, drop)
            u = u + step
        return best

    def _cap(self, rho: float) -> np.ndarray:
        """The largest curvature that is believed in each group."""
        return np.maximum(self._learned.bend, MAX_CURVATURE * rho)

    def _learn(
        self, sub: NNSubproblem, before: PendingStep, values: np.ndarray, slope: np.ndarray
    ) -> np.ndarray | None:
        """Update L of each group from what its step promised and reached; tell which groups failed,
        if any.
        """
        rho = sub.rho.inputs
        learned = self._learned
        # curvature seen along steps that are not short: a bend shows there, a kink only looks
        # curved up close
        long = before.size > sub.short_step
        if long.any():
            moved = sub.group_sums(long) > 0
            bend = (
                sub.group_sums((slope - before.slope) * before.step)
                / np.where(moved, before.square, 1.0)
                - rho
            )
            learned.bend = np.where(moved, np.maximum(learned.bend, bend), learned.bend)
        noise = sub.split.noise * np.maximum(np.abs(values), 1.0)
        failed = values > before.values - before.drop + noise
        curvature = learned.curvature
        # near the minimiser the test passes on rounding noise alone and says nothing about the
        # curvature
        learned.curvature = np.where(before.drop > 1e3 * noise, 0.9 * curvature, curvature)
        if not failed.any():
            return None
        # a group at the cap sits at a kink, where no step passes however short: let it step across
        cap = self._cap(rho)
        failed &= curvature < cap
        longer = np.minimum(np.maximum(2 * curvature, 0.1 * rho), cap)
        learned.curvature = np.where(failed, longer, learned.curvature)
        return failed

    def __repr__(self) -> str:
        rate = f", learning_rate={self.learning_rate:g}" if self.method == "adam" else ""
        return f"PGD(steps={self.steps}, method={self.method!r}{rate})"

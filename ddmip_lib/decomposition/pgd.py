"""The NN block by projected gradient."""

from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np
from numpy import ndarray

from .nn_block import NNBlock, NNSubproblem

MAX_UNTESTED_CURVATURE = 100.0
"""Largest curvature that is accepted without a long step that shows it, in units of rho."""
CURVATURE_DECAY = 0.9
"""Factor on the curvature after a step that satisfies the descent inequality."""
CURVATURE_GROWTH = 2
"""Factor on the curvature after a step that does not."""
FIRST_CURVATURE = 0.1
"""Smallest curvature after such a step, in units of rho."""
RELIABLE_DECREASE = 1e3
"""Predicted decrease from which the descent inequality is reliable, in units of rounding errors."""


class PendingStep(NamedTuple):
    """A gradient step whose descent inequality is not tested yet.

    Attributes
    ----------
    u, step, length
        Where it began, its direction and length, and its absolute value.
    values, gradient
        Objective by group, and its gradient, where it began.
    modulus
        Inverse step length of each group.
    """

    u: ndarray
    step: ndarray
    length: ndarray
    values: ndarray
    gradient: ndarray
    modulus: ndarray


class CurvatureEstimate:
    """Curvature of the NN block's objective beyond rho, which is carried from call to call.

    Attributes
    ----------
    curvature
        The estimate of L of each group.
    largest
        Largest curvature of each group along a step that is not short.
    """

    def __init__(self) -> None:
        self.curvature = np.zeros(0)
        self.largest = np.zeros(0)

    def prepare(self, sub: NNSubproblem) -> None:
        """Start with zeros in the first call, and limit the estimate in the others."""
        if len(self.curvature) != sub.n_groups:
            self.curvature = self.largest = np.zeros(sub.n_groups)
        self.curvature = np.minimum(self.curvature, self._maximum(sub))

    def step(
        self, sub: NNSubproblem, u: ndarray, values: ndarray, gradient: ndarray
    ) -> PendingStep:
        """Return the projected gradient step from u."""
        modulus = sub.rho.inputs + self.curvature
        step = sub.project(u - gradient / modulus[sub.split.group_index]) - u
        return PendingStep(u, step, np.abs(step), values, gradient, modulus)

    def _maximum(self, sub: NNSubproblem) -> ndarray:
        return np.maximum(self.largest, MAX_UNTESTED_CURVATURE * sub.rho.inputs)

    def rejects(
        self, sub: NNSubproblem, pending: PendingStep, values: ndarray, gradient: ndarray
    ) -> ndarray:
        """Test the descent inequality and update L; return the groups whose step is rejected."""
        squared_length = sub.group_sums(pending.step * pending.step)
        decrease = -sub.group_sums(pending.gradient * pending.step)
        decrease -= 0.5 * pending.modulus * squared_length
        noise = sub.split.noise * np.maximum(np.abs(values), 1.0)
        failed = values > pending.values - decrease + noise
        # along a short step across a point of nondifferentiability the curvature is arbitrarily
        # large
        long_moves = pending.length > sub.split.short_step
        if long_moves.any():
            is_long = sub.group_sums(long_moves) > 0
            change = sub.group_sums((gradient - pending.gradient) * pending.step)
            along_step = change / np.where(is_long, squared_length, 1.0) - sub.rho.inputs
            self.largest = np.where(is_long, np.maximum(self.largest, along_step), self.largest)
        # near the minimiser rounding errors alone satisfy the inequality
        reliable = decrease > RELIABLE_DECREASE * noise
        curvature = self.curvature
        self.curvature = np.where(reliable, CURVATURE_DECAY * curvature, curvature)
        if failed.any():
            # near a point of nondifferentiability no step satisfies the inequality, however short:
            # a group with the largest curvature takes its step
            maximum = self._maximum(sub)
            failed &= curvature < maximum
            larger = np.maximum(CURVATURE_GROWTH * curvature, FIRST_CURVATURE * sub.rho.inputs)
            self.curvature = np.where(failed, np.minimum(larger, maximum), self.curvature)
        return failed


@dataclass(frozen=True, repr=False)
class PGD(NNBlock):
    r"""Projected gradient: $u \leftarrow P(u - \eta \nabla\varphi(u))$, a fixed number of steps.

    Attributes
    ----------
    steps
        Number of steps.
    method
        "gradient": $\eta = 1/(\rho + L)$ with $L$ by backtracking on the descent inequality
        $\varphi(u^+) \le \varphi(u) + \langle\nabla\varphi(u), u^+ - u\rangle + \tfrac{\rho
        + L}{2}\lVert u^+ - u\rVert^2$, carried from call to call, separately for each independent
        group of inputs (for example each sample). "adam": the paper's method, a new Adam in each
        call, projected after every step; its fixed points are stationary on a box, and only there.
    learning_rate
        Bound on Adam's step in each coordinate, up to a factor near one.
    tolerance
        Length of a step of all coordinates at which the gradient method ends.

    Raises
    ------
    ValueError
        If a setting is out of range.

    Examples
    --------
    >>> PGD(steps=10)
    PGD(steps=10, method='gradient')
    """

    steps: int = 20
    method: str = "gradient"
    learning_rate: float = 0.01
    tolerance: float = 1e-7
    _estimate: CurvatureEstimate = field(
        default_factory=CurvatureEstimate, init=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.method not in ("gradient", "adam"):
            raise ValueError(f"method={self.method!r} is unknown; choose 'gradient' or 'adam'.")
        if self.steps < 1:
            raise ValueError(f"steps={self.steps}: at least one step is needed.")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate={self.learning_rate} must be positive.")

    def fresh(self) -> Self:
        """Return a copy without estimates of the curvature."""
        return replace(self)

    def minimise(self, sub: NNSubproblem, u: ndarray) -> ndarray:
        """Return an approximate minimiser of `sub`, from the start `u`."""
        start = sub.project(u)
        return self._adam(sub, start) if self.method == "adam" else self._gradient(sub, start)

    def _adam(self, sub: NNSubproblem, u: ndarray) -> ndarray:
        """Adam with its usual constants; PyTorch's own takes as long as the passes through a small
        network.
        """
        mean = np.zeros_like(u)
        square = np.zeros_like(u)
        for t in range(1, self.steps + 1):
            gradient = sub.gradient(u)
            mean = 0.9 * mean + 0.1 * gradient
            square = 0.999 * square + 0.001 * gradient * gradient
            size = np.sqrt(square / (1 - 0.999**t)) + 1e-8
            u = sub.project(u - self.learning_rate * mean / (1 - 0.9**t) / size)
            if sub.out_of_time:
                break
        return u

    def _gradient(self, sub: NNSubproblem, u: ndarray) -> ndarray:
        """Gradient steps; returns the best point of each group."""
        group = sub.split.group_index
        self._estimate.prepare(sub)
        best = u
        minimum = np.full(sub.n_groups, np.inf)
        pending: PendingStep | None = None
        for k in range(self.steps + 1):
            values, gradient = sub.values_and_gradient(u)
            if pending is not None and k < self.steps:
                failed = self._estimate.rejects(sub, pending, values, gradient)
                if failed.any():  # these groups go back and take a shorter step
                    back = failed[group]
                    u = np.where(back, pending.u, u)
                    gradient = np.where(back, pending.gradient, gradient)
                    values = np.where(failed, pending.values, values)
            worse = values > minimum
            best = np.where(worse[group], best, u) if worse.any() else u
            minimum = np.minimum(values, minimum)
            if k == self.steps or sub.out_of_time:
                break
            pending = self._estimate.step(sub, u, values, gradient)
            if pending.length.max() <= self.tolerance:
                break
            u = u + pending.step
        return best

    def __repr__(self) -> str:
        rate = f", learning_rate={self.learning_rate:g}" if self.method == "adam" else ""
        return f"PGD(steps={self.steps}, method={self.method!r}{rate})"

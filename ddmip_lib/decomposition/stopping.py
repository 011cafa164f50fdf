"""Termination of Algorithm 1: small residuals at a stationary point, or a repeated state."""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from .admm_state import ADMMState

STATIONARITY_FACTOR = 10
"""Tolerance on the projected gradient step, in units of the primal tolerance."""
CYCLE_FRACTION = 0.1
"""Two states count as equal up to this fraction of the tolerances."""


@dataclass(frozen=True)
class Stopping:
    r"""The tests after each iteration.

    Attributes
    ----------
    primal_tolerance
        Tolerance on $\lVert u - x \rVert_\infty$.
    dual_tolerance
        Tolerance on $\rho \lVert u^{k+1} - u^k \rVert_\infty$; None for the primal test alone, as
        in the paper.
    detect_cycles
        Whether a run ends when its state repeats.
    """

    primal_tolerance: float
    dual_tolerance: float | None
    detect_cycles: bool

    def converged(self, run: ADMMState, primal: float, dual: float) -> bool:
        """Return whether the run has converged.

        Both residuals are small, u is stationary for the NN block and, where constraints hold
        outputs, the iterate satisfies them.

        Parameters
        ----------
        run
            The state after the iteration.
        primal, dual
            Its residuals.
        """
        if primal >= self.primal_tolerance:
            return False
        if run.split.constrains_outputs and (run.last is None or not run.last.feasible):
            return False
        if self.dual_tolerance is None:
            return True
        return dual < self.dual_tolerance and self._stationary(run)

    def _stationary(self, run: ADMMState) -> bool:
        r"""Whether $\lVert u - P(u - \nabla\varphi(u)/\rho)\rVert_\infty$ is small.

        Without this test an NN block that makes no progress would count as converged.
        """
        assert run.subproblem is not None
        if run.nn_block.holds_rows:  # the gradient below lacks the multipliers of these constraints
            return True
        u = run.u / run.subproblem.input_unit
        ahead = run.subproblem.project(u - run.subproblem.gradient(u) / run.rho.inputs)
        return float(np.abs(ahead - u).max()) < STATIONARITY_FACTOR * self.primal_tolerance

    def repeats(self, run: ADMMState, residual: float) -> bool:
        """Return whether this state has occurred before with the same penalty.

        A state with residuals far below the tolerance is no cycle.

        Parameters
        ----------
        run
            The state after the iteration, whose set of earlier states is updated.
        residual
            Its largest residual.
        """
        if not self.detect_cycles or residual <= CYCLE_FRACTION * self.primal_tolerance:
            return False
        split = run.split
        x = split.scale_inputs(run.w)
        u = split.scale_inputs(run.u)
        multipliers = split.scale_inputs(run.lam, -1)
        state = np.concatenate([x, u, multipliers, split.tightening.numpy()])
        rounded = np.round(state / self._rounding_unit(run)) + 0.0  # + 0.0 turns -0.0 into 0.0
        key = (run.rho, blake2b(rounded.tobytes(), digest_size=16).digest())
        if key in run.seen:
            return True
        run.seen.add(key)
        return False

    def _rounding_unit(self, run: ADMMState) -> float:
        unit = self.primal_tolerance * min(1.0, *run.rho)
        if self.dual_tolerance is not None:
            unit = min(unit, self.dual_tolerance / max(run.rho))
        return CYCLE_FRACTION * unit

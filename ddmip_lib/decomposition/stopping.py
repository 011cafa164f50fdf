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

    def converged(self, state: ADMMState, primal: float, dual: float) -> bool:
        """Return whether the run has converged.

        Both residuals are small, u is stationary for the NN block and, where constraints hold
        outputs, the iterate satisfies them.

        Parameters
        ----------
        state
            The state after the iteration.
        primal, dual
            Its residuals.
        """
        if primal >= self.primal_tolerance:
            return False
        if state.split.constrains_outputs and (state.last is None or not state.last.feasible):
            return False
        if self.dual_tolerance is None:
            return True
        return dual < self.dual_tolerance and self._stationary(state)

    def _stationary(self, state: ADMMState) -> bool:
        r"""Whether $\lVert u - P(u - \nabla\varphi(u)/\rho)\rVert_\infty$ is small.

        Without this test an NN block that makes no progress would count as converged.
        """
        assert state.subproblem is not None
        if state.nn_block.holds_rows:  # the gradient lacks the multipliers of these constraints
            return True
        u = state.u / state.subproblem.input_unit
        ahead = state.subproblem.project(u - state.subproblem.gradient(u) / state.rho.inputs)
        return float(np.abs(ahead - u).max()) < STATIONARITY_FACTOR * self.primal_tolerance

    def repeats(self, state: ADMMState, residual: float) -> bool:
        """Return whether this state has occurred before with the same penalty.

        A state with residuals far below the tolerance is no cycle.

        Parameters
        ----------
        state
            The state after the iteration, whose set of earlier states is updated.
        residual
            Its largest residual.
        """
        if not self.detect_cycles or residual <= CYCLE_FRACTION * self.primal_tolerance:
            return False
        split = state.split
        x = split.scale_inputs(state.w)
        u = split.scale_inputs(state.u)
        multipliers = split.scale_inputs(state.lam, -1)
        point = np.concatenate([x, u, multipliers, split.tightening.numpy()])
        unit = self.primal_tolerance * min(1.0, *state.rho)
        if self.dual_tolerance is not None:
            unit = min(unit, self.dual_tolerance / max(state.rho))
        rounded = np.round(point / (CYCLE_FRACTION * unit)) + 0.0  # + 0.0 turns -0.0 into 0.0
        key = (state.rho, blake2b(rounded.tobytes(), digest_size=16).digest())
        if key in state.seen:
            return True
        state.seen.add(key)
        return False

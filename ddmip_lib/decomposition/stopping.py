"""When Algorithm 1 stops by itself: small residuals at a stationary point, or a state that was
there before.
"""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from .admm_state import ADMMState


@dataclass(frozen=True)
class Stopping:
    """The tests after each iteration; without a dual tolerance the primal residual alone decides,
    as in the paper.
    """

    primal_tolerance: float
    dual_tolerance: float | None
    detect_cycles: bool

    def converged(self, run: ADMMState, primal: float, dual: float) -> bool:
        """Both residuals are small, u is stationary for its block and, where there are rows on
        outputs, the iterate satisfies them.
        """
        if primal >= self.primal_tolerance:
            return False
        if run.split.constrains_outputs and not (run.last is not None and run.last.feasible):
            return False
        if self.dual_tolerance is None:
            return True
        return dual < self.dual_tolerance and self._stationary(run)

    def _stationary(self, run: ADMMState) -> bool:
        r"""Whether $\lVert u - P(u - \nabla\varphi(u)/\rho)\rVert_\infty$ is small.

        An NN block that could not move makes both residuals vanish; that is no convergence.
        """
        assert run.sub is not None
        if run.nn.holds_rows:  # the gradient below knows nothing of these rows' multipliers
            return True
        u = run.u / run.sub.stretch
        ahead = run.sub.project(u - run.sub.gradient(u) / run.rho.inputs)
        return float(np.abs(ahead - u).max()) < 10 * self.primal_tolerance

    def repeats(self, run: ADMMState, residual: float) -> bool:
        """Whether this state was there before with the same penalty, to a tenth of what the
        residual test allows; a state whose residuals are as small as that is no cycle.
        """
        if not self.detect_cycles or residual <= 0.1 * self.primal_tolerance:
            return False
        split = run.split
        primal = map(split.in_stretches, (run.w, run.u))
        dual = split.in_stretches(run.lam, -1)
        state = np.concatenate([*primal, dual, split.tightening.numpy()])
        allowed = np.inf if self.dual_tolerance is None else self.dual_tolerance / max(run.rho)
        quantum = 0.1 * min(self.primal_tolerance * min(1.0, *run.rho), allowed)
        rounded = np.round(state / quantum) + 0.0  # + 0.0 turns -0.0 into 0.0
        key = (run.rho, blake2b(rounded.tobytes(), digest_size=16).digest())
        if key in run.seen:
            return True
        run.seen.add(key)
        return False

"""Whether a verified point is optimal, by a lower bound of its problem that relies on no solver."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from ..errors import ProofError
from ..model.goal import Goal
from ..model.incumbent import Incumbent
from ..model.solution import Proof
from ..model.verification import CLOSED, OPTIMAL_GAP

MAX_CHECK_NODES = 300
"""Nodes of the check of a solver's claim: few, so that its result does not depend on the speed of
the computer where no time limit is reached.
"""


def incumbent_cost(incumbent: Incumbent) -> float:
    """Return the verified objective as a minimisation; infinite where there is none."""
    if incumbent.objective is None:
        return np.inf
    return float(incumbent.instance.milp.sign * incumbent.objective)


def cutoff(incumbent: Incumbent) -> float:
    """Return the bound, of a minimisation, with which a search may end; any, at the target."""
    best = incumbent_cost(incumbent)
    if incumbent.reached_target:
        return -np.inf
    if np.isinf(best):
        return best
    return best - incumbent.goal.aimed(best, incumbent.units.objective(best))


def closes_gap(incumbent: Incumbent, bound: float) -> bool:
    """Return whether a bound, of a minimisation, closes the gap to the verified point.

    Raises
    ------
    ProofError
        If the bound is worse than the point: one of the two is wrong.
    """
    best = incumbent_cost(incumbent)
    if np.isinf(best):
        return False
    size = incumbent.units.objective(best)
    if bound > best + 1e-9 * size:
        raise ProofError(
            f"the bound {bound:.12g} crosses the verified objective {best:.12g} (both of a"
            " minimisation): one of the two is wrong. This is a mistake in ddmip_lib, not in your"
            " problem; please report it with the problem."
        )
    return best - bound <= incumbent.goal.allowed(best, size)


def status_of_gap(incumbent: Incumbent, bound: float) -> str:
    """Return the status of a run whose gap is closed: "optimal", or "gap_limit" for a large gap.

    Parameters
    ----------
    incumbent
        The verified point.
    bound
        The bound, of a minimisation.
    """
    best = incumbent_cost(incumbent)
    largest = Goal(OPTIMAL_GAP).allowed(best, incumbent.units.objective(best))
    return "optimal" if best - bound <= largest else "gap_limit"


def require_uncrossed(incumbent: Incumbent, bound: float, source: str) -> None:
    """Check that no verified point is better than a bound by more than tolerances explain.

    Parameters
    ----------
    incumbent
        The verified point.
    bound
        The bound, of a minimisation.
    source
        Where the bound comes from, for the message.

    Raises
    ------
    ProofError
        If one is.
    """
    best = incumbent_cost(incumbent)
    sign = incumbent.instance.milp.sign
    if np.isfinite(best) and bound > best + CLOSED * incumbent.units.objective(best):
        raise ProofError(
            f"the bound {sign * bound:.12g} {source} is crossed by the verified objective"
            f" {sign * best:.12g}: the bound is wrong, or of another problem. Solve this problem"
            " again, from a Solution without a bound."
        )


def submit_point(
    incumbent: Incumbent, point: ndarray, repair: Callable[[ndarray], Any] | None = None
) -> None:
    """Verify a proposed point if it is better than the incumbent by more than the tolerance.

    Parameters
    ----------
    incumbent
        The incumbent.
    point
        Values of the problem's variables, and maybe of others after them.
    repair
        Function that is called with a point that fails verification: searches of bounds relax the
        constraints.
    """
    milp = incumbent.instance.milp
    inside = np.clip(point[: milp.n_variables], milp.lower, milp.upper)
    values = incumbent.instance.with_outputs(inside)
    best = incumbent_cost(incumbent)
    if np.isfinite(best):
        tolerance = CLOSED * incumbent.units.objective(best)
        if not milp.sign * milp.objective(values) < best - tolerance:
            return
    if not incumbent.consider(values).feasible and repair is not None:
        repair(values)


def proof_of(incumbent: Incumbent, method: str, checked: bool, margin: float = 0.0) -> Proof:
    """Return the origin of a bound of this problem.

    Parameters
    ----------
    incumbent
        The incumbent of the problem.
    method
        Name of the method.
    checked
        Whether the bound was computed here, instead of claimed by a solver.
    margin
        Margin of the model's logits.
    """
    return Proof(incumbent.instance.digest, method, checked, margin)

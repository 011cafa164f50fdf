"""Whether a verified point is the best one: a bound of its problem, checked outside any solver."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ProofError
from ..model.incumbent import Incumbent
from ..model.progress import report_progress, watched
from ..model.solution import Proof
from ..model.verification import CLOSED
from ..programs.branch_and_bound import Proved, prove
from ..programs.program import Program

NODES = 300
"""So many nodes may a check take after a solver's claim, so that its outcome does not hang on a
machine's speed where no time limit is hit.
"""
AIM = 0.9 * CLOSED  # how near a search tries to come


def incumbent_cost(incumbent: Incumbent) -> float:
    """The verified objective as a minimisation; infinite where there is none."""
    return (
        np.inf
        if incumbent.objective is None
        else float(incumbent.instance.milp.sign * incumbent.objective)
    )


def cutoff(incumbent: Incumbent) -> float:
    """A bound with which a search may end."""
    best = incumbent_cost(incumbent)
    return best if np.isinf(best) else best - AIM * incumbent.units.objective(best)


def closes_gap(incumbent: Incumbent, bound: float) -> bool:
    """Whether a bound, of a minimisation, proves the verified point optimal; one beyond it is an
    error of ours.
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
    return best - bound <= CLOSED * size


def require_uncrossed(incumbent: Incumbent, bound: float, source: str) -> None:
    """An error where a bound, of a minimisation, lies beyond the verified point by more than
    tolerances explain.
    """
    best = incumbent_cost(incumbent)
    sign = incumbent.instance.milp.sign
    if np.isfinite(best) and bound > best + CLOSED * incumbent.units.objective(best):
        raise ProofError(
            f"the bound {sign * bound:.12g} {source} is crossed by the verified objective"
            f" {sign * best:.12g}: the bound is wrong, or of another problem. Solve this problem"
            " anew, from a Solution without a bound."
        )


def submit_point(
    incumbent: Incumbent, point: np.ndarray, mend: Callable[[np.ndarray], Any] | None = None
) -> None:
    """Let a point that was proposed compete, if it is better than what `verify` forgives could make
    it; one that fails, since a search of bounds lets rows out, is handed to `mend`.
    """
    s = incumbent.instance.milp
    best = incumbent_cost(incumbent)
    values = incumbent.instance.with_outputs(np.clip(point[: s.n_variables], s.lower, s.upper))
    better = np.isinf(best) or s.sign * s.objective(
        values
    ) < best - CLOSED * incumbent.units.objective(best)
    if better and not incumbent.consider(values).feasible and mend is not None:
        mend(values)


def prove_optimality(
    incumbent: Incumbent,
    program: Program,
    deadline: float,
    most_nodes: float = NODES,
    mend: Callable[[np.ndarray], Any] | None = None,
    patient: bool = True,
) -> Proved:
    """Prove what can be proved of the best point by `program`, whose first variables are those of
    the problem.

    Better points that are met on the way take its place; `mend` may find one near those that just
    fail `verify`. A search that is not `patient` ends where it will hardly close in time.
    """

    def on_point(point: np.ndarray) -> float:
        submit_point(incumbent, point, mend)
        return cutoff(incumbent)

    def hear(bound: float) -> None:
        report_progress(bound=incumbent.instance.milp.sign * bound)

    found = prove(
        program,
        cutoff(incumbent),
        deadline,
        on_point,
        most_nodes,
        patient,
        hear if watched() else None,
    )
    hear(found.bound)
    return found


def proof_of(incumbent: Incumbent, method: str, checked: bool, margin: float = 0.0) -> Proof:
    return Proof(incumbent.instance.digest, method, checked, margin)

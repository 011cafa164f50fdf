"""The certificate that `certify` returns, and solutions with a certified bound."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy import ndarray

from ..errors import ProblemError
from ..model.incumbent import Incumbent
from ..model.left_out import left_out
from ..model.log import Log, LogEntry
from ..model.solution import Solution
from ..model.text import shown
from ..proofs.checking import (
    CLOSED,
    closes_gap,
    incumbent_cost,
    proof_of,
    require_uncrossed,
    status_of_gap,
)


@dataclass(frozen=True, eq=False)
class Certificate:
    """A proven bound of a block-structured problem, with the bound of each block.

    It is a Lagrangian bound: constraints that couple blocks are priced, and the most profitable
    column of each block (its mode and network inputs) is bounded separately.

    Attributes
    ----------
    bound
        Dual bound of the objective: a lower bound if the user's model is a minimisation, else an
        upper one. It is not rounded where all objectives are integers.
    objective
        Objective of the incumbent, None without one.
    prices
        Prices of the shared resources, or multipliers of the coupling constraints.
    profit_bound
        For each block, a proven upper bound of the profit of its columns at these prices.
    profit_known
        For each block, the profit of the best column that was found.
    closed
        For each block, whether the gap between both is closed: at most 1e-4 times the largest
        value of one unit of output.
    method
        For each block, how it was bounded: "evaluated" (without branching: some evaluated point
        attains the bound), "CROWN" (one node), "branching", "exact model" (a MIP), or "open" (the
        gap is not closed).
    nodes
        Nodes of branch and bound, in all blocks together.
    seconds
        Seconds that the bound took.
    history
        Pairs of seconds and bound, one for each improvement of the bound.
    """

    bound: float
    objective: float | None
    prices: ndarray
    profit_bound: ndarray
    profit_known: ndarray
    closed: ndarray
    method: tuple[str, ...]
    nodes: int
    seconds: float
    history: tuple[tuple[float, float], ...] = field(repr=False, default=())

    def __repr__(self) -> str:
        methods = ", ".join(
            f"{self.method.count(name)} {name}" for name in sorted(set(self.method))
        )
        return (
            f"Certificate: {int(self.closed.sum())} of {len(self.closed)} blocks closed\n"
            f"  bound       {shown(self.bound)}\n"
            f"  objective   {shown(self.objective)}\n"
            f"  blocks      {methods}\n"
            f"  nodes       {self.nodes}\n"
            f"  seconds     {self.seconds:.2f}"
        )


def stopped(solution: Solution, seconds: float) -> Solution:
    """Return the solution after Ctrl-C ended the proof, which status, details and log report.

    The statuses "optimal", "gap_limit" and "infeasible" stay, since they were proved before.

    Parameters
    ----------
    solution
        The solution to be certified, with the bound proved so far.
    seconds
        Seconds of the proof, for the log.
    """
    status = solution.status
    if status not in ("optimal", "gap_limit", "infeasible"):
        status = "stopped"
    entry = LogEntry(
        "certify",
        "stopped",
        solution.objective,
        solution.bound,
        seconds,
        "Ctrl-C ended the certificate",
    )
    log = Log([*solution.details.get("log", ()), entry])
    details = {**solution.details, "interrupted": True, "log": log}
    return replace(solution, status=status, details=details)


def with_bound(
    solution: Solution, incumbent: Incumbent, bound: float | None, certificate: object
) -> Solution:
    """Return the solution with the point of the incumbent, the best bound, and its status.

    The best bound is the tighter one of `bound` and the solution's own; the latter counts only if
    this library checked it on the same problem.

    Parameters
    ----------
    solution
        The solution to be certified.
    incumbent
        The best verified point of the problem.
    bound
        The bound proved by the caller, a lower one for a minimisation and an upper one for a
        maximisation; None without one.
    certificate
        Stored as ``details["certificate"]``; None leaves the details as they are.

    Raises
    ------
    ProblemError
        If the incumbent is better than `bound` by more than the tolerances.
    ProofError
        If the incumbent is better than the solution's own bound by more than the tolerances.
    """
    sign = incumbent.instance.milp.sign
    lower = max(_lower_bound(incumbent, bound), _earlier_bound(solution, incumbent))
    details = solution.details
    if certificate is not None:
        details = {**details, "certificate": certificate}
    parts = left_out(incumbent.instance)
    if parts:
        details = {**details, "left_out": parts}
    status = _status(solution, incumbent, lower)
    reported: float | None = float(sign * lower)
    # an earlier proof of infeasibility: no point has the objective that a finite bound is about
    no_bound = status == "infeasible" and np.isfinite(lower)
    if no_bound or np.isneginf(lower) or (np.isposinf(lower) and bound is None):
        reported = None
    return replace(
        solution,
        status=status,
        bound=reported,
        proof=proof_of(incumbent, "certify", checked=True),
        details=details,
        gap_tolerance=incumbent.goal.gap,
        **incumbent.point(),
    )


def _lower_bound(incumbent: Incumbent, bound: float | None) -> float:
    """The bound for the problem as a minimisation, at most the incumbent's cost."""
    if bound is None:
        return -np.inf
    sign = incumbent.instance.milp.sign
    lower = sign * bound
    best = incumbent_cost(incumbent)
    if lower <= best:
        return lower
    if lower - best > CLOSED * incumbent.units.objective(best):
        raise ProblemError(
            f"the objective {sign * best:.9g} is better than the bound {bound:.9g}: either the"
            " blocks do not describe the model (compare values, use and capacities of"
            " problem.blocks with its constraints), or the point exceeds a capacity within the"
            " tolerance of 1e-6 and is better for it (count that resource in larger units)."
        )
    return best


def _earlier_bound(solution: Solution, incumbent: Incumbent) -> float:
    """The solution's own bound for the problem as a minimisation; -inf unless this library checked
    it on the same problem.
    """
    proof = solution.proof
    if proof is None or not proof.checked or solution.bound is None:
        return -np.inf
    if proof.problem != incumbent.instance.digest:
        return -np.inf
    bound = incumbent.instance.milp.sign * solution.bound
    require_uncrossed(incumbent, bound, f"of the solution of {solution.method}")
    return min(bound, incumbent_cost(incumbent))


def _status(solution: Solution, incumbent: Incumbent, lower: float) -> str:
    """The status that a lower bound of the minimisation proves.

    Where it does not prove optimality, an earlier "optimal" is not kept, nor is a status that
    denies the incumbent.
    """
    if closes_gap(incumbent, lower):
        return status_of_gap(incumbent, lower)
    if lower == np.inf:
        return "infeasible"
    status = solution.status
    if status in ("optimal", "claimed_optimal", "gap_limit"):
        return "stopped"
    if status in ("infeasible", "no_solution_found") and incumbent.values is not None:
        return "stopped"
    return status

"""The result of `certify`, and how a solution carries it."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy import ndarray

from ..errors import ProblemError
from ..model.incumbent import Incumbent
from ..model.log import Log, LogEntry
from ..model.solution import Solution, shown
from ..proofs.checking import CLOSED, closes_gap, incumbent_cost, proof_of, require_uncrossed


@dataclass(frozen=True, eq=False)
class Certificate:
    """A proven bound of a problem of blocks, block by block: a result of `certify`.

    Attributes
    ----------
    bound
        Bound in the sense of the user's model, not rounded to integers.
    objective
        Objective of the incumbent, None where there is none.
    prices
        Prices of the shared resources, or multipliers of the coupling constraints.
    profit_bound
        For each block, a proven upper bound of the profit of its options at these prices.
    profit_known
        For each block, the profit of the best option that was found.
    closed
        For each block, whether both are equal, up to 1e-4 of the largest value of an output.
    method
        For each block, how it was bounded: "evaluated", "CROWN" (on one ball), "branching",
        "exact model" (of a general block), or "open" (search unfinished).
    nodes
        Nodes of all searches together.
    seconds
        Seconds of the proof.
    history
        Seconds and bound at every improvement.
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
    """Return the solution of a proof that Ctrl-C ended, with that in status, details and log; a
    status "optimal" or "infeasible" was proved and stays.
    """
    status = solution.status
    if status not in ("optimal", "infeasible"):
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
    solution: Solution, incumbent: Incumbent, bound: float | None, certificate: Any
) -> Solution:
    """Return the solution with the verified point of an incumbent, a bound and the status that
    follows.

    Parameters
    ----------
    solution
        The solution to be certified. Its own bound counts if it was checked, and for this problem.
    incumbent
        The best verified point of the problem.
    bound
        The bound proved here, in the sense of the user's model; None where there is none.
    certificate
        What is stored as ``details["certificate"]``; None leaves the details as they are.

    Raises
    ------
    ProblemError
        If the verified objective is better than the bound by more than tolerances explain.
    ProofError
        If it is better than the bound of the solution by more than that.
    """
    sign = incumbent.instance.milp.sign
    lower = max(_lower_bound(incumbent, bound), _earlier_bound(solution, incumbent))
    details = solution.details
    if certificate is not None:
        details = {**details, "certificate": certificate}
    status = _status(solution, incumbent, lower)
    reported: float | None = float(sign * lower)
    no_bound = status == "infeasible" and np.isfinite(lower)  # there is no point to bound
    if no_bound or np.isneginf(lower) or (np.isposinf(lower) and bound is None):
        reported = None
    return replace(
        solution,
        status=status,
        bound=reported,
        proof=proof_of(incumbent, "certify", checked=True),
        details=details,
        **incumbent.point(),
    )


def _lower_bound(incumbent: Incumbent, bound: float | None) -> float:
    """The bound as one of a minimisation, at most the incumbent's objective."""
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
            " problem.blocks with its constraints), or the point gains by exceeding a capacity"
            " within the tolerance of 1e-6 (count that resource in larger units)."
        )
    return best


def _earlier_bound(solution: Solution, incumbent: Incumbent) -> float:
    """The bound of the solution itself, as one of a minimisation; -inf unless it was checked, for
    this very problem.
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
    """The status that a lower bound (of a minimisation) proves; a claim without this bound does not
    count.
    """
    if closes_gap(incumbent, lower):
        return "optimal"
    if lower == np.inf:
        return "infeasible"
    status = solution.status
    if status in ("optimal", "claimed_optimal"):
        return "stopped"
    if status in ("infeasible", "no_solution_found") and incumbent.values is not None:
        return "stopped"
    return status

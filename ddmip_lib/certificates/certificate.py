"""What a certificate says, and how a solution carries it."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import ProblemError
from ..model.incumbent import Incumbent
from ..model.log import Log, LogEntry
from ..model.solution import Solution, shown
from ..proofs.checking import CLOSED, closes_gap, incumbent_cost, proof_of, require_uncrossed


@dataclass(frozen=True, eq=False)
class Certificate:
    """What `certify` proved about a problem of blocks; arrays have one entry for each block."""

    bound: float  #: In the sense of the user's model, not rounded to whole numbers.
    objective: float | None
    prices: np.ndarray
    profit_bound: np.ndarray  #: No option of the block earns more at these prices.
    profit_known: np.ndarray  #: What an option that was found earns.
    closed: np.ndarray  #: Whether the two are equal, up to 1e-4 of the largest worth.
    method: tuple[str, ...]
    """How the block was bounded: "evaluated", "CROWN" (on one ball), "branching", "exact model" (of
    a general block), or "open" (search unfinished).
    """
    nodes: int
    seconds: float
    history: tuple[tuple[float, float], ...] = field(repr=False, default=())
    """Seconds and bound, whenever it improved."""

    def __repr__(self) -> str:
        counts = [(name, self.method.count(name)) for name in sorted(set(self.method))]
        said = ", ".join(f"{count} {name}" for name, count in counts if count)
        return (
            f"Certificate: {int(self.closed.sum())} of {len(self.closed)} blocks closed\n"
            f"  bound       {shown(self.bound)}\n"
            f"  objective   {shown(self.objective)}\n"
            f"  blocks      {said}\n"
            f"  nodes       {self.nodes}\n"
            f"  seconds     {self.seconds:.2f}"
        )


def stopped(solution: Solution, seconds: float) -> Solution:
    """A certificate that Ctrl-C ended says so in its status, details and log; what was proved
    optimal stays so.
    """
    status = solution.status if solution.status in ("optimal", "infeasible") else "stopped"
    turn = LogEntry(
        "certify",
        "stopped",
        solution.objective,
        solution.bound,
        seconds,
        "Ctrl-C ended the certificate",
    )
    log = Log([*solution.details.get("log", ()), turn])
    return replace(
        solution, status=status, details={**solution.details, "interrupted": True, "log": log}
    )


def with_bound(
    solution: Solution, incumbent: Incumbent, bound: float | None, certificate: Any
) -> Solution:
    """The solution with its verified point and a bound; an objective far beyond it is an error: one
    of them is wrong.

    A bound that the solution brings along counts if it was checked, and of this very problem.
    """
    sign = incumbent.instance.milp.sign
    best = incumbent_cost(incumbent)
    low = -np.inf if bound is None else sign * bound
    if low > best:
        if low - best > CLOSED * incumbent.units.objective(best):
            raise ProblemError(
                f"the objective {sign * best:.9g} is better than the bound {bound:.9g}: either the"
                " blocks do not describe the model (compare values, use and capacities of"
                " problem.blocks with its rows), or the point gains by exceeding a capacity within"
                " the tolerance of 1e-6 (count that resource in larger units)."
            )
        low = best
    earlier = solution.proof
    status = solution.status
    own = earlier is not None and earlier.problem == incumbent.instance.digest
    if own and earlier is not None and earlier.checked and solution.bound is not None:
        brought = sign * solution.bound
        require_uncrossed(
            incumbent, brought, f"that the solution of {solution.method} brings along"
        )
        low = max(low, min(brought, best))
    if status in ("optimal", "claimed_optimal"):
        # what was said of another problem, or without a proof: only the bound here counts
        status = "stopped"
    elif status in ("infeasible", "no_solution_found") and incumbent.values is not None:
        status = "stopped"
    if closes_gap(incumbent, low):
        status = "optimal"
    elif low == np.inf:
        status = "infeasible"
    proof = proof_of(incumbent, "certify", checked=True)
    details = (
        solution.details
        if certificate is None
        else {**solution.details, "certificate": certificate}
    )
    said = None if np.isneginf(low) or (np.isposinf(low) and bound is None) else float(sign * low)
    return replace(
        solution, status=status, bound=said, proof=proof, details=details, **incumbent.point()
    )

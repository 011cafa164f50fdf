"""What a certificate says, and how a solution carries it."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import ProblemError
from ..model.solution import Solution, shown

CROSSED = 1e-5  # a verified point may beat the optimum by what `verify` tolerates, not by more than this


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
    """How the block was bounded: "evaluated", "CROWN" (on one ball), "branching", or "open" (search unfinished)."""
    nodes: int
    seconds: float
    history: tuple[tuple[float, float], ...] = field(repr=False, default=())
    """Seconds and bound, whenever it improved."""

    def __repr__(self) -> str:
        counts = [(name, self.method.count(name)) for name in ("evaluated", "CROWN", "branching", "open")]
        said = ", ".join(f"{count} {name}" for name, count in counts if count)
        return (
            f"Certificate: {int(self.closed.sum())} of {len(self.closed)} blocks closed\n"
            f"  bound       {shown(self.bound)}\n"
            f"  objective   {shown(self.objective)}\n"
            f"  blocks      {said}\n"
            f"  nodes       {self.nodes}\n"
            f"  seconds     {self.seconds:.2f}"
        )


def with_bound(solution: Solution, bound: float | None, certificate: Any, sign: float) -> Solution:
    """The solution with a bound; an objective far beyond it is an error, since one of the two is wrong."""
    status, size = solution.status, max(1.0, abs(solution.objective or 0.0))
    if bound is not None and solution.objective is not None:
        if sign * (bound - solution.objective) > CROSSED * size:
            raise ProblemError(
                f"the objective {solution.objective:.9g} is better than the bound {bound:.9g}: either the blocks do "
                "not describe the model (compare values, use and capacities of problem.blocks with its rows), or the "
                "point gains by exceeding a capacity within the tolerance of 1e-6 (count that resource in larger "
                "units)."
            )
        bound = sign * min(sign * bound, sign * solution.objective)
    if bound is not None and solution.bound is not None:  # one that was proven before may be better
        bound = sign * max(sign * bound, sign * solution.bound)
    if bound is not None and solution.objective is not None and abs(bound - solution.objective) <= 1e-9 * size:
        status = "optimal"
    return replace(solution, status=status, bound=bound, details={**solution.details, "certificate": certificate})

"""`check_solver`: test every guarantee of a solver on small problems, and report which hold."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..errors import ProblemError, UnsupportedNetworkError
from ..methods import Callback, Solver
from ..renamed import renamed_keywords
from .bench import Bench, NotCheckedError
from .clauses import ALWAYS, CALLS, SimulatedInterrupt
from .problems import NEEDS


@dataclass(frozen=True)
class Clause:
    """One guarantee, and whether it holds.

    Attributes
    ----------
    name
        The guarantee in words.
    passed
        Whether it holds.
    explanation
        What the solver returned or raised; empty where nothing is to be added.
    """

    name: str
    passed: bool
    explanation: str

    def __str__(self) -> str:
        text = f"{'holds ' if self.passed else 'BROKEN'}  {self.name}"
        return f"{text} ({self.explanation})" if self.explanation else text


class Contract(list[Clause]):
    """All clauses of a solver; `str` lists them."""

    @property
    def broken(self) -> list[Clause]:
        """The clauses that do not hold."""
        return [clause for clause in self if not clause.passed]

    def __str__(self) -> str:
        title = f"{len(self) - len(self.broken)} of {len(self)} clauses hold"
        return "\n".join([title, *map(str, self)])

    def require(self) -> None:
        """Raise an error if a clause does not hold.

        Raises
        ------
        AssertionError
            With the clauses that do not hold.
        """
        if self.broken:
            title = f"{len(self.broken)} clauses do not hold"
            raise AssertionError("\n".join([title, *map(str, self.broken)]))


@renamed_keywords(visits="reports_points")
def check_solver(
    solver: Solver,
    *,
    proves: bool = False,
    reports_points: bool = True,
    refuses: Collection[str] = (),
    seconds: float = 20.0,
    with_callback: Callable[[Callback], Any] | None = None,
) -> Contract:
    """Check the guarantees of a solver on some two dozen problems with known optima.

    No check depends on the speed of the machine. Whatever the solver does, only `Contract.require`
    raises an error.

    Parameters
    ----------
    solver
        Any object with ``solve(problem, time_limit=, seed=, progress=)`` that returns a `Solution`.
    proves
        Whether it proves optimality and infeasibility of problems this small.
    reports_points
        Whether its `solve` has an argument ``on_point=``, a function that it calls with the network
        inputs of every evaluated point.
    refuses
        Problems that it refuses by a `ProblemError` or an `UnsupportedNetworkError`: those with
        "continuous inputs", of "one block", with "any module" that it cannot read or with "no free
        input".
    seconds
        Time limit of each call.
    with_callback
        Function that returns the solver with a callback (see `ProgressEvent`).

    Returns
    -------
    Contract
        All clauses, with the result of each.

    Raises
    ------
    ValueError
        If `refuses` contains an unknown word.

    Examples
    --------
    >>> from ddmip_lib import Enumeration
    >>> contract = check_solver(Enumeration(), proves=True, refuses=["continuous inputs"])
    >>> len(contract) >= 40, contract.broken
    (True, [])
    >>> contract.require()
    """
    if not set(refuses) <= set(NEEDS):
        raise ValueError(
            f"refuses={list(refuses)} has an unknown entry; choose among"
            f" {', '.join(map(repr, NEEDS))}."
        )
    bench = Bench(solver, proves, reports_points, seconds, with_callback)
    checks: dict[str, Callable[[], Any]] = {}
    for name in bench.examples:
        checks[f"problem: {name}"] = partial(_solves, bench, name, refuses)
    for name, call in CALLS.items():
        checks[f"call: {name}"] = partial(call, bench)
    for name, clause in ALWAYS.items():
        checks[f"always: {name}"] = partial(bench.holds_always, clause)
    return Contract(_result(bench, name, check) for name, check in checks.items())


def _result(bench: Bench, name: str, check: Callable[[], Any]) -> Clause:
    try:
        found = check()
    except NotCheckedError:
        return Clause(name, True, "not checked")
    except (Exception, SimulatedInterrupt) as error:  # also if the result is not a Solution
        return Clause(name, False, f"{type(error).__name__}: {error}")
    explanation = found if isinstance(found, str) else ""
    return Clause(name, bool(found), explanation if found else bench.last.summary)


def _solves(bench: Bench, name: str, refuses: Collection[str]) -> str | bool:
    """Whether an example is solved: with a point if there is one, and a proof if the solver
    proves.
    """
    example = bench.examples[name]
    try:
        found = bench.solve(name)
    except (ProblemError, UnsupportedNetworkError) as error:
        if example.needs not in refuses:
            raise
        return f"refused: {error}"
    if example.best is not None:
        right = found.found and (found.status == "optimal" or not bench.proves)
    elif bench.proves:
        right = found.status == "infeasible"
    else:
        right = found.status in ("infeasible", "no_solution_found", "time_limit")
    return right and bench.last.summary

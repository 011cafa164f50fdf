"""`check_solver`: every promise of a solver tried on small problems, and a report of which are
kept.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from ..errors import ProblemError, UnsupportedNetworkError
from ..methods import Callback, Solver
from .bench import Bench
from .clauses import ALWAYS, CALLS, Pressed
from .problems import NEEDS


@dataclass(frozen=True)
class Clause:
    """One promise: whether it is kept, and what was seen."""

    name: str
    passed: bool
    explanation: str

    def __str__(self) -> str:
        return (
            f"{'kept  ' if self.passed else 'BROKEN'}  {self.name}"
            + f" ({self.explanation})" * bool(self.explanation)
        )


class Contract(list[Clause]):
    """All clauses; `str` lists them, `require` raises an error where one is broken."""

    @property
    def broken(self) -> list[Clause]:
        return [clause for clause in self if not clause.passed]

    def __str__(self) -> str:
        return "\n".join(
            [f"{len(self) - len(self.broken)} of {len(self)} promises are kept", *map(str, self)]
        )

    def require(self) -> None:
        """Raise an AssertionError that names what is broken."""
        if self.broken:
            raise AssertionError(
                "\n".join([f"{len(self.broken)} promises are broken", *map(str, self.broken)])
            )


def check_solver(
    solver: Solver,
    *,
    proves: bool = False,
    visits: bool = True,
    refuses: Collection[str] = (),
    seconds: float = 20.0,
    with_callback: Callable[[Callback], Any] | None = None,
) -> Contract:
    """Try what every solver promises, on some two dozen problems small enough to know their
    optimum.

    A solver is any object with `solve(problem, time_limit=, seed=, progress=)` that returns a
    `Solution`. What it can do is said by arguments: it `proves` optima and infeasibility of
    problems this small; it `visits`, that is, tells a further argument `on_point` the network
    inputs
    of every point it looks at; it `refuses`, by a `ProblemError` or an `UnsupportedNetworkError`,
    problems with "continuous inputs", of "one block", with "any module" that it cannot read or with
    "no free input"; `with_callback(f)` makes it anew with the callback `f` (see `Moment`). No run
    gets more than `seconds`, and nothing is asked that hangs on the speed of a machine. Whatever
    the solver does, no error is raised but by `Contract.require`.

    >>> from ddmip_lib import Enumeration
    >>> contract = check_solver(Enumeration(), proves=True, refuses=["continuous inputs"])
    >>> len(contract) >= 40, contract.broken
    (True, [])
    >>> contract.require()
    """
    if unknown := set(refuses) - set(NEEDS):
        raise ValueError(
            f"refuses={sorted(unknown)} is unknown; choose among {', '.join(map(repr, NEEDS))}."
        )
    bench = Bench(solver, proves, visits, seconds, with_callback)
    contract = Contract()

    def note(name: str, check: Callable[[], Any]) -> None:
        try:
            said = check()
        except (Exception, Pressed) as error:  # also of an answer that is no Solution
            contract.append(Clause(name, False, f"{type(error).__name__}: {error}"))
        else:
            contract.append(
                Clause(
                    name,
                    bool(said),
                    said if isinstance(said, str) else "" if said else bench.last.seen,
                )
            )

    for each in bench.examples.values():
        note(f"problem: {each.name}", lambda each=each: _answered(bench, each.name, refuses))  # type: ignore[misc]
    for name, call in CALLS.items():
        note(f"call: {name}", lambda call=call: call(bench))  # type: ignore[misc]
    for name, clause in ALWAYS.items():
        note(f"always: {name}", lambda clause=clause: bench.always(clause))  # type: ignore[misc]
    return contract


def _answered(bench: Bench, name: str, refuses: Collection[str]) -> str | bool:
    """Whether an example ends as it should: with a point where there is one, and a proof from those
    who prove.
    """
    example = bench.examples[name]
    try:
        found = bench.answer(name)
    except (ProblemError, UnsupportedNetworkError) as error:
        if example.needs not in refuses:
            raise
        return f"refused: {error}"
    if example.best is None:
        right = found.status in (
            ("infeasible",) if bench.proves else ("infeasible", "no_solution_found", "time_limit")
        )
    else:
        right = found.found and (not bench.proves or found.status == "optimal")
    return right and bench.last.seen

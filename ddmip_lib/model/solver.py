"""What every solver is, and how each one begins: start the clock, check the call, read the
problem.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import torch

from ..clock import Limit, TimeOver, heard_interrupts, limited, now, unlimited
from .incumbent import Incumbent, Visit
from .instance import Instance
from .log import Log, LogEntry
from .onoff import OnOff
from .problem import NeuralMIP
from .repair import Repair
from .solution import Solution


class ProgressEvent(NamedTuple):
    """What the `callback` of a solver hears after each iteration, round, step or node; a true
    result stops the run, status "stopped", unless it has just ended by itself.

    `objective` is that of the best verified point, `bound` what the solver has for one, checked or
    not; None where there is none. `DualDecomposition` hands over its whole state instead, which has
    these four too.
    """

    iteration: int
    objective: float | None
    bound: float | None
    seconds: float


Callback = Callable[[Any], Any]
ENDED_BY_USER = "Ctrl-C or the callback ended the run"
# seconds for completing the start, where the time limit ended a run that had not come to it
LAST_CHANCE = 0.1


class HasStatus(Protocol):
    """What a method returns: a `Solution`, or a bound."""

    @property
    def status(self) -> str: ...


R = TypeVar("R", bound=HasStatus)


class Solver(Protocol):
    """What every method is."""

    def solve(
        self, problem: NeuralMIP, time_limit: float = 60.0, seed: int = 0, progress: bool = False
    ) -> Solution: ...


class ReportsPoints(Solver, Protocol):
    """A solver that tells `visit` the network inputs of every point it looks at, as all of this
    library do.
    """

    def solve(
        self,
        problem: NeuralMIP,
        time_limit: float = 60.0,
        seed: int = 0,
        progress: bool = False,
        visit: Visit | None = None,
    ) -> Solution: ...


@dataclass(eq=False)
class Run:
    """A call that was checked: the problem, the clock, and, once asked for, the problem as an
    `Instance`.
    """

    problem: NeuralMIP
    seed: int
    time_limit: float
    began: float
    visit: Visit | None = None
    callback: Callback | None = None
    incumbents: list[Incumbent] = field(default_factory=list)
    iterations: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    limit: Limit | None = None
    """The time limit in force while the method works; the callback may end it."""

    @cached_property
    def instance(self) -> Instance:
        return self.problem.instance()

    @property
    def deadline(self) -> float:
        return self.began + self.time_limit

    @property
    def seconds_left(self) -> float:
        return self.deadline - now()

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C has ended the run, while a part of it kept a partial result."""
        return self.limit is not None and self.limit.interrupted

    def incumbent(
        self,
        onoff: Sequence[OnOff] = (),
        screen_on: torch.device | None = None,
        with_start: bool = True,
        repair: Repair | None = None,
    ) -> Incumbent:
        """Where verified points compete, the problem's start first; one that fails is repaired,
        also by `repair`.
        """
        incumbent = Incumbent(self.instance, self.began, onoff, screen_on, self.visit)
        self.incumbents.append(incumbent)
        if with_start and not self.problem.start_failed:
            incumbent.consider_start(self.problem.start, self.time_limit, repair)
        return incumbent

    def told(self, bound: float | None = None, objective: float | None = None) -> bool:
        """Whether the callback, told where the run is, wants it to end."""
        if self.callback is None:
            return False
        best = self.incumbents[-1].objective if objective is None and self.incumbents else objective
        stop = bool(
            self.callback(ProgressEvent(next(self.iterations), best, bound, now() - self.began))
        )
        self.stop(stop)
        return stop

    def stop(self, wanted: bool) -> None:
        """Let the next `check_time` end the run, if the callback wants it."""
        if wanted and self.limit is not None:
            self.limit.stopped = True

    def ended(self, method: str, status: str) -> Solution:
        """The result of a run that its time limit, its callback or Ctrl-C ended: its best verified
        point.
        """
        details: dict[str, Any] = {}
        if not self.incumbents and status == "time_limit" and "instance" in vars(self):
            self.incumbent(with_start=False)
        incumbent = self.incumbents[-1] if self.incumbents else None
        if incumbent is not None and incumbent.values is None and status == "time_limit":
            incumbent.consider_start(self.problem.start, min(self.time_limit, LAST_CHANCE))
        objective = None
        seconds = now() - self.began
        point: dict[str, Any] = {}
        if incumbent is not None:
            objective = incumbent.objective
            point = incumbent.point()
            details["incumbents"] = incumbent.found
        if status == "stopped":
            details["interrupted"] = True
        why = ENDED_BY_USER if status == "stopped" else "the time limit ended the run"
        details["log"] = Log([LogEntry(method, status, objective, None, seconds, why)])
        return Solution(status, method, **point, seconds=seconds, details=details)

    def finish(self, solve: Callable[[], R], so_far: Callable[[str], R]) -> R:
        """The result of `solve` or, where the time limit, a callback or Ctrl-C ends it, the result
        `so_far`.
        """
        status = None
        with limited(self.deadline) as self.limit, heard_interrupts():
            try:
                found = solve()
            except TimeOver:
                status = "time_limit"
            except KeyboardInterrupt:
                status = "stopped"
            with unlimited():
                if (
                    status is None
                    and self.interrupted
                    and found.status not in ("optimal", "infeasible", "stopped")
                ):
                    status = "stopped"  # a part of the method kept its partial result
                return self._logged(found if status is None else so_far(status))

    def _logged(self, found: R) -> R:
        """The result; one that Ctrl-C or a callback ended has a log."""
        if not isinstance(found, Solution) or found.status != "stopped" or "log" in found.details:
            return found
        turn = LogEntry(
            found.method, found.status, found.objective, found.bound, found.seconds, ENDED_BY_USER
        )
        return replace(found, details={**found.details, "log": Log([turn])})


def start_run(
    problem: NeuralMIP,
    time_limit: float,
    seed: int,
    visit: Visit | None = None,
    callback: Callback | None = None,
) -> Run:
    """Start the clock, and refuse what no solver can work with before any work."""
    began = now()
    if not isinstance(problem, NeuralMIP):
        raise TypeError(
            f"solve() needs a NeuralMIP, not {type(problem).__name__}: wrap the model in"
            " NeuralMIP(model)."
        )
    if not isinstance(time_limit, Real) or np.isnan(float(time_limit)):
        raise ValueError(
            f"time_limit={time_limit!r} must be a number of seconds (np.inf for none)."
        )
    if not isinstance(seed, Integral) or int(seed) < 0:
        raise ValueError(f"seed={seed!r} must be a nonnegative integer.")
    if not (callback is None or callable(callback)):
        raise TypeError(f"callback={callback!r} must be a function of one argument.")
    return Run(problem, int(seed), float(time_limit), began, visit, callback)

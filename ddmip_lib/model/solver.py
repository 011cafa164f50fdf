"""What every solver is, and how each one begins: start the clock, check the call, read the problem."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral, Real
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from ..clock import now
from .incumbent import Incumbent, Visit
from .instance import Instance
from .onoff import OnOff
from .problem import NeuralMIP
from .repair import Repair
from .solution import Solution


class Moment(NamedTuple):
    """What the `callback` of a solver hears after each iteration, round, step or node; a true result stops the run,
    status "stopped", unless it has just ended by itself.

    `objective` is that of the best verified point, `bound` what the solver has for one, checked or not; None where
    there is none. `DualDecomposition` hands over its whole state instead, which has these four too.
    """

    iteration: int
    objective: float | None
    bound: float | None
    seconds: float


Callback = Callable[[Any], Any]


class Solver(Protocol):
    """What every method is."""

    def solve(
        self, problem: NeuralMIP, time_limit: float = 60.0, seed: int = 0, progress: bool = False
    ) -> Solution: ...


class Visiting(Solver, Protocol):
    """A solver that tells `visit` the network inputs of every point it looks at, as all of this library do."""

    def solve(self, problem: NeuralMIP, time_limit: float = 60.0, seed: int = 0, progress: bool = False,
              visit: Visit | None = None) -> Solution: ...  # fmt: skip


@dataclass(frozen=True)
class Begun:
    """A call that was checked: the problem, the clock, and, once asked for, the problem as an `Instance`."""

    problem: NeuralMIP
    seed: int
    time_limit: float
    began: float
    visit: Visit | None = None
    callback: Callback | None = None
    incumbents: list[Incumbent] = field(default_factory=list)
    iterations: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @cached_property
    def instance(self) -> Instance:
        return self.problem.instance()

    @property
    def deadline(self) -> float:
        return self.began + self.time_limit

    @property
    def seconds_left(self) -> float:
        return self.deadline - now()

    def incumbent(
        self, onoff: Sequence[OnOff] = (), screen_on: torch.device | None = None, with_start: bool = True,
        repair: Repair | None = None,
    ) -> Incumbent:  # fmt: skip
        """Where verified points compete, the problem's start first; one that fails is repaired, also by `repair`."""
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
        return bool(self.callback(Moment(next(self.iterations), best, bound, now() - self.began)))

    def interrupted(self, method: str) -> Solution:
        """What a run has to show that Ctrl-C ended: its best verified point."""
        point, details = {}, {"interrupted": True}
        for incumbent in self.incumbents[-1:]:
            point, details["incumbents"] = incumbent.point(), incumbent.found  # type: ignore[assignment]
        return Solution("stopped", method, **point, seconds=now() - self.began, details=details)


def begin(
    problem: NeuralMIP, time_limit: float, seed: int, visit: Visit | None = None, callback: Callback | None = None
) -> Begun:
    """Start the clock, and refuse what no solver can work with before any work."""
    began = now()
    if not isinstance(problem, NeuralMIP):
        raise TypeError(f"solve() needs a NeuralMIP, not {type(problem).__name__}: wrap the model in NeuralMIP(model).")
    if not isinstance(time_limit, Real) or np.isnan(float(time_limit)):
        raise ValueError(f"time_limit={time_limit!r} must be a number of seconds (np.inf for none).")
    if not isinstance(seed, Integral) or int(seed) < 0:
        raise ValueError(f"seed={seed!r} must be a nonnegative integer.")
    if not (callback is None or callable(callback)):
        raise TypeError(f"callback={callback!r} must be a function of one argument.")
    return Begun(problem, int(seed), float(time_limit), began, visit, callback)

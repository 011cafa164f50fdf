"""The base class of all methods: frozen settings, and `run`, which solves one problem."""

from dataclasses import replace
from typing import ClassVar, Protocol

import numpy as np

from ..errors import ProofError
from ..model.incumbent import PointCallback
from ..model.problem import NeuralMIP
from ..model.solution import Solution
from ..proofs.ranges import infeasible_by_ranges
from ..renamed import renamed_keywords
from .run import Callback, Run, start_run


class Solver(Protocol):
    """Anything with a `solve` that takes these arguments; what `check_solver` tests."""

    def solve(
        self, problem: NeuralMIP, time_limit: float = 60.0, seed: int = 0, progress: bool = False
    ) -> Solution: ...


class ReportsPoints(Solver, Protocol):
    """A solver that calls `on_point` with the network inputs of every point that it evaluates."""

    def solve(
        self,
        problem: NeuralMIP,
        time_limit: float = 60.0,
        seed: int = 0,
        progress: bool = False,
        on_point: PointCallback | None = None,
    ) -> Solution: ...


class Method:
    """Base class of the methods: derive a frozen dataclass from it and write `run`.

    The class owns what all methods share: the checks of a call, the clock, the progress line, the
    test whether output ranges prove the problem infeasible, and the result of a run that its time
    limit, its callback or Ctrl-C ends early.
    """

    callback: Callback | None = None
    checks_ranges_first: ClassVar[bool] = True
    """Whether output ranges may prove the problem infeasible before any other work."""

    @property
    def method(self) -> str:
        """Name of the method, as in `Solution.method`."""
        raise NotImplementedError

    def prepare(self, run: Run) -> None:
        """Change the run before it starts, for example its start."""

    def run(self, run: Run) -> Solution:
        """Work on the problem until the run is over, and return its solution."""
        raise NotImplementedError

    def interrupted(self, run: Run, status: str) -> Solution:
        """Return the solution of a run that ended early with this status."""
        return run.interrupted_solution(status)

    @renamed_keywords(visit="on_point")
    def solve(
        self,
        problem: NeuralMIP,
        time_limit: float = 60.0,
        seed: int = 0,
        progress: bool = False,
        on_point: PointCallback | None = None,
    ) -> Solution:
        """Solve a problem and return the best verified point.

        Parameters
        ----------
        problem
            The problem.
        time_limit
            Seconds after which the run ends and returns what it has.
        seed
            Seed of all random numbers; the same seed gives the same run.
        progress
            Whether the screen shows seconds, best objective, bound and gap during the run.
        on_point
            Function that is called with the network inputs of every evaluated point.

        Returns
        -------
        Solution
            The best verified point, or the least infeasible one, and a bound if there is one.

        Raises
        ------
        TypeError
            If `problem` is not a `NeuralMIP`.
        ValueError
            If `time_limit` or `seed` has an invalid value.
        ProblemError, UnsupportedNetworkError
            If the method cannot solve such a problem.
        """
        run = start_run(problem, time_limit, seed, on_point, self.callback, self.method)
        self.prepare(run)

        def checked_run() -> Solution:
            infeasible = infeasible_solution(run) if self.checks_ranges_first else None
            return infeasible or self.run(run)

        return run.finish(checked_run, lambda status: self.interrupted(run, status), progress)


def infeasible_solution(run: Run) -> Solution | None:
    """Return the solution "infeasible" if output ranges prove it, else None.

    Its report states which constraints the start, or else the middle of the box, violates.

    Raises
    ------
    ProofError
        If a feasible point was verified: a fault of this library.
    """
    if run.time_limit <= 0 or not infeasible_by_ranges(run.instance):
        return None
    incumbent = run.incumbent()
    if incumbent.nearest.point is None:
        milp = run.instance.milp
        ends = np.stack([milp.lower, milp.upper])
        finite = np.where(np.isfinite(ends), ends, np.clip(0.0, *ends))
        incumbent.consider((0.5 * finite).sum(axis=0))
    if incumbent.values is not None:
        raise ProofError(
            "output ranges prove that no point is feasible, and one was verified: please report"
            " this problem."
        )
    details = {"proved_by": "ranges of the networks' outputs"}
    return replace(run.solution("infeasible"), details=details)

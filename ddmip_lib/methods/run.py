"""One call of a method: its problem, its clock, its incumbent, and the solution it returns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy import ndarray

from ..clock import (
    Limit,
    Stopped,
    TimeOver,
    interrupt,
    limited,
    marking_interrupts,
    now,
    unlimited,
)
from ..errors import ProblemError
from ..model.goal import Goal
from ..model.incumbent import Incumbent, PointCallback, Repair
from ..model.instance import Instance
from ..model.log import Log, LogEntry
from ..model.onoff import OnOff
from ..model.problem import NeuralMIP
from ..model.progress import ProgressLine, report_progress, watched
from ..model.solution import History, Proof, Solution
from ..programs import Program, Proved, prove
from ..proofs.checking import closes_gap, cutoff, incumbent_cost, status_of_gap, submit_point


class ProgressEvent(NamedTuple):
    """The argument of a solver's `callback`, which is called after each iteration, round, step or
    node. If it returns a true value, the run stops with status "stopped", unless it has just
    terminated by itself.

    `DualDecomposition` passes its whole state instead, which has these four attributes too.

    Attributes
    ----------
    iteration
        Number of the call, from 1.
    objective
        Objective of the incumbent, None where no point was verified yet.
    bound
        The solver's current bound on the optimum, verified or not; None where there is none.
    seconds
        Seconds since the start of the run.
    """

    iteration: int
    objective: float | None
    bound: float | None
    seconds: float


Callback = Callable[[Any], Any]
"""A function that takes a `ProgressEvent`, or the state of the method, and may end the run."""
ENDED_BY_USER = "Ctrl-C or the callback ended the run"
ENDED_BY_TIME_LIMIT = "the time limit ended the run"
STATUSES_KEPT_AFTER_INTERRUPT = ("optimal", "gap_limit", "infeasible", "stopped")
"""Statuses that an interruption during the last steps of a run does not change."""
SECONDS_FOR_START_AFTER_LIMIT = 0.1
"""Seconds for completing the problem's start if the time limit ended the run before that."""


class HasBound(Protocol):
    """The result of a method: a `Solution`, or a bound."""

    @property
    def status(self) -> str: ...
    @property
    def bound(self) -> float | None: ...


Result = TypeVar("Result", bound=HasBound)
AnySolution = TypeVar("AnySolution", bound=Solution)


@dataclass(eq=False)
class Run:
    """State common to all methods: the arguments of one call, its clock, its incumbent.

    `start_run` checks the arguments and creates it.

    Attributes
    ----------
    problem, seed, time_limit
        Arguments of the call.
    began
        Start of the run, in seconds of the clock in force (`ddmip_lib.clock.now`).
    on_point
        Function that is called with the network inputs of every evaluated point.
    callback
        Function that is called with a `ProgressEvent`.
    method
        Name of the method, as in `Solution.method`.
    best
        Incumbent of the run, None before `incumbent` was called.
    history, details
        History and details of the solution.
    lower_bound, proof
        Best checked bound, of the problem as a minimisation, and its proof.
    state
        Whatever the method keeps between iterations, so that an interrupted run can be finished.
    events
        Number of calls of the callback so far.
    limit
        Time limit in force while the method works; the callback may end it early.
    goal
        Gap and objective at which the run may end.
    """

    problem: NeuralMIP
    seed: int
    time_limit: float
    began: float
    on_point: PointCallback | None = None
    callback: Callback | None = None
    method: str = ""
    best: Incumbent | None = None
    history: History = field(default_factory=History)
    details: dict[str, Any] = field(default_factory=dict)
    lower_bound: float = -np.inf
    proof: Proof | None = None
    state: Any = None
    events: int = 0
    limit: Limit | None = None
    goal: Goal = field(default_factory=Goal)

    @cached_property
    def instance(self) -> Instance:
        """The problem as arrays and maps, read when it is first used."""
        return self.problem.instance()

    @cached_property
    def start(self) -> list[ndarray] | None:
        """Inputs of all predictors from which the run starts, None without a start."""
        return self.instance.full_start(self.problem.start)

    @property
    def deadline(self) -> float:
        """End of the time limit, in seconds of the clock in force."""
        return self.began + self.time_limit

    @property
    def seconds(self) -> float:
        """Seconds since the start of the run."""
        return now() - self.began

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline; negative after it."""
        return self.deadline - now()

    @property
    def interrupted(self) -> bool:
        """Whether a part of the run caught Ctrl-C and kept a partial result."""
        return self.limit is not None and self.limit.interrupted

    def incumbent(
        self,
        onoff: Sequence[OnOff] = (),
        screen_on: torch.device | None = None,
        with_start: bool = True,
        repair: Repair | None = None,
    ) -> Incumbent:
        """Create the incumbent of this run and submit the problem's start to it.

        Parameters
        ----------
        onoff
            On/off variables of the MIP block, which make completions faster.
        screen_on
            Device on which points are evaluated before they are verified on the CPU.
        with_start
            Whether the problem's start is submitted.
        repair
            Function that searches for a feasible point near an infeasible start.
        """
        incumbent = Incumbent(self.instance, self.began, onoff, screen_on, self.on_point)
        incumbent.goal = self.goal
        self.best = incumbent
        if with_start and not self.problem.start_failed:
            incumbent.consider_start(self.start, self.time_limit, repair)
        return incumbent

    def verified(self, solution: Solution | None) -> Incumbent:
        """Create the incumbent of this run from the point of a solution, verified again.

        Parameters
        ----------
        solution
            A solution of the problem; without a point, the incumbent has none.

        Raises
        ------
        ProblemError
            If the point is not feasible.
        """
        incumbent = self.incumbent(with_start=False)
        values = getattr(solution, "values", None)
        if values is not None and not incumbent.consider(values).feasible:
            raise ProblemError(
                "the solution is not feasible for this problem: pass the problem that was solved."
            )
        return incumbent

    @property
    def bound(self) -> float | None:
        """The checked bound in the sense of the user's model, no better than the incumbent; None
        where there is no finite one.
        """
        if self.best is None or not np.isfinite(self.lower_bound):
            return None
        cost = min(self.lower_bound, incumbent_cost(self.best))
        return float(self.instance.milp.sign * cost)

    @property
    def gap_closed(self) -> bool:
        """Whether the checked bound is as close to the incumbent as the goal requires."""
        return self.best is not None and closes_gap(self.best, self.lower_bound)

    @property
    def closed_status(self) -> str:
        """Status of the run, whose gap is closed."""
        assert self.best is not None
        return status_of_gap(self.best, self.lower_bound)

    def raise_bound(self, lower_bound: float, proof: Proof | None = None) -> None:
        """Keep a checked bound if it is the best one so far.

        Parameters
        ----------
        lower_bound
            The bound, of the problem as a minimisation; inf: there is no point.
        proof
            Its proof, by the method of this run if left out.
        """
        if lower_bound > self.lower_bound:
            self.lower_bound = lower_bound
            self.proof = proof or self._proof_by(self.method)

    def _proof_by(self, method: str) -> Proof:
        return Proof(self.instance.digest, method, checked=True)

    def prove(
        self,
        program: Program,
        max_nodes: float = np.inf,
        deadline: float = np.inf,
        repair: Callable[[ndarray], Any] | None = None,
        patient: bool = True,
        source: str = "",
    ) -> Proved:
        """Prove a bound by branch and bound, best of all that the incumbent is optimal, and keep
        it. Better points that are found become the incumbent.

        Parameters
        ----------
        program
            An exact model or a relaxation of the problem, whose first variables are those of the
            problem.
        max_nodes, deadline, patient
            Limits of the search, as for `ddmip_lib.programs.prove`, besides the time limit.
        repair
            Function that looks for a feasible point near one that fails verification.
        source
            Name of the method in the proof; that of the run if left out.

        Returns
        -------
        Proved
            The bound that this search has proved, of the problem as a minimisation.
        """
        incumbent = self.best
        assert incumbent is not None
        sign = self.instance.milp.sign

        def on_point(point: ndarray) -> float:
            submit_point(incumbent, point, repair)
            return cutoff(incumbent)

        def on_bound(bound: float) -> None:
            report_progress(bound=sign * bound)

        proved = prove(
            program,
            cutoff(incumbent),
            min(self.deadline, deadline),
            on_point,
            max_nodes,
            patient,
            on_bound if watched() else None,
        )
        on_bound(proved.bound)
        self.raise_bound(proved.bound, self._proof_by(source or self.method))
        return proved

    def notify(self, bound: float | None = None, objective: float | None = None) -> bool:
        """Call the callback and return whether it ends the run.

        Parameters
        ----------
        bound
            The method's current bound in the sense of the user's model.
        objective
            Objective of the best point; that of the incumbent if left out.
        """
        if self.callback is None:
            return False
        if objective is None and self.best is not None:
            objective = self.best.objective
        self.events += 1
        stop = bool(self.callback(ProgressEvent(self.events, objective, bound, self.seconds)))
        self.stop(stop)
        return stop

    def stop(self, wanted: bool) -> None:
        """End the run at the next `check_time` if `wanted`."""
        if wanted and self.limit is not None:
            self.limit.stopped = True

    def solution(self, status: str, **fields: Any) -> Solution:
        """Return the incumbent, or the least infeasible point, as the solution of this run.

        Parameters
        ----------
        status
            One of `ddmip_lib.model.solution.STATUSES`.
        **fields
            Further fields of `Solution`, for example `bound` and `proof`.
        """
        point: dict[str, Any] = {}
        details = dict(self.details)
        if self.best is not None:
            point = self.best.point()
            details["incumbents"] = self.best.found
            if self.instance.left_out:
                details.setdefault("left_out", list(self.instance.left_out))
        return Solution(
            status,
            self.method,
            **point,
            **fields,
            gap_tolerance=self.goal.gap,
            history=self.history,
            seconds=self.seconds,
            details=details,
        )

    def interrupted_solution(self, status: str) -> Solution:
        """Return the solution of a run that ended early, with an entry of the log that states why.

        Parameters
        ----------
        status
            "time_limit", or "stopped" after Ctrl-C or a callback.
        """
        if status != "time_limit":
            self.details["interrupted"] = True
            return _with_log(self.solution(status))
        if self.best is None and "instance" in vars(self):
            self.incumbent(with_start=False)
        if self.best is not None and self.best.values is None:
            seconds = min(self.time_limit, SECONDS_FOR_START_AFTER_LIMIT)
            self.best.consider_start(self.start, seconds)
        return _with_log(self.solution(status))

    def finish(
        self,
        solve: Callable[[], Result],
        so_far: Callable[[str], Result],
        progress: bool = False,
    ) -> Result:
        """Return the result of `solve`, or of `so_far(status)` if the run ends early.

        Parameters
        ----------
        solve
            Function that solves the problem within the time limit.
        so_far
            Function that makes a result of what was found, without a time limit. Its argument is
            "time_limit" after the deadline, "stopped" after Ctrl-C or by the callback.
        progress
            Whether the screen shows seconds, best objective, bound and gap during the run.
        """
        status = None
        line = ProgressLine(self.problem, self.method, self.began, progress)
        with line, limited(self.deadline) as self.limit, marking_interrupts():
            try:
                result = solve()
            except TimeOver:
                status = "time_limit"
            except KeyboardInterrupt as reason:
                status = "stopped"
                if not isinstance(reason, Stopped):
                    interrupt()  # the calls around this one too
            with unlimited():
                if status is None and self.interrupted:  # a part of the method caught Ctrl-C
                    kept = result.status in STATUSES_KEPT_AFTER_INTERRUPT
                    status = None if kept else "stopped"
                if status is not None:
                    result = so_far(status)
                if isinstance(result, Solution) and result.status == "stopped":
                    result = _with_log(result)
                report_progress(bound=result.bound)
                # A state refers to its run: without this both, and the models of SCIP that they
                # hold, would stay until the next garbage collection.
                self.state = None
                return result


def _with_log(solution: AnySolution) -> AnySolution:
    """Return a solution with a log; without one, its only entry states why the run ended."""
    reason = ENDED_BY_TIME_LIMIT if solution.status == "time_limit" else ENDED_BY_USER
    objective = solution.objective
    bound = solution.bound
    entry = LogEntry(solution.method, solution.status, objective, bound, solution.seconds, reason)
    log = solution.details.get("log") or Log([entry])
    return replace(solution, details={**solution.details, "log": log})


def start_run(
    problem: NeuralMIP,
    time_limit: float,
    seed: int,
    on_point: PointCallback | None = None,
    callback: Callback | None = None,
    method: str = "",
) -> Run:
    """Start the clock and check the arguments of a call before any long work.

    Parameters
    ----------
    problem
        The problem.
    time_limit
        Seconds after which the run ends; infinite for no limit.
    seed
        Seed of all random numbers.
    on_point
        Function that is called with the network inputs of every evaluated point.
    callback
        Function that is called with a `ProgressEvent`, and may end the run.
    method
        Name of the method.

    Returns
    -------
    Run
        The run.

    Raises
    ------
    TypeError
        If `problem` is not a `NeuralMIP`, or `callback` cannot be called.
    ValueError
        If `time_limit` is not a number, or `seed` not a nonnegative integer.
    """
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
    return Run(problem, int(seed), float(time_limit), began, on_point, callback, method)

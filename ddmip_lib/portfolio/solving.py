"""`solve`: run the methods of a plan one after another from one incumbent, and prove a bound."""

import itertools
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from ..certificates import certify
from ..clock import now
from ..errors import ProofError
from ..linearisation.first_points import submit_first_points
from ..linearisation.neighbourhood import FeasibilityRepair
from ..linearisation.repair import near_start
from ..methods import Callback, ProgressEvent, Run
from ..methods.method import infeasible_solution
from ..methods.run import ENDED_BY_TIME_LIMIT, ENDED_BY_USER, start_run
from ..model.blocks import Blocks
from ..model.goal import Goal
from ..model.incumbent import Incumbent, PointCallback
from ..model.left_out import left_out
from ..model.log import Log, LogEntry
from ..model.problem import NeuralMIP
from ..model.progress import logger, report_progress
from ..model.solution import Solution, contradiction
from ..model.text import shown
from ..pricing.recognition import find_blocks
from ..proofs.checking import require_uncrossed
from ..proofs.exact import exact_program
from ..renamed import renamed_keywords
from .choosing import PlannedMethod, methods_for
from .components import ComponentSearch, checked_bound, components_of
from .options import SolveOptions, torch_threads
from .proving import WITHOUT_PROOF, planned_proof

PROVED = ("optimal", "gap_limit", "infeasible")
"""Statuses that end a run with a proof."""
OPEN = ("converged", "no_solution_found")
"""Statuses of a run that other methods or proofs may continue."""
MAX_ROUNDS_WITHOUT_IMPROVEMENT = 3
"""Rounds of all methods in a row without a better point that end the search for points, at least:
no fewer than the rounds until the last better point.
"""
EXPLORED = "an exact model of the whole problem has no better point"
NOTHING_LEFT = "rounds with other seeds found nothing better, and no other proof is left"
"""Reasons to end before the time limit with an open gap."""
LINEAR_BOUND_TIME_FRACTION = 0.3
"""Fraction of the time left for a bound by linear bounds before further rounds of the methods."""
MAX_INPUTS_FOR_ALL_TIME = 8
"""Free inputs up to which such a bound may take all the time left."""
ENDED_BY_ITSELF = 0.9
"""Fraction of its time limit below which a certificate counts as complete."""


@renamed_keywords(visit="on_point")
def solve(
    problem: NeuralMIP,
    time_limit: float = 60.0,
    seed: int = 0,
    progress: bool = False,
    on_point: PointCallback | None = None,
    callback: Callback | None = None,
    client: Any = None,
    *,
    gap: float | None = None,
    absolute_gap: float = 0.0,
    target: float | None = None,
    threads: int | None = None,
    points_only: bool = False,
    proof_only: bool = False,
) -> Solution:
    """Return the best verified point found within the time, and a checked bound if one is proved.

    Parts of the problem without a common constraint or network sample are solved one by one, and
    their points and bounds added. Without a feasible start, cheap candidates are evaluated and
    completed first. Then the methods of the plan (`methods_for`) run one after another, each from
    the incumbent: an enumeration of all combinations of inputs if they are few, price coordination
    if blocks share resources, sequential linearisation, Algorithm 1. A proof follows, which may
    find a better point. If its bound rises too slowly, it is given up, and the methods run again
    with other seeds; then the proof is tried again with all the time that is left.

    The run ends as soon as the gap is closed. With the status "converged" or "no_solution_found"
    it ends before its time limit if an exact model of the whole problem has no better point, or if
    no further proof is left and as many rounds of all methods in a row found nothing better as
    there were until the last better point, at least three; ``details["ended"]`` states which. If
    enumeration ends with status "claimed_optimal" and no proof succeeds, so does `solve`, and
    ``details["checked_bound"]`` is the bound that was proved.

    The result is the same in every call with the same arguments, provided that no method reaches
    its time limit and no proof is given up.

    Parameters
    ----------
    problem
        The problem.
    time_limit
        Seconds after which the run ends and returns what it has.
    seed
        Seed of all random numbers.
    progress
        Whether a line on the screen shows how the run is going.
    on_point
        Function that is called with the network inputs of every evaluated point.
    callback
        Function that is called with a `ProgressEvent` of any method; if it returns a true value,
        the run stops.
    client
        A `distributed.Client` for price coordination and certificates.
    gap
        |objective - bound| / |objective| at which the run ends: with the status "optimal" if it
        is at most 1e-4, else "gap_limit". By default proofs end at 1e-5, and a gap of at most
        1e-4 counts as closed.
    absolute_gap
        Difference of objective and bound at which the run ends too.
    target
        Objective at which the run ends with the status "target_reached": as soon as a method has
        verified a point at least as good.
    threads
        Threads of PyTorch during the run, and processes of a proof at most; SCIP and HiGHS use one
        thread. None leaves both as they are.
    points_only
        Whether only methods run, and no proof follows.
    proof_only
        Whether only a proof runs, of the start (`NeuralMIP.set_start`) if there is one.

    Returns
    -------
    Solution
        Its ``details["log"]`` names the methods that ran, and why; ``details["left_out"]`` what
        proofs leave out of the problem (`LeftOut`).

    Raises
    ------
    TypeError
        If `problem`, `callback` or `client` has the wrong type.
    ValueError
        If an argument has an invalid value, or the problem has no predictor.

    Examples
    --------
    >>> from ddmip_lib.problems import hand_sized
    >>> solution = solve(hand_sized())
    >>> solution.status, round(solution.objective, 6)
    ('optimal', 0.5)
    >>> [entry.method for entry in solution.details["log"]]
    ['enumeration']
    """
    options = SolveOptions(client, threads, points_only, proof_only)
    run = start_run(problem, time_limit, seed, on_point, callback, "solve")
    run.goal = Goal.of(gap, absolute_gap, target)
    portfolio = Portfolio(run, options)
    with torch_threads(threads):
        return run.finish(portfolio.run_plan, portfolio.interrupted, progress)


@dataclass(eq=False)
class Portfolio:
    """State of one call of `solve`: the incumbent, the best checked bound, and the log.

    Attributes
    ----------
    run, options
        Arguments of the call, its clock and its checked bound; and its other options.
    problem
        Copy of the user's problem whose start is the incumbent.
    prices
        Prices of the last method that has found some.
    claim
        Result of the last method if its status is "claimed_optimal", else None.
    ended
        "time_limit" or "stopped" if that has ended the run, else empty.
    explored
        Whether an exact model of the whole problem had no better point than the incumbent.
    proof_complete
        Whether another proof would give the same bound.
    """

    run: Run
    options: SolveOptions
    log: Log = field(default_factory=Log)
    prices: Any = None
    claim: Solution | None = None
    ended: str = ""
    explored: bool = False
    proof_complete: bool = False

    def __post_init__(self) -> None:
        self.run.details["log"] = self.log
        self.problem = self.run.problem.with_own_start()
        self.in_progress = "reading the problem", self.run.began

    @cached_property
    def incumbent(self) -> Incumbent:
        """The best point, at first the start or one close to it."""
        return self.run.incumbent(repair=near_start)

    @property
    def status(self) -> str:
        """Status of the run if it ended now."""
        no_point = self.incumbent.values is None
        if no_point and self.run.lower_bound == np.inf:
            return "infeasible"
        if self.run.gap_closed:
            return self.run.closed_status
        if self.incumbent.reached_target:
            return "target_reached"
        if self.run.interrupted:
            return "stopped"
        if self.ended or self.run.seconds_left <= 0:
            return self.ended or "time_limit"
        return "no_solution_found" if no_point else "converged"

    @property
    def over(self) -> bool:
        """Whether the run ends before any other method or proof."""
        return self.status not in OPEN

    def run_plan(self) -> Solution:
        """Solve the problem, or each of its components, or only prove a bound."""
        self.problem.start_failed = self.incumbent.values is None
        infeasible = infeasible_solution(self.run)
        if infeasible is not None:
            self.in_progress = "ranges", self.run.began
            self.record("infeasible", "ranges of the networks' outputs contradict the constraints")
            infeasible.details["log"] = self.log
            return infeasible
        omitted = left_out(self.run.instance)
        if omitted:
            self.run.details["left_out"] = omitted
        for part in omitted:
            logger.info("%s", part)
        components = components_of(self.run)
        if components:
            ComponentSearch(self, components, solve).search()
        elif self.options.proof_only:
            self.prove(last=True)
        else:
            self.search()
        return self.solution()

    def search(self) -> None:
        """Run first points, the methods and a proof, then the methods and the proof again."""
        for omitted in self.run.instance.left_out:
            self.in_progress = "reformulation", now()
            self.record("left out", str(omitted))
        self.in_progress = "first points", now()
        tried = submit_first_points(self.run, self.incumbent)
        if tried:
            found = self.incumbent.values is not None
            self.record("found" if found else "no_solution_found", tried)
        plan = methods_for(self.problem, self.run.instance, self.options.client)
        self.first_round(plan)
        self.prove()
        self.further_rounds(plan)
        if self.claim is None:  # a second proof of a claim would fail as the first one did
            self.prove(last=True)

    def first_round(self, plan: list[PlannedMethod]) -> None:
        """Run each method once, or as long as it improves the incumbent if the plan says so."""
        for planned in plan:
            for number in itertools.count():
                seconds = planned.fraction * self.run.seconds_left
                improved = self.run_method(planned, seconds, number)
                if not (improved and planned.repeat_while_improving):
                    break

    def further_rounds(self, plan: list[PlannedMethod]) -> None:
        """Run the methods with other seeds until several rounds in a row find nothing better: as
        many as there were until the last better point.
        """
        last_better = 0
        for number in itertools.count(1):
            failed = number - 1 - last_better
            if self.over or self.explored:
                return
            if failed >= max(MAX_ROUNDS_WITHOUT_IMPROVEMENT, last_better):
                return
            for planned in plan:
                seconds = planned.later_fraction * self.run.time_limit
                if planned.later_fraction and self.run_method(planned, seconds, number):
                    last_better = number

    def run_method(self, planned: PlannedMethod, seconds: float, number: int) -> bool:
        """Run a method unless the run is over; return whether the incumbent is another one."""
        if self.over or self.explored:
            return False
        before = self.incumbent.objective
        seconds = min(seconds, self.run.seconds_left)
        self.take(planned.solver, seconds, planned.reason, self.run.seed + number)
        return self.incumbent.objective != before

    def take(self, solver: Any, seconds: float, why: str, seed: int) -> None:
        """Run a method from the incumbent and take over its point, its bound and its prices."""
        self.in_progress = solver.method, now()
        logger.debug("%s begins, for %.3g s: %s", solver.method, seconds, why)
        self._start_at_incumbent()
        if self.run.callback is not None or self.run.goal.target is not None:
            solver = replace(solver, callback=self.notify)
        found = solver.solve(self.problem, seconds, seed, on_point=self.run.on_point)
        self._take_over(found)
        self.prices = found.details.get("prices", self.prices)
        self.claim = found if found.status == "claimed_optimal" else None
        explored_radius = found.details.get("explored_radius", 0.0)
        self.explored = explored_radius >= 1.0 or self.claim is not None
        if "interrupted" in found.details:
            self.ended = "stopped"
        self.record(found.status, why)

    def _start_at_incumbent(self) -> None:
        if self.incumbent.values is None:
            return
        stated = self.run.instance.stated
        values = self.run.instance.restrict(self.incumbent.values)
        self.problem.start = stated.inputs(values)
        self.problem.start_failed = False
        self.problem.start_point = dict(zip(stated.milp.position, values.tolist(), strict=False))

    def _take_over(self, found: Solution) -> None:
        """Submit the point of a method, and keep its bound if it was checked, also beside a claim;
        without a feasible point it is infinite.
        """
        values = found.values if found.nearest is None else found.nearest.values
        if values is not None:
            self._submit(values, found.details.get("incumbents", []))
        bound = checked_bound(found)
        if bound is not None and found.proof is not None:
            proof = found.proof
            if "checked_bound" in found.details:
                proof = replace(proof, checked=True, margin=0.0)
            self.run.raise_bound(self.run.instance.milp.sign * bound, proof)
        if found.status == "infeasible" and self.incumbent.values is None:
            self.run.raise_bound(np.inf)

    def _submit(self, values: ndarray, incumbents: list[tuple[float, float]]) -> None:
        """Submit a point, dated when the method found it."""
        offset = self.in_progress[1] - self.run.began
        improvements = [
            (offset + seconds, objective)
            for seconds, objective in incumbents
            if self.incumbent.better(objective)
        ]
        self.incumbent.consider(values)
        if improvements and improvements[-1][1] == self.incumbent.objective:
            self.incumbent.found[-1:] = improvements

    def notify(self, event: ProgressEvent) -> bool:
        """Pass on the event of a method with the best objective and bound of the whole run; return
        whether the method ends, by the callback or at the target.
        """
        objective = event.objective
        if objective is not None and not self.incumbent.better(objective):
            objective = self.incumbent.objective
        bound = event.bound if self.run.bound is None else self.run.bound
        if self.run.notify(bound, objective):
            self.ended = "stopped"
            return True
        return self.run.goal.reached(objective, self.run.instance.milp.sign)

    def record(self, status: str, why: str) -> None:
        """Append what was in progress to the log, with the status with which it ended."""
        method, began = self.in_progress
        objective = self.incumbent.objective
        entry = LogEntry(method, status, objective, self.run.bound, now() - began, why)
        self.log.append(entry)
        numbers = shown(entry.objective), shown(entry.bound)
        logger.debug("%s ends: %s, objective %s, bound %s: %s", method, status, *numbers, why)
        report_progress("solve", entry.bound, turn=True)

    def interrupted(self, status: str) -> Solution:
        """Return the solution of a run that the time limit, a callback or Ctrl-C has ended."""
        if "incumbent" not in vars(self):
            return self.run.interrupted_solution(status)
        self.ended = status
        self.record(status, ENDED_BY_USER if status == "stopped" else ENDED_BY_TIME_LIMIT)
        return self.solution()

    def prove(self, last: bool = False) -> None:
        """Prove a bound: by prices, by an exact model of the networks, or by linear bounds.

        A proof that will not be complete in time leaves time to the methods, unless it is the
        `last` or no method would find a better point.
        """
        if self.over or self.proof_complete or self.options.points_only:
            return
        instance = self.run.instance
        seconds = self.run.seconds_left
        no_point = self.incumbent.values is None
        patient = last or (self.claim is None and (self.explored or no_point))
        self.in_progress = "proof", now()
        report_progress("proof", float(instance.milp.sign * self.run.lower_bound), turn=True)
        priced = isinstance(find_blocks(self.problem, instance), Blocks)
        planned = planned_proof(instance, priced, not no_point)
        if planned.method in WITHOUT_PROOF:
            self.proof_complete = True
            self.record(*planned)
            return
        if planned.method == "exact model":
            self._prove_by_exact_model(patient)
            return
        few_inputs = len(instance.free_inputs) <= MAX_INPUTS_FOR_ALL_TIME
        all_time = planned.method == "prices" or patient or (self.claim is None and few_inputs)
        fraction = 1.0 if all_time else LINEAR_BOUND_TIME_FRACTION
        self._prove_by_certificate(planned.reason, fraction * seconds)

    def _prove_by_exact_model(self, patient: bool) -> None:
        run = self.run
        program = exact_program(run.instance, self.incumbent.units)
        repair = FeasibilityRepair(self.incumbent, run.deadline, run.seed)
        proved = run.prove(program, repair=repair, patient=patient, source="exact model")
        self.proof_complete = proved.complete
        if not run.instance.milp.others:
            self.explored = proved.complete
        status = self.status
        if status not in PROVED:
            status = "given up" if run.seconds_left > 0 else "time_limit"
            status = "open" if proved.complete else status
        self.record(status, f"exact model, {proved.nodes} nodes")

    def _prove_by_certificate(self, why: str, seconds: float) -> None:
        """Certify the incumbent by its bound, within these seconds."""
        given = self.run.solution("converged")
        if self.prices is not None:
            given.details["prices"] = self.prices
        found = certify(
            self.problem,
            given,
            time_limit=seconds,
            workers=self.options.threads if self.options.client is None else None,
            seed=self.run.seed,
            client=self.options.client,
            gap=self.run.goal.gap_argument,
            absolute_gap=self.run.goal.absolute_gap,
        )
        self.proof_complete = now() - self.in_progress[1] < ENDED_BY_ITSELF * seconds
        if found.status == "infeasible" and self.incumbent.values is not None:
            raise ProofError(
                "a certificate proves that no point is feasible, and one was verified: please"
                " report this problem."
            )
        self._take_over(found)
        self.record("open" if found.status == "converged" else found.status, why)

    def solution(self) -> Solution:
        """Return the incumbent with the checked bound, or with a claim that it does not refute."""
        require_uncrossed(self.incumbent, self.run.lower_bound, "proved during the run")
        status = self.status
        bound = self.run.bound
        if status == "stopped":
            self.run.details["interrupted"] = True
        elif status in OPEN:
            self.run.details["ended"] = EXPLORED if self.explored else NOTHING_LEFT
        proof = None if bound is None else self.run.proof
        found = self.run.solution(status, bound=bound, proof=proof)
        if self.claim is None or status not in ("converged", "time_limit"):
            return found
        claimed = replace(found, bound=self.claim.bound, proof=self.claim.proof)
        if contradiction(claimed, "claimed_optimal"):
            return found
        if bound is not None:
            claimed.details["checked_bound"] = bound
        return replace(claimed, status="claimed_optimal")

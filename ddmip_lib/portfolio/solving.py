"""`solve`: run the methods of a plan one after another from one incumbent, and prove a bound."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from ..certificates import certify
from ..clock import now
from ..errors import ProofError, UnsupportedNetworkError
from ..linearisation.neighbourhood import FeasibilityRepair
from ..linearisation.repair import near_start
from ..methods import Callback, ProgressEvent, Run
from ..methods.method import infeasible_solution
from ..methods.run import ENDED_BY_TIME_LIMIT, ENDED_BY_USER, start_run
from ..model.blocks import Blocks
from ..model.incumbent import Incumbent, PointCallback
from ..model.log import Log, LogEntry
from ..model.problem import NeuralMIP
from ..model.progress import report_progress
from ..model.solution import Solution, contradiction
from ..pricing.recognition import find_blocks
from ..proofs.checking import require_uncrossed
from ..proofs.exact import MAX_EXACT_UNITS, exact_program
from ..renamed import renamed_keywords
from ..workers import check_client
from .choosing import PlannedMethod, methods_for

PROVED = ("optimal", "infeasible")
"""Statuses that end a run with a proof."""
MAX_ROUNDS_WITHOUT_IMPROVEMENT = 3
"""Rounds of all methods in a row without a better point that end the search for points."""
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
) -> Solution:
    """Return the best verified point found within the time, and a checked bound if one is proved.

    The methods of the plan (`methods_for`) run one after another, each from the incumbent: an
    enumeration of all combinations of inputs if they are few, price coordination if blocks share
    resources, sequential linearisation, Algorithm 1. A proof follows, which may find a better
    point. If its bound rises too slowly, it is given up, and the methods run again with other
    seeds until the time is over or three rounds find nothing better; then the proof is tried
    again. If an exact model of the whole problem has no better point, the proof follows at once.
    If enumeration ends with status "claimed_optimal" and no proof succeeds, so does `solve`, and
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

    Returns
    -------
    Solution
        Its ``details["log"]`` names the methods that ran, and why.

    Raises
    ------
    TypeError
        If `problem`, `callback` or `client` has the wrong type.
    ValueError
        If `time_limit` or `seed` has an invalid value, or the problem has no predictor.

    Examples
    --------
    >>> from ddmip_lib.problems import hand_sized
    >>> solution = solve(hand_sized())
    >>> solution.status, round(solution.objective, 6)
    ('optimal', 0.5)
    >>> [entry.method for entry in solution.details["log"]]
    ['enumeration']
    """
    check_client(client)
    run = start_run(problem, time_limit, seed, on_point, callback, "solve")

    def run_plan() -> Solution:
        run.state = Portfolio(run, run.incumbent(repair=near_start), client)
        return run.state.run_plan()

    def interrupted(status: str) -> Solution:
        if run.state is None:
            return run.interrupted_solution(status)
        run.state.interrupt(status)
        return run.state.solution()

    return run.finish(run_plan, interrupted, progress)


class Portfolio:
    """State of one call of `solve`: the incumbent, the best checked bound, and the log.

    Attributes
    ----------
    problem
        Copy of the user's problem whose start is the incumbent.
    claim
        Result of the last method if its status is "claimed_optimal", else None.
    explored
        Whether an exact model of the whole problem had no better point than the incumbent.
    proof_complete
        Whether another proof would give the same bound.
    """

    def __init__(self, run: Run, incumbent: Incumbent, client: Any = None) -> None:
        self.run = run
        self.incumbent = incumbent
        self.client = client
        self.log = run.details["log"] = Log()
        self.problem = run.problem.with_own_start()
        self.problem.start_failed = incumbent.values is None
        self.status = "converged"
        self.prices = None
        self.stopped = False
        self.in_progress = "reading the problem", run.began
        self.claim: Solution | None = None
        self.explored = False
        self.proof_complete = False

    @property
    def over(self) -> bool:
        """Whether the run ends before any other method or proof."""
        ended = self.status != "converged" or self.run.interrupted
        return ended or self.run.seconds_left <= 0

    def run_plan(self) -> Solution:
        """Run all methods of the plan, then proofs and further rounds of the methods."""
        infeasible = infeasible_solution(self.run)
        if infeasible is not None:
            reason = "ranges of the networks' outputs contradict the constraints"
            self.record("ranges", infeasible.status, self.run.began, reason)
            return replace(infeasible, details={**infeasible.details, "log": self.log})
        plan = methods_for(self.problem, self.run.instance, self.client)
        self.first_round(plan)
        no_point = self.incumbent.values is None
        self.prove(patient=self.claim is None and (self.explored or no_point))
        self.further_rounds(plan)
        if self.claim is None:  # a second proof of a claim would fail as the first one did
            self.prove()
        return self.solution()

    def first_round(self, plan: list[PlannedMethod]) -> None:
        """Run each method once, or as long as it improves the incumbent if the plan says so."""
        for planned in plan:
            for number in itertools.count():
                seconds = planned.fraction * self.run.seconds_left
                improved = self.run_method(planned, seconds, number)
                if not (improved and planned.repeat_while_improving):
                    break

    def further_rounds(self, plan: list[PlannedMethod]) -> None:
        """Run the methods with other seeds until several rounds in a row find nothing better."""
        failed = 0
        for number in itertools.count(1):
            if self.over or self.explored or failed == MAX_ROUNDS_WITHOUT_IMPROVEMENT:
                return
            failed += 1
            for planned in plan:
                seconds = planned.later_fraction * self.run.time_limit
                if planned.later_fraction and self.run_method(planned, seconds, number):
                    failed = 0

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
        began = now()
        self.in_progress = solver.method, began
        self._start_at_incumbent()
        if self.run.callback is not None:
            solver = replace(solver, callback=self.notify)
        found = solver.solve(self.problem, seconds, seed, on_point=self.run.on_point)
        self._take_point(found, began)
        self._take_bound(found)
        self.prices = found.details.get("prices", self.prices)
        self.claim = found if found.status == "claimed_optimal" else None
        explored_radius = found.details.get("explored_radius", 0.0)
        self.explored = explored_radius >= 1.0 or self.claim is not None
        if "interrupted" in found.details or self.stopped:
            self.status = "stopped"
        elif found.status == "infeasible" and self.incumbent.values is None:
            self.status = "infeasible"
        self.record(found.method, found.status, began, why)

    def _start_at_incumbent(self) -> None:
        values = self.incumbent.values
        if values is None:
            return
        instance = self.run.instance
        self.problem.start = instance.inputs(values)
        self.problem.start_failed = False
        self.problem.start_point = dict(zip(instance.milp.position, values.tolist(), strict=True))

    def _take_point(self, found: Solution, began: float) -> None:
        """Submit the point of a method, dated when the method found it."""
        values = found.values if found.nearest is None else found.nearest.values
        if values is None:
            return
        offset = began - self.run.began
        improvements = [
            (offset + seconds, objective)
            for seconds, objective in found.details.get("incumbents", [])
            if self.incumbent.better(objective)
        ]
        self.incumbent.consider(values)
        if improvements and improvements[-1][1] == self.incumbent.objective:
            self.incumbent.found[-1:] = improvements

    def _take_bound(self, found: Solution) -> None:
        """Take over a checked bound, also one beside a claim; without a gap, the run ends."""
        bound = found.bound
        proof = found.proof
        if proof is not None and "checked_bound" in found.details:
            bound = found.details["checked_bound"]
            proof = replace(proof, checked=True, margin=0.0)
        if bound is not None and proof is not None and proof.checked:
            self.run.raise_bound(self.run.instance.milp.sign * bound, proof)
        if self.run.gap_closed:
            self.status = "optimal"

    def notify(self, event: ProgressEvent) -> bool:
        """Pass on the event of a method with the best objective and bound of the whole run."""
        sign = self.run.instance.milp.sign
        bound = event.bound if self.run.bound is None else self.run.bound
        objective = event.objective
        best = self.incumbent.objective
        if best is not None and (objective is None or sign * best <= sign * objective):
            objective = best
        self.stopped = self.run.notify(bound, objective)
        return self.stopped

    def record(self, method: str, status: str, began: float, why: str) -> None:
        """Append an entry to the log."""
        objective = self.incumbent.objective
        entry = LogEntry(method, status, objective, self.run.bound, now() - began, why)
        self.log.append(entry)
        report_progress("solve", entry.bound, turn=True)

    def interrupt(self, status: str) -> None:
        """Record what was in progress when the time limit, a callback or Ctrl-C ended the run."""
        reason = ENDED_BY_TIME_LIMIT
        if status == "stopped":
            self.status = "stopped"
            reason = ENDED_BY_USER
        elif self.status not in PROVED:
            self.status = "time_limit"
        method, began = self.in_progress
        self.record(method, status, began, reason)

    def prove(self, patient: bool = True) -> None:
        """Prove a bound: by prices, by an exact model of the networks, or by linear bounds.

        Unless `patient`, a proof that will not be complete in time leaves time to the methods.
        """
        if self.over or self.proof_complete:
            return
        began = now()
        instance = self.run.instance
        seconds = self.run.seconds_left
        self.in_progress = "proof", began
        report_progress("proof", float(instance.milp.sign * self.run.lower_bound), turn=True)
        try:
            graphs = instance.graphs
        except UnsupportedNetworkError as error:
            self.proof_complete = True
            self.record("proof", "not possible", began, str(error))
            return
        units = instance.nonlinear_units
        priced = isinstance(find_blocks(self.problem, instance), Blocks)
        if priced and self.incumbent.values is not None:
            self._prove_by_certificate(began, "prices, and a search of every block", seconds)
        elif units > MAX_EXACT_UNITS:
            self.proof_complete = True
            reason = f"the exact model has {units} units, more than {MAX_EXACT_UNITS}"
            self.record("proof", "not tried", began, reason)
        elif priced or not any(graph.curved for graph in graphs):
            self._prove_by_exact_model(began, patient)
        else:
            few_inputs = len(instance.free_inputs) <= MAX_INPUTS_FOR_ALL_TIME
            if not (patient or (self.claim is None and few_inputs)):
                seconds *= LINEAR_BOUND_TIME_FRACTION
            reason = "linear bounds of the networks, and a search that splits inputs"
            self._prove_by_certificate(began, reason, seconds)

    def _prove_by_exact_model(self, began: float, patient: bool) -> None:
        run = self.run
        program = exact_program(run.instance, self.incumbent.units)
        repair = FeasibilityRepair(self.incumbent, run.deadline, run.seed)
        proved = run.prove(program, repair=repair, patient=patient, source="exact model")
        self.proof_complete = self.explored = proved.complete
        if proved.bound == np.inf and self.incumbent.values is None:
            self.status = "infeasible"
        elif run.gap_closed:
            self.status = "optimal"
        status = "time_limit"
        if self.status in PROVED:
            status = self.status
        elif proved.complete:
            status = "open"
        elif run.seconds_left > 0:
            status = "given up"
        self.record("proof", status, began, f"exact model, {proved.nodes} nodes")

    def _prove_by_certificate(self, began: float, why: str, seconds: float) -> None:
        """Certify the incumbent by its bound, within these seconds."""
        given = self.run.solution("converged")
        if self.prices is not None:
            given.details["prices"] = self.prices
        found = certify(self.problem, given, None, seconds, seed=self.run.seed, client=self.client)
        self.proof_complete = now() - began < ENDED_BY_ITSELF * seconds
        if found.values is not None:
            self.incumbent.consider(found.values)
        if found.status != "infeasible":
            self._take_bound(found)
        elif self.incumbent.values is None:
            self.status = "infeasible"
        else:
            raise ProofError(
                "a certificate proves that no point is feasible, and one was verified: please"
                " report this problem."
            )
        status = "open" if found.status == "converged" else found.status
        self.record("proof", status, began, why)

    def solution(self) -> Solution:
        """Return the incumbent with the checked bound, or with a claim that it does not refute."""
        run = self.run
        require_uncrossed(self.incumbent, run.lower_bound, "proved during the run")
        bound = run.bound
        proof = None if bound is None else run.proof
        status = self._final_status()
        if status == "stopped":
            run.details["interrupted"] = True
        if self.claim is None or status not in ("converged", "time_limit"):
            return run.solution(status, bound=bound, proof=proof)
        claimed = run.solution("stopped", bound=self.claim.bound, proof=self.claim.proof)
        if contradiction(claimed, "claimed_optimal"):
            return run.solution(status, bound=bound, proof=proof)
        if bound is not None:
            claimed.details["checked_bound"] = bound
        return replace(claimed, status="claimed_optimal")

    def _final_status(self) -> str:
        if self.status in PROVED:
            return self.status
        if self.status == "stopped" or self.run.interrupted:
            return "stopped"
        if self.status == "time_limit" or self.run.seconds_left <= 0:
            return "time_limit"
        return "no_solution_found" if self.incumbent.values is None else "converged"

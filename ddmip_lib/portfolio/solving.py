"""`solve`: the methods of a plan in turn, one best point between them, and a proof at the end where
there is one.
"""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from ..bounds import Graph, network_graph
from ..bounds.activations import ACTIVATIONS
from ..bounds.graph import Elementwise
from ..certificates import certify
from ..clock import now
from ..errors import ProofError, UnsupportedNetworkError
from ..linearisation.neighbourhood import UNITS, FeasibilityRepair
from ..linearisation.repair import near_start
from ..methods import Callback, ProgressEvent, Run
from ..methods.method import infeasible_solution
from ..methods.run import start_run
from ..model.blocks import Blocks
from ..model.incumbent import Incumbent, PointCallback
from ..model.log import Log, LogEntry
from ..model.problem import NeuralMIP
from ..model.progress import ProgressLine, report_progress
from ..model.solution import Proof, Solution, contradiction
from ..model.workers import check_client
from ..pricing.recognition import find_blocks
from ..proofs.checking import (
    closes_gap,
    incumbent_cost,
    proof_of,
    prove_optimality,
    require_uncrossed,
)
from ..proofs.exact import exact_program
from .choosing import PlannedMethod, methods_for, units_of

ENDED = ("stopped", "optimal", "infeasible", "time_limit")
ROUNDS = (
    3  # of turns of all methods, in a row without a better point, that end the search for points
)
LINES = 0.3
# share of the time left that bounds by lines get before these rounds, unless inputs are so few
FEW = 8


def solve(
    problem: NeuralMIP,
    time_limit: float = 60.0,
    seed: int = 0,
    progress: bool = False,
    on_point: PointCallback | None = None,
    callback: Callback | None = None,
    client: Any = None,
) -> Solution:
    """The best verified point that the library finds within the time, and a checked bound where one
    is proved.

    It looks at the problem and says what it chose and why (``solution.details["log"]``): all
    combinations of inputs where they are few, prices where blocks share resources, sequential
    linearisation, Algorithm 1; each begins at the best point of those before it. Then comes a
    proof, which may meet a better point. One that would hardly close in time is given up, and the
    methods have further turns, with other seeds, until the time is over or three rounds of turns
    find nothing better; where an exact model of the whole problem finds nothing better, the proof
    follows at once and ends the run. Where enumeration ends `claimed_optimal`, the proof is tried
    once more, and the run ends with the claim if it fails; ``details["checked_bound"]`` is then
    what was proved. A run in which no method comes to the end of its share of the time, and no
    proof is given up, is the same whenever it is repeated. `callback` hears a `ProgressEvent`
    whenever a method has one to tell; a true result ends the whole run. `client`, a
    `distributed.Client`, goes to what can use a cluster: prices and certificates.

    >>> from ddmip_lib.problems import hand_sized
    >>> solution = solve(hand_sized())
    >>> solution.status, round(solution.objective, 6)
    ('optimal', 0.5)
    >>> [turn.method for turn in solution.details["log"]]
    ['enumeration']
    """
    check_client(client)
    run = start_run(problem, time_limit, seed, on_point, callback, "solve")

    def solved() -> Solution:
        run.state = Portfolio(run, run.incumbent(repair=near_start), client)
        return _solve(run.state, run)

    def so_far(status: str) -> Solution:
        if run.state is None:
            return run.interrupted_solution(status)
        run.state.cut_short(status)
        return run.state.solution()

    with ProgressLine(problem, "solve", run.began, progress):
        found = run.finish(solved, so_far)
        report_progress(bound=found.bound)
        return found


def _solve(portfolio: "Portfolio", run: Run) -> Solution:
    if (proved := infeasible_solution(run)) is not None:
        portfolio.note(
            "ranges", proved.status, run.began, "what rows ask of outputs no network says"
        )
        return replace(proved, details={**proved.details, "log": portfolio.log})
    steps = methods_for(portfolio.problem, run.instance, portfolio.client)
    for step in steps:
        for number in itertools.count():
            before = portfolio.incumbent.objective
            portfolio.turn(step, step.share * run.seconds_left, number)
            if not step.insists or portfolio.incumbent.objective == before:
                break
    portfolio.prove(
        patient=portfolio.claim is None and (portfolio.closed or portfolio.incumbent.values is None)
    )
    idle = 0
    for number in itertools.count(1):
        if portfolio.over or portfolio.closed or idle == ROUNDS:
            break
        before = portfolio.incumbent.objective
        for step in (step for step in steps if step.again):
            portfolio.turn(step, step.again * run.time_limit, number)
        idle = 0 if portfolio.incumbent.objective != before else idle + 1
    if portfolio.claim is None:  # of which a second proof would say no more
        portfolio.prove()
    return portfolio.solution()


def _exact(graph: Graph) -> bool:
    return all(ACTIVATIONS[node.kind].rows for node in graph.nodes if isinstance(node, Elementwise))


class Portfolio:
    """A run of `solve`: the best point and bound so far, and the log."""

    def __init__(self, run: Run, incumbent: Incumbent, client: Any = None) -> None:
        self.run = run
        self.incumbent = incumbent
        self.log = Log()
        self.client = client
        self.problem = run.problem.twin()  # whose start is the best point
        self.problem.start_failed = incumbent.values is None
        self.bound = -np.inf  # of a minimisation, checked
        self.proof: Proof | None = None
        self.status = "converged"
        self.prices = None
        self.stopped = False
        self.doing = "reading the problem", run.began  # what is in progress, and since when
        self.claim: Solution | None = (
            None  # of a method that calls its point the best of all, unchecked
        )
        self.done = False  # whether another proof would say nothing new
        # whether an exact model of the whole problem had nothing better: points need no more time
        self.closed = False

    @property
    def over(self) -> bool:
        return self.status in ENDED or self.run.interrupted or self.run.seconds_left <= 0

    def turn(self, step: PlannedMethod, seconds: float, number: int = 0) -> None:
        """Let a method work from the best point for so long, unless all is done; its seed is
        another in every turn.
        """
        if self.over or self.closed:
            return
        self.take(
            step.solver, min(seconds, self.run.seconds_left), step.why, self.run.seed + number
        )

    def cut_short(self, status: str) -> None:
        """Note what was in progress when the time limit, a callback or Ctrl-C ended the run."""
        if status == "stopped":
            self.status = "stopped"
        elif self.status not in ("optimal", "infeasible"):
            self.status = "time_limit"
        method, began = self.doing
        self.note(
            method,
            status,
            began,
            "ended by Ctrl-C or a callback" if status == "stopped" else "time is over",
        )

    def take(self, solver: Any, seconds: float, why: str, seed: int) -> None:
        """Let a method work from the best point."""
        began = now()
        self.doing = solver.method, began
        if self.incumbent.values is not None:
            instance = self.run.instance
            best = self.incumbent.values
            self.problem.start = instance.inputs(best)
            self.problem.start_failed = False
            self.problem.start_point = dict(zip(instance.milp.position, best.tolist(), strict=True))
        if self.run.callback is not None:
            solver = replace(solver, callback=self.heard)
        found = solver.solve(self.problem, seconds, seed, on_point=self.run.on_point)
        if found.values is not None or found.nearest is not None:
            moments = self.improvements(found, began)
            self.incumbent.consider(found.values if found.nearest is None else found.nearest.values)
            if (
                moments and moments[-1][1] == self.incumbent.objective
            ):  # found then, not when the method ended
                self.incumbent.found[-1:] = moments
        if found.proof is not None and found.proof.checked and found.bound is not None:
            self.raise_bound(self.run.instance.milp.sign * found.bound, found.proof)
        if found.details.get("checked_bound") is not None:
            proof = replace(found.proof, checked=True, margin=0.0)
            self.raise_bound(self.run.instance.milp.sign * found.details["checked_bound"], proof)
        self.prices = found.details.get("prices", self.prices)
        self.claim = found if found.status == "claimed_optimal" else None
        self.closed = found.details.get("explored_radius", 0.0) >= 1.0 or self.claim is not None
        if "interrupted" in found.details or self.stopped:
            self.status = "stopped"
        elif found.status == "infeasible" and self.incumbent.values is None:
            self.status = found.status
        self.note(found.method, found.status, began, why)

    def improvements(self, found: Solution, began: float) -> list[tuple[float, float]]:
        """When, since `solve` began, a method that began then met what is better than the best
        point before it.
        """
        since = began - self.run.began
        moments: list[tuple[float, float]] = found.details.get("incumbents", [])
        return [
            (since + seconds, value) for seconds, value in moments if self.incumbent.better(value)
        ]

    def heard(self, moment: ProgressEvent) -> bool:
        """Hand on what a method tells, with the best that is known; remember that the run is to
        end.
        """
        known = [n for n in (self.incumbent.objective, moment.objective) if n is not None]
        sign = self.run.instance.milp.sign
        bound = float(sign * self.bound) if np.isfinite(self.bound) else moment.bound
        self.stopped = self.run.notify(bound, min(known, key=lambda n: sign * n, default=None))
        return self.stopped

    def raise_bound(self, bound: float, proof: Proof) -> None:
        """Keep a checked bound, of a minimisation, if it is better; one that meets the best point
        ends the run.
        """
        if bound > self.bound:
            self.bound = bound
            self.proof = proof
        if closes_gap(self.incumbent, self.bound):
            self.status = "optimal"

    def note(self, method: str, status: str, began: float, why: str) -> None:
        sign = self.run.instance.milp.sign
        bound = (
            float(sign * min(self.bound, incumbent_cost(self.incumbent)))
            if np.isfinite(self.bound)
            else None
        )
        self.log.append(
            LogEntry(method, status, self.incumbent.objective, bound, now() - began, why)
        )
        report_progress("solve", bound, turn=True)

    def prove(self, patient: bool = True) -> None:
        """A bound by prices where there are blocks, by an exact model where networks have one, else
        by lines; one that is not patient leaves time to the methods where it will hardly come to
        its end.
        """
        if self.over or self.done:
            return
        began = now()
        instance = self.run.instance
        left = self.run.seconds_left
        self.doing = "proof", began
        report_progress("proof", float(instance.milp.sign * self.bound), turn=True)
        try:
            graphs = [network_graph(p.net, p.inputs.shape[1]) for p in instance.predictors]
        except UnsupportedNetworkError as error:
            self.done = True
            self.note("proof", "not possible", began, str(error))
            return
        units = units_of(instance, graphs)
        blocks = find_blocks(self.problem, instance)
        if isinstance(blocks, Blocks) and self.incumbent.values is not None:
            self.by_certificate(began, "prices, and a search of every block", left)
        elif units > UNITS:
            self.done = True
            self.note(
                "proof", "not tried", began, f"the exact model has {units} units, more than {UNITS}"
            )
        elif not isinstance(blocks, Blocks) and not all(map(_exact, graphs)):
            share = (
                1.0
                if patient or (self.claim is None and len(instance.free_inputs) <= FEW)
                else LINES
            )
            self.by_certificate(began, "lines around the networks, and inputs split", share * left)
        else:
            program = exact_program(instance, self.incumbent.units, graphs)
            mend = FeasibilityRepair(self.incumbent, graphs, self.run.deadline, self.run.seed)
            proved = prove_optimality(
                self.incumbent, program, self.run.deadline, np.inf, mend, patient
            )  # which may find points
            self.done = self.closed = proved.complete
            if proved.bound == np.inf and self.incumbent.values is None:
                self.status = "infeasible"
            elif proved.bound > -np.inf:  # one beyond the best point is an error, not overlooked
                self.raise_bound(proved.bound, proof_of(self.incumbent, "exact model", True))
            ended = (
                "open"
                if proved.complete
                else "given up"
                if self.run.seconds_left > 0
                else "time_limit"
            )
            ended = self.status if self.status in ("optimal", "infeasible") else ended
            self.note("proof", ended, began, f"exact model, {proved.nodes} nodes")

    def by_certificate(self, began: float, why: str, seconds: float) -> None:
        """What `certify` proves of the best point, in so much time."""
        details: dict[str, Any] = {} if self.prices is None else {"prices": self.prices}
        given = Solution("converged", "solve", **self.incumbent.point(), details=details)
        found = certify(self.problem, given, None, seconds, seed=self.run.seed, client=self.client)
        self.done = now() - began < 0.9 * seconds  # it ended by itself
        if found.values is not None:
            self.incumbent.consider(found.values)
        if found.status == "infeasible" and self.incumbent.values is not None:
            raise ProofError(
                "no point exists by a certificate, and one was verified: please report this"
                " problem."
            )
        if found.status == "infeasible":
            self.status = found.status
        elif found.bound is not None and found.proof is not None and found.proof.checked:
            self.raise_bound(self.run.instance.milp.sign * found.bound, found.proof)
        self.note("proof", found.status if found.status != "converged" else "open", began, why)

    def solution(self) -> Solution:
        require_uncrossed(self.incumbent, self.bound, "proved on the way")
        sign = self.run.instance.milp.sign
        best = incumbent_cost(self.incumbent)
        status = self.status
        if self.run.interrupted and status not in ("optimal", "infeasible"):
            status = "stopped"
        if status not in ("stopped", "optimal", "infeasible"):
            late = status == "time_limit" or self.run.seconds_left <= 0
            status = "time_limit" if late else "converged"
            if self.incumbent.values is None and status == "converged":
                status = "no_solution_found"
        bound = float(sign * min(self.bound, best)) if np.isfinite(self.bound) else None
        proof = self.proof if bound is not None else None
        details = {"log": self.log, "incumbents": self.incumbent.found}
        if status == "stopped":
            details["interrupted"] = True
        found = Solution(
            "stopped",
            "solve",
            bound=bound,
            proof=proof,
            **self.incumbent.point(),
            seconds=now() - self.run.began,
            details=details,
        )
        if status in ("converged", "time_limit") and self.claim is not None:
            claimed = replace(found, bound=self.claim.bound, proof=self.claim.proof)
            if not contradiction(claimed, "claimed_optimal"):
                details |= {} if bound is None else {"checked_bound": bound}
                found = claimed
                status = "claimed_optimal"
        return replace(found, status=status)

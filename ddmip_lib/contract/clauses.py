"""The clauses of the contract: what holds for calls of a solver, and for every solution."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from pyscipopt import Model

from ..errors import ProblemError
from ..model.problem import NeuralMIP
from ..model.solution import STATUSES, Solution, contradiction
from ..model.verification import Verifier
from .bench import Bench, SolverCall
from .problems import Example

PLAIN_EXAMPLE = "binary inputs"
STARTED_EXAMPLE = "a side variable"
NETWORKS_EXAMPLE = "two networks"
OPTIMUM_TOLERANCE = 1e-5  # relative to an example's objectives; more than tolerated violations gain
VALUE_TOLERANCE = 1e-9  # relative rounding error of an objective

CallCheck = Callable[[Bench], Any]
SolutionCheck = Callable[[SolverCall], Any]


class SimulatedInterrupt(KeyboardInterrupt):
    """Ctrl-C as a check simulates it; the user's own ends the checks."""


def _refuses(
    bench: Bench,
    expected: type[Exception],
    problem: Callable[[], Any] | None = None,
    **arguments: Any,
) -> str | bool:
    """The message of the expected error for wrong arguments or a wrong problem, False without."""
    try:
        if problem is None:
            bench.solve(PLAIN_EXAMPLE, **arguments)
        else:
            bench.solver.solve(problem())
    except expected as error:
        return str(error) or expected.__name__
    return False


def _worse_by(call: SolverCall, objective: float | None) -> float:
    """By how much an objective is worse than that of the solution, relative to the example's
    objectives.
    """
    assert objective is not None
    example = call.example
    difference = objective - call.solution.objective  # type: ignore[operator]
    return example.sign * difference / example.size


def _in_order(example: Example, seconds: ndarray, objectives: ndarray) -> bool:
    """Whether seconds never decrease, and objectives never get worse where they are known."""
    costs = example.sign * objectives[~np.isnan(objectives)] / example.size
    return bool((np.diff(seconds) >= 0).all() and (np.diff(costs) <= VALUE_TOLERANCE).all())


def _same_result(bench: Bench, name: str, **options: Any) -> bool:
    """Whether an example has the same solution as in its first call, after as many iterations."""
    first = bench.first_solution(name)
    second = bench.solve(name, **options)
    same_values = repr(first.values) == repr(second.values)
    same_length = len(first.history) == len(second.history)
    return same_values and same_length and first.status == second.status


def _other_seed(bench: Bench) -> bool:
    return bench.solve(PLAIN_EXAMPLE, time_limit=int(bench.seconds) + 1, seed=2**31 + 7).found


def _without_time(bench: Bench) -> bool:
    for limit in (0.0, -1.0):
        found = bench.solve(PLAIN_EXAMPLE, time_limit=limit)
        if found.status != "time_limit" or found.found or found.bound is not None:
            return False
    return True


def _progress(bench: Bench) -> bool:
    same = _same_result(bench, STARTED_EXAMPLE, progress=True)
    return same and all(word in bench.last.printed for word in ("best", "bound", " s  "))


def _start_kept(bench: Bench, **options: Any) -> bool:
    """Whether the solution is as good as the start of the example, in which all inputs are 0."""
    found = bench.solve(STARTED_EXAMPLE, **options)
    instance = bench.last.instance
    start = Verifier(instance).check(instance.with_outputs(np.zeros(instance.milp.n_variables)))
    return found.found and _worse_by(bench.last, start.objective) >= -VALUE_TOLERANCE


def _solve_from(bench: Bench, start: Any) -> Solution:
    """Solve from another start, which is removed afterwards."""
    problem = bench.examples[PLAIN_EXAMPLE].problem
    problem.set_start(start)
    try:
        return bench.solve(PLAIN_EXAMPLE)
    finally:
        problem.start = None
        problem.start_point = {}


def _solution_as_start(bench: Bench) -> bool:
    first = bench.first_solution(PLAIN_EXAMPLE)
    found = _solve_from(bench, first)
    return found.found and _worse_by(bench.last, first.objective) >= -1e-6


def _infeasible_start(bench: Bench) -> bool:
    return bool(_solve_from(bench, np.ones((2, 2))))


def _in_thread(bench: Bench) -> bool:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(bench.solve, PLAIN_EXAMPLE).result().found


@torch.no_grad()
def _without_gradients(bench: Bench) -> bool:
    return bench.solve(NETWORKS_EXAMPLE).found


def _evaluated_points(bench: Bench) -> str | bool:
    points: list[list[ndarray]] = []
    found = bench.solve(NETWORKS_EXAMPLE, on_point=points.append)
    for point in points:
        if all(map(np.allclose, point, found.inputs)):
            return f"{len(points)} points"
    return False


def _interrupted(bench: Bench, argument: str, at: int) -> bool:
    """Whether a run returns the start or a better point, and the right status, if Ctrl-C comes in
    one of the calls of the function that is passed as an argument.
    """
    calls: list[Any] = []

    def interrupt(event: Any) -> None:
        calls.append(event)
        if len(calls) == at:
            raise SimulatedInterrupt

    kept = _start_kept(bench, **{argument: interrupt})
    return kept and len(calls) >= at and bench.last.solution.status == "stopped"


def _events(bench: Bench) -> bool:
    events: list[tuple[int, float, float | None, float | None]] = []

    def store(event: Any) -> None:
        events.append((event.iteration, event.seconds, event.objective, event.bound))

    bench.solve(STARTED_EXAMPLE, callback=store)
    numbers, seconds, objectives, _ = np.array(events, dtype=float).T
    counted = np.array_equal(numbers, np.arange(1, len(events) + 1))
    return counted and _in_order(bench.last.example, seconds, objectives)


def _stops_early(bench: Bench) -> bool:
    events: list[Any] = []

    def stop(event: Any) -> bool:
        events.append(event)
        return True

    found = bench.solve(STARTED_EXAMPLE, callback=stop)
    finished = bench.first_solution(STARTED_EXAMPLE).status  # it may just have terminated
    return len(events) == 1 and found.status in ("stopped", finished)


CALLS: dict[str, CallCheck] = {
    "the same seed gives the same solution, whatever was solved between": partial(
        _same_result, name=PLAIN_EXAMPLE
    ),
    "another seed and an integer time limit are accepted": _other_seed,
    "without time the status is time_limit, without a point or a bound": _without_time,
    "a limit that is NaN is an error": partial(_refuses, expected=ValueError, time_limit=np.nan),
    "a negative seed is an error": partial(_refuses, expected=ValueError, seed=-1),
    "a fractional seed is an error": partial(_refuses, expected=ValueError, seed=1.5),
    "a misspelt option is an error": partial(_refuses, expected=TypeError, timelimit=3),
    "a model alone is an error": partial(_refuses, expected=TypeError, problem=Model),
    "no networks are an error": partial(
        _refuses, expected=ProblemError, problem=lambda: NeuralMIP(Model())
    ),
    "progress prints the best value and the bound, and changes nothing": _progress,
    "a feasible start is not lost": _start_kept,
    "a solution may be a start": _solution_as_start,
    "a start that violates constraints is accepted": _infeasible_start,
    "solve works in another thread": _in_thread,
    "solve works without gradients": _without_gradients,
    "on_point is called with inputs, those of the solution too": _evaluated_points,
    "Ctrl-C returns the best point so far": partial(_interrupted, argument="on_point", at=2),
    "a callback receives iterations, objectives, bounds and seconds": _events,
    "a callback that returns true stops the run": _stops_early,
    "Ctrl-C in a callback returns the best point so far": partial(
        _interrupted, argument="callback", at=1
    ),
}


def _if_found(check: SolutionCheck) -> SolutionCheck:
    """A check of solutions with a point."""
    return lambda call: not call.solution.found or check(call)


def _known_status(call: SolverCall) -> bool:
    return isinstance(call.solution, Solution) and call.solution.status in STATUSES


def _bound_side(call: SolverCall) -> bool:
    """Whether the bound is not beyond the optimum."""
    bound = call.solution.bound
    example = call.example
    if bound is None or example.best is None:
        return True
    return example.sign * (bound - example.best) / example.size <= OPTIMUM_TOLERANCE


def _bound_proof(call: SolverCall) -> bool:
    solution = call.solution
    return solution.bound is None or getattr(solution.proof, "problem", "") == call.example.digest


def _proved_optimum(call: SolverCall) -> bool:
    solution = call.solution
    if solution.status != "optimal":
        return True
    for value in (solution.bound, call.example.best):
        if abs(_worse_by(call, value)) > 2 * OPTIMUM_TOLERANCE:
            return False
    return solution.proof is not None and solution.proof.checked


def _empty_without_point(call: SolverCall) -> bool:
    found = call.solution
    fields = (found.inputs, found.outputs, found.values, found.verification)
    return found.found or fields == ([], [], None, None)


def _finite_values(call: SolverCall) -> bool:
    finite = np.isfinite(np.array(call.solution.values)).sum()
    return finite == len(call.example.problem.model.getVars())


def _inputs_and_outputs(call: SolverCall) -> bool:
    found = call.solution
    predictors = call.example.problem.predictors
    for predictor, x, y in zip(predictors, found.inputs, found.outputs, strict=True):
        if not np.array_equal(found[predictor.inputs], x):
            return False
        if not np.array_equal(found[predictor.outputs], y):
            return False
    return True


def _incumbents(call: SolverCall) -> bool:
    """Whether incumbents only improve, and the last one is the solution."""
    incumbents = np.array(call.solution.details.get("incumbents", []), dtype=float)
    seconds, objectives = incumbents.reshape(-1, 2).T
    if not _in_order(call.example, seconds, objectives):
        return False
    if not call.solution.found or not len(objectives):
        return True
    return abs(_worse_by(call, objectives[-1])) <= OPTIMUM_TOLERANCE


def _history(call: SolverCall) -> bool:
    """Whether iterations are numbered, seconds increase and incumbents improve."""
    history = call.solution.history
    numbered = np.array_equal(history["k"], np.arange(1, len(history) + 1))
    return numbered and _in_order(call.example, history["seconds"], history["incumbent"])


def _seconds(call: SolverCall) -> bool:
    return 0 <= call.solution.seconds <= call.seconds  # measured inside the call, by one clock


def _repr(call: SolverCall) -> bool:
    text = repr(call.solution)
    return call.solution.method in text and call.solution.status in text


def _stored(call: SolverCall) -> bool:
    return json.loads(call.solution.to_json())["status"] == call.solution.status


ALWAYS: dict[str, SolutionCheck] = {
    "the result is a Solution with a known status": _known_status,
    "a point passes verify": _if_found(lambda call: call.verified.feasible),
    "an objective is the one that verify computes": _if_found(
        lambda call: abs(_worse_by(call, call.verified.objective)) <= VALUE_TOLERANCE
    ),
    "no objective is better than the optimum": _if_found(
        lambda call: _worse_by(call, call.example.best) <= OPTIMUM_TOLERANCE
    ),
    "a bound is on its side of the optimum": _bound_side,
    "a bound has a proof of this very problem": _bound_proof,
    "optimal is the optimum, with a checked bound equal to it": _proved_optimum,
    "a status does not contradict objective and bound": lambda call: (
        not contradiction(call.solution)
    ),
    "infeasible problems have no feasible point": lambda call: (
        call.solution.status != "infeasible" or call.example.best is None
    ),
    "without a point there are no inputs, outputs or values": _empty_without_point,
    "without a point there is a report": lambda call: isinstance(call.solution.report(), str),
    "a point has a finite value for every variable": _if_found(_finite_values),
    "inputs and outputs are those of the point": _if_found(_inputs_and_outputs),
    "integer variables have integer values": _if_found(
        lambda call: call.verified.integrality_violation <= 1e-6
    ),
    "incumbents only improve, up to the solution": _incumbents,
    "a history is in order of time": _history,
    "seconds are those of the call": _seconds,
    "repr contains method and status": _repr,
    "a solution can be stored": _stored,
    "nothing is printed without progress=True": lambda call: not call.printed,
    "nothing else is changed": lambda call: not call.changed,
}

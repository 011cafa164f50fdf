"""The promises: what holds of calls of a solver, and what holds of every answer."""

import json
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from pyscipopt import Model

from ..errors import ProblemError
from ..model.problem import NeuralMIP
from ..model.solution import STATUSES, Solution, contradiction
from .bench import Bench, SolverCall

FIRST = "binary inputs"
STARTED = "a side variable"
NEAR = 1e-5  # of an example's objectives: what verification forgives costs less


class Pressed(KeyboardInterrupt):
    """Ctrl-C as a check presses it; the user's own ends the checks."""


class Press:
    """Hears, and presses Ctrl-C when it has heard `at` times."""

    def __init__(self, at: int = 2) -> None:
        self.at = at
        self.heard = 0

    def __call__(self, _: Any) -> None:
        self.heard += 1
        if self.heard == self.at:
            raise Pressed


def _error(expected: type[Exception], call: Callable[[], Any]) -> str | bool:
    try:
        call()
    except expected as error:
        return str(error) or expected.__name__
    return False


def _worse(run: SolverCall, objective: float | None) -> float:
    """By how much an objective is behind that of the run (negative: ahead), in sizes of its
    objectives.
    """
    assert objective is not None
    return run.example.sign * (objective - run.solution.objective) / run.example.size  # type: ignore[operator]


def _keeps_start(bench: Bench, **options: Any) -> Any:
    """Whether an answer is as good as the start of its example."""
    found = bench.answer(STARTED, **options)
    problem = bench.examples[STARTED].problem
    start = np.array([problem.start_point.get(v.ptr(), 0.0) for v in problem.model.getVars()])
    worth = problem.verify(problem.instance().with_outputs(start)).objective
    return found.found and _worse(bench.last, worth) >= -1e-9


def _alike(one: Solution, two: Solution) -> bool:
    return one.status == two.status and repr(one.values) == repr(two.values)


def _same(bench: Bench) -> bool:
    one = bench.known(FIRST)
    two = bench.answer(FIRST)
    return len(one.history) == len(two.history) and _alike(one, two)


def _no_time(bench: Bench) -> bool:
    found = [bench.answer(FIRST, time_limit=limit) for limit in (0.0, -1.0)]
    return all(s.status == "time_limit" and not s.found and s.bound is None for s in found)


def _progress(bench: Bench) -> bool:
    plain = bench.known(STARTED)
    shown = bench.answer(STARTED, progress=True)
    return _alike(plain, shown) and all(
        word in bench.last.printed for word in ("best", "bound", " s  ")
    )


def _from(bench: Bench, name: str, start: Any) -> Solution:
    """An answer from another start, which is then forgotten."""
    problem = bench.examples[name].problem
    problem.set_start(start)
    try:
        return bench.answer(name)
    finally:
        problem.start = None
        problem.start_point = {}


def _again(bench: Bench) -> bool:
    first = bench.known(FIRST)
    return _from(bench, FIRST, first).found and _worse(bench.last, first.objective) >= -1e-6


def _in_thread(bench: Bench) -> bool:
    found: list[Solution] = []
    thread = threading.Thread(target=lambda: found.append(bench.answer(FIRST)))
    thread.start()
    thread.join()
    return bool(found) and found[0].found


@torch.no_grad()
def _without_gradients(bench: Bench) -> bool:
    return bench.answer("two networks").found


def _visited(bench: Bench) -> str | bool:
    if not bench.visits:
        return "not asked"
    heard: list[list[np.ndarray]] = []
    found = bench.answer("two networks", on_point=heard.append)
    return (
        any(all(map(np.allclose, point, found.inputs)) for point in heard)
        and f"{len(heard)} points"
    )


def _ctrl_c(bench: Bench) -> Any:
    press = Press()
    return (
        "not asked"
        if not bench.visits
        else _keeps_start(bench, on_point=press) and press.heard > 1 and _stopped(bench)
    )


def _told(bench: Bench) -> Any:
    if bench.with_callback is None:
        return "not asked"
    heard: list[Any] = []
    bench.answer(
        STARTED, callback=lambda m: heard.append((m.iteration, m.seconds, m.objective, m.bound))
    )
    numbers, seconds, objectives, _ = zip(*heard, strict=True)
    worth = bench.last.example.sign * np.array([f for f in objectives if f is not None])
    return (
        list(numbers) == list(range(1, len(heard) + 1))
        and _falls(np.negative(seconds))
        and _falls(worth)
    )


def _stops(bench: Bench) -> Any:
    if bench.with_callback is None:
        return "not asked"
    heard: list[Any] = []
    found = bench.answer(STARTED, callback=lambda moment: [heard.append(moment)])  # type: ignore[func-returns-value]
    return len(heard) == 1 and found.status in (
        "stopped",
        bench.known(STARTED).status,
    )  # which it had just reached


def _ctrl_c_told(bench: Bench) -> Any:
    return (
        "not asked"
        if not bench.with_callback
        else _keeps_start(bench, callback=Press(1)) and _stopped(bench)
    )


def _falls(numbers: np.ndarray) -> bool:
    return bool((np.diff(numbers) <= 1e-9).all())


def _stopped(bench: Bench) -> bool:
    return bench.last.solution.status == "stopped"


CALLS: dict[str, Callable[[Bench], Any]] = {
    "the same seed gives the same answer, whatever was solved between": _same,
    "another seed and whole seconds are welcome": lambda b: (
        b.answer(FIRST, int(b.seconds) + 1, 2**31 + 7).found
    ),
    "no time is a status, without a point or a bound": _no_time,
    "a limit that is NaN is an error": lambda b: _error(
        ValueError, lambda: b.answer(FIRST, np.nan)
    ),
    "a negative seed is an error": lambda b: _error(ValueError, lambda: b.answer(FIRST, seed=-1)),
    "a fractional seed is an error": lambda b: _error(
        ValueError, lambda: b.answer(FIRST, seed=1.5)
    ),
    "a misspelt option is an error": lambda b: _error(
        TypeError, lambda: b.answer(FIRST, timelimit=3)
    ),
    "a model alone is an error": lambda b: _error(TypeError, lambda: b.solver.solve(Model())),
    "no networks are an error": lambda b: _error(
        ProblemError, lambda: b.solver.solve(NeuralMIP(Model()))
    ),
    "progress names the best value and the bound, and changes nothing": _progress,
    "a feasible start is not lost": _keeps_start,
    "an answer may be a start": _again,
    "a start outside the rows does no harm": lambda b: bool(_from(b, FIRST, np.ones((2, 2)))),
    "another thread may call": _in_thread,
    "gradients switched off outside do not matter": _without_gradients,
    "on_point hears inputs, those of the answer too": _visited,
    "Ctrl-C returns the best point so far": _ctrl_c,
    "a callback hears iterations, objectives, bounds and seconds": _told,
    "a callback that says so stops the run": _stops,
    "Ctrl-C in a callback returns the best point so far": _ctrl_c_told,
}


def _point(check: Callable[[SolverCall], Any]) -> Callable[[SolverCall], Any]:
    """A check of answers that have a point."""
    return lambda run: not run.solution.found or check(run)


def _behind(run: SolverCall) -> float:
    """How far a bound is beyond the optimum."""
    return run.example.sign * (run.solution.bound - run.example.best) / run.example.size  # type: ignore[operator]


def _checked(run: SolverCall) -> bool:
    met = all(
        abs(_worse(run, number)) <= 2 * NEAR for number in (run.solution.bound, run.example.best)
    )
    return met and run.solution.proof is not None and run.solution.proof.checked


def _empty(found: Solution) -> bool:
    return (found.inputs, found.outputs, found.values, found.verification) == ([], [], None, None)


def _belongs(run: SolverCall) -> bool:
    found = run.solution
    predictors = run.example.problem.predictors
    return all(
        np.array_equal(found[p.inputs], x)
        and np.array_equal(found[p.outputs], y)
        and np.allclose(p.predict(x), y, rtol=1e-6, atol=1e-6 * run.example.size)
        for p, x, y in zip(predictors, found.inputs, found.outputs, strict=True)
    )


def _improving(run: SolverCall) -> bool:
    found = np.array(run.solution.details.get("incumbents", [])).reshape(-1, 2)
    worth = run.example.sign * found[:, 1] / run.example.size
    last = found[-1:, 1]
    ends = not run.solution.found or all(abs(_worse(run, each)) <= NEAR for each in last)
    return bool((np.diff(worth) <= 1e-9).all() and (np.diff(found[:, 0]) >= 0).all()) and ends


def _forward(run: SolverCall) -> bool:
    history = run.solution.history
    known = (
        history["incumbent"][~np.isnan(history["incumbent"])] * run.example.sign / run.example.size
    )
    numbered = (history["k"] == np.arange(1, len(history) + 1)).all()
    return bool(
        (np.diff(known) <= 1e-9).all() and (np.diff(history["seconds"]) >= 0).all() and numbered
    )


ALWAYS: dict[str, Callable[[SolverCall], Any]] = {
    "an answer is a Solution with a known status": lambda r: (
        isinstance(r.solution, Solution) and r.solution.status in STATUSES
    ),
    "a point passes verify": _point(lambda r: r.verified.feasible),
    "an objective is what verify says": _point(
        lambda r: abs(_worse(r, r.verified.objective)) <= 1e-9
    ),
    "no objective beats the optimum": _point(lambda r: _worse(r, r.example.best) <= NEAR),
    "a bound is on its side of the optimum": lambda r: (
        None in (r.solution.bound, r.example.best) or _behind(r) <= NEAR
    ),
    "a bound has a proof of this very problem": lambda r: (
        r.solution.bound is None or getattr(r.solution.proof, "problem", "") == r.example.digest
    ),
    "optimal is the optimum, met by a checked bound": lambda r: (
        r.solution.status != "optimal" or _checked(r)
    ),
    "a status does not contradict objective and bound": lambda r: not contradiction(r.solution),
    "infeasible is what has no point": lambda r: (
        r.solution.status != "infeasible" or r.example.best is None
    ),
    "without a point nothing is said of one": lambda r: r.solution.found or _empty(r.solution),
    "without a point there is a report": lambda r: isinstance(r.solution.report(), str),
    "a point has a finite value for every variable": _point(
        lambda r: (
            np.isfinite(np.array(r.solution.values)).sum() == len(r.example.problem.model.getVars())
        )
    ),
    "inputs and outputs are those of the point": _point(_belongs),
    "whole numbers are whole": _point(lambda r: r.verified.integrality_violation <= 1e-6),
    "incumbents only improve, up to the answer": _improving,
    "a history goes forward": _forward,
    "seconds are those of the call": lambda r: (
        0 <= r.solution.seconds <= r.seconds
    ),  # read inside of it, by one clock
    "the answer prints method and status": lambda r: (
        r.solution.method in repr(r.solution) and r.solution.status in repr(r.solution)
    ),
    "the answer can be stored": lambda r: (
        json.loads(r.solution.to_json())["status"] == r.solution.status
    ),
    "nothing is printed unasked": lambda r: not r.printed,
    "nothing of others is changed": lambda r: not r.moved,
}

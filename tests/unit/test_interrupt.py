"""Ctrl-C on every solver: the best verified point comes back with status "stopped", and nothing is
lost.
"""

import os
import signal
import sys
import threading

import numpy as np
import pyscipopt
import pytest

from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import (
    BigM,
    DualDecomposition,
    Enumeration,
    PriceCoordination,
    SequentialMIP,
    SingleStepGradient,
)
from ddmip_lib.baselines.single_step import PenalisedRelaxation
from ddmip_lib.clock import using
from ddmip_lib.errors import ProblemError
from ddmip_lib.model import Incumbent
from ddmip_lib.plots import plot_objective
from ddmip_lib.pricing import Recovering, recover
from ddmip_lib.programs.scip import add_event_handlers, optimise
from tests.builders.clocks import LONG
from tests.builders.instances import knapsack


@pytest.fixture(autouse=True)
def python_hears_signals():
    """Programs that run in the background may have been told to ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Press:
    """A `on_point` that presses Ctrl-C at one point; the signal is a real one."""

    def __init__(self, at=1):
        self.at = at
        self.heard = 0

    def __call__(self, inputs):
        self.heard += 1
        if self.heard == self.at:
            os.kill(os.getpid(), signal.SIGINT)


SOLVERS = {
    "dual decomposition": DualDecomposition,
    "graph split": lambda: DualDecomposition(split="graph", restarts=0),
    "paper, barrier": lambda: DualDecomposition.paper("barrier"),
    "single step gradient": SingleStepGradient,
    "enumeration": Enumeration,
    "big-m": BigM,
    "sequential MIP": SequentialMIP,
    "solve": lambda: sys.modules["ddmip_lib"],
}


@pytest.mark.parametrize("name", SOLVERS)
def test_the_incumbent_comes_back(name, capfd):
    problem, _ = knapsack(1)
    problem.set_start(np.zeros((1, 6)))  # which every solver verifies and visits first
    press = Press(at=2)
    solution = SOLVERS[name]().solve(problem, time_limit=LONG, on_point=press)
    assert press.heard >= 2
    assert solution.status == "stopped"
    assert solution.details["interrupted"]
    assert problem.verify(solution).feasible
    assert solution.seconds > 0
    assert "stopped" in repr(solution)
    assert "ERROR" not in capfd.readouterr().err


@pytest.mark.parametrize("name", SOLVERS)
def test_nothing_found_is_stopped_without_a_point(name, monkeypatch):
    problem, _ = knapsack(1)

    def pressed(self, values):
        os.kill(os.getpid(), signal.SIGINT)
        return unsound(self, values)

    unsound = Incumbent.consider
    monkeypatch.setattr(
        Incumbent, "consider", lambda self, values: pressed(self, np.full_like(values, 1e3))
    )
    solution = SOLVERS[name]().solve(problem, time_limit=LONG)
    assert (solution.status, solution.objective, solution.inputs) == ("stopped", None, [])
    assert "none" in repr(solution)


def test_the_history_up_to_ctrl_c_is_kept():
    problem = water_potability(n=4, net=mlp(2, 8, 9, seed=1), seed=42)

    def press(run):
        if run.k == 3:
            os.kill(os.getpid(), signal.SIGINT)

    solution = DualDecomposition(callback=press).solve(problem, time_limit=LONG)
    assert (solution.status, len(solution.history)) == ("stopped", 3)
    assert problem.verify(solution).feasible
    plot_objective(solution)


@pytest.mark.parametrize("at", [2, 3])
def test_price_coordination_keeps_its_rounds(at, monkeypatch):
    problem = water_potability(n=4, net=mlp(2, 16, 9, seed=1), seed=42)
    whole = PriceCoordination.round

    def pressed(self, market, seen=None):
        if (
            len(market.rounds) + 1 == at
        ):  # three rounds without a new option end a run, so there are always four
            os.kill(os.getpid(), signal.SIGINT)
        whole(self, market, seen)

    monkeypatch.setattr(PriceCoordination, "round", pressed)
    solution = PriceCoordination().solve(problem, time_limit=LONG)
    assert (solution.status, len(solution.history)) == ("stopped", at - 1)
    assert problem.verify(solution).feasible
    assert len(solution.history.prices) == len(solution.history)


def test_recovery_is_left_out_after_ctrl_c_and_may_be_interrupted_itself(monkeypatch):
    problem = water_potability(n=4, net=mlp(2, 16, 9, seed=1), seed=42)
    solver = DualDecomposition(max_iterations=3)
    recovering = Recovering(solver)
    assert recovering.solve(problem, time_limit=LONG, on_point=Press(2)).status == "stopped"

    def pressed(self, gap, nodes, seed):
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("ddmip_lib.pricing.recovery.CoordinationState.choose", pressed)
    for solution in (recovering.solve(problem, time_limit=LONG), recover(problem, [problem.start])):
        assert (solution.status, solution.details["interrupted"]) == ("stopped", True)
        assert problem.verify(solution).feasible


def test_as_printed_the_claimed_point_is_kept(monkeypatch):
    problem, _ = knapsack(1)
    press = Press(at=5)
    loss = PenalisedRelaxation.loss  # as printed, no point is visited on the way

    def pressed(self, v, penalty):
        press([])
        return loss(self, v, penalty)

    monkeypatch.setattr(PenalisedRelaxation, "loss", pressed)
    solution = SingleStepGradient(repaired=False).solve(problem, time_limit=LONG)
    assert (solution.status, solution.details["steps"]) == ("stopped", 5)
    assert "claimed_values" in solution.details
    assert solution.details["claimed_feasible"] == solution.found


def packing(n=60, rows=12):
    """A model that keeps SCIP busy for longer than any test waits, and has incumbents at once."""
    model = pyscipopt.Model()
    draw = np.random.default_rng(0)
    model.hideOutput()
    x = [model.addVar(vtype="B") for _ in range(n)]
    for _ in range(rows):
        weight = draw.integers(1, 1000, n)
        model.addCons(
            pyscipopt.quicksum(int(a) * v for a, v in zip(weight, x, strict=True))
            <= int(weight.sum() // 2)
        )
    worth = draw.integers(1, 1000, n)
    model.setObjective(
        pyscipopt.quicksum(int(a) * v for a, v in zip(worth, x, strict=True)), "maximize"
    )
    return model


def test_a_solve_ends_in_good_order_and_raises_after_it(capfd):
    model = packing()
    press = Press(at=2)
    raised = add_event_handlers(model, lambda scip: press([]))
    with pytest.raises(KeyboardInterrupt):
        optimise(model, 600, raised)
    assert model.getStatus() == "userinterrupt"
    assert model.getNSols() >= 1
    assert "ERROR" not in capfd.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("problem", [KeyboardInterrupt, ProblemError("why")])
def test_what_a_callback_raises_does_not_cross_scip(problem, capfd):
    def hear(scip):
        raise problem

    model = packing()
    raised = add_event_handlers(model, hear)
    with pytest.raises(problem if isinstance(problem, type) else type(problem)):
        optimise(model, 600, raised)
    assert "ERROR" not in capfd.readouterr().err


def test_a_handler_of_the_programs_own_is_asked():
    heard = []
    model = packing()
    press = Press(at=2)
    signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    optimise(model, 600, add_event_handlers(model, lambda scip: press([])))
    assert (model.getStatus(), heard) == ("userinterrupt", [1])


def test_other_threads_leave_signals_alone():
    model = packing(8, 2)
    thread = threading.Thread(target=optimise, args=(model, 600))
    thread.start()
    thread.join()
    assert model.getStatus() == "optimal"
    assert not model.getParam("misc/catchctrlc")


def test_a_brief_solve_is_not_interrupted_but_followed_by_the_interrupt():
    model = packing(6, 2)
    with using(lambda: 0.0):  # no time passes: brief on any machine
        optimise(model, LONG)
        assert model.getParam("misc/catchctrlc")
        model.freeTransform()
        optimise(model, LONG)
    assert not model.getParam("misc/catchctrlc")


@pytest.mark.parametrize("solver", [BigM(), Enumeration()])
def test_an_exact_model_keeps_its_bound(solver):
    problem, best = knapsack(1)
    solution = solver.solve(problem, time_limit=LONG, on_point=Press())
    assert solution.status == "stopped"
    assert solution.bound is None or solution.bound >= best - 1e-5

"""Awkward models: several networks, violated indicators, no time, output ranges that are hard to
see.
"""

import numpy as np
import pyscipopt
import pytest
import torch

from ddmip_book.networks import mlp
from ddmip_lib import BigM, DescentTest, DualDecomposition, Enumeration, LogBarrier, NeuralMIP
from ddmip_lib.clock import using
from ddmip_lib.problems import hand_sized
from tests.builders.clocks import LONG, Ticking
from tests.builders.networks import linear


def adder(n: int) -> torch.nn.Module:
    return linear(*[1.0] * n).float()


@pytest.mark.parametrize("split", ["paper", "graph"])
def test_a_second_network_on_part_of_the_inputs(split: str) -> None:
    m = pyscipopt.Model()
    x = m.addMatrixVar((2, 3), lb=-1, ub=1)
    y = m.addMatrixVar((2, 1), lb=None)
    w = m.addMatrixVar((1, 1), lb=None)
    m.setObjective(y.sum() + w.sum(), "minimize")
    problem = NeuralMIP(m)
    problem.add_predictor(mlp(1, 8, 3, seed=1), x, y)
    problem.add_predictor(mlp(1, 8, 2, seed=2), [[x[1, 0], x[0, 2]]], w)
    best = BigM().solve(problem).objective
    found = DualDecomposition(split=split, restarts=0).solve(problem)
    assert best - 1e-6 <= found.objective <= best + 0.5  # a local minimum at worst


def test_a_violated_indicator_is_a_verdict_not_an_exception() -> None:
    m = pyscipopt.Model()
    x = m.addMatrixVar((1, 1), lb=0, ub=1)
    y = m.addMatrixVar((1, 1), lb=None)
    b = m.addVar(vtype="B", name="b")
    m.addConsIndicator(x[0, 0] <= 0.2, binvar=b)
    m.setObjective(y[0, 0])
    problem = NeuralMIP(m)
    problem.add_predictor(adder(1), x, y)
    point = np.array(
        [{"b": 1.0}.get(v.name, 0.7 if v.name.startswith("indslack") else 0.9) for v in m.getVars()]
    )
    check = problem.verify(point)
    assert not check.feasible
    assert check.other_violations


def test_no_time_is_no_time_where_the_mip_block_is_hard() -> None:
    m = pyscipopt.Model()
    rng = np.random.default_rng(0)
    x = m.addMatrixVar((1, 2), vtype="B")
    y = m.addMatrixVar((1, 1), lb=None)
    t = m.addVar(lb=-5, ub=5)
    b = m.addMatrixVar((30,), vtype="B")
    for a in rng.integers(1, 100, (4, 30)):  # market split: one point takes SCIP long
        m.addCons((b * a).sum() == int(a.sum() // 2))
    m.addCons(t <= y[0, 0] + x[0, 0])
    m.addCons(x[0, 0] <= b[0])
    m.setObjective(t, "maximize")
    problem = NeuralMIP(m)
    problem.add_predictor(mlp(1, 8, 2, seed=1), x, y)
    with using(
        clock := Ticking(step=0.02)
    ):  # a look at the clock takes 0.02 s, so no block gets more than 0.2 s
        assert DualDecomposition(restarts=0).solve(problem, time_limit=0.2).status == "time_limit"
    assert clock.looks < 20  # twice those within the limit


def test_the_users_start_is_not_lost_to_a_sampled_range() -> None:
    m = pyscipopt.Model()
    x = m.addMatrixVar((1, 30), lb=0, ub=1)
    y = m.addMatrixVar((1, 1), lb=None)
    b = m.addVar(vtype="B")
    m.addCons(y[0, 0] <= 23.5 + 6.5 * b)
    m.setObjective(x.sum() - b, "maximize")
    problem = NeuralMIP(m)
    problem.add_predictor(adder(30), x, y)
    problem.set_start(np.ones((1, 30)))
    assert DualDecomposition(split="graph", restarts=0).solve(problem).objective >= 29 - 1e-6


@pytest.mark.parametrize("vtype", ["C", "B"])
def test_outputs_that_random_inputs_never_show(vtype: str) -> None:
    m = pyscipopt.Model()
    x = m.addMatrixVar((1, 50), vtype=vtype, lb=0, ub=1)
    y = m.addMatrixVar((1, 1), lb=None)
    t = m.addVar(vtype="B")
    m.addCons(y[0, 0] >= 45 * t)
    m.addCons(t >= 1)
    m.setObjective(x.sum())
    problem = NeuralMIP(m)
    problem.add_predictor(adder(50), x, y)
    assert DualDecomposition(restarts=0).solve(problem, time_limit=LONG).found


def test_no_integer_between_the_bounds_in_the_graph_split() -> None:
    m = pyscipopt.Model()
    x = m.addMatrixVar((1, 2), vtype="I", lb=0.2, ub=0.8)
    y = m.addMatrixVar((1, 1), lb=None)
    m.setObjective(y[0, 0])
    problem = NeuralMIP(m)
    problem.add_predictor(adder(2), x, y)
    assert DualDecomposition(split="graph", restarts=0).solve(problem).status == "infeasible"


def test_an_output_with_one_value_does_not_blow_up_the_default_penalty() -> None:
    m = pyscipopt.Model()
    x = m.addMatrixVar((1, 2), lb=-1, ub=1)
    y = m.addMatrixVar((1, 1), lb=0.9, ub=0.9)
    t = m.addVar(lb=-5, ub=5)
    m.addCons(t >= x[0, 0] + y[0, 0])
    m.setObjective(t)
    problem = NeuralMIP(m)
    problem.add_predictor(adder(2), x, y)
    solution = DualDecomposition(restarts=0).solve(problem)
    assert solution.objective == pytest.approx(0.8, abs=0.05)  # x = (-0.1, 1)


def test_enumeration_calls_nothing_infeasible_that_verify_accepts() -> None:
    net = mlp(1, 8, 2, seed=1).double()
    m = pyscipopt.Model()
    x = m.addMatrixVar((1, 2), vtype="B")
    y = m.addMatrixVar((1, 1), lb=None)
    m.addCons(
        y[0, 0] == round(float(net(torch.tensor([[1.0, 0.0]], dtype=torch.float64)).item()), 7)
    )
    m.setObjective(x[0, 0], "maximize")
    problem = NeuralMIP(m)
    problem.add_predictor(net, x, y)
    assert DualDecomposition(restarts=0).solve(problem).found
    assert Enumeration().solve(problem).status != "infeasible"


def test_the_barriers_callback_is_the_users_own() -> None:
    class Recorder:
        calls = 0

        def see(self, u: np.ndarray, mu: np.ndarray) -> None:
            self.calls += 1

    recorder = Recorder()
    block = LogBarrier(callback=recorder.see)
    DualDecomposition(nn_block=block, penalty=1.0, max_iterations=5).solve(hand_sized())
    assert recorder.calls > 0


def test_the_descent_test_is_refused_where_its_theorem_does_not_reach() -> None:
    with pytest.raises(ValueError, match="paper's split"):
        DualDecomposition(penalty=DescentTest(), split="graph").solve(hand_sized())


def test_a_failed_phase_one_is_told() -> None:
    """y <= -1 where the network is never below 0: the barrier has no start, and says so."""
    m = pyscipopt.Model()
    x = m.addMatrixVar((1, 2), lb=0, ub=1)
    y = m.addMatrixVar((1, 1), lb=None)
    m.addCons(y[0, 0] <= -1)
    m.setObjective(x.sum())
    problem = NeuralMIP(m)
    problem.add_predictor(
        torch.nn.Sequential(adder(2), torch.nn.Softplus()).eval(), x, y
    )  # of which no range is known
    solution = DualDecomposition(nn_block=LogBarrier(), penalty=1.0, max_iterations=5).solve(
        problem
    )
    assert not solution.found
    assert solution.details["phase_one"] == "failed"


@pytest.mark.parametrize("vtype", ["I", "C"])
def test_the_default_penalty_needs_no_start(vtype: str) -> None:
    """2t + x1 + x2 with t >= 30 - f(x): 60 at zero, 30 where x1 + x2 = 30."""
    m = pyscipopt.Model()
    x = m.addMatrixVar((1, 2), vtype="I", lb=0, ub=40)
    y = m.addMatrixVar((1, 1), vtype=vtype, lb=None)
    t = m.addVar(lb=0, ub=1e5)
    m.addCons(t >= 30 - y[0, 0])
    m.setObjective(2 * t + x.sum())
    problem = NeuralMIP(m)
    problem.add_predictor(adder(2), x, y)
    assert DualDecomposition(restarts=0).solve(problem, time_limit=LONG).objective == pytest.approx(
        30, abs=1.5
    )

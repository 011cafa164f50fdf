"""What every solver promises, tried on the same small problems."""

import itertools

import numpy as np
import pyscipopt
import pytest
import torch

from ddmip_lib import (
    PGD,
    BigM,
    DualDecomposition,
    Enumeration,
    LogBarrier,
    NeuralMIP,
    SequentialMIP,
    SingleStepGradient,
    solve,
)
from ddmip_lib.errors import ProblemError
from ddmip_lib.predictors import mlp
from ddmip_lib.problems import water_potability


class Choosing:
    """`solve` as a solver like the others."""

    solve = staticmethod(solve)


SOLVERS = {
    "dual decomposition": lambda: DualDecomposition(),
    "gradient steps": lambda: DualDecomposition(nn_block=PGD(method="gradient")),
    "paper": lambda: DualDecomposition.paper(),
    "graph split": lambda: DualDecomposition(split="graph"),
    "barrier": lambda: DualDecomposition(nn_block=LogBarrier()),
    "paper, barrier": lambda: DualDecomposition.paper("barrier"),
    "single step gradient": lambda: SingleStepGradient(),
    "enumeration": lambda: Enumeration(),
    "big-m": lambda: BigM("bigm"),
    "sos1": lambda: BigM("sos"),
    "sequential MIP": lambda: SequentialMIP(),
    "solve": lambda: Choosing(),
}


def knapsack(seed=0, sense="maximize"):
    """Six binaries under a knapsack row, a continuous side variable, a network's value in the objective: 2^6 points."""
    net = mlp(2, 6, 6, seed=seed)
    rng = np.random.default_rng(seed)
    weight, cost = rng.integers(1, 6, 6), rng.normal(size=6) * 0.1
    m = pyscipopt.Model()
    x = m.addMatrixVar((1, 6), vtype="B", name="x")
    y = m.addMatrixVar((1, 1), lb=None, name="y")
    spare = m.addVar("spare", lb=0, ub=4)
    m.addCons((x[0] * weight).sum() + spare <= 10, name="capacity")
    m.setObjective((x[0] * cost).sum() + y[0, 0] + 0.05 * spare, sense)
    problem = NeuralMIP(m, "knapsack")
    problem.add_predictor(net, x, y)
    values = []
    for point in itertools.product((0.0, 1.0), repeat=6):
        p = np.array(point)
        if p @ weight > 10:
            continue
        with torch.no_grad():
            f = net.double()(torch.tensor(p[None])).item()
        room = min(4.0, 10 - p @ weight) if sense == "maximize" else 0.0
        values.append(cost @ p + f + 0.05 * room)
    return problem, (max if sense == "maximize" else min)(values)


@pytest.fixture(params=list(SOLVERS))
def solver(request):
    return SOLVERS[request.param]()


@pytest.mark.parametrize("sense", ["maximize", "minimize"])
def test_answer_is_verified_and_never_beats_brute_force(solver, sense):
    problem, best = knapsack(1, sense)
    solution = solver.solve(problem, time_limit=30, seed=7)
    sign = 1 if sense == "minimize" else -1
    check = problem.verify(solution)
    assert check.feasible
    assert check.objective == pytest.approx(solution.objective, abs=1e-9)
    assert sign * solution.objective >= sign * best - 1e-5
    if solution.bound is not None:
        assert sign * solution.bound <= sign * best + 1e-5
    assert solution.inputs[0].shape == (1, 6)
    assert solution.outputs[0].shape == (1, 1)
    assert solution.values.shape == (8,)
    assert solution.seconds > 0


def test_same_seed_same_answer(solver):
    problem, _ = knapsack(2)
    first, second = (solver.solve(problem, time_limit=60, seed=5) for _ in range(2))
    np.testing.assert_array_equal(first.values, second.values)
    assert first.status == second.status
    np.testing.assert_array_equal(first.history["rho"], second.history["rho"])


def test_nothing_of_the_users_is_changed(solver):
    problem, _ = knapsack(3)
    model, net = problem.model, problem.predictors[0].net
    weights = [p.clone() for p in net.parameters()]

    def state():
        bounds = [(v.name, v.vtype(), v.getLbOriginal(), v.getUbOriginal(), v.getObj()) for v in model.getVars()]
        return model.getStageName(), model.getObjectiveSense(), bounds, [c.name for c in model.getConss()]

    before = state()
    solver.solve(problem, time_limit=10)
    assert state() == before
    assert all(torch.equal(a, b) for a, b in zip(weights, net.parameters(), strict=True))
    model.optimize()  # still the user's to solve
    assert model.getStatus() in ("optimal", "unbounded", "inforunbd")


@pytest.mark.parametrize("limit", [0.0, -1.0])
def test_no_time_gives_a_status_not_an_error(solver, limit):
    problem, _ = knapsack(0)
    solution = solver.solve(problem, time_limit=limit)
    assert solution.status == "time_limit"
    assert solution.objective is None
    assert solution.bound is None
    assert solution.inputs == []


@pytest.mark.parametrize("vtype", ["B", "C"])
def test_infeasible_rows_give_a_status(solver, vtype):
    m = pyscipopt.Model()
    x = m.addMatrixVar((1, 2), vtype=vtype, lb=0, ub=1)
    y = m.addMatrixVar((1, 1), lb=None)
    m.addCons(x.sum() >= 3)
    m.setObjective(y[0, 0])
    problem = NeuralMIP(m)
    problem.add_predictor(mlp(1, 3, 2), x, y)
    if vtype == "C" and isinstance(solver, Enumeration):
        with pytest.raises(ProblemError, match="integer"):
            solver.solve(problem)
        return
    solution = solver.solve(problem, time_limit=20)
    assert solution.status == "infeasible"
    assert not solution.found


def test_contradictory_rows_on_outputs_give_a_status(solver):
    m = pyscipopt.Model()
    x = m.addMatrixVar((1, 2), vtype="B")
    y = m.addMatrixVar((1, 1), lb=None)
    m.addCons(y[0, 0] >= 100)
    m.setObjective(y[0, 0])
    problem = NeuralMIP(m)
    problem.add_predictor(mlp(1, 3, 2), x, y)
    solution = solver.solve(problem, time_limit=120)
    assert solution.status in ("no_solution_found", "infeasible")
    assert not solution.found
    assert "none" in repr(solution)


def test_water_is_never_worse_than_leaving_it_alone(solver):
    problem = water_potability(n=8, net=mlp(2, 8, 9, seed=1), seed=42)
    untreated = problem.predictors[0].predict(problem.start[0]).sum()
    if isinstance(solver, Enumeration):
        with pytest.raises(ProblemError, match="integer"):
            solver.solve(problem)
        return
    solution = solver.solve(problem, time_limit=3, seed=42)
    assert solution.objective >= untreated
    assert problem.verify(solution).feasible


def test_a_misspelt_keyword_is_a_type_error(solver):
    problem, _ = knapsack(0)
    with pytest.raises(TypeError, match="timelimit"):
        solver.solve(problem, timelimit=3)


def test_progress_bar_shows_the_incumbent(solver, capsys):
    problem, _ = knapsack(0)
    solver.solve(problem, time_limit=20, progress=True)
    assert "incumbent=" in capsys.readouterr().err

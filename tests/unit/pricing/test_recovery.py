"""Column recovery: the best choice among visited points, each block from an iteration of
its own.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pyscipopt import Model

from ddmip_book.networks import lstm, mlp
from ddmip_book.problems import water_potability
from ddmip_lib import (
    BigM,
    DualDecomposition,
    Enumeration,
    NeuralMIP,
    PriceCoordination,
    SingleStepGradient,
)
from ddmip_lib.errors import ProblemError
from ddmip_lib.pricing import Blocks, Mode, Recovering, recover
from tests.builders.blocks import trees
from tests.builders.clocks import LONG
from tests.builders.networks import linear

torch.set_num_threads(1)


def planted(capacity: float = 0.6, n: int = 2) -> NeuralMIP:
    """n blocks, one input in [-1, 1], class 1 above 0.25; all movement shares one capacity."""
    model = Model()
    model.hideOutput()
    x = model.addMatrixVar((n, 1), lb=-1.0, ub=1.0)
    size = model.addMatrixVar((n, 1), ub=1.0)
    y = model.addMatrixVar((n, 1), vtype="B")
    model.addMatrixCons(size >= x)
    model.addMatrixCons(size >= -x)
    model.addCons(size.sum() <= capacity)
    model.setObjective(y.sum(), "maximize")
    problem = NeuralMIP(model)
    one = np.ones((n, 1))
    each = np.arange(n)
    problem.add_predictor(linear(1.0, bias=-0.25), x, y, output="classification")
    mode = Mode(each, each, -one, one, 0 * one, np.eye(1), np.eye(1), 0 * one, np.zeros(1))
    problem.set_blocks(Blocks([mode], [capacity]))
    return problem


def test_a_solution_spread_over_two_points_is_put_together_and_pulled_back():
    """Each point reaches the class in one block and spends nearly all of the capacity."""
    problem = planted()
    points = [[np.array([[0.55], [0.0]])], [np.array([[-0.3], [0.59]])]]
    solution = recover(problem, points)
    assert (solution.status, solution.objective) == ("stopped", 2.0)
    assert problem.verify(solution)
    np.testing.assert_allclose(solution.inputs[0], 0.25, atol=1e-3)
    assert recover(problem, points[:1]).objective == 1.0
    assert recover(planted(capacity=0.4), points).objective == 1.0


def test_points_outside_the_box_are_taken_at_its_edge_and_those_without_a_number_not_at_all():
    problem = planted()
    points = [[np.array([[7.0], [np.nan]])], [np.array([[np.inf], [-5.0]])]]
    solution = recover(problem, points)
    assert solution.objective == 1.0
    assert np.isfinite(solution.inputs[0]).all()


def test_without_points_the_start_and_the_base_points_compete():
    assert recover(planted(), []).objective == 0.0
    problem = water_potability(n=4, net=mlp(2, 8, 9, seed=1))
    assert recover(problem, []).objective == problem.predictors[0].predict(problem.start[0]).sum()


@pytest.mark.parametrize("limit", [0.0, -1.0])
def test_no_time_gives_a_status(limit):
    solution = recover(planted(), [[np.ones((2, 1))]], time_limit=limit)
    assert (solution.status, solution.objective) == ("time_limit", None)


@pytest.mark.parametrize(
    "points",
    [[[np.ones((3, 1))]], [[np.ones((1, 1))]], [[np.ones((2, 2))]], [[]], [[np.ones((2, 1))] * 2]],
)
def test_points_of_another_shape_are_refused(points):
    with pytest.raises(ValueError, match=r"shape|\(2, 1\)"):
        recover(planted(), points)


def test_the_same_points_and_seed_give_the_same_answer():
    problem = water_potability(n=6, net=mlp(2, 8, 9, seed=1))
    points = [[problem.start[0] + shift] for shift in (-1.0, 0.5, 1.0)]
    first, second = (recover(problem, points, seed=4) for _ in range(2))
    np.testing.assert_array_equal(first.values, second.values)


@pytest.mark.parametrize("seed", [42, 123])
def test_on_water_recovery_is_never_worse_than_algorithm_1_alone(seed):
    problem = water_potability(n=10, net=mlp(2, 16, 9, seed=seed), seed=seed)
    alone = DualDecomposition(max_iterations=12)
    plain, recovered = (
        solver.solve(problem, time_limit=LONG, seed=1) for solver in (alone, Recovering(alone))
    )
    assert recovered.objective >= plain.objective
    assert problem.verify(recovered)
    assert len(recovered.history) == len(plain.history) == 12
    times = [seconds for seconds, _ in recovered.details["incumbents"]]
    assert times == sorted(times)


def test_an_lstm_is_recovered_too():
    problem = water_potability(n=3, net=lstm(1, 6, 9, seed=2))
    solution = Recovering(DualDecomposition(max_iterations=3)).solve(problem, time_limit=LONG)
    assert solution.objective >= problem.predictors[0].predict(problem.start[0]).sum()


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_on_trees_a_fractional_treatment_is_the_nearest_one(share):
    problem = trees(grid=3, seed=1)
    exact = Enumeration().solve(problem).objective
    sites = problem.start[0].copy()
    assert exact is not None
    sites[:, 6] = share
    solution = recover(problem, [[sites] * 4])
    assert solution.objective == pytest.approx(exact, abs=1e-6)
    assert set(np.unique(solution.inputs[0][:, 6])) <= {0.0, 1.0}


def test_on_trees_algorithm_1_gains_by_recovery():
    problem = trees(grid=2, seed=1)
    alone = DualDecomposition(max_iterations=4)
    plain, recovered = (
        solver.solve(problem, time_limit=LONG, seed=1) for solver in (alone, Recovering(alone))
    )
    assert recovered.objective >= (-np.inf if plain.objective is None else plain.objective)
    assert recovered.objective == pytest.approx(Enumeration().solve(problem).objective, abs=1e-6)


def test_without_blocks_recovery_is_refused_before_any_work(monkeypatch):
    problem = planted(n=1)
    problem.blocks = None

    def works(*_: object) -> None:
        raise AssertionError("work began")

    monkeypatch.setattr("ddmip_lib.decomposition.solver.DualDecomposition.solve", works)
    for call in (Recovering(DualDecomposition(restarts=0)).solve, lambda p: recover(p, [])):
        with pytest.raises(ProblemError, match="set_blocks"):
            call(problem)


@pytest.mark.parametrize(
    "solver",
    [SingleStepGradient(steps=5), BigM(), PriceCoordination(max_rounds=2, choices=1)],
    ids=lambda s: s.method,
)
def test_recovery_wraps_any_solver_and_tells_what_was_visited(solver):
    """Every point that the solver looked at is heard by the caller too, and the answer is never
    worse.
    """
    problem = planted()
    heard = list[np.ndarray]()
    plain = solver.solve(problem, time_limit=LONG)
    wrapped = Recovering(solver).solve(
        problem, time_limit=LONG, on_point=lambda inputs: heard.append(inputs[0].copy())
    )
    assert wrapped.objective >= plain.objective
    assert problem.verify(wrapped)
    assert heard
    assert all(x.shape == (2, 1) for x in heard)
    assert any(np.allclose(x, plain.inputs[0]) for x in heard)


def test_only_a_solver_can_be_wrapped():
    with pytest.raises(TypeError, match="such as DualDecomposition"):
        Recovering(DualDecomposition)  # type: ignore[arg-type]

"""Problems stated by arrays: the same problem, the same answers, the same checks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import DualDecomposition, PriceCoordination
from ddmip_lib.errors import ProblemError
from ddmip_lib.model.arrays import ArrayMIP, model_of
from ddmip_lib.programs import read_model
from tests.builders.clocks import LONG


def both(n: int = 4):
    return [
        water_potability(n=n, net=mlp(2, 16, 9, seed=1), arrays=arrays) for arrays in (False, True)
    ]


def test_water_by_arrays_is_water():
    one, two = (problem.instance().milp for problem in both())
    at = [
        two.names.index(name) for name in one.names
    ]  # SCIP moves variables when a binary joins them
    for name in ("cost", "lower", "upper", "integer"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name)[at], err_msg=name)
    for name in ("sign", "offset", "row_lower", "row_upper", "row_names"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)
    assert abs(one.rows - two.rows[:, at]).sum() == 0


def test_a_model_made_of_arrays_reads_as_they_are():
    milp = both()[1].instance().milp
    again = read_model(model_of(milp))
    assert again.names == milp.names
    for name in ("cost", "lower", "upper", "integer", "row_lower", "row_upper"):
        np.testing.assert_array_equal(getattr(again, name), getattr(milp, name), err_msg=name)
    assert abs(again.rows - milp.rows).sum() == 0


@pytest.mark.parametrize(
    "solver", [PriceCoordination(max_rounds=3), DualDecomposition(max_iterations=5)]
)
def test_solvers_and_verification_see_no_difference(solver):
    one, two = both()
    first, second = (solver.solve(problem, LONG, seed=1) for problem in (one, two))
    assert first.objective == second.objective
    check = two.verify(second)
    assert check.feasible
    wrong = second.values.copy()
    wrong[two.instance().maps[0].index[0, 0]] += 1e-3
    assert two.verify(wrong).worst.startswith("constraint treated_0_0")
    with pytest.raises(ProblemError, match="112 values"):
        two.verify(wrong[:-1])


def test_no_model_is_built_before_one_is_asked_for_and_then_it_counts():
    problem = both()[1]
    solution = PriceCoordination(max_rounds=2).solve(problem, LONG)
    assert "model" not in problem.__dict__
    assert problem.verify(solution)
    problem.model.addCons(problem.model.getVars()[0] <= 0.5, name="never the first")
    solution.values[0] = 1.0
    assert not problem.verify(solution.values)


def test_a_solution_starts_the_next_run():
    problem = both()[1]
    solution = PriceCoordination(max_rounds=2).solve(problem, LONG)
    problem.set_start(solution)
    assert DualDecomposition(max_iterations=1).solve(problem, LONG).objective >= solution.objective


def test_what_makes_no_sense_is_refused():
    milp = both()[1].instance().milp
    net = mlp(1, 4, 9)
    x = np.arange(4, 40).reshape(4, 9)
    y = np.arange(4)[:, None]
    with pytest.raises(ProblemError, match="binary variables first"):
        ArrayMIP(replace(milp, integer=milp.integer[::-1].copy()))
    with pytest.raises(ProblemError, match="unbounded"):
        ArrayMIP(replace(milp, upper=milp.upper + np.inf)).add_predictor(net, x, y)
    with pytest.raises(ProblemError, match="must be binary"):
        ArrayMIP(milp).add_predictor(net, x, y + 4, output="classification")
    for outputs in (y[:2], 0 * y):
        with pytest.raises(ProblemError, match="outputs"):
            ArrayMIP(milp).add_predictor(net, x, outputs)

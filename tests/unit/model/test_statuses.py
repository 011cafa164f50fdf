"""What is answered by a status: no exception, and a solution without a point says why."""

import numpy as np
import pytest

from ddmip_lib import DualDecomposition, Solution
from ddmip_lib.model.solution import STATUSES, History
from ddmip_lib.model.verification import Verification
from tests.builders.clocks import LONG
from tests.builders.instances import build, relu_net, tiny


def without_point(solution: Solution, status: str) -> None:
    assert solution.status == status
    assert solution.objective is None
    assert solution.bound is None
    assert solution.gap is None
    assert solution.inputs == []
    assert solution.outputs == []
    assert solution.values is None
    assert solution.verification is None
    assert solution.objective_last is None
    assert not solution.found
    assert status in repr(solution)


@pytest.mark.parametrize("vtype", ["B", "I", "C"])
@pytest.mark.parametrize("started", [False, True])
def test_infeasible_mip(vtype: str, started: bool) -> None:
    built = build(relu_net(2), 2, vtype=vtype)
    built.model.addCons(built.x.sum() >= 3)
    if started:
        built.problem.set_start([[1.0, 1.0]])
    without_point(DualDecomposition(restarts=0).solve(built.problem, time_limit=LONG), "infeasible")


def test_infeasible_only_over_the_integers() -> None:
    built = build(relu_net(2), 2, vtype="B")
    built.model.addCons(2 * built.x.sum() == 1)
    without_point(DualDecomposition(restarts=0).solve(built.problem, time_limit=LONG), "infeasible")


def test_no_integer_between_the_bounds() -> None:
    without_point(
        DualDecomposition(restarts=0).solve(
            build(relu_net(2), 2, vtype="I", low=0.2, high=0.8).problem, time_limit=LONG
        ),
        "infeasible",
    )


@pytest.mark.parametrize("vtype", ["B", "C"])
def test_contradictory_output_rows(vtype: str) -> None:
    built = build(relu_net(2), 2, vtype=vtype)
    built.model.addCons(built.y[0, 0] >= 1)
    built.model.addCons(built.y[0, 0] <= -1)
    without_point(DualDecomposition(max_iterations=30).solve(built.problem, time_limit=LONG), "infeasible")


def test_output_row_that_no_input_meets() -> None:
    built = build(relu_net(2), 2, vtype="B")
    built.model.addCons(built.y[0, 0] >= 1e4)
    without_point(DualDecomposition(max_iterations=30).solve(built.problem, time_limit=LONG), "infeasible")


@pytest.mark.parametrize("limit", [0, 0.0, -1.0, -np.inf])
@pytest.mark.parametrize("vtype", ["B", "C"])
def test_no_time(limit: float, vtype: str) -> None:
    problem = build(relu_net(2), 2, vtype=vtype).problem
    problem.set_start([[0.0, 1.0]])
    without_point(DualDecomposition(restarts=0).solve(problem, time_limit=limit), "time_limit")


def test_unlimited_time() -> None:
    """An infinite limit, with a start and a variable that the start does not settle."""
    built = build(relu_net(2), 2, vtype="B")
    built.model.addVar(ub=1.0)
    built.problem.set_start([[0.0, 1.0]])
    assert DualDecomposition(restarts=0).solve(built.problem, time_limit=np.inf).found
    assert DualDecomposition(restarts=0).start(built.problem).incumbent.check is not None


def test_iteration_limit_returns_what_was_found() -> None:
    solution = DualDecomposition(max_iterations=1).solve(build(relu_net(3), 3).problem)
    assert solution.status == "iteration_limit"
    assert solution.found
    assert len(solution.history) == 1


def test_every_status_is_a_known_one() -> None:
    solver = DualDecomposition(max_iterations=40)
    found = {solver.solve(tiny(seed).problem, time_limit=LONG).status for seed in range(6)}
    assert found <= set(STATUSES)
    with pytest.raises(ValueError, match="unknown status"):
        Solution("done", "test")


def test_an_objective_needs_a_verification_that_holds() -> None:
    bad = Verification(1.0, 0.5, 0.0, 0.0, 0.0, 0, None, (), "row r")
    for verification in (None, bad):
        with pytest.raises(ValueError, match="verification"):
            Solution("converged", "test", objective=1.0, verification=verification)


def test_history_names_its_columns() -> None:
    with pytest.raises(KeyError, match="primal_residual"):
        History()["residual"]
    assert repr(History()) == "History: no iterations"

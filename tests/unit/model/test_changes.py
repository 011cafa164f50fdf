"""What if: other sides, prices and bounds, on a copy of the user's model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddmip_lib import Enumeration, NeuralMIP, SequentialMIP, solve
from ddmip_lib.errors import ProblemError
from ddmip_lib.model.arrays import ArrayMIP
from ddmip_lib.problems import hand_sized
from tests.builders.instances import Built, build
from tests.builders.networks import linear


def budgeted(vtype: str = "B") -> Built:
    """max 2 x0 + 3 x1 - 1 with x0 + x1 <= 1, -2 <= x0 - x1 <= 1 and x0 = x2."""
    built = build(linear(2.0, 3.0, 0.0), 3, vtype=vtype, sense="maximize")
    x = built.x[0]
    built.model.addCons(x[0] + x[1] <= 1, name="budget")
    built.model.addCons((x[0] - x[1] >= -2) <= 1, name="range")
    built.model.addCons(x[0] - x[2] == 0, name="equal")
    built.model.addObjoffset(-1.0)
    return built


def optimum(problem: NeuralMIP) -> float | None:
    return Enumeration().solve(problem).objective


def test_each_kind_of_change_has_its_optimum_and_leaves_the_model_alone() -> None:
    built = budgeted()
    problem = built.problem
    digest = problem.instance().digest
    assert optimum(problem) == 2.0
    assert optimum(problem.changed(rhs={"budget": 2})) == 4.0
    assert optimum(problem.changed(rhs={"budget": (None, 0)})) == -1.0
    assert optimum(problem.changed(rhs={"range": (0, None)})) == 1.0
    assert optimum(problem.changed(rhs={"equal": 1})) == 1.0
    assert optimum(problem.changed(cost=[(built.y[0, 0], -1)])) == -1.0
    assert optimum(problem.changed(cost={"x_0_0": 7})) == 8.0
    assert optimum(problem.changed(bounds={"x_0_1": 0})) == 1.0
    assert optimum(problem.changed(bounds=[(built.y[0, 0], (None, 2.5))])) == 1.0
    assert optimum(problem.changed(bounds={"x_0_0": 1}, rhs={"budget": 2})) == 4.0
    assert problem.instance().digest == digest


def test_a_changed_problem_answers_for_the_users_variables_and_is_changed_again() -> None:
    built = budgeted()
    twice = built.problem.changed(rhs={"budget": 2}).changed(bounds=[(built.x[0, 0], 0)])
    solution = Enumeration().solve(twice)
    assert solution.objective == 2.0
    assert solution[built.x].tolist() == [[0.0, 1.0, 0.0]]
    assert solution["y_0_0"] == 3.0
    assert twice.verify(solution).feasible


@settings(max_examples=6, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=4, max_size=4), st.integers(0, 3))
def test_a_changed_problem_is_the_problem_built_anew(cost: list[int], budget: int) -> None:
    built = budgeted()
    variables = [*built.x.flat, *built.y.flat]
    changed = built.problem.changed(rhs={"budget": budget}, cost=zip(variables, cost, strict=True))
    new = budgeted()
    new.model.chgRhs(next(c for c in new.model.getConss() if c.name == "budget"), budget)
    terms = zip(cost, [*new.x.flat, *new.y.flat], strict=True)
    new.model.setObjective(sum((c * v for c, v in terms), start=0 * new.x[0, 0]) - 1, "maximize")
    one = changed.instance()
    two = new.problem.instance()
    assert one.milp.offset == two.milp.offset
    assert one.milp.cost.tolist() == two.milp.cost.tolist()
    assert sorted(one.milp.row_upper) == sorted(two.milp.row_upper)
    assert optimum(changed) == optimum(new.problem)


def test_a_start_that_violates_the_change_is_repaired_and_says_by_how_much() -> None:
    built = build(linear(1.0, 2.0), 2, sense="maximize")
    built.model.addCons(built.x[0, 0] + built.x[0, 1] <= 1.5, name="budget")
    solution = solve(built.problem)
    assert solution.objective == pytest.approx(2.5)
    changed = built.problem.changed(rhs={"budget": 1.49}, start=solution)
    again = SequentialMIP(max_failed_starts=1).solve(changed)
    assert "budget is 1.5, outside [-inf, 1.49] by 0.01; repaired" in again.start
    assert again.objective == pytest.approx(2.49)
    kept = built.problem.changed(cost=[(built.x[0, 0], 1.0)], start=solution)
    assert kept.start[0].tolist() == solution.inputs[0].tolist()
    assert kept.start_point.keys() == kept.instance().milp.position.keys()


def test_the_users_start_is_kept() -> None:
    problem = hand_sized()
    copy = problem.copied()
    assert copy.start is problem.start
    problem.set_start({"x_0_0": 1, "x_0_1": 1, "y_0_0": -3})
    copy = problem.copied()
    assert list(copy.start_point.values()) == [1.0, 1.0, -3.0]
    assert copy.start_point.keys() == copy.instance().milp.position.keys()


def test_nonlinear_constraints_change_too() -> None:
    built = build(linear(1.0, 1.0), 2, sense="maximize")
    built.model.addCons(built.x[0, 0] ** 2 + built.x[0, 1] ** 2 <= 1, name="ball")
    wider = built.problem.changed(rhs={"ball": 2})
    assert solve(wider, points_only=True).objective == pytest.approx(2.0, abs=1e-4)


def test_a_problem_given_by_arrays_is_copied() -> None:
    built = budgeted()
    milp = built.problem.instance().milp
    given = ArrayMIP(milp)
    given.add_predictor(linear(2.0, 3.0, 0.0), [[0, 1, 2]], [[3]])
    assert optimum(given.changed(rhs={"budget": 2})) == optimum(given) + 2


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"rhs": {"budgte": 1}},
            "no constraints of the model are called 'budgte'",
        ),
        ({"rhs": {"range": 1}}, "two sides -2 and 1: give a pair"),
        ({"rhs": {"range": (4, None)}}, "give lower <= upper"),
        ({"rhs": {"budget": np.nan}}, "the sides of budget would be -1e\\+20 and nan"),
        ({"rhs": {"budget": (1, 2, 3)}}, "are a pair"),
        ({"cost": {"x_0_0": np.inf}}, "objective coefficient of x_0_0 must be a finite"),
        ({"bounds": {"x_0_0": (0, 2)}}, "binary: its bounds must lie between 0 and 1"),
        ({"bounds": {"z": 1}}, "no variables of the model are called 'z'"),
        ({"start": [[0.0]]}, "the start has shapes"),
    ],
)
def test_wrong_changes_are_refused_by_name(change: dict, told: str) -> None:
    with pytest.raises(ProblemError, match=told):
        budgeted().problem.changed(**change)


def test_an_input_must_stay_bounded() -> None:
    built = build(linear(1.0), 1)
    with pytest.raises(ProblemError, match="input variable x_0_0 is unbounded"):
        built.problem.changed(bounds={"x_0_0": (None, np.inf)}).instance()

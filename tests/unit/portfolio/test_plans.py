"""Several plans: the best of all that differ, compared with an enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddmip_lib import solve_plans
from ddmip_lib.errors import ProblemError
from ddmip_lib.problems import hand_sized
from tests.builders.instances import build, forward, relu_net
from tests.builders.networks import linear


@settings(max_examples=2, deadline=None)
@given(st.integers(0, 99), st.sampled_from(["B", "I"]))
def test_plans_are_the_best_points_of_an_enumeration(seed: int, vtype: str) -> None:
    net = relu_net(2, seed=seed)
    high = 1 if vtype == "B" else 2
    built = build(net, 2, vtype=vtype, high=high)
    digest = built.problem.instance().digest
    points = np.array(list(itertools.product(range(high + 1), repeat=2)), dtype=float)
    best = np.sort(forward(net, points).ravel())[:3]
    plans = solve_plans(built.problem, 3, built.x)
    assert [plan.objective for plan in plans] == pytest.approx(best.tolist())
    assert all(plan.status == "optimal" for plan in plans)
    for one, other in itertools.combinations(plans, 2):
        assert np.abs(one[built.x] - other[built.x]).max() >= 1
        assert built.problem.verify(one).feasible
    assert built.problem.instance().digest == digest


def test_there_may_be_fewer_plans() -> None:
    plans = solve_plans(hand_sized(), 9)
    assert [round(plan.objective, 6) for plan in plans] == [0.5, 1.5, 2.0, 3.5]
    assert plans.complete
    assert "No other plan is feasible." in repr(plans)


def test_plans_differ_in_named_variables_only() -> None:
    plans = solve_plans(hand_sized(), 9, ["x_0_1"])
    assert [round(plan.objective, 6) for plan in plans] == [0.5, 1.5]
    built = build(linear(1.0), 1, vtype="I", low=3, high=3)
    assert len(solve_plans(built.problem, 2)) == 1


def test_continuous_variables_differ_by_a_distance() -> None:
    built = build(linear(1.0), 1)
    plans = solve_plans(built.problem, 2, built.x, distance=0.4)
    assert [plan.objective for plan in plans] == pytest.approx([0.0, 0.4], abs=1e-5)
    assert solve_plans(built.problem, 1, built.x, distance=2.0).complete


def test_integers_differ_by_more_than_one() -> None:
    built = build(linear(1.0), 1, vtype="I", low=-2, high=3)
    plans = solve_plans(built.problem, 9, built.x, distance=1.5)
    assert [plan.objective for plan in plans] == [-2.0, 0.0, 2.0]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "no variable is integer"),
        ({"differ_in": ["y_0_0"]}, "cannot differ in y_0_0, which is unbounded"),
    ],
)
def test_variables_that_cannot_differ(arguments: dict, told: str) -> None:
    with pytest.raises(ProblemError, match=told):
        solve_plans(build(linear(1.0), 1).problem, 2, **arguments)


def test_no_time_leaves_no_plan() -> None:
    built = build(linear(1.0), 1)
    built.model.addCons(built.y[0, 0] >= 5)
    plans = solve_plans(built.problem, 2, built.x, distance=0.1)
    assert (len(plans), plans.complete) == (0, True)
    with pytest.raises(ValueError, match="must be positive"):
        solve_plans(built.problem, 0)

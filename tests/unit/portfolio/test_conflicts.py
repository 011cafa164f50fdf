"""Conflicts: what leaves no point, compared with an enumeration of all subsets."""

from __future__ import annotations

import itertools
from collections.abc import Collection

import numpy as np
import pytest
from pyscipopt import Model

from ddmip_lib import NeuralMIP, conflicts, solve
from ddmip_lib.portfolio.conflicts import _write_bounds_as_constraints
from ddmip_lib.problems import hand_sized
from tests.builders.instances import Built, build, forward, relu_net
from tests.builders.networks import linear


def random_problem(seed: int) -> tuple[Built, np.ndarray, np.ndarray]:
    """Three integers up to 2, a ReLU network, and five constraints a'(x, y) <= b without a point;
    the activities of all points, and the sides.
    """
    rng = np.random.default_rng(seed)
    net = relu_net(3, seed=seed)
    points = np.array(list(itertools.product(range(3), repeat=3)), dtype=float)
    points = np.column_stack([points, forward(net, points)])
    weights = rng.integers(-2, 3, (5, 4)).astype(float)
    weights[0] = [0.0, 0.0, 0.0, 1.0]
    activity = points @ weights.T
    sides = np.quantile(activity, 0.12, axis=0).round(1)
    built = build(net, 3, vtype="I", high=2)
    variables = [*built.x.flat, *built.y.flat]
    for i, (row, side) in enumerate(zip(weights, sides, strict=True)):
        terms = (a * v for a, v in zip(row.tolist(), variables, strict=True))
        built.model.addCons(sum(terms, start=0.0 * variables[0]) <= side, name=f"c{i}")
    return built, activity, sides


def feasible(activity: np.ndarray, sides: np.ndarray, members: Collection[int]) -> bool:
    kept = list(members)
    return bool((activity[:, kept] <= sides[kept] + 1e-9).all(axis=1).any())


@pytest.mark.parametrize("seed", [0, 3])
def test_a_conflict_is_irreducible_and_its_amounts_are_the_smallest(seed: int) -> None:
    built, activity, sides = random_problem(seed)
    assert not feasible(activity, sides, range(5))
    digest = built.problem.instance().digest
    found = conflicts(built.problem)
    assert (found.proved, found.irreducible) == (True, True)
    members = [int(member.name[1:]) for member in found.members]
    assert not feasible(activity, sides, members)
    for member, i in zip(found.members, members, strict=True):
        assert feasible(activity, sides, set(members) - {i})
        others = list(set(range(5)) - {i})
        rest = (activity[:, others] <= sides[others] + 1e-9).all(axis=1)
        if member.amount is None:
            assert not rest.any()
            continue
        assert member.amount == pytest.approx((activity[rest, i] - sides[i]).min(), abs=1e-4)
        changed = built.problem.changed(rhs={member.name: member.side})
        values = member.solution[[*built.x.flat, *built.y.flat]]
        assert changed.verify(values).feasible
    assert built.problem.instance().digest == digest


def test_bounds_of_an_output_conflict_with_a_constraint() -> None:
    built = build(linear(0.5, 1.0), 2, vtype="I", high=4)
    built.model.chgVarUb(built.y[0, 0], 0.5)
    built.model.addCons(built.x[0, 0] >= 3, name="share")
    found = conflicts(built.problem)
    amounts = {m.name: round(m.amount, 4) for m in found.members}
    assert amounts == {"share": 2.0, "bounds of y_0_0": 1.0}
    sides = {m.name: round(m.side, 4) for m in found.members}
    assert sides == {"share": 1.0, "bounds of y_0_0": 1.5}
    assert "proved infeasible; without any of them" in str(found)


def test_two_conflicts_cannot_be_mended_by_one_constraint() -> None:
    built = build(linear(1.0, 1.0), 2)
    for i in range(2):
        built.model.addCons(built.x[0, i] >= 0.8, name=f"high{i}")
        built.model.addCons(built.x[0, i] <= 0.2, name=f"low{i}")
    found = conflicts(built.problem)
    assert {m.name for m in found.members} in ({"high0", "low0"}, {"high1", "low1"})
    assert all(m.amount is None and m.smallest for m in found.members)
    assert "is proved not to be enough" in str(found)
    assert (found.proved, found.irreducible) == (True, True)


def test_a_problem_with_a_point_has_no_conflict() -> None:
    problem = hand_sized()
    found = conflicts(problem)
    assert found.solution is not None
    assert problem.verify(found.solution[problem.model.getVars()]).feasible
    assert str(found).startswith("Nothing conflicts")


def test_networks_in_series_conflict() -> None:
    model = Model()
    x = model.addVar("x", vtype="I", lb=0, ub=3)
    y = model.addVar("y", lb=0, ub=10)
    z = model.addVar("z", lb=None)
    problem = NeuralMIP(model)
    problem.add_predictor(linear(2.0), [[x]], [[y]])
    problem.add_predictor(linear(1.0, bias=1.0), [[y]], [[z]])
    model.addCons(z >= 6, name="quality")
    model.addCons(x <= 1, name="budget")
    found = conflicts(problem)
    assert {m.name: round(m.amount, 4) for m in found.members} == {"quality": 3.0, "budget": 2.0}
    assert (found.proved, found.irreducible) == (True, True)


def test_what_is_never_relaxed_is_named() -> None:
    built = build(linear(1.0, 1.0), 2)
    x = built.x[0]
    built.model.addCons(x[0] ** 2 + x[1] ** 2 >= 1.9, name="far")
    built.model.addCons(x[0] + x[1] <= 1, name="near")
    found = conflicts(built.problem)
    assert found.always_hard == ("nonlinear far",)
    assert "nonlinear far" in str(found)


def test_without_time_nothing_is_claimed() -> None:
    built, _, _ = random_problem(0)
    found = conflicts(built.problem, time_limit=0.0)
    assert (found.proved, found.irreducible, found.solution) == (False, False, None)
    assert "no proof in the time" in str(found)
    assert solve(built.problem).status == "infeasible"


def test_the_slack_of_an_indicator_constraint_keeps_its_bounds() -> None:
    """It is a variable of SCIP's own, whose bound is part of the constraint."""
    problem = hand_sized()
    y = problem.model.getVars()[-1]
    switch = problem.model.addVar("switch", vtype="B", lb=1)
    problem.model.addConsIndicator(y <= -100, binvar=switch, name="quality")
    copy = problem.copied()
    _write_bounds_as_constraints(copy)
    (slack,) = [v for v in copy.model.getVars() if "indslack" in v.name]
    assert slack.getLbOriginal() == 0.0

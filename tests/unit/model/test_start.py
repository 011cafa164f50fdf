"""Starts that fail a constraint: what they violate is reported, and they are repaired where that is
possible.
"""

from __future__ import annotations

import logging

import numpy as np
import pytest

from ddmip_book.problems import water_potability
from ddmip_lib import (
    BigM,
    DualDecomposition,
    Enumeration,
    NeuralMIP,
    PriceCoordination,
    SequentialMIP,
    SingleStepGradient,
    solve,
)
from tests.builders.clocks import LONG
from tests.builders.instances import Built, build, knapsack
from tests.builders.networks import linear

EVERY = [
    BigM(),
    SequentialMIP(max_failed_starts=1),
    DualDecomposition(max_iterations=2),
    SingleStepGradient(steps=2),
]


class Solving:
    method = "solve"

    @staticmethod
    def solve(problem: NeuralMIP, time_limit: float = 60.0):
        return solve(problem, time_limit)


def sloped(vtype: str = "C", n: int = 1) -> Built:
    """max sum of y with y = x_0 + 2 x_1 on [0, 1]^2 (or integers up to 3), and one row: x_0 + x_1
    <= 1 in each.
    """
    net = linear(1.0, 2.0)
    built = build(net, 2, n=n, vtype=vtype, high=1.0 if vtype == "C" else 3.0, sense="maximize")
    for i in range(n):
        built.model.addCons(built.x[i, 0] + built.x[i, 1] <= 1, name=f"sum{i}")
    return built


def test_a_feasible_start_is_reported_nowhere(caplog):
    built = sloped()
    built.problem.set_start([[0.25, 0.5]])
    for solver in (*EVERY, Solving()):
        with caplog.at_level(logging.WARNING, "ddmip_lib"):
            found = solver.solve(built.problem, time_limit=LONG)
        assert (found.start, caplog.text) == ("", "")
        assert found.objective >= 1.25


@pytest.mark.parametrize(
    "solver", [SequentialMIP(max_failed_starts=1), Solving()], ids=lambda s: s.method
)
def test_a_start_that_misses_a_row_by_little_is_told_and_repaired(solver, caplog):
    built = sloped()
    built.problem.set_start([[0.5, 0.5 + 2.3e-5]])
    with caplog.at_level(logging.WARNING, "ddmip_lib"):
        found = solver.solve(built.problem, time_limit=LONG)
    assert found.start.startswith(
        "constraint sum0 is 1.00002, outside [-inf, 1] by 2.3e-05; repaired"
    )
    assert "moved by up to 2.3e-05" in found.start or "moved by up to 1.2e-05" in found.start
    assert [
        record.levelname for record in caplog.records if found.start in record.getMessage()
    ] == ["WARNING"]
    assert (
        found.objective >= 1.5 - 1e-6
    )  # which the repaired start has: a run does not end below it
    assert found.details["incumbents"][0][1] == pytest.approx(1.5, abs=1e-4)
    assert found.start in repr(found)


@pytest.mark.parametrize("solver", EVERY, ids=lambda s: s.method)
def test_the_inputs_are_kept_where_the_rest_can_be_solved_for(solver):
    """The whole point misses a row by its side variable alone, by 2.3e-5."""
    built = sloped()
    side = built.model.addVar("side", lb=0.0, ub=2.0)
    built.model.addCons(side >= built.x[0, 0] + built.x[0, 1], name="cover")
    built.model.setObjective(built.y[0, 0] - side, "maximize")
    built.problem.set_start({"x_0_0": 0.5, "x_0_1": 0.25, "side": 0.75 - 2.3e-5})
    found = solver.solve(built.problem, time_limit=LONG)
    assert found.start.startswith("constraint cover is")
    assert "by 2.3e-05; repaired, its network inputs kept, objective 0.25" in found.start
    assert found.objective >= 0.25 - 1e-6


def test_an_integer_start_off_an_integer_is_told_and_rounded():
    built = sloped("I")
    built.problem.set_start([[0.4, 1.0]])
    found = SequentialMIP(max_failed_starts=1).solve(built.problem, time_limit=LONG)
    assert "is 0.4, outside [0, 0] by 0.4" in found.start
    assert "repaired, its network inputs moved by up to 0.4, objective 2" in found.start
    assert found.objective >= 2.0


def test_a_start_outside_its_bounds_is_told_and_clipped():
    built = sloped()
    built.problem.set_start([[0.0, 1.25]])
    found = SequentialMIP(max_failed_starts=1).solve(built.problem, time_limit=LONG)
    assert "outside [0, 1] by 0.25" in found.start
    assert "repaired, its network inputs moved by up to 0.25, objective 2" in found.start


@pytest.mark.parametrize("solver", [*EVERY, Solving()], ids=lambda s: s.method)
def test_a_start_beyond_repair_is_told_and_the_run_goes_on(solver, caplog):
    built = sloped()
    built.problem.set_start([[1.0, 1.0]])
    with caplog.at_level(logging.WARNING, "ddmip_lib"):
        found = solver.solve(built.problem, time_limit=LONG)
    assert found.start.startswith("constraint sum0 is 2, outside [-inf, 1] by 1; not repaired")
    assert found.objective is None or found.objective <= 2.0 + 1e-6
    assert isinstance(
        solver, (SingleStepGradient, DualDecomposition, SequentialMIP)
    ) or found.objective == pytest.approx(2.0)
    assert (
        len([record for record in caplog.records if "start" in record.getMessage()]) == 1
    )  # once for a whole run


def test_other_constraints_are_named():
    built = sloped()
    flag = built.model.addVar("flag", vtype="B", lb=1.0)
    built.model.addConsIndicator(built.x[0, 0] + built.x[0, 1] <= 0.5, binvar=flag, name="if_flag")
    built.problem.set_start({"x_0_0": 0.5, "x_0_1": 0.5, "flag": 1.0})
    found = BigM().solve(built.problem, time_limit=LONG)
    assert "if_flag" in found.start
    assert "not repaired" in found.start
    assert found.objective == pytest.approx(1.0)


def test_enumeration_and_prices_report_it_too():
    problem, _ = knapsack(1)
    problem.set_start(np.ones((1, 6)))  # more than the knapsack holds
    assert Enumeration().solve(problem).start.startswith("constraint capacity is")
    water = water_potability(n=3, net=linear(*[1.0] * 9, bias=-1.0), seed=1)
    water.set_start(np.full(water.start[0].shape, 1e3))
    found = PriceCoordination(max_rounds=1).solve(water, time_limit=LONG)
    assert "outside" in found.start
    assert found.objective is None or water.verify(found).feasible


def test_a_new_start_is_looked_at_again():
    built = sloped()
    built.problem.set_start([[1.0, 1.0]])
    twin = built.problem.with_own_start()
    twin.start_failed = True
    assert SequentialMIP(max_failed_starts=1).solve(twin, time_limit=LONG).start == ""
    twin.set_start([[1.0, 1.0]])
    assert SequentialMIP(max_failed_starts=1).solve(twin, time_limit=LONG).start != ""

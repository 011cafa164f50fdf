"""Independent parts of a problem: how they are found, solved, and put together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from pyscipopt import Model
from torch import nn

from ddmip_lib import NeuralMIP, solve
from ddmip_lib.methods import start_run
from ddmip_lib.portfolio.components import components_of
from ddmip_lib.portfolio.options import SolveOptions
from ddmip_lib.portfolio.solving import Portfolio
from tests.builders.clocks import LONG


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 1)).double().eval()


NET = network()
OTHER = network(1)


def parts(levels: list[float], vtype: str = "I", limit: float = 3.0) -> NeuralMIP:
    """Samples of one network, and one of another, without a common constraint."""
    model = Model()
    n = len(levels)
    x = model.addMatrixVar((n, 2), vtype=vtype, lb=0, ub=3, name="x")
    y = model.addMatrixVar((n, 1), lb=None, name="y")
    z = model.addMatrixVar((1, 3), vtype=vtype, lb=-1, ub=1, name="z")
    w = model.addMatrixVar((1, 1), lb=None, name="w")
    free = model.addVar(vtype="I", lb=0, ub=9, name="free")
    fixed = model.addVar(lb=2, ub=2, name="fixed")
    for k in range(n):
        model.addCons(x[k, 0] + x[k, 1] + fixed <= limit + 2, name=f"limit {k}")
    model.addCons(2 * free >= 3, name="free")
    model.addCons(fixed >= 1, name="of fixed variables alone")
    model.setObjective(y.sum() + 0.1 * x.sum() + w.sum() + free + fixed + 1)
    problem = NeuralMIP(model)
    known = np.array(levels)[:, None]
    problem.add_predictor(NET, np.hstack([x, known]), y)
    problem.add_predictor(OTHER, z, w)
    return problem


def value(net: nn.Module, x: list[float]) -> float:
    return net(torch.tensor([x], dtype=torch.float64)).item()


def optimum(levels: list[float], limit: float = 3.0) -> float:
    """The sum of the optima of all parts, each by enumeration."""
    pairs = [x for x in itertools.product(range(4), repeat=2) if sum(x) <= limit]
    total = sum(min(value(NET, [*x, k]) + 0.1 * sum(x) for x in pairs) for k in levels)
    total += min(value(OTHER, list(z)) for z in itertools.product((-1, 0, 1), repeat=3))
    return total + 2 + 2 + 1  # `free`, `fixed`, the constant


LEVELS = [0.1, -0.4, 0.7]


def test_samples_and_networks_without_common_constraints_are_components():
    problem = parts(LEVELS)
    found = components_of(start_run(problem, LONG, 0))
    assert len(found) == 4
    rows = [component.problem.milp.row_names for component in found]
    assert rows == [
        ["limit 0", "free", "of fixed variables alone"],
        ["limit 1"],
        ["limit 2"],
        [],
    ]
    constants = [component.problem.milp.names[-1] for component in found]
    assert constants[:3] == ["0.1", "-0.4", "0.7"]  # each with its own sample


def test_the_sum_of_all_optima_is_proved_optimal():
    problem = parts(LEVELS)
    solution = solve(problem, time_limit=LONG)
    assert solution.status == "optimal"
    assert problem.verify(solution).feasible
    assert solution.objective == pytest.approx(optimum(LEVELS))
    assert solution.bound <= solution.objective
    names = [entry.method for entry in solution.details["log"]]
    assert names == [f"component {k} of 4" for k in (1, 2, 3, 4)]
    assert [solution.details["components"][k].status for k in range(4)] == ["optimal"] * 4


def test_continuous_parts_equal_those_solved_alone():
    solution = solve(parts([0.1, 0.3], vtype="C"), time_limit=LONG)
    alone = [solve(parts([level], vtype="C"), time_limit=LONG) for level in (0.1, 0.3)]
    assert solution.status == "optimal"
    first, second = (found.details["components"][0].objective for found in alone)
    rest = alone[0].objective - first
    assert solution.objective == pytest.approx(first + second - 2 + rest, abs=1e-4)


def test_an_infeasible_part_makes_the_problem_infeasible():
    problem = parts(LEVELS, limit=-1.0)
    assert solve(problem, time_limit=LONG).status == "infeasible"


def test_parts_start_from_the_users_start():
    problem = parts(LEVELS)
    problem.set_start(np.array([[1.0, 1.0, k] for k in LEVELS]), np.zeros((1, 3)))
    heard = []
    solution = solve(problem, time_limit=LONG, callback=lambda event: heard.append(event))
    begun = sum(value(NET, [1.0, 1.0, k]) + 0.2 for k in LEVELS) + value(OTHER, [0.0] * 3) + 5
    assert solution.details["incumbents"][0][1] == pytest.approx(begun)
    assert all(event.objective >= solution.objective - 1e-9 for event in heard)


def test_a_callback_stops_all_parts():
    problem = parts(LEVELS, vtype="C")
    solution = solve(problem, time_limit=LONG, callback=lambda event: True)
    assert solution.status == "stopped"


def test_one_common_constraint_joins_the_parts():
    problem = parts(LEVELS)
    x = problem.predictors[0].inputs
    z = problem.predictors[1].inputs
    problem.model.addCons(sum(x[k, 0] for k in range(3)) + z[0, 0] <= 5)
    assert components_of(start_run(problem, LONG, 0)) == []


def test_integers_fixed_at_0_or_1_are_listed_as_scip_lists_them() -> None:
    model = Model()
    model.addVar(vtype="I", lb=-2, ub=-2)
    wide = model.addVar(vtype="I", lb=0, ub=3)
    narrow = model.addVar(vtype="I", lb=0, ub=3)
    model.chgVarUb(narrow, 1)  # remains among the other integers
    one = model.addVar(vtype="I", lb=1, ub=1)
    y = model.addMatrixVar((2, 1), lb=None)
    model.addConsIndicator(wide <= 2, binvar=model.addVar(vtype="B"))
    model.setObjective(y.sum() + one)
    problem = NeuralMIP(model)
    problem.add_predictor(NET, [[wide, one, 0.5], [narrow, 2.0, 0.5]], y)
    instance = problem.instance()
    for found in (
        instance,
        *(part.problem.instance() for part in components_of(start_run(problem, LONG, 0))),
    ):
        upper = [v.getUbOriginal() for v in found.model.getVars()]
        assert upper == np.minimum(found.milp.upper, 1e20).tolist()
    best = min(value(NET, [k, 1, 0.5]) for k in range(4))
    best += min(value(NET, [k, 2, 0.5]) for k in range(2)) + 1
    solution = solve(problem, LONG)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(best, abs=1e-6)


def test_an_infeasible_part_leaves_no_bound() -> None:
    """The exact model of the second part is infeasible, after bounds of both were added."""
    problem = parts([0.5, 0.25])
    run = start_run(problem, LONG, 0)
    portfolio = Portfolio(run, SolveOptions())
    run.raise_bound(-100.0)
    assert portfolio.incumbent.values is None
    run.raise_bound(np.inf)
    solution = portfolio.solution()
    assert (solution.status, solution.bound) == ("infeasible", None)

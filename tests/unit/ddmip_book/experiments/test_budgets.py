"""Other budgets for Water: in the problem, in cases, and where rows are recomputed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ddmip_book.experiments import Case
from ddmip_book.experiments.case import RAW, RAW_BUDGETS
from ddmip_book.experiments.execute import build, run_case, water_budget
from ddmip_book.experiments.networks import networks_of
from ddmip_book.experiments.rows import decode, encode
from ddmip_book.experiments.verify import verify_row
from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import PriceCoordination

NET = mlp(2, 16, 9, seed=1)


@pytest.mark.parametrize("arrays", [False, True])
def test_budgets_of_each_feature_are_kept(arrays: bool) -> None:
    budget = np.random.default_rng(3).uniform(0.1, 1.0, (2, 9))
    problem = water_potability(n=6, net=NET, budget=budget, arrays=arrays)
    s = problem.instance().milp
    up = [s.names.index(f"a_{i}_{j}") for i in range(6) for j in range(9)]
    down = [s.names.index(f"b_{i}_{j}") for i in range(6) for j in range(9)]
    assert s.upper[up].reshape(6, 9) == pytest.approx(np.tile(budget[0], (6, 1)))
    assert s.upper[down].reshape(6, 9) == pytest.approx(np.tile(budget[1], (6, 1)))
    solution = PriceCoordination().solve(problem, seed=0)
    moved = solution.inputs[0] - problem.start[0]
    spent = np.stack([np.maximum(moved, 0).sum(axis=0), np.maximum(-moved, 0).sum(axis=0)])
    assert (spent <= budget + 1e-6).all()
    assert problem.verify(solution).feasible


def test_one_number_is_a_budget_for_all_features() -> None:
    one, many = (
        water_potability(n=4, net=NET, budget=b).instance().digest
        for b in (1.5, np.full((2, 9), 1.5))
    )
    assert one == many


@pytest.mark.parametrize("budget", [0.0, -1.0, np.ones(9), np.zeros((2, 9))])
def test_wrong_budgets_are_refused(budget: float | np.ndarray) -> None:
    with pytest.raises(ValueError, match="must be positive, one number or two"):
        water_potability(n=4, net=NET, budget=budget)


def test_raw_budgets_are_divided_by_the_spread_of_the_data(tmp_path: Path) -> None:
    case = Case("budgets", RAW, "2x16", 5, 42, "prices", 5.0)
    nets = networks_of(case, tmp_path)
    assert case.budget is None
    allowed = water_budget(case.problem, case.budget, nets[0])
    assert allowed * nets[0].std == pytest.approx(np.asarray(RAW_BUDGETS))  # type: ignore[operator]
    assert build(case, nets).blocks.capacities == pytest.approx(allowed.ravel())


@pytest.mark.parametrize(
    "case",
    [
        Case("budgets", RAW, "2x16", 5, 42, "prices", 5.0),
        Case("budgets", "water", "2x16", 5, 42, "prices", 5.0, budget=0.5),
    ],
)
def test_a_row_that_overspends_is_found(case: Case, tmp_path: Path) -> None:
    row = run_case(case, tmp_path)
    assert verify_row(row, tmp_path) is None
    moved = decode(row.point["adjustments"], row.point["dtype"])
    wrong = {**row.point, "adjustments": encode(np.ones(moved.shape)), "dtype": "float64"}
    assert "of a budget of" in str(verify_row(replace(row, point=wrong), tmp_path))

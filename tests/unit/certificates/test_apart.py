"""Bounds of general blocks by the exact models of their pieces: any prices give a bound, and good
ones close it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pyscipopt import Model

from ddmip_book.networks import mlp
from ddmip_lib import NeuralMIP, PriceCoordination, SequentialMIP, Solution
from ddmip_lib.certificates import certify, separable
from ddmip_lib.certificates.separable import LagrangianDual
from ddmip_lib.clock import now
from ddmip_lib.errors import ProblemError
from ddmip_lib.model import Incumbent, find_structure
from ddmip_lib.problems import hand_sized
from ddmip_lib.proofs import prove
from tests.builders.clocks import LONG
from tests.unit.pricing.test_general import Family

torch.set_num_threads(1)
NOTHING = Solution("no_solution_found", "none")


def dual_at(incumbent: Incumbent, prices: np.ndarray | None) -> LagrangianDual:
    """The Lagrangian dual of the blocks of a problem, proved for as long as it takes."""
    dual = LagrangianDual(incumbent, find_structure(incumbent.instance), prices, now() + LONG)
    dual.prove_all(now() + LONG)
    return dual


def bound_at(problem: NeuralMIP, prices: np.ndarray | None) -> float:
    return dual_at(Incumbent(problem.instance(), now()), prices).bound


@pytest.mark.parametrize("seed", range(4))
def test_any_prices_give_a_bound(seed: int) -> None:
    case = Family(seed, minimise=seed % 2 == 1)
    draw = np.random.default_rng(seed)
    problem = case.problem()
    least = -case.sign * case.brute()  # the model as a minimisation
    for prices in (None, np.zeros(2), *draw.normal(scale=(0.1, 1.0, 10.0), size=(2, 3)).T):
        assert bound_at(problem, prices) <= least + 1e-9


@pytest.mark.parametrize("minimise", [False, True])
def test_prices_of_the_coordination_nearly_close_it(minimise: bool) -> None:
    case = Family(2, minimise=minimise)
    problem = case.problem()
    solution = PriceCoordination(max_rounds=12).solve(problem, LONG)
    proved = certify(problem, solution, time_limit=LONG, workers=1)
    assert case.sign * proved.bound >= case.sign * case.brute() - 1e-6
    assert case.sign * proved.objective == pytest.approx(case.sign * case.brute(), abs=1e-6)
    lp = solution.details[
        "lp_value"
    ]  # of options that were found: the best bound that prices can give is no better
    assert case.sign * proved.bound <= case.sign * lp + 1e-4 * max(1.0, abs(lp))
    incumbent = Incumbent(problem.instance(), 0.0)
    incumbent.consider(solution.values)
    certificate = dual_at(incumbent, solution.details["prices"]).certificate()
    assert certificate.closed.all()
    assert set(certificate.method) == {"exact model"}
    assert (certificate.profit_bound >= certificate.profit_known - 1e-6).all()


def shared_inputs(n: int = 4) -> NeuralMIP:
    """max sum of f(x_i) - x_i3 over boxes with a row of their own, with a budget that all share."""
    m = Model()
    x = m.addMatrixVar((n, 3), lb=-1, ub=1)
    y = m.addMatrixVar((n, 1), lb=None)
    for i in range(n):
        m.addCons(x[i, 0] + x[i, 1] + x[i, 2] >= -0.5 + 0.1 * i)
    m.addCons(x[:, 0].sum() <= 1.0, name="shared")
    m.setObjective(y.sum() - x[:, 2].sum(), "maximize")
    problem = NeuralMIP(m)
    problem.add_predictor(mlp(1, 8, 3, seed=5).double().eval(), x, y)
    return problem


def test_continuous_blocks_are_bounded_up_to_the_gap_of_duality() -> None:
    problem = shared_inputs()
    solution = PriceCoordination().solve(problem, LONG)
    low = bound_at(problem, solution.details["prices"])
    assert -low >= solution.objective - 1e-9
    assert -low <= max(solution.objective, solution.details["lp_value"]) * (1 + 1e-2)


def test_prices_of_another_length_or_no_numbers_are_refused() -> None:
    problem = Family(0).problem()
    with pytest.raises(ProblemError, match="3 prices for 2 coupling constraints"):
        certify(problem, NOTHING, [0.0, 1.0, 2.0], time_limit=LONG)
    with pytest.raises(ProblemError, match="finite"):
        certify(problem, NOTHING, [np.nan, 1.0], time_limit=LONG)


def test_what_is_proved_when_it_is_interrupted_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Family(0).problem()
    solution = PriceCoordination(max_rounds=12).solve(problem, LONG)
    calls = []

    def interrupted(*arguments: Any, **settings: Any) -> Any:
        calls.append(1)
        if len(calls) > 3:  # the first stage asks the three blocks
            raise KeyboardInterrupt
        return prove(*arguments, **settings)

    monkeypatch.setattr(separable, "prove", interrupted)
    proved = certify(problem, solution, time_limit=LONG)
    assert proved.bound is not None
    assert proved.bound >= Family(0).brute() - 1e-6
    assert len(calls) == 4


@pytest.mark.parametrize("time_limit", [0.0, LONG])
def test_a_solution_that_was_proved_infeasible_stays_so(time_limit: float) -> None:
    problem = hand_sized()
    problem.model.addCons(problem.predictors[0].outputs[0, 0] >= 10)
    infeasible = SequentialMIP().solve(problem, LONG)
    proved = certify(problem, infeasible, time_limit=time_limit)
    assert (infeasible.status, proved.status) == ("infeasible", "infeasible")
    assert proved.bound is None or proved.bound == np.inf

"""Walks: their gradients are those of the merit, their ends are ordered and different, and starts
there find more.
"""

from __future__ import annotations

import numpy as np
import pyscipopt
import pytest
import torch
from torch import nn

from ddmip_book.networks import mlp
from ddmip_lib import BigM, NeuralMIP, SequentialMIP
from ddmip_lib.linearisation import multistart as walks
from ddmip_lib.linearisation.elastic import ElasticModel
from ddmip_lib.linearisation.local_search import UnitMoves
from ddmip_lib.linearisation.multistart import MIN_END_DISTANCE, GradientMultistart
from ddmip_lib.linearisation.sequential import INITIAL_PENALTY
from ddmip_lib.predictors import black_box
from tests.builders.clocks import LONG

torch.set_num_threads(1)


def two_networks(seed: int, output: str = "regression") -> NeuralMIP:
    """Two networks that share inputs, with rows on inputs, outputs and a variable of its own."""
    m = pyscipopt.Model()
    x = m.addMatrixVar((3, 2), lb=-1, ub=2)
    z = m.addVar(lb=0, ub=5)
    w = m.addMatrixVar((1, 2), lb=None)
    y = (
        m.addMatrixVar((3, 1), lb=None)
        if output == "regression"
        else m.addMatrixVar((3, 1), vtype="B")
    )
    m.addCons(x[0, 0] + x[1, 1] <= 0.5)
    m.addCons(w[0, 0] - 2 * w[0, 1] + z >= 0.1)
    m.addCons(y.sum() + z <= 1)
    m.setObjective(y.sum() - x[2, 0] + w[0, 1] + z)
    problem = NeuralMIP(m)
    problem.add_predictor(mlp(1, 7, 2, seed=seed), x, y, output=output)
    problem.add_predictor(
        nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 2)).double().eval(), x[:1], w
    )
    return problem


def box(seed: int, n: int = 3) -> NeuralMIP:
    """The highest value of a network of ReLUs in a box."""
    torch.manual_seed(seed)
    net = (
        nn.Sequential(nn.Linear(n, 14), nn.ReLU(), nn.Linear(14, 14), nn.ReLU(), nn.Linear(14, 1))
        .double()
        .eval()
    )
    with torch.no_grad():
        for layer in net[::2]:
            layer.weight *= 3.0
    m = pyscipopt.Model()
    x = m.addMatrixVar((1, n), lb=-1, ub=1)
    y = m.addMatrixVar((1, 1), lb=None)
    m.setObjective(y[0, 0], "maximize")
    problem = NeuralMIP(m)
    problem.add_predictor(net, x, y)
    return problem


def walking(problem: NeuralMIP) -> tuple[GradientMultistart, np.ndarray, float]:
    elastic = ElasticModel(problem.instance())
    rng = np.random.default_rng(3)
    return (
        GradientMultistart(elastic, UnitMoves(elastic, rng).norm, rng),
        np.zeros(elastic.milp.n_variables),
        INITIAL_PENALTY * elastic.objective_unit,
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("output", ["regression", "classification"])
def test_slopes_are_those_of_the_merit(seed: int, output: str) -> None:
    torch.manual_seed(seed)
    found, base, price = walking(two_networks(seed, output))
    at = np.random.default_rng(seed).random((5, len(found.elastic.inputs)))
    slope = found._merits(at, base, price)[1] * found.elastic.range
    h = 1e-6
    for k in range(at.shape[1]):
        step = h * np.eye(at.shape[1])[k]
        ahead, back = (found._merits(at + sign * step, base, price)[0] for sign in (1, -1))
        near = np.isclose(
            slope[:, k], (ahead - back) / (2 * h), rtol=1e-5, atol=1e-4 * np.abs(slope).max()
        )
        assert near.mean() >= 0.8, "but where a kink lies between"


def test_walks_end_far_below_random_points() -> None:
    found, base, price = walking(box(0, 10))
    at = np.random.default_rng(1).random((20 * found.count, 10))
    assert found.count == walks.MAX_GRADIENT_RUNS
    ends = found._merits(np.array(found._descend(base, price)), base, price)[0]
    random = found._merits(at, base, price)[0]
    assert ends[0] < random.min() - 0.1 * np.ptp(random)
    assert np.median(ends) < random.min()


def test_ends_come_once_the_best_first() -> None:
    found, base, price = walking(box(1))
    merits = found._merits(np.array(found._descend(base, price)), base, price)[0]
    assert (np.diff(merits) >= 0).all()
    ends = [found.end(base, price) for _ in range(4)]
    given = np.array([end for end in ends if end is not None])
    assert len(given) >= 2
    assert all(
        np.abs(a - b).max() > MIN_END_DISTANCE for k, a in enumerate(given) for b in given[:k]
    )


@pytest.mark.parametrize("seed", range(4))
def test_starts_at_ends_find_the_highest_value_in_a_box(seed: int) -> None:
    problem = box(seed)
    exact = BigM(check=False).solve(problem, time_limit=LONG)
    assert exact.status == "claimed_optimal"
    found = SequentialMIP(neighbourhoods=False, max_failed_starts=6).solve(
        problem, time_limit=LONG, seed=seed
    )
    assert found.objective == pytest.approx(
        exact.objective, abs=0.01 * max(1.0, abs(exact.objective))
    )


def test_nobody_walks_where_networks_are_large_or_of_unknown_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    m = pyscipopt.Model()
    x = m.addMatrixVar((1, 2), lb=0, ub=1)
    problem = NeuralMIP(m)
    problem.add_predictor(black_box(lambda rows: rows.sum(axis=1, keepdims=True), 1), x)
    found, base, price = walking(problem)
    assert found.end(base, price) is None
    monkeypatch.setattr(walks, "MAX_WEIGHT_EVALUATIONS", 100)
    found, base, price = walking(box(0))
    assert found.end(base, price) is None

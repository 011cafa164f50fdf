"""Moves of whole inputs: a point that none improves is a local optimum by brute force."""

import itertools

import numpy as np
import pyscipopt
import pytest
import torch
from torch import nn

from ddmip_book.networks import mlp
from ddmip_lib import NeuralMIP
from ddmip_lib.linearisation.elastic import ElasticModel, TrialPoint
from ddmip_lib.linearisation.local_search import UnitMoves
from ddmip_lib.linearisation.sequential import INITIAL_PENALTY


class Bumps(nn.Module):
    """Slopes of zero at every whole point: lines see nothing there."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (
            torch.cos(2 * torch.pi * x).sum(1, keepdim=True)
            + 0 * x[:, :1]
            - torch.round(x).sum(1, keepdim=True)
        )


def whole_box(net: nn.Module, count: int, budget: float | None = None) -> NeuralMIP:
    """max f(x) over whole numbers from 0 to 4, with a budget for their sum."""
    m = pyscipopt.Model()
    x = m.addMatrixVar((1, count), vtype="I", lb=0, ub=4)
    y = m.addMatrixVar((1, 1), lb=None)
    if budget is not None:
        m.addCons(x.sum() <= budget)
    m.setObjective(y.sum(), "maximize")
    problem = NeuralMIP(m)
    problem.add_predictor(net.double().eval(), x, y)
    return problem


def climb(problem: NeuralMIP, start: np.ndarray) -> tuple[ElasticModel, TrialPoint]:
    elastic = ElasticModel(problem.instance())
    price = INITIAL_PENALTY * elastic.objective_unit
    point = elastic.complete(elastic.instance.assignment([start], rest=0.0), price, 60.0)
    assert point is not None
    moves = UnitMoves(elastic, np.random.default_rng(0))
    while (better := moves.better(point, price)) is not None:
        assert better.merit(price) < point.merit(price)
        assert problem.verify(better.values).feasible
        point = better
    return elastic, point


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("budget", [None, 6.0])
def test_no_pair_of_unit_moves_is_better_in_the_end(seed: int, budget: float | None) -> None:
    problem = whole_box(mlp(1, 12, 4, seed=seed), 4, budget)
    elastic, point = climb(problem, np.zeros((1, 4)))
    at = point.values[elastic.inputs]
    moves = [
        np.array(d) for d in itertools.product((-1, 0, 1), repeat=4) if 0 < np.abs(d).sum() <= 2
    ]
    near = np.array([at + d for d in moves if (at + d >= 0).all() and (at + d <= 4).all()])
    near = near if budget is None else near[near.sum(axis=1) <= budget]
    assert -point.cost >= problem.predictors[0].raw(near).max() - 1e-6


def test_where_lines_see_nothing_the_networks_do() -> None:
    elastic, point = climb(whole_box(Bumps(), 3), np.full((1, 3), 4.0))
    np.testing.assert_array_equal(point.values[elastic.inputs], 0)


def test_an_assignment_is_moved_by_exchanges() -> None:
    """Of a permutation no one or two entries can be moved alone; the best of all 24 is found from
    some start.
    """
    m = pyscipopt.Model()
    x = m.addMatrixVar((4, 4), vtype="B")
    y = m.addMatrixVar((1, 1), lb=None)
    m.addMatrixCons(x.sum(axis=0) == 1)
    m.addMatrixCons(x.sum(axis=1) == 1)
    m.setObjective(y.sum(), "maximize")
    problem = NeuralMIP(m)
    problem.add_predictor(mlp(1, 8, 16, seed=3).double(), x.reshape((1, 16)), y)
    every = np.array([np.eye(4)[list(order)].ravel() for order in itertools.permutations(range(4))])
    worth = problem.predictors[0].raw(every).ravel()
    _, point = climb(problem, np.eye(4).reshape(1, 16))
    exchanges = [
        k for k, one in enumerate(every) if np.abs(one - point.values[:16]).sum() in (0, 4)
    ]
    assert -point.cost >= worth[exchanges].max() - 1e-6


def test_without_whole_inputs_there_is_no_move() -> None:
    m = pyscipopt.Model()
    x = m.addMatrixVar((1, 2), lb=0, ub=1)
    y = m.addMatrixVar((1, 1), lb=None)
    problem = NeuralMIP(m)
    problem.add_predictor(mlp(1, 4, 2).double(), x, y)
    elastic = ElasticModel(problem.instance())
    point = elastic.complete(np.zeros(3), 1.0, 60.0)
    assert point is not None
    assert UnitMoves(elastic, np.random.default_rng(0)).better(point, 1.0) is None

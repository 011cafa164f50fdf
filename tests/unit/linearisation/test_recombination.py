"""Parts of points, put together anew: never worse than brute force over all ways to do so."""

import itertools

import numpy as np
import pyscipopt
import pytest

from ddmip_book.networks import mlp
from ddmip_lib import NeuralMIP
from ddmip_lib.linearisation.elastic import ElasticModel
from ddmip_lib.linearisation.recombination import Crossover

ROWS = 3
COLUMNS = 2
BUDGET = 2.0


def shared_budget(seed: int) -> NeuralMIP:
    """max sum of f(x_i) over three rows of two inputs each, which share a budget."""
    m = pyscipopt.Model()
    x = m.addMatrixVar((ROWS, COLUMNS), lb=0, ub=1)
    y = m.addMatrixVar((ROWS, 1), lb=None)
    m.addCons(x.sum() <= BUDGET)
    m.setObjective(y.sum(), "maximize")
    problem = NeuralMIP(m)
    problem.add_predictor(mlp(1, 8, COLUMNS, seed=seed).double(), x, y)
    return problem


@pytest.mark.parametrize("seed", range(4))
def test_the_best_mixture_of_three_points_is_found(seed: int) -> None:
    problem = shared_budget(seed)
    instance = problem.instance()
    points = np.random.default_rng(seed).random((3, ROWS, COLUMNS))
    points *= BUDGET / points.sum(axis=(1, 2), keepdims=True)
    points[0] *= 0.9  # a mixture may then spend what this one leaves
    values = [instance.with_outputs(instance.assignment([p], rest=0.0)) for p in points]
    options = Crossover(ElasticModel(instance))
    for one in values:
        options.add(one)
    assert options.useful
    said = np.array([problem.predictors[0].raw(p).ravel() for p in points])
    ways = list(itertools.product(range(3), repeat=ROWS))
    mixtures = [points[list(way), range(ROWS)] for way in ways]
    best = max(
        said[list(w), range(ROWS)].sum()
        for w, x in zip(ways, mixtures, strict=True)
        if x.sum() <= BUDGET + 1e-9
    )
    found = options.best(values[0])
    assert found is not None
    completed = instance.with_outputs(found)
    assert problem.verify(completed).feasible
    assert problem.verify(completed).objective == pytest.approx(
        best, rel=6e-3, abs=6e-3
    )  # a step's gap is 0.5 %
    assert not options.useful  # nothing new since


def test_one_network_row_has_nothing_to_put_together() -> None:
    m = pyscipopt.Model()
    x = m.addMatrixVar((1, 2), lb=0, ub=1)
    y = m.addMatrixVar((1, 1), lb=None)
    problem = NeuralMIP(m)
    problem.add_predictor(mlp(1, 4, 2).double(), x, y)
    instance = problem.instance()
    options = Crossover(ElasticModel(instance))
    for corner in (0.0, 1.0):
        options.add(instance.with_outputs(instance.assignment([np.full((1, 2), corner)], rest=0.0)))
    assert not options.useful

"""`BigM(ranges="crown")`: the same optimum with fewer binaries, from any start, and the same
refusals.
"""

import dataclasses

import numpy as np
import pyscipopt
import pytest
import torch
from torch import nn

from ddmip_book.networks import mlp, resnet
from ddmip_lib import BigM, NeuralMIP
from ddmip_lib.errors import ProblemError, UnsupportedNetworkError
from ddmip_lib.problems import hand_sized
from tests.builders.clocks import LONG
from tests.builders.instances import knapsack

CROWN = BigM(ranges="crown")


class Scaler(nn.Module):
    """Standardisation as a first layer."""

    def __init__(self, mean, deviation):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean))
        self.register_buffer("deviation", torch.tensor(deviation))

    def forward(self, x):
        return (x - self.mean) / self.deviation


def continuous(net, output="regression"):
    m = pyscipopt.Model()
    x = m.addMatrixVar((2, 3), lb=-1, ub=1, name="x")
    problem = NeuralMIP(m)
    y = problem.add_predictor(net, x, output=output).outputs
    m.addCons(x.sum() <= 1.0)
    m.setObjective(y.sum() - 0.1 * x.sum(), "maximize")
    return problem


def folded():
    torch.manual_seed(0)
    layers = (
        Scaler([0.5, 0.0, -0.5], [2.0, 1.0, 0.5]),
        nn.Linear(3, 6),
        nn.BatchNorm1d(6),
        nn.ReLU(),
        nn.Linear(6, 1),
    )
    return nn.Sequential(*layers).eval()


PROBLEMS = {
    "binary": lambda: knapsack(1)[0],
    "to minimise": lambda: knapsack(2, "minimize")[0],
    "continuous": lambda: continuous(mlp(2, 6, 3, seed=3)),
    "classes": lambda: continuous(mlp(2, 6, 3, seed=3), "classification"),
    "a scaler and BatchNorm": lambda: continuous(folded()),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_same_optimum_with_no_more_binaries(name):
    problem = PROBLEMS[name]()
    plain, tight = (solver.solve(problem, time_limit=LONG) for solver in (BigM(), CROWN))
    assert (plain.status, tight.status) == ("optimal", "optimal")
    assert tight.objective == pytest.approx(plain.objective, abs=2e-5)
    assert tight.details["model_binaries"] <= plain.details["model_binaries"]
    assert problem.verify(tight).feasible


def test_units_that_cannot_switch_cost_no_binary():
    net = mlp(2, 6, 3, seed=3)
    with torch.no_grad():
        net[0].bias.add_(10.0)  # all units of the first layer are on
    plain, tight = (
        solver.solve(continuous(net), time_limit=LONG).details for solver in (BigM(), CROWN)
    )
    assert tight["model_binaries"] <= 2 * 6
    assert tight["model_binaries"] < plain["model_binaries"]


def test_residual_networks_have_an_exact_model_too():
    problem = continuous(resnet(1, 4, 3))
    with pytest.raises(UnsupportedNetworkError, match="chain"):
        BigM().solve(problem)
    solution = CROWN.solve(problem, time_limit=LONG)
    assert solution.status == "optimal"
    draws = np.random.default_rng(0).uniform(-1, 1, (2000, 3))
    best = problem.predictors[0].predict(draws).ravel() - 0.1 * draws.sum(axis=1)
    assert solution.objective >= 2 * best[draws.sum(axis=1) <= 0.5].max() - 1e-6


@pytest.mark.parametrize(
    "net", [nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1)).eval(), nn.Softplus()]
)
def test_what_has_no_exact_model_is_refused_by_name(net):
    problem = continuous(
        net if isinstance(net, nn.Sequential) else nn.Sequential(nn.Linear(3, 1), net).eval()
    )
    with pytest.raises(UnsupportedNetworkError, match=r"(?i)tanh|softplus"):
        CROWN.solve(problem)


def test_settings_that_do_not_fit_are_refused():
    for settings in ({"ranges": "tight"}, {"ranges": "crown", "formulation": "sos"}):
        with pytest.raises(ValueError, match="ranges"):
            BigM(**settings)


def test_what_no_point_satisfies_is_proved_infeasible():
    problem = continuous(mlp(1, 4, 3, seed=1))
    problem.model.addCons(problem.predictors[0].outputs[0, 0] >= 100)
    assert CROWN.solve(problem, time_limit=LONG).status == "infeasible"


@pytest.mark.parametrize("ranges", [None, "crown"])
def test_a_start_may_be_a_solution_a_vector_or_values_by_name(ranges):
    problem, best = knapsack(1)
    solver = BigM(ranges=ranges)
    point = BigM().solve(problem)
    for start in (point, point.values, {f"x_0_{j}": 0.0 for j in range(6)}, (np.zeros((1, 6)),)):
        found = dataclasses.replace(solver, start=start).solve(problem, time_limit=LONG)
        assert found.objective == pytest.approx(best, abs=1e-6)
        assert problem.start is None
    first = dataclasses.replace(solver, start=point).solve(problem).details["incumbents"][0][1]
    assert first == pytest.approx(point.objective)
    with pytest.raises(ProblemError, match="start"):
        dataclasses.replace(solver, start=BigM().solve(hand_sized())).solve(problem)

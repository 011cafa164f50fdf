"""Networks of PReLUs from one end to the other: every method that proves agrees with enumeration."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ddmip_lib import BigM, Enumeration, NeuralMIP, Solution, certify, solve
from ddmip_lib.errors import UnsupportedNetworkError
from tests.builders.clocks import LONG
from tests.builders.instances import build

SLOPES = {
    "one negative slope": [-0.6],
    "one slope above 1": [1.8],
    "the slope of torch": [0.25],
    "one for each unit": [-1.2, 0.3, 0.0, 2.5],
}


def parametric(slopes: list[float]) -> nn.Sequential:
    torch.manual_seed(0)
    activation = nn.PReLU(len(slopes))
    activation.weight.data.copy_(torch.tensor(slopes))
    return nn.Sequential(nn.Linear(2, 4), activation, nn.Linear(4, 1)).double().eval()


def problem_of(net: nn.Module, output: str = "regression", vtype: str = "I") -> NeuralMIP:
    built = build(net, 2, n=2, vtype=vtype, low=-2.0, high=2.0, output=output, sense="maximize")
    built.model.addCons(built.x.sum() <= 3.0)
    return built.problem


def assert_proves(problem: NeuralMIP, solution: Solution, best: float) -> None:
    assert problem.verify(solution).feasible
    assert solution.objective == pytest.approx(best, abs=1e-6)
    assert solution.bound == pytest.approx(best, abs=1e-3)
    assert solution.bound >= best - 1e-9


@pytest.mark.parametrize("output", ["regression", "classification"])
@pytest.mark.parametrize("name", SLOPES)
def test_methods_that_prove_agree_with_enumeration(name: str, output: str) -> None:
    problem = problem_of(parametric(SLOPES[name]), output)
    listed = Enumeration().solve(problem, time_limit=LONG)
    assert listed.status == "optimal"
    for method in (BigM(ranges="crown"), solve):
        call = method.solve if isinstance(method, BigM) else method
        assert_proves(problem, call(problem, time_limit=LONG), listed.objective)
    certified = certify(problem, listed, time_limit=LONG)
    assert certified.bound >= listed.objective - 1e-9


@pytest.mark.parametrize("name", SLOPES)
def test_continuous_inputs_are_proved_too(name: str) -> None:
    problem = problem_of(parametric(SLOPES[name]), vtype="C")
    exact = BigM(ranges="crown").solve(problem, time_limit=LONG)
    assert_proves(problem, solve(problem, time_limit=LONG), exact.objective)


def test_the_model_by_layers_names_what_takes_the_network() -> None:
    with pytest.raises(UnsupportedNetworkError, match=r'PReLU.*BigM\(ranges="crown"\)'):
        BigM().solve(problem_of(parametric([0.5])), time_limit=LONG)

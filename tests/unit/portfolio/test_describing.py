"""`describe`: what it reports of a problem is what `solve` does with it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ddmip_lib import NeuralMIP, describe, solve
from ddmip_lib.problems import hand_sized
from tests.builders.clocks import LONG
from tests.builders.instances import build, relu_net


def smooth(activation: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 5), activation, nn.Linear(5, 1)).double()


def test_a_small_problem_as_it_is() -> None:
    found = describe(hand_sized())
    assert (found.sense, found.variables, found.integers) == ("minimise", 3, 2)
    assert found.networks[0].layers == ("Linear 3", "ReLU", "Linear 1")
    assert found.networks[0].units == 3
    assert found.proof.method == "exact model"
    assert found.provable
    assert found.left_out == ()
    assert "Linear 3, ReLU, Linear 1" in str(found)
    assert str(found).endswith("left out of proofs\n  nothing")


def test_plan_and_proof_are_those_of_the_run() -> None:
    problem = build(relu_net(3, width=10, seed=2), 3, low=-1.0, high=1.0).problem
    found = describe(problem)
    log = solve(problem, time_limit=LONG).details["log"]
    assert log[0].method == "first points"
    assert log[1].method == found.plan[0].solver.method
    assert log[1].reason == found.plan[0].reason
    assert log[-1].reason.startswith("exact model")
    assert found.proof.method == "exact model"


@pytest.mark.parametrize(
    ("activation", "method"), [(nn.Tanh(), "linear bounds"), (nn.Softmax(1), "not possible")]
)
def test_what_can_be_proved_and_what_not(activation: nn.Module, method: str) -> None:
    found = describe(build(smooth(activation), 2).problem)
    assert found.proof.method == method
    assert found.provable == (method == "linear bounds")
    assert type(activation).__name__.lower() in found.networks[0].model.lower()
    assert [part.what for part in found.left_out] == ["network 0 (Sequential)"] * (
        not found.provable
    )


def test_blocks_are_named_with_what_links_them() -> None:
    built = build(relu_net(2, width=4, seed=1), 2, n=6)
    built.model.addCons(built.x.sum() <= 4, name="budget")
    assert describe(built.problem).blocks == "6 blocks, linked by 1 constraint: budget"
    single = build(relu_net(2, width=4, seed=1), 2)
    assert describe(single.problem).blocks.startswith("none: ")


def test_constraints_that_are_not_linear_are_named() -> None:
    built = build(relu_net(2, width=4, seed=1), 2)
    built.model.addCons(built.x[0, 0] ** 3 + built.x[0, 1] ** 3 <= 0.5, name="cubic")
    found = describe(built.problem)
    assert "nonlinear cubic is left out" in str(found)


def test_a_problem_without_networks_is_refused() -> None:
    with pytest.raises(ValueError, match="no predictor"):
        describe(NeuralMIP(build(relu_net(2), 2).model))

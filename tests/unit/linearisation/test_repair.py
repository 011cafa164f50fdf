"""Starts whose network inputs must move: as little as they can, and judged by the true networks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from ddmip_lib import SequentialMIP
from ddmip_lib.linearisation.repair import near_start
from ddmip_lib.methods import start_run
from tests.builders.clocks import LONG
from tests.builders.instances import build, relu_net


def bent(seed: int) -> nn.Sequential:
    """A network of tanh, three inputs, one output."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 1)).double().eval()


def linked(
    net: nn.Module, vtype: str = "C", low: float = -1.0, high: float = 1.0, short: float = 1e-3
):
    """Two rows of a network whose outputs share a capacity that the start exceeds by `short`; and
    that start.
    """
    built = build(net, 3, n=2, vtype=vtype, low=low, high=high)
    start = (
        np.array([[0.3, -0.2, 0.1], [-0.4, 0.5, 0.2]])
        if vtype == "C"
        else np.array([[1.0, 0, 2], [2, 1, 0.0]])
    )
    outputs = built.problem.predictors[0].predict(start)
    built.model.addCons(
        built.y[0, 0] + built.y[1, 0] <= float(outputs.sum()) - short, name="capacity"
    )
    built.problem.set_start(start)
    return built.problem, start


@pytest.mark.parametrize("net", ["relu", "tanh"])
def test_a_linking_row_on_outputs_moves_the_inputs_a_little(net):
    chosen = relu_net(3, seed=2) if net == "relu" else bent(3)
    problem, start = linked(chosen)
    run = start_run(problem, 60.0, 0)
    incumbent = run.incumbent(with_start=False)
    completed = incumbent.completer.complete([start])
    assert not incumbent.consider(completed).feasible  # the inputs alone decide that row
    assert near_start(incumbent, [start], 60.0)
    assert problem.verify(incumbent.values).feasible
    moved = np.abs(incumbent.instance.inputs(incumbent.values)[0] - start).max()
    assert 0 < moved <= 0.1 * 2.0  # within the larger of the two boxes

    found = SequentialMIP(max_failed_starts=1).solve(problem, time_limit=LONG)
    assert found.start.startswith("constraint capacity is")
    assert "repaired, its network inputs moved by up to" in found.start
    assert found.objective <= incumbent.objective + 1e-6


def test_integers_move_by_a_unit():
    problem, start = linked(relu_net(3, seed=2), vtype="I", low=0.0, high=4.0)
    incumbent = start_run(problem, 60.0, 0).incumbent(with_start=False)
    assert near_start(incumbent, [start], 60.0)
    moved = np.abs(incumbent.instance.inputs(incumbent.values)[0] - start)
    assert moved.max() == 1.0
    assert problem.verify(incumbent.values).feasible


def test_what_no_box_holds_is_not_repaired():
    problem, start = linked(relu_net(3, seed=2), short=1e3)
    incumbent = start_run(problem, 60.0, 0).incumbent(with_start=False)
    assert not near_start(incumbent, [start], 60.0)
    assert incumbent.values is None


def test_without_time_nothing_is_tried():
    problem, start = linked(relu_net(3, seed=2))
    incumbent = start_run(problem, 60.0, 0).incumbent(with_start=False)
    assert not near_start(incumbent, [start], 0.0)

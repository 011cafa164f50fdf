"""A search that is not patient: when it is given up, and what it has proved then."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ddmip_lib.clock import using
from ddmip_lib.methods import start_run
from ddmip_lib.programs import branch_and_bound, prove
from ddmip_lib.programs.branch_and_bound import (
    EARLIEST_TIME_FRACTION,
    EARLIEST_TIME_FRACTION_FEW_NODES,
    GAIN_FACTOR,
    NODES_BEFORE_JUDGING,
    SearchTree,
)
from ddmip_lib.proofs.checking import incumbent_cost
from ddmip_lib.proofs.exact import exact_program
from tests.builders.clocks import Ticking
from tests.builders.instances import build, relu_net
from tests.unit.programs.test_program import draw_program

torch.set_num_threads(1)
LOOKS = 1000.0  # at the clock, after which time is over


def tree_at(now: float, monkeypatch: pytest.MonkeyPatch, deadline: float = 16.0) -> SearchTree:
    """A search that began at 0, is to reach 10, and had a bound of 4 when it was judged last."""
    tree = SearchTree(draw_program(0), 0.0, deadline, 10.0, None)
    tree.nodes = NODES_BEFORE_JUDGING
    tree.judged_bound = 4.0
    monkeypatch.setattr(branch_and_bound, "now", lambda: now)
    return tree


@pytest.mark.parametrize("share", [0.9, 1.1])
def test_it_is_given_up_where_several_times_the_last_gain_is_not_enough(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From 4 to 16 seconds the time doubles twice; a bound of 4 + gain is to rise by 6 - gain until
    then.
    """
    gain = share * 6.0 / (1.0 + 2.0 * GAIN_FACTOR)
    assert tree_at(4.0, monkeypatch).hopeless(4.0 + gain) is (share < 1)


def test_it_is_not_judged_early_nor_without_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tree_at(0.9 * EARLIEST_TIME_FRACTION_FEW_NODES * 16.0, monkeypatch)
    tree.nodes = NODES_BEFORE_JUDGING - 1
    assert not tree.hopeless(4.0)
    assert not tree_at(0.9 * EARLIEST_TIME_FRACTION * 16.0, monkeypatch).hopeless(4.0)
    assert tree_at(1.1 * EARLIEST_TIME_FRACTION_FEW_NODES * 16.0, monkeypatch).hopeless(4.0)
    assert not tree_at(4.0, monkeypatch, deadline=np.inf).hopeless(4.0)


def test_no_bound_late_is_no_hope(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tree_at(8.0, monkeypatch)
    tree.judged_bound = -np.inf
    assert tree.hopeless(-np.inf)
    assert not tree.hopeless(4.0)  # from none to one is a gain


def test_what_was_proved_until_then_holds() -> None:
    """A network that no search of so few nodes closes; time passes with every look at the clock."""
    net = relu_net(16, width=60, seed=1)
    run = start_run(build(net, 16, low=-1.0, high=1.0).problem, 10, 0)
    incumbent = run.incumbent()
    for draw in np.random.default_rng(0).uniform(-1, 1, (1_000, 16)):
        incumbent.consider(
            incumbent.instance.with_outputs(incumbent.instance.assignment([draw[None]], rest=0.0))
        )
    program = exact_program(incumbent.instance, incumbent.units)
    with using(clock := Ticking()):
        found = prove(program, incumbent_cost(incumbent), LOOKS, patient=False)
    assert not found.complete
    assert 0 < found.nodes <= clock.looks < LOOKS  # given up, before time was over
    assert -np.inf < found.bound < incumbent_cost(incumbent)

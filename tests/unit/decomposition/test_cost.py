"""What an iteration must not cost: memory that stays, and gradients of weights."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from ddmip_book.networks import mlp
from ddmip_book.problems import tree_planting, water_potability
from ddmip_lib import DualDecomposition
from tests.builders.clocks import LONG
from tests.builders.networks import tree_networks

torch.set_num_threads(1)


def resident_megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("which", ["water", "trees"])
def test_memory_does_not_grow_with_the_iterations(which: str) -> None:
    if which == "water":
        problem = water_potability(n=20, net=mlp(2, 16, 9, seed=0), seed=42)
    else:
        problem = tree_planting(grid=2, nets=tree_networks(), beta=2)
    seen = {}

    def watch(run) -> None:
        if run.k in (50, 200):
            seen[run.k] = resident_megabytes()

    DualDecomposition(
        penalty=1.0, max_iterations=200, primal_tolerance=1e-15, detect_cycles=False, callback=watch
    ).solve(problem, time_limit=LONG)
    assert seen.keys() == {50, 200}
    assert seen[200] - seen[50] < 20


def test_weights_never_get_gradients() -> None:
    net = mlp(2, 8, 9, seed=0)
    run = DualDecomposition(restarts=0).start(water_potability(n=3, net=net, seed=42))
    inside = run.split.instance.predictors[0].net
    DualDecomposition(restarts=0).step(run)
    for weight in [*net.parameters(), *inside.parameters()]:
        assert weight.grad is None
    assert not any(weight.requires_grad for weight in inside.parameters())
    assert np.isfinite(run.history[-1].lagrangian)

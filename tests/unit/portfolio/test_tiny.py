"""`solve` against looking at every point: random problems of at most 4,096 input points,
any seed.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ddmip_lib import solve
from ddmip_lib.portfolio import choosing
from experiments.suite.tiny import MOST, Tiny, tiny
from tests.builders.clocks import LONG

torch.set_num_threads(1)


def right(instance: Tiny, seed: int) -> bool:
    """Whether `solve` finds the optimum; every point that it reports is checked, against the list
    of all points too.
    """
    solution = solve(instance.problem, time_limit=LONG, seed=seed)
    best = instance.optimum
    assert best is not None
    if solution.values is None:
        return False
    assert instance.problem.verify(solution).feasible
    at = int(np.flatnonzero((instance.points == solution.inputs[0][0]).all(axis=1))[0])
    assert instance.feasible[at]
    assert solution.objective == pytest.approx(float(instance.objective[at]), abs=1e-6)
    sign = -1.0 if instance.maximise else 1.0
    if solution.bound is not None:
        assert sign * solution.bound <= sign * best + 1e-6
    return abs(solution.objective - best) <= 1e-6 * max(1.0, abs(best))


def count(seeds: range, tabulate: bool, monkeypatch: pytest.MonkeyPatch) -> int:
    if not tabulate:
        monkeypatch.setattr(choosing, "combinations", lambda instance: None)
        monkeypatch.setattr(choosing, "max_values", lambda instance: np.inf)
    return sum(right(tiny(seed), seed) for seed in seeds)


def test_the_generator_takes_any_seed() -> None:
    found = [tiny(seed) for seed in (*range(20), 10**9)]
    assert all(len(each.points) <= MOST and each.feasible.any() for each in found)
    assert len({each.points.shape for each in found}) > 4
    assert len({each.maximise for each in found}) == 2


@pytest.mark.parametrize("tabulate", [True, False])
def test_solve_is_right_on_two_random_problems(
    tabulate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert count(range(2), tabulate, monkeypatch) >= (2 if tabulate else 1)


@pytest.mark.long
@pytest.mark.parametrize(("tabulate", "least"), [(True, 19), (False, 16)])
def test_solve_is_right_on_random_problems(
    tabulate: bool, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert count(range(20), tabulate, monkeypatch) >= least

"""The cost model of scaling out."""

from __future__ import annotations

import numpy as np
import pytest

from ddmip_book.experiments.scaling import Cost, fitted


def test_a_fit_finds_the_cost_that_made_the_seconds() -> None:
    cost = Cost(shard=0.05, shared=2e-4, alone=3e-5)
    n = np.array([100, 400, 900])
    found = fitted(n, 4 * cost.shard + n * cost.shared, n * cost.alone, shards=4)
    assert found.shard == pytest.approx(cost.shard)
    assert found.shared == pytest.approx(cost.shared)
    assert found.alone == pytest.approx(cost.alone)
    assert fitted([100, 200], [0.2, 0.1], [0.1, 0.1]).shared >= 0


def test_no_number_of_workers_passes_the_ceiling() -> None:
    cost = Cost(shard=0.0, shared=9e-4, alone=1e-4)
    speed = [w * cost.efficiency(1e6, w, shards=10**7) for w in (1, 10, 1e6)]
    assert speed == pytest.approx([1.0, 1 / 0.19, 10.0], rel=1e-3)
    assert speed[-1] < 1 + cost.shared / cost.alone
    assert cost.seconds(1000, 8) == cost.seconds(1000, 1), "one shard is done by one worker"

"""The small linear program against the whole one, rounding against one option after the other, and
keys.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddmip_lib.pricing import Blocks, Mode
from ddmip_lib.pricing.columns import ColumnPool
from ddmip_lib.pricing.master import DominantColumns, RestrictedMaster, solve_master_by_sifting

seeds = st.integers(0, 2**32 - 1)


class Options:
    """Options of up to sixty blocks that have a feasible mixture: the first option of every block
    fits.
    """

    def __init__(self, seed: int) -> None:
        draw = np.random.default_rng(seed)
        n = int(draw.integers(2, 60))
        m = int(draw.integers(1, 6))
        optional = bool(draw.integers(2))
        self.block = np.repeat(np.arange(n), draw.integers(0 if optional else 1, 6, n))
        k = len(self.block)
        self.value = draw.random(k) if draw.integers(2) else np.ones(k)
        self.use = draw.random((k, m)) * (draw.random((k, m)) < 0.6)
        capacities = self.use.sum(axis=0) * draw.uniform(0.02, 0.6, m)
        if not optional:
            first = np.unique(self.block, return_index=True)[1]
            capacities = np.maximum(capacities, self.use[first].sum(axis=0))
        one = np.ones((n, 1))
        rate = np.ones((1, m))
        mode = Mode(
            np.arange(n),
            np.arange(n),
            -one,
            one,
            0 * one,
            rate,
            rate,
            np.zeros((n, m)),
            np.zeros(m),
        )
        self.blocks = Blocks([mode], capacities, optional)
        self.draw = draw
        self.master = RestrictedMaster(n, optional, self.block, self.value, self.use, capacities)


@settings(deadline=None, max_examples=60)
@given(seeds, st.integers(1, 20), st.booleans())
def test_sifting_solves_the_whole_linear_program(seed: int, few: int, near: bool) -> None:
    options = Options(seed)
    blocks = options.blocks
    k = len(options.block)
    if k == 0:
        return
    master = options.master
    whole = master.solve()
    assert whole is not None
    start = options.draw.random(len(blocks.capacities)) * 5 if near else None
    found = solve_master_by_sifting(master, start, few)
    best = whole.weights @ options.value
    assert found.weights @ options.value == pytest.approx(best, abs=1e-6 * blocks.n)
    assert found.prices @ blocks.capacities + found.convexity_duals.sum() == pytest.approx(
        best, abs=1e-6 * blocks.n
    )
    assert (options.use.T @ found.weights <= blocks.capacities + 1e-6).all()
    taken = np.bincount(options.block, found.weights, blocks.n)
    assert (taken <= 1 + 1e-7).all() if blocks.optional else np.allclose(taken, 1)
    earns = options.value - options.use @ found.prices - found.convexity_duals[options.block]
    assert (earns <= 1e-6).all()


@settings(deadline=None, max_examples=60)
@given(seeds)
def test_leaders_are_what_one_looks_for_block_by_block(seed: int) -> None:
    options = Options(seed)
    if len(options.block) == 0:
        return
    prices = options.draw.random(len(options.blocks.capacities))
    point = DominantColumns(options.master).at(prices)
    profit = options.value - options.use @ prices
    for i in range(options.blocks.n):
        mine = np.flatnonzero(options.block == i)
        worth = sorted([*profit[mine], *([0.0] if options.blocks.optional else [])], reverse=True)
        assert point.profit[i] == worth[0]
        assert point.column[i] == (
            -1 if options.blocks.optional and worth[0] <= 0 else mine[profit[mine].argmax()]
        )
        assert point.lead[i] == pytest.approx(worth[0] - worth[1] if len(worth) > 1 else np.inf)
    assert point.value == pytest.approx(prices @ options.blocks.capacities + point.profit.sum())


@settings(deadline=None, max_examples=60)
@given(seeds)
def test_rounding_in_strides_is_rounding_one_by_one(seed: int) -> None:
    options = Options(seed)
    pool = ColumnPool(options.blocks)
    pool.at = options.block
    pool.value = options.value
    pool.use = options.use
    shares = np.round(options.draw.random(len(options.block)), 1)
    weight = pool.use @ (1.0 / np.maximum(np.abs(pool.blocks.capacities), 1e-9))
    order = np.lexsort((weight / np.maximum(pool.value, 1e-9), -shares))
    left = pool.blocks.capacities.copy()
    taken = {}
    for o in order:
        if pool.block[o] not in taken and (pool.use[o] <= left + 1e-12).all():
            taken[pool.block[o]] = o
            left = left - pool.use[o]
    found = pool.rounded(shares)
    if found is None:
        assert not pool.blocks.optional
        assert len(taken) < pool.blocks.n
    else:
        assert sorted(found.tolist()) == sorted(taken.values())


def test_keys_tell_a_million_points_apart_and_twins_not() -> None:
    one = np.ones((1, 2))
    mode = Mode(
        np.zeros(1, int),
        np.zeros(1, int),
        -one,
        one,
        0 * one,
        one.T,
        one.T,
        np.zeros((1, 1)),
        np.zeros(1),
    )
    pool = ColumnPool(Blocks([mode], [1.0]))
    grid = np.stack(np.meshgrid(*2 * [np.linspace(-1, 1, 1000)]), axis=-1).reshape(-1, 2)
    key = pool._key(np.zeros(len(grid), int), grid)
    assert len(np.unique(key)) == len(grid)
    np.testing.assert_array_equal(key, pool._key(np.zeros(len(grid), int), grid + 1e-12))

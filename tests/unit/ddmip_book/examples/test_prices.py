"""What the chapter on prices proves, on lists small enough to try everything."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from ddmip_book.examples.prices import Listed, adam_search, hand_market, random_market
from ddmip_lib.pricing import PricingProblem
from ddmip_lib.pricing.pricing_problem import linear_step

seeds = st.integers(0, 10_000)


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_every_price_list_bounds_and_excess_demand_is_a_subgradient(seed: int) -> None:
    listed = random_market(4, 2, 3, seed)
    draw = np.random.default_rng(seed)
    best = listed.best()
    one, other = draw.exponential(size=(2, 2))
    (at_one, slack, _), (at_other, _, _) = listed.demand(one), listed.demand(other)
    assert min(at_one, at_other) >= best - 1e-9
    assert at_other >= at_one + slack @ (other - one) - 1e-9
    assert listed.demand((one + other) / 2)[0] <= (at_one + at_other) / 2 + 1e-9


@settings(max_examples=30, deadline=None)
@given(seeds)
def test_the_linear_program_is_the_lagrangian_dual(seed: int) -> None:
    listed = random_market(5, 3, 4, seed)
    lp = listed.linear()
    assert listed.demand(lp.prices)[0] == pytest.approx(lp.value)
    for prices in np.random.default_rng(seed).exponential(size=(20, 3)):
        assert listed.demand(prices)[0] >= lp.value - 1e-9


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_column_generation_climbs_to_the_dual(joint: bool, smoothing: float) -> None:
    for seed in range(5):
        listed = random_market(8, 2, 4, seed)
        value = listed.linear().value
        found = listed.generate(smoothing, joint)
        values = [each for each, _, _ in found]
        assert values[0] == 0.0
        assert np.diff(values).min() >= -1e-9
        assert values[-1] == pytest.approx(value)
        assert min(upper for _, _, upper in found) >= value - 1e-9
        assert values[1] < value  # the pool of the second round lacks something


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(1, 4))
def test_at_most_as_many_fractional_blocks_as_rows(seed: int, m: int) -> None:
    listed = random_market(6, m, 3, seed)
    lp = listed.linear()
    shares = lp.weights.reshape(6, 3)
    fractional = (shares.sum(axis=1) > 1e-7) & (shares.max(axis=1) < 1 - 1e-7)
    assert fractional.sum() <= m
    assert lp.value - m * listed.value.max() <= listed.best() + 1e-9 <= lp.value + 2e-9


def test_the_number_of_rows_is_reached() -> None:
    rows = 3
    part = 0.6
    listed = Listed(
        np.arange(6), np.ones(6), part * np.repeat(np.eye(rows), 2, axis=0), np.ones(rows)
    )
    shares = listed.linear().weights
    assert ((shares > 1e-9) & (shares < 1 - 1e-9)).sum() == rows
    assert listed.linear().value == pytest.approx(rows / part)
    assert listed.best() == rows


def _task(draw: np.random.Generator, p: int = 4) -> tuple[PricingProblem, np.ndarray]:
    base, up, down = draw.normal(size=p), *draw.uniform(0.1, 2.0, (2, p))
    rows = [torch.tensor(a)[None] for a in (base - 2, base + 2, base, up, down)]
    return PricingProblem(*rows, torch.tensor([np.inf]), torch.tensor([np.inf])), base


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_the_greedy_step_is_optimal(seed: int) -> None:
    draw = np.random.default_rng(seed)
    task, base = _task(draw)
    at = base + draw.uniform(-1, 1, 4)
    slope = draw.normal(size=4)
    radius = 0.6
    value = -0.3 * np.abs(slope).sum()
    step = linear_step(
        task,
        torch.tensor(at)[None],
        torch.tensor([value]),
        torch.tensor(slope)[None],
        torch.full((1, 4), radius, dtype=torch.float64),
    )
    signs = np.kron([1.0, -1.0], np.eye(4))
    rest = np.concatenate(
        [at + radius - base, base - at + radius, [slope @ (base - at) + value - task.target.item()]]
    )
    exact = linprog(
        np.concatenate([task.up[0], task.down[0]]),
        np.vstack([signs, -signs, -np.hstack([slope, -slope])]),
        rest,
    )
    assert task.cost(step).item() == pytest.approx(exact.fun, abs=1e-6)
    point = step[0].numpy()
    assert ((np.abs(point - at) < radius - 1e-9) & (np.abs(point - base) > 1e-9)).sum() <= 1


def test_adam_comes_near_the_cheapest_point_of_a_plane_and_not_below_it() -> None:
    task, base = _task(np.random.default_rng(3))
    direction = torch.tensor([1.0, 0.2, -0.1, 0.3], dtype=torch.float64)

    def plane(u: torch.Tensor) -> torch.Tensor:
        return ((u - torch.tensor(base)) @ direction - 0.5)[:, None]

    found, profit = adam_search(plane, task, torch.tensor(base)[None], 200, rate=0.02, weight=5.0)
    price = torch.where(direction > 0, task.up[0], task.down[0])
    cheapest = 0.5 * (price / direction.abs()).min().item()
    assert plane(found).item() > 0
    assert cheapest <= -profit.item() <= 1.5 * cheapest


def test_a_class_that_is_nowhere_is_not_found() -> None:
    task, base = _task(np.random.default_rng(3))
    _, profit = adam_search(lambda u: u[:, :1] * 0 - 1, task, torch.tensor(base)[None], 5)
    assert profit.item() == -np.inf


def test_the_market_by_hand_is_the_one_in_the_text() -> None:
    hand = hand_market()
    value, left, bought = hand.demand([0.75, 0.0])
    assert (value, left.tolist(), bought.tolist()) == (3.75, [1.0, -6.0], [1, 3, 5])
    assert hand.linear().prices == pytest.approx([0.5, 0.25])
    assert hand.profits([0.5, 0.25]) == pytest.approx([0.5, 0, -0.25, 0, 0, 0])

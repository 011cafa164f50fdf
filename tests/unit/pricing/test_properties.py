"""The mathematics under price coordination, each piece against a slow and plain way to compute the
same.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from torch import nn

from ddmip_book.networks import mlp
from ddmip_lib.pricing import Blocks, Mode, master
from ddmip_lib.pricing.columns import ColumnPool
from ddmip_lib.pricing.pricing_problem import (
    PricingProblem,
    ascend,
    linear_step,
    reduce_to_boundary,
)
from tests.builders.clocks import LONG
from tests.builders.networks import linear

torch.set_num_threads(1)
seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=40, deadline=None)


def random_blocks(
    draw: np.random.Generator, targets: bool = False, optional: bool | None = None
) -> Blocks:
    """One to three blocks with one or two modes, two inputs, two resources; `targets`: the second
    one is given.
    """
    n = int(draw.integers(1, 4))
    p = 2
    m = 2
    modes = []
    for _ in range(draw.integers(1, 3)):
        base = draw.normal(size=(n, p))
        per_value = np.array([0.0, -draw.uniform(0.5, 1.5)]) if targets else np.zeros(m)
        modes.append(
            Mode(
                block=np.arange(n),
                row=np.arange(n),
                lower=base - draw.random((n, p)),
                upper=base + draw.random((n, p)),
                base=base,
                up=draw.random((p, m)) * (draw.random((p, m)) < 0.7),
                down=draw.random((p, m)),
                fixed=draw.random((n, m)) * draw.integers(0, 2),
                per_value=per_value,
                worth=draw.uniform(0.5, 3),
            )
        )
    capacities = np.array(
        [draw.uniform(0, 2), -draw.uniform(0, 1) if targets else draw.uniform(0, 2)]
    )
    return Blocks(modes, capacities, bool(draw.integers(2)) if optional is None else optional)


def random_pool(
    draw: np.random.Generator, targets: bool = False, optional: bool | None = None
) -> ColumnPool:
    blocks = random_blocks(draw, targets, optional)
    at = np.repeat(np.arange(len(blocks.base)), draw.integers(1, 3))
    u = draw.uniform(blocks.lower[at], blocks.upper[at])
    pool = ColumnPool(blocks)
    pool.add(at, u, draw.uniform(-0.3, 1.0, len(at)))
    return pool


def choices(pool: ColumnPool) -> list[np.ndarray]:
    """All feasible choices of a tiny pool."""
    own = [np.flatnonzero(pool.block == i).tolist() for i in range(pool.blocks.n)]
    own = [[None, *options] if pool.blocks.optional else options for options in own]
    every = (
        np.array([o for o in pick if o is not None], dtype=int) for pick in itertools.product(*own)
    )
    return [
        pick
        for pick in every
        if (pool.use[pick].sum(axis=0) <= pool.blocks.capacities + 1e-9).all()
    ]


@few
@given(seeds, st.integers(1, 5), st.sampled_from(["class", "output", "capped"]))
def test_a_linear_step_is_optimal_for_the_linearisation(seed: int, p: int, kind: str) -> None:
    r"""In variables $v = w + a - b$: least cost with $f \ge$ margin, or the largest $g\,t - $ cost,
    $t \le f, h$.
    """
    draw = np.random.default_rng(seed)
    base = draw.normal(size=p)
    u = draw.normal(size=p)
    lower = np.minimum(base, u) - draw.random(p)
    upper = np.maximum(base, u) + draw.random(p)
    up = draw.uniform(0.01, 2, p)
    down = draw.uniform(0.01, 2, p)
    slope = draw.normal(size=p) * (draw.random(p) < 0.8)
    radius = draw.uniform(0.05, 1.5)
    output = draw.normal()
    margin = 1e-6
    gain = np.inf if kind == "class" else draw.uniform(0.1, 3)
    cap = draw.normal() if kind == "capped" else np.inf

    def rows(*parts: np.ndarray | float) -> list[torch.Tensor]:
        return [torch.tensor(np.atleast_1d(part)[None], dtype=torch.float64) for part in parts]

    gains, caps, outputs = torch.tensor([[gain], [cap], [output]], dtype=torch.float64)
    task = PricingProblem(*rows(lower, upper, base, up, down), gains, caps, margin)
    v = linear_step(task, *rows(u), outputs, *rows(slope, np.full(p, radius))).numpy()[0]
    low = np.maximum(lower, u - radius)
    high = np.minimum(upper, u + radius)
    assert (v >= low - 1e-12).all()
    assert (v <= high + 1e-12).all()
    reached = output + slope @ (v - u)
    cost = up @ np.maximum(v - base, 0) + down @ np.maximum(base - v, 0)

    def solve(
        objective: np.ndarray, least: float | None = None, t_most: float | None = None
    ) -> float | None:
        """min objective'(a, b, t): t <= f, f >= least, v inside."""
        f = np.concatenate([slope, -slope])
        eye = np.hstack([np.eye(p), -np.eye(p)])
        a = [
            np.hstack([eye, np.zeros((p, 1))]),
            np.hstack([-eye, np.zeros((p, 1))]),
            np.append(-f, 1.0)[None],
        ]
        b = [high - base, base - low, [output + slope @ (base - u)]]
        if least is not None:
            a.append(np.append(-f, 0.0)[None])
            b.append([output + slope @ (base - u) - least])
        bounds = [(0, None)] * (2 * p) + [(None, t_most)]
        result = linprog(objective, np.vstack(a), np.concatenate(b), bounds=bounds)
        return float(result.fun) if result.status == 0 else None

    costs = np.concatenate([up, down])
    if kind == "class":
        best = solve(np.append(costs, 0.0), least=2 * margin)
        if best is None:  # out of reach: as close as it gets
            assert reached == pytest.approx(-solve(np.append(0 * costs, -1.0)), abs=1e-7)
        else:
            assert reached >= margin - 1e-9
            assert cost == pytest.approx(best, abs=1e-7)
    else:
        best = solve(np.append(costs, -gain), t_most=None if np.isinf(cap) else cap)
        assert gain * min(reached, cap) - cost == pytest.approx(-best, abs=1e-7)


@few
@given(seeds)
def test_pulling_back_keeps_the_class_and_never_costs_more(seed: int) -> None:
    draw = np.random.default_rng(seed)
    net = mlp(1, 6, 3, seed=seed % 1000).double()
    base = torch.tensor(draw.normal(size=(12, 3)))
    u = base + torch.tensor(draw.uniform(-2, 2, size=(12, 3)))
    prices = [torch.tensor(draw.uniform(0, 1, size=(12, 3))) for _ in range(2)]
    task = PricingProblem(base - 2, base + 2, base, *prices, *[torch.full((12,), torch.inf)] * 2)
    with torch.no_grad():
        before = net(u)[:, 0] >= task.margin
        after = reduce_to_boundary(net, task, u)
        assert (net(after)[before, 0] > 0).all()
        assert (task.cost(after) <= task.cost(u) + 1e-12).all()
        assert (
            ((after - base) * (u - base) >= -1e-15)
            & ((after - base).abs() <= (u - base).abs() + 1e-12)
        ).all()


def test_pulling_back_ends_at_the_boundary_and_leaves_dear_coordinates_alone() -> None:
    net = linear(1.0, 1.0, bias=-1.0)
    base = torch.zeros(1, 2, dtype=torch.float64)
    price = torch.tensor([[5.0, 1.0]], dtype=torch.float64)
    task = PricingProblem(
        base - 3, base + 3, base, price, price, *[torch.full((1,), torch.inf)] * 2
    )
    u = reduce_to_boundary(net, task, torch.tensor([[1.5, 2.0]], dtype=torch.float64))
    assert u[0, 0] == 0
    assert 1 + task.margin <= u[0, 1] <= 1 + 3e-4


@few
@given(seeds)
def test_a_path_of_steps_returns_the_profit_of_its_point(seed: int) -> None:
    draw = np.random.default_rng(seed)
    net = mlp(1, 5, 2, seed=seed % 1000).double()
    base = torch.tensor(draw.normal(size=(4, 2)))
    k = 4
    costs = [torch.tensor(draw.uniform(0.01, 1, size=(k, 2))) for _ in range(2)]
    gain = torch.tensor(draw.uniform(0.5, 2, size=k))
    task = PricingProblem(base - 1, base + 1, base, *costs, gain, torch.full((k,), torch.inf))
    best, profit = ascend(net, task, base, steps=6)
    with torch.no_grad():
        torch.testing.assert_close(profit, gain * net(best)[:, 0] - task.cost(best))
        assert (profit >= gain * net(base)[:, 0] - 1e-12).all()
    assert ((best >= base - 1) & (best <= base + 1)).all()


@few
@given(seeds, st.booleans())
def test_use_priced_is_mode_plus_distance_plus_value(seed: int, targets: bool) -> None:
    draw = np.random.default_rng(seed)
    blocks = random_blocks(draw, targets)
    at = draw.integers(0, len(blocks.base), 7)
    u = draw.uniform(blocks.lower[at], blocks.upper[at])
    value = draw.normal(size=7)
    prices = draw.random(2)
    up, down = blocks.rates(prices)
    move = u - blocks.base[at]
    per_value = np.array([blocks.modes[t].per_value @ prices for t in blocks.mode[at]])
    expected = blocks.fixed[at] @ prices + value * per_value
    expected += (up[at] * np.maximum(move, 0) + down[at] * np.maximum(-move, 0)).sum(axis=1)
    np.testing.assert_allclose(blocks.use(at, u, value) @ prices, expected, atol=1e-12)
    np.testing.assert_allclose(blocks.gains(prices)[at], 1 - per_value, atol=1e-12)


@few
@given(seeds, st.booleans())
def test_prices_solve_the_linear_program_and_its_dual(seed: int, targets: bool) -> None:
    pool = random_pool(np.random.default_rng(seed), targets)
    blocks = pool.blocks
    k = len(pool)
    m = len(pool.blocks.capacities)
    own = (pool.block == np.arange(blocks.n)[:, None]).astype(float)
    rows: dict[str, np.ndarray] = (
        {
            "A_ub": np.vstack([pool.use.T, own]),
            "b_ub": np.concatenate([blocks.capacities, np.ones(blocks.n)]),
        }
        if blocks.optional
        else {"A_ub": pool.use.T, "b_ub": blocks.capacities, "A_eq": own, "b_eq": np.ones(blocks.n)}
    )
    plain = linprog(-pool.value, **rows)
    lp = pool.prices()
    assert lp.weights.shape == (k,)
    assert (lp.prices >= 0).all()
    if plain.status == 0:
        assert lp.lacking <= 1e-9
        assert lp.value == pytest.approx(-plain.fun, abs=1e-8)
        assert lp.prices @ blocks.capacities + lp.convexity_duals.sum() == pytest.approx(
            lp.value, abs=1e-7
        )
        assert (pool.reduced(lp) <= 1e-7).all()
        return
    rows["A_ub"] = np.hstack([rows["A_ub"], -np.eye(len(rows["A_ub"]), m)])
    if "A_eq" in rows:
        rows["A_eq"] = np.hstack([rows["A_eq"], np.zeros((blocks.n, m))])
    least = linprog(np.append(np.zeros(k), np.ones(m)), **rows)
    assert lp.lacking == pytest.approx(least.fun, abs=1e-7)
    assert lp.lacking > 0


def test_slack_of_phase_one_is_bought_then_sold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of resources, not of blocks; the order decides which of several optimal bases is found."""
    solved = []
    solve = master._solve_unscaled
    monkeypatch.setattr(
        master, "_solve_unscaled", lambda program: solved.append(program) or solve(program)
    )
    pool = random_pool(np.random.default_rng(0))
    pool.blocks.capacities = np.full_like(pool.blocks.capacities, -1.0)
    assert pool.prices().lacking > 0
    _, phase_one = solved
    k, m = pool.use.shape
    slack = phase_one.rows.matrix(len(phase_one.cost)).toarray()[:, k:]
    resources = np.eye(len(phase_one.row_lower), m)
    np.testing.assert_array_equal(slack, np.hstack([-resources, resources]))
    np.testing.assert_array_equal(phase_one.cost, np.repeat([0.0, 1.0, 0.0], [k, m, m]))


@few
@given(seeds, st.booleans())
def test_rounding_is_feasible_or_says_that_it_is_not(seed: int, targets: bool) -> None:
    draw = np.random.default_rng(seed)
    pool = random_pool(draw, targets)
    chosen = pool.rounded(draw.random(len(pool)))
    if chosen is None:
        assert targets or not pool.blocks.optional
        return
    assert (pool.use[chosen].sum(axis=0) <= pool.blocks.capacities + 1e-9).all()
    taken = np.bincount(pool.block[chosen], minlength=pool.blocks.n)
    assert (taken <= 1).all() if pool.blocks.optional else (taken == 1).all()


@settings(max_examples=25, deadline=None)
@given(seeds, st.booleans())
def test_selection_equals_brute_force_over_all_choices(seed: int, targets: bool) -> None:
    draw = np.random.default_rng(seed)
    pool = random_pool(draw, targets)
    feasible = choices(pool)
    start = feasible[draw.integers(len(feasible))] if feasible and seed % 2 else None
    found = pool.select(np.arange(len(pool)), start, gap=0.0, nodes=10_000, seconds=LONG)
    if not feasible:
        assert found is None
        return
    assert found is not None
    assert any(np.array_equal(np.sort(found), np.sort(pick)) for pick in feasible)
    best = max(pool.value[pick].sum() for pick in feasible)
    assert pool.value[found].sum() == pytest.approx(best, abs=1e-7)


def test_selection_stays_among_what_it_is_given() -> None:
    pool = random_pool(np.random.default_rng(3), optional=True)
    among = np.arange(len(pool))[::2]
    found = pool.select(among, None, gap=0.0, nodes=100, seconds=LONG)
    assert found is not None
    assert np.isin(found, among).all()
    assert pool.select(np.zeros(0, dtype=int), None, gap=0.0, nodes=100, seconds=LONG).size == 0


@few
@given(seeds)
def test_a_pool_keeps_earlier_options_in_their_place_and_no_twins(seed: int) -> None:
    draw = np.random.default_rng(seed)
    pool = random_pool(draw)
    at, u, value, use = (getattr(pool, name).copy() for name in ("at", "u", "value", "use"))
    again = draw.permutation(len(at))
    fresh = draw.integers(0, len(pool.blocks.base), 3)
    point = draw.uniform(pool.blocks.lower[fresh], pool.blocks.upper[fresh])
    pool.add(
        np.concatenate([at[again], fresh, fresh]),
        np.concatenate([u[again], point, point]),
        np.concatenate([value[again], np.ones(6)]),
    )
    assert len(at) < len(pool) <= len(at) + 3
    for name, before in (("at", at), ("u", u), ("value", value), ("use", use)):
        np.testing.assert_array_equal(getattr(pool, name)[: len(at)], before)
    np.testing.assert_allclose(pool.use, pool.blocks.use(pool.at, pool.u, pool.value))


def test_a_pool_tells_points_apart_in_a_tiny_box_and_holds_nothing_at_first() -> None:
    one = np.ones((1, 1))
    mode = Mode(
        np.zeros(1, int),
        np.zeros(1, int),
        0 * one,
        1e-8 * one,
        0 * one,
        one,
        one,
        0 * one,
        np.zeros(1),
    )
    pool = ColumnPool(Blocks([mode], [1e-8]))
    empty = pool.prices()
    assert (empty.value, empty.lacking, len(pool)) == (0.0, 0.0, 0)
    pool.add(np.zeros(3, int), np.array([[0.0], [5e-9], [1e-8]]), np.array([0.0, 1.0, 2.0]))
    assert len(pool) == 3


def test_values_and_slopes_of_a_network_that_writes_on_its_input() -> None:
    """`ascend` must not see a point that the network has overwritten."""

    class Doubles(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mul(2.0).sum(dim=1, keepdim=True)

    base = torch.zeros(1, 2, dtype=torch.float64)
    one = torch.ones(1, 2, dtype=torch.float64)
    inf = torch.full((1,), torch.inf)
    best, profit = ascend(
        Doubles().eval(),
        PricingProblem(-one, one, base, 0.5 * one, one, torch.ones(1), inf),
        base,
        steps=30,
    )
    torch.testing.assert_close(best, one)
    assert profit.item() == pytest.approx(4.0 - 1.0)

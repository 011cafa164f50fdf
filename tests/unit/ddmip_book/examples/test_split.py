"""What the chapter on the split computes: exact steps, holding prices, Douglas-Rachford, and its
figures.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ddmip_book.examples.hand_steps import as_fractions, hand_loss, hand_prox, hand_tiny
from ddmip_book.examples.notions import optimal_multiplier
from ddmip_book.examples.tiny import Tiny, quadratic
from ddmip_book.figures.split import plot_bids, plot_paths
from ddmip_lib import DualDecomposition, Trace
from ddmip_lib.problems import hand_sized, hand_sized_net

GRID = np.array(list(product(np.linspace(0, 1, 21), repeat=2)))
WITH_LOSS = [(u, float(hand_loss(u))) for u in GRID]
sixteenths = st.integers(-48, 48).map(lambda i: Fraction(i, 16))


@settings(max_examples=40, deadline=None)
@given(sixteenths, sixteenths)
def test_the_loss_is_the_network(first: Fraction, second: Fraction) -> None:
    point = torch.tensor([float(first), float(second)], dtype=torch.float64)
    assert float(hand_loss([first, second])) == pytest.approx(
        hand_sized_net()(point).item(), abs=1e-12
    )


@settings(max_examples=25, deadline=None)
@given(sixteenths, sixteenths, st.integers(1, 80).map(lambda i: Fraction(i, 8)))
def test_the_exact_nn_step_beats_every_point_of_a_grid(
    first: Fraction, second: Fraction, rho: Fraction
) -> None:
    u = hand_prox([first, second], rho)
    v = np.array([float(first), float(second)])
    assert all(0 <= entry <= 1 for entry in u)
    value = hand_loss(u) + rho / 2 * ((u[0] - first) ** 2 + (u[1] - second) ** 2)
    assert (
        float(value) <= min(f + float(rho) / 2 * ((p - v) ** 2).sum() for p, f in WITH_LOSS) + 1e-12
    )


def in_fractions(rho: Fraction, steps: int) -> list[tuple[Fraction, ...]]:
    """The states of Algorithm 1 on the hand-sized example, without any rounding."""
    corners = [as_fractions(x) for x in product((0, 1), repeat=2)]
    cost = as_fractions([1.5, 2])
    u = as_fractions([0, 0])
    lam = as_fractions([0, 0])
    states = []
    for _ in range(steps):
        values = [(cost - lam) @ x + rho / 2 * ((x - u) @ (x - u)) for x in corners]
        x = corners[values.index(min(values))]
        u = hand_prox(x - lam / rho, rho)
        lam = lam + rho * (u - x)
        states.append((*x, *u, *lam))
    return states


def test_at_rho_three_the_optimum_is_visited_and_left_for_ever() -> None:
    states = in_fractions(Fraction(3), 8)
    assert states[4:7] == states[1:4]
    assert [state[:2] for state in states[1:4]] == [(0, 1), (0, 1), (1, 1)]
    assert states[3] == (1, 1, Fraction(1, 2), 1, 1, 3)


def test_at_rho_six_the_optimum_is_kept_and_above_22_thirds_nothing_moves() -> None:
    kept = in_fractions(Fraction(6), 7)
    above = in_fractions(Fraction(22, 3) + Fraction(1, 100), 4)
    assert kept[-1] == kept[-2] == (1, 1, 1, 1, 1, Fraction(19, 5))
    assert {state[:2] for state in above} == {(0, 0)}


@pytest.mark.parametrize(("rho", "blockwise"), [(0.5, 0), (3.0, 2), (6.0, 3), (20.0, 4)])
def test_held_decisions_of_the_hand_sized_example(rho: float, blockwise: int) -> None:
    tiny = hand_tiny()
    assert sum(optimal_multiplier(tiny, x, rho) is not None for x in tiny.points) == blockwise


def random_problem(seed: int) -> tuple[Tiny, float]:
    draw = np.random.default_rng(seed)
    points = np.unique(draw.integers(-2, 3, size=(6, 2)), axis=0)
    curvature = draw.uniform(0.1, 2.0)
    (centre, cost) = draw.normal(size=(2, 2))
    return quadratic(points, curvature=curvature, centre=centre, cost=cost), float(
        draw.uniform(0.5, 6.0)
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_jointly_held_point_is_optimal_and_a_blockwise_held_one_is_fixed(seed: int) -> None:
    problem, rho = random_problem(seed)
    for x in problem.points:
        alone = optimal_multiplier(problem, x, rho)
        together = optimal_multiplier(problem, x, rho, joint=True)
        if together is not None:
            assert alone is not None
            assert problem.total(x) == pytest.approx(problem.optimum(), abs=1e-6)
        slope = problem.cost + problem.gradient(x)
        moves = problem.points - x
        margin = min((moves @ slope + rho / 2 * (moves**2).sum(1))[np.any(moves != 0, axis=1)])
        if abs(margin) > 1e-2:  # clear cases
            assert (alone is not None) == (margin > 0)
        if alone is not None:  # g is smooth: the price is the slope, and Algorithm 1 stays
            assert alone == pytest.approx(-problem.gradient(x), abs=2e-3)
            if margin > 1e-2:
                path = problem.run(rho, 2, u=x, lam=-problem.gradient(x))
                assert np.all(path.x == x)
                assert path.residual == pytest.approx(0, abs=1e-9)


@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_algorithm_1_is_douglas_rachford(seed: int) -> None:
    problem, rho = random_problem(seed)
    path = problem.run(rho, 12)
    u = path.start[0]
    zeta = path.start[0] - path.start[1] / rho
    for k in range(12):
        target = 2 * u - zeta - problem.cost / rho
        reached = ((path.x[k] - target) ** 2).sum()
        assert reached <= ((problem.points - target) ** 2).sum(1).min() + 1e-9
        zeta = zeta + path.x[k] - u
        u = problem.u_step(zeta, rho)
        assert u == pytest.approx(path.u[k], abs=1e-9)
        assert rho * (u - zeta) == pytest.approx(path.lam[k], abs=1e-8)


def test_filled_marks_are_bids_that_were_taken() -> None:
    path = hand_tiny().run(3.0, 8)
    (ax,) = plot_bids({"rho = 3": path})
    line, taken, refused, ask = ax.get_lines()
    assert len(taken.get_xdata()) == int((path.x[1:, 0] == 1).sum()) > 0
    assert len(line.get_xdata()) == len(taken.get_xdata()) + len(refused.get_xdata())
    assert np.all(taken.get_ydata() > ask.get_ydata()[0])
    assert np.all(refused.get_ydata() < ask.get_ydata()[0])


def test_each_run_has_its_panel() -> None:
    traces = {f"rho = {rho:g}": Trace() for rho in (1.0, 10.0)}
    for rho, trace in zip((1.0, 10.0), traces.values(), strict=True):
        DualDecomposition(penalty=rho, max_iterations=5, callback=trace).solve(hand_sized())
    panels = plot_paths(hand_sized(), traces)
    assert [ax.get_title() for ax in panels] == list(traces)
    for ax, trace in zip(panels, traces.values(), strict=True):
        drawn = [line.get_xydata() for line in ax.get_lines() if line.get_label() == "$u^k$"]
        assert len(drawn) == 1
        assert np.asarray(drawn[0]) == pytest.approx(np.array(trace.u))

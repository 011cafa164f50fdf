"""Projected gradient taught by hand: its rates, its counterexamples, and the projections that need
a solver.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ddmip_book.examples import pgd
from ddmip_book.examples.projections import project_box, project_halfspace
from ddmip_book.figures import projected_gradient as pgd_figures
from ddmip_lib import PGD, DualDecomposition
from ddmip_lib.problems import hand_sized, hand_sized_net

NORMAL = np.array([1.0, 2.0])
AIM = np.array([2.0, 2.0])


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.floats(0.1, 5), st.floats(0.1, 20), st.floats(0.01, 1.2))
def test_no_step_beats_its_contraction_factor(
    seed: int, least: float, spread: float, share: float
) -> None:
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    curvature = turn @ np.diag([least, least + spread, least + spread * rng.uniform()]) @ turn.T
    most = least + spread
    eta = share * 2 / (least + spread)
    centre, start = rng.normal(size=(2, 3))
    ends = pgd.projected_path(lambda u: curvature @ (u - centre), lambda u: u, start, 5, eta)
    errors = np.linalg.norm(ends - centre, axis=1)
    factor = pgd.contraction_factor(eta, least, most)
    assert all(after <= factor * before + 1e-12 for before, after in pairwise(errors))


@given(st.floats(0.1, 9), st.floats(0.1, 9))
def test_the_best_step_is_two_over_the_sum(least: float, spread: float) -> None:
    most = least + spread
    etas = np.linspace(0.01, 2, 400) / most
    best = pgd.contraction_factor(2 / (least + most), least, most)
    assert best == pytest.approx(spread / (least + most))
    assert (pgd.contraction_factor(etas, least, most) >= best - 1e-12).all()


def test_adam_with_a_projection_slides_past_the_nearest_point() -> None:
    def into(v: np.ndarray) -> np.ndarray:
        return project_halfspace(v, NORMAL, 1.0)

    right = pgd.projected_path(lambda u: u - AIM, into, np.zeros(2), 2000, 0.1)
    wrong = pgd.adam_path(lambda u: u - AIM, into, np.zeros(2), 20_000)
    np.testing.assert_allclose(right[-1], [1.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(wrong[-1], [2.0, -0.5], atol=1e-3)
    in_box = pgd.adam_path(lambda u: u - AIM, lambda v: project_box(v, 0.0, 1.0), np.zeros(2), 500)
    np.testing.assert_allclose(in_box[-1], [1.0, 1.0])


def test_a_fresh_adam_leaves_the_minimiser_and_a_kept_one_remembers() -> None:
    at = np.array([1e-6])
    assert abs(pgd.adam_path(lambda u: 10 * u, lambda u: u, at, 1)[-1, 0]) == pytest.approx(
        0.01, rel=0.01
    )
    state = pgd.Adam()
    pgd.adam_path(lambda u: 10 * (u - 1), lambda u: u, np.zeros(1), 25, state=state)
    assert state.t == 25
    again = pgd.adam_path(lambda u: 10 * u, lambda u: u, at, 1, state=state)
    assert abs(again[-1, 0] - at[0] + 0.01) > 1e-3, (
        "a kept mean pulls elsewhere than the sign of the slope"
    )


def test_the_path_of_adam_is_that_of_the_library() -> None:
    solver = DualDecomposition(penalty=2.0)
    sub = solver.step(solver.start(hand_sized())).subproblem
    assert sub is not None
    start = np.array([0.9, 0.3])
    path = pgd.adam_path(sub.gradient, sub.project, start, 25)
    np.testing.assert_allclose(path[-1], PGD(25, "adam").minimise(sub, start), atol=1e-12)


def test_qp_project_says_when_a_set_is_empty() -> None:
    rows = np.array([[1.0], [-1.0]])
    assert pgd.qp_project(np.zeros(1), rows, np.array([-1.0, -1.0])) is None
    w = pgd.qp_project(AIM, NORMAL[None], np.array([1.0]))
    assert w is not None
    np.testing.assert_allclose(w, project_halfspace(AIM, NORMAL, 1.0), atol=1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_project_below_finds_the_nearest_point_of_a_fine_grid(seed: int) -> None:
    net = hand_sized_net()
    side = np.linspace(-1.0, 1.0, 201)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    allowed = grid[net(torch.tensor(grid))[:, 0].numpy() <= 1.0]
    z = np.random.default_rng(seed).uniform(-1, 1, 2)
    w = pgd.project_below(z, net, 1.0, -1.0, 1.0)
    assert net(torch.tensor(w)).item() <= 1.0 + 1e-6
    assert np.linalg.norm(w - z) <= np.linalg.norm(allowed - z, axis=1).min() + 1e-6
    assert np.linalg.norm(w - z) >= np.linalg.norm(allowed - z, axis=1).min() - 0.0142


def test_project_below_jumps_and_refuses_an_empty_set() -> None:
    net = hand_sized_net()
    tie = (5 * 2**0.5 - 0.85 * 26**0.5) / (2**0.5 + 26**0.5)
    left, right = (
        pgd.project_below(np.array([tie + e, -0.6]), net, 1.0, -1.0, 1.2) for e in (-1e-3, 1e-3)
    )
    assert np.linalg.norm(right - left) > 0.8
    with pytest.raises(ValueError, match="raise the limit"):
        pgd.project_below(np.zeros(2), net, -50.0, 0.0, 1.0)


def test_figures_show_what_they_are_given() -> None:
    ax = pgd_figures.plot_descents({"a": np.zeros((2, 2)), "b": np.ones((3, 2))}, NORMAL, 1.0, AIM)
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()][:2] == ["a", "b"]
    budget = pgd_figures.plot_projections()[3]
    squares = np.array(
        [np.ravel(line.get_xydata()) for line in budget.get_lines() if line.get_marker() == "s"]
    )
    assert len(squares) == 12
    assert (squares.clip(0).sum(axis=1) <= 1.4 + 1e-9).all()
    assert ((-squares).clip(0).sum(axis=1) <= 0.8 + 1e-9).all()

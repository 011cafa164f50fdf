"""The barrier's small problems: closed forms, exact solutions, and the bounds that the chapter
proves.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ddmip_book.examples import barrier
from ddmip_book.examples.tiny import Tiny, quadratic
from ddmip_book.figures import log_barrier as barrier_figures
from ddmip_lib.problems import hand_sized_net

few = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 10_000)
exponents = st.floats(-5, 0)
penalties = st.floats(0.1, 10)


def random_polytope(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 5))
    rows = int(rng.integers(1, 9))
    return rng.normal(size=(rows, p)), rng.uniform(0.2, 1, rows), 3 * rng.normal(size=p)


@few
@given(seeds, exponents, penalties)
def test_distance_and_gap_to_the_solution(seed: int, exponent: float, rho: float) -> None:
    a, b, z = random_polytope(seed)
    mu = 10.0**exponent
    rows = len(b)
    best = barrier.nearest_in_polytope(a, b, z)
    u = barrier.central_point(a, b, z, rho, mu, np.zeros(len(z)))
    gap = rho / 2 * ((u - z) @ (u - z) - (best - z) @ (best - z))
    away = np.linalg.norm(u - best)
    assert (a @ u < b).all()
    assert gap + rho / 2 * away**2 <= rows * mu * (1 + 1e-6) + 1e-9
    assert away <= np.sqrt(rows * mu / rho) + 1e-6


@few
@given(seeds, exponents)
def test_the_derivatives_are_those_of_the_value(seed: int, exponent: float) -> None:
    a, b, z = random_polytope(seed)
    mu = 10.0**exponent
    u = np.zeros(len(z))
    h = 1e-5
    _, slope, bend = barrier.polytope_barrier(a, b, z, 2.0, mu, u)
    for i, e in enumerate(np.eye(len(z))):
        up, down = (barrier.polytope_barrier(a, b, z, 2.0, mu, u + s * h * e) for s in (1, -1))
        assert (up[0] - down[0]) / (2 * h) == pytest.approx(slope[i], rel=1e-4, abs=1e-5)
        np.testing.assert_allclose((up[1] - down[1]) / (2 * h), bend[i], rtol=1e-4, atol=1e-5)
    u = (b[0] + 1.0) / (a[0] @ a[0]) * a[0]  # outside
    assert barrier.polytope_barrier(a, b, z, 2.0, mu, u)[0] == np.inf


@few
@given(st.floats(-5, 5), penalties, exponents)
def test_the_step_with_one_bound_is_stationary(v: float, rho: float, exponent: float) -> None:
    mu = 10.0**exponent
    u = barrier.bound_step(v, rho, mu)
    assert u < 0
    assert rho * (u - v) == pytest.approx(mu / u, rel=1e-6, abs=1e-9)


@few
@given(st.lists(st.floats(-4, 0), min_size=1, max_size=30), penalties)
def test_the_multiplier_adds_up_the_barrier_parameters(exponents: list[float], rho: float) -> None:
    mus = 10.0 ** np.array(exponents)
    now = iter(mus)

    def step(v: np.ndarray, rho: float) -> np.ndarray:
        return np.array([barrier.bound_step(v[0], rho, next(now))])

    path = Tiny([[0.0]], 0.0, lambda u: 0.0, np.zeros_like, step).run(rho, len(mus))
    squares = path.lam[:, 0] ** 2
    sums = np.cumsum(mus)
    assert (squares >= rho * sums * (1 - 1e-9)).all()
    assert (squares <= 2 * rho * sums * (1 + 1e-9)).all()
    np.testing.assert_allclose(path.residual, mus / np.abs(path.lam[:, 0]), rtol=1e-6)


@pytest.mark.parametrize("active", [1, 3, 7])
def test_crowded_corner_meets_in_zero_with_its_eigenvalues(active: int) -> None:
    a, b, z = barrier.crowded_corner(active, p=15, seed=active)
    np.testing.assert_allclose(barrier.nearest_in_polytope(a, b, z), 0, atol=1e-8)
    u = -0.1 * np.linalg.pinv(a[:active]) @ np.ones(active)
    for mu in 10.0 ** -np.arange(6):
        u = barrier.central_point(a, b, z, 1.0, mu, u)
    bend = barrier.polytope_barrier(a, b, z, 1.0, 1e-5, u)[2]
    large = np.linalg.eigvalsh(bend) > 100
    assert large.sum() == active, "one large eigenvalue for each active row"


def test_soft_network_approaches_the_hard_one() -> None:
    points = torch.rand(50, 2, dtype=torch.float64)
    errors = [
        (barrier.soft_hand_sized(beta)(points) - hand_sized_net()(points)).abs().max()
        for beta in (10, 1000)
    ]
    assert errors[0] < 0.5
    assert errors[1] < 0.01


def test_two_dips_has_one_local_minimum_above_zero_and_one_below() -> None:
    u = torch.linspace(-2, 2.5, 2001, dtype=torch.float64)
    h = barrier.two_dips(u)
    low = [i for i in range(1, 2000) if h[i] < h[i - 1] and h[i] <= h[i + 1]]
    assert [bool(h[i] < 0) for i in low] == [False, True]


def test_figures_show_what_they_are_given() -> None:
    path = np.array([[0.6, 0.7], [0.5, 0.6]])
    ax = barrier_figures.plot_central_path(barrier.soft_hand_sized(), np.zeros(2), path, [1.0, 0.1])
    assert {text.get_text() for text in ax.texts} == {
        r"$\mu = 1$",
        r"$\mu = 0.1$",
        r"$\mu \to 0$",
        "$x$",
    }
    ax = barrier_figures.plot_phase_one(np.array([-0.5, 1.0]), np.array([-1.0, 1.2]))
    assert [len(line.get_xdata()) for line in ax.lines[-2:]] == [1, 1]
    ax = barrier_figures.plot_cg({1: [1.0, 1e-4, 0.0], 2: [1.0, 0.5, 1e-3, 1e-9]})
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["1", "2"]
    run = quadratic([[0.0], [-1.0]], curvature=0.0, cost=1.0).run(1.0, 6, u=0.5)
    left, right = barrier_figures.plot_drift({"one": run}, {"one": run})
    assert len(left.lines) == 1
    assert len(right.lines[1].get_xdata()) == int((run.x[:, 0] != 0).sum()) > 0

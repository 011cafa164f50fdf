"""Penalties and multipliers on small problems: the closed forms of the chapter hold, and figures
show the data.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddmip_book.examples.alm import EqualityQP, best_multiplier, count_cg, gradient_path
from ddmip_book.figures.augmented_lagrangian import (
    plot_curve_panels,
    plot_level_panels,
    plot_shifted_penalty,
    plot_supports,
)

PLANE = EqualityQP(np.eye(2), [2, 1], [[1, 1]], [1])
penalties = st.floats(0.01, 1e4)


def random_problem(seed: int, n: int = 5, m: int = 2) -> EqualityQP:
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    return EqualityQP(
        root @ root.T + 0.5 * np.eye(n),
        rng.normal(size=n),
        rng.normal(size=(m, n)),
        rng.normal(size=m),
    )


@settings(deadline=None)
@given(penalties)
def test_violation_times_condition_number_is_constant_in_the_plane(rho: float) -> None:
    matrix, _ = PLANE.penalised(rho)
    violation = abs(PLANE.residual(PLANE.minimiser(rho))[0])
    assert np.linalg.cond(matrix) == pytest.approx(1 + 2 * rho)
    assert violation * np.linalg.cond(matrix) == pytest.approx(2.0)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.floats(0.1, 50))
def test_one_multiplier_step_contracts_the_price_error_by_the_formula(
    seed: int, rho: float
) -> None:
    problem = random_problem(seed)
    _, best = problem.solution()
    lam = np.random.default_rng(seed + 1).normal(size=2)
    after = lam + rho * problem.residual(problem.minimiser(rho, lam))
    predicted = np.linalg.solve(np.eye(2) + rho * problem.dual_hessian(), lam - best)
    assert after - best == pytest.approx(predicted, rel=1e-5, abs=1e-6)


@settings(deadline=None)
@given(st.integers(0, 10_000), st.floats(0.1, 20))
def test_the_minimiser_minimises_and_prices_bound_from_below(seed: int, rho: float) -> None:
    problem = random_problem(seed)
    rng = np.random.default_rng(seed)
    best, lam = problem.solution()
    price = lam + rng.normal(size=2)
    x = problem.minimiser(rho, price)
    lowest = problem.lagrangian(x, price, rho)
    assert problem.residual(best) == pytest.approx(0, abs=1e-8)
    assert lowest <= problem.lagrangian(x + rng.normal(size=5), price, rho) + 1e-8
    assert lowest <= problem.lagrangian(best) + 1e-8


def test_a_nonconvex_problem_has_two_thresholds() -> None:
    rectangle = EqualityQP([[0, -1], [-1, 0]], [0, 0], [[1, 1]], [2])
    lowest = {rho: np.linalg.eigvalsh(rectangle.penalised(rho)[0])[0] for rho in (0.45, 0.55)}
    assert lowest[0.45] < 0 < lowest[0.55]
    for rho, ratio in ((0.75, -2.0), (2.0, -1 / 3)):
        after = 0.9 + rho * rectangle.residual(rectangle.minimiser(rho, 0.9))[0]
        assert (after - 1) / (0.9 - 1) == pytest.approx(ratio)


@settings(max_examples=25, deadline=None)
@given(st.floats(1.0, 100))
def test_gradient_steps_are_those_of_the_condition_number(rho: float) -> None:
    matrix, vector = PLANE.penalised(rho)
    path = gradient_path(matrix, vector, [0.0, 2.5], tolerance=1e-6)
    first = np.linalg.norm(matrix @ path[0] - vector)
    steps = np.log(first / 1e-6) / np.log(
        (1 + rho) / rho
    )  # (kappa + 1) / (kappa - 1) with kappa = 1 + 2 rho
    assert len(path) - 1 == pytest.approx(steps, abs=1.5)
    assert path[-1] == pytest.approx(PLANE.minimiser(rho), abs=1e-5)


def test_a_tolerance_below_rounding_is_an_error_and_no_endless_loop() -> None:
    with pytest.raises(ValueError, match="raise the tolerance"):
        gradient_path(*PLANE.penalised(100.0), [0.0, 2.5], tolerance=1e-30, limit=5000)


def test_conjugate_gradients_end_after_one_step_for_each_eigenvalue() -> None:
    x, steps = count_cg(np.diag([1.0, 1.0, 5.0, 5.0, 9.0]), np.arange(1.0, 6.0), rtol=1e-12)
    assert steps == 3
    assert x == pytest.approx([1, 2, 0.6, 0.8, 5 / 9])


@settings(max_examples=40, deadline=None)
@given(st.floats(0.0, 60.0), st.floats(0.5, 10.0))
def test_two_points_leave_a_gap_with_a_square_and_none_with_a_norm(
    rho: float, curvature: float
) -> None:
    u = np.linspace(-1, 2, 301)
    residual = np.r_[u, u - 1]
    cost = np.tile(curvature / 2 * (u - 0.5) ** 2, 2)
    best = curvature / 8
    square, _ = best_multiplier(cost + rho / 2 * residual**2, residual[:, None])
    exact = best * rho / (curvature + rho)
    assert exact - 1e-9 <= square <= exact + (curvature + rho) * 0.01**2
    norm, _ = best_multiplier(cost + max(rho, curvature / 2) * abs(residual), residual[:, None])
    assert norm == pytest.approx(best)


def test_a_price_needs_a_feasible_point() -> None:
    with pytest.raises(ValueError, match="residual zero"):
        best_multiplier([0.0, 1.0], [[1.0], [2.0]])


def test_figures_show_what_they_are_given() -> None:
    path = np.array([[0.0, 0.0], [1.0, 1.0]])
    axes = plot_level_panels(
        {"one": lambda x: float(x @ x), "two": lambda x: float(x[0])},
        (-1, 2, -1, 2),
        1.0,
        {"one": {"minimum": (0, 0)}, "two": {"minimum": (1, 0)}},
        {"two": path},
    )
    assert [ax.get_title() for ax in axes] == ["one", "two"]
    assert any(np.array_equal(line.get_xydata(), path) for line in axes[1].get_lines())
    assert axes[0].get_lines()[0].get_ydata()[0] == pytest.approx(2.0), (
        "the line x1 + x2 = 1 at x1 = -1"
    )

    ax = plot_shifted_penalty(lambda x: (x - 2) ** 2 / 2, 0.5, 2.0, [0.0, 1.5])
    lowest = [line.get_xdata()[0] for line in ax.get_lines() if len(line.get_xdata()) == 1]
    assert lowest == pytest.approx([1.0, 0.5], abs=2e-3)

    (supported,) = plot_supports({"dent": (lambda t: -abs(t), {"norm": lambda t: -2 * abs(t)})})
    curve, support = (line.get_ydata() for line in supported.get_lines())
    assert np.all(support <= curve)

    (decay,) = plot_curve_panels(
        {"error": {"a": ([0, 1], [1.0, 0.1])}}, "step", log=False, level=0.05
    )
    assert decay.get_yscale() == "linear"
    assert decay.get_lines()[1].get_ydata()[0] == 0.05

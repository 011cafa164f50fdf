"""Exact Algorithm 1 on listed decisions: its steps minimise, and known paths come out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddmip_book.examples.tiny import quadratic

numbers = st.floats(-3, 3)


@given(numbers, numbers, numbers, st.floats(0.1, 10), st.floats(0, 5))
def test_each_step_minimises_the_lagrangian(
    u: float, lam: float, cost: float, rho: float, a: float
) -> None:
    problem = quadratic([[-1], [0], [2]], curvature=a, centre=0.3, cost=cost)
    u_ = np.array([u])
    lam_ = np.array([lam])
    x = problem.x_step(u_, lam_, rho)
    best = min(problem.lagrangian(point, u_, lam_, rho) for point in problem.points)
    assert problem.lagrangian(x, u_, lam_, rho) <= best + 1e-9
    moved = problem.u_step(x - lam_ / rho, rho)
    assert problem.gradient(moved) + lam_ + rho * (moved - x) == pytest.approx(0, abs=1e-8)


def test_half_way_between_two_points_cycles_below_the_curvature_and_settles_above() -> None:
    problem = quadratic([[0], [1]], curvature=1.0, centre=0.5)
    below = problem.run(0.99, 400)
    above = problem.run(1.01, 400)
    assert below.residual[-1] == pytest.approx(0.99**-1 / (1 + 2 / 0.99), rel=1e-6)
    assert set(below.x[-4:].ravel()) == {0.0, 1.0}
    assert above.residual[-1] < 1e-9


def test_the_other_order_is_another_method() -> None:
    problem = quadratic([[i] for i in range(11)], curvature=0.0, cost=-3.0)
    first = problem.run(1.0, 7, order="xu")
    second = problem.run(1.0, 7, order="ux")
    assert np.all(np.diff(first.merit) <= 1e-12)
    assert np.any(np.diff(second.merit) > 0)
    with pytest.raises(ValueError, match="use 'xu'"):
        problem.run(1.0, 1, order="x")


def test_a_rule_sees_the_path_and_a_safeguard_holds() -> None:
    problem = quadratic([[0.0], [1.0]], curvature=0.0, low=0.3, high=1.0)
    path = problem.run(lambda path: 3.0 ** len(path.rows), 12, u=0.3, bound=1.0)
    assert path.rho.tolist() == [3.0**k for k in range(12)]
    assert np.abs(path.lam).max() <= 1.0
    assert np.all(path.x == 0.0), "trapped at an infeasible point although x = 1 is feasible"

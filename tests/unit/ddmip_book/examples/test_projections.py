"""Projections: each satisfies its variational inequality and agrees with a QP solver."""

from collections.abc import Callable

import numpy as np
import piqp
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ddmip_book.examples.projections import (
    project_box,
    project_capped_sum,
    project_halfspace,
    project_two_sided_budget,
)

INF = 1e30
few = settings(deadline=None, max_examples=100)
number = st.floats(-20, 20, allow_nan=False, width=32)
vectors = st.integers(1, 7).flatmap(lambda n: arrays(float, n, elements=number))
budgets = st.one_of(st.just(0.0), st.floats(0.0, 15.0, width=32))


def gap(v: np.ndarray, w: np.ndarray, support: float) -> float:
    """max over y in the set of <v - w, y - w>, given the set's support function at v - w: must not
    be positive.
    """
    return support - float((v - w) @ w)


def qp_projection(
    v: np.ndarray, rows: np.ndarray, upper: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """argmin |w - v|^2 with rows @ w <= upper and bounds, by PIQP."""
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-11
    lower = np.full(len(rows), -INF)
    solver.setup(np.eye(v.size), -v, None, None, rows, lower, upper, low, high)
    assert solver.solve() == piqp.PIQP_SOLVED
    return solver.result.x


class TestBox:
    @few
    @given(vectors, st.data())
    def test_variational_inequality(self, v: np.ndarray, data: st.DataObject) -> None:
        sides = arrays(float, v.size, elements=number)
        a = data.draw(sides)
        b = data.draw(sides)
        lower = np.minimum(a, b)
        upper = np.maximum(a, b)
        w = project_box(v, lower, upper)
        d = v - w
        assert (lower <= w).all()
        assert (w <= upper).all()
        assert gap(v, w, float(np.maximum(d * lower, d * upper).sum())) <= 1e-9
        np.testing.assert_array_equal(project_box(w, lower, upper), w)


class TestHalfspace:
    @few
    @given(vectors, st.data(), number)
    def test_variational_inequality(self, v: np.ndarray, data: st.DataObject, b: float) -> None:
        a = data.draw(arrays(float, v.size, elements=st.floats(-5, 5, width=16)))
        if np.abs(a).max() < 0.1:
            a = a + 1.0
        w = project_halfspace(v, a, b)
        assert a @ w <= b + 1e-8
        # the set's support function is finite at t a, t >= 0, alone: there it is t b
        t = (a @ (v - w)) / (a @ a)
        np.testing.assert_allclose(v - w, t * a, atol=1e-9)
        assert t >= -1e-12
        assert gap(v, w, t * b) <= 1e-6
        np.testing.assert_allclose(project_halfspace(w, a, b), w, atol=1e-8)

    def test_inside_stays(self) -> None:
        v = np.array([0.25, -3.0])
        np.testing.assert_array_equal(project_halfspace(v, np.array([1.0, 1.0]), 1.0), v)

    def test_zero_normal(self) -> None:
        v = np.array([1.0, 2.0])
        np.testing.assert_array_equal(project_halfspace(v, np.zeros(2), 0.0), v)
        with pytest.raises(ValueError, match="empty"):
            project_halfspace(v, np.zeros(2), -1.0)


class TestCappedSum:
    @few
    @given(vectors, budgets)
    @example(np.array([1.0]), 1e-30)  # lost in rounding beside the entries
    @example(np.array([2.0, 2.0, 2.0]), 0.0)
    def test_variational_inequality(self, v: np.ndarray, budget: float) -> None:
        w = project_capped_sum(v, budget)
        assert (w >= 0).all()
        assert w.sum() <= budget + 1e-9
        # extreme points: 0 and budget * e_i
        assert gap(v, w, budget * max(0.0, float((v - w).max()))) <= 1e-7
        np.testing.assert_allclose(project_capped_sum(w, budget), w, atol=1e-9)

    def test_negative_budget(self) -> None:
        with pytest.raises(ValueError, match="budget"):
            project_capped_sum(np.ones(2), -0.5)


class TestTwoSidedBudget:
    @few
    @given(vectors, budgets, budgets)
    def test_variational_inequality(self, v: np.ndarray, up: float, down: float) -> None:
        w = project_two_sided_budget(v, up, down)
        assert np.maximum(w, 0).sum() <= up + 1e-9
        assert np.maximum(-w, 0).sum() <= down + 1e-9
        d = v - w
        support = up * max(0.0, float(d.max())) + down * max(0.0, float((-d).max()))
        if v.size == 1:
            # one coordinate cannot spend both budgets
            support = max(up * float(d[0]), -down * float(d[0]), 0.0)
        assert gap(v, w, support) <= 1e-7
        np.testing.assert_allclose(project_two_sided_budget(w, up, down), w, atol=1e-9)

    @few
    @given(vectors, budgets, budgets)
    def test_signs_are_kept(self, v: np.ndarray, up: float, down: float) -> None:
        assert (project_two_sided_budget(v, up, down) * v >= 0).all()


def box_pair(rng: np.random.Generator, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.sort(rng.normal(size=(2, v.size)), axis=0)
    return project_box(v, low, high), qp_projection(v, np.zeros((1, v.size)), np.ones(1), low, high)


def halfspace_pair(rng: np.random.Generator, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a = rng.normal(size=v.size)
    b = float(rng.normal())
    free = np.full(v.size, INF)
    return project_halfspace(v, a, b), qp_projection(v, a[None], np.array([b]), -free, free)


def capped_pair(rng: np.random.Generator, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    budget = float(rng.uniform(0.1, 5))
    qp = qp_projection(
        v, np.ones((1, v.size)), np.array([budget]), np.zeros(v.size), np.full(v.size, INF)
    )
    return project_capped_sum(v, budget), qp


def budget_pair(rng: np.random.Generator, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The set in its lifted form w = a - b, a, b >= 0, sum a <= up, sum b <= down."""
    up, down = rng.uniform(0.1, 5, size=2)
    n = v.size
    lift = np.hstack([np.eye(n), -np.eye(n)])
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-11
    rows = np.kron(np.eye(2), np.ones(n))
    free = np.full(2, -INF)
    bounds = (np.zeros(2 * n), np.full(2 * n, INF))
    solver.setup(lift.T @ lift, -lift.T @ v, None, None, rows, free, np.array([up, down]), *bounds)
    assert solver.solve() == piqp.PIQP_SOLVED
    return project_two_sided_budget(v, up, down), lift @ solver.result.x


@pytest.mark.parametrize("pair", [box_pair, halfspace_pair, capped_pair, budget_pair])
@pytest.mark.parametrize("seed", range(10))
def test_agrees_with_a_qp_solver(
    pair: Callable[[np.random.Generator, np.ndarray], tuple[np.ndarray, np.ndarray]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    closed, qp = pair(rng, 3 * rng.normal(size=int(rng.integers(1, 9))))
    np.testing.assert_allclose(closed, qp, atol=1e-6)

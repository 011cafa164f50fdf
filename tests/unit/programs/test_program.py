"""Bounds from multipliers are never above the truth, and no step before the search loses a
point.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ddmip_lib.programs.branch_and_bound import presolved, prove
from ddmip_lib.programs.lp import LPSolver
from ddmip_lib.programs.presolve import (
    cover_cuts,
    probe_binaries,
    propagate_bounds,
    strengthen_coefficients,
)
from ddmip_lib.programs.program import Program, Rows


def draw_program(seed: int, spread: float = 0.0, continuous: int = 0) -> Program:
    """A few rows on whole numbers and continuous variables, in units between 1e-spread and
    1e+spread.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6)) + continuous
    m = int(rng.integers(1, 5))
    integer = np.arange(n) >= continuous
    matrix = rng.integers(-4, 5, (m, n)) * (rng.random((m, n)) < 0.7) + 0.1 * rng.integers(
        -3, 4, (m, n)
    )
    unit = np.where(integer, 1.0, 10.0 ** rng.uniform(-spread, spread, n))
    matrix = matrix / unit * 10.0 ** rng.uniform(-spread, spread, (m, 1))
    scale = 10.0 ** rng.uniform(-spread, spread)
    upper = np.where(integer, rng.choice([1.0, 1.0, 2.0], n), rng.uniform(0.5, 2.0, n) * unit)
    inside = np.where(integer, np.floor(rng.random(n) * (upper + 1)), rng.random(n) * upper)
    middle = matrix @ inside
    width = np.abs(matrix) @ upper
    kind = rng.integers(0, 3, m)
    low = np.where(kind == 0, -np.inf, middle - 0.1 * width * rng.random(m))
    high = np.where(kind == 1, np.inf, middle + 0.1 * width * rng.random(m))
    cost = np.round(rng.standard_normal(n), 1) / unit * scale
    return Program(
        cost,
        Rows.of(sp.csr_matrix(matrix)),
        low,
        high,
        np.zeros(n),
        upper,
        integer,
        float(rng.choice([0, 3])),
    )


def whole_points(program: Program) -> np.ndarray:
    """All points of a program without continuous variables that keep its rows exactly."""
    grids = [
        np.arange(low, high + 1) for low, high in zip(program.lower, program.upper, strict=True)
    ]
    points = np.array(list(itertools.product(*grids)))
    matrix = program.rows.matrix(len(program.cost)).toarray()

    def feasible(point: np.ndarray) -> bool:
        for row, low, high in zip(matrix, program.row_lower, program.row_upper, strict=True):
            terms = [Fraction(a) * int(v) for a, v in zip(row, point, strict=True)]
            if not low <= sum(terms) <= high:
                return False
        return True

    return points[np.array([feasible(point) for point in points], dtype=bool)]


def exact_dual(program: Program, multipliers: np.ndarray) -> Fraction:
    """The same bound in rational arithmetic."""
    mu = [Fraction(m) for m in multipliers]
    matrix = program.rows.matrix(len(program.cost)).toarray()
    total = Fraction(0)
    used = []
    for m, low, high in zip(mu, program.row_lower, program.row_upper, strict=True):
        side = low if m > 0 else high
        finite = bool(np.isfinite(side))
        used.append(m if finite else Fraction(0))
        if m and finite:
            total += m * Fraction(side)
    for j, cost in enumerate(program.cost):
        reduced = Fraction(cost) - sum(
            m * Fraction(a) for m, a in zip(used, matrix[:, j], strict=True)
        )
        total += min(reduced * Fraction(program.lower[j]), reduced * Fraction(program.upper[j]))
    return total + Fraction(program.constant)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 3.0, 8.0]))
def test_a_value_is_below_the_exact_one_and_near_it(seed: int, spread: float) -> None:
    program = draw_program(seed, spread, continuous=2)
    scale = np.abs(program.cost).max() / np.maximum(1e-300, np.abs(program.rows.weight).max())
    for multipliers in (
        scale * np.random.default_rng(seed).standard_normal(len(program.row_lower)),
        LPSolver().solve(program).multipliers,
    ):
        value = program.lower_bound(multipliers)
        exact = exact_dual(program, multipliers)
        size = float(
            np.abs(program.cost) @ program.upper + abs(program.constant) + abs(float(exact))
        )
        size += float(
            np.abs(multipliers)
            @ np.bincount(
                program.rows.row,
                np.abs(program.rows.weight) * program.upper[program.rows.column],
                len(multipliers),
            )
        )
        assert value <= exact or program.has_integer_cost
        assert value >= float(exact) - 1e-10 * size


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**6))
def test_no_whole_point_is_lost(seed: int) -> None:
    program = draw_program(seed)
    points = whole_points(program)
    propagated = propagate_bounds(program, rounds=5)
    if propagated is None:
        assert not len(points)
        return
    for changed in (
        strengthen_coefficients(propagated),
        probe_binaries(program, np.inf),
        cover_cuts(program),
        presolved(program, np.inf),
    ):
        left = points @ changed.rows.matrix(len(program.cost)).T.toarray()
        slack = 1e-12 * (1 + np.abs(left))
        assert (left <= changed.row_upper + slack).all()
        assert (left >= changed.row_lower - slack).all()
        assert ((points >= changed.lower) & (points <= changed.upper)).all()


@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("low", [-np.inf, -3.0, 0.5])
def test_from_a_weight_that_has_become_zero_nothing_follows(zero: float, low: float) -> None:
    """Rows that are fitted to a box can lose a weight; its variable must keep its bounds."""
    one = np.ones(2)
    rows = Rows.of(sp.csr_matrix([[1.0, 1.0]]))._replace(weight=np.array([1.0, zero]))
    program = Program(one, rows, low * one[:1], one[:1], 0 * one, 2 * one, one > 1)
    with np.errstate(divide="ignore"):
        found = propagate_bounds(program, rounds=3)
    assert found is not None
    np.testing.assert_allclose(found.lower, [max(0.0, low), 0.0], atol=1e-9)
    np.testing.assert_allclose(found.upper, [1.0, 2.0], atol=1e-9)


@settings(max_examples=60, deadline=None)
@example(84355, 0.0)  # rows made tighter for a box do not hold a point outside it back
@given(st.integers(0, 10**6), st.sampled_from([0.0, 6.0]))
def test_what_is_proved_is_the_optimum(seed: int, spread: float) -> None:
    program = draw_program(seed, spread)
    points = whole_points(program)
    proved = prove(program)
    assert proved.complete
    if not len(points):
        assert proved.bound > 0  # inf, or as far as multipliers of rows that nearly meet could see
        return
    best = float((points @ program.cost).min() + program.constant)
    size = float(np.abs(program.cost) @ program.upper + abs(program.constant)) or 1.0
    assert proved.bound <= best + 1e-12 * size
    assert proved.bound >= best - 1e-6 * size


def test_rows_that_leave_no_point_are_proved_empty() -> None:
    one = np.ones(2)
    program = Program(
        0 * one,
        Rows.of(sp.csr_matrix([[1.0, 1.0], [1.0, -1.0]])),
        np.array([1.5, 0.0]),
        np.array([np.inf, 0.0]),
        0 * one,
        0.7 * one,
        one > 1,
    )
    proposal = LPSolver().solve(program)
    assert proposal.empty
    assert program.proves_infeasible(proposal.multipliers)
    assert prove(program).bound == np.inf


def test_wrong_multipliers_prove_less_never_more() -> None:
    one = np.ones(2)
    program = Program(
        one, Rows.of(sp.csr_matrix([[1.0, 2.0]])), one[:1], np.inf * one[:1], 0 * one, one, one > 1
    )
    values = [program.lower_bound(np.array([mu])) for mu in (-1e9, 0.0, 0.5, 0.7, np.nan, np.inf)]
    assert max(values) == pytest.approx(0.5)
    assert values[2] == max(values)


def test_a_free_variable_has_no_bound_from_rounded_multipliers() -> None:
    """Unless rows keep it finite."""
    rows = Rows.of(sp.csr_matrix([[1.0, -1.0]]))
    free = Program(
        np.array([1.0, 0.0]),
        rows,
        np.zeros(1),
        np.zeros(1),
        np.array([-np.inf, 0.0]),
        np.array([np.inf, 1.0]),
        np.zeros(2, dtype=bool),
    )
    assert prove(free).bound == pytest.approx(0.0, abs=1e-6)
    unbounded = free.within(np.array([-np.inf, -np.inf]), np.array([np.inf, 1.0]))
    assert prove(unbounded).bound == -np.inf


def test_rounded_rows_on_switches() -> None:
    """Two of three switches must be on where each gives at most 0.4 of 0.7; no choice of two is
    lost.
    """
    rows = np.zeros((4, 6))
    rows[0, :3] = 1.0  # sum of v >= 0.7
    for k, most in enumerate((0.4, 0.4, 0.35)):
        rows[1 + k, k], rows[1 + k, 3 + k] = 1.0, -most  # v <= most * switch
    integer = np.arange(6) >= 3
    program = Program(
        np.where(integer, 1.0, 0.0),
        Rows.of(sp.csr_matrix(rows)),
        np.array([0.7, *[-np.inf] * 3]),
        np.array([np.inf, 0.0, 0.0, 0.0]),
        np.zeros(6),
        np.ones(6),
        integer,
    )
    changed = cover_cuts(program)
    assert len(changed.row_lower) > len(program.row_lower)
    matrix = changed.rows.matrix(6).toarray()
    for on in itertools.combinations(range(3), 2):
        point = np.zeros(6)
        point[[3 + k for k in on]], point[list(on)] = 1.0, 0.35
        assert (matrix @ point >= changed.row_lower - 1e-9).all()
        assert (matrix @ point <= changed.row_upper + 1e-9).all()
    assert prove(program, max_nodes=1).bound == 2.0  # without branching

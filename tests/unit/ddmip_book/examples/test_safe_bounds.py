"""Bounds of linear programs from multipliers of any quality."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from ddmip_book.examples.safe_bounds import (
    constraint_part,
    covering_program,
    exact_bound,
    rounded_duals,
    safe_bound,
)


@pytest.mark.parametrize("seed", range(8))
def test_any_multipliers_prove_a_bound(seed: int) -> None:
    program = covering_program(seed)
    optimum = linprog(program.cost, -program.matrix, -program.constraint_lower, bounds=(0, 10)).fun
    draw = np.random.default_rng(seed)
    for scale in (0.1, 1.0, 10.0):
        assert safe_bound(program, scale * draw.uniform(0, 1, 4)) <= optimum + 1e-9


def test_optimal_multipliers_attain_the_optimum() -> None:
    part, safe = rounded_duals(12, count=5)
    assert np.abs(part).max() < 1e-9
    assert np.abs(safe).max() < 1e-9


def test_the_constraint_part_alone_is_no_bound() -> None:
    assert constraint_part(covering_program(), np.array([3.0])) > 1.0


def test_the_exact_bound_has_no_rounding() -> None:
    program = covering_program(3)
    multipliers = np.array([0.5, 0.0, 0.25, 1.0])
    exact = exact_bound(program, multipliers)
    assert abs(exact - Fraction(safe_bound(program, multipliers))) < Fraction(1, 10**12)

r"""Bounds of linear programs from multipliers of any quality, after Neumaier and Shcherbina.

A linear program is $\min c^\top x$ subject to $a \le A x \le b$ and $x^- \le x \le x^+$.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog


class LinearProgram(NamedTuple):
    """Costs, matrix, ranges of the constraints, bounds of the variables."""

    cost: np.ndarray
    matrix: np.ndarray
    constraint_lower: np.ndarray
    constraint_upper: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def constraint_part(program: LinearProgram, multipliers: np.ndarray) -> float:
    """The bound without the reduced costs: valid only if all of them have the right sign.

    >>> constraint_part(covering_program(), np.array([1.1]))
    1.1
    """
    ends = np.where(multipliers > 0, program.constraint_lower, program.constraint_upper)
    used = multipliers != 0
    return float(multipliers[used] @ ends[used])


def safe_bound(program: LinearProgram, multipliers: np.ndarray) -> float:
    """The bound that holds for all multipliers, up to the rounding of its own sums.

    >>> [round(safe_bound(covering_program(), np.array([y])), 6) for y in (0.9, 1.1, 3.0)]
    [0.9, 1.0, 0.0]
    """
    reduced = program.cost - program.matrix.T @ multipliers
    ends = np.minimum(reduced * program.lower, reduced * program.upper)
    return constraint_part(program, multipliers) + float(ends.sum())


def exact_bound(program: LinearProgram, multipliers: np.ndarray) -> Fraction:
    """The same bound without rounding.

    >>> exact_bound(covering_program(), np.array([0.5]))
    Fraction(1, 2)
    """

    def entries(values: np.ndarray) -> list[Fraction]:
        return [Fraction(float(value)) for value in values]

    given = entries(multipliers)
    total = Fraction(0)
    for weight, low, high in zip(
        given, program.constraint_lower, program.constraint_upper, strict=True
    ):
        if weight:
            total += weight * Fraction(float(low if weight > 0 else high))
    columns = zip(program.cost, program.matrix.T, program.lower, program.upper, strict=True)
    for cost, column, low, high in columns:
        weighted = zip(entries(column), given, strict=True)
        reduced = Fraction(float(cost)) - sum((a * y for a, y in weighted), Fraction(0))
        total += min(reduced * Fraction(float(low)), reduced * Fraction(float(high)))
    return total


def covering_program(
    seed: int | None = None, constraints: int = 4, variables: int = 6
) -> LinearProgram:
    r"""$x_1 + 2 x_2$ on $x_1 + x_2 \ge 1$ in the unit square or, with a seed, random costs and
    coverings in $[0, 10]$.

    >>> covering_program(0).matrix.shape
    (4, 6)
    """
    if seed is None:
        one = np.ones(1)
        box = np.zeros(2), np.ones(2)
        return LinearProgram(np.array([1.0, 2.0]), np.ones((1, 2)), one, np.inf * one, *box)
    draw = np.random.default_rng(seed)
    matrix = draw.uniform(0.1, 1.0, (constraints, variables))
    ends = np.ones(constraints), np.full(constraints, np.inf)
    box = np.zeros(variables), np.full(variables, 10.0)
    return LinearProgram(draw.uniform(0.5, 2.0, variables), matrix, *ends, *box)


def rounded_duals(decimals: int, count: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Errors (bound minus optimum) of the constraint part and of the safe bound, with the
    multipliers of a solver rounded to some decimals.

    >>> part, safe = rounded_duals(2, count=5)
    >>> bool((safe <= 1e-9).all()), part.shape
    (True, (5,))
    """
    errors = []
    for trial in range(count):
        program = covering_program(seed + trial)
        found = linprog(program.cost, -program.matrix, -program.constraint_lower, bounds=(0, 10))
        multipliers = np.round(-found.ineqlin.marginals, decimals)
        bounds = constraint_part(program, multipliers), safe_bound(program, multipliers)
        errors.append(np.array(bounds) - found.fun)
    both = np.array(errors)
    return both[:, 0], both[:, 1]

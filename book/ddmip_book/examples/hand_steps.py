"""The NN subproblem of the running example, solved globally in exact fractions."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations, product

import numpy as np

from ddmip_lib.problems.hand_sized import HIDDEN_BIASES, HIDDEN_WEIGHTS, INPUT_COSTS, OUTPUT_WEIGHTS
from .tiny import Tiny

Point = tuple[Fraction, Fraction]
NEURONS = [
    (Fraction(a), Fraction(b), Fraction(shift))
    for (a, b), shift in zip(HIDDEN_WEIGHTS, HIDDEN_BIASES, strict=True)
]
SIDES = [
    (Fraction(1), Fraction(0), Fraction(0)),
    (Fraction(1), Fraction(0), Fraction(-1)),
    (Fraction(0), Fraction(1), Fraction(0)),
    (Fraction(0), Fraction(1), Fraction(-1)),
]
LINES = NEURONS + SIDES
"""Lines $a u_1 + b u_2 + e = 0$: the breakpoints of the three units, then the sides of the unit
square.
"""


def as_fractions(values: Iterable[float | Fraction]) -> np.ndarray:
    """The numbers as an array of exact fractions.

    >>> as_fractions([0.25, 3]).tolist()
    [Fraction(1, 4), Fraction(3, 1)]
    """
    return np.array([Fraction(value) for value in values], dtype=object)


def hand_loss(u: Sequence[float | Fraction] | np.ndarray) -> Fraction:
    r"""The network $f(u)$ of the running example.

    >>> hand_loss([1, 1]), hand_loss([Fraction(1, 4), 1])
    (Fraction(-3, 1), Fraction(-9, 4))
    """
    first, second = map(Fraction, u)
    terms = [
        Fraction(weight) * max(a * first + b * second + e, Fraction(0))
        for weight, (a, b, e) in zip(OUTPUT_WEIGHTS, NEURONS, strict=True)
    ]
    return sum(terms, Fraction(0))


def hand_prox(v: Sequence[float | Fraction] | np.ndarray, rho: float | Fraction) -> np.ndarray:
    r"""The global minimiser over the unit square of $f(u) + \tfrac{\rho}{2}\lVert u - v\rVert^2$,
    exactly.

    The NN subproblem of Algorithm 1 is ``hand_prox(x - lam / rho, rho)``. $f$ is linear between its
    breakpoints, so the minimiser is the free minimum of one linear region, or its minimum on one
    line, or an intersection of two lines; all are tried.

    >>> hand_prox([0, 0], 3).tolist()
    [Fraction(1, 3), Fraction(1, 1)]
    """
    first = Fraction(v[0])
    second = Fraction(v[1])
    weight = Fraction(rho)
    found = list(CORNERS)
    for a, b in SLOPES:
        z = (first - a / weight, second - b / weight)
        found += [z, *(_onto(line, z) for line in LINES)]
    inside = sorted({u for u in found if 0 <= u[0] <= 1 and 0 <= u[1] <= 1})
    values = [
        hand_loss(u) + weight / 2 * ((u[0] - first) ** 2 + (u[1] - second) ** 2) for u in inside
    ]
    return as_fractions(inside[values.index(min(values))])


def hand_tiny() -> Tiny:
    r"""The running example as a `Tiny`: both blocks exact, iterates as floats.

    >>> hand_tiny().run(rho=6.0, steps=5).x[-1]
    array([1., 1.])
    """
    weights = np.array(HIDDEN_WEIGHTS)
    shifts = np.array(HIDDEN_BIASES)
    return Tiny(
        points=list(product((0, 1), repeat=2)),
        cost=INPUT_COSTS,
        g=lambda u: float(hand_loss(u)),
        gradient=lambda u: weights.T @ (np.array(OUTPUT_WEIGHTS) * (weights @ u + shifts > 0)),
        u_step=hand_prox,
    )


def _onto(line: tuple[Fraction, ...], z: Point) -> Point:
    """The nearest point of a line."""
    a, b, e = line
    step = (a * z[0] + b * z[1] + e) / (a * a + b * b)
    return z[0] - step * a, z[1] - step * b


def _crossings() -> list[Point]:
    """The intersections of two lines."""
    pairs = [(s, t, s[0] * t[1] - s[1] * t[0]) for s, t in combinations(LINES, 2)]
    return [
        ((s[1] * t[2] - t[1] * s[2]) / d, (t[0] * s[2] - s[0] * t[2]) / d) for s, t, d in pairs if d
    ]


def _slopes() -> list[Point]:
    """The gradient of f for each pattern of neurons that are on."""
    patterns = [
        [(w, n) for w, n, on in zip(OUTPUT_WEIGHTS, NEURONS, given, strict=True) if on]
        for given in ONOFF
    ]
    return [
        (
            sum((Fraction(w) * n[0] for w, n in p), Fraction(0)),
            sum((Fraction(w) * n[1] for w, n in p), Fraction(0)),
        )
        for p in patterns
    ]


ONOFF = list(product((False, True), repeat=len(NEURONS)))
CORNERS = _crossings()
SLOPES = _slopes()

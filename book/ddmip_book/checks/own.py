"""Exercises with numbers of their own for each student, drawn from the student's name.

Without a name these exercises have the numbers of the book.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .part5 import one_more


@dataclass(frozen=True)
class Own:
    """How the numbers of an exercise are drawn, what is asked about them, and the answers.

    `asks`, `solution` and `traps` take the numbers by name, `traps` the solution first.
    """

    draw: Callable[[np.random.Generator], dict[str, float]]
    asks: Callable[..., str]
    solution: Callable[..., Any]
    traps: Callable[..., Sequence[tuple[Any, ...]]]


def drawn(label: str, who: str) -> dict[str, float]:
    """The numbers of one student for one exercise, always the same.

    >>> drawn("ex-emb-sos", "ada") == drawn("ex-emb-sos", "ada")
    True
    """
    digest = hashlib.sha256(f"{who}\n{label}".encode()).digest()
    return OWN[label].draw(np.random.default_rng(int.from_bytes(digest[:8], "big")))


def _two_bounds(random: np.random.Generator) -> dict[str, float]:
    low, high = random.choice(np.arange(2, 20), size=2, replace=False)
    return {"low": int(low), "high": int(high)}


def _shifted(nothing: float, optimum: float, found: float) -> tuple[list[float], list[float]]:
    ratios = [(nothing + t) / (optimum + t) for t in (0, 10, 100)]
    return ratios, [(found - nothing) / (optimum - nothing)] * 3


def _plot(random: np.random.Generator) -> dict[str, float]:
    nothing = int(random.integers(5, 40))
    gain = int(random.integers(2, 12))
    share = float(random.choice([0.25, 0.5, 0.75]))
    return {"nothing": nothing, "optimum": nothing + gain, "found": nothing + share * gain}


def _penalty(random: np.random.Generator) -> dict[str, float]:
    cost = float(random.integers(1, 13)) / 2
    return {"cost": cost, "rho": 2 * cost + float(random.integers(1, 9))}


_BOUNDS = Own(
    _two_bounds,
    lambda low, high: (
        f"the largest $z$ at $a = 0$ for $M^- = -{low}$, $M^+ = {high}$: the pair (by the bounds"
        " alone, with the inequality)"
    ),
    lambda low, high: (min(low, high), low * high / (low + high)),
    lambda s, low, high: [
        ((max(low, high), s[1]), "At $a = 0$ both variables are equal, so both bounds count."),
        (s[::-1], "The inequality can only make the largest $z$ smaller: did you swap the two?"),
        ((s[0], s[0]), "With the inequality, both terms are positive at $a = 0$ and share the 1."),
    ],
)
_GRID = Own(
    lambda random: {"parts": int(random.integers(3, 13)), "top": int(random.integers(2, 7))},
    lambda parts, top: (
        f"for the grid $0, 1/{parts}, 2/{parts}, \\dots, {top}$ the pair (largest excess of the"
        " chords over $x^2$, number of chords)"
    ),
    lambda parts, top: (1 / (4 * parts**2), parts * top),
    lambda s, parts, top: [
        ((4 * s[0], s[1]), "Measure at the middle between two grid points: half a step, squared."),
        ((1 / 4, s[1]), "That is the excess for integers: rescale it."),
        ((s[0], s[1] + 1), "That is the number of points; a chord joins two of them."),
    ],
)
_FIXED_POINT = Own(
    _penalty,
    lambda cost, rho: (
        f"with $c = {cost:g}$ instead of 1 the three numbers: the least $\\rho$ with a fixed point,"
        f" and the least and the largest $\\lambda$ of the fixed points at $\\rho = {rho:g}$"
    ),
    lambda cost, rho: (2 * cost, cost - rho / 2, 0.0),
    lambda s, cost, rho: [
        ((cost, cost - rho, 0.0), "The penalty term at $x = 0$ is $\\tfrac\\rho2$."),
        (
            (s[0], 0.0, -s[1]),
            "At the right end of $C$ the u-step wants a slope that is not positive.",
        ),
        ((cost / 2, *s[1:]), "Solve $c - \\tfrac\\rho2 \\le 0$ for $\\rho$."),
    ],
)
_SHIFT = Own(
    _plot,
    lambda nothing, optimum, found: (
        f"for objective {nothing} at $z = 0$, optimum {optimum} and a run that found {found:g}: the"
        " ratios 'doing nothing' and the shares closed by the run, two lists for $t = 0, 10, 100$"
    ),
    _shifted,
    lambda s, nothing, optimum, found: [
        (
            ([(nothing + t) / optimum for t in (0, 10, 100)], s[1]),
            "The optimum gets the trees as well.",
        ),
        (
            (s[0], [(found + t) / (optimum + t) for t in (0, 10, 100)]),
            "That is a ratio again: measure from where everyone starts.",
        ),
        (
            (s[0], [s[1][0] + t for t in (0, 10, 100)]),
            "The trees are in both objectives of the difference.",
        ),
    ],
)
_CAPACITY = Own(
    lambda random: {
        "resource": int(random.integers(2)),
        "extra": float(random.integers(1, 17)) / 8,
    },
    lambda resource, extra: (
        f"for the market by hand and {extra:g} more of the *{('first', 'second')[resource]}*"
        " resource: the pair (value of the linear program, prediction)"
    ),
    one_more,
    lambda s, resource, extra: [
        (one_more(1 - resource, extra), "That is the other resource."),
        ((s[0], one_more(resource, 0.0)[0]), "Add the price times what is added."),
        (
            (one_more(resource, 0.0)[0], s[1]),
            "Solve the linear program again with the new capacity.",
        ),
    ],
)
OWN: dict[str, Own] = {
    "ex-emb-sos": _BOUNDS,
    "ex-mip-lattice": _GRID,
    "ex-cons-fixed": _FIXED_POINT,
    "ex-e5-shift": _SHIFT,
    "ex-price-unit": _CAPACITY,
}
"""By the label of the exercise, one in each part of the book."""

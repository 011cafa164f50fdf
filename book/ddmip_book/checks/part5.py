"""Self-checks of Part V: beyond the paper."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import linprog

from ..examples.prices import Listed, hand_market
from ..examples.safe_bounds import covering_program, exact_bound, safe_bound
from ..examples.smooth import Smooth, ridge
from .core import Check, FormError, agrees, calls


def _pulled(slopes: Any, bias: float, u: Any, order: Sequence[int]) -> float:
    """The cost of u after boundary search for a linear logit, coordinates reset in this order."""
    slopes = np.asarray(slopes, dtype=float)
    u = np.array(u, dtype=float)
    for j in order:
        without = np.where(np.arange(len(u)) == j, 0.0, u)
        if slopes @ without + bias > 0:
            u = without
    return float(np.abs(u).sum() * -bias / (slopes @ u))


def _example(answer: Any) -> tuple[np.ndarray, float, np.ndarray]:
    slopes, bias, u = (np.asarray(part, dtype=float) for part in answer)
    if slopes.shape != (2,) or u.shape != (2,) or bias.shape != ():
        raise FormError("expected two weights, one bias and a point with two coordinates")
    return slopes, float(bias), u


def _logit(answer: Any) -> float:
    slopes, bias, u = _example(answer)
    return float(slopes @ u + bias)


def _orders(answer: Any) -> tuple[float, float]:
    """Costs after boundary search: the most expensive step first, and the other order."""
    slopes, bias, u = _example(answer)
    dearest = int(np.abs(u).argmax())
    return _pulled(slopes, bias, u, [dearest, 1 - dearest]), _pulled(
        slopes, bias, u, [1 - dearest, dearest]
    )


def _visits(answer: Any) -> np.ndarray:
    visits = np.asarray(answer, dtype=float)
    if visits.shape != (2, 2, 2):
        raise FormError("expected two points, each a table of two samples by two features")
    return visits


def _potable(visits: np.ndarray) -> np.ndarray:
    return visits.sum(axis=2) > 0.8


def _together(visits: np.ndarray) -> bool:
    """Whether one potable point of each sample, without boundary search, satisfies the budgets."""
    rows = [visits[_potable(visits)[:, i], i] for i in range(2)]
    return any(bool((a + b <= 1 + 1e-9).all()) for a in rows[0] for b in rows[1])


def _seen(visits: Any) -> bool:
    return bool((np.asarray(visits) > 0.5).any(axis=0).all())


def one_more(resource: int, extra: float) -> tuple[float, float]:
    """The linear program of the market by hand with more of a resource: its value, and the
    prediction.
    """
    market = hand_market()
    more = market.capacities + extra * (np.arange(2) == resource)
    first = market.linear()
    reached = Listed(market.block, market.value, market.use, more).linear().value
    return reached, first.value + extra * float(first.prices[resource])


def _packed(part: float, m: int = 3) -> Listed:
    use = part * np.repeat(np.eye(m), 2, axis=0)
    return Listed(np.arange(2 * m), np.ones(2 * m), use, np.ones(m))


def _fractional(market: Listed) -> int:
    shares = market.linear().weights
    return len(set(market.block[(shares > 1e-9) & (shares < 1 - 1e-9)]))


def _moved(prices: Any, use: Any, capacities: Any, length: float) -> np.ndarray:
    return np.maximum(np.asarray(prices) + length * (np.asarray(use).sum(axis=0) - capacities), 0.0)


def _least_form(k: Any, a: Any, b: float, tau: float, prices: Any) -> float:
    """The least k'u over a ball with prices, a halfspace and a box of half-width 2."""
    rows = np.vstack([np.concatenate([-a, a]), np.concatenate([prices, prices])])
    return float(linprog(np.concatenate([k, -k]), rows, [b, tau], bounds=(0, 2)).fun)


_CUTS = [
    (np.array([1.0, -0.5]), np.array([1.0, 1.0]), -0.6, 1.0, np.array([0.5, 0.8])),
    (np.array([1.0, 1.0, -2.0]), np.array([2.0, -1.0, 0.5]), -0.5, 0.9, np.array([0.6, 0.3, 1.0])),
]
_PRICES = (np.array([0.5, 0.1]), np.array([[1.0, 0.0], [2.0, 1.0]]), np.array([2.0, 4.0]), 0.1)
_FLAGS = (
    [[1, 0.2, 0.9], [0, 0.7, 1]],
    [[1, 1, 0.4], [1, 0, 0.3]],
    [[0.2, 0.9, 0.9]],
    [[0.6, 0.9, 0.7]],
)


_PROGRAMS = [
    (covering_program(seed), np.random.default_rng(seed).uniform(0, 1, 4)) for seed in range(20)
]


def _infeasibility(answer: Any) -> float:
    """The bound of the constant objective 0 in the exercise on infeasibility."""
    first, second = (float(part) for part in answer)
    reduced = np.array([-first - second, -first - 3 * second])
    ends = np.minimum(reduced * np.array([1.0, 0.0]), reduced * np.array([2.0, 2.0]))
    return first + 1.5 * second + float(ends.sum())


def _convex_net() -> Smooth:
    points = [[i, j] for i in range(4) for j in range(4)]
    rng = np.random.default_rng(3)
    return ridge(
        points,
        rng.normal(size=(5, 2)),
        rng.normal(size=5),
        rng.uniform(0.2, 1, 5),
        [-0.3, 0.2],
        "softplus",
    )


def _certificate(problem: Smooth, x: Any, with_cost: bool = True) -> float:
    slope = problem.slope(x) if with_cost else problem.gradient(x)
    return float(((x - problem.points) @ slope).max())


CHECKS = {
    "recovery": [
        Check(
            "ex-rec-hand",
            "Boundary search by hand",
            "the pair (usage before, usage after), two numbers each",
            lambda: ([2, 1.5], [0, 1]),
            lambda s: [
                (
                    (s[0], [0, 1.5]),
                    "The remaining step is longer than necessary: bisect to the boundary.",
                ),
                ((s[0], [2, 0]), "The most expensive step is tried first."),
                ((s[0], [0.8, 0.6]), "First try to reset entire coordinates, then bisect."),
            ],
            "Try each coordinate at its old value, the one with the largest move first.",
        ),
        Check(
            "ex-rec-order",
            "Order of the steps",
            "the triple (weights, bias, $u$) of your example: two numbers, one, two",
            lambda: ([2.0, 1.0], -1.0, [2.0, 1.2]),
            lambda s: [
                (
                    ([1.0, 1.0], -3.0, [1.0, 1.2]),
                    (
                        "The point is not of class 1: its logit must be positive, and that of the "
                        "origin negative."
                    ),
                    lambda a: not (_logit(a) > 0 > _example(a)[1]),
                ),
                (
                    ([1.0, 1.0], -1.0, [2.0, 1.2]),
                    (
                        "Both orders end at the same cost here: give the two coordinates different "
                        "weights."
                    ),
                    lambda a: agrees(*_orders(a)),
                ),
                (
                    ([1.5, 1.0], -1.0, [2.0, 1.2]),
                    "The costs differ, but not by a factor of two in favour of the other order.",
                    lambda a: _orders(a)[0] < 2 * _orders(a)[1] - 1e-6,
                ),
            ],
            judge=None,
        ),
        Check(
            "ex-rec-pool",
            "A pool that beats every iterate",
            "two points, each two samples by two features, for $f(u) = u_1 + u_2 - 0.8$, samples at"
            " 0 and budgets of 1, such that the selection *without* boundary search beats both",
            lambda: [np.diag([1.0, 0.5]), np.diag([0.5, 1.0])],
            lambda s: [
                (
                    [np.diag([1.5, 0.5]), np.diag([0.5, 1.0])],
                    "A point must satisfy the budgets: 1 for each feature, nothing negative.",
                    lambda a: bool(
                        (_visits(a).sum(axis=1) > 1 + 1e-9).any() or (_visits(a) < 0).any()
                    ),
                ),
                (
                    [np.eye(2), np.eye(2)],
                    "Each point should make exactly one sample potable.",
                    lambda a: bool((_potable(_visits(a)).sum(axis=1) != 1).any()),
                ),
                (
                    [np.array([[1.0, 0.0], [0.0, 0.5]]), np.array([[0.0, 0.5], [1.0, 0.0]])],
                    (
                        "The two potable samples need the same feature: together they exceed the"
                        " budget."
                    ),
                    lambda a: not _together(_visits(a)),
                ),
            ],
            judge=None,
        ),
        Check(
            "ex-rec-trees",
            "Recovery on Tree Planting",
            "a function of the evaluated flags (points by sites) that returns whether the selection"
            " is certainly exact, True or False",
            lambda: _seen,
            lambda s: [
                (
                    lambda visits: bool((np.asarray(visits) > 0.5).all(axis=1).any()),
                    "Not all in one point: columns of different points may be combined.",
                ),
                (
                    lambda visits: bool((np.asarray(visits) > 0.5).any()),
                    "Every site needs a column of its own.",
                ),
                (
                    lambda visits: _seen(visits) and _seen(1 - np.asarray(visits)),
                    "Flag 0 is always in the pool.",
                ),
            ],
            "For which sites is the sterilised column in the pool?",
            judge=calls(*((np.array(visits),) for visits in _FLAGS)),
        ),
    ],
    "prices": [
        Check(
            "ex-price-hand",
            "Evaluate the dual function",
            "the triple ($\\theta(\\pi)$, excess usage of both resources, whether $\\theta(\\pi)$"
            " is a bound)",
            lambda: (3.75, [-1, 6], True),
            lambda s: [
                (
                    (2.25, s[1], True),
                    "Those are the profits alone: add the prices of the capacities.",
                ),
                ((s[0], [1, -6], True), "Excess usage is usage minus capacity."),
                (
                    (s[0], s[1], False),
                    "Weak duality requires only nonnegative prices.",
                ),
            ],
            "For each sample compare the profits of both treatments and of none.",
        ),
        Check(
            "ex-price-unit",
            "Marginal value of a resource",
            "for the market by hand and one more unit of the *second* resource: the pair (value of"
            " the linear program, prediction)",
            lambda: one_more(1, 1.0),
            lambda s: [
                (one_more(0, 1.0), "That is the first resource."),
                (
                    (s[0], hand_market().linear().value),
                    "The prediction adds the price times what is added.",
                ),
                (
                    (hand_market().linear().value, s[1]),
                    "Solve the linear program again with the new capacity.",
                ),
            ],
            "`hand_market()` has `linear()` for the value and the prices; build a `Listed` with"
            " other capacities.",
        ),
        Check(
            "ex-price-sharp",
            "As many fractional blocks as coupling constraints",
            "a `Listed` with $m = 3$ resources whose best selection has the value $\\mathrm{LP} -"
            " 2.7$ or less, i.e. $\\varepsilon = \\tfrac1{10}$",
            lambda: _packed(0.51),
            lambda s: [
                (
                    _packed(1.2),
                    "A column does not fit alone.",
                    lambda a: bool((a.use > a.capacities + 1e-9).any()),
                ),
                (
                    _packed(0.9),
                    (
                        "The linear program is not far enough above the best selection: increase"
                        " the weights of the fractional blocks."
                    ),
                    lambda a: a.linear().value - a.best() < 2.7 - 1e-9 and _fractional(a) == 3,
                ),
                (
                    _packed(0.5),
                    "Wanted: three resources, values 1, and exactly three fractional blocks.",
                    lambda a: (
                        len(a.capacities) != 3 or not np.allclose(a.value, 1) or _fractional(a) != 3
                    ),
                ),
            ],
            judge=None,
        ),
    ],
    "pricing_problem": [
        Check(
            "ex-price-knapsack",
            "A fractional knapsack by hand",
            "the pair (the three lengths $t$, the cost)",
            lambda: ([1, 0, 2 / 3], 7 / 3),
            lambda s: [
                (([0, 1, 1], 3.0), "Order the coordinates by derivative over cost."),
                (([1, 0, 1], 3.0), "The last coordinate is needed only in part."),
                ((s[0], 5 / 3), "Multiply each length by its cost before adding."),
            ],
            "Fill the coordinates in the order of decreasing ratio of derivative to cost.",
        ),
        Check(
            "ex-price-project",
            "Prices without a linear program",
            "a function of (prices, usage of the columns taken, capacities, step length) that"
            " returns the new prices",
            lambda: _moved,
            lambda s: [
                (
                    lambda p, use, r, length: np.maximum(p - length * (use.sum(axis=0) - r), 0),
                    "The price of a scarce resource must increase.",
                ),
                (
                    lambda p, use, r, length: p + length * (use.sum(axis=0) - r),
                    "A price must not become negative.",
                ),
                (
                    lambda p, use, r, length: np.maximum(p + length * use.sum(axis=0), 0),
                    "Only the excess over the capacity changes a price.",
                ),
            ],
            "Prices follow the excess usage; those below zero become zero.",
            judge=calls(_PRICES, (*_PRICES[:3], 0.5)),
        ),
    ],
    "certificates": [
        Check(
            "ex-cert-hand",
            "Assemble a bound by hand",
            "the triple (rounded bound, by how much the sum of block bounds must fall before it"
            " changes, whether it can become 1)",
            lambda: (3, 0.25, False),
            lambda s: [
                (
                    (1, *s[1:]),
                    (
                        "Those are the block bounds alone: add the cost of the capacities at these"
                        " multipliers."
                    ),
                ),
                ((3, 1.25, False), "The sum need not vanish: the bound is rounded down."),
                (
                    (*s[:2], True),
                    "No valid bound is below the optimum of the market, and that is more than 1.",
                ),
            ],
            "A bound is prices times capacities plus the sum of block bounds, rounded down as"
            " values are integers.",
        ),
        Check(
            "ex-cert-scale",
            "One multiplier for all resources",
            "for the market by hand, with the price $t$ for both resources: the three exact values"
            " of $\\theta$ for $t = 0, \\tfrac12, 2$",
            lambda: [hand_market().demand(np.full(2, t))[0] for t in (0.0, 0.5, 2.0)],
            lambda s: [
                (
                    [0, *s[1:]],
                    "At prices of zero every sample takes a column, and values still count.",
                ),
                (
                    [*s[:2], s[0]],
                    "That is what the library would report; the sum itself grows with the prices.",
                ),
                ([*s[:2], 2], "The capacities cost the new prices."),
            ],
            "Prices times capacities, plus for each sample the larger one of 0 and its best"
            " profit.",
        ),
        Check(
            "ex-conv-certificate",
            "One MILP as a certificate",
            "a function of (problem, limit $\\bar x$) that returns the gap $\\max_X \\nabla F(\\bar"
            " x)^\\top(\\bar x - x)$",
            lambda: _certificate,
            lambda s: [
                (
                    lambda p, x: _certificate(p, x, False),
                    "$F$ has a linear part too: use `slope`, not `gradient`.",
                ),
                (
                    lambda p, x: float(((x - p.points) @ p.slope(x)).min()),
                    "The certificate is the largest value, not the least.",
                ),
                (
                    lambda p, x: p.total(x) - p.optimum(),
                    "That is the true loss, which needs the optimum; the certificate must not.",
                ),
            ],
            "`problem.points` lists $X$, one decision in each row of the matrix.",
            judge=calls(
                *[(_convex_net(), np.array(x)) for x in ([1.0, 3.0], [2.0, 0.0], [0.0, 0.0])]
            ),
        ),
        Check(
            "ex-cert-cut",
            "Strength of the cut's formula",
            "a function of $(e, h, h_0, \\tau, \\pi)$ that returns the least $e^\\top u$ with"
            " $h^\\top u + h_0 \\ge 0$, $\\sum_j \\pi_j \\lvert u_j \\rvert \\le \\tau$ and all"
            " $\\lvert u_j \\rvert \\le 2$",
            lambda: _least_form,
            lambda s: [
                (
                    lambda k, a, b, tau, prices: _least_form(k, a, 1e6, tau, prices),
                    "The halfspace is missing.",
                ),
                (
                    lambda k, a, b, tau, prices: _least_form(k, a, b, 1e6, prices),
                    "The ball is missing.",
                ),
                (
                    lambda k, a, b, tau, prices: -_least_form(-k, a, b, tau, prices),
                    "That is the largest value.",
                ),
            ],
            "Split each coordinate into its two directions; then it is a linear program.",
            judge=calls(*_CUTS),
        ),
    ],
    "safe_bounds": [
        Check(
            "ex-safe-hand",
            "Safe bounds by hand",
            "the list of the three bounds",
            lambda: [0.9, 1.0, 0.0],
            lambda s: [
                ([0.9, 1.1, 3.0], "Those are the constraint parts: add the terms of e."),
                ([0.9, 1.0, 1.0], "For the last one both reduced costs are negative."),
                ([2.1, 2.0, 3.0], "That is the maximum over the box: take the minimum."),
            ],
            "The reduced costs are the costs minus the multiplier; each takes the bound of its"
            " variable at which the product is smallest.",
        ),
        Check(
            "ex-safe-infeasible",
            "A proof of infeasibility",
            "the pair of multipliers, of the first and of the second constraint",
            lambda: (-3.0, 1.0),
            lambda s: [
                (
                    (3.0, 1.0),
                    "The first constraint has only an upper end: its multiplier is not positive.",
                    lambda a: a[0] > 0,
                ),
                (
                    (-3.0, -1.0),
                    "The second constraint has only a lower end: its multiplier is not negative.",
                    lambda a: a[1] < 0,
                ),
                (
                    (-1.0, 1.0),
                    "The right-hand side of the bound is not positive with these multipliers.",
                    lambda a: _infeasibility(a) <= 0,
                ),
            ],
            judge=None,
        ),
        Check(
            "ex-safe-rounding",
            "Rounding downwards",
            "a function of (program, multipliers) that returns the bound, a float",
            lambda: lambda program, y: safe_bound(program, y) - 1e-11,
            lambda s: [
                (
                    safe_bound,
                    "Some bounds are above the exact value.",
                    lambda answer: any(
                        answer(program, y) > exact_bound(program, y) for program, y in _PROGRAMS
                    ),
                ),
                (
                    lambda program, y: safe_bound(program, y) - 1e-6,
                    "Some bounds are more than 1e-9 below the exact value.",
                    lambda answer: any(
                        answer(program, y) < exact_bound(program, y) - Fraction(1, 10**9)
                        for program, y in _PROGRAMS
                    ),
                ),
                (
                    exact_bound,
                    "The exact value is a fraction: return a float, rounded downwards.",
                    lambda answer: (
                        not all(isinstance(answer(program, y), float) for program, y in _PROGRAMS)
                    ),
                ),
            ],
            judge=None,
        ),
    ],
}

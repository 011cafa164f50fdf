"""Self-checks of Part III: theory."""

from typing import Any

import numpy as np

from ..examples.smooth import Smooth, random_bends
from .core import Check, agrees, calls


def _balance(h: Any, rho: float) -> float:
    """The least of (rho - h)(rho + 2h) / (2 rho)."""
    return min((rho - t) * (rho + 2 * t) / (2 * rho) for t in h)


def _careless(gap: float, extra: float, delta: float, ell: float, rho: float, eps: float) -> float:
    return ell**2 * (gap + extra) / (rho**2 * delta * eps**2)


def _kink(lam: float, rho: float) -> tuple[float, float, float]:
    first = -float(np.sign(lam)) * max(abs(lam) - 1.0, 0.0) / rho
    return first, lam + rho * first, 0.0


def _projected_step(
    problem: Smooth, x: Any, rho: float, half: float = 0.5, with_cost: bool = True
) -> np.ndarray:
    slope = problem.slope(x) if with_cost else problem.gradient(x)
    values = problem.points @ slope + half * rho * ((problem.points - x) ** 2).sum(axis=1)
    return problem.points[values.argmin()]


def _fit(table: Any, times: Any, relative: bool = True) -> np.ndarray:
    table = np.asarray(table, dtype=float)
    times = np.asarray(times, dtype=float)
    if relative:
        table = table / times[:, None]
        times = np.ones(len(times))
    return np.linalg.lstsq(table, times)[0]


_BENDS = [(random_bends(number, 0.3), np.array([float(number)]), 1.05) for number in range(6)]
_TABLE = np.array([[2.0, 5e3], [4.0, 8e4], [2.0, 7e5], [6.0, 4e6], [8.0, 9e7]])
_TIMES = _TABLE @ [1e-4, 2e-9] * [1.1, 0.9, 1.05, 0.8, 1.3]

CHECKS = {
    "convergence": [
        Check(
            "ex-conv-corrected",
            "The corrected inequality by hand",
            "the five numbers $u^1$, $u^2$, $L_\\rho^1$, $L_\\rho^2$, $\\alpha$",
            lambda: (1 / 3, 1 / 9, 5 / 9, 41 / 81, 4),
            lambda s: [
                (
                    (*s[:4], 0.5),
                    "That is what the corollary guarantees; on this problem more is true.",
                ),
                (
                    (*s[:2], 1 / 18, 1 / 162, 4),
                    "The value at the limit is not zero: what does $g$ cost at the only decision?",
                ),
                (
                    (*s[:4], 4 / 81),
                    "That is the fall itself: divide it by the square of the residual.",
                ),
            ],
            "The copy shrinks by the same factor in every iteration; find it from the u-step.",
        ),
        Check(
            "ex-conv-quadratic",
            "Prove the lemma for quadratics",
            "a function of ($\\tau_1, \\dots, \\tau_p$ as a list, $\\rho$) that returns the largest"
            " $\\delta$",
            lambda: _balance,
            lambda s: [
                (
                    lambda h, rho: (rho + min(h)) / 2,
                    "That is what the u-step earns; the multiplier step has its cost.",
                ),
                (
                    lambda h, rho: (rho + min(h)) / 2 - max(t * t for t in h) / rho,
                    "Every eigenvector earns and pays for itself: take the two from the same one.",
                ),
                (
                    lambda h, rho: _balance([max(h)], rho),
                    "The least curvature counts as well as the largest.",
                ),
            ],
            "Write $\\Delta$ in the eigenvectors of $H$; the two quadratic forms share them.",
            judge=calls(
                ([-0.8, 0.5, 1.0], 1.9), ([0.0, 1.0], 1.5), ([0.0, 1.0], 3.0), ([-1.0, 1.0], 2.5)
            ),
        ),
        Check(
            "ex-conv-careless",
            "Prove convergence for careless x-steps",
            "a function of ($L_\\rho^1 - F_{\\min}$, $E$, $\\delta$, $\\ell$, $\\rho$,"
            " $\\varepsilon$) that returns the largest number your proof allows, not rounded",
            lambda: _careless,
            lambda s: [
                (
                    lambda gap, extra, *rest: s(gap, 0.0, *rest),
                    "The errors allow the merit to rise by $E$ in all.",
                ),
                (
                    lambda gap, extra, delta, ell, rho, eps: (gap + extra) / (delta * eps**2),
                    "That counts moves of $u$; a residual is at most $\\ell/\\rho$ times a move.",
                ),
                (
                    lambda *given: s(*given) * given[-1],
                    "Squares are summed: divide by $\\varepsilon^2$.",
                ),
            ],
            "Add to the merit what the errors can still add, and show that the sum falls.",
            judge=calls((3.0, 1.0, 0.4, 1.0, 1.5, 0.1), (2.0, 0.0, 0.1, 0.5, 2.0, 0.01)),
        ),
        Check(
            "ex-conv-project",
            "Is Algorithm 1 worth more than projected gradient?",
            "a function of (problem, $x$, $\\rho$) that does one step of projected gradient on the"
            " integers",
            lambda: _projected_step,
            lambda s: [
                (
                    lambda p, x, rho: _projected_step(p, x, rho, with_cost=False),
                    "The step follows $\\nabla F$, cost included.",
                ),
                (
                    lambda p, x, rho: _projected_step(p, x, rho, half=1.0),
                    "Compare the penalty with $\\tfrac\\rho2$.",
                ),
                (
                    lambda p, x, rho: min(p.points, key=p.total),
                    "That jumps to the optimum: use the slope at $x$ alone.",
                ),
            ],
            "All decisions are in `problem.points`: compute the value of each and take the"
            " smallest.",
            judge=calls(*_BENDS, read=lambda x: np.ravel(x)),
        ),
    ],
    "constraints": [
        Check(
            "ex-cons-average",
            "The average of a cycle",
            "the average of $x$ and the average of $u$, two pairs of numbers",
            lambda: ((2 / 3, 0.0), (2 / 3, 0.0)),
            lambda s: [
                (((2.0, 0.0), (2.0, 0.0)), "Those are the sums: divide by the number of states."),
                (
                    ((0.5, 0.0), (0.635, -0.045)),
                    "Three states, not two: one of them has the $x$ and $u$ of another.",
                ),
                (
                    ((2 / 3, 0.0), (2 / 3, 0.12)),
                    "The second state's $u$ has a negative second entry.",
                ),
            ],
            "Add the three states, coordinate by coordinate.",
        ),
        Check(
            "ex-cons-fixed",
            "When is there a fixed point?",
            "the three numbers: the least $\\rho$ with a fixed point, and the least and the largest"
            " $\\lambda$ of the fixed points at $\\rho = 4$",
            lambda: (2.0, -1.0, 0.0),
            lambda s: [
                ((1.0, -3.0, 0.0), "The penalty term at $x = 0$ is $\\tfrac\\rho2$."),
                (
                    (2.0, 0.0, 1.0),
                    "At the right end of $C$ the u-step wants a slope that is not positive.",
                ),
                ((0.5, -1.0, 0.0), "Solve $c - \\tfrac\\rho2 \\le 0$ for $\\rho$."),
            ],
            "Write both steps at $u = x = 1$ as conditions on $\\lambda$.",
        ),
        Check(
            "ex-cons-kink",
            "Prove that convex kinks do no harm",
            "a function of ($\\lambda^0$, $\\rho$) that returns $u^1$, $\\lambda^1$ and $u^2$ for "
            "$g(u) = \\lvert u\\rvert$ and $\\bar x = 0$",
            lambda: _kink,
            lambda s: [
                (
                    lambda lam, rho: (-s(lam, rho)[0], *s(lam, rho)[1:]),
                    "A positive price pushes $u$ down.",
                ),
                (
                    lambda lam, rho: (-lam / rho, 0.0, 0.0),
                    "The kink itself pulls with a slope of up to 1.",
                ),
                (
                    lambda lam, rho: (s(lam, rho)[0], lam, 0.0),
                    "The multiplier moves by $\\rho u^1$.",
                ),
            ],
            "The u-step shrinks $-\\lambda^0/\\rho$ by $1/\\rho$ towards zero.",
            judge=calls((5.0, 2.0), (-3.0, 10.0), (0.4, 1.0)),
        ),
    ],
    "scalability": [
        Check(
            "ex-cost-budget",
            "The paper's largest run, on paper",
            "the pair of multiply-adds (one pass of one sample, the NN block in all)",
            lambda: (9 * 512 + 63 * 512**2 + 512, 250_000 * (9 * 512 + 63 * 512**2 + 512)),
            lambda s: [
                ((s[0], s[1] / 2), "A gradient takes a pass forward and one back."),
                ((s[0], s[1] / 100), "Every sample passes the network."),
                (
                    (s[0] + 512**2, 250_000 * (s[0] + 512**2)),
                    "64 layers of units have 63 square matrices between them.",
                ),
            ],
            "Count the entries of the matrices; then iterations, steps, passes, samples.",
            judge=lambda answer, right: agrees(answer, right, rel=2e-3),
        ),
        Check(
            "ex-cost-single",
            "Single precision",
            "three ratios double over single: measured, expected if arithmetic limits, expected if"
            " memory traffic does",
            lambda: (2.0, 2, 2),
            lambda s: [
                (
                    (0.5, 0.5, 0.5),
                    "Divide the seconds of double precision by those of single.",
                    lambda a: agrees(a, (a[0], 0.5, 0.5)),
                ),
                (
                    (2.0, 2, 1),
                    "Each number has half the bytes: what does that do to the traffic?",
                    lambda a: not agrees(a[2], 2),
                ),
                (
                    (2.0, 4, 2),
                    "A vector unit of fixed width holds how many more single numbers?",
                    lambda a: not agrees(a[1], 2),
                ),
            ],
            judge=None,
        ),
        Check(
            "ex-cost-jacobian",
            "When a Jacobian is worth it",
            "in units of $W$ for $p = 9$, $q = 16$: gradient, Jacobian by rows, by columns; and the"
            " least $q$ for columns",
            lambda: (2, 17, 10, 10),
            lambda s: [
                ((17, *s[1:]), "For $d^\\top f$ multiply $d$ in first: one pass back is enough."),
                ((2, 16, 9, 10), "Before any pass back the network must be evaluated once."),
                ((*s[:3], 9), "With $q = p$ the two cost the same."),
            ],
            "One pass forward costs $W$, and so does each pass back, or each column.",
        ),
        Check(
            "ex-cost-model",
            "A cost model that predicts",
            "a function `fit(table, times)` that returns the two prices, by the least sum of"
            " squared *relative* errors",
            lambda: _fit,
            lambda s: [
                (
                    lambda table, times: _fit(table, times, False),
                    "The largest network decides alone: weight the rows.",
                ),
                (
                    lambda table, times: _fit(np.log(table), np.log(times), False),
                    "$T$ is a sum of two parts, so a fit of logarithms is another model.",
                ),
                (
                    lambda table, times: s(table, times)[::-1],
                    "The price of a layer comes first, as in the table.",
                ),
            ],
            "Divide each row, and its time, by the time.",
            judge=calls((_TABLE, _TIMES), (_TABLE[:4], _TIMES[:4])),
        ),
    ],
}

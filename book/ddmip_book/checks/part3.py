"""Self-checks of Part III: theory."""

from typing import Any

import numpy as np
from scipy.optimize import brentq

from ..examples.smooth import Smooth, random_bends, ridge
from .core import Check, agrees, calls


def _cycle_sizes() -> list[float]:
    """The roots of sin(u) / u = rho / 2."""
    return [brentq(lambda u, rho=rho: np.sin(u) - rho / 2 * u, 0.1, 3.0) for rho in (1.2, 1.5, 1.9)]


def _convex_net() -> Smooth:
    points = [[i, j] for i in range(4) for j in range(4)]
    rng = np.random.default_rng(3)
    return ridge(points, rng.normal(size=(5, 2)), rng.normal(size=5), rng.uniform(0.2, 1, 5), [-0.3, 0.2], "softplus")


def _certificate(problem: Smooth, x: Any, with_cost: bool = True) -> float:
    slope = problem.slope(x) if with_cost else problem.gradient(x)
    return float(((x - problem.points) @ slope).max())


def _projected_step(problem: Smooth, x: Any, rho: float, half: float = 0.5, with_cost: bool = True) -> np.ndarray:
    slope = problem.slope(x) if with_cost else problem.gradient(x)
    values = problem.points @ slope + half * rho * ((problem.points - x) ** 2).sum(axis=1)
    return problem.points[values.argmin()]


def _fit(table: Any, times: Any, relative: bool = True) -> np.ndarray:
    table, times = np.asarray(table, dtype=float), np.asarray(times, dtype=float)
    if relative:
        table, times = table / times[:, None], np.ones(len(times))
    return np.linalg.lstsq(table, times)[0]


_START = np.array([1.0, 3.0])
_BENDS = [(random_bends(number, 0.3), np.array([float(number)]), 1.05) for number in range(6)]
_TABLE = np.array([[2.0, 5e3], [4.0, 8e4], [2.0, 7e5], [6.0, 4e6], [8.0, 9e7]])
_TIMES = _TABLE @ [1e-4, 2e-9] * [1.1, 0.9, 1.05, 0.8, 1.3]

CHECKS = {
    "convergence": [
        Check(
            "ex-conv-corrected", "The corrected inequality by hand",
            "the five numbers $u^1$, $u^2$, $L_\\rho^1$, $L_\\rho^2$, $\\alpha$",
            lambda: (1 / 3, 1 / 9, 5 / 9, 41 / 81, 4),
            lambda s: [
                ((*s[:4], 0.5), "That is what the corollary guarantees; on this problem more is true."),
                ((*s[:2], 1 / 18, 1 / 162, 4),
                 "The value at the limit is not zero: what does $g$ cost at the only decision?"),
                ((*s[:4], 4 / 81), "That is the fall itself: divide it by the square of the residual."),
            ],
            "The copy shrinks by the same factor in every iteration; find it from the u-step.",
        ),
        Check(
            "ex-conv-cosine", "The size of the cosine's cycle", "the three sizes $u$ for $\\rho = 1.2, 1.5, 1.9$",
            _cycle_sizes,
            lambda s: [
                ([2 * u for u in s],
                 "That is the distance between the two points of the cycle; its size is the residual."),
                ([float(np.arcsin(rho / 2)) for rho in (1.2, 1.5, 1.9)],
                 "The penalty term is $\\rho u$: where is the $u$?"),
                ([0.0, 0.0, 0.0], "Zero always solves the equation before you divide by $u$; look for the other root."),
            ],
            "Put $u^{k+1} = -u^k$ into the u-step, with $\\lambda^k = -g'(u^k)$; the root lies in $(0, \\pi)$.",
        ),
        Check(
            "ex-conv-certificate", "One MILP as a certificate",
            "a function of (problem, limit $\\bar x$) that returns the gap $\\max_X \\nabla F(\\bar x)^\\top(\\bar "
            "x - x)$",
            lambda: _certificate,
            lambda s: [
                (lambda p, x: _certificate(p, x, False), "$F$ has a linear part too: use `slope`, not `gradient`."),
                (lambda p, x: float(((x - p.points) @ p.slope(x)).min()),
                 "The certificate is the largest value, not the least."),
                (lambda p, x: p.total(x) - p.optimum(),
                 "That is the true loss, which needs the optimum; the certificate "
                 "must not."),
            ],
            "`problem.points` lists $X$, one decision a row.",
            judge=calls((_convex_net(), _START), (_convex_net(), np.array([2.0, 0.0])), (_convex_net(), np.zeros(2))),
        ),
        Check(
            "ex-conv-project", "Is Algorithm 1 worth more than projected gradient?",
            "a function of (problem, $x$, $\\rho$) that does one step of projected gradient on the integers",
            lambda: _projected_step,
            lambda s: [
                (lambda p, x, rho: _projected_step(p, x, rho, with_cost=False),
                 "The step follows $\\nabla F$, cost included."),
                (lambda p, x, rho: _projected_step(p, x, rho, half=1.0), "Compare the penalty with $\\tfrac\\rho2$."),
                (lambda p, x, rho: min(p.points, key=p.total),
                 "That jumps to the optimum: use the slope at $x$ alone."),
            ],
            "All decisions are in `problem.points`: compute the value of each and take the smallest.",
            judge=calls(*_BENDS, read=lambda x: np.ravel(x)),
        ),
    ],
    "scalability": [
        Check(
            "ex-cost-budget", "The paper's largest run, on paper",
            "the pair of multiply-adds (one pass of one sample, the NN block in all)",
            lambda: (9 * 512 + 63 * 512**2 + 512, 250_000 * (9 * 512 + 63 * 512**2 + 512)),
            lambda s: [
                ((s[0], s[1] / 2), "A gradient takes a pass forward and one back."),
                ((s[0], s[1] / 100), "Every sample passes the network."),
                ((s[0] + 512**2, 250_000 * (s[0] + 512**2)),
                 "64 layers of units have 63 square matrices between them."),
            ],
            "Count the entries of the matrices; then iterations, steps, passes, samples.",
            judge=lambda answer, right: agrees(answer, right, rel=2e-3),
        ),
        Check(
            "ex-cost-single", "Single precision",
            "three ratios double over single: measured, expected if arithmetic limits, expected if memory traffic does",
            lambda: (2.0, 2, 2),
            lambda s: [
                ((0.5, 0.5, 0.5), "Divide the seconds of double precision by those of single.",
                 lambda a: agrees(a, (a[0], 0.5, 0.5))),
                ((2.0, 2, 1), "Each number has half the bytes: what does that do to the traffic?",
                 lambda a: not agrees(a[2], 2)),
                ((2.0, 4, 2), "A vector unit of fixed width holds how many more single numbers?",
                 lambda a: not agrees(a[1], 2) or not 0.3 < a[0] < 10),
            ],
            judge=None,
        ),
        Check(
            "ex-cost-jacobian", "When a Jacobian is worth it",
            "in units of $W$ for $p = 9$, $q = 16$: gradient, Jacobian by rows, by columns; and the least $q$ for "
            "columns",
            lambda: (2, 17, 10, 10),
            lambda s: [
                ((17, *s[1:]), "For $d^\\top f$ multiply $d$ in first: one pass back is enough."),
                ((2, 16, 9, 10), "Before any pass back the network must be evaluated once."),
                ((*s[:3], 9), "With $q = p$ the two cost the same."),
            ],
            "One pass forward costs $W$, and so does each pass back, or each column.",
        ),
        Check(
            "ex-cost-model", "A cost model that predicts",
            "a function `fit(table, times)` that returns the two prices, by the least sum of squared *relative* errors",
            lambda: _fit,
            lambda s: [
                (lambda table, times: _fit(table, times, False), "The largest network decides alone: weight the rows."),
                (lambda table, times: _fit(np.log(table), np.log(times), False),
                 "$T$ is a sum of two parts, so a fit of "
                 "logarithms is another model."),
                (lambda table, times: s(table, times)[::-1], "The price of a layer comes first, as in the table."),
            ],
            "Divide each row, and its time, by the time.",
            judge=calls((_TABLE, _TIMES), (_TABLE[:4], _TIMES[:4])),
        ),
    ],
}  # fmt: skip

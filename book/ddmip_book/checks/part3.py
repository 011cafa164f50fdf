"""Self-checks of Part III: theory."""

from typing import Any

import numpy as np

from .core import Check, agrees, calls


def _balance(h: Any, rho: float) -> float:
    """The least of (rho - h)(rho + 2h) / (2 rho)."""
    return min((rho - t) * (rho + 2 * t) / (2 * rho) for t in h)


def _careless(gap: float, extra: float, delta: float, ell: float, rho: float, eps: float) -> float:
    return ell**2 * (gap + extra) / (rho**2 * delta * eps**2)


def _kink(lam: float, rho: float) -> tuple[float, float, float]:
    first = -float(np.sign(lam)) * max(abs(lam) - 1.0, 0.0) / rho
    return first, lam + rho * first, 0.0


def _fit(table: Any, times: Any, relative: bool = True) -> np.ndarray:
    table = np.asarray(table, dtype=float)
    times = np.asarray(times, dtype=float)
    if relative:
        table = table / times[:, None]
        times = np.ones(len(times))
    return np.linalg.lstsq(table, times)[0]


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
                    "That is the constant of the corollary; on this problem a larger one is valid.",
                ),
                (
                    (*s[:2], 1 / 18, 1 / 162, 4),
                    "The value at the limit is not zero: evaluate $g$ at the only point of $X$.",
                ),
                (
                    (*s[:4], 4 / 81),
                    "That is the decrease itself: divide it by the square of the residual.",
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
                    "That is the decrease in the u-step; the multiplier step increases $L_\\rho$.",
                ),
                (
                    lambda h, rho: (rho + min(h)) / 2 - max(t * t for t in h) / rho,
                    "Both changes belong to the same eigenvector: subtract before the minimum.",
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
            "Convergence with inexact x-steps",
            "a function of ($L_\\rho^1 - F_{\\min}$, $\\bar\\varepsilon$, $\\delta$, $\\ell$,"
            " $\\rho$, $\\varepsilon$) that returns the largest number your proof allows, not"
            " rounded",
            lambda: _careless,
            lambda s: [
                (
                    lambda gap, extra, *rest: s(gap, 0.0, *rest),
                    "The errors allow $L_\\rho$ to increase by $\\bar\\varepsilon$ in all.",
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
            "Add the sum of the later errors to $L_\\rho^k$, and show that this sum decreases.",
            judge=calls((3.0, 1.0, 0.4, 1.0, 1.5, 0.1), (2.0, 0.0, 0.1, 0.5, 2.0, 0.01)),
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
            "Fixed points and their multipliers",
            "the three numbers: the least $\\rho$ with a fixed point, and the least and the largest"
            " $\\lambda$ of the fixed points at $\\rho = 4$",
            lambda: (2.0, -1.0, 0.0),
            lambda s: [
                ((1.0, -3.0, 0.0), "The penalty term at $x = 0$ is $\\tfrac\\rho2$."),
                (
                    (2.0, 0.0, 1.0),
                    "At the right end of $C$ the derivative of the u-step must not be positive.",
                ),
                ((0.5, -1.0, 0.0), "Solve $c - \\tfrac\\rho2 \\le 0$ for $\\rho$."),
            ],
            "Write both steps at $u = x = 1$ as conditions on $\\lambda$.",
        ),
        Check(
            "ex-cons-kink",
            "Convergence at convex breakpoints",
            "a function of ($\\lambda^0$, $\\rho$) that returns $u^1$, $\\lambda^1$ and $u^2$ for "
            "$g(u) = \\lvert u\\rvert$ and $\\bar x = 0$",
            lambda: _kink,
            lambda s: [
                (
                    lambda lam, rho: (-s(lam, rho)[0], *s(lam, rho)[1:]),
                    "A positive multiplier decreases $u$.",
                ),
                (
                    lambda lam, rho: (-lam / rho, 0.0, 0.0),
                    "The subgradients of $g$ at the breakpoint lie in $[-1, 1]$.",
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
    "extensions": [
        Check(
            "ex-ext-radius",
            "The best radius for local smoothness",
            "the pair (best radius $R$, least threshold for $\\rho$)",
            lambda: (1.0, 108.0),
            lambda s: [
                (
                    (1.0, 38.18),
                    "That is the second condition alone: the threshold is the larger of the two.",
                    lambda a: agrees(a[1], 38.18, rel=2e-2),
                ),
                (
                    (2.0, 128.0),
                    "Set the derivative of $4(2 + R)^3/R$ to zero: $3R = 2 + R$.",
                ),
                ((1.0, 27.0), "That is $G$: multiply it by $4/R$."),
            ],
            "On $X_R$ the largest derivatives are those at $2 + R$.",
        ),
        Check(
            "ex-ext-order",
            "Two orders of the blocks by hand",
            "the six numbers $x^1$, $x^2$, $x^3$, $x^4$, $L_\\rho^1$, $L_\\rho^5$",
            lambda: (3, 6, 9, 10, 4.5, -29.5),
            lambda s: [
                (
                    (*s[:4], -4.5, s[5]),
                    "That is the value before the multiplier step, which adds $\\rho r^2$.",
                ),
                (
                    (3, 6, 9, 12, *s[4:]),
                    "The largest point of $X$ is 10.",
                ),
                (
                    (*s[:5], -30.0),
                    "In iteration 5 the residual is 1: evaluate $L_\\rho$ with it.",
                ),
            ],
            "Each x-step is the point of $X$ nearest to $x^{k-1} - c/\\rho$.",
        ),
        Check(
            "ex-ext-joint",
            "Penalties for joint minimisation",
            "the pair (threshold by the theorem, exact threshold)",
            lambda: (17.5, 17.135),
            lambda s: [
                (
                    (2.5, s[1]),
                    "That is the second condition; the third one is stronger.",
                ),
                (
                    (12.5, s[1]),
                    "The third condition also has the term with the Lipschitz constant and $d_0$.",
                ),
                (
                    (17.5, 17.5),
                    "At $x = 1$ the best copy is $u = 1 + 1/\\rho$, not $u = 1$.",
                ),
            ],
            "Minimise over $u$ for $x = 0$ and for $x = 1$, and compare the two values.",
            judge=lambda answer, right: agrees(answer, right, rel=1e-3),
        ),
    ],
    "scalability": [
        Check(
            "ex-cost-budget",
            "Cost of the paper's largest run",
            "the pair of multiply-adds (one pass of one sample, the NN block in all)",
            lambda: (9 * 512 + 63 * 512**2 + 512, 250_000 * (9 * 512 + 63 * 512**2 + 512)),
            lambda s: [
                ((s[0], s[1] / 2), "A gradient takes a forward and a reverse pass."),
                ((s[0], s[1] / 100), "The network is evaluated for every sample."),
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
            "Cost of Jacobians in forward and reverse mode",
            "in units of $W$ for $p = 9$, $q = 16$: gradient, Jacobian by rows, by columns; and the"
            " least $q$ for columns",
            lambda: (2, 17, 10, 10),
            lambda s: [
                (
                    (17, *s[1:]),
                    "For $d^\\top f$ start the reverse pass from $d$: one is sufficient.",
                ),
                ((2, 16, 9, 10), "Before any reverse pass the network must be evaluated once."),
                ((*s[:3], 9), "With $q = p$ the two cost the same."),
            ],
            "A forward pass costs $W$, and so does each reverse pass, or each column.",
        ),
        Check(
            "ex-cost-model",
            "A cost model that predicts",
            "a function `fit(table, times)` that returns the two coefficients, by the least sum of"
            " squared *relative* errors",
            lambda: _fit,
            lambda s: [
                (
                    lambda table, times: _fit(table, times, False),
                    "The largest network decides alone: divide each row by its time.",
                ),
                (
                    lambda table, times: _fit(np.log(table), np.log(times), False),
                    "$T$ is a sum of two parts, so a fit of logarithms is another model.",
                ),
                (
                    lambda table, times: s(table, times)[::-1],
                    "The time of a layer comes first, as in the table.",
                ),
            ],
            "Divide each row of the table, and its time, by the time.",
            judge=calls((_TABLE, _TIMES), (_TABLE[:4], _TIMES[:4])),
        ),
    ],
}

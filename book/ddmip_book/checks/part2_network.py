"""Self-checks of Part II, the NN block and the penalty."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from ddmip_lib import DescentTest, Fixed
from ddmip_lib.decomposition import Penalty, ResidualInfo
from ..examples.pgd import contraction_factor
from ..examples.projections import project_capped_sum, project_halfspace
from .core import Check, FormError, agrees, calls, to_the_digit


def _diamond(v: Any, size: float) -> np.ndarray:
    return np.sign(v) * project_capped_sum(np.abs(v), size)


def _counts(
    factor: Callable[[float, float, float], Any] = contraction_factor, shrink: float = 1e4
) -> list[int]:
    etas = (0.01, 1 / 14, 1 / 10)
    return [int(np.ceil(np.log(shrink) / -np.log(factor(eta, 6.0, 14.0)))) for eta in etas]


def _scaled(v: Any, a: Any, b: float, d: Any, power: int = -1) -> np.ndarray:
    """Projection on a'w <= b in the norm of the diagonal d."""
    v = np.asarray(v)
    a = np.asarray(a)
    move = a * np.asarray(d, dtype=float) ** power
    return v - max(0.0, float(a @ v) - b) / float(a @ move) * move


class _Steps:
    """An NN block of plain or of Barzilai-Borwein steps."""

    def __init__(self, adaptive: bool = True, project: bool = True, returns: bool = True) -> None:
        self.adaptive = adaptive
        self.project = project
        self.returns = returns

    def minimise(self, sub: Any, u: np.ndarray) -> np.ndarray | None:
        eta = 1 / sub.rho.inputs
        slope = sub.gradient(u)
        for _ in range(20):
            new = u - eta * slope
            new = sub.project(new) if self.project else new
            du = new - u
            ds = sub.gradient(new) - slope
            if self.adaptive and du @ ds > 0:
                eta = (du @ du) / (du @ ds)
            u = new
            slope = slope + ds
        return u if self.returns else None


def _one_block(block: Any) -> np.ndarray:
    """What a block returns on a convex parabola over the unit square whose minimiser is (1,
    0.3).
    """
    bends = np.array([1.0, 0.02])
    wish = np.array([2.0, 0.3])
    sub = SimpleNamespace(
        rho=Penalty.both(1.0),
        gradient=lambda u: bends * (u - wish),
        values_and_gradient=lambda u: (bends / 2 * (u - wish) ** 2, bends * (u - wish)),
        project=lambda u: np.clip(u, 0.0, 1.0),
    )
    u = block.minimise(sub, np.zeros(2))
    if not isinstance(u, np.ndarray):
        raise FormError("`minimise` must return the new u, an array like the one it was given")
    return u


def _next_rho(rule: Any, settled: bool, descends: bool) -> float | None:
    """What follows rho = 4 (None: the rule ends the run)."""
    rule.first(Penalty.both(1.0))
    rho = rule.after(
        ResidualInfo(Penalty.both(4.0), (0.1, 0.0), (0.1, 0.0), settled, lambda sigma: descends)
    )
    return None if rho is None else float(rho.inputs)


class _Decrease(DescentTest):
    def after(self, progress: ResidualInfo) -> Penalty | None:
        return progress.rho.times(1 / 8) if progress.settled else self.update(progress)


CHECKS = {
    "projected_gradient": [
        Check(
            "ex-pgd-ball",
            "Projection on the l1 ball",
            "a function of a vector and a size that returns the projection on the l1 ball",
            lambda: _diamond,
            lambda s: [
                (
                    lambda v, size: np.clip(v, -size, size),
                    "That is the projection on a box, not on the l1 ball.",
                ),
                (
                    lambda v, size: np.asarray(v) * min(1.0, size / np.abs(v).sum()),
                    "Scaling gives a point of the l1 ball, but not the nearest one.",
                ),
                (
                    lambda v, size: project_capped_sum(np.abs(v), size),
                    "Negative entries must stay negative.",
                ),
            ],
            "Points of the l1 ball are their own projection; outside, subtract the same from each"
            " $|v_i|$.",
            judge=calls(
                (np.array([2.0, -1.0, 0.2]), 1.5),
                (np.array([-0.5, 0.3]), 2.0),
                (np.array([-3.0, 1.0]), 1.0),
            ),
        ),
        Check(
            "ex-pgd-count",
            "How many steps?",
            "the three step counts at $\\rho = 10$, integers",
            _counts,
            lambda s: [
                (
                    [count - 1 for count in s],
                    "Round up: with one step fewer the factor is not attained.",
                ),
                (
                    _counts(lambda eta, least, most: contraction_factor(eta, 10.0, most)),
                    (
                        "The network may have negative curvature: the smallest curvature is less"
                        " than $\\rho$."
                    ),
                ),
                (
                    _counts(shrink=np.exp(4)),
                    "A factor $10^4$: use the natural logarithm on both sides.",
                ),
            ],
            "Curvature lies between $\\rho - m$ and $\\rho + \\ell$; solve $q^k \\le 10^{-4}$.",
            judge=to_the_digit,
        ),
        Check(
            "ex-pgd-repair",
            "Adam with a projection in its own norm",
            "a function of $(v, a, b, d)$, $d$ the diagonal of $\\Omega$, that returns the"
            " projection in the norm of $\\Omega$",
            lambda: _scaled,
            lambda s: [
                (
                    lambda v, a, b, d: project_halfspace(np.asarray(v), np.asarray(a), b),
                    "That is the Euclidean projection.",
                ),
                (
                    lambda v, a, b, d: _scaled(v, a, b, d, 1),
                    "Coordinates with a large weight move less: invert $\\Omega$.",
                ),
                (
                    lambda v, a, b, d: (
                        s(v, a, b, d)
                        if np.dot(a, v) > b
                        else v - (np.dot(a, v) - b) / np.dot(a, a / d) * (a / d)
                    ),
                    "A point of the halfspace is its own projection.",
                ),
            ],
            "Substitute $w = D^{-1/2} w'$ and use the Euclidean formula.",
            judge=calls(
                (np.array([2.0, 2.0]), np.array([1.0, 2.0]), 1.0, np.array([4.0, 1.0])),
                (np.array([0.0, -1.0]), np.array([1.0, 2.0]), 1.0, np.array([4.0, 1.0])),
            ),
        ),
        Check(
            "ex-pgd-own",
            "Your own NN block",
            "an instance of your block, an object with a method `minimise(sub, u)`",
            _Steps,
            lambda s: [
                (
                    _Steps(returns=False),
                    "`minimise` must return the new u: a method without `return` gives None.",
                    lambda a: (
                        a.minimise(
                            SimpleNamespace(
                                rho=Penalty.both(1.0),
                                gradient=lambda u: u,
                                project=lambda u: u,
                                values_and_gradient=lambda u: (u, u),
                            ),
                            np.ones(2),
                        )
                        is None
                    ),
                ),
                (
                    _Steps(project=False),
                    "The block leaves its box: project after every step.",
                    lambda a: bool((np.abs(_one_block(a) - 0.5) > 0.5 + 1e-9).any()),
                ),
                (
                    _Steps(adaptive=False),
                    (
                        "After its steps the block is still far from the minimiser of a parabola:"
                        " does the step length use the last changes of $u$ and of the gradient?"
                    ),
                    lambda a: np.abs(_one_block(a) - [1.0, 0.3]).max() > 0.02,
                ),
            ],
            judge=None,
        ),
    ],
    "log_barrier": [
        Check(
            "ex-barrier-mu",
            "Size of the barrier parameter",
            "the pair (largest $\\mu$, number of cuts from $\\mu = 1$)",
            lambda: (1e-8, 8),
            lambda s: [
                ((1e-4, 4), "The bound is on the *square* of the distance."),
                ((1e-7, 7), "Where does the number of constraints enter the bound?"),
                ((1e-9, 9), "A larger $\\rho$ allows a larger $\\mu$."),
            ],
            "Solve the bound $J\\mu/\\rho \\le \\varepsilon^2$ for $\\mu$.",
            judge=lambda answer, right: (
                agrees(answer, right, rel=0.05) and answer[0] > 0.9 * right[0]
            ),
        ),
        Check(
            "ex-barrier-diagonal",
            "Diagonal preconditioning for a box",
            "the pair of CG steps (without, with the preconditioner)",
            lambda: (30, 1),
            lambda s: [
                ((1, 30), "Without comes first.", lambda a: a[0] == 1 < a[1]),
                (
                    (30, 30),
                    (
                        "With a diagonal Hessian the preconditioned matrix has one eigenvalue: what"
                        " does CG need then?"
                    ),
                    lambda a: a[1] != 1,
                ),
                (
                    (200, 1),
                    (
                        "A matrix of order 40 needs about 40 steps at most: is the tolerance too"
                        " small for rounding errors?"
                    ),
                    lambda a: not 1 < a[0] <= 60,
                ),
            ],
            judge=None,
        ),
        Check(
            "ex-barrier-schedule",
            "Schedules of the barrier parameter",
            "the triple (power of $1/k$ in the residual for $\\theta = \\tfrac12$, for $\\theta ="
            " 2$, and the $\\theta$ that must be exceeded)",
            lambda: (0.75, 2, 1),
            lambda s: [
                (
                    (0.5, 2, 1),
                    "The multiplier grows meanwhile, and the residual is $\\mu_k$ divided by it.",
                ),
                ((0.25, 2, 1), "That is how fast the multiplier grows."),
                ((0.75, 2, 0.5), "The multiplier stays bounded if the sum of all $\\mu_k$ does."),
            ],
            "By the proposition $\\lvert\\lambda^k\\rvert^2$ grows like the sum of the $\\mu_j$.",
            judge=lambda answer, right: agrees(answer, right, rel=0.03),
        ),
        Check(
            "ex-barrier-dual",
            "Save Newton steps",
            "the pair of Newton steps over all seven cuts (plain, with old multipliers)",
            lambda: (31, 23),
            lambda s: [
                (
                    (23, 31),
                    "The old multipliers should save steps: have you swapped the two?",
                    lambda a: a[0] < a[1],
                ),
                (
                    (31, 31),
                    "No step is saved: is `dual` handed to the first step after each cut?",
                    lambda a: a[0] == a[1],
                ),
                (
                    (5, 3),
                    "Each of the seven cuts takes at least one step: add them up.",
                    lambda a: min(a) < 7,
                ),
            ],
            judge=None,
        ),
    ],
    "penalties_stopping": [
        Check(
            "ex-pen-tight",
            "A multiplier bound that is too tight",
            "the limit of the residual, a number",
            lambda: 0.1,
            lambda s: [
                (
                    0,
                    "The clipped multiplier is smaller than the gradient: add the penalty term.",
                ),
                (
                    0.2,
                    (
                        "That is without a multiplier: how much of the gradient does the clipped"
                        " multiplier cancel?"
                    ),
                ),
                (1, "That is the increase of the multiplier before clipping; divide by $\\rho$."),
            ],
            "Set the sum of three derivatives along $u_2$ to zero: network, multiplier, penalty.",
        ),
        Check(
            "ex-pen-factor",
            "How fast may the penalty grow?",
            "the smallest $\\beta$ for which $x$ stays at 0, a number",
            lambda: 2.5,
            lambda s: [
                (1.5, "A geometric sum has $\\beta - 1$ in its denominator."),
                (1.75, "The MIP subproblem compares with $\\tfrac\\rho2$, not with $\\rho$."),
                (
                    4,
                    (
                        "Both decisions have a penalty term: take the difference of"
                        " $\\tfrac{49}{100}$ and $\\tfrac{9}{100}$."
                    ),
                ),
            ],
            "Sum up $\\lambda^k$, then compare with the multiplier at which $x$ leaves 0.",
        ),
        Check(
            "ex-pen-units",
            "Residual balancing depends on units",
            "the triple (primal, dual residual for $\\rho = 1$, $\\ell = 2$; the $\\ell$ below"
            " which the cycle certainly ends)",
            lambda: (0.4, 0.2, 0.1),
            lambda s: [
                (
                    (0.1, 0.2, 0.1),
                    (
                        "That is the distance of $u$ from $\\tfrac12$; the residual is its distance"
                        " from $x$."
                    ),
                ),
                (
                    (0.4, 0.1, 0.1),
                    "From one iteration to the next $u$ moves to the other side of $\\tfrac12$.",
                ),
                ((0.4, 0.2, 10), "Compare $\\sqrt{\\ell/10}$ with $\\ell$ once more."),
            ],
            "Put $u = \\tfrac12 + v$ and look for a cycle with $v^+ = -v$.",
        ),
        Check(
            "ex-pen-own",
            "A penalty rule of your own",
            "an instance of your rule, with methods `first(scale)` and `after(progress)`",
            lambda: _Decrease(0.1),
            lambda s: [
                (
                    DescentTest(0.1),
                    (
                        "The rule ends the run where it should decrease the penalty: return a"
                        " penalty, not None, after convergence."
                    ),
                    lambda a: _next_rho(a, True, True) is None,
                ),
                (
                    type(
                        "Stiff", (Fixed,), {"after": lambda self, progress: progress.rho.times(2.0)}
                    )(1.0),
                    "After convergence the penalty should decrease, so that the iterates change.",
                    lambda a: (_next_rho(a, True, True) or 0.0) >= 4.0,
                ),
                (
                    type(
                        "Loose", (Fixed,), {"after": lambda self, progress: progress.rho.times(0.5)}
                    )(10.0),
                    (
                        "Where the descent test fails, the penalty should grow: use"
                        " `progress.descends`."
                    ),
                    lambda a: (_next_rho(a, False, False) or 0.0) <= 4.0,
                ),
            ],
            judge=None,
        ),
    ],
}

"""Self-checks of Part II: penalties, duality gaps, variable splitting, and fixed points."""

from itertools import product
from typing import Any

import numpy as np

from ddmip_lib import DualDecomposition
from ddmip_lib.problems import hand_sized
from ddmip_lib.problems.hand_sized import HIDDEN_BIASES, HIDDEN_WEIGHTS, OUTPUT_WEIGHTS
from ..examples.hand_steps import hand_tiny
from ..examples.smooth import Smooth, random_bends
from .core import Check, calls


def _blockwise(square: bool, blocks: str = "both") -> list[int]:
    """How many decisions of the running example are blockwise optimal at multiplier zero, for rho =
    2, 8 and 16.
    """
    tiny = hand_tiny()
    side = np.linspace(0, 1, 41)
    grid = np.array(list(product(side, side)))
    network = np.maximum(grid @ np.array(HIDDEN_WEIGHTS).T + HIDDEN_BIASES, 0.0) @ OUTPUT_WEIGHTS
    cost = tiny.points @ tiny.cost

    def stays(x: np.ndarray, points: np.ndarray, values: np.ndarray, rho: float) -> bool:
        """Whether x minimises the values plus the penalty among these points."""
        away = np.linalg.norm(points - x, axis=1)
        penalised = values + (rho / 2 * away**2 if square else rho * away)
        return bool(penalised[away == 0][0] <= penalised.min())

    def both(x: np.ndarray, rho: float) -> bool:
        u_stays = blocks == "x" or stays(x, grid, network, rho)
        return u_stays and (blocks == "u" or stays(x, tiny.points, cost, rho))

    return [sum(both(x, rho) for x in tiny.points) for rho in (2.0, 8.0, 16.0)]


def _best_and_status(
    rhos: tuple[float, ...] = (1.0, 5.0),
) -> dict[float, tuple[float | None, bool]]:
    runs = {
        rho: DualDecomposition(penalty=rho, max_iterations=30).solve(hand_sized()) for rho in rhos
    }
    return {rho: (run.objective, run.status == "converged") for rho, run in runs.items()}


def _interval() -> tuple[float, float, float]:
    """Near both ends of the interval alone: the test of the chapter takes longer."""
    tiny = hand_tiny()

    def end(rho: float) -> float | None:
        path = tiny.run(rho, steps=20)
        still = (path.x[-5:] == path.x[-1]).all() and path.residual[-1] < 1e-9
        return float(path.total[-1]) if still else None

    ends = {rho: end(rho) for rho in (5.5, 5.75, 7.25, 7.5)}
    good = [rho for rho, total in ends.items() if total == tiny.optimum()]
    return (
        min(good),
        max(good),
        min(rho for rho, total in ends.items() if total == tiny.total([0, 0])),
    )


def _projected_step(
    problem: Smooth, x: Any, rho: float, half: float = 0.5, with_cost: bool = True
) -> np.ndarray:
    gradient = problem.slope(x) if with_cost else problem.gradient(x)
    values = problem.points @ gradient + half * rho * ((problem.points - x) ** 2).sum(axis=1)
    return problem.points[values.argmin()]


_BENDS = [(random_bends(number, 0.3), np.array([float(number)]), 1.05) for number in range(6)]

CHECKS = {
    "augmented_lagrangian": [
        Check(
            "ex-alm-half",
            "Penalty without the factor one half",
            "for $\\rho = 3$ and multiplier 0: condition number, violation, step length $s$ in"
            " $\\lambda^+ = \\lambda + s\\,r$, and the factor of the multiplier error",
            lambda: (13, 2 / 13, 6, 1 / 13),
            lambda s: [
                ((7, 2 / 7, 3, 1 / 7), "These belong to the penalty with the factor one half."),
                (
                    (*s[:2], 3, s[3]),
                    "Set the gradient to zero and compare the coefficient of $A^\\top r$.",
                ),
                ((12, *s[1:]), "The objective contributes to the curvature."),
            ],
            "Which $\\rho$ in $\\tfrac\\rho2\\lVert r\\rVert^2$ gives the same penalty?",
        ),
        Check(
            "ex-alm-step",
            "A shorter step",
            "three numbers: the ends of the interval of convergent $\\eta$, and the best $\\eta$",
            lambda: (0, 0.5, 0.25),
            lambda s: [
                ((0, 0.25, 0.25), "The error may change its sign, as long as it decreases."),
                (
                    (0, 0.5, 0.5),
                    "With this step the error is constant: for which step is the factor zero?",
                ),
                ((0, 0.75, 0.75), "That is $\\eta = \\rho$, for which the multipliers diverge."),
            ],
            "Derive the factor first; it must lie strictly between $-1$ and $1$.",
        ),
    ],
    "duality_gap": [
        Check(
            "ex-alm-tie",
            "Penalty near a tie",
            "a function of $(\\ell, c)$ that returns the smallest exact $\\rho$",
            lambda: lambda ell, delta: ell**2 / (2 * delta) - ell,
            lambda s: [
                (
                    lambda ell, delta: ell**2 / (2 * delta),
                    "The curvature of the network adds to the penalty: where does it enter?",
                ),
                (
                    lambda ell, delta: ell**2 / delta - ell,
                    "The minimum of a parabola over $u$ contains a factor one half.",
                ),
                (
                    lambda ell, delta: ell / (2 * delta) - ell,
                    "The gradient at the balancing multiplier enters squared.",
                ),
            ],
            "At the multiplier that balances the gradient at $x = 0$, compare the minimum over $u$"
            " for $x = 1$ with $v^*$.",
            judge=calls((8.0, 1.0), (8.0, 0.1), (2.0, 0.5)),
        ),
        Check(
            "ex-split-dual",
            "Dual decomposition without a penalty",
            "the pair ($D(0)$, the best bound $\\max D$)",
            lambda: (-3, 0.125),
            lambda s: [
                (
                    (-3, 0.5),
                    (
                        "The optimum lies above this bound: with $\\rho = 0$ fractional decisions"
                        " count too."
                    ),
                ),
                ((3, s[1]), "Check the sign of the network's smallest value on the square."),
                (
                    (0.5, s[1]),
                    "At $\\lambda = 0$ the blocks are independent: add the two separate minima.",
                ),
            ],
            "For which multiplier is the first minimum zero?",
        ),
        Check(
            "ex-alm-deaf",
            "The norm in an alternating method",
            "two lists, for the norm and for the quadratic term: the number of blockwise optimal"
            " decisions for $\\rho = 2, 8, 16$",
            lambda: (_blockwise(False), _blockwise(True)),
            lambda s: [
                (
                    s[::-1],
                    "The norm comes first: unlike the quadratic term, it fixes $u$ at $x$.",
                ),
                (
                    (_blockwise(False, "x"), _blockwise(True, "x")),
                    "These satisfy the condition on $x$ alone: $u$ must be a minimiser as well.",
                ),
                (
                    (_blockwise(False, "u"), _blockwise(True, "u")),
                    "These satisfy the condition on $u$ alone: $x$ must be a minimiser as well.",
                ),
            ],
            "Two conditions for each decision: $u = x$ minimises over the box, and $x$ over the"
            " four decisions.",
        ),
    ],
    "split": [
        Check(
            "ex-split-six",
            "Two iterations by hand",
            "the pair (values, thresholds) after the first iteration, two numbers each",
            lambda: ([0, 4], [5.5, 6]),
            lambda s: [
                (
                    s[::-1],
                    (
                        "Values depend on $\\lambda$ and $u$, thresholds on the costs: are they"
                        " interchanged?"
                    ),
                ),
                (([0, 2], s[1]), "The value is $\\lambda_i + \\rho u_i$, with both terms."),
                ((s[0], [1.5, 2]), "The threshold is the cost plus half of the penalty."),
            ],
            "First $u^1$ from the NN subproblem with $x^1 = (0, 0)$, then"
            " $\\lambda^1 = \\rho\\,(u^1 - x^1)$.",
        ),
        Check(
            "ex-split-sweep",
            "Interval of penalties",
            "three penalties of the test: smallest and largest with the optimum as limit, and the"
            " smallest with the initial point as limit",
            _interval,
            lambda s: [
                (
                    (s[0], s[1], 4),
                    (
                        "4 is the threshold of gradient steps; here the NN subproblem is solved"
                        " globally."
                    ),
                ),
                (
                    (1, s[1], s[2]),
                    (
                        "A run that finds the optimum has not converged to it: inspect the last"
                        " iterates."
                    ),
                ),
                (
                    (s[0], s[1], 22 / 3),
                    "That is the threshold itself: name the first tested penalty above it.",
                ),
            ],
            "Converged: the last five $x$ are the same and the residual is zero.",
        ),
        Check(
            "ex-rho",
            "Choice of the penalty",
            "a dict from the penalties 1.0 and 5.0 to the pair (best objective, whether the run"
            " reports convergence)",
            _best_and_status,
            lambda s: [
                (
                    {rho: (best, True) for rho, (best, _) in s.items()},
                    (
                        "`converged` is one of several statuses: inspect `run.status` of the small"
                        " penalties."
                    ),
                ),
                (
                    {rho: (2.0 if rho < 4 else 1.5, done) for rho, (_, done) in s.items()},
                    "That is the last objective: the best one is `run.objective`.",
                ),
                (
                    {rho: (0.5, done) for rho, (_, done) in s.items()},
                    "Above a threshold of this chapter the run never leaves its initial point.",
                ),
            ],
            "Compare the penalty with the threshold at which the gradient steps stall.",
        ),
    ],
    "fixed_points": [
        Check(
            "ex-split-hold",
            "Multipliers for which the optimum is a fixed point",
            "the triple (smallest $\\rho$, interval of $\\lambda_1$ at $\\rho = 3$, interval of"
            " $\\lambda_2$ at $\\rho = 3$)",
            lambda: (1, (0, 1), (0.5, 5)),
            lambda s: [
                (
                    (0.5, (-1.5, 1), (-1, 5)),
                    "The threshold contains $\\tfrac\\rho2$, the value contains $\\rho$.",
                ),
                (
                    (1, (1, 1), (5, 5)),
                    "$(1, 1)$ is a vertex of the box: stationarity there is an inequality.",
                ),
                (
                    (1, (0, -1), (0.5, -5)),
                    "The multiplier balances *minus* the gradient of the network.",
                ),
            ],
            "One inequality for each subproblem and each coordinate; the MIP subproblem gives the"
            " lower ends.",
        ),
        Check(
            "ex-conv-project",
            "Comparison with projected gradient on integers",
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
                    "That is the global minimiser: use the gradient at $x$ alone.",
                ),
            ],
            "All decisions are in `problem.points`: compute the value of each and take the"
            " smallest.",
            judge=calls(*_BENDS, read=lambda x: np.ravel(x)),
        ),
    ],
}

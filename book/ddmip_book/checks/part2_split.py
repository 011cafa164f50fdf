"""Self-checks of Part II, the split and the MIP block."""

import numpy as np

from ..examples.hand_steps import hand_tiny
from ..examples.tiny import Tiny, quadratic
from .core import Check


def _window() -> tuple[float, float, float]:
    """Near both ends of the window alone: the scan of the chapter takes longer."""
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


def _lazy(toy: Tiny, reach: float = 1.0, rho: float = 1.2) -> float:
    """The last cost of Algorithm 1 whose x-step sees points within `reach` of x."""
    x = np.zeros(2)
    copy = np.zeros(2)
    price = -toy.gradient(copy)
    for _ in range(40):
        near = toy.points[np.abs(toy.points - x).sum(axis=1) <= reach]
        x = min(near, key=lambda point: toy.lagrangian(point, copy, price, rho))
        copy = toy.u_step(x - price / rho, rho)
        price = price + rho * (copy - x)
    return toy.total(x)


def _lazy_ends() -> tuple[float, ...]:
    grid = np.array([[i, j] for i in range(7) for j in range(7)])
    toys = [
        quadratic(points, curvature=1.0, centre=[4.3, 2.6], cost=[0.5, -0.4])
        for points in (grid, grid[grid[:, 0] == grid[:, 1]])
    ]
    return tuple(_lazy(toy, reach) for toy in toys for reach in (1.0, np.inf))


CHECKS = {
    "split": [
        Check(
            "ex-split-six",
            "One penalty more",
            "the pair (bids, asks) after the first iteration, two numbers each",
            lambda: ([0, 4], [5.5, 6]),
            lambda s: [
                (
                    s[::-1],
                    (
                        "Bids come from the network's side, asks from the costs: have you swapped"
                        " them?"
                    ),
                ),
                (([0, 2], s[1]), "A bid holds price and position: $\\lambda_i + \\rho u_i$."),
                ((s[0], [1.5, 2]), "An ask holds the cost and half of the penalty."),
            ],
            "First $u^1$ from the NN block with $x^1 = (0, 0)$, then $\\lambda^1 = \\rho\\,(u^1 -"
            " x^1)$.",
        ),
        Check(
            "ex-split-sweep",
            "The window",
            "the three penalties of the scan: smallest and largest with the optimum as limit, and"
            " the smallest with the start",
            _window,
            lambda s: [
                (
                    (s[0], s[1], 4),
                    "4 is the threshold of gradient steps; here the NN block is solved globally.",
                ),
                (
                    (1, s[1], s[2]),
                    (
                        "A run that visits the optimum has not converged to it: look at the last"
                        " iterates."
                    ),
                ),
                (
                    (s[0], s[1], 22 / 3),
                    "That is the threshold itself: name the first penalty of the scan beyond it.",
                ),
            ],
            "Converged: the last five $x$ are the same and the residual is zero.",
        ),
        Check(
            "ex-split-hold",
            "Prices that hold the optimum",
            "the triple (smallest $\\rho$, interval of $\\lambda_1$ at $\\rho = 3$, interval of"
            " $\\lambda_2$ at $\\rho = 3$)",
            lambda: (1, (0, 1), (0.5, 5)),
            lambda s: [
                (
                    (0.5, (-1.5, 1), (-1, 5)),
                    "Being half-way is already paid: compare $\\rho$ with $\\tfrac\\rho2$.",
                ),
                (
                    (1, (1, 1), (5, 5)),
                    "$(1, 1)$ is a corner of the box: a slope may point outwards, so no equality.",
                ),
                ((1, (0, -1), (0.5, -5)), "The price balances *minus* the slope of the network."),
            ],
            "One inequality for each block and each coordinate; the MIP block gives the lower"
            " ends.",
        ),
        Check(
            "ex-split-dual",
            "Dual decomposition in the classical sense",
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
                    "At $\\lambda = 0$ the two blocks do not talk: add their two separate minima.",
                ),
            ],
            "At which price does the first minimum vanish?",
        ),
    ],
    "mip_block": [
        Check(
            "ex-mip-price",
            "At which price does it buy?",
            "the pair of prices $\\lambda_1$ above which the first machine is bought, for $\\rho ="
            " 2$ and for $\\rho = 20$",
            lambda: (1.5, 1.5),
            lambda s: [
                ((2.5, 11.5), "$u_1$ is not zero: how far is each of the two decisions from it?"),
                ((0.5, -8.5), "$u_1$ is not one: how far is each of the two decisions from it?"),
                ((2, 2), "That is the cost of the second machine."),
            ],
            "Compare the values of $x_1 = 0$ and $x_1 = 1$ term by term.",
        ),
        Check(
            "ex-mip-reach",
            "Decisions in the middle",
            "the pair (list of the three borders for $\\rho = 1$, limit of the length of a middle"
            " interval as $\\rho \\to 0$)",
            lambda: ([0.5, 1.5, 2.5], 0),
            lambda s: [
                (
                    ([1, 2, 3], 0),
                    "Those are the sites; a border lies half-way between two of them.",
                ),
                (([0.25, 0.75, 1.25], 0), "One half too many: the sites are at $\\rho x$."),
                ((s[0], 1), "That is the length for $\\rho = 1$; let $\\rho$ shrink."),
            ],
            "Two neighbours cost the same where $\\lambda$ equals the slope of the chord of"
            " $\\tfrac\\rho2 x^2$.",
        ),
        Check(
            "ex-mip-lattice",
            "Another step size",
            "for $\\Delta = \\tfrac14$ the pair (largest excess of the chords over $x^2$, number of"
            " chords)",
            lambda: (1 / 64, 8),
            lambda s: [
                (
                    (1 / 16, 8),
                    "Measure at the middle between two grid points: half a step, squared.",
                ),
                ((1 / 4, 8), "That is the excess for whole numbers: rescale it."),
                ((s[0], 9), "Nine is the number of points; a chord joins two of them."),
            ],
            "Write $x = \\Delta m$ with an integer $m$.",
        ),
        Check(
            "ex-mip-lazy",
            "An x-step without a MIP solver",
            "four last costs $F$: all points lazily and exactly, then $x_1 = x_2$ lazily and"
            " exactly",
            _lazy_ends,
            lambda s: [
                (
                    (*s[:2], s[3], s[3]),
                    "Which points at distance one has a point of the diagonal, inside the set?",
                ),
                (
                    (s[2], s[1], *s[2:]),
                    "The lazy step does move on the full grid: are all four neighbours candidates?",
                ),
                ((*s[:3], s[0]), "The best point of the grid is not on the diagonal."),
            ],
            "Forty steps are enough; start at $u = 0$ with $\\lambda = -\\nabla g(0)$.",
        ),
    ],
}

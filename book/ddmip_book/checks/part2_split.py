"""Self-checks of Part II, the split and the MIP block."""

import numpy as np

from ..examples.tiny import Tiny, quadratic
from .core import Check


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
    "mip_block": [
        Check(
            "ex-mip-price",
            "Threshold of the multiplier",
            "the pair of multipliers $\\lambda_1$ above which the first machine is selected, for"
            " $\\rho = 2$ and for $\\rho = 20$",
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
            "Decisions that are not vertices",
            "the pair (list of the three boundaries for $\\rho = 1$, limit of the length of a"
            " middle interval as $\\rho \\to 0$)",
            lambda: ([0.5, 1.5, 2.5], 0),
            lambda s: [
                (
                    ([1, 2, 3], 0),
                    "Those are the sites; a boundary is the midpoint of two of them.",
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
                ((1 / 4, 8), "That is the excess for integers: rescale it."),
                ((s[0], 9), "Nine is the number of points; a chord joins two of them."),
            ],
            "Write $x = \\Delta m$ with an integer $m$.",
        ),
        Check(
            "ex-mip-lazy",
            "An x-step without a MIP solver",
            "four last costs $F$: all points by neighbours and exactly, then $x_1 = x_2$ by"
            " neighbours and exactly",
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
    "graph_split": [
        Check(
            "ex-graph-tangents",
            "Bound of the perspective by tangents",
            "the number of tangents, an integer",
            lambda: 17,
            lambda s: [
                (16, "That is the number of intervals; both ends have a tangent."),
                (33, "The nearest tangent point is at a distance of at most $\\Delta/2$."),
                (9, "That is the number of the library; what is its error bound?"),
            ],
            "Solve $\\Delta^2/4 \\le 10^{-3}$ for the distance $\\Delta$ of the tangent points.",
        ),
        Check(
            "ex-graph-stall",
            "Convergence of the graph split to a non-optimal point",
            "the pair $(\\lambda_x^1, \\lambda_y^1)$ for $\\rho \\ge 1$",
            lambda: (5 / 26, -25 / 26),
            lambda s: [
                ((0.2, -0.96), "Both squares of the NN subproblem depend on $u$."),
                ((-5 / 26, 25 / 26), "The residuals are $u - x$ and $f(u) - y$."),
                ((0, -1), "The NN subproblem minimises both squares, so $u^1$ is positive."),
            ],
            "First compute $y^1$, then the minimiser $u^1$ of a quadratic function.",
        ),
    ],
}

"""Self-checks of Part IV: linearisation and local exact models."""

import math

from .core import Check, calls


def _threshold(level: float) -> float:
    return 1 / (6 * (1 - level**2))


def _below(at: float) -> float:
    """Lower bound of x^4 - x on [0, 1] by a tangent."""
    value = at**4 - at
    slope = 4 * at**3 - 1
    return value + min(-slope * at, slope * (1 - at))


CHECKS = {
    "linearise": [
        Check(
            "ex-lin-hand",
            "One step by hand",
            "the tuple of four numbers (solution of the MIP, predicted decrease, actual decrease,"
            " next radius)",
            lambda: (0.75, 0.5, 0.4375, 0.5),
            lambda s: [
                (
                    (*s[:2], 0.5, 0.5),
                    "That is the value of the linearisation: evaluate the network there.",
                ),
                ((*s[:3], 0.25), "The ratio is large enough for a larger region."),
                (
                    (0.75, 0.4375, 0.5, 0.5),
                    "The prediction comes from the linearisation, the decrease from the network.",
                ),
            ],
            "The linearisation is minimal at an end of the region; compare it and the network there"
            " with the start.",
        ),
        Check(
            "ex-lin-kink",
            "Derivative at a nondifferentiable point",
            "the triple (end of a descent from 0, end of one from 0.1, number of local minimisers"
            " among the two starts)",
            lambda: (0, 1, 0),
            lambda s: [
                ((0, 1, 1), "Is there no lower point near 0, and none near 0.1?"),
                (
                    (1, 1, 0),
                    "At 0 both units have the derivative 0: which function does the MIP minimise?",
                ),
                ((0, 0, 0), "At 0.1 one unit is active, and the function decreases away from 0."),
            ],
            "Write down the derivative that PyTorch returns, and the minimiser of the linearisation"
            " in the region.",
        ),
        Check(
            "ex-lin-price",
            "Threshold of the penalty parameter",
            "a function of $b$ that returns $\\nu_0$",
            lambda: _threshold,
            lambda s: [
                (
                    lambda b: 6 * (1 - b**2),
                    (
                        "That is the derivative of the network: which change of $x$ produces a unit"
                        " of output?"
                    ),
                ),
                (
                    lambda b: 1 / 6,
                    "Take the derivative where the constraint becomes feasible, not at 0.",
                ),
                (lambda b: 1 / (1 - b**2), "Mind the factor inside the network."),
            ],
            "Where is the derivative of the merit function zero, left of the feasible points?",
            judge=calls((0.5,), (0.9,), (0.999,)),
        ),
        Check(
            "ex-lin-noprice",
            "No finite penalty parameter",
            "a function of $\\nu$ that returns the pair (minimiser of the merit function, its"
            " infeasibility)",
            lambda: lambda price: (1 / (2 * price), 1 / (4 * price**2)),
            lambda s: [
                (
                    lambda price: (0.0, 0.0),
                    "That is the solution of the problem; no penalty parameter gives it.",
                ),
                (
                    lambda price: (1 / (2 * price), 1 / (2 * price)),
                    "The infeasibility is that of $y$, not of $x$.",
                ),
                (
                    lambda price: (1 / price, 1 / price**2),
                    "Where is the derivative of the merit zero?",
                ),
            ],
            "The merit is a parabola in $x$.",
            judge=calls((1.0,), (10.0,), (400.0,)),
        ),
        Check(
            "ex-lin-convex",
            "Bounds by linearisation",
            "a function of $\\bar x$ that returns the bound for $x^4 - x$ on $[0, 1]$ by the"
            " tangent there",
            lambda: _below,
            lambda s: [
                (
                    lambda x: x**4 - x,
                    "That is a value of the function; the bound is a value of the tangent.",
                ),
                (
                    lambda x: x**4 - x + max(-(4 * x**3 - 1) * x, (4 * x**3 - 1) * (1 - x)),
                    "Take the minimum of the tangent.",
                ),
                (lambda x: -3 * x**4, "The tangent is minimal at 0 only if it increases."),
            ],
            "An affine function on an interval is minimal at one of its ends.",
            judge=calls((0.3,), (0.6,), (0.9,)),
        ),
    ],
    "local_models": [
        Check(
            "ex-local-stable",
            "Radius of a stable unit",
            "the largest radius",
            lambda: 11 / 30,
            lambda s: [
                (1.1, "Both inputs move: the minimum decreases by three times the radius."),
                (1.1 / 2, "The second input moves as well."),
                (1.1 / math.sqrt(5), "The box is measured by the maximum norm."),
            ],
            "Compute the minimum of the pre-activation over the box.",
        ),
        Check(
            "ex-local-moves",
            "Number of unit moves",
            "a function of $p$ that returns the pair (neighbours by one move, neighbours by two"
            " moves)",
            lambda: lambda p: (2 * p, 2 * p * (p - 1)),
            lambda s: [
                (lambda p: (p, p * (p - 1) // 2), "Each input moves in two directions."),
                (lambda p: (2 * p, p * (2 * p - 1)), "The two moves change different inputs."),
                (lambda p: (2 * p, 4 * p * (p - 1)), "The order of the two moves is irrelevant."),
            ],
            "Choose the inputs first, then the directions.",
            judge=calls((1,), (2,), (13,)),
        ),
        Check(
            "ex-lin-hold",
            "Descent with fixed integer inputs",
            "the objective that your descent reaches on `blocked(6)` from `np.zeros(7)`",
            lambda: -6.0,
            lambda s: [
                (0.0, "It has not moved: the binary still moves in every try."),
                (
                    5.0 - 6.0,
                    "The binary is 1 at the end; the linearisation at 1 would set it to 0.",
                ),
                (
                    -1.5,
                    "The continuous inputs have moved once: go on while something is predicted.",
                ),
            ],
            "With the binary fixed, the linearisation in the other inputs is exact.",
        ),
    ],
}

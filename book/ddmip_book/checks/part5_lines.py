"""Self-checks of Part V: linearisation."""

from .core import Check, calls


def _threshold(level: float) -> float:
    return 1 / (6 * (1 - level**2))


def _below(at: float) -> float:
    """What the tangent of x^4 - x proves about its minimum on [0, 1]."""
    value = at**4 - at
    slope = 4 * at**3 - 1
    return value + min(-slope * at, slope * (1 - at))


CHECKS = {
    "linearise": [
        Check(
            "ex-lin-hand",
            "One step by hand",
            "the tuple of four numbers (where the MIP aims, prediction, what came of it, next"
            " radius)",
            lambda: (0.75, 0.5, 0.4375, 0.5),
            lambda s: [
                (
                    (*s[:2], 0.5, 0.5),
                    "That is what the line says: ask the network what is true at the new point.",
                ),
                ((*s[:3], 0.25), "The share that was kept is large enough for a wider region."),
                (
                    (0.75, 0.4375, 0.5, 0.5),
                    "The prediction comes from the line, the decrease from the network.",
                ),
            ],
            "The line is lowest at an end of the region; compare it and the network there with the"
            " start.",
        ),
        Check(
            "ex-lin-kink",
            "The slope of a kink",
            "the triple (where a descent from 0 ends, where one from 0.1 ends, how many of the two"
            " starts are local minimisers)",
            lambda: (0, 1, 0),
            lambda s: [
                ((0, 1, 1), "Is there no lower point near 0, and none near 0.1?"),
                ((1, 1, 0), "At 0 both units report the slope 0: what does the MIP see?"),
                ((0, 0, 0), "At 0.1 one unit is on, and its slope points away from 0."),
            ],
            "Write down the slope that is reported, and the lowest point of that line in the"
            " region.",
        ),
        Check(
            "ex-lin-price",
            "The threshold of a price",
            "a function of $b$ that returns $\\pi_0$",
            lambda: _threshold,
            lambda s: [
                (
                    lambda b: 6 * (1 - b**2),
                    (
                        "That is the slope of the network: what is a unit of output worth in units "
                        "of $x$?"
                    ),
                ),
                (
                    lambda b: 1 / 6,
                    "The slope is that at the point where the row begins to hold, not that at 0.",
                ),
                (lambda b: 1 / (1 - b**2), "Mind the factor inside the network."),
            ],
            "Where does the merit stop falling on its way to the point at which the row holds?",
            judge=calls((0.5,), (0.9,), (0.999,)),
        ),
        Check(
            "ex-lin-noprice",
            "No price is enough",
            "a function of $\\pi$ that returns the pair (minimiser of the merit, its misfit)",
            lambda: lambda price: (1 / (2 * price), 1 / (4 * price**2)),
            lambda s: [
                (
                    lambda price: (0.0, 0.0),
                    "That is the solution of the problem, which no price makes the minimiser.",
                ),
                (
                    lambda price: (1 / (2 * price), 1 / (2 * price)),
                    "The misfit is that of $y$, not of $x$.",
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
            "Lines from below",
            "a function of $\\bar x$ that returns the bound for $x^4 - x$ on $[0, 1]$ by the line"
            " there",
            lambda: _below,
            lambda s: [
                (
                    lambda x: x**4 - x,
                    "That is a value of the function, from above; the bound is one of the line.",
                ),
                (
                    lambda x: x**4 - x + max(-(4 * x**3 - 1) * x, (4 * x**3 - 1) * (1 - x)),
                    "The line must be taken where it is lowest.",
                ),
                (lambda x: -3 * x**4, "The line is lowest at 0 only where it rises."),
            ],
            "A line on an interval is lowest at one of its ends.",
            judge=calls((0.3,), (0.6,), (0.9,)),
        ),
        Check(
            "ex-lin-hold",
            "Past the blocking binary",
            "the objective that your descent reaches on `blocked(6)` from `np.zeros(7)`",
            lambda: -6.0,
            lambda s: [
                (0.0, "It has not moved: the binary still moves in every try."),
                (5.0 - 6.0, "The binary is on at the end; the line at 1 would take it back."),
                (
                    -1.5,
                    "The continuous inputs have moved once: go on while something is predicted.",
                ),
            ],
            "With the binary held, the line in the other inputs is the truth.",
        ),
    ],
}

"""Self-checks of the report on E6 and E7."""

from math import floor

from .core import Check, calls


def _gap(bound: float, value: float) -> float:
    return (floor(bound + 1e-6) - value) / value


def _fractions(distances: list[float | None], limit: float) -> list[float]:
    accepted = [distance for distance in distances if distance is not None]
    near = sum(distance <= limit for distance in accepted)
    return [near / len(distances), near / len(accepted)]


_CASES = [([0.0, 0.005, None, 0.2], 0.01), ([None, None, 0.01, 0.3, 0.0], 0.01)]

CHECKS = {
    "suite": [
        Check(
            "ex-suite-gap",
            "Gap of an integer objective",
            "a function of (bound, objective) that returns the relative gap",
            lambda: _gap,
            lambda s: [
                (lambda b, v: (b - v) / v, "An integer objective allows the bound to be rounded."),
                (
                    lambda b, v: (floor(b) - v) / v,
                    "A bound of 59.9999999 may belong to the value 60: add the tolerance first.",
                ),
                (lambda b, v: (floor(b + 1e-6) - v) / b, "Divide by the objective."),
            ],
            "Round the bound down, after adding the tolerance.",
            judge=calls((60.9, 60.0), (59.9999999, 50.0), (86.3, 66.0)),
        ),
        Check(
            "ex-suite-profile",
            "Performance profile with rejected models",
            "a function of (distances with `None` for rejected models, limit) that returns the pair"
            " (fraction of all models, fraction of the accepted ones)",
            lambda: _fractions,
            lambda s: [
                (
                    lambda d, limit: _fractions(d, limit)[::-1],
                    "The first fraction is that of all models.",
                ),
                (
                    lambda d, limit: [
                        sum(x is not None and x < limit for x in d) / len(d),
                        sum(x is not None and x < limit for x in d) / sum(x is not None for x in d),
                    ],
                    "A distance equal to the limit counts.",
                ),
                (
                    lambda d, limit: [
                        sum(x is None or x <= limit for x in d) / len(d),
                        _fractions(d, limit)[1],
                    ],
                    "A rejected model is a failure in the first fraction.",
                ),
            ],
            "Count the models within the limit once, and divide by two numbers.",
            judge=calls(*_CASES, read=list),
        ),
    ]
}

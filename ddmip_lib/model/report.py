"""Where no point was feasible: the one that came nearest, and what it violates."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..programs.scip import MILP, excess
from .scaling import ROUNDING
from .verification import TOLERANCE, Verification, Verifier


class Violation(NamedTuple):
    """A row, variable or output that is outside its range, by an amount in its own units."""

    what: str
    value: float = np.nan
    lower: float = -np.inf
    upper: float = np.inf
    amount: float = np.nan  #: Not known for constraints that are no rows.

    def __str__(self) -> str:
        value, lower, upper, amount = (f"{number:.6g}" for number in self[1:])
        return (
            self.what
            if np.isnan(self.value)
            else f"{self.what} is {value}, outside [{lower}, {upper}] by {amount}"
        )


@dataclass(frozen=True, eq=False)
class Report:
    """A visited point, with outputs as the networks say, and its violations, the largest for its
    size first.
    """

    violations: list[Violation]
    values: np.ndarray
    inputs: list[np.ndarray]

    def __repr__(self) -> str:
        lines = [*map(str, self.violations[:10]), *["..."] * (len(self.violations) > 10)]
        points = [
            np.array2string(x, precision=6, threshold=60, prefix=" " * 29) for x in self.inputs
        ]
        lines += [f"at the inputs of predictor {i}: {point}" for i, point in enumerate(points)]
        return "\n  ".join(["The nearest point that was visited violates", *lines])


class Nearest:
    """Of points that failed verification, the one whose largest violation is smallest.

    A row or bound counts in its own size, also one of whole numbers, to which verification forgives
    nothing.
    """

    def __init__(self, verifier: Verifier) -> None:
        self.verifier = verifier
        self.distance = np.inf
        self.kept: tuple[np.ndarray, Verification] | None = None

    def consider(self, values: np.ndarray, check: Verification) -> None:
        """Keep a point, with outputs as the networks say, if it is nearer."""
        distance = self._missed(values)[1].max() if np.isfinite(values).all() else np.inf
        if self.kept is None or distance < self.distance:
            self.kept = (values.copy(), check)
            self.distance = distance

    def _missed(self, values: np.ndarray) -> np.ndarray:
        return violations_by_tolerance(self.verifier, values)

    def report(self) -> Report | None:
        """What there is to say of the nearest point; nothing where none was visited."""
        if self.kept is None:
            return None
        (values, check), instance = self.kept, self.verifier.instance
        found = (
            violations(self.verifier, values, check.tolerance) if np.isfinite(values).all() else []
        )
        found += [Violation(f"perhaps {name}") for name in check.other_violations]
        return Report(found or [Violation(check.worst)], values, instance.inputs(values))


def violations_by_tolerance(verifier: Verifier, values: np.ndarray) -> np.ndarray:
    """Violations of rows, bounds and integrality: as verification judges them, and relative to the
    sizes of all.
    """
    units = verifier.units
    rounded = verifier.instance.rounded(values)
    judged = np.concatenate([*verifier.missed(rounded), np.abs(values - rounded)])
    exact = np.concatenate([units.row == 0, units.exact, np.zeros(len(values), dtype=bool)])
    return np.stack([judged, np.where(exact, ROUNDING / TOLERANCE, 1.0) * judged])


def violations(
    verifier: Verifier,
    values: np.ndarray,
    tolerance: float = TOLERANCE,
    known: np.ndarray | None = None,
) -> list[Violation]:
    """The rows, bounds and integers that a point with finite values violates, the largest for its
    size first; with `known`, a mask of variables, those that it violates whatever the values of the
    others within their bounds.
    """
    instance = verifier.instance
    s = instance.milp
    rounded = instance.rounded(values)
    kinds = np.where(instance.is_output, "output", "variable")
    names = [f"{kind} {name}" for kind, name in zip(kinds, s.names, strict=True)]
    names = [f"row {name}" for name in s.row_names] + names + [f"integer {name}" for name in names]
    judged, sizes = violations_by_tolerance(verifier, values)
    reached = s.rows @ rounded
    if known is not None:
        reached = _nearest_activity(s, rounded, known)
        rows = excess(reached, *s.sides) / verifier.units.rows(np.abs(rounded))
        judged = np.concatenate([rows, judged[s.n_rows :] * np.tile(known, 2)])
    parts = [
        (reached, s.row_lower, s.row_upper),
        (rounded, s.lower, s.upper),
        (values, rounded, rounded),
    ]
    numbers = np.concatenate([np.stack([*part, excess(*part)], axis=1) for part in parts]).tolist()
    worst_first = sorted(np.flatnonzero(judged > tolerance), key=lambda i: -sizes[i])
    return [Violation(names[i], *numbers[i]) for i in worst_first]


def _nearest_activity(s: MILP, values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Of each row the value nearest to its sides, where all variables but the known ones move
    within their bounds.
    """
    rows = s.rows.tocoo()
    given = rows.data * values[rows.col]
    at_lower = rows.data * s.lower[rows.col]
    at_upper = rows.data * s.upper[rows.col]
    least = np.where(known[rows.col], given, np.minimum(at_lower, at_upper))
    most = np.where(known[rows.col], given, np.maximum(at_lower, at_upper))
    low, high = (np.bincount(rows.row, ends, s.n_rows) for ends in (least, most))
    return np.where(
        low > s.row_upper,
        low,
        np.where(high < s.row_lower, high, np.clip(s.rows @ values, *s.sides)),
    )

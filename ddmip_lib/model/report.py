"""The point that came nearest to feasibility, and what it violates: what there is to say where no point was found."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .scip import excess
from .sizes import ROUNDING
from .verification import TOLERANCE, Verification, Verifier


class Violation(NamedTuple):
    """One row, bound or output that a point violates."""

    what: str
    value: float = np.nan
    lower: float = -np.inf
    upper: float = np.inf

    @property
    def amount(self) -> float:
        """How much is missing, in the units of the row or variable."""
        return float(excess(np.array(self.value), self.lower, self.upper))

    def __str__(self) -> str:
        if np.isnan(self.value):
            return self.what
        low = self.value < self.lower
        side = f"below {self.lower:.6g}" if low else f"above {self.upper:.6g}"
        return f"{self.what} is {self.value:.6g}, {side} by {self.amount:.3g}"


@dataclass(frozen=True, eq=False)
class Report:
    """A visited point, with outputs as the networks say, and its violations, the largest for its size first."""

    violations: list[Violation]
    values: np.ndarray
    inputs: list[np.ndarray]

    def __repr__(self) -> str:
        shown = [str(violation) for violation in self.violations[:10]]
        if len(self.violations) > 10:
            shown.append(f"and {len(self.violations) - 10} more")
        points = [np.array2string(x, precision=6, threshold=60, prefix=" " * 29) for x in self.inputs]
        shown += [f"at the inputs of predictor {i}: {point}" for i, point in enumerate(points)]
        return "\n  ".join(["The nearest point that was visited violates", *shown])


class Nearest:
    """Of points that failed verification, the one whose largest violation is smallest.

    A row or bound counts in its own size, also one of whole numbers, to which verification forgives nothing.
    """

    def __init__(self, verifier: Verifier) -> None:
        self.verifier, self.distance = verifier, np.inf
        self.values: np.ndarray | None = None
        self.check: Verification | None = None

    def consider(self, values: np.ndarray, check: Verification) -> None:
        """Keep a point, with outputs as the networks say, if it is nearer."""
        distance = max(part.max(initial=0.0) for part in self._sizes(values)) if np.isfinite(values).all() else np.inf
        if self.values is None or distance < self.distance:
            self.values, self.check, self.distance = values.copy(), check, distance

    def _sizes(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Violations of rows, bounds and integrality, relative to the size of each."""
        instance, units, exact = self.verifier.instance, self.verifier.units, ROUNDING / TOLERANCE
        rounded = instance.rounded(values)
        rows, bounds = self.verifier.missed(rounded)
        rows = np.where(units.row > 0, rows, exact * rows)
        return rows, np.where(units.exact, exact * bounds, bounds), np.abs(values - rounded)

    def report(self) -> Report | None:
        """What there is to say of the nearest point; nothing where none was visited."""
        if self.values is None or self.check is None:
            return None
        instance, values, s = self.verifier.instance, self.values, self.verifier.instance.milp
        inputs = instance.inputs(values)
        if not np.isfinite(values).all():
            return Report([Violation(self.check.worst)], values, inputs)
        rounded, sizes, found = instance.rounded(values), self._sizes(values), []
        rows, bounds = (part > self.check.tolerance for part in self.verifier.missed(rounded))
        for r in np.flatnonzero(rows):
            broken = Violation(f"row {s.row_names[r]}", (s.rows[[r]] @ rounded).item(), s.row_lower[r], s.row_upper[r])
            found.append((sizes[0][r], broken))
        for i in np.flatnonzero(bounds):
            what = "output" if instance.is_output[i] else "variable"
            found.append((sizes[1][i], Violation(f"{what} {s.names[i]}", rounded[i], s.lower[i], s.upper[i])))
        for i in np.flatnonzero(sizes[2] > self.check.tolerance):
            found.append(
                (sizes[2][i], Violation(f"output {s.names[i]} must be whole, the network says {values[i]:.6g}"))
            )
        if self.check.other_violations:
            found.append((0.0, Violation(f"one or more of {', '.join(self.check.other_violations[:5])}")))
        found.sort(key=lambda pair: -pair[0])
        return Report([violation for _, violation in found], values, inputs)

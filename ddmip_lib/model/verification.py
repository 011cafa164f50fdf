"""Checking a point against the true network and every row, bound and integrality, in float64."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

TOLERANCE = 1e-6


@dataclass(frozen=True)
class Verification:
    """What the check of one point found; violations are relative to max(1, |side|)."""

    objective: float
    row_violation: float
    bound_violation: float
    integrality_violation: float
    output_error: float
    wrong_classes: int
    smallest_logit: float | None
    other_violations: tuple[str, ...]
    worst: str
    tolerance: float = TOLERANCE

    @property
    def feasible(self) -> bool:
        """Whether every check holds within the tolerance."""
        violation = max(self.row_violation, self.bound_violation, self.integrality_violation, self.output_error)
        return violation <= self.tolerance and self.wrong_classes == 0 and not self.other_violations

    @classmethod
    def impossible(cls, why: str, tolerance: float) -> Verification:
        """A point at which the network has no value to compare with."""
        return cls(float("nan"), 0.0, 0.0, 0.0, float("inf"), 0, None, (), why, tolerance)

    def __bool__(self) -> bool:
        return self.feasible

    def __repr__(self) -> str:
        lines = [
            f"Verification: {'feasible' if self.feasible else 'NOT feasible'} (tolerance {self.tolerance:g})",
            f"  objective               {self.objective:.6g}",
            f"  rows                    {self.row_violation:.1e}",
            f"  bounds                  {self.bound_violation:.1e}",
            f"  integrality             {self.integrality_violation:.1e}",
            f"  outputs y = f(x)        {self.output_error:.1e}",
            f"  wrong classes           {self.wrong_classes}",
        ]
        if self.smallest_logit is not None:
            lines.append(f"  smallest |logit|        {self.smallest_logit:.2e}")
        if self.other_violations:
            lines.append(f"  other constraints       {', '.join(self.other_violations[:3])}")
        if not self.feasible and self.worst:
            lines.append(f"  worst                   {self.worst}")
        return "\n".join(lines)


def relative_violation(values: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Violation of lower <= values <= upper, entry by entry, relative to max(1, |side|)."""
    violation = np.zeros(values.shape)
    for side, excess in ((lower, lower - values), (upper, values - upper)):
        finite = np.isfinite(side)
        scaled = excess[finite] / np.maximum(1.0, np.abs(side[finite]))
        violation[finite] = np.maximum(violation[finite], scaled)
    return violation

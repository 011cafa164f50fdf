"""Checking a point against the true network and every row, bound and integrality, in float64."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from pyscipopt import Model

from ..errors import ProblemError
from .instance import Instance
from .scip import copy_model, fix, relative_violation

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
    def impossible(cls, why: str, tolerance: float) -> Self:
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


class Verifier:
    """Judges full assignments of one instance."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance

    def check(self, values: np.ndarray, tolerance: float = TOLERANCE) -> Verification:
        """Verify a full assignment: rows, bounds, integrality, outputs, other constraints."""
        s = self.instance.milp
        if values.shape != (s.n_variables,):
            raise ProblemError(f"a point has {s.n_variables} values, one for each variable; got {values.shape}.")
        known = np.isfinite(values) | self.instance.is_output
        if not known.all():
            raise ProblemError(f"the point has no finite value for {s.names[int(np.argmin(known))]}.")
        raws = self.instance.raws(values)
        if not all(np.isfinite(raw).all() for raw in raws):
            return Verification.impossible("the network's output is NaN or infinite here", tolerance)
        if not np.isfinite(values).all():
            return Verification.impossible("an output variable has no finite value", tolerance)
        rows = relative_violation(s.rows @ values, s.row_lower, s.row_upper)
        bounds = relative_violation(values, s.lower, s.upper)
        integrality = np.where(s.integer, np.abs(values - np.round(values)), 0.0)
        networks = zip(self.instance.predictors, self.instance.maps, raws, strict=True)
        mistakes = [predictor.mistakes(values[m.output], raw) for predictor, m, raw in networks]
        error, wrong = max(found.error for found in mistakes), sum(found.wrong for found in mistakes)
        logit = min(found.smallest_logit for found in mistakes)
        linear_ok = max(rows.max(initial=0.0), bounds.max(initial=0.0)) <= tolerance
        worst = ""
        if rows.size and rows.max() > tolerance:
            worst = f"row {s.row_names[int(rows.argmax())]}"
        elif bounds.size and bounds.max() > tolerance:
            worst = f"bound of {s.names[int(bounds.argmax())]}"
        elif integrality.max(initial=0.0) > tolerance:
            worst = f"integrality of {s.names[int(integrality.argmax())]}"
        elif wrong or error > tolerance:
            worst = "an output variable differs from what the network says"
        return Verification(
            objective=s.objective(values),
            row_violation=float(rows.max(initial=0.0)),
            bound_violation=float(bounds.max(initial=0.0)),
            integrality_violation=float(integrality.max(initial=0.0)),
            output_error=error,
            wrong_classes=wrong,
            smallest_logit=None if logit == np.inf else logit,
            other_violations=self._check_others(values) if linear_ok else (),
            worst=worst,
            tolerance=tolerance,
        )

    @cached_property
    def _checker(self) -> tuple[Model, Any]:
        model = copy_model(self.instance.model)
        model.setObjective(0.0)
        return model, model.getVars()

    def _check_others(self, values: np.ndarray) -> tuple[str, ...]:
        """Constraints that are no rows: SCIP judges a copy in which every variable is fixed, all of them together."""
        others = self.instance.milp.others
        if not others:
            return ()
        model, variables = self._checker
        model.freeTransform()
        fix(model, variables, values)
        model.optimize()
        if model.getNSols():
            return ()
        return tuple(f"{c.kind} {c.name}" for c in others)

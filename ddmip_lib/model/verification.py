"""Checking a point against the true network and every row, bound and integrality, in float64."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from pyscipopt import Model

from ..errors import ProblemError
from ..programs.scip import copy_model, excess, fix
from .instance import Instance
from .network_checks import not_finite
from .scaling import Units

TOLERANCE = 1e-6
"""What a point may miss, in units of what it misses (see `Verification`)."""
CLOSED = 1e-5
"""Where a bound is so near to an objective, in units of the objective (`Units.objective`), the two
have met. What `verify` forgives, 1e-6 of each row, costs about 1e-6 of them.
"""


@dataclass(frozen=True)
class Verification:
    r"""What the check of one point found.

    A whole number within 1e-6 of one is that number, and everything else is judged with it in its
    place: the networks, the rows, the objective. Then 1e-6 is meant in the units of the problem
    (`sizes`): a variable may leave its box by 1e-6 of its size or of that bound, whichever is
    larger; a row may be missed by 1e-6 of its side or of the largest of its coefficients times the
    size of its variable; an output may differ from what the network says by 1e-6 of that, or of the
    output's size. Rows and bounds of whole numbers alone may be missed by nothing but what adding
    up costs, 1e-12 of the terms. A class must be the network's.
    """

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
    objective_unit: float = (
        1.0  #: What differences between objectives and bounds are compared with.
    )

    @property
    def feasible(self) -> bool:
        """Whether every check holds within the tolerance."""
        violation = max(
            self.row_violation, self.bound_violation, self.integrality_violation, self.output_error
        )
        return violation <= self.tolerance and self.wrong_classes == 0 and not self.other_violations

    @classmethod
    def impossible(cls, why: str, tolerance: float) -> Self:
        """A point at which the network has no value to compare with."""
        return cls(float("nan"), 0.0, 0.0, 0.0, float("inf"), 0, None, (), why, tolerance)

    def __bool__(self) -> bool:
        return self.feasible

    def __repr__(self) -> str:
        lines = [
            (
                f"Verification: {'feasible' if self.feasible else 'NOT feasible'} (tolerance"
                f" {self.tolerance:g})"
            ),
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

    @cached_property
    def units(self) -> Units:
        return Units(self.instance, TOLERANCE)

    def better(self, new: float, old: float | None) -> bool:
        """Whether objective `new` beats `old` (None: nothing to beat)."""
        return old is None or self.instance.milp.sign * (new - old) < -1e-9 * self.units.objective(
            old
        )

    def check(self, values: np.ndarray, tolerance: float = TOLERANCE) -> Verification:
        """Verify a full assignment: rows, bounds, integrality, outputs, other constraints."""
        s = self.instance.milp
        given = values
        if values.shape != (s.n_variables,):
            raise ProblemError(
                f"a point has {s.n_variables} values, one for each variable; got {values.shape}."
            )
        known = np.isfinite(values) | self.instance.is_output
        if not known.all():
            raise ProblemError(
                f"the point has no finite value for {s.names[int(np.argmin(known))]}."
            )
        values = self.instance.rounded(given)
        raws = self.instance.raws(values)
        if not all(np.isfinite(raw).all() for raw in raws):
            said = zip(self.instance.predictors, self.instance.inputs(values), raws, strict=True)
            why = next(not_finite(p.net, x) for p, x, raw in said if not np.isfinite(raw).all())
            return Verification.impossible(why, tolerance)
        if not np.isfinite(values).all():
            return Verification.impossible("an output variable has no finite value", tolerance)
        rows, bounds = self.missed(values)
        integrality = np.abs(given - values)
        networks = zip(self.instance.predictors, self.instance.maps, raws, strict=True)
        mistakes = [
            p.mistakes(values[m.output], raw, self.units.sizes[m.output]) for p, m, raw in networks
        ]
        error = max(found.error for found in mistakes)
        wrong = sum(found.wrong for found in mistakes)
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
            objective_unit=self.units.objective(s.objective(values)),
        )

    def missed(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By how much rows and bounds are violated, in their units."""
        s = self.instance.milp
        units = self.units
        rows = excess(s.rows @ values, *s.sides) / units.rows(np.abs(values))
        bounds = np.maximum(
            excess(values, s.lower, np.inf) / units.bound(s.lower),
            excess(values, -np.inf, s.upper) / units.bound(s.upper),
        )
        return rows, bounds

    @cached_property
    def _checker(self) -> tuple[Model, Any]:
        model = copy_model(self.instance.model)
        model.setObjective(0.0)
        return model, model.getVars()

    def _check_others(self, values: np.ndarray) -> tuple[str, ...]:
        """Constraints that are no rows: SCIP judges a copy in which every variable is fixed, all of
        them together.
        """
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

"""Verification of a point: networks, constraints, bounds and integrality, in double precision."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy import ndarray
from pyscipopt import Model, Variable

from ..errors import ProblemError
from ..programs.scip import copy_model, excess, fix
from .instance import Instance
from .network_checks import not_finite
from .scaling import Units

TOLERANCE = 1e-6
"""Feasibility tolerance, in the units of `ddmip_lib.model.scaling.Units`."""
CLOSED = 1e-5
"""Gap between objective and bound, in units of the objective, up to which a problem counts as
solved: violations within the feasibility tolerance change the objective by about 1e-6 of it.
"""
OPTIMAL_GAP = 1e-4
"""Relative gap between objective and bound up to which a solution may be called optimal: the
default of the usual MIP solvers.
"""
IMPROVEMENT = 1e-9
"""Difference of two objectives, in units of the objective, from which one is better."""
MAX_PRINTED_CONSTRAINTS = 3
"""Violated nonlinear constraints that a printed verification lists."""


@dataclass(frozen=True)
class Verification:
    r"""The result of the verification of one point.

    An integer variable within the tolerance of an integer has that value, and all else is checked
    with it: networks, constraints, objective. The tolerance 1e-6 is relative: to the size of a
    variable or of its bound, whichever is larger; to the side of a constraint or the largest of
    its coefficients times the sizes of their variables; to the output of a network or its size.
    Constraints and bounds of integer variables alone are exact up to rounding errors, 1e-12 of the
    terms. A class must be that of the network.

    Attributes
    ----------
    objective
        Objective of the point, NaN if the networks have no finite value there.
    row_violation, bound_violation, integrality_violation, output_error
        The largest violation of each kind.
    wrong_classes
        Number of binary outputs that differ from the class of the network.
    smallest_logit
        The smallest absolute value of a logit, None without classification.
    other_violations
        Kinds and names of nonlinear constraints, if they do not hold together.
    worst
        The first of the violations, in words; empty where there is none.
    tolerance
        Feasibility tolerance.
    objective_unit
        Unit in which differences between objectives and bounds are measured.
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
    objective_unit: float = 1.0

    @property
    def feasible(self) -> bool:
        """Whether every check holds within the tolerance."""
        violation = max(
            self.row_violation, self.bound_violation, self.integrality_violation, self.output_error
        )
        return violation <= self.tolerance and self.wrong_classes == 0 and not self.other_violations

    def __bool__(self) -> bool:
        return self.feasible

    def __repr__(self) -> str:
        result = "feasible" if self.feasible else "NOT feasible"
        lines = [
            f"Verification: {result} (tolerance {self.tolerance:g})",
            f"  objective               {self.objective:.6g}",
            f"  constraints             {self.row_violation:.1e}",
            f"  bounds                  {self.bound_violation:.1e}",
            f"  integrality             {self.integrality_violation:.1e}",
            f"  outputs y = f(x)        {self.output_error:.1e}",
            f"  wrong classes           {self.wrong_classes}",
        ]
        if self.smallest_logit is not None:
            lines.append(f"  smallest |logit|        {self.smallest_logit:.2e}")
        if self.other_violations:
            names = ", ".join(self.other_violations[:MAX_PRINTED_CONSTRAINTS])
            lines.append(f"  other constraints       {names}")
        if not self.feasible and self.worst:
            lines.append(f"  worst                   {self.worst}")
        return "\n".join(lines)


class Verifier:
    """Verifies full assignments of one instance.

    Parameters
    ----------
    instance
        The problem.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance

    @cached_property
    def stated(self) -> "Verifier":
        """The verifier of the problem as the user's model states it."""
        stated = self.instance.stated
        return self if stated is self.instance else Verifier(stated)

    @cached_property
    def units(self) -> Units:
        """Units of constraints, bounds and objective."""
        return Units(self.instance, TOLERANCE)

    def better(self, new: float, old: float | None) -> bool:
        """Return whether an objective is better than another one; any is better than None."""
        if old is None:
            return True
        improvement = IMPROVEMENT * self.units.objective(old)
        return self.instance.milp.sign * (new - old) < -improvement

    def check(self, values: ndarray) -> Verification:
        """Verify a full assignment, by the values of the user's variables in it.

        Parameters
        ----------
        values
            One value for each variable; NaN and infinity are allowed for outputs only.

        Returns
        -------
        Verification
            Violations of constraints, bounds, integrality, outputs and nonlinear constraints.

        Raises
        ------
        ProblemError
            If `values` has the wrong shape, or lacks the value of a variable.
        """
        if self.stated is not self:
            return self.stated.check(self.instance.restrict(values))
        self._require_values(values)
        rounded = self.instance.rounded(values)
        raws = self.instance.raw_outputs(rounded)
        undefined = self._undefined(rounded, raws)
        if undefined:
            return Verification(np.nan, 0.0, 0.0, 0.0, np.inf, 0, None, (), undefined)
        linear = [*self.missed(rounded), np.abs(values - rounded)]
        constraints, bounds, integrality = map(_largest, linear)
        error, wrong, smallest_logit = self._mistakes(rounded, raws)
        objective = self.instance.milp.objective(rounded)
        linear_holds = max(constraints, bounds) <= TOLERANCE
        return Verification(
            objective=objective,
            row_violation=constraints,
            bound_violation=bounds,
            integrality_violation=integrality,
            output_error=error,
            wrong_classes=wrong,
            smallest_logit=smallest_logit,
            other_violations=self._other_violations(rounded) if linear_holds else (),
            worst=self._worst(linear, wrong > 0 or error > TOLERANCE),
            objective_unit=self.units.objective(objective),
        )

    def _require_values(self, values: ndarray) -> None:
        milp = self.instance.milp
        if values.shape != (milp.n_variables,):
            raise ProblemError(
                f"a point has {milp.n_variables} values, one for each variable; got {values.shape}."
            )
        known = np.isfinite(values) | self.instance.is_output
        if not known.all():
            name = milp.names[int(np.argmin(known))]
            raise ProblemError(f"the point has no finite value for {name}.")

    def _undefined(self, values: ndarray, raws: list[ndarray]) -> str:
        """Which network or output has no finite value; empty if all have one."""
        inputs = self.instance.inputs(values)
        for predictor, x, raw in zip(self.instance.predictors, inputs, raws, strict=True):
            if not np.isfinite(raw).all():
                return not_finite(predictor.net, x)
        return "" if np.isfinite(values).all() else "an output variable has no finite value"

    def _mistakes(self, values: ndarray, raws: list[ndarray]) -> tuple[float, int, float | None]:
        """The largest relative error of a prediction, the number of wrong classes, and the smallest
        absolute value of a logit.
        """
        outputs = self.instance.outputs
        classes = self.instance.classes
        raw = np.concatenate(raws, axis=None)
        differences = np.abs(values[outputs] - np.where(classes, raw > 0, raw))
        errors = differences / np.maximum(self.units.sizes[outputs], np.abs(raw))
        logits = np.abs(raw[classes])
        smallest_logit = float(logits.min()) if len(logits) else None
        return _largest(errors[~classes]), int((differences[classes] > 0.5).sum()), smallest_logit

    def _worst(self, linear: list[ndarray], outputs_differ: bool) -> str:
        """What is violated most, of the first kind of violation that there is; or empty."""
        milp = self.instance.milp
        kinds = ("constraint", "bound of", "integrality of")
        names_of_kinds = (milp.row_names, milp.names, milp.names)
        for violation, kind, names in zip(linear, kinds, names_of_kinds, strict=True):
            if _largest(violation) > TOLERANCE:
                return f"{kind} {names[int(violation.argmax())]}"
        if outputs_differ:
            return "an output variable differs from the output of its network"
        return ""

    def missed(self, values: ndarray) -> tuple[ndarray, ndarray]:
        """Return the violations of constraints and of bounds, in their units.

        Parameters
        ----------
        values
            A full assignment of finite numbers.
        """
        milp = self.instance.milp
        units = self.units
        constraints = excess(milp.rows @ values, *milp.sides) / units.rows(np.abs(values))
        below = excess(values, milp.lower, np.inf) / units.lower
        above = excess(values, -np.inf, milp.upper) / units.upper
        return constraints, np.maximum(below, above)

    @cached_property
    def _feasibility_model(self) -> tuple[Model, list[Variable]]:
        """A copy of the user's model without an objective, and its variables."""
        model = copy_model(self.instance.model)
        model.setObjective(0.0)
        return model, model.getVars()

    def _other_violations(self, values: ndarray) -> tuple[str, ...]:
        """The nonlinear constraints if SCIP finds that they do not hold together, else none."""
        others = self.instance.milp.others
        if not others:
            return ()
        model, variables = self._feasibility_model
        model.freeTransform()
        fix(model, variables, values)
        model.optimize()
        if model.getNSols():
            return ()
        return tuple(f"{constraint.kind} {constraint.name}" for constraint in others)


def _largest(violations: ndarray) -> float:
    return float(violations.max(initial=0.0))

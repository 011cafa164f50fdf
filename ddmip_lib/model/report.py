"""The least infeasible point of a run without a feasible one, and the constraints it violates."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from ..programs.scip import MILP, excess
from .scaling import ROUNDING
from .verification import TOLERANCE, Verification, Verifier

MAX_PRINTED_VIOLATIONS = 10
"""Violations that a printed report lists."""


class Violation(NamedTuple):
    """A constraint, variable or output outside its range.

    Attributes
    ----------
    what
        Its kind and name.
    value, lower, upper
        Value and range; the value is NaN for nonlinear constraints.
    amount
        Distance from the range, in the units of the model; NaN for nonlinear constraints.
    """

    what: str
    value: float = np.nan
    lower: float = -np.inf
    upper: float = np.inf
    amount: float = np.nan

    def __str__(self) -> str:
        if np.isnan(self.value):
            return self.what
        interval = f"[{self.lower:.6g}, {self.upper:.6g}]"
        return f"{self.what} is {self.value:.6g}, outside {interval} by {self.amount:.6g}"


@dataclass(frozen=True, eq=False)
class Report:
    """An infeasible point.

    Attributes
    ----------
    violations
        What it violates, the largest violation in its unit first.
    values
        The full assignment, with outputs by the networks.
    inputs
        Its network inputs, one matrix for each predictor.
    """

    violations: list[Violation]
    values: ndarray
    inputs: list[ndarray]

    def __repr__(self) -> str:
        lines = ["The nearest point that was evaluated violates"]
        lines += [str(violation) for violation in self.violations[:MAX_PRINTED_VIOLATIONS]]
        if len(self.violations) > MAX_PRINTED_VIOLATIONS:
            lines.append("...")
        for i, x in enumerate(self.inputs):
            point = np.array2string(x, precision=6, threshold=60, prefix=" " * 29)
            lines.append(f"at the inputs of predictor {i}: {point}")
        return "\n  ".join(lines)


@dataclass(eq=False)
class Nearest:
    """The least infeasible of all points that failed verification.

    The violation of a point is its largest one. Exact constraints and bounds, of integer variables
    alone, count relative to their sizes like all others.

    Parameters
    ----------
    verifier
        Verifies full assignments of the problem.

    Attributes
    ----------
    distance
        Violation of the point; infinite before the first one.
    point
        The point and its verification, None before the first one.
    """

    verifier: Verifier
    distance: float = np.inf
    point: tuple[ndarray, Verification] | None = None

    def consider(self, values: ndarray, check: Verification) -> None:
        """Keep a point if it is less infeasible than the one before.

        Parameters
        ----------
        values
            Full assignment, with outputs by the networks.
        check
            Its verification.
        """
        distance = np.inf
        if np.isfinite(values).all():
            _, relative = violations_by_tolerance(self.verifier, values)
            distance = relative.max()
        if self.point is None or distance < self.distance:
            self.point = (values.copy(), check)
            self.distance = distance

    def report(self) -> Report | None:
        """Return the point and its violations, None if no point was evaluated."""
        if self.point is None:
            return None
        values, check = self.point
        found = []
        if np.isfinite(values).all():
            found = violations(self.verifier, values)
        found += [Violation(f"perhaps {name}") for name in check.other_violations]
        if not found:
            found = [Violation(check.worst)]
        return Report(found, values, self.verifier.instance.inputs(values))


def violations_by_tolerance(verifier: Verifier, values: ndarray) -> tuple[ndarray, ndarray]:
    """Return the violations of constraints, bounds and integrality, in this order.

    Parameters
    ----------
    verifier
        Verifies full assignments of the problem.
    values
        A full assignment of finite numbers.

    Returns
    -------
    judged : numpy.ndarray
        As verification compares them with its tolerance.
    relative : numpy.ndarray
        Relative to sizes, also those of exact constraints and bounds.
    """
    units = verifier.units
    rounded = verifier.instance.rounded(values)
    judged = np.concatenate([*verifier.missed(rounded), np.abs(values - rounded)])
    exact = np.concatenate([units.row == 0, units.exact, np.zeros(len(values), dtype=bool)])
    return judged, np.where(exact, ROUNDING / TOLERANCE, 1.0) * judged


def violations(
    verifier: Verifier,
    values: ndarray,
    known: ndarray | None = None,
) -> list[Violation]:
    """Return the constraints, bounds and integrality conditions that a point violates.

    Parameters
    ----------
    verifier
        Verifies full assignments of the problem.
    values
        A full assignment of finite numbers.
    known
        Mask of variables: violations are returned only if these variables alone cause them,
        whatever the values of the others within their bounds.

    Returns
    -------
    list of Violation
        The largest relative violation first.
    """
    milp = verifier.instance.milp
    rounded = verifier.instance.rounded(values)
    activity = milp.rows @ rounded
    judged, relative = violations_by_tolerance(verifier, values)
    if known is not None:
        activity = _nearest_activity(milp, rounded, known)
        judged[: milp.n_rows] = excess(activity, *milp.sides)
        judged[: milp.n_rows] /= verifier.units.rows(np.abs(rounded))
        judged[milp.n_rows :] *= np.tile(known, 2)
    violated = np.flatnonzero(judged > TOLERANCE)
    violated = violated[np.argsort(-relative[violated], kind="stable")]
    variables = np.where(verifier.instance.is_output, "output ", "variable ")
    variables = np.char.add(variables, milp.names).tolist()
    names = [f"constraint {name}" for name in milp.row_names]
    names += [*variables, *(f"integer {name}" for name in variables)]
    value = np.concatenate([activity, rounded, values])
    lower = np.concatenate([milp.row_lower, milp.lower, rounded])
    upper = np.concatenate([milp.row_upper, milp.upper, rounded])
    numbers = np.stack([value, lower, upper, excess(value, lower, upper)])
    return [Violation(names[i], *numbers[:, i].tolist()) for i in violated]


def _nearest_activity(milp: MILP, values: ndarray, known: ndarray) -> ndarray:
    """The activity of each constraint nearest to its sides, if the other variables take any values
    within their bounds.
    """
    lower = np.where(known, values, milp.lower)
    upper = np.where(known, values, milp.upper)
    positive = milp.rows.maximum(0)
    negative = milp.rows.minimum(0)
    low = positive @ lower + negative @ upper
    high = positive @ upper + negative @ lower
    return np.clip(np.clip(milp.rows @ values, *milp.sides), low, high)

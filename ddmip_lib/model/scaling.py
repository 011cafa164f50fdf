r"""Sizes of variables, constraints and objective, so that tolerances do not depend on units.

A variable in the box $[l, h]$ has the size $\min(1, \max(|l|, |h|))$, or 1 if it is unbounded. The
output of a network has the largest absolute value of the network at both ends and in the middle of
the boxes of its inputs, at most 1. Numbers larger than 1 need no scaling: 1e-6 of them is accurate
enough.
"""

import numpy as np
from numpy import ndarray

from ..numerics import finite_size
from .assignments import entries_per_row
from .instance import Instance

ROUNDING = 1e-12
"""Rounding error of a sum of floating-point numbers, relative to the sum of absolute values."""
MAX_UNBOUNDED_TERM = 1e6
"""Absolute value up to which an unbounded variable counts in such a sum."""
MIN_UNIT = 1e-300
"""Smallest unit of a constraint: violations are divided by it."""


def variable_sizes(instance: Instance) -> ndarray:
    """Return the size of every variable, in (0, 1].

    Parameters
    ----------
    instance
        The problem.

    Returns
    -------
    numpy.ndarray
        Of shape (n_variables,).
    """
    milp = instance.milp
    sizes = _at_most_one(np.maximum(np.abs(milp.lower), np.abs(milp.upper)))
    for predictor, mapping in instance.networks:
        if predictor.gives_class:
            continue
        low = np.nan_to_num(mapping.at(milp.lower), neginf=-1.0)
        high = np.nan_to_num(mapping.at(milp.upper), posinf=1.0)
        samples = (low, 0.5 * low + 0.5 * high, high)
        outputs = np.max([np.abs(predictor.raw(x)) for x in samples], axis=0)
        sizes[mapping.output] = np.minimum(sizes[mapping.output], _at_most_one(outputs))
    sizes[milp.integer] = 1.0
    if instance.stated is not instance:
        sizes = instance.extend(variable_sizes(instance.stated), rest=sizes)
    return sizes


def _at_most_one(sizes: ndarray) -> ndarray:
    """The sizes in (0, 1); 1 instead of all others, also of NaN, infinity and 0."""
    return np.where((sizes > 0) & (sizes < 1), sizes, 1.0)


class Units:
    """Units of the constraints and bounds of an instance: `verify` tolerates 1e-6 of each.

    The unit of a constraint is the largest of its sides and of its coefficients times the sizes of
    their variables. Constraints on integer variables alone, and bounds of integer and of fixed
    variables, are exact: verification tolerates rounding errors only.

    Parameters
    ----------
    instance
        The problem.
    tolerance
        Feasibility tolerance by which violations in these units are judged.

    Attributes
    ----------
    sizes
        Size of every variable.
    fixed
        Mask of the fixed variables that are no outputs.
    exact
        Mask of the variables whose bounds are exact.
    row
        Unit of every constraint; 0 for the exact ones.
    lower, upper
        Units of the bounds of every variable.
    """

    def __init__(self, instance: Instance, tolerance: float) -> None:
        milp = instance.milp
        self.milp = milp
        self.rounding = ROUNDING / tolerance
        self.sizes = variable_sizes(instance)
        self.fixed = (milp.lower == milp.upper) & ~instance.is_output
        self.exact = milp.integer | self.fixed
        self.coefficients = abs(milp.rows)
        self.side = finite_size(*milp.sides)
        bounded = np.isfinite(milp.lower) & np.isfinite(milp.upper)
        known = finite_size(milp.lower, milp.upper)
        self.max_term = np.where(bounded, np.inf, np.maximum(MAX_UNBOUNDED_TERM, known))
        self.row = self.coefficients.multiply(self.sizes).max(axis=1).toarray().ravel()
        self.row = np.maximum(self.row, self.side)
        n_stated = instance.stated.milp.n_rows
        self.row[n_stated:] = np.maximum(self.row[n_stated:], 1.0)  # SCIP's tolerance is absolute
        self.row[entries_per_row(milp, ~milp.integer) == 0] = 0.0
        finite = finite_size(np.stack([milp.lower, milp.upper]))
        rounding = self.rounding * (self.sizes + finite)
        units = np.where(self.exact, rounding, np.maximum(self.sizes, finite))
        self.lower, self.upper = units

    def rows(self, values: ndarray) -> ndarray:
        """Return the unit of every constraint at a point, with its rounding errors.

        Parameters
        ----------
        values
            Absolute values of the variables, or upper bounds of these.
        """
        terms = self.coefficients @ np.minimum(values, self.max_term) + self.side
        return self.row + self.rounding * terms + MIN_UNIT

    def objective(self, values: ndarray | float) -> float:
        """Return the unit of differences between objectives and bounds.

        Parameters
        ----------
        values
            A full assignment, or an objective.
        """
        milp = self.milp
        value = values if isinstance(values, float) else milp.objective(np.asarray(values))
        return max(abs(value), float((np.abs(milp.cost) * self.sizes).max(initial=0.0)))

"""Enumeration of the combinations of integer variables that the constraints allow.

One variable is added at a time, to all combinations at once. A combination is dropped if a
constraint on these variables alone cannot hold, whatever the values of the variables to come.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy import ndarray

from ..clock import check_time
from ..numerics import finite_size
from ..programs.scip import MILP

INTEGER_BOUND_TOLERANCE = 1e-9
"""A bound that is so near to an integer counts as that integer."""
ACTIVITY_ROUNDING = 1e-9
"""Rounding error of the activity of a constraint, relative to the sizes of its terms."""
CONTINUOUS_CONSTRAINT_SLACK = 2e-6
"""Twice what verification tolerates in a constraint with continuous variables."""
MAX_GROWTH = 16
"""Combinations, in multiples of the limit, that are written before constraints drop some."""


def integers_between(low: float, high: float) -> ndarray:
    """Return the integers between two bounds, as floats.

    >>> integers_between(-0.5, 2.0)
    array([0., 1., 2.])
    """
    first = math.ceil(low - INTEGER_BOUND_TOLERANCE)
    last = math.floor(high + INTEGER_BOUND_TOLERANCE)
    return np.arange(first, last + 1, dtype=float)


class DeterminingVariables(NamedTuple):
    """Integer variables that determine some network inputs, as one of them or by an equation.

    Attributes
    ----------
    at
        Positions of the integer variables.
    implied
        Positions of the inputs that equations determine.
    rows
        For each of these, its equation; all other variables in it are integer or fixed.
    """

    at: ndarray
    implied: ndarray
    rows: ndarray


class _Constraints(NamedTuple):
    """Constraints on the variables of an enumeration, with their weights.

    Column j of `least` and `most` bounds what the first j + 1 variables add, so that the constraint
    may still hold.
    """

    weights: ndarray
    least: ndarray
    most: ndarray


class AssignmentList:
    """Enumerates combinations of integer variables of one model.

    Parameters
    ----------
    milp
        The model.

    Examples
    --------
    >>> import pyscipopt
    >>> from ..programs.scip import read_model
    >>> m = pyscipopt.Model()
    >>> z, x = m.addMatrixVar(3, vtype="B"), m.addVar(ub=5)
    >>> _ = m.addCons(z.sum() == 1)
    >>> _ = m.addCons(x == 2 * z[0] + 3 * z[1])
    >>> listing = AssignmentList(read_model(m))
    >>> deciding = listing.determining_variables(np.array([3]))
    >>> deciding.at, listing.combinations(np.arange(3), most=8)
    (array([0, 1]), array([[0., 0., 1.],
           [0., 1., 0.],
           [1., 0., 0.]]))
    """

    def __init__(self, milp: MILP) -> None:
        self.milp = milp
        self.columns = milp.rows.tocsc()
        self._unfixed = milp.lower < milp.upper
        self._fixed = np.where(self._unfixed, 0.0, milp.lower)
        self._unfixed_in_row = entries_per_row(milp, self._unfixed)

    def _slack(self, rows: ndarray) -> ndarray:
        """More than verification tolerates in constraints with continuous variables; else 0."""
        matrix = self.milp.rows[rows]
        sides = finite_size(self.milp.row_lower[rows], self.milp.row_upper[rows])
        slack = CONTINUOUS_CONSTRAINT_SLACK * (sides + abs(matrix) @ (1.0 + np.abs(self._fixed)))
        return np.where(np.diff(matrix[:, ~self.milp.integer].indptr) > 0, slack, 0.0)

    def combinations(self, at: ndarray, most: float) -> ndarray | None:
        """Return the combinations of integer variables that the constraints on them allow.

        Parameters
        ----------
        at
            Positions of the k variables.
        most
            Largest number of combinations.

        Returns
        -------
        numpy.ndarray or None
            The m combinations, of shape (m, k); None if more than `most` are left after some
            variable.
        """
        constraints = self._constraints_on(at)
        found = np.zeros((1, 0))
        activity = np.zeros((1, len(constraints.weights)))
        for j, variable in enumerate(at.tolist()):
            check_time()
            values = integers_between(self.milp.lower[variable], self.milp.upper[variable])
            if len(found) * len(values) > MAX_GROWTH * most:
                return None
            added = np.tile(values, len(found))[:, None]
            found = np.hstack([np.repeat(found, len(values), axis=0), added])
            activity = np.repeat(activity, len(values), axis=0) + added * constraints.weights[:, j]
            within = (activity <= constraints.most[:, j]) & (activity >= constraints.least[:, j])
            allowed = within.all(axis=1)
            found = found[allowed]
            activity = activity[allowed]
            if len(found) > most:
                return None
        return found

    def _constraints_on(self, at: ndarray) -> _Constraints:
        """The constraints whose unfixed variables are all among these."""
        milp = self.milp
        rows, counts = np.unique(self.columns[:, at[self._unfixed[at]]].indices, return_counts=True)
        rows = rows[counts == self._unfixed_in_row[rows]]
        weights = milp.rows[rows][:, at].toarray() * self._unfixed[at]
        terms = [weights * milp.lower[at], weights * milp.upper[at]]
        minimum, maximum = np.sort(terms, axis=0)
        fixed = milp.rows[rows] @ self._fixed
        size = 1.0 + np.abs(fixed) + np.abs(terms).max(axis=0).sum(axis=1)
        slack = ACTIVITY_ROUNDING * size + self._slack(rows)
        return _Constraints(
            weights,
            (milp.row_lower[rows] - fixed - slack)[:, None] - _sums_of_later(maximum),
            (milp.row_upper[rows] - fixed + slack)[:, None] - _sums_of_later(minimum),
        )

    def determining_variables(self, inputs: ndarray) -> DeterminingVariables | None:
        """Return the integer variables that determine these network inputs.

        Parameters
        ----------
        inputs
            Positions of the inputs.

        Returns
        -------
        DeterminingVariables or None
            None if an input is continuous and no equation determines it by integers.
        """
        integer = self.milp.integer[inputs]
        at = set(inputs[integer].tolist())
        implied = inputs[~integer]
        rows = []
        for variable in implied.tolist():
            equation = self._equation_for(variable)
            if equation is None:
                return None
            row, others = equation
            rows.append(row)
            at.update(others.tolist())
        positions = np.array(sorted(at), dtype=int)
        return DeterminingVariables(positions, implied.astype(int), np.array(rows, dtype=int))

    def _equation_for(self, variable: int) -> tuple[int, ndarray] | None:
        """The first equation of a variable whose other unfixed variables, returned too, are
        integer.
        """
        milp = self.milp
        for row in indices_of(self.columns, variable).tolist():
            members = indices_of(milp.rows, row)
            others = members[(members != variable) & self._unfixed[members]]
            if milp.row_lower[row] == milp.row_upper[row] and milp.integer[others].all():
                return row, others
        return None

    def assignments(
        self, deciding: DeterminingVariables, values: ndarray, base: ndarray
    ) -> ndarray:
        """Return full assignments with these combinations and the inputs that they imply.

        Parameters
        ----------
        deciding
            The integer variables and the inputs that they imply.
        values
            The m combinations of the integer variables.
        base
            Full assignment of all n variables, for the others.

        Returns
        -------
        numpy.ndarray
            Of shape (m, n).
        """
        found = np.tile(base, (len(values), 1))
        found[:, deciding.at] = values
        for variable, row in zip(deciding.implied, deciding.rows, strict=True):
            weights = self.milp.rows[row].toarray().ravel()
            own = weights[variable]
            weights[variable] = 0.0
            found[:, variable] = (self.milp.row_lower[row] - found @ weights) / own
        return found


def indices_of(matrix: sp.csr_matrix | sp.csc_matrix, k: int) -> ndarray:
    """Return where row k of a matrix by rows, or column k of one by columns, is not zero."""
    return matrix.indices[matrix.indptr[k] : matrix.indptr[k + 1]]


def entries_per_row(milp: MILP, variables: ndarray) -> ndarray:
    """Return how many of the variables in a mask each constraint has."""
    return np.diff(milp.rows[:, variables].tocsr().indptr)


def _sums_of_later(terms: ndarray) -> ndarray:
    """In column j the sum of the columns after j."""
    return terms.sum(axis=1, keepdims=True) - np.cumsum(terms, axis=1)

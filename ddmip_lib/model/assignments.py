"""All combinations of some whole variables that no row rules out: listed one variable at a time,
for all at once.
"""

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..clock import check_time
from ..programs.scip import MILP


def integers_between(low: float, high: float) -> np.ndarray:
    """The whole numbers between two bounds."""
    return np.arange(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1, dtype=float)


class DeterminingVariables(NamedTuple):
    """Whole variables `at` that decide some network inputs: as one of them, or by an equation.

    Input ``implied[i]`` is what row ``rows[i]`` makes it, whose other variables are whole or fixed.
    """

    at: np.ndarray
    implied: np.ndarray
    rows: np.ndarray


class AssignmentList:
    """Lists combinations of whole variables of one model.

    >>> import pyscipopt
    >>> from ..programs.scip import read_model
    >>> m = pyscipopt.Model()
    >>> z, x = m.addMatrixVar(3, vtype="B"), m.addVar(ub=5)
    >>> _ = m.addCons(z.sum() == 1)
    >>> _ = m.addCons(x == 2 * z[0] + 3 * z[1])
    >>> listing = AssignmentList(read_model(m))
    >>> deciding = listing.deciders(np.array([3]))
    >>> deciding.at, listing.combinations(np.arange(3), most=8)
    (array([0, 1]), array([[0., 0., 1.],
           [0., 1., 0.],
           [1., 0., 0.]]))
    """

    def __init__(self, s: MILP) -> None:
        self.milp = s
        self.moving = s.lower < s.upper
        self.columns = s.rows.tocsc()
        self.held = np.diff(s.rows[:, self.moving].tocsr().indptr)
        """How many variables of each row may move."""

    @cached_property
    def fixed(self) -> np.ndarray:
        """What the fixed variables add to each row."""
        fixed: np.ndarray = self.milp.rows @ np.where(self.moving, 0.0, self.milp.lower)
        return fixed

    @cached_property
    def room(self) -> np.ndarray:
        """More than `verify` forgives a row that also holds variables which are not whole; 0 for
        others.
        """
        s = self.milp
        sides = [np.where(np.isfinite(side), np.abs(side), 0.0) for side in s.sides]
        values = 1.0 + np.where(
            self.moving, 0.0, np.abs(np.where(np.isfinite(s.lower), s.lower, 0.0))
        )
        total: np.ndarray = 2e-6 * (np.maximum(*sides) + abs(s.rows) @ values)
        return np.where(np.diff(s.rows[:, ~s.integer].tocsr().indptr) > 0, total, 0.0)

    def rows_on(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows that hold these variables, and how many of them each."""
        spans = [
            self.columns.indices[self.columns.indptr[j] : self.columns.indptr[j + 1]] for j in at
        ]
        return np.unique(np.concatenate([[], *spans]).astype(int), return_counts=True)

    def combinations(self, at: np.ndarray, most: float) -> np.ndarray | None:
        """The combinations (m, k) of whole variables, or None where more than `most` are left at
        some point.

        One is ruled out where a row on these variables alone cannot hold.
        """
        s = self.milp
        rows, counts = self.rows_on(at[self.moving[at]])
        rows = rows[counts == self.held[rows]]
        weights = s.rows[rows][:, at].toarray() * self.moving[at]  # what is fixed counts as such
        products = weights * s.lower[at], weights * s.upper[at]
        ends = np.minimum(*products), np.maximum(*products)
        later = [end.sum(axis=1, keepdims=True) - np.cumsum(end, axis=1) for end in ends]
        slack = (
            1e-9 * (1.0 + np.abs(self.fixed[rows]) + np.maximum(*map(np.abs, ends)).sum(axis=1))
            + self.room[rows]
        )
        low = s.row_lower[rows] - self.fixed[rows] - slack
        high = s.row_upper[rows] - self.fixed[rows] + slack
        found = np.zeros((1, 0))
        sums = np.zeros((1, len(rows)))
        for j, variable in enumerate(at.tolist()):
            check_time()
            values = integers_between(s.lower[variable], s.upper[variable])
            if len(found) * len(values) > 16 * most:  # before rows rule any of them out
                return None
            found = np.hstack(
                [np.repeat(found, len(values), axis=0), np.tile(values, len(found))[:, None]]
            )
            sums = np.repeat(sums, len(values), axis=0) + found[:, -1:] * weights[:, j]
            keep = ((sums + later[0][:, j] <= high) & (sums + later[1][:, j] >= low)).all(axis=1)
            found = found[keep]
            sums = sums[keep]
            if len(found) > most:
                return None
        return found

    def deciders(self, inputs: np.ndarray) -> DeterminingVariables | None:
        """The whole variables that decide these inputs, or None where one is continuous and no
        equation gives it.
        """
        s = self.milp
        whole = s.integer[inputs]
        at = set(inputs[whole].tolist())
        implied = []
        rows = []
        for variable in inputs[~whole].tolist():
            for row in self.rows_on(np.array([variable]))[0].tolist():
                held = s.rows.indices[s.rows.indptr[row] : s.rows.indptr[row + 1]]
                rest = held[(held != variable) & self.moving[held]]
                if s.row_lower[row] == s.row_upper[row] and s.integer[rest].all():
                    at.update(rest.tolist())
                    implied.append(variable)
                    rows.append(row)
                    break
            else:
                return None
        return DeterminingVariables(
            np.array(sorted(at), dtype=int), np.array(implied, dtype=int), np.array(rows, dtype=int)
        )

    def assignments(
        self, deciding: DeterminingVariables, values: np.ndarray, base: np.ndarray
    ) -> np.ndarray:
        """Full assignments (m, n): the base with these combinations, and the inputs that they
        imply.
        """
        found = np.tile(base, (len(values), 1))
        found[:, deciding.at] = values
        for variable, row in zip(deciding.implied, deciding.rows, strict=True):
            weights = self.milp.rows[row].toarray().ravel()
            own = weights[variable]
            weights[variable] = 0.0
            found[:, variable] = (self.milp.row_lower[row] - found @ weights) / own
        return found

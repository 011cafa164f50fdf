r"""A mixed-integer linear program as arrays, and lower bounds on its optimal value.

$$\min c^\top v + c_0 \quad\text{s.t.}\quad a \le A v \le b, \quad l \le v \le h, \quad
\text{some } v_j \text{ integer.}$$

For **every** vector $\mu$, one multiplier for each constraint, and every feasible $v$, weak duality
gives

$$c^\top v \;\ge\; \sum_i \begin{cases} \mu_i a_i & \mu_i \ge 0 \\ \mu_i b_i & \mu_i < 0 \end{cases}
\; + \; \sum_j \min_{l_j \le v_j \le h_j} (c - A^\top \mu)_j \, v_j .$$

with $0 \cdot \infty = 0$. A solver of linear programs only proposes $\mu$: its feasibility,
optimality and tolerances do not matter. The right-hand side is computed here and lowered by the
largest possible rounding error (Neumaier and Shcherbina, 2004); then $c_0$ is added. With $c = 0$,
a positive value proves that the program is infeasible.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy import ndarray
from numpy.typing import ArrayLike

from ..numerics import finite_size, gamma, power_of_two

UNDERFLOW_ERROR = 1e-300
"""More than all underflow errors together: each is below 1e-323 times a bound of a variable."""
OTHER_OPERATIONS = 8
"""Rounded operations of a bound besides the terms of its sum, at most."""


Entries = ndarray | Sequence[float]


class Rows(NamedTuple):
    """A sparse matrix in compressed rows, with the row of every entry besides.

    Attributes
    ----------
    row, column, weight
        Row, column and value of every entry, row by row.
    first
        The row pointer: where each row begins, and the number of entries at its end.
    """

    row: ndarray
    column: ndarray
    weight: ndarray
    first: ndarray

    @classmethod
    def of(cls, matrix: sp.csr_matrix) -> Self:
        """Return the nonzero entries of a matrix."""
        matrix = matrix.tocsr().copy()
        matrix.eliminate_zeros()
        row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        return cls(
            row,
            matrix.indices.astype(np.int64),
            matrix.data.astype(float),
            matrix.indptr.astype(np.int32),
        )

    def matrix(self, columns: int) -> sp.csr_matrix:
        """Return the matrix, with this number of columns."""
        return sp.csr_matrix((self.weight, self.column, self.first), (len(self.first) - 1, columns))

    def sums(self, values: ndarray) -> ndarray:
        """Return the sum over each row of `values`, one for each entry."""
        return np.bincount(self.row, values, len(self.first) - 1)


def stacked_rows(rows: Sequence[tuple[Entries, Entries]], columns: int) -> sp.csr_matrix:
    """Return the matrix with these rows, each given by the columns and values of its entries.

    Entries at the same place are added.

    >>> stacked_rows([([0, 2], [1.0, 3.0]), ([1, 1], [2.0, 5.0])], columns=3).toarray()
    array([[1., 0., 3.],
           [0., 7., 0.]])
    """
    column = np.concatenate([[], *(part for part, _ in rows)]).astype(int)
    value = np.concatenate([[], *(part for _, part in rows)])
    first = np.cumsum([0, *(len(part) for part, _ in rows)])
    matrix = sp.csr_matrix((value, column, first), (len(rows), columns))
    matrix.sum_duplicates()
    return matrix


@dataclass(frozen=True, eq=False)
class Program:
    """The program above.

    Attributes
    ----------
    cost, constant
        $c$ and $c_0$.
    rows, row_lower, row_upper
        $A$, $a$ and $b$: the linear constraints.
    lower, upper, integer
        $l$, $h$, and which variables are integer.

    Examples
    --------
    Minimise v0 + v1 over binary v with v0 + 2 v1 >= 1:

    >>> program = Program(
    ...     cost=np.array([1.0, 1.0]),
    ...     rows=Rows.of(sp.csr_matrix([[1.0, 2.0]])),
    ...     row_lower=np.array([1.0]),
    ...     row_upper=np.array([np.inf]),
    ...     lower=np.zeros(2),
    ...     upper=np.ones(2),
    ...     integer=np.array([True, True]),
    ... )
    >>> program.has_integer_cost
    True
    """

    cost: ndarray
    rows: Rows
    row_lower: ndarray
    row_upper: ndarray
    lower: ndarray
    upper: ndarray
    integer: ndarray
    constant: float = 0.0

    def within(self, lower: ndarray, upper: ndarray) -> "Program":
        """Return the program with other bounds of its variables."""
        return replace(self, lower=lower, upper=upper)

    def with_constraints(
        self, matrix: sp.csr_matrix, lower: ArrayLike, upper: ArrayLike
    ) -> "Program":
        """Return the program with the constraints lower <= matrix @ v <= upper added."""
        rows = sp.vstack([self.rows.matrix(len(self.cost)), matrix])
        return replace(
            self,
            rows=Rows.of(rows.tocsr()),
            row_lower=np.append(self.row_lower, lower),
            row_upper=np.append(self.row_upper, upper),
        )

    @property
    def binary(self) -> ndarray:
        """Which variables are integer with bounds 0 and 1."""
        return self.integer & (self.lower == 0) & (self.upper == 1)

    @property
    def units(self) -> ndarray:
        """Scale of each variable: a power of two near its largest finite bound, 1 for integers."""
        return np.where(self.integer, 1.0, power_of_two(finite_size(self.lower, self.upper)))

    @property
    def has_integer_cost(self) -> bool:
        """Whether the cost of every point, without the constant, is an integer."""
        used = self.cost != 0
        return bool(self.integer[used].all() and (self.cost == np.round(self.cost)).all())

    def lower_bound(self, multipliers: ndarray) -> float:
        """Return the lower bound on the cost that these multipliers prove.

        Parameters
        ----------
        multipliers
            One for each constraint; those that are not finite, or belong to an infinite side,
            count as 0.

        Returns
        -------
        float
            A bound that is valid despite rounding: the next integer where every cost is an integer,
            -inf where the multipliers prove no bound.

        Examples
        --------
        Minimise v0 + v1 over the unit square with v0 + 2 v1 >= 1:

        >>> program = Program(
        ...     cost=np.array([1.0, 1.0]),
        ...     rows=Rows.of(sp.csr_matrix([[1.0, 2.0]])),
        ...     row_lower=np.array([1.0]),
        ...     row_upper=np.array([np.inf]),
        ...     lower=np.zeros(2),
        ...     upper=np.ones(2),
        ...     integer=np.array([False, False]),
        ... )
        >>> round(program.lower_bound(np.array([0.5])), 9)
        0.5
        """
        bound = self._dual_value(self.cost, multipliers)
        if self.has_integer_cost and np.isfinite(bound):
            bound = float(np.ceil(bound))
        if not self.constant:
            return bound
        return float(np.nextafter(bound + self.constant, -np.inf))

    def proves_infeasible(self, multipliers: ndarray) -> bool:
        """Return whether these multipliers prove that the program is infeasible."""
        return self._dual_value(np.zeros_like(self.cost), multipliers) > 0

    def _dual_value(self, cost: ndarray, multipliers: ndarray) -> float:
        """Return the right-hand side of weak duality for this cost, rounded down."""
        mu = self._admissible(multipliers)
        side = np.where(mu > 0, self.row_lower, self.row_upper)
        with np.errstate(over="ignore", invalid="ignore"):
            below, above = self._reduced_costs(cost, mu)
            corners = product((below, above), (self.lower, self.upper))
            products = [_product(*corner) for corner in corners]
            parts = np.concatenate([_product(mu, side), np.min(products, axis=0)])
            rounding = gamma(len(parts) + OTHER_OPERATIONS) * np.abs(parts).sum()
            total = float(parts.sum() - rounding - UNDERFLOW_ERROR)
        return -np.inf if np.isnan(total) else total

    def _admissible(self, multipliers: ndarray) -> ndarray:
        """Set multipliers to 0 that are not finite, or belong to an infinite side."""
        mu = np.nan_to_num(multipliers, nan=0.0, posinf=0.0, neginf=0.0)
        mu[(mu > 0) & np.isinf(self.row_lower)] = 0.0
        mu[(mu < 0) & np.isinf(self.row_upper)] = 0.0
        return mu

    def _reduced_costs(self, cost: ndarray, mu: ndarray) -> tuple[ndarray, ndarray]:
        """Return bounds between which the exact reduced costs lie, whatever was rounded."""
        column = self.rows.column
        terms = self.rows.weight * mu[self.rows.row]
        size = np.bincount(column, np.abs(terms), len(cost)) + np.abs(cost)
        reduced = cost - np.bincount(column, terms, len(cost))
        error = gamma(len(mu) + OTHER_OPERATIONS) * size
        return reduced - error, reduced + error


def _product(factors: ndarray, values: ndarray) -> ndarray:
    """Return the products, where 0 times infinity is 0."""
    return factors * np.where(factors == 0, 0.0, values)

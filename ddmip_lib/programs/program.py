r"""A mixed-integer linear program as arrays, and bounds of it that no solver need be believed for.

$$\min c^\top v + c_0 \quad\text{s.t.}\quad a \le A v \le b, \quad l \le v \le h, \quad
\text{some } v_j \text{ whole.}$$

For **every** vector $\mu$, one multiplier for each row, weak duality gives

$$c^\top v \;\ge\; \sum_i \begin{cases} \mu_i a_i & \mu_i \ge 0 \\ \mu_i b_i & \mu_i < 0 \end{cases}
\; + \; \sum_j \min_{l_j \le v_j \le h_j} (c - A^\top \mu)_j \, v_j .$$

So a linear program's solver only proposes $\mu$; what it says of feasibility, optimality or
tolerances is not used. The right-hand side is computed here and lowered by what rounding can have
changed (Neumaier and Shcherbina, 2004). With $c = 0$, a positive value proves that no point exists.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from ..numerics import gamma

TINY = 1e-300  # more than all numbers together that may have been lost below the normal ones


class Rows(NamedTuple):
    """A sparse matrix as a list of its entries, row by row."""

    row: np.ndarray
    column: np.ndarray
    weight: np.ndarray
    first: np.ndarray  # where each row begins, and the end

    @classmethod
    def of(cls, matrix: sp.csr_matrix) -> Self:
        """The entries of a matrix that are not 0."""
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
        return sp.csr_matrix((self.weight, self.column, self.first), (len(self.first) - 1, columns))


@dataclass(frozen=True, eq=False)
class Program:
    """The program above.

    >>> one = np.ones(2)
    >>> Program(
    ...     one,
    ...     Rows.of(sp.csr_matrix([[1.0, 2.0]])),
    ...     one[:1],
    ...     one[:1] * np.inf,
    ...     0 * one,
    ...     one,
    ...     one > 0,
    ... ).whole
    True
    """

    cost: np.ndarray
    rows: Rows
    row_lower: np.ndarray
    row_upper: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    integer: np.ndarray
    constant: float = 0.0

    def within(self, lower: np.ndarray, upper: np.ndarray) -> "Program":
        """The same program in another box."""
        return replace(self, lower=lower, upper=upper)

    @property
    def whole(self) -> bool:
        """Whether the cost of every point is a whole number."""
        used = self.cost != 0
        return bool(self.integer[used].all() and (self.cost == np.round(self.cost)).all())

    def value(self, multipliers: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
        """A bound of the cost in a box, rounded down; -inf where these multipliers prove none.

        >>> one = np.ones(2)
        >>> rows = Rows.of(sp.csr_matrix([[1.0, 2.0]]))
        >>> program = Program(one, rows, one[:1], np.inf * one[:1], 0 * one, one, one > 1)
        >>> round(program.value(np.array([0.5]), program.lower, program.upper), 9)
        0.5
        """
        found = self._dual(self.cost, multipliers, lower, upper)
        if self.whole and np.isfinite(found):
            found = float(np.ceil(found))
        return float(np.nextafter(found + self.constant, -np.inf)) if self.constant else found

    def proves_empty(self, multipliers: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> bool:
        """Whether these multipliers prove that no point of the box keeps all rows."""
        return self._dual(np.zeros_like(self.cost), multipliers, lower, upper) > 0

    def _dual(
        self, cost: np.ndarray, multipliers: np.ndarray, lower: np.ndarray, upper: np.ndarray
    ) -> float:
        mu = np.nan_to_num(multipliers, nan=0.0, posinf=0.0, neginf=0.0)
        mu = np.where(
            (mu > 0) & np.isinf(self.row_lower) | (mu < 0) & np.isinf(self.row_upper), 0.0, mu
        )
        side = np.where(mu > 0, self.row_lower, self.row_upper)
        sides = mu * np.where(mu == 0, 0.0, side)
        with np.errstate(over="ignore", invalid="ignore"):
            terms = self.rows.weight * mu[self.rows.row]
            size = np.bincount(self.rows.column, np.abs(terms), len(cost)) + np.abs(cost)
            reduced = cost - np.bincount(self.rows.column, terms, len(cost))
            error = gamma(len(mu) + 8) * size
            below = reduced - error
            above = reduced + error
            ends = [_times(rate, end) for rate in (below, above) for end in (lower, upper)]
            parts = np.concatenate([sides, np.min(ends, axis=0)])
            total = float(parts.sum() - gamma(len(parts) + 8) * np.abs(parts).sum() - TINY)
        return -np.inf if np.isnan(total) else total


def _times(rate: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Products in which nothing times infinity is nothing."""
    return np.where(rate == 0, 0.0, rate * np.where(rate == 0, 0.0, end))

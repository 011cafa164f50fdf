"""Units in which the numbers of a program are about 1; as powers of two they round nothing."""

from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np
from numpy import ndarray

from ..numerics import power_of_two
from .program import Program


class Scales(NamedTuple):
    """Powers of two that bring variables, constraints and cost of a program to a size of about 1.

    Attributes
    ----------
    column, row
        Unit of every variable, and divisor of every constraint.
    cost
        Divisor of the cost.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from .program import Rows
    >>> one = np.ones(1)
    >>> rows = Rows.of(sp.csr_matrix([[32.0]]))
    >>> program = Program(2 * one, rows, 8 * one, np.inf * one, 0 * one, 4 * one, one > 1)
    >>> scaled = Scales.of(program, 4 * one).scaled(program)
    >>> scaled.cost, scaled.rows.weight, scaled.row_lower, scaled.upper
    (array([1.]), array([1.]), array([0.0625]), array([1.]))
    """

    column: ndarray
    row: ndarray
    cost: float

    @classmethod
    def of(cls, program: Program, column: ndarray) -> Self:
        """Return the scales that follow from units of the variables."""
        rows = program.rows
        largest = np.zeros(len(program.row_lower))
        np.maximum.at(largest, rows.row, np.abs(rows.weight * column[rows.column]))
        largest_cost = np.abs(program.cost * column).max(initial=0.0)
        return cls(column, power_of_two(largest), float(power_of_two(largest_cost)))

    def scaled(self, program: Program) -> Program:
        """Return the program in these units, without its constant."""
        rows = program.rows
        weight = rows.weight * self.column[rows.column] / self.row[rows.row]
        return replace(
            program,
            cost=program.cost * self.column / self.cost,
            rows=rows._replace(weight=weight),
            row_lower=program.row_lower / self.row,
            row_upper=program.row_upper / self.row,
            lower=program.lower / self.column,
            upper=program.upper / self.column,
            constant=0.0,
        )

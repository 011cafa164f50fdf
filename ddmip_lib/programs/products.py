r"""Products of variables as linear constraints, exact where one factor is integer.

A factor $x \in [l, u]$ is written in binary digits, $x = l + h \sum_k 2^k b_k + r$ with
$0 \le r \le h$. An integer factor has $h = 1$ and $r = 0$. The products $b_k y$ are exact by four
constraints each; $r y$ lies between the linear bounds of McCormick, whose error is at most a
quarter of $h$ times the width of $y$.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from ..numerics import EPSILON
from .scip import Quadratic

MAX_INTEGER_DIGITS = 16
"""Digits of an integer factor, at most."""
CONTINUOUS_DIGITS = 14
"""Digits of a continuous factor."""
TANGENTS = 17
"""Tangents that bound a square from below."""
Terms = list[tuple[int, float]]
"""Positions of variables and their coefficients in a sum."""
AddVariable = Callable[[float, float, bool], int]
AddConstraint = Callable[[Sequence[int], Sequence[float], float, float], None]


class Digits(NamedTuple):
    """A variable as a sum of binary digits and a remainder.

    Attributes
    ----------
    factor
        Position of the variable.
    start, step
        $l$ and $h$.
    binaries
        Positions of the digits, the smallest first.
    remainder
        Position of $r$; None if it is 0.
    """

    factor: int
    start: float
    step: float
    binaries: list[int]
    remainder: int | None

    def set(self, values: ndarray) -> None:
        """Set the digits of an integer variable in a full assignment, in place."""
        if self.binaries != [self.factor]:
            number = round(values[self.factor] - self.start)
            places = np.arange(len(self.binaries))
            values[self.binaries] = (number >> places) & 1


class ProductWriter:
    """Products of the variables of a program, which gets variables and constraints for them.

    Parameters
    ----------
    add_variable
        Adds a variable with its bounds, and whether it is integer; returns its position.
    add_constraint
        Adds the constraint low <= weights'v <= high.
    lower, upper, integer
        Bounds of the variables that may be factors, and which are integer.

    Attributes
    ----------
    digits
        The factors that were expanded, by position.
    binary_products
        Positions of each product of a digit and a variable, of the digit and of the variable.
    """

    def __init__(
        self,
        add_variable: AddVariable,
        add_constraint: AddConstraint,
        lower: Sequence[float],
        upper: Sequence[float],
        integer: Sequence[bool] | ndarray,
    ) -> None:
        self.add_variable = add_variable
        self.add_constraint = add_constraint
        self.lower = lower
        self.upper = upper
        self.integer = integer
        self.digits: dict[int, Digits] = {}
        self.binary_products: list[tuple[int, int, int]] = []
        self._terms: dict[tuple[int, int], Terms] = {}

    def number_of_digits(self, factor: int) -> int:
        """Return how many binary digits a factor takes."""
        if not self.integer[factor]:
            return CONTINUOUS_DIGITS
        return int(self.upper[factor] - self.lower[factor]).bit_length()

    def quadratic(self, constraint: Quadratic, room: float = 0.0) -> None:
        """Write a quadratic constraint, relaxed by some room.

        Parameters
        ----------
        constraint
            The constraint; all its factors must have finite bounds.
        room
            Distance by which both sides move outwards.
        """
        terms = list(constraint.linear)
        for one, other, weight in constraint.products:
            terms += [(at, weight * each) for at, each in self.product(one, other)]
        positions = [at for at, _ in terms]
        weights = [weight for _, weight in terms]
        self.add_constraint(positions, weights, constraint.low - room, constraint.high + room)

    def complete(self, values: ndarray) -> None:
        """Set the added variables in a full assignment, in place, where all factors are integer."""
        for digits in self.digits.values():
            digits.set(values)
        for product, binary, other in self.binary_products:
            values[product] = values[binary] * values[other]

    def product(self, one: int, other: int) -> Terms:
        """Return a product of two variables as a sum."""
        factor, second = sorted((one, other), key=self._rank)
        if (factor, second) not in self._terms:
            self._terms[factor, second] = self._product(self._expanded(factor), second)
        return self._terms[factor, second]

    def _rank(self, variable: int) -> tuple[bool, int, int]:
        """Order of variables as factors: integer ones first, those of few digits before others."""
        return not self.integer[variable], self.number_of_digits(variable), variable

    def _expanded(self, factor: int) -> Digits:
        """The digits of a variable, which are written when they are first needed."""
        if factor not in self.digits:
            self.digits[factor] = self._digits(factor)
        return self.digits[factor]

    def _digits(self, factor: int) -> Digits:
        low = float(self.lower[factor])
        width = float(self.upper[factor]) - low
        count = self.number_of_digits(factor)
        if self.integer[factor] and (low, width) == (0.0, 1.0):
            return Digits(factor, 0.0, 1.0, [factor], None)
        binaries = [self.add_variable(0.0, 1.0, True) for _ in range(count)]
        step = 1.0
        remainder = None
        if not self.integer[factor]:
            step = width / 2**count
            remainder = self.add_variable(0.0, step, False)
        weights = [step * 2.0**k for k in range(count)]
        rest = [] if remainder is None else [remainder]
        positions = [*binaries, *rest, factor]
        weights += [*[1.0] * len(rest), -1.0]
        error = 4 * EPSILON * max(abs(low), abs(low + width))  # of the width
        self.add_constraint(positions, weights, -low - error, -low + error)
        return Digits(factor, low, step, binaries, remainder)

    def _product(self, digits: Digits, other: int) -> Terms:
        """A variable that has digits, times another one."""
        terms = [(other, digits.start)]
        for k, binary in enumerate(digits.binaries):
            terms.append((self._binary_product(binary, other), digits.step * 2.0**k))
        if digits.remainder is not None:
            terms.append((self._bounded_product(digits.remainder, digits.step, other), 1.0))
        if digits.factor == other:
            self._add_tangents(other, terms)
        return terms

    def _binary_product(self, binary: int, other: int) -> int:
        """A variable that is the product of a binary and another variable."""
        if binary == other:
            return binary
        product = self._bounded_product(binary, 1.0, other)
        self.binary_products.append((product, binary, other))
        return product

    def _bounded_product(self, factor: int, width: float, other: int) -> int:
        """A variable between the bounds of McCormick for a factor in [0, width] times another
        variable.
        """
        low = float(self.lower[other])
        high = float(self.upper[other])
        ends = width * min(low, 0.0), width * max(high, 0.0)
        product = self.add_variable(*ends, False)
        self.add_constraint([product, factor], [1.0, -low], 0.0, np.inf)
        self.add_constraint([product, factor], [1.0, -high], -np.inf, 0.0)
        with_all = [product, factor, other]
        self.add_constraint(with_all, [1.0, -high, -width], -width * high, np.inf)
        self.add_constraint(with_all, [1.0, -low, -width], -np.inf, -width * low)
        return product

    def _add_tangents(self, variable: int, square: Terms) -> None:
        """Bound the square of a variable, given as a sum, from below by tangents."""
        positions = [*(at for at, _ in square), variable]
        weights = [weight for _, weight in square]
        for at in np.linspace(self.lower[variable], self.upper[variable], TANGENTS).tolist():
            self.add_constraint(positions, [*weights, -2.0 * at], -at * at, np.inf)

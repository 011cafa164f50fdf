"""Matrices of variables, numbers and linear expressions, and the variables that replace them in a
model.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy import ndarray
from pyscipopt import Expr, Model, Variable

from ..errors import ProblemError
from ..programs.scip import is_integral

Terms = list[tuple[Variable, float]]
"""Variables of a linear expression, each with its coefficient."""
NO_BOUND = 1e20
"""Absolute value from which SCIP takes a bound for infinite."""
MAX_WIDTHS_IN_MESSAGE = 8
"""How many row widths the message about a ragged matrix lists."""


def is_variable(entry: Any) -> bool:
    """Return whether an entry is a pyscipopt variable, and not an expression or a number.

    Parameters
    ----------
    entry : pyscipopt.Expr or float
        An entry of a matrix of inputs or outputs.

    Returns
    -------
    bool
        True for a variable only.
    """
    return hasattr(entry, "ptr")


def as_grid(entries: Any, name: str) -> ndarray:
    """Convert entries to a two-dimensional array of variables, expressions and numbers.

    Parameters
    ----------
    entries : array_like
        A matrix, a nested list, or a vector, which becomes a matrix of one row.
    name : str
        What error messages call the matrix.

    Returns
    -------
    numpy.ndarray
        An array of objects with two dimensions.

    Raises
    ------
    ProblemError
        If the entries are a mapping, empty, ragged, or have more than two dimensions.
    """
    if isinstance(entries, Mapping):
        raise ProblemError(
            f"{name} is a {type(entries).__name__}: pass its entries as a list, in the network's"
            " order."
        )
    grid = np.array(np.asarray(entries, dtype=object), dtype=object)
    if any(isinstance(entry, (list, tuple, ndarray)) for entry in grid.flat):
        widths = ", ".join(str(np.size(row)) for row in list(grid.flat)[:MAX_WIDTHS_IN_MESSAGE])
        raise ProblemError(
            f"{name} is ragged, its rows have {widths} entries: give all rows equally many."
        )
    if grid.ndim < 2:
        grid = grid.reshape(1, -1)
    if grid.ndim != 2:
        raise ProblemError(
            f"{name} must be a matrix of variables (samples, features); got {grid.ndim} dimensions."
        )
    if grid.size == 0:
        raise ProblemError(f"{name} is empty: a predictor needs at least one row and one column.")
    return grid


def linear_terms(entry: Any) -> tuple[Terms, float]:
    r"""Return the terms and the constant of a variable, a number or an expression $a^\top v + c$.

    Parameters
    ----------
    entry : pyscipopt.Expr or float
        A variable, a linear expression or a number.

    Returns
    -------
    terms : list of (pyscipopt.Variable, float)
        Variables with their nonzero coefficients.
    constant : float
        The constant term.

    Raises
    ------
    ProblemError
        If the expression is not linear.
    """
    if is_variable(entry):
        return [(entry, 1.0)], 0.0
    if not isinstance(entry, Expr):
        return [], float(entry)
    if entry.degree() > 1:
        raise ProblemError(
            f"input {entry} is not linear: pass a variable z with finite bounds, and add z =="
            " (that)."
        )
    terms = []
    constant = 0.0
    for term, coefficient in entry.terms.items():
        if not term.vartuple:
            constant += float(coefficient)
        elif coefficient:
            terms.append((term.vartuple[0], float(coefficient)))
    return terms, constant


def box(matrix: ndarray) -> tuple[ndarray, ndarray]:
    """Return the bounds of each entry that follow from the bounds of the variables.

    A missing bound, of an output of another network, is 1 beyond 0 or beyond the other bound.

    Parameters
    ----------
    matrix : numpy.ndarray
        Variables, linear expressions and numbers.

    Returns
    -------
    lower, upper : numpy.ndarray
        Smallest and largest values, of the shape of the matrix.
    """
    bounds = np.zeros((2, *matrix.shape))
    for cell, entry in np.ndenumerate(matrix):
        bounds[:, *cell] = _range(*linear_terms(entry))
    lower, upper = np.where(np.abs(bounds) < NO_BOUND, bounds, np.nan)
    lowest = np.fmin(upper, 0.0) - 1.0  # where one is NaN, the other
    highest = np.fmax(lower, 0.0) + 1.0
    return np.where(np.isnan(lower), lowest, lower), np.where(np.isnan(upper), highest, upper)


def _range(terms: Terms, constant: float) -> ndarray:
    """Smallest and largest value of a linear expression within the bounds of its variables."""
    ranges = [sorted((a * v.getLbOriginal(), a * v.getUbOriginal())) for v, a in terms]
    return constant + np.sum(ranges, axis=0)


def random_samples(lower: ndarray, upper: ndarray, count: int, rng: np.random.Generator) -> ndarray:
    """Return random points in the boxes of randomly chosen samples.

    Parameters
    ----------
    lower, upper : numpy.ndarray
        Bounds of the inputs of n samples, of shape (n, p).
    count : int
        Number of points.
    rng : numpy.random.Generator
        Source of the random numbers.

    Returns
    -------
    numpy.ndarray
        Points of shape (count, p).
    """
    sample = rng.integers(len(lower), size=count)
    fractions = rng.random((count, lower.shape[1]))
    return lower[sample] + (upper - lower)[sample] * fractions


def tie_expressions(model: Model, matrix: ndarray, name: str) -> ndarray:
    r"""Replace each expression by a new variable $z$ with the constraint $z = a^\top v + c$.

    A new variable has the bounds that follow from the present bounds of $v$, and is integer if
    $a$, $c$ and $v$ are. An expression that is just a variable or a number becomes that variable
    or number.

    Parameters
    ----------
    model : pyscipopt.Model
        The model that gets the new variables and constraints.
    matrix : numpy.ndarray
        Variables, linear expressions and numbers.
    name : str
        Start of the names of new variables and constraints.

    Returns
    -------
    numpy.ndarray
        A matrix of variables and numbers.
    """
    tied = matrix.copy()
    for (i, j), entry in np.ndenumerate(matrix):
        tied[i, j] = _tied(model, entry, f"{name}_{i}_{j}")
    return tied


def _tied(model: Model, entry: Any, name: str) -> Any:
    """The variable or number that replaces one entry."""
    terms, constant = linear_terms(entry)
    if not terms:
        return constant
    if constant == 0 and [a for _, a in terms] == [1.0]:
        return terms[0][0]
    lower, upper = _range(terms, constant)
    vtype = "C"
    if constant.is_integer() and all(is_integral(v) and a.is_integer() for v, a in terms):
        vtype = "B" if (lower, upper) == (0, 1) else "I"
    variable = model.addVar(name, vtype=vtype, lb=lower, ub=upper)
    model.addCons(variable == entry, name=name)
    return variable

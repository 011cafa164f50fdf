"""Matrices as users write them, of variables, numbers and linear expressions, and what they become
in a model.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from pyscipopt import Expr, Model

from ..errors import ProblemError
from ..programs.scip import is_integral


def is_variable(entry: Any) -> bool:
    """Whether an entry of a matrix is a pyscipopt variable, not an expression or a plain number."""
    return hasattr(entry, "ptr")


def as_grid(entries: Any, what: str) -> np.ndarray:
    """A two-dimensional object array of variables, expressions and numbers; a vector is one row."""
    if isinstance(entries, Mapping):
        raise ProblemError(
            f"{what} is a {type(entries).__name__}: pass its entries as a list, in the network's"
            " order."
        )
    grid = np.array(np.asarray(entries, dtype=object), dtype=object)
    if any(isinstance(entry, (list, tuple, np.ndarray)) for entry in grid.flat):
        widths = ", ".join(str(np.size(entry)) for entry in list(grid.flat)[:8])
        raise ProblemError(
            f"{what} is ragged, its rows have {widths} entries: give all rows equally many."
        )
    if grid.ndim < 2:
        grid = grid.reshape(1, -1)
    if grid.ndim != 2:
        raise ProblemError(
            f"{what} must be a matrix of variables (rows, features); got {grid.ndim} dimensions."
        )
    if grid.size == 0:
        raise ProblemError(f"{what} is empty: a predictor needs at least one row and one column.")
    return grid


def linear_terms(entry: Any) -> tuple[list[tuple[Any, float]], float]:
    r"""Variables with their coefficients, and the constant, of a variable, a number or $a^\top v +
    c$.
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
    terms = [(term.vartuple, float(factor)) for term, factor in entry.terms.items()]
    return [(held[0], a) for held, a in terms if held and a], sum(
        a for held, a in terms if not held
    )


def box(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest values that bounds leave to each entry of a matrix."""
    ends = np.zeros((2, *x.shape))
    for cell, entry in np.ndenumerate(x):
        terms, constant = linear_terms(entry)
        parts = [sorted((a * v.getLbOriginal(), a * v.getUbOriginal())) for v, a in terms]
        ends[:, *cell] = constant + np.sum(parts, axis=0)
    return ends[0], ends[1]


def tie_expressions(model: Model, x: np.ndarray, name: str) -> np.ndarray:
    r"""The same matrix with a new variable $z$, and the row $z = a^\top v + c$, in place of each
    expression.

    It has the bounds that follow from those that $v$ has now, and is integer where $a$, $c$ and $v$
    are. What is a variable or a number, though written as an expression, stays one.
    """
    tied = x.copy()
    for (i, j), entry in np.ndenumerate(x):
        terms, constant = linear_terms(entry)
        if not terms:
            tied[i, j] = constant
        elif [a for _, a in terms] == [1.0] and constant == 0:
            tied[i, j] = terms[0][0]
        else:
            (low,), (high,) = box(np.array([entry], dtype=object))
            whole = float(constant).is_integer() and all(
                is_integral(v) and float(a).is_integer() for v, a in terms
            )
            kind = "C" if not whole else "B" if (low, high) == (0, 1) else "I"
            tied[i, j] = model.addVar(f"{name}_{i}_{j}", vtype=kind, lb=low, ub=high)
            model.addCons(tied[i, j] == entry, name=f"{name}_{i}_{j}")
    return tied

"""Variables of a model by their names, and by the variables of a package that it comes from."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray
from pyscipopt import Model

from ..programs.scip import matrix_of
from .grid import is_variable
from .variables import Variables


def find_variables(model: Model, names: Any) -> Any:
    """Return the variable with a name, or an array of variables for an array of names.

    Parameters
    ----------
    model : pyscipopt.Model
        The model.
    names : str or array_like of str
        Names; variables stay.

    Raises
    ------
    TypeError
        If an entry is neither a name nor a variable.
    ProblemError
        If no variable, or more than one, has a name.
    """
    if is_variable(names):
        return names
    grid = np.array(names, dtype=object)
    if not all(isinstance(name, str) or is_variable(name) for name in grid.flat):
        raise TypeError(f"problem[...] takes names of variables, not {names!r}.")
    found = with_variables(model, grid)
    return found[()] if grid.ndim == 0 else matrix_of(found)


def with_variables(model: Model, grid: ndarray) -> ndarray:
    """Return an array of objects with variables in the place of names."""
    variables = model.getVars()
    known = Variables([v.name for v in variables], {}, None)
    for cell, entry in np.ndenumerate(grid):
        if isinstance(entry, str):
            grid[cell] = variables[known.named(entry)]
    return grid


def own_variables(entries: Any, translated: Callable[[Any], Any] | None) -> Any:
    """Return nested entries with variables of the model in the place of translated ones.

    Parameters
    ----------
    entries : object
        A variable of another package, anything else, or nested lists and arrays of these.
    translated : callable or None
        Returns the variable for one of another package, None for anything else.
    """
    if translated is None:
        return entries
    if isinstance(entries, (list, tuple, ndarray)):
        return [own_variables(entry, translated) for entry in entries]
    own = translated(entries)
    return entries if own is None else own

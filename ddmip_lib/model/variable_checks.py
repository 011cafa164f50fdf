"""Checks of the variables that a new network connects."""

from numbers import Real

import numpy as np
from numpy import ndarray
from pyscipopt import Expr, Model, Variable

from ..errors import ProblemError
from .grid import is_variable, linear_terms
from .predictor import Predictor


def check_variables(
    model: Model, predictors: list[Predictor], x: ndarray, y: ndarray, gives_class: bool
) -> None:
    """Raise an error if a matrix entry cannot be an input or an output of a new network.

    An input may be an output of a network, or of the new one.

    Parameters
    ----------
    model : pyscipopt.Model
        The model.
    predictors : list of Predictor
        The networks in the model.
    x, y : numpy.ndarray
        Inputs and outputs of the new network.
    gives_class : bool
        Whether the outputs are classes.

    Raises
    ------
    ProblemError
        If an entry does not fit.
    """
    existing = {v.ptr() for v in model.getVars()}
    outputs = {v.ptr() for p in predictors for v in p.outputs.flat}
    produced = {entry.ptr() for entry in y.flat if is_variable(entry)}
    for entry in x.flat:
        if not isinstance(entry, (Expr, Real)):
            raise ProblemError(
                f"input {entry!r} is no variable, linear expression or finite number: pass one."
            )
        terms, constant = linear_terms(entry)
        if not np.isfinite([constant, *(a for _, a in terms)]).all():
            raise ProblemError(f"input {entry} is not finite: pass finite numbers.")
        for variable, _ in terms:
            _require_own(variable, existing, "input")
            if variable.ptr() not in outputs | produced:
                if max(-variable.getLbOriginal(), variable.getUbOriginal()) >= model.infinity():
                    raise ProblemError(
                        f"input variable {variable.name} is unbounded: give it finite lb and ub."
                    )
            elif not is_variable(entry):
                raise ProblemError(
                    f"{variable.name} is an output of a network: pass it as an input by itself, or"
                    f" a variable with finite bounds and a constraint variable == {entry}."
                )
    for entry in y.flat:
        if not is_variable(entry):
            raise ProblemError(f"output {entry} must be a variable of this model.")
        _require_own(entry, existing, "output")
        if entry.ptr() in outputs:
            raise ProblemError(
                f"output variable {entry.name} is used twice: one variable for each output."
            )
        outputs.add(entry.ptr())
        if gives_class and entry.vtype() != "BINARY":
            raise ProblemError(
                f'{entry.name} carries a class and must be binary: add it with vtype="B".'
            )


def _require_own(variable: Variable, existing: set[int], role: str) -> None:
    """Raise an error if a variable is none of this model; a deleted one has no name."""
    if not variable.ptr():
        raise ProblemError(
            f"an {role} variable was deleted, or is of another model: use this model's own."
        )
    if variable.ptr() not in existing:
        raise ProblemError(
            f"{role} variable {variable.name} belongs to another model: use this model's own."
        )

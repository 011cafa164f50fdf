"""Checks of the variables that a new network connects."""

from numbers import Real
from typing import Any

import numpy as np
from pyscipopt import Expr, Model, Variable

from ..errors import ProblemError
from .grid import is_variable, linear_terms
from .predictor import Predictor


class VariableChecks:
    """Checks of a new network's variables, given those of the networks in the model."""

    def __init__(self, model: Model, predictors: list[Predictor]) -> None:
        self.infinity = model.infinity()
        self.existing = {v.ptr() for v in model.getVars()}
        self.outputs = {v.ptr() for p in predictors for v in p.outputs.flat}

    def check_input(self, entry: Any, produced: set[int]) -> None:
        """Raise an error if an entry cannot be an input.

        It may be an output of a network, or of the new one, whose addresses are `produced`.
        """
        if not isinstance(entry, (Expr, Real)):
            raise ProblemError(
                f"input {entry!r} is no variable, linear expression or finite number: pass one."
            )
        terms, constant = linear_terms(entry)
        if not np.isfinite([constant, *(a for _, a in terms)]).all():
            raise ProblemError(f"input {entry} is not finite: pass finite numbers.")
        for variable, _ in terms:
            self._require_own(variable, "input")
            if variable.ptr() not in self.outputs | produced:
                self._require_bounded(variable)
            elif not is_variable(entry):
                raise ProblemError(
                    f"{variable.name} is an output of a network: pass it as an input by itself, or"
                    f" a variable with finite bounds and a constraint variable == {entry}."
                )

    def _require_bounded(self, variable: Variable) -> None:
        lower = variable.getLbOriginal()
        upper = variable.getUbOriginal()
        if lower <= -self.infinity or upper >= self.infinity:
            raise ProblemError(
                f"input variable {variable.name} is unbounded: give it finite lb and ub."
            )

    def check_output(self, entry: Any) -> None:
        """Raise an error if an entry cannot be an output."""
        if not is_variable(entry):
            raise ProblemError(f"output {entry} must be a variable of this model.")
        self._require_own(entry, "output")
        if entry.ptr() in self.outputs:
            raise ProblemError(
                f"output variable {entry.name} is used twice: one variable for each output."
            )
        self.outputs.add(entry.ptr())

    def _require_own(self, variable: Variable, role: str) -> None:
        """Raise an error if a variable is none of this model; a deleted one has no name."""
        if not variable.ptr():
            raise ProblemError(
                f"an {role} variable was deleted, or is of another model: use this model's own."
            )
        if variable.ptr() not in self.existing:
            raise ProblemError(
                f"{role} variable {variable.name} belongs to another model: use this model's own."
            )

"""Positions of the variables of a user's model in a full assignment, and their values there."""

from collections import Counter
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy import ndarray
from pyscipopt import Expr, Model, Variable

from ..errors import ProblemError


@dataclass(frozen=True)
class Variables:
    """The variables of one model, in the order of `Model.getVars`.

    A copy for another process has names only.

    Attributes
    ----------
    names
        The variables' names.
    position
        Number of each variable by its address.
    model
        The model, kept alive so that no other model gets the addresses of its variables.
    """

    names: list[str]
    position: dict[int, int]
    model: Model | None

    def __reduce__(self) -> Any:
        return Variables, (self.names, {}, None)

    def at(self, values: Any, what: Any) -> Any:
        """Return the value of a variable, a name or an expression at a full assignment.

        Parameters
        ----------
        values : numpy.ndarray
            A full assignment.
        what : pyscipopt.Expr, str, float or array_like of these
            What to evaluate.

        Returns
        -------
        float or numpy.ndarray
            The value, or an array of values of the shape of `what`.

        Raises
        ------
        TypeError
            If `what` has no value.
        ProblemError
            If `what` is no variable of the model.
        """
        if isinstance(what, str):
            return float(values[self.named(what)])
        if isinstance(what, Expr):
            return self._evaluate(what, values)
        if isinstance(what, Real):
            return float(what)
        entries = np.asarray(what, dtype=object)
        if entries.ndim == 0:
            raise TypeError(
                f"{type(what).__name__} has no value: pass variables, names or linear expressions."
            )
        evaluated = [self.at(values, entry) for entry in entries.flat]
        return np.array(evaluated, dtype=float).reshape(entries.shape)

    def named(self, name: str) -> int:
        """Return the position of the only variable with this name.

        Parameters
        ----------
        name : str
            A variable's name.

        Returns
        -------
        int
            The position in a full assignment.

        Raises
        ------
        ProblemError
            If no variable, or more than one, has the name.
        """
        count = self.names.count(name)
        if count != 1:
            raise ProblemError(
                f"{count or 'no'} variables of the model are called {name!r}: give a name that one"
                " has."
            )
        return self.names.index(name)

    @property
    def keys(self) -> list[str]:
        """Distinct names: a name that several variables have is followed by the position."""
        count = Counter(self.names)
        return [name if count[name] == 1 else f"{name}#{i}" for i, name in enumerate(self.names)]

    def _evaluate(self, expression: Expr, values: ndarray) -> float:
        total = 0.0
        for term, coefficient in expression.terms.items():
            factors = [values[self._position(v)] for v in term.vartuple]
            total += coefficient * np.prod(factors)
        return float(total)

    def _position(self, variable: Variable) -> int:
        if variable.ptr() in self.position:
            return self.position[variable.ptr()]
        if self.position:
            remedy = "use that model's own."
        else:
            remedy = "read a loaded solution by name, solution['x']."
        raise ProblemError(f"{variable.name} is no variable of the model that was solved: {remedy}")

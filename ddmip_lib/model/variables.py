"""Lookup of variables and expressions of the user's model in a full assignment.

A full assignment is an array with a value for each variable, in the order of `Model.getVars`.
"""

from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy import ndarray
from pyscipopt import Expr, Model, Variable

from ..errors import ProblemError


@dataclass(frozen=True)
class Variables:
    """The variables of one model, which are looked up by object or by name.

    A pickled copy looks them up by name only, since objects do not exist in another process.

    Attributes
    ----------
    names
        Names in the order of `Model.getVars`.
    position
        Position of each variable in a full assignment; the key is its address, `Variable.ptr()`.
    model
        The model, and for a copy the one that it was copied from. The reference keeps them alive,
        since the addresses could be used again otherwise.
    """

    names: list[str]
    position: dict[int, int]
    model: Model | tuple[Model, Model] | None

    def __reduce__(self) -> Any:
        return Variables, (self.names, {}, None)

    def at(self, values: Any, what: Any) -> Any:
        """Return the value of a variable or expression at a full assignment.

        Parameters
        ----------
        values : numpy.ndarray
            A full assignment.
        what : pyscipopt.Expr, str, float or array_like of these
            Variables, names of variables, or polynomial expressions.

        Returns
        -------
        float or numpy.ndarray
            The value, or an array of values with the shape of `what`.

        Raises
        ------
        TypeError
            If `what` is of another type.
        ProblemError
            If a variable does not belong to the model, or a name is unknown or ambiguous.
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
            Name of a variable.

        Returns
        -------
        int
            Its position in a full assignment.

        Raises
        ------
        ProblemError
            If no variable, or more than one, has the name.
        """
        places = self._places.get(name, [])
        if len(places) != 1:
            raise ProblemError(
                f"{len(places) or 'no'} variables of the model are called {name!r}: give a name"
                " that one has."
            )
        return places[0]

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """The positions of each name."""
        places: dict[str, list[int]] = {}
        for position, name in enumerate(self.names):
            places.setdefault(name, []).append(position)
        return places

    def index(self, what: Variable | str) -> int:
        """Return the position of a variable, given itself or its name."""
        return self.named(what) if isinstance(what, str) else self._position(what)

    @property
    def keys(self) -> list[str]:
        """Unique keys: the name, followed by `#` and the position where variables share it."""
        return [
            name if len(self._places[name]) == 1 else f"{name}#{i}"
            for i, name in enumerate(self.names)
        ]

    def _evaluate(self, expression: Expr, values: ndarray) -> float:
        """The value of a polynomial, as the sum of its monomials."""
        total = 0.0
        for term, coefficient in expression.terms.items():
            factors = [values[self._position(v)] for v in term.vartuple]
            total += coefficient * np.prod(factors)
        return float(total)

    def _position(self, variable: Variable) -> int:
        """The position of a variable in a full assignment."""
        if variable.ptr() in self.position:
            return self.position[variable.ptr()]
        if self.position:
            remedy = "use that model's own."
        else:
            remedy = "read a loaded solution by name, solution['x']."
        raise ProblemError(f"{variable.name} is no variable of the model that was solved: {remedy}")

"""Where the variables of a user's model stand in a full assignment, and what they are worth
there.
"""

from collections import Counter
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from pyscipopt import Expr, Model

from ..errors import ProblemError


@dataclass(frozen=True)
class Variables:
    """The variables of one model, in the order of `Model.getVars`; a copy for another process knows
    names only.
    """

    names: list[str]
    position: dict[int, int]
    model: (
        Model | None
    )  #: Kept alive: another one could get its addresses, by which variables are known.

    def __reduce__(self) -> Any:
        return Variables, (self.names, {}, None)

    def at(self, values: Any, what: Any) -> Any:
        """The value of a variable, a name or an expression at a full assignment, or of an array of
        these.
        """
        if isinstance(what, str):
            return float(values[self.named(what)])
        if isinstance(what, Expr):
            return float(
                sum(
                    a * np.prod([values[self._of(v)] for v in t.vartuple])
                    for t, a in what.terms.items()
                )
            )
        if isinstance(what, Real):
            return float(what)
        entries = np.asarray(what, dtype=object)
        if entries.ndim == 0:
            raise TypeError(
                f"{type(what).__name__} has no value: ask for variables, names or linear"
                " expressions."
            )
        return np.array([self.at(values, entry) for entry in entries.flat], dtype=float).reshape(
            entries.shape
        )

    def named(self, name: str) -> int:
        """The position of the one variable with this name."""
        if (count := self.names.count(name)) != 1:
            raise ProblemError(
                f"{count or 'no'} variables of the model are called {name!r}: give a name that one"
                " has."
            )
        return self.names.index(name)

    def _of(self, variable: Any) -> int:
        if variable.ptr() in self.position:
            return self.position[variable.ptr()]
        remedy = (
            "use that model's own."
            if self.position
            else "a loaded solution is asked by name, solution['x']."
        )
        raise ProblemError(f"{variable.name} is no variable of the model that was solved: {remedy}")

    @property
    def keys(self) -> list[str]:
        """The names; where variables share one, their numbers are put behind it."""
        count = Counter(self.names)
        return [name if count[name] == 1 else f"{name}#{i}" for i, name in enumerate(self.names)]

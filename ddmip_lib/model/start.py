"""Where solvers start, as users say it: inputs of networks, or a point of the whole model."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import ProblemError
from .instance import Instance
from .predictor import Predictor
from .solution import Solution

Start = tuple[list[np.ndarray], dict[int, float]]
"""The inputs of each network, and by the variables' addresses all that is known beside them."""


def read_start(predictors: list[Predictor], read: Callable[[], Instance], given: tuple[Any, ...]) -> Start:
    """Of matrices of inputs, one for each network, or of one thing that describes a point: a `Solution`, a vector in
    the order of `Model.getVars`, or a dictionary by names; `read` reads the model where one is needed."""
    if len(given) == 1 and (isinstance(given[0], (Solution, Mapping)) or np.ndim(given[0]) == 1):
        instance = read()
        values = _point(instance, given[0])
        if values is not None:
            return _inputs(instance, values), dict(zip(instance.milp.position, values.tolist(), strict=True))
    arrays = [np.atleast_2d(np.array(values, dtype=float)) for values in given]
    expected = [p.inputs.shape for p in predictors]
    if [a.shape for a in arrays] != expected:
        raise ProblemError(f"the start has shapes {[a.shape for a in arrays]}, the predictors need {expected}.")
    if not all(np.isfinite(a).all() for a in arrays):
        raise ProblemError("the start contains NaN or infinity.")
    return arrays, {}


def _point(instance: Instance, given: Any) -> np.ndarray | None:
    """A full assignment, NaN where nothing is said, or None where inputs were given."""
    n, names = instance.milp.n_variables, instance.milp.names
    if isinstance(given, Solution):
        if given.values is None or given.variables is None or given.variables.names != names:
            raise ProblemError("this solution has no point of this model: start from one with the same variables.")
        return given.values.copy()
    if isinstance(given, Mapping):
        values = np.full(n, np.nan)
        for name, value in given.items():
            values[instance.variables.named(name)] = value
        return values
    if len(given) != n:
        return None
    if [p.inputs.shape for p in instance.predictors] == [(1, n)]:
        raise ProblemError(f"{n} numbers may be inputs or all variables: pass [[...]] for inputs, or values by name.")
    return np.array(given, dtype=float)


def _inputs(instance: Instance, values: np.ndarray) -> list[np.ndarray]:
    """The inputs of the networks at a point; an error names the one that it does not say."""
    s = instance.milp
    fixed = s.lower == s.upper
    values[fixed] = s.lower[fixed]
    for m in instance.maps:
        for at in m.index[~np.isfinite(m.at(values))][:1]:
            raise ProblemError(f"the start has no finite value for {s.names[at]}, which a network needs: give it one.")
    return instance.inputs(values)

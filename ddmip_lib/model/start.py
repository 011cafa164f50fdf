"""Where solvers start, as users say it: inputs of networks, or a point of the whole model."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import ProblemError
from .instance import Instance
from .predictor import Predictor
from .solution import Solution


def read_start(
    predictors: list[Predictor], read: Callable[[], Instance], given: tuple[Any, ...]
) -> tuple[list[np.ndarray], dict[int, float]]:
    """The inputs of each network, and by the variables' addresses all that is known beside them,
    from matrices of inputs, or from a `Solution`, a vector in the order of `Model.getVars` or a
    dictionary by names.
    """
    expected = [p.inputs.shape for p in predictors]
    if len(given) == 1 and (isinstance(given[0], (Solution, Mapping)) or np.ndim(given[0]) == 1):
        instance = read()
        values = _point(instance, given[0], expected)
        if values is not None:
            return instance.inputs(values), dict(
                zip(instance.milp.position, values.tolist(), strict=False)
            )
    arrays = [np.atleast_2d(np.array(values, dtype=float)) for values in given]
    if [a.shape for a in arrays] != expected:
        raise ProblemError(
            f"the start has shapes {[a.shape for a in arrays]}, the predictors need {expected}."
        )
    if not all(np.isfinite(a).all() for a in arrays):
        raise ProblemError("the start contains NaN or infinity.")
    return arrays, {}


def _point(instance: Instance, given: Any, expected: list[tuple[int, ...]]) -> np.ndarray | None:
    """A full assignment, NaN where nothing is said, or None where inputs were given."""
    s = instance.milp
    values = np.where(s.lower == s.upper, s.lower, np.nan)
    if isinstance(given, Solution):
        if given.values is None or given.variables is None or given.variables.names != s.names:
            raise ProblemError(
                "this solution has no point of this model: start from one with the same variables."
            )
        values = given.values.copy()
    elif isinstance(given, Mapping):
        for name, value in given.items():
            values[instance.variables.named(name)] = value
    elif len(given) != s.n_variables:
        return None
    elif expected == [(1, len(given))]:
        raise ProblemError(
            f"{len(given)} numbers may be inputs or all variables: pass [[...]], or values by name."
        )
    else:
        values = np.array(given, dtype=float)
    for at in (at for m in instance.maps for at in m.index[~np.isfinite(m.at(values))]):
        raise ProblemError(
            f"the start has no finite value for {s.names[at]}, which a network needs: give it one."
        )
    return values

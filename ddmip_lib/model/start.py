"""Starts as users give them: inputs of networks, or a point of the whole model."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from ..errors import ProblemError
from .instance import Instance
from .point_files import read_sol
from .predictor import Predictor
from .progress import logger
from .solution import Solution
from .text import counted


def read_start(
    predictors: list[Predictor], read: Callable[[], Instance], given: tuple[Any, ...]
) -> tuple[list[ndarray], dict[int, float]]:
    """Read the arguments of `NeuralMIP.set_start`.

    Parameters
    ----------
    predictors : list of Predictor
        The predictors of the problem.
    read : callable
        Returns the problem's `Instance`.
    given : tuple
        A matrix of inputs for each predictor; or one `Solution`, vector in the order of
        `Model.getVars`, mapping of names to values, or path of a file of these (.sol, .json).

    Returns
    -------
    inputs : list of numpy.ndarray
        The inputs of each predictor.
    point : dict of int to float
        Values of all variables by their addresses; empty where only inputs were given.

    Raises
    ------
    ProblemError
        If shapes do not fit, or a network input has no finite value.
    """
    expected = [p.inputs.shape for p in predictors]
    point: Any = given[0] if len(given) == 1 else None
    if isinstance(point, (str, os.PathLike)):
        point = _read_file(point, read())
    if isinstance(point, (Solution, Mapping)) or np.ndim(point) == 1:
        instance = read()
        values = _read_point(instance, point, expected)
        if values is not None:
            return instance.inputs(values), dict(
                zip(instance.milp.position, values.tolist(), strict=False)
            )
    arrays = [np.atleast_2d(np.array(values, dtype=float)) for values in given]
    shapes = [array.shape for array in arrays]
    if shapes != expected:
        raise ProblemError(f"the start has shapes {shapes}, the predictors need {expected}.")
    if not all(np.isfinite(array).all() for array in arrays):
        raise ProblemError("the start contains NaN or infinity.")
    return arrays, {}


def _read_file(path: str | os.PathLike[str], instance: Instance) -> Solution | dict[str, float]:
    """The point of a file; variables that a .sol file leaves out are 0."""
    if Path(path).suffix == ".json":
        return Solution.from_json(path)
    values = read_sol(path)
    unknown = sorted(values.keys() - instance.milp.names)
    if len(unknown) == len(values):
        raise ProblemError(
            f"{os.fspath(path)!r} gives a value to no variable of this model: pass a solution of a"
            " model with the same names."
        )
    if unknown:
        ignored = counted(len(unknown), "unknown name")
        logger.warning("%s: the start ignores %s, such as %s.", path, ignored, unknown[0])
    return {name: values.get(name, 0.0) for name in instance.milp.names}


def _read_point(instance: Instance, given: Any, expected: list[tuple[int, ...]]) -> ndarray | None:
    """A full assignment, NaN where no value was given; None for a vector of inputs."""
    milp = instance.milp
    if isinstance(given, Solution):
        keys = given.variables.keys if given.variables else None
        if given.values is None or keys != instance.variables.keys:
            raise ProblemError(
                "this solution has no point of this model: start from one with the same variables."
            )
        values = given.values.copy()
    elif isinstance(given, Mapping):
        values = np.where(milp.lower == milp.upper, milp.lower, np.nan)
        for name, value in given.items():
            values[instance.variables.named(name)] = value
    elif len(given) != milp.n_variables:
        return None
    elif expected == [(1, len(given))]:
        raise ProblemError(
            f"{len(given)} numbers may be inputs or all variables: pass [[...]], or values by name."
        )
    else:
        values = np.array(given, dtype=float)
    for mapping in instance.maps:
        missing = mapping.index[~np.isfinite(mapping.at(values))]
        if len(missing):
            raise ProblemError(
                f"the start has no finite value for {milp.names[missing[0]]}, which a network"
                " needs: give it one."
            )
    return values

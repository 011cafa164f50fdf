"""Points and results in files: SCIP's format .sol, and JSON without lost digits."""

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from ..errors import ProblemError

INFINITY = "float"
"""Key of the mapping that stands for a number that is not finite: ``{"float": "inf"}``."""
FIRST_SECTION = "# Columns"
"""Title, in files of HiGHS, before the values of the variables."""
NEXT_SECTIONS = ("# Rows", "# Dual", "# Basis")
"""Titles after them."""
HEADERS = ("solution status:", "objective value:")
"""Beginnings of the lines of SCIP that state no value."""


def plain(value: Any) -> Any:
    """Convert a value to what JSON can hold, with all digits.

    Parameters
    ----------
    value : object
        Numbers, texts, arrays, and mappings or sequences of these.

    Raises
    ------
    TypeError
        If there is anything else in it.

    Examples
    --------
    >>> plain({"a": np.arange(2), "b": (1.5, np.inf)})
    {'a': [0, 1], 'b': [1.5, {'float': 'inf'}]}
    """
    if isinstance(value, (ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not np.isfinite(value):
        return {INFINITY: str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"JSON cannot hold a {type(value).__name__}")


def _restored(entries: dict[str, Any]) -> Any:
    return float(entries[INFINITY]) if entries.keys() == {INFINITY} else entries


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a file of one JSON object whose values are `plain`.

    Parameters
    ----------
    path : path
        The file.

    Raises
    ------
    ProblemError
        If the file does not hold one.
    """
    try:
        record = json.loads(Path(path).read_text(), object_hook=_restored)
    except ValueError as error:
        raise ProblemError(f"{os.fspath(path)!r} is not JSON: {error}.") from error
    if not isinstance(record, dict):
        raise ProblemError(f"{os.fspath(path)!r} holds a {type(record).__name__}, not an object.")
    return record


def read_sol(path: str | os.PathLike[str]) -> dict[str, float]:
    """Read the values of variables from a .sol file of SCIP, Gurobi, CPLEX-like tools or HiGHS.

    Parameters
    ----------
    path : path
        The file. SCIP leaves out variables that are 0.

    Returns
    -------
    dict of str to float
        The values by name.

    Raises
    ------
    ProblemError
        If a line is not a name with a number.
    """
    values: dict[str, float] = {}
    lines = Path(path).read_text().splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith(FIRST_SECTION)]
    for line in lines[starts[0] + 1 if starts else 0 :]:
        if line.startswith(NEXT_SECTIONS):
            break
        if not line.strip() or line.startswith(("#", *HEADERS)):
            continue
        name, *rest = line.split()
        try:
            values[name] = float(rest[0])
        except (IndexError, ValueError) as error:
            raise ProblemError(
                f"{os.fspath(path)!r}: the line {line!r} is not a name and a number."
            ) from error
    return values


def write_sol(
    path: str | os.PathLike[str],
    names: Sequence[str],
    values: ndarray,
    status: str,
    objective: float,
) -> None:
    """Write a point in SCIP's format .sol, with all digits.

    Parameters
    ----------
    path : path
        The file.
    names : sequence of str
        Names of the variables.
    values : numpy.ndarray
        Their values.
    status : str
        Status of the solution.
    objective : float
        Objective of the point.

    Raises
    ------
    ProblemError
        If a name is not unique, empty or holds white space.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_sol(f"{folder}/x.sol", ["x", "y"], np.array([0.1, 2.0]), "optimal", 2.1)
    ...     read_sol(f"{folder}/x.sol")
    {'x': 0.1, 'y': 2.0}
    """
    for name, count in Counter(names).items():
        if count > 1 or len(name.split()) != 1:
            raise ProblemError(
                f"a .sol file cannot hold the name {name!r}: give every variable a name of its own"
                " without white space, or use to_json."
            )
    lines = [f"{name} {value!r}" for name, value in zip(names, values.tolist(), strict=True)]
    head = [f"solution status: {status}", f"objective value: {objective!r}"]
    Path(path).write_text("\n".join([*head, *lines, ""]))

"""A name for a problem, by which bounds find the problem that they were proved for."""

import hashlib
import secrets
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from pyscipopt import Model

from ..programs.scip import MILP
from .description import Description
from .predictor import Predictor

POINTS = (
    32  # at which each network is evaluated, besides the ends and the middle of its inputs' boxes
)
_own_names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
"""Of networks that cannot be described: each is different from all others, also from its twins."""


Place = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Of one network: its inputs as numbers of variables, -1 where they are constant; the constants;
its outputs.
"""


def digest_of(
    s: MILP, predictors: Sequence[Predictor], places: Sequence[Place], model: Callable[[], Model]
) -> str:
    """Equal for problems that are equal, in every process, and different where anything differs:
    rows, bounds, objective, other constraints, and the networks, by all that their code can reach
    and by values in their boxes.

    A network that `Description` cannot follow to the end has a name of its own, given at random and
    kept with it.
    """
    parts = hashlib.sha256()
    names = {predictor.net: name_of(predictor.net) for predictor in predictors}
    arrays = [s.cost, s.lower, s.upper, s.integer, s.row_lower, s.row_upper]
    arrays += [s.rows.data, s.rows.indices, s.rows.indptr]
    for predictor, (index, constant, output) in zip(predictors, places, strict=True):
        arrays += [index, constant, output]
        low, high = (np.where(index >= 0, end[index], constant) for end in (s.lower, s.upper))
        arrays += _signature(predictor.raw(points_in(low, high, (index >= 0) & s.integer[index])))
        parts.update(predictor.kind.encode() + names[predictor.net])
    for array in arrays:
        parts.update(
            repr((array.dtype.str, array.shape)).encode() + np.ascontiguousarray(array).tobytes()
        )
    parts.update(repr((s.sign, s.offset)).encode())
    if s.others:
        parts.update(repr(s.others).encode() + _constraints(model()))
    return parts.hexdigest()[:16]


def points_in(low: np.ndarray, high: np.ndarray, integer: np.ndarray) -> np.ndarray:
    """Some points of the boxes (n, p) of a network's rows: ends and middles, and points drawn by a
    fixed seed, also near the ends and the middle, half of them with integers where the inputs are
    integer.

    >>> points_in(np.zeros((1, 2)), np.ones((1, 2)), np.ones((1, 2), dtype=bool)).shape
    (35, 2)
    """
    rng = np.random.default_rng(0)
    rows = rng.integers(len(low), size=POINTS + 3)
    share = rng.random((POINTS + 3, low.shape[1]))
    share[:3] = [[0.0], [0.5], [1.0]]
    corner = share[3:11]
    near = share[11:19]
    corner[:] = np.round(corner)
    scale = 10.0 ** -rng.uniform(1.0, 9.0, (len(near), 1))
    near[:] = np.abs(rng.choice([0.0, 0.5, 1.0], near.shape) - scale * near)
    x = (1.0 - share) * low[rows] + share * high[rows]
    x[3::2] = np.where(integer[rows[3::2]], np.round(x[3::2]), x[3::2])
    return np.clip(x, low[rows], high[rows])


def _signature(values: np.ndarray) -> list[np.ndarray]:
    """Values up to what sums in another order may change: six digits, of the largest one and of all
    in its units, cut where no simple fraction lies.
    """
    size = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    with np.errstate(all="ignore"):
        return [
            np.array(f"{size:.5e}".encode()),
            np.floor(1e6 * (values / (size or 1.0)) + 0.3819660113),
        ]


def name_of(net: Any) -> bytes:
    """What distinguishes a network from others: all that its code can reach, and its own name where
    that is not all.
    """
    description = Description()
    found = description.of(net)
    if description.complete:
        return found
    return found + _own_names.setdefault(net, secrets.token_hex(16)).encode()


def _constraints(model: Model) -> bytes:
    """The text of a model: of constraints that are no rows, nothing else tells all numbers."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.cip"
        model.writeProblem(str(file), trans=False, genericnames=True, verbose=False)
        return file.read_bytes()

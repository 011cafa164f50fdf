"""Digests of problems, by which a bound is assigned to the problem that it was proved for."""

import secrets
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np
from numpy import ndarray
from pyscipopt import Model
from torch import nn

from ..programs.scip import MILP
from .description import Description
from .grid import random_samples
from .predictor import Predictor

RANDOM_POINTS = 32
"""Number of random points at which each network is evaluated."""
CUT_OFFSET = 0.3819660113
"""Shift of values in units of their sixth digit, so that no simple fraction lies at a cut."""
LARGEST_BOUND = 1e30
"""Bound of inputs that have none: outputs of other networks."""
HEX_DIGITS = 16
"""Length of a digest."""

_own_names: WeakKeyDictionary[nn.Module, bytes] = WeakKeyDictionary()
"""Random names of networks that cannot be described: each is different from all others."""

Place = tuple[ndarray, ndarray, ndarray]
"""Positions of a network's inputs, -1 where they are constant; the constants; positions of its
outputs.
"""


def digest_of(
    milp: MILP, predictors: Sequence[Predictor], places: Sequence[Place], model: Callable[[], Model]
) -> str:
    """Compute a digest that is equal in every process for equal problems only.

    It depends on linear constraints, bounds, objective, other constraints, and the networks: on
    the code and data that their evaluation may use, and on values in their boxes. A network that
    `Description` cannot follow completely is identified by a random name.

    Parameters
    ----------
    milp : MILP
        Constraints, bounds and objective.
    predictors : sequence of Predictor
        The networks.
    places : sequence of Place
        The variables of each network.
    model : callable
        Returns the model of SCIP; called if there are constraints that are not linear.

    Returns
    -------
    str
        Hexadecimal digits.
    """
    names = ("sign", "offset", "cost", "lower", "upper", "integer", "row_lower", "row_upper")
    parts = [getattr(milp, name) for name in names]
    parts += [milp.rows.data, milp.rows.indices, milp.rows.indptr]
    for predictor, place in zip(predictors, places, strict=True):
        parts += [predictor.kind, _name_of(predictor.net), *place]
        parts += _signature(milp, predictor, place)
    if milp.others:
        parts += [repr(milp.others), _text_of(model())]
    return Description().of(parts).hex()[:HEX_DIGITS]


def _signature(milp: MILP, predictor: Predictor, place: Place) -> tuple[str, ndarray]:
    """Values of a network at random points in the boxes of its samples, by a fixed seed, up to
    rounding: six digits of the largest one, and all relative to it.
    """
    index, constant, _ = place
    ends = np.clip([milp.lower, milp.upper], -LARGEST_BOUND, LARGEST_BOUND)
    lower, upper = np.where(index >= 0, ends[:, index], constant)
    points = random_samples(lower, upper, RANDOM_POINTS, np.random.default_rng(0))
    values = predictor.raw(points)
    size = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    with np.errstate(all="ignore"):
        return f"{size:.5e}", np.floor(1e6 * (values / (size or 1.0)) + CUT_OFFSET)


def _name_of(net: nn.Module) -> bytes:
    """The hash of a network's description, followed by a random name if that is not complete."""
    description = Description()
    found = description.of(net)
    if description.complete:
        return found
    return found + _own_names.setdefault(net, secrets.token_bytes())


def _text_of(model: Model) -> bytes:
    """A model in CIP format, which has all numbers of constraints that are not linear."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.cip"
        model.writeProblem(str(file), trans=False, genericnames=True, verbose=False)
        return file.read_bytes()

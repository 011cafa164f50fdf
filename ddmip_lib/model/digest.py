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
from .predictor import Predictor

RANDOM_POINTS = 32
"""Number of random points at which each network is evaluated."""
FIXED_FRACTIONS = np.array([[0.0], [0.5], [1.0]])
"""Positions of the other points in the box of the inputs, from lower to upper bounds."""
CORNERS = slice(3, 11)
"""Points that are moved to corners of the box."""
NEAR_SPECIAL = slice(11, 19)
"""Points that are moved close to bounds and midpoints."""
ROUNDED = slice(3, None, 2)
"""Points whose integer inputs are rounded."""
CUT_OFFSET = 0.3819660113
"""Shift of values in units of their sixth digit, so that no simple fraction lies at a cut."""
LARGEST_BOUND = 1e30
"""Bound of inputs that have none: outputs of other networks."""
HEX_DIGITS = 16
"""Length of a digest."""

_own_names: WeakKeyDictionary[nn.Module, str] = WeakKeyDictionary()
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
    names = {predictor.net: name_of(predictor.net) for predictor in predictors}
    parts = [
        milp.sign,
        milp.offset,
        milp.cost,
        milp.lower,
        milp.upper,
        milp.integer,
        milp.row_lower,
        milp.row_upper,
        milp.rows.data,
        milp.rows.indices,
        milp.rows.indptr,
    ]
    for predictor, place in zip(predictors, places, strict=True):
        values = predictor.raw(_points(milp, place))
        parts += [predictor.kind, names[predictor.net], *place, *_signature(values)]
    if milp.others:
        parts += [repr(milp.others), _text_of(model())]
    return Description().of(parts).hex()[:HEX_DIGITS]


def _points(milp: MILP, place: Place) -> ndarray:
    """The points at which a network is evaluated."""
    index, constant, _ = place
    variable = index >= 0
    lower = np.where(variable, np.maximum(milp.lower[index], -LARGEST_BOUND), constant)
    upper = np.where(variable, np.minimum(milp.upper[index], LARGEST_BOUND), constant)
    return points_in(lower, upper, variable & milp.integer[index])


def points_in(lower: ndarray, upper: ndarray, integer: ndarray) -> ndarray:
    """Return points in the boxes of a network's samples.

    They are bounds, midpoints and random points by a fixed seed, also close to bounds and
    midpoints; at every second point the integer inputs are integers.

    Parameters
    ----------
    lower, upper : numpy.ndarray
        Bounds of the inputs, of shape (n, p).
    integer : numpy.ndarray of bool
        Which inputs are integer.

    Returns
    -------
    numpy.ndarray
        Points of shape (35, p).

    Examples
    --------
    >>> points_in(np.zeros((1, 2)), np.ones((1, 2)), np.ones((1, 2), dtype=bool)).shape
    (35, 2)
    """
    rng = np.random.default_rng(0)
    n_fixed = len(FIXED_FRACTIONS)
    sample = rng.integers(len(lower), size=n_fixed + RANDOM_POINTS)
    fraction = rng.random((n_fixed + RANDOM_POINTS, lower.shape[1]))
    fraction[:n_fixed] = FIXED_FRACTIONS
    fraction[CORNERS] = np.round(fraction[CORNERS])
    near = fraction[NEAR_SPECIAL]
    exponent = -rng.uniform(1.0, 9.0, (len(near), 1))
    special = rng.choice([0.0, 0.5, 1.0], near.shape)
    fraction[NEAR_SPECIAL] = np.abs(special - 10.0**exponent * near)
    x = (1.0 - fraction) * lower[sample] + fraction * upper[sample]
    x[ROUNDED] = np.where(integer[sample][ROUNDED], np.round(x[ROUNDED]), x[ROUNDED])
    return np.clip(x, lower[sample], upper[sample])


def _signature(values: ndarray) -> tuple[str, ndarray]:
    """Values up to rounding: six digits of the largest one, and all relative to it."""
    size = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    with np.errstate(all="ignore"):
        return f"{size:.5e}", np.floor(1e6 * (values / (size or 1.0)) + CUT_OFFSET)


def name_of(net: nn.Module) -> bytes:
    """Return a name that distinguishes a network from others.

    Parameters
    ----------
    net : torch.nn.Module
        A network.

    Returns
    -------
    bytes
        The hash of its description, followed by a random name if that is not complete.
    """
    description = Description()
    found = description.of(net)
    if description.complete:
        return found
    return found + _own_names.setdefault(net, secrets.token_hex(16)).encode()


def _text_of(model: Model) -> bytes:
    """A model in CIP format, which has all numbers of constraints that are not linear."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.cip"
        model.writeProblem(str(file), trans=False, genericnames=True, verbose=False)
        return file.read_bytes()

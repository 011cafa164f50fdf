"""The user's model and its networks in units in which their numbers are about 1, for SCIP (see
`programs.scip_program`). SCIP's numerics are set before the first constraint.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy import ndarray
from pyscipopt import Model
from torch import nn

from ..bounds.activations import ACTIVATIONS
from ..bounds.layer import linear_layer
from ..model.instance import Instance
from ..numerics import power_of_two
from ..programs.scip import copy_model, set_quiet
from ..programs.scip_program import ScipProgram, write_milp
from .scip_run import Numerics, set_numerics

KEEP_UNITS = tuple(unit.layer for unit in ACTIVATIONS.values() if unit.switches)
"""Layers of activations whose values have the unit of their arguments."""


def scaled_model(
    instance: Instance, unit: ndarray | None, numerics: Numerics, seed: int
) -> ScipProgram:
    """Return the user's model with each variable in its unit.

    Parameters
    ----------
    instance
        The problem.
    unit
        Units of all variables. Without, or if not all constraints are linear, the model is copied
        as it is.
    numerics
        SCIP's numerics.
    seed
        Random seed.
    """
    milp = instance.milp
    if unit is None or milp.others:
        model = copy_model(instance.model, seed)
        set_numerics(model, numerics)
        return ScipProgram(model, model.getVars(), np.ones(milp.n_variables))
    model = Model()
    set_quiet(model, seed)
    set_numerics(model, numerics)
    return write_milp(model, milp, unit)


def units_of_variables(instance: Instance) -> ndarray:
    """Return the power of two nearest to the size of each variable's bounds; 1 for integers.

    All samples of a network's input have the same unit.
    """
    milp = instance.milp
    unit = milp.program.units
    columns = [column[column >= 0] for m in instance.maps for column in m.index.T]
    while True:
        before = unit.copy()
        for column in columns:
            if column.size:
                unit[column] = 1.0 if milp.integer[column].any() else unit[column].max()
        if (unit == before).all():
            return unit


def scaled_layers(
    layers: Sequence[nn.Module],
    into: ndarray,
    sizes: Sequence[ndarray],
    integer: ndarray,
) -> tuple[list[nn.Module], ndarray]:
    """Return the same network with inputs and units in other units.

    An activation that is linear on either side of 0 keeps a unit, others do not.

    Parameters
    ----------
    layers
        The layers: affine maps and activations.
    into
        Units of the inputs.
    sizes
        Largest absolute values of the units of every layer.
    integer
        Which outputs keep the unit 1.

    Returns
    -------
    layers, unit
        The layers, and the units of the outputs.

    Examples
    --------
    >>> layer = nn.Linear(1, 1).double().requires_grad_(False)
    >>> _ = layer.weight.fill_(8.0), layer.bias.fill_(0.0)
    >>> scaled, unit = scaled_layers([layer], np.array([0.5]), [np.array([4.0])], np.array([False]))
    >>> scaled[0].weight.item(), unit
    (1.0, array([4.]))
    """
    last = len(layers) - 1
    scaled: list[nn.Module] = []
    for k, (layer, size) in enumerate(zip(layers, sizes, strict=True)):
        if not isinstance(layer, nn.Linear):
            scaled.append(layer)
            into = into if isinstance(layer, KEEP_UNITS) else np.ones(len(into))
            continue
        out = np.ones(len(size))
        if k == last or isinstance(layers[k + 1], KEEP_UNITS):
            out = power_of_two(size)
        if k + 1 >= last:
            out = np.where(integer, 1.0, out)
        weight = layer.weight * torch.from_numpy(into / out[:, None])
        bias = layer.bias / torch.from_numpy(out)
        scaled.append(linear_layer(weight, bias))
        into = out
    return scaled, into

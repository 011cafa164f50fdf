"""The user's model written for SCIP in units in which variables, constraints and objective are
about 1.

SCIP treats numbers as equal that differ by its epsilon, drops smaller coefficients when a
constraint is created, and tolerates violations of 1e-6: none of this may depend on whether lengths
are in metres or in nanometres. All units are powers of two, so that nothing is rounded, and SCIP's
numerics are set before the first constraint.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from pyscipopt import Model, quicksum
from torch import nn

from ..bounds.activations import ACTIVATIONS
from ..bounds.layer import linear_layer
from ..model.instance import Instance
from ..numerics import power_of_two
from ..programs import Program
from ..programs.program import largest_finite
from ..programs.scip import (
    add_rows,
    add_variables,
    copy_model,
    matrix_of,
    set_quiet,
    solution_values,
)
from .scip_run import Numerics, set_numerics

KEEP_UNITS = tuple(unit.layer for unit in ACTIVATIONS.values() if unit.switches)
"""Layers of activations whose values have the unit of their arguments."""


@dataclass(frozen=True, eq=False)
class ScaledModel:
    """A model for SCIP in its own units.

    Attributes
    ----------
    model
        The model.
    variables
        Its variables that are the user's, in the same order.
    unit
        Unit of each of them.
    cost_unit, offset
        Unit of the objective, and what is added to it in the user's units.
    """

    model: Model
    variables: list[Any]
    unit: np.ndarray
    cost_unit: float = 1.0
    offset: float = 0.0

    def values(self, model: Model) -> np.ndarray:
        """Return the values of the user's variables in the best solution."""
        return solution_values(model, matrix_of(self.variables)) * self.unit

    @property
    def bound(self) -> float:
        """SCIP's bound in the user's units."""
        return float(self.model.getDualbound()) * self.cost_unit + self.offset


def scaled_model(
    instance: Instance, unit: np.ndarray | None, numerics: Numerics, seed: int
) -> ScaledModel:
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
        return ScaledModel(model, model.getVars(), np.ones(milp.n_variables))
    model = Model()
    set_quiet(model, seed)
    set_numerics(model, numerics)
    variables = add_variables(model, milp.lower / unit, milp.upper / unit, milp.integer, milp.names)
    cost = milp.cost * unit
    cost_unit = float(power_of_two(np.abs(cost).max(initial=0.0)))
    cost = cost / cost_unit
    objective = quicksum(c * variables[j] for j, c in enumerate(cost.tolist()) if c)
    model.setObjective(objective, "minimize" if milp.sign > 0 else "maximize")
    add_rows(model, variables, *_scaled_rows(milp.rows, unit, *milp.sides), milp.row_names)
    return ScaledModel(model, variables, unit, cost_unit, milp.offset)


def _scaled_rows(
    rows: sp.csr_matrix, unit: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[sp.csr_matrix, np.ndarray, np.ndarray]:
    """Return constraints on variables in these units, the largest coefficient of each about 1.

    Sides become one that differ by rounding errors only.
    """
    rows = (rows @ sp.diags(unit)).tocsr()
    largest = np.zeros(rows.shape[0])
    row = np.repeat(np.arange(len(largest)), np.diff(rows.indptr))
    np.maximum.at(largest, row, np.abs(rows.data))
    size = power_of_two(largest)
    low = low / size
    high = high / size
    with np.errstate(invalid="ignore"):  # a side that is missing
        tolerance = 1e-12 * np.maximum(1.0, np.abs(low))
        same = np.isfinite(low) & (low <= high) & (high - low <= tolerance)
        middle = 0.5 * (low + high)
    scaled = (sp.diags(1 / size) @ rows).tocsr()
    return scaled, np.where(same, middle, low), np.where(same, middle, high)


def add_program(written: ScaledModel, program: Program, rows: int) -> None:
    """Add what a program has beyond the user's model.

    Parameters
    ----------
    written
        The user's model, to which the program's bounds are added too.
    program
        The program, whose first variables are those of the model.
    rows
        Number of its first constraints that the model has already.
    """
    n = len(written.unit)
    size = power_of_two(np.maximum(np.abs(program.lower), np.abs(program.upper)))
    unit = np.where(program.integer, 1.0, size)
    unit[:n] = written.unit
    lower = program.lower / unit
    upper = program.upper / unit
    _change_bounds(written, lower[:n], upper[:n])
    new = add_variables(written.model, lower[n:], upper[n:], program.integer[n:])
    matrix = program.rows.matrix(len(unit))[rows:]
    sides = program.row_lower[rows:], program.row_upper[rows:]
    scaled = _scaled_rows(matrix, unit, *sides)
    add_rows(written.model, [*written.variables, *new], *scaled)


def _change_bounds(written: ScaledModel, lower: np.ndarray, upper: np.ndarray) -> None:
    """Give the user's variables these bounds, where they are finite."""
    model = written.model
    for variable, low, high in zip(written.variables, lower.tolist(), upper.tolist(), strict=True):
        if low > high:  # there is no point, and SCIP is to find that out
            add_rows(model, [variable], sp.csr_matrix([[1.0]]), np.array([low]), np.array([high]))
            continue
        if np.isfinite(low):
            model.chgVarLb(variable, low)
        if np.isfinite(high):
            model.chgVarUb(variable, high)


def units_of_variables(instance: Instance) -> np.ndarray:
    """Return the power of two nearest to the size of each variable's bounds; 1 for integers.

    All samples of a network's input have the same unit.
    """
    milp = instance.milp
    size = power_of_two(largest_finite(milp.lower, milp.upper))
    unit = np.where(milp.integer, 1.0, size)
    columns = [column[column >= 0] for m in instance.maps for column in m.index.T]
    before = None
    while before is None or (unit != before).any():
        before = unit.copy()
        for column in columns:
            if column.size:
                unit[column] = 1.0 if milp.integer[column].any() else unit[column].max()
    return unit


def scaled_layers(
    layers: Sequence[nn.Module],
    into: np.ndarray,
    sizes: Sequence[np.ndarray],
    whole: np.ndarray,
) -> tuple[list[nn.Module], np.ndarray]:
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
    whole
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
            out = np.where(whole, 1.0, out)
        weight = layer.weight * torch.from_numpy(into / out[:, None])
        bias = layer.bias / torch.from_numpy(out)
        scaled.append(linear_layer(weight, bias))
        into = out
    return scaled, into

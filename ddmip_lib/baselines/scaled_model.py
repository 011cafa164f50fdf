"""The user's model written anew for SCIP, in units in which variables, rows and objective are about
1.

SCIP calls numbers equal that differ by its epsilon, drops smaller coefficients when a row is made,
and forgives rows 1e-6: none of this may depend on whether lengths are in metres or in nanometres.
All units are powers of two, so that nothing is rounded, and SCIP's numerics are set before the
first row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from pyscipopt import Model, quicksum
from torch import nn

from ..bounds.layer import linear_layer
from ..model.instance import Instance
from ..numerics import power_of_two
from ..programs import Program
from ..programs.scip import add_rows, add_variables, copy_model, matrix_of, solution_values
from .scip_run import Numerics, set_numerics


@dataclass(frozen=True, eq=False)
class ScaledModel:
    """A model of SCIP, its variables in the order of the user's, and the unit of each one."""

    model: Model
    variables: list[Any]
    unit: np.ndarray
    cost_unit: float = 1.0
    offset: float = 0.0

    def values(self, model: Model) -> np.ndarray:
        """The user's variables in the best solution."""
        return solution_values(model, matrix_of(self.variables)) * self.unit

    @property
    def bound(self) -> float:
        """SCIP's bound in the user's units."""
        return float(self.model.getDualbound()) * self.cost_unit + self.offset


def scaled_model(
    instance: Instance, unit: np.ndarray | None, numerics: Numerics, seed: int
) -> ScaledModel:
    """The user's model with each variable in its unit; without units, or where constraints are no
    rows, as SCIP copies it.
    """
    s = instance.milp
    if unit is None or s.others:
        copied = copy_model(instance.model, seed)
        set_numerics(copied, numerics)
        return ScaledModel(copied, copied.getVars(), np.ones(s.n_variables))
    model = Model()
    model.hideOutput()
    model.setParam("misc/catchctrlc", False)
    model.setParam("randomization/randomseedshift", int(seed) % 2_000_000_000)
    set_numerics(model, numerics)
    variables = add_variables(model, s.lower / unit, s.upper / unit, s.integer, s.names)
    cost = s.cost * unit
    cost_unit = float(power_of_two(np.abs(cost).max(initial=0.0)))
    objective = quicksum(c * variables[j] for j, c in enumerate((cost / cost_unit).tolist()) if c)
    model.setObjective(objective, "minimize" if s.sign > 0 else "maximize")
    add_rows(model, variables, *_scaled_rows(s.rows, unit, *s.sides), s.row_names)
    return ScaledModel(model, variables, unit, cost_unit, s.offset)


def _scaled_rows(
    rows: sp.csr_matrix, unit: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[sp.csr_matrix, np.ndarray, np.ndarray]:
    """Rows on variables in these units, the largest coefficient of each about 1; sides that only
    rounding holds apart are one.
    """
    rows = (rows @ sp.diags(unit)).tocsr()
    largest = np.zeros(rows.shape[0])
    np.maximum.at(
        largest, np.repeat(np.arange(len(largest)), np.diff(rows.indptr)), np.abs(rows.data)
    )
    size = power_of_two(largest)
    low = low / size
    high = high / size
    with np.errstate(invalid="ignore"):  # a side that is missing
        same = (
            np.isfinite(low) & (low <= high) & (high - low <= 1e-12 * np.maximum(1.0, np.abs(low)))
        )
        middle = 0.5 * (low + high)
    return (
        (sp.diags(1 / size) @ rows).tocsr(),
        np.where(same, middle, low),
        np.where(same, middle, high),
    )


def add_program(written: ScaledModel, program: Program, rows: int) -> None:
    """Add what a program has beyond the model's variables and its first `rows`, each variable in
    its unit, and the bounds that it knows of the model's own variables.
    """
    n = len(written.unit)
    size = np.maximum(np.abs(program.lower), np.abs(program.upper))
    unit = np.concatenate([written.unit, np.where(program.integer, 1.0, power_of_two(size))[n:]])
    model = written.model
    ends = np.array([program.lower, program.upper]) / unit
    for variable, low, high in zip(written.variables, *ends[:, :n].tolist(), strict=True):
        if low > high:  # there is no point, and SCIP is to find that out
            add_rows(model, [variable], sp.csr_matrix([[1.0]]), np.array([low]), np.array([high]))
            continue
        if np.isfinite(low):
            model.chgVarLb(variable, low)
        if np.isfinite(high):
            model.chgVarUb(variable, high)
    variables = [
        *written.variables,
        *add_variables(model, ends[0, n:], ends[1, n:], program.integer[n:]),
    ]
    sides = program.row_lower[rows:], program.row_upper[rows:]
    add_rows(model, variables, *_scaled_rows(program.rows.matrix(len(unit))[rows:], unit, *sides))


def units_of_variables(instance: Instance) -> np.ndarray:
    """The power of two next to each box; 1 for whole numbers. Inputs of a network share one for
    each column.
    """
    s = instance.milp
    size = np.maximum(*(np.where(np.isfinite(end), np.abs(end), 0.0) for end in (s.lower, s.upper)))
    unit = np.where(s.integer, 1.0, power_of_two(size))
    before = None
    while before is None or (unit != before).any():
        before = unit.copy()
        for m in instance.maps:
            for column in m.index.T:
                mine = np.unique(column[column >= 0])
                if mine.size:
                    unit[mine] = 1.0 if s.integer[mine].any() else unit[mine].max()
    return unit


def scaled_layers(
    layers: Sequence[nn.Module], into: np.ndarray, sizes: Sequence[np.ndarray], whole: np.ndarray
) -> tuple[list[nn.Module], np.ndarray]:
    """The same function of inputs in units `into`, its units in ones of their own, and the units of
    its outputs.

    A ReLU passes a unit on, other activations do not. `sizes` are those of the values of every
    layer; outputs that are `whole` keep the unit 1.

    >>> layer = nn.Linear(1, 1).double().requires_grad_(False)
    >>> _ = layer.weight.fill_(8.0), layer.bias.fill_(0.0)
    >>> scaled, unit = scaled_layers([layer], np.array([0.5]), [np.array([4.0])], np.array([False]))
    >>> scaled[0].weight.item(), unit
    (1.0, array([4.]))
    """
    found: list[nn.Module] = []
    for k, (layer, size) in enumerate(zip(layers, sizes, strict=True)):
        if not isinstance(layer, nn.Linear):
            found.append(layer)
            into = into if isinstance(layer, nn.ReLU) else np.ones(len(into))
            continue
        after = layers[k + 1 : k + 2]
        out = (
            power_of_two(size) if not after or isinstance(after[0], nn.ReLU) else np.ones(len(size))
        )
        if k + 1 + len(after) == len(layers):
            out = np.where(whole, 1.0, out)
        weight = layer.weight * torch.from_numpy(into / out[:, None])
        bias = layer.bias / torch.from_numpy(out)
        found.append(linear_layer(weight, bias))
        into = out
    return found, into

"""The one place where arrays become variables, constraints and an objective of a SCIP model.

SCIP treats numbers as equal that differ by its epsilon, drops smaller coefficients when a
constraint is created, and tolerates violations of 1e-6: none of this may depend on whether lengths
are in metres or in nanometres. So a program can be written in units in which its variables,
constraints and objective are about 1. All units are powers of two, and nothing is rounded.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy import ndarray
from pyscipopt import Model, quicksum
from pyscipopt.scip import ExprCons

from ..clock import check_time
from .program import Program
from .scales import Scales
from .scip import MILP, change_bounds, solution_values


@dataclass(frozen=True, eq=False)
class ScipProgram:
    """A model of SCIP, some of whose variables are those of a program.

    Attributes
    ----------
    model
        The model.
    variables
        Its variables that are the program's, in the same order.
    unit
        Unit of each of them; None if nothing is scaled.
    cost_unit, offset
        Unit of the model's objective, and what is added to it.
    """

    model: Model
    variables: list[Any]
    unit: ndarray | None = None
    cost_unit: float = 1.0
    offset: float = 0.0

    def values(self, model: Model) -> ndarray:
        """Return the values of the variables in the best solution."""
        values = solution_values(model, self.variables)
        return values if self.unit is None else values * self.unit

    @property
    def bound(self) -> float:
        """SCIP's bound on the objective."""
        return float(self.model.getDualbound()) * self.cost_unit + self.offset

    def add(self, program: Program, known_rows: int = 0) -> list[Any]:
        """Add what a larger program has beyond this one, without its objective.

        Parameters
        ----------
        program
            The program. Its first variables are those of the model, which get its bounds.
        known_rows
            Number of its first constraints that the model has already.

        Returns
        -------
        list
            All variables of the program.
        """
        n = len(self.variables)
        if self.unit is not None:
            unit = program.units
            unit[:n] = self.unit
            program = _scaled(program, Scales.of(program, unit))
        change_bounds(self.model, self.variables, program.lower[:n], program.upper[:n])
        ends = program.lower[n:], program.upper[n:]
        new = add_variables(self.model, *ends, program.integer[n:])
        variables = [*self.variables, *new]
        rows = program.rows.matrix(len(variables))[known_rows:]
        sides = program.row_lower[known_rows:], program.row_upper[known_rows:]
        add_rows(self.model, variables, rows, *sides)
        return variables


def write_milp(model: Model, milp: MILP, unit: ndarray | None = None) -> ScipProgram:
    """Write variables, linear constraints and objective, without its constant, into a new model.

    Parameters
    ----------
    model
        The model.
    milp
        The program.
    unit
        Units of the variables, powers of two; None if nothing is to be scaled.
    """
    program = milp.program
    cost_unit = 1.0
    if unit is not None:
        scales = Scales.of(program, unit)
        program = _scaled(program, scales)
        cost_unit = scales.cost
    variables = add_variables(model, program.lower, program.upper, milp.integer, milp.names)
    rows = program.rows.matrix(len(variables))
    add_rows(model, variables, rows, program.row_lower, program.row_upper, milp.row_names)
    set_objective(model, variables, milp.sign * program.cost, milp.sign)
    return ScipProgram(model, variables, unit, cost_unit, milp.offset)


def model_of(milp: MILP) -> Model:
    """Build a model of SCIP from arrays.

    Parameters
    ----------
    milp : MILP
        Constraints, bounds and objective.

    Returns
    -------
    pyscipopt.Model
        A model with the same variables and constraints in the same order.
    """
    written = write_milp(Model(), milp)
    written.model.addObjoffset(written.offset)
    return written.model


def _scaled(program: Program, scales: Scales) -> Program:
    """Return a program in other units; two sides become one that differ by rounding errors only."""
    scaled = scales.scaled(program)
    lower, upper = joined_sides(scaled, 1e-12)
    return replace(scaled, row_lower=lower, row_upper=upper)


def joined_sides(program: Program, tolerance: float) -> tuple[ndarray, ndarray]:
    """Return the sides of all constraints, where two become one that differ by this tolerance.

    Parameters
    ----------
    program
        The program.
    tolerance
        The tolerance, relative to the side or, for smaller ones, to 1.
    """
    low = program.row_lower
    high = program.row_upper
    with np.errstate(invalid="ignore"):  # a side that is missing
        room = tolerance * np.maximum(1.0, np.abs(low))
        same = np.isfinite(low) & (low <= high) & (high - low <= room)
        middle = 0.5 * (low + high)
    return np.where(same, middle, low), np.where(same, middle, high)


def add_variables(
    model: Model,
    lower: ndarray,
    upper: ndarray,
    integer: ndarray,
    names: Sequence[str] = (),
) -> list[Any]:
    """Add variables to a model and return them.

    Parameters
    ----------
    model
        The model.
    lower, upper
        Bounds; infinite ones are none.
    integer
        Which variables are integer; those with bounds 0 and 1 are binary.
    names
        Names of all variables, or none.
    """
    binary = (lower == 0) & (upper == 1)
    kinds = np.where(~integer, "C", np.where(binary, "B", "I")).tolist()
    names = names or [""] * len(kinds)
    parts = zip(names, kinds, _finite_or_none(lower), _finite_or_none(upper), strict=True)
    return [model.addVar(name, vtype=kind, lb=low, ub=high) for name, kind, low, high in parts]


def _finite_or_none(values: ndarray) -> list[float | None]:
    return [value if np.isfinite(value) else None for value in values.tolist()]


def add_rows(
    model: Model,
    variables: Sequence[Any],
    rows: sp.csr_matrix,
    lower: ndarray,
    upper: ndarray,
    names: Sequence[str] = (),
) -> None:
    """Add the linear constraints lower <= rows @ variables <= upper to a model.

    Parameters
    ----------
    model
        The model.
    variables
        Its variables, one for each column of `rows`.
    rows, lower, upper
        The constraints; one without a finite side is left out.
    names
        Names of all constraints, or none.
    """
    names = names or [""] * rows.shape[0]
    sides = _finite_or_none(lower), _finite_or_none(upper)
    for activity, low, high, name in zip(_activities(rows, variables), *sides, names, strict=True):
        if low is not None and high is not None and low > high:
            # there is no point: SCIP finds that out from two constraints
            model.addCons(activity >= low, name=name)
            low = None
        if low is not None or high is not None:
            model.addCons(ExprCons(activity, low, high), name=name)


def _activities(rows: sp.csr_matrix, variables: Sequence[Any]) -> Iterator[Any]:
    """Yield rows @ variables, one expression after the other."""
    for first, end in itertools.pairwise(rows.indptr):
        check_time()
        terms = zip(rows.indices[first:end].tolist(), rows.data[first:end].tolist(), strict=True)
        yield quicksum(weight * variables[j] for j, weight in terms)


def set_objective(model: Model, variables: Sequence[Any], cost: ndarray, sign: float = 1.0) -> None:
    """Set the linear objective of a model: minimise the cost, or maximise it if the sign is -1."""
    terms = zip(cost.tolist(), variables, strict=True)
    objective = quicksum(c * variable for c, variable in terms if c)
    model.setObjective(objective, "minimize" if sign > 0 else "maximize")

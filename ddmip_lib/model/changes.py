"""Changes of a copied model of SCIP: sides of constraints, objective coefficients, bounds."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from pyscipopt import Constraint, Expr, Model, Variable, quicksum

from ..errors import ProblemError
from ..programs.scip import ROW_HANDLERS
from .variables import Variables

Pair = tuple[float, float]
Side = float | tuple[float | None, float | None]
"""A number, or a pair of numbers of which None leaves the old one."""
Changes = Mapping[str, Any] | Iterable[tuple[Any, Any]]
"""New numbers by name, or pairs of a variable or constraint with its new numbers."""


def change_model(
    model: Model,
    variables: Variables,
    rhs: Changes,
    cost: Changes,
    bounds: Changes,
) -> None:
    """Change sides of constraints, objective coefficients and bounds of a model.

    Parameters
    ----------
    model : pyscipopt.Model
        The model, which is not solved yet.
    variables : Variables
        Its variables by name and position.
    rhs : dict or list of pairs
        Sides by constraint or its name.
    cost : dict or list of pairs
        Objective coefficients by variable or its name.
    bounds : dict or list of pairs
        Bounds by variable or its name.

    Raises
    ------
    ProblemError
        If a name is unknown or shared, or a number does not fit.
    """
    columns = model.getVars()
    for key, side in _pairs(rhs):
        _change_sides(model, key if isinstance(key, str) else key.name, side)
    for key, interval in _pairs(bounds):
        _change_bounds(model, columns[variables.index(key)], interval)
    for key, value in _pairs(cost):
        if not np.isfinite(value):
            raise ProblemError(f"the objective coefficient of {key} must be a finite number.")
        term = float(value) * columns[variables.index(key)]
        model.setObjective(term, model.getObjectiveSense(), clear=False)  # type: ignore[arg-type]


def _pairs(changes: Changes) -> Iterable[tuple[Any, Any]]:
    return changes.items() if isinstance(changes, Mapping) else changes


def rewrite(model: Model, constraint: Constraint, sides: Pair, further: Any = 0.0) -> None:
    """Write a linear constraint again, with other sides and a further expression on its left.

    Parameters
    ----------
    model : pyscipopt.Model
        The model.
    constraint : pyscipopt.Constraint
        One of its linear constraints, which is replaced.
    sides : tuple of float
        Its new sides; infinite ones are left out.
    further : pyscipopt.Expr or float
        What is added to its left-hand side.
    """
    weights = model.getConsVals(constraint) or ()
    columns = model.getConsVars(constraint) or ()
    activity = quicksum(a * v for a, v in zip(weights, columns, strict=True)) + further
    name = constraint.name
    model.delCons(constraint)
    add_between(model, activity, sides, name)


def add_between(model: Model, activity: Expr, sides: Pair, name: str) -> None:
    """Add lower <= activity <= upper to a model."""
    lower, upper = _clipped(model, sides)
    model.addCons((activity >= lower) <= upper, name=name)


def _clipped(model: Model, pair: Pair) -> Any:
    """A pair of numbers with SCIP's infinity."""
    infinity = model.infinity()
    return np.clip(pair, -infinity, infinity).tolist()


def _change_sides(model: Model, name: str, side: Side) -> None:
    found = [c for c in model.getConss() if c.name == name]
    if len(found) != 1:
        raise ProblemError(
            f"{len(found) or 'no'} constraints of the model are called {name!r}: give a name that"
            " one has."
        )
    constraint = found[0]
    kind = constraint.getConshdlrName()
    if kind not in ROW_HANDLERS | {"nonlinear"}:
        raise ProblemError(
            f"constraint {name} is of the kind {kind}, which has no right-hand side: change the"
            " bounds of its variables, or build the model again."
        )
    old = (model.getLhs(constraint), model.getRhs(constraint))
    if not isinstance(side, tuple):
        finite = [abs(end) < model.infinity() for end in old]
        if all(finite) and old[0] != old[1]:
            raise ProblemError(
                f"constraint {name} has the two sides {old[0]:g} and {old[1]:g}: give a pair, with"
                " None for a side that stays."
            )
        side = (side if finite[0] else None, side if finite[1] else None)
    new = _interval(side, old, f"the sides of {name}")
    if kind in ROW_HANDLERS:
        rewrite(model, constraint, new)
        return
    lower, upper = _clipped(model, new)
    model.chgLhs(constraint, lower)
    model.chgRhs(constraint, upper)


def _change_bounds(model: Model, variable: Variable, interval: Side) -> None:
    name = variable.name
    if not isinstance(interval, tuple):
        interval = (interval, interval)
    old = (variable.getLbOriginal(), variable.getUbOriginal())
    lower, upper = _clipped(model, _interval(interval, old, f"the bounds of {name}"))
    if variable.vtype() == "BINARY" and (lower < 0 or upper > 1):
        raise ProblemError(f"variable {name} is binary: its bounds must lie between 0 and 1.")
    model.chgVarLb(variable, lower)
    model.chgVarUb(variable, upper)


def _interval(new: tuple[float | None, ...], old: Pair, what: str) -> Pair:
    """A pair with the old numbers in place of None."""
    if len(new) != 2:
        raise ProblemError(f"{what} are a pair (lower, upper), not {new!r}.")
    lower, upper = (float(kept if end is None else end) for end, kept in zip(new, old, strict=True))
    if not lower <= upper:
        raise ProblemError(f"{what} would be {lower:g} and {upper:g}: give lower <= upper.")
    return lower, upper

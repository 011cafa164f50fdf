"""Several plans: solutions of one problem that differ in variables that the user names."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy import ndarray
from pyscipopt import Model, Variable, quicksum

from ..clock import now
from ..errors import ProblemError
from ..model.instance import Instance
from ..model.problem import NeuralMIP
from ..model.solution import Solution
from ..model.verification import Verifier
from .solving import solve


class Plans(list[Solution]):
    """Solutions that differ in pairs, the best one first; printed as a table.

    Parameters
    ----------
    solutions
        The solutions.
    complete
        Whether it was proved that no further plan differs from all of these.
    reason
        Why there are no more of them.
    """

    def __init__(self, solutions: Sequence[Solution], complete: bool, reason: str) -> None:
        super().__init__(solutions)
        self.complete = complete
        self.reason = reason

    def __repr__(self) -> str:
        rows = [f"{i + 1:>4}  {s.objective:>12.6g}  {s.status}" for i, s in enumerate(self)]
        return "\n".join(["plan     objective  status", *rows, self.reason])


def solve_plans(
    problem: NeuralMIP,
    count: int,
    differ_in: Any = None,
    distance: float = 1.0,
    time_limit: float = 60.0,
    **keywords: Any,
) -> Plans:
    """Find several plans, of which any two differ in at least one of the named variables.

    Each plan is the solution of a copy of the problem with constraints that exclude the plans
    before it: exact ones for integer variables. The objective of an optimal plan is the best that
    is possible besides the plans found before it.

    Parameters
    ----------
    problem : NeuralMIP
        The problem, which is not changed.
    count : int
        Number of plans.
    differ_in : array_like, optional
        Variables or their names, with finite bounds; all integer variables that no network
        determines if left out.
    distance : float, default: 1.0
        By how much one of the variables must differ; for integers it is rounded up.
    time_limit : float, default: 60.0
        Seconds for all plans together.
    **keywords
        Further arguments of `solve`.

    Returns
    -------
    Plans
        At most `count` solutions of `problem`, each verified; their proofs hold for the copies.

    Raises
    ------
    ProblemError
        If there is no such variable, or one has no finite bounds.

    Examples
    --------
    >>> from ddmip_lib.problems import hand_sized
    >>> plans = solve_plans(hand_sized(), 3)
    >>> [round(plan.objective, 6) for plan in plans]
    [0.5, 1.5, 2.0]
    >>> plans[1]["x_0_0"], plans[1]["x_0_1"]
    (0.0, 0.0)
    """
    if not count >= 1 or not distance > 0:
        raise ValueError(f"count={count!r} and distance={distance!r} must be positive.")
    deadline = now() + time_limit
    instance = problem.stated_instance()
    named = _named_variables(instance, differ_in)
    work = problem.copied()
    columns = work.model.getVars()
    varied = [columns[i] for i in named]
    plans: list[Solution] = []
    complete = False
    reason = f"{count} plans were wanted."
    while len(plans) < count and not complete:
        seconds = (deadline - now()) / (count - len(plans))
        found = solve(work, seconds, **keywords)
        complete = found.status == "infeasible"
        if not found.found:
            reason = f"The search for plan {len(plans) + 1} ended with status {found.status}."
            break
        values = found[columns]
        plans.append(_plan_of(instance, found, values))
        complete = not _exclude(work.model, varied, values[named], distance, f"plan{len(plans)}")
        work.set_start(*found.inputs)
    if complete:
        reason = "No other plan is feasible."
    plans.sort(key=lambda plan: instance.milp.sign * plan.objective)  # type: ignore[operator]
    return Plans(plans, complete, reason)


def _named_variables(instance: Instance, differ_in: Any) -> list[int]:
    """The positions of the variables in which plans differ."""
    milp = instance.milp
    if differ_in is None:
        named = np.flatnonzero(milp.integer & ~instance.is_output).tolist()
    else:
        entries = np.asarray(differ_in, dtype=object)
        named = [instance.variables.index(entry) for entry in entries.flat]
    if not named:
        raise ProblemError("no variable is integer: name those in which plans differ (differ_in).")
    for at in named:
        if not np.isfinite(milp.upper[at] - milp.lower[at]):
            raise ProblemError(
                f"plans cannot differ in {milp.names[at]}, which is unbounded: give it finite"
                " bounds."
            )
    return named


def _plan_of(instance: Instance, found: Solution, values: ndarray) -> Solution:
    """The solution of a copy as one of the user's problem, verified there."""
    check = Verifier(instance).check(values)
    if not check.feasible:
        raise ProblemError(f"a plan fails in the model without exclusions: {check.worst}.")
    return replace(
        found,
        objective=check.objective,
        values=values,
        verification=check,
        variables=instance.variables,
    )


def _exclude(
    model: Model, variables: list[Variable], values: ndarray, distance: float, plan: str
) -> bool:
    """Add constraints that exclude a plan; return False if no variable can differ by its distance.

    At least one variable is by its distance above or below its value in the plan: binaries do so
    by themselves, others have a binary for each side.
    """
    changes = []
    for variable, value in zip(variables, values.tolist(), strict=True):
        changes += _changes(model, variable, value, distance, f"{plan}_{variable.name}")
    if changes:
        model.addCons(quicksum(changes) >= 1, name=f"differs_from_{plan}")
    return bool(changes)


def _changes(
    model: Model, variable: Variable, value: float, distance: float, name: str
) -> list[Any]:
    """Binary expressions, of which one is 1 only if the variable differs from the value."""
    lower = variable.getLbOriginal()
    upper = variable.getUbOriginal()
    if variable.isIntegral():
        distance = float(np.ceil(distance))
        value = round(value)
        if (lower, upper, distance) == (0.0, 1.0, 1.0):
            return [1 - variable if value else variable]
    changes = []
    for side, sign, end, other in (("above", 1.0, upper, lower), ("below", -1.0, lower, upper)):
        if sign * (end - value) >= distance:
            switch = model.addVar(f"{name}_{side}", vtype="B")
            reach = distance + sign * (value - other)  # what the constraint gives while it is off
            model.addCons(sign * (variable - value) >= distance - reach * (1 - switch))
            changes.append(switch)
    return changes

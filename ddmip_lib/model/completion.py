"""The best full assignment for given network inputs.

Outputs follow from the networks; the remaining variables are found by HiGHS or SCIP.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy import ndarray
from pyscipopt import Constraint, Model, Variable, quicksum

from ..programs import Program, Rows
from ..programs.mip import solve_continuous
from ..programs.scip import ROW_HANDLERS, copy_model, relative_violation, solve_fixed
from .instance import Instance
from .onoff import OnOff, OnOffRow
from .verification import TOLERANCE

COMPLETION_TOLERANCE = 1e-9
"""Relative violation of a constraint up to which a completion without a solver is accepted."""
MIN_LP_SECONDS = 0.1
"""Time limit of a linear program, at least."""


class Completer:
    """Extends network inputs of one instance to full assignments.

    Parameters
    ----------
    instance
        The problem.
    onoff
        On/off variables among the outputs; their tight constraints make completions faster.
    """

    def __init__(self, instance: Instance, onoff: Sequence[OnOff] = ()) -> None:
        self.instance = instance
        self.onoff = onoff

    def complete(
        self, inputs: list[ndarray], seconds: float = 10.0, integers: ndarray | None = None
    ) -> ndarray | None:
        """Return the best full assignment with these network inputs.

        Parameters
        ----------
        inputs
            One matrix for each predictor.
        seconds
            Time limit.
        integers
            A full assignment whose integer variables are kept too, other than outputs.

        Returns
        -------
        numpy.ndarray or None
            None if no feasible assignment was found.
        """
        instance = self.instance
        milp = instance.milp
        rest = np.nan if integers is None else np.where(milp.integer, integers, np.nan)
        values = instance.rounded(instance.assignment(inputs, rest))
        fixed = ~np.isnan(values)
        values[fixed] = np.clip(values, milp.lower, milp.upper)[fixed]
        outputs = instance.with_outputs(np.where(fixed, values, 0.0))
        values[instance.determined] = outputs[instance.determined]
        fixed |= instance.determined
        if fixed.all():
            completed: ndarray | None = values
        elif milp.others or milp.integer[~fixed].any():
            completed = self._by_scip(values, fixed, seconds)
        else:
            completed = self._without_solver(values, fixed)
            if completed is None:
                completed = self._by_lp(values, fixed, seconds)
        return None if completed is None else instance.with_outputs(completed)

    def _without_solver(self, values: ndarray, fixed: ndarray) -> ndarray | None:
        """A feasible completion if the remaining variables cost nothing, so that any is best.

        They take their feasible values closest to 0; then, for each violated constraint, the first
        variable moves that can satisfy it alone. None if that is not enough.
        """
        milp = self.instance.milp
        if milp.cost[~fixed].any():
            return None
        values = np.where(fixed, values, np.clip(0.0, milp.lower, milp.upper))
        activity = milp.rows @ values
        below = np.maximum(milp.row_lower - activity, 0.0)
        above = np.maximum(activity - milp.row_upper, 0.0)
        self._move_into(below - above, values, fixed)
        violation = relative_violation(milp.rows @ values, *milp.sides).max(initial=0.0)
        return None if violation > COMPLETION_TOLERANCE else values

    def _move_into(self, change: ndarray, values: ndarray, fixed: ndarray) -> None:
        """Change the activity of constraints by moving one variable of each."""
        milp = self.instance.milp
        violated = np.flatnonzero(change)
        entries = milp.rows[violated].tocoo()
        variables = entries.col
        with np.errstate(over="ignore"):  # an infinite move is not within the bounds
            moved = values[variables] + change[violated[entries.row]] / entries.data
        within = (moved >= milp.lower[variables]) & (moved <= milp.upper[variables])
        movable = np.flatnonzero(~fixed[variables] & within)
        _, first = np.unique(entries.row[movable], return_index=True)
        values[variables[movable[first]]] = moved[movable[first]]

    def _by_lp(self, values: ndarray, fixed: ndarray, seconds: float) -> ndarray | None:
        """The best completion by HiGHS; the remaining variables are continuous."""
        milp = self.instance.milp
        free = ~fixed
        activity = milp.rows[:, fixed] @ values[fixed]
        rows = milp.rows[:, free]
        decided = np.diff(rows.indptr) == 0
        sides = milp.row_lower[decided], milp.row_upper[decided]
        if relative_violation(activity[decided], *sides).max(initial=0.0) > TOLERANCE:
            return None
        program = Program(
            milp.sign * milp.cost[free],
            Rows.of(rows[~decided]),
            (milp.row_lower - activity)[~decided],
            (milp.row_upper - activity)[~decided],
            milp.lower[free],
            milp.upper[free],
            milp.integer[free],
        )
        point = solve_continuous(program, max(seconds, MIN_LP_SECONDS))
        if point is None:
            return None
        values[free] = np.clip(point, program.lower, program.upper)
        return values

    def _by_scip(self, values: ndarray, fixed: ndarray, seconds: float) -> ndarray | None:
        """The best completion by SCIP."""
        model, variables, switched = self._fixing_model
        model.freeTransform()
        for onoff, row, constraint in switched:
            coefficient = row.sigma * values[onoff.variable] - row.on + row.off
            model.chgCoefLinear(constraint, variables[onoff.switch], coefficient)
        found = solve_fixed(model, variables, np.where(fixed, values, np.nan), seconds)
        return None if found is None else np.where(fixed, values, found)

    @cached_property
    def _fixing_model(
        self,
    ) -> tuple[Model, list[Variable], list[tuple[OnOff, OnOffRow, Constraint]]]:
        """A copy of the model for fixed inputs and outputs, its variables, and its constraints on
        on/off variables in on/off form.
        """
        model = copy_model(self.instance.model)
        variables = model.getVars()
        switched = []
        rows = [c for c in model.getConss() if c.getConshdlrName() in ROW_HANDLERS]
        for onoff in self.onoff:
            for r in onoff.replaced:
                model.delCons(rows[r])
            for row in onoff.rows:
                others = quicksum(a * variables[i] for i, a in row.others.items())
                constraint = model.addCons(others + variables[onoff.switch] <= row.off)
                switched.append((onoff, row, constraint))
        return model, variables, switched

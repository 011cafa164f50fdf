"""The best full assignment for given network inputs: outputs from the networks, the rest by HiGHS
or SCIP.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from pyscipopt import Model, quicksum

from ..programs.scip import (
    ROW_HANDLERS,
    copy_model,
    fix,
    matrix_of,
    optimise,
    relative_violation,
    solution_values,
)
from .instance import Instance
from .onoff import OnOff, OnOffRow
from .verification import TOLERANCE

PLAIN = 1e-9  # what a row may be missed by without asking a solver for better


class Completer:
    """Completes network inputs of one instance; with `onoff`, outputs that a binary switches off,
    it is faster.
    """

    def __init__(self, instance: Instance, onoff: Sequence[OnOff] = ()) -> None:
        self.instance = instance
        self.onoff = onoff

    def complete(self, inputs: list[np.ndarray], seconds: float = 10.0) -> np.ndarray | None:
        """The best full assignment with these network inputs, or None where none was found."""
        instance = self.instance
        s = self.instance.milp
        values = instance.rounded(instance.assignment(inputs, rest=np.nan))
        fixed = ~np.isnan(values)
        values[fixed] = np.clip(values, s.lower, s.upper)[fixed]
        outputs = instance.with_outputs(np.where(fixed, values, 0.0))
        values[instance.is_output] = outputs[instance.is_output]
        fixed |= instance.is_output
        if not fixed.all() and not s.others and not s.integer[~fixed].any():
            plain = self._plainly(values, fixed)
            return self._by_lp(values, fixed, seconds) if plain is None else plain
        if not fixed.all():
            model, variables, switched = self._copy
            model.freeTransform()
            fix(model, variables, np.where(fixed, values, np.nan))
            for y, b, row, constraint in switched:
                model.chgCoefLinear(
                    constraint, variables[b], row.sigma * values[y] - row.on + row.off
                )
            optimise(model, seconds)
            if model.getNSols() == 0:
                return None
            rest = solution_values(model, matrix_of(variables))
            values = np.where(fixed, values, rest)
        return instance.with_outputs(values)

    def _plainly(self, values: np.ndarray, fixed: np.ndarray) -> np.ndarray | None:
        """Where the rest costs nothing, each feasible one is best: all of it at rest, then, in each
        row that is missed, the first variable moved that can mend the row by itself. None where
        this is not enough.
        """
        s = self.instance.milp
        if s.cost[~fixed].any():
            return None
        values = np.where(fixed, values, np.clip(0.0, s.lower, s.upper))
        reached = s.rows @ values
        lack = np.maximum(s.row_lower - reached, 0.0) - np.maximum(reached - s.row_upper, 0.0)
        missed = np.flatnonzero(lack)
        entries = s.rows[missed].tocoo()
        moved = values[entries.col] + lack[missed[entries.row]] / entries.data
        able = (
            ~fixed[entries.col] & (moved >= s.lower[entries.col]) & (moved <= s.upper[entries.col])
        )
        first = np.flatnonzero(able)[np.unique(entries.row[able], return_index=True)[1]]
        values[entries.col[first]] = moved[first]
        if relative_violation(s.rows @ values, *s.sides).max(initial=0.0) > PLAIN:
            return None
        return self.instance.with_outputs(values)

    def _by_lp(self, values: np.ndarray, fixed: np.ndarray, seconds: float) -> np.ndarray | None:
        """The rest is continuous and meets rows alone: no copy of the model is needed."""
        from scipy.optimize import (
            Bounds,
            LinearConstraint,
            milp,
        )  # a quarter of a second, for those who need it

        s = self.instance.milp
        given = s.rows[:, fixed] @ values[fixed]
        free = s.rows[:, ~fixed]
        met = np.diff(free.indptr) > 0
        if (
            relative_violation(given[~met], s.row_lower[~met], s.row_upper[~met]).max(initial=0.0)
            > TOLERANCE
        ):
            return None
        rows = LinearConstraint(free[met], (s.row_lower - given)[met], (s.row_upper - given)[met])
        bounds = Bounds(s.lower[~fixed], s.upper[~fixed])
        answer = milp(
            s.sign * s.cost[~fixed],
            constraints=rows,
            bounds=bounds,
            options={"time_limit": max(seconds, 0.1)},
        )
        if answer.x is None:
            return None
        values[~fixed] = np.clip(answer.x, bounds.lb, bounds.ub)
        return self.instance.with_outputs(values)

    @cached_property
    def _copy(self) -> tuple[Model, Any, list[tuple[int, int, OnOffRow, Any]]]:
        """A copy of the model whose inputs and outputs get fixed; rows on on/off outputs stand in
        their tight form.
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
                switched.append((onoff.variable, onoff.switch, row, constraint))
        return model, variables, switched

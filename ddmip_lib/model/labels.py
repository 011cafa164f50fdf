"""A class as part of a MIP: how a binary output is tied to the logit of its network."""

from typing import Any

import numpy as np
from pyscipopt import Model

from .scip import MILP

MARGIN = 1e-3
"""Smallest logit that a model may call class 1: without one, solver tolerances call samples potable that are not."""


def tie_class(model: Model, y: Any, milp: MILP, at: int, low: float, high: float, margin: float) -> Any:
    r"""A logit $o \in [l, u]$ with $y = 1 \Rightarrow o \ge$ margin and, unless a larger y only helps,
    $y = 0 \Rightarrow o \le 0$."""
    below, above = min(low, 0.0), max(high, margin)
    logit = model.addVar(lb=below, ub=above)
    model.addCons(logit >= below + (margin - below) * y)
    if not larger_helps(milp, at):
        model.addCons(logit <= above * y)
    return logit


def larger_helps(milp: MILP, at: int) -> bool:
    """Whether variable `at` occurs only where a larger value helps: in the objective and in every row."""
    if milp.upper[at] < 1 or milp.sign * milp.cost[at] > 0 or any(at in c.variables for c in milp.others):
        return False
    column = milp.rows[:, [at]].tocoo()
    rises, falls = column.row[column.data > 0], column.row[column.data < 0]
    return bool(np.isinf(milp.row_upper[rises]).all() and np.isinf(milp.row_lower[falls]).all())

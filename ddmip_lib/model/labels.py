"""A class as part of a MIP: how a binary output is tied to the logit of its network."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyscipopt import Model

from .instance import Compiled

MARGIN = 1e-3
"""Smallest logit that a model may call class 1: without one, solver tolerances call samples potable that are not."""


def tie_class(model: Model, y: Any, compiled: Compiled, at: int, low: float, high: float, margin: float) -> Any:
    r"""A logit $o \in [l, u]$ with $y = 1 \Rightarrow o \ge$ margin and, unless a larger y only helps,
    $y = 0 \Rightarrow o \le 0$."""
    below, above = min(low, 0.0), max(high, margin)
    logit = model.addVar(lb=below, ub=above)
    model.addCons(logit >= below + (margin - below) * y)
    if not larger_helps(compiled, at):
        model.addCons(logit <= above * y)
    return logit


def larger_helps(compiled: Compiled, at: int) -> bool:
    """Whether variable `at` occurs only where a larger value helps: in the objective and in every row."""
    s = compiled.snapshot
    if s.upper[at] < 1 or s.sign * s.cost[at] > 0 or any(at in c.variables for c in s.others):
        return False
    column = s.rows[:, [at]].tocoo()
    rises, falls = column.row[column.data > 0], column.row[column.data < 0]
    return bool(np.isinf(s.row_upper[rises]).all() and np.isinf(s.row_lower[falls]).all())

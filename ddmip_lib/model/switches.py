"""Indicator constraints and special ordered sets as linear constraints with binaries."""

from typing import NamedTuple

import numpy as np
from numpy import ndarray

from ..programs.scip import OtherConstraint
from .reformulation import RANGE_MARGIN, Ends, Reformulation

ZERO = 1e-6
"""Absolute value up to which SCIP takes a variable for 0."""


class Implication(NamedTuple):
    r"""An indicator constraint $b = 1 \Rightarrow a^\top x - s \le u$, $s = 0$.

    Attributes
    ----------
    other
        The constraint of SCIP.
    slack
        Position of $s \ge 0$, which SCIP adds to the model.
    at, weights, limit
        Positions of $x$, $a$ and $u$.
    """

    other: OtherConstraint
    slack: int
    at: ndarray
    weights: ndarray
    limit: float

    @property
    def condition(self) -> tuple[int, bool]:
        """Position of the binary, and its value at which the constraint holds."""
        return self.other.variables[0], not self.other.negated

    def tighten(self, ranges: Ends) -> None:
        """Move ranges, in place, to those that the constraint implies."""
        low, high = ranges
        above = self.weights > 0
        terms = self.weights * np.where(above, low[self.at], high[self.at])
        if not np.isfinite(terms).all():
            return
        ends = (self.limit - (terms.sum() - terms)) / self.weights
        room = RANGE_MARGIN * np.maximum(1.0, np.abs(ends))
        high[self.at] = np.minimum(high[self.at], np.where(above, ends + room, np.inf))
        low[self.at] = np.maximum(low[self.at], np.where(above, -np.inf, ends - room))


def indicators(r: Reformulation) -> None:
    r"""Write $b = 1 \Rightarrow a^\top x \le u$ as $s + M b \le M$, where $a^\top x - s \le u$.

    $M$ is the largest value that the slack needs where $b = 0$: there the constraints hold that
    have the condition $b = 0$.
    """
    found = _implications(r)
    by_condition: dict[tuple[int, bool], list[Implication]] = {}
    for implication in found:
        by_condition.setdefault(implication.condition, []).append(implication)
    for implication in found:
        binary, value = implication.condition
        ranges = np.array(r.lower), np.array(r.upper)
        for opposite in by_condition.get((binary, not value), ()):
            opposite.tighten(ranges)
        _restate(r, implication, ranges)


def _implications(r: Reformulation) -> list[Implication]:
    """The indicator constraints that can be written; others are left out."""
    found = []
    milp = r.stated.milp
    columns = milp.rows.tocsc()
    for other in r.others:
        if other.kind != "indicator":
            continue
        slack = other.variables[1]
        column = columns[:, [slack]].tocoo()
        if column.data.tolist() != [-1.0] or milp.cost[slack]:
            reason = "its slack variable has other uses"
            r.leave_out(other, reason, "state them by variables of your own")
            continue
        number = int(column.row[0])
        row = milp.rows[number]
        kept = row.indices != slack
        limit = float(milp.row_upper[number])
        found.append(Implication(other, slack, row.indices[kept], row.data[kept], limit))
    return found


def _restate(r: Reformulation, implication: Implication, ranges: Ends) -> None:
    other = implication.other
    at = implication.at
    largest = np.where(implication.weights > 0, ranges[1][at], ranges[0][at])
    if not _is_bounded(r, other, at, largest):
        return
    large = max(float(implication.weights @ largest) - implication.limit, 0.0)
    pair = [implication.slack, implication.condition[0]]
    slope, limit = (-large, 0.0) if other.negated else (large, large)
    r.constrain(pair, [1.0, slope], -np.inf, limit, other.name)
    r.restate(other)


def special_ordered_sets(r: Reformulation) -> None:
    """Write that at most one variable, or two in succession, differ from 0 by binaries."""
    for other in list(r.others):
        if other.kind not in ("SOS1", "SOS2"):
            continue
        at = np.array(other.variables)
        if _is_bounded(r, other, at, np.subtract(r.upper, r.lower)[at]):
            _restate_set(r, other.name, at, width=int(other.kind[-1]))
            r.restate(other)


def _is_bounded(r: Reformulation, other: OtherConstraint, at: ndarray, ends: ndarray) -> bool:
    """Whether these ends of variables are finite; otherwise the constraint is left out."""
    for unbounded in at[~np.isfinite(ends)][:1]:
        name = r.stated.milp.names[unbounded]
        r.leave_out(other, f"{name} has no finite range", f"give {name} finite lb and ub")
        return False
    return True


def _restate_set(r: Reformulation, name: str, at: ndarray, width: int) -> None:
    """Let `width` variables in succession differ from 0: those of the segment that is chosen."""
    if len(at) <= width:
        return
    count = len(at) - width + 1
    chosen = [r.variable(0.0, 1.0, True, f"{name}_segment_{k}") for k in range(count)]
    r.constrain(chosen, [1.0] * count, -np.inf, 1.0, name)
    for k, variable in enumerate(at.tolist()):
        segments = chosen[max(0, k - width + 1) : k + 1]
        at_segments = [variable, *segments]
        lower = [-min(r.lower[variable], 0.0)] * len(segments)
        upper = [-max(r.upper[variable], 0.0)] * len(segments)
        r.constrain(at_segments, [1.0, *lower], 0.0, np.inf, f"{name}_lower_{k}")
        r.constrain(at_segments, [1.0, *upper], -np.inf, 0.0, f"{name}_upper_{k}")

    def choose(values: ndarray) -> None:
        values[chosen] = 0.0
        used = np.flatnonzero(np.abs(values[at]) > ZERO)
        if len(used):
            values[chosen[min(used[0], count - 1)]] = 1.0

    r.complete(choose)

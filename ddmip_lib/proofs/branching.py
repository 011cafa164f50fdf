"""Branch and bound on the whole numbers of a program, every bound of which is computed from multipliers alone."""

import heapq
import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .presolve import tighter_box, tighter_rows
from .program import Program, Rows
from .proposals import Proposer

ROUNDS = 5  # of bounds that rows imply
WHOLE = 1e-6  # a proposed value so near to a whole number is not branched on, as long as another one is farther away


class Proved(NamedTuple):
    """What is proved: no point costs less than `bound` (inf: there is none); `complete` if all was searched."""

    bound: float
    nodes: int
    complete: bool


def prove(
    program: Program, enough: float = np.inf, deadline: float = np.inf, visit: Callable[[np.ndarray], Any] | None = None
) -> Proved:
    """A bound of the program; it ends at `enough`, or at the deadline with what is proved by then.

    `visit` hears the points that HiGHS proposes where all whole numbers are whole, and may return a smaller `enough`.

    >>> import scipy.sparse as sp
    >>> one = np.ones(2)
    >>> rows = Rows.of(sp.csr_matrix([[2.0, 3.0]]))
    >>> program = Program(one, rows, 4 * one[:1], np.inf * one[:1], 0 * one, 3 * one, one > 0)
    >>> prove(program).bound
    2.0
    """
    proposer, number = Proposer(), itertools.count()
    heap = [(-np.inf, next(number), program.lower, program.upper)]
    settled, nodes = np.inf, 0
    while heap and heap[0][0] < min(enough, settled):
        if time.perf_counter() >= deadline:
            return Proved(min(settled, heap[0][0]), nodes, False)
        bound, _, *ends = heapq.heappop(heap)
        nodes += 1
        box = tighter_box(program, *ends, rounds=ROUNDS)
        if box is None:
            continue
        lower, upper = box
        tight = tighter_rows(program, lower, upper).within(lower, upper)
        proposal = proposer.ask(tight, deadline - time.perf_counter())
        if proposal.empty and tight.proves_empty(proposal.multipliers, lower, upper):
            continue
        if not proposal.empty:
            bound = max(bound, tight.value(proposal.multipliers, lower, upper))
        if bound >= min(enough, settled):
            settled = min(settled, bound)
            continue
        at, point = branching_variable(program, lower, upper, proposal.point)
        if visit is not None and point is not None and at is None:
            found = visit(point)
            enough = enough if found is None else min(enough, found)
        if at is None:
            at = _widest(program, lower, upper)
        if at is None:  # everything is decided: the bound is what it is
            settled = min(settled, bound)
            continue
        for side in halves(lower, upper, at, np.floor(0.5 * (lower[at] + upper[at]) if point is None else point[at])):
            heapq.heappush(heap, (bound, next(number), *side))
    return Proved(min([settled, *(heap[0][:1] if heap else ())]), nodes, True)


def branching_variable(
    program: Program, lower: np.ndarray, upper: np.ndarray, point: np.ndarray | None
) -> tuple[int | None, np.ndarray | None]:
    """The whole number that the point leaves farthest from one, if any."""
    if point is None:
        return None, None
    away = np.where(program.integer & (lower < upper), np.abs(point - np.round(point)), 0.0)
    at = int(away.argmax()) if away.size else 0
    return (at if away.size and away[at] > WHOLE else None), point


def _widest(program: Program, lower: np.ndarray, upper: np.ndarray) -> int | None:
    width = np.where(program.integer, upper - lower, 0.0)
    return int(width.argmax()) if width.max(initial=0.0) >= 1 else None


def halves(lower: np.ndarray, upper: np.ndarray, at: int, below: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """The two parts of a box in which one whole number is at most `below`, or more."""
    below = float(np.clip(below, lower[at], upper[at] - 1))
    left, right = upper.copy(), lower.copy()
    left[at], right[at] = below, below + 1
    return [(lower, left), (right, upper)]

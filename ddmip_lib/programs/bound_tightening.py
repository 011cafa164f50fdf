r"""Ranges of variables by linear programs (optimality-based bound tightening): what all constraints
imply together, where each one alone implies less.

The program with the cost $v_j$, or $-v_j$, has a bound by multipliers like every `Program`, so
ranges rely on no solver either. Where only points matter that cost less than a known one, this is
one more constraint: ranges then hold for these points alone.
"""

from dataclasses import replace

import highspy
import numpy as np
import scipy.sparse as sp

from ..clock import now
from .lp import LPSolver
from .presolve import OUTWARD, probe_binaries, propagate_bounds, strengthen_coefficients
from .program import Program, Rows

MAX_SWITCH_ENTRIES = 3
"""Entries of a constraint with a binary up to which its continuous variables count as switched."""
MAX_ROUND_WORK = 100_000_000
"""Matrix entries in all linear programs of a round."""
MAX_WORK_WITHOUT_SAMPLE = 2_000_000
"""Matrix entries in all linear programs of a round up to which it does without a sample."""
SAMPLE_SIZE = 20
"""Variables in the sample of a round, about."""
MAX_SAMPLE_WIDTH_LEFT = 0.8
"""Fraction of the sample's widths that may be left for the round to continue."""
MIN_RANGE_GAIN = 1e-3
"""Fraction of its width by which a range must improve."""
TIGHTENING_ROUNDS = 5
"""Rounds over all switched variables, and of bound propagation after each."""
MAX_WIDTH_LEFT = 0.9
"""Fraction of all widths that may be left after a round for another one to follow."""


def optimality_based_tightening(program: Program, cutoff: float, deadline: float) -> Program | None:
    """Return an equivalent program in a smaller box, for all points that cost less than a cutoff.

    Parameters
    ----------
    program
        The program.
    cutoff
        The cutoff, inf where all points matter.
    deadline
        Time at which the tightening ends.

    Returns
    -------
    Program or None
        None where it is proved that there is no such point.

    Examples
    --------
    >>> one, switch = np.ones(3), np.array([False, False, True])
    >>> matrix = sp.csr_matrix([[1.0, 1.0, 0.0], [1.0, -1.0, 0.0], [1.0, 0.0, -4.0]])
    >>> loose = Program(
    ...     one,
    ...     Rows.of(matrix),
    ...     np.array([1.0, 0.0, -np.inf]),
    ...     np.array([2.0, 1.0, 0.0]),
    ...     0 * one,
    ...     np.array([4.0, 4.0, 1.0]),
    ...     switch,
    ... )
    >>> optimality_based_tightening(loose, np.inf, np.inf).upper.round(6)
    array([1.5, 1.5, 1. ])
    >>> optimality_based_tightening(loose, 1.9, np.inf) is None
    True
    """
    program = _with_cutoff(program, cutoff)
    for _ in range(TIGHTENING_ROUNDS):
        before = _width(program)
        tightened = _RangeTightening(program, deadline).result()
        if tightened is None or now() >= deadline:
            return tightened
        strengthened = strengthen_coefficients(tightened, tightened.lower, tightened.upper)
        program = probe_binaries(strengthened, deadline)
        box = propagate_bounds(program, program.lower, program.upper, rounds=TIGHTENING_ROUNDS)
        if box is None:
            return None
        program = program.within(*box)
        if _width(program) > MAX_WIDTH_LEFT * before:
            break
    return program


def _with_cutoff(program: Program, cutoff: float) -> Program:
    """Add the constraint that the cost is at most the cutoff."""
    if np.isinf(cutoff) or not program.cost.any():
        return program
    room = OUTWARD * (abs(cutoff) + abs(program.constant))
    matrix = sp.vstack([program.rows.matrix(len(program.cost)), sp.csr_matrix(program.cost)])
    return replace(
        program,
        rows=Rows.of(matrix.tocsr()),
        row_lower=np.append(program.row_lower, -np.inf),
        row_upper=np.append(program.row_upper, cutoff - program.constant + room),
    )


def _switched(program: Program) -> np.ndarray:
    """Return the continuous variables in a short constraint with a binary that is not fixed."""
    rows = program.rows
    free = program.lower < program.upper
    short = np.diff(rows.first) <= MAX_SWITCH_ENTRIES
    free_integer = program.integer & free
    short &= rows.sums(free_integer[rows.column]) > 0
    switched = np.zeros(len(free), dtype=bool)
    switched[rows.column[short[rows.row]]] = True
    return np.flatnonzero(switched & free & ~program.integer)


def _width(program: Program) -> float:
    return float(np.sum((program.upper - program.lower)[_switched(program)]))


class _RangeTightening:
    """One round of linear programs over the switched variables, and the box so far."""

    def __init__(self, program: Program, deadline: float) -> None:
        self.program = program
        self.deadline = deadline
        self.solver = LPSolver()
        self.basis: highspy.HighsBasis | None = None
        self.lower = program.lower.copy()
        self.upper = program.upper.copy()
        # over all points that HiGHS proposed: a bound near one of them cannot improve
        self.point_minimum = np.full_like(self.lower, np.inf)
        self.point_maximum = np.full_like(self.upper, -np.inf)

    def result(self) -> Program | None:
        """Return the program in the new box, None where it is proved to be empty.

        A round of much work begins with a sample of the variables, and ends there if their ranges
        do not shrink enough.
        """
        entries = len(self.program.rows.weight)
        variables = _switched(self.program)[: MAX_ROUND_WORK // (entries + 1)]
        sample = variables[:0]
        if len(variables) * entries > MAX_WORK_WITHOUT_SAMPLE:
            sample = variables[:: max(1, len(variables) // SAMPLE_SIZE)]
        before = np.sum((self.upper - self.lower)[sample])
        for number, index in enumerate([*sample, *np.setdiff1d(variables, sample)]):
            after = np.sum((self.upper - self.lower)[sample])
            if number == len(sample) and after > MAX_SAMPLE_WIDTH_LEFT * before:
                break
            for side in (1.0, -1.0):
                if not self._may_improve(index, side):
                    continue
                if now() >= self.deadline:
                    return self.program.within(self.lower, self.upper)
                if not self._tighten(index, side):
                    return None
        return self.program.within(self.lower, self.upper)

    def _needed(self, index: int) -> float:
        """Return by how much a bound of a variable must improve."""
        width = float(self.upper[index] - self.lower[index])
        return MIN_RANGE_GAIN * width if np.isfinite(width) else 0.0

    def _may_improve(self, index: int, side: float) -> bool:
        """Return whether no proposed point is near the lower (`side` 1) or upper bound (-1)."""
        needed = self._needed(index)
        if side > 0:
            return bool(self.point_minimum[index] > self.lower[index] + needed)
        return bool(self.point_maximum[index] < self.upper[index] - needed)

    def _tighten(self, index: int, side: float) -> bool:
        """Tighten one bound of a variable; return False where the program is proved to be empty."""
        lower = self.lower
        upper = self.upper
        cost = np.zeros_like(lower)
        cost[index] = side
        program = replace(self.program, cost=cost, constant=0.0, lower=lower, upper=upper)
        proposal = self.solver.solve(program, self.deadline - now(), self.basis)
        if proposal.empty:
            return not program.proves_empty(proposal.multipliers, lower, upper)
        self.basis = proposal.basis or self.basis
        if proposal.point is not None:
            self.point_minimum = np.minimum(self.point_minimum, proposal.point)
            self.point_maximum = np.maximum(self.point_maximum, proposal.point)
        value = side * program.lower_bound(proposal.multipliers, lower, upper)
        needed = self._needed(index)
        if side > 0 and value > lower[index] + needed:
            lower[index] = min(value, upper[index])
        elif side < 0 and value < upper[index] - needed:
            upper[index] = max(value, lower[index])
        return True

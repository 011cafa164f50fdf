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
from numpy import ndarray

from ..clock import now
from .lp import LPSolver
from .presolve import OUTWARD, probe_binaries, propagate_bounds, strengthen_coefficients
from .program import Program

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
    >>> from .program import Rows
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
        probed = probe_binaries(strengthen_coefficients(tightened), deadline)
        propagated = propagate_bounds(probed, rounds=TIGHTENING_ROUNDS)
        if propagated is None:
            return None
        program = propagated
        if _width(program) > MAX_WIDTH_LEFT * before:
            break
    return program


def _with_cutoff(program: Program, cutoff: float) -> Program:
    """Add the constraint that the cost is at most the cutoff."""
    if np.isinf(cutoff) or not program.cost.any():
        return program
    room = OUTWARD * (abs(cutoff) + abs(program.constant))
    limit = cutoff - program.constant + room
    return program.with_constraints(sp.csr_matrix(program.cost), [-np.inf], [limit])


def _switched(program: Program) -> ndarray:
    """Return the continuous variables in a short constraint with a binary that is not fixed."""
    rows = program.rows
    free = program.lower < program.upper
    short = np.diff(rows.first) <= MAX_SWITCH_ENTRIES
    short &= rows.sums((program.integer & free)[rows.column]) > 0
    switched = np.unique(rows.column[short[rows.row]])
    return switched[(free & ~program.integer)[switched]]


def _width(program: Program) -> float:
    return float(np.sum((program.upper - program.lower)[_switched(program)]))


class _RangeTightening:
    """One round of linear programs over the switched variables.

    Attributes
    ----------
    bounds
        The box: lower bounds of the variables, then those of their negatives.
    smallest
        Of variables and negatives, over all points that HiGHS proposed: a bound near one of them
        cannot improve.
    """

    def __init__(self, program: Program, deadline: float) -> None:
        self.program = program
        self.deadline = deadline
        self.solver = LPSolver()
        self.basis: highspy.HighsBasis | None = None
        self.bounds = np.array([program.lower, -program.upper])
        self.smallest = np.full_like(self.bounds, np.inf)

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
        before = self._width(sample)
        for number, index in enumerate([*sample, *np.setdiff1d(variables, sample)]):
            if number == len(sample) and self._width(sample) > MAX_SAMPLE_WIDTH_LEFT * before:
                break
            if not (self._tighten(0, index) and self._tighten(1, index)):
                return None
        return self._tightened()

    def _tightened(self) -> Program:
        return self.program.within(self.bounds[0], -self.bounds[1])

    def _width(self, variables: ndarray) -> float:
        return float(np.sum(-self.bounds[:, variables].sum(axis=0)))

    def _tighten(self, side: int, index: int) -> bool:
        """Tighten the bound of a variable (`side` 0), or of its negative, where that is worth the
        effort; return False where the program is proved to be empty.
        """
        width = -self.bounds[:, index].sum()
        least = self.bounds[side, index] + (MIN_RANGE_GAIN * width if np.isfinite(width) else 0.0)
        if self.smallest[side, index] <= least or now() >= self.deadline:
            return True
        cost = np.zeros_like(self.program.cost)
        cost[index] = 1.0 - 2.0 * side
        program = replace(self._tightened(), cost=cost, constant=0.0)
        proposal = self.solver.solve(program, self.deadline - now(), self.basis)
        if proposal.empty:
            return not program.proves_infeasible(proposal.multipliers)
        self.basis = proposal.basis or self.basis
        if proposal.point is not None:
            self.smallest = np.minimum(self.smallest, [proposal.point, -proposal.point])
        value = program.lower_bound(proposal.multipliers)
        if value > least:
            self.bounds[side, index] = min(value, -self.bounds[1 - side, index])
        return True

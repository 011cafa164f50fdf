r"""Ranges of variables by linear programs: what all rows say together, where each row alone says
less.

For a variable $v_j$ the program with the cost $v_j$, or $-v_j$, has a bound by multipliers as every
`Program` has: no solver need be believed for a range either. Where only points matter that cost
less than one that is known, a row says so: then ranges hold for these points alone.
"""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from ..clock import now
from .lp import LPSolver
from .presolve import OUTWARD, probe_binaries, propagate_bounds, strengthen_coefficients
from .program import Program, Rows

SHORT = 3  # entries of rows whose binaries switch a variable on and off
WORK = 100_000_000  # entries of rows in all linear programs of a round
CHEAP = 2_000_000  # entries: a round of more goes on only if
SAMPLE = 20
PAYS = 0.8  # about so many variables have less than this share of their widths left
HELPS = 1e-3  # share of its width by which a range must improve
ROUNDS = 5
WORTH = 0.9  # of all ranges; a round that leaves more than this share of the widths is the last


def optimality_based_tightening(program: Program, enough: float, deadline: float) -> Program | None:
    """The program of all points that cost less than `enough`, in a smaller box and with rows that
    fit it; None where it is proved that there is none.

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
    found: Program | None = _cheaper(program, enough)
    for _ in range(ROUNDS):
        assert found is not None
        before = _width(found)
        found = _all_ranges(found, deadline)
        if found is None or now() >= deadline:
            return found
        found = probe_binaries(strengthen_coefficients(found, found.lower, found.upper), deadline)
        box = propagate_bounds(found, found.lower, found.upper, rounds=ROUNDS)
        if box is None:
            return None
        found = found.within(*box)
        if _width(found) > WORTH * before:
            break
    return found


def _cheaper(program: Program, cost: float) -> Program:
    """The program with a row more, which all points keep that cost at most so much."""
    if np.isinf(cost) or not program.cost.any():
        return program
    limit = cost - program.constant + OUTWARD * (abs(cost) + abs(program.constant))
    rows = sp.vstack([program.rows.matrix(len(program.cost)), sp.csr_matrix(program.cost)])
    low = np.append(program.row_lower, -np.inf)
    high = np.append(program.row_upper, limit)
    return replace(program, rows=Rows.of(rows.tocsr()), row_lower=low, row_upper=high)


def _switched(program: Program) -> np.ndarray:
    """The variables, not whole, that share a short row with a binary that is not decided."""
    e = program.rows
    free = program.lower < program.upper
    short = np.diff(e.first) <= SHORT
    short &= np.bincount(e.row, (program.integer & free)[e.column], len(short)) > 0
    found = np.zeros(len(free), dtype=bool)
    found[e.column[short[e.row]]] = True
    return np.flatnonzero(found & free & ~program.integer)


def _width(program: Program) -> float:
    return float(np.sum((program.upper - program.lower)[_switched(program)]))


def _all_ranges(program: Program, deadline: float) -> Program | None:
    """One round over the switched variables. A side that a proposed point comes near to is not
    asked for. A round of much work begins with a sample of them, and ends there if that does not
    pay.
    """
    proposer = LPSolver()
    basis = None
    lower = program.lower.copy()
    upper = program.upper.copy()
    least = np.full_like(lower, np.inf)
    most = np.full_like(upper, -np.inf)
    among = _switched(program)[: WORK // (len(program.rows.weight) + 1)]
    sample = (
        among[:: max(1, len(among) // SAMPLE)]
        if len(among) * len(program.rows.weight) > CHEAP
        else among[:0]
    )
    before = np.sum((upper - lower)[sample])
    for number, at in enumerate([*sample, *np.setdiff1d(among, sample)]):
        if number == len(sample) and np.sum((upper - lower)[sample]) > PAYS * before:
            break
        for side in (1.0, -1.0):
            width = upper[at] - lower[at]
            needed = HELPS * width if np.isfinite(width) else 0.0
            if (least[at] <= lower[at] + needed) if side > 0 else (most[at] >= upper[at] - needed):
                continue
            if now() >= deadline:
                return program.within(lower, upper)
            cost = np.zeros_like(lower)
            cost[at] = side
            asked = replace(program, cost=cost, constant=0.0, lower=lower, upper=upper)
            proposal = proposer.ask(asked, deadline - now(), basis)
            if proposal.empty:
                if asked.proves_empty(proposal.multipliers, lower, upper):
                    return None
                continue
            basis = proposal.basis or basis
            if proposal.point is not None:
                least = np.minimum(least, proposal.point)
                most = np.maximum(most, proposal.point)
            value = side * asked.value(proposal.multipliers, lower, upper)
            if side > 0 and value > lower[at] + needed:
                lower[at] = min(value, upper[at])
            elif side < 0 and value < upper[at] - needed:
                upper[at] = max(value, lower[at])
    return program.within(lower, upper)

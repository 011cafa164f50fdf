r"""A program made tighter in a box, without losing a point: bounds that constraints imply, stronger
coefficients of binaries, and cuts.

From $\sum_k a_k v_k \le b$ follows $a_j v_j \le b - \min \sum_{k \ne j} a_k v_k$. And where the
rest of such a constraint is at most $U < b$ when a binary is 0, it is redundant there: with $b - U$
subtracted from both $b$ and the binary's coefficient it is equivalent where the binary is 1, and
cuts off fractional points. All is rounded outward, by 1e-9 of the terms.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy import ndarray

from ..clock import check_time, now
from .program import Program, Rows, stacked_rows

OUTWARD = 1e-9
"""Outward rounding, relative to the terms of a sum."""
MAX_ROUNDED_CUTS = 4
"""Rounded cuts that are derived from one constraint."""
MAX_PROBING_ENTRIES = 20_000_000
"""Matrix entries, summed over all binaries, that probing works on."""
MIN_RELATIVE_SLACK = 1e-3
"""Slack, relative to the terms of a constraint, from which on a binary is written into it."""
MIN_RELATIVE_TIGHTENING = 1e-2
"""Fraction of a variable's range by which a bound must improve to be moved."""


def _with_signs(program: Program, sign: ndarray) -> Program:
    """Return a program whose constraints are multiplied by 1 or -1."""
    rows = program.rows
    sides = np.array([program.row_lower, program.row_upper])
    lower, upper = np.where(sign > 0, sides, -sides[::-1])
    weight = rows.weight * sign[rows.row]
    return replace(program, rows=rows._replace(weight=weight), row_lower=lower, row_upper=upper)


def _signs(program: Program) -> ndarray:
    """Return the signs with which constraints without an upper side have one."""
    return np.where(np.isinf(program.row_upper), -1.0, 1.0)


def _largest_terms(program: Program, weight: ndarray) -> ndarray:
    """Return for each entry the largest value of its term, with these weights."""
    column = program.rows.column
    return weight * np.where(weight > 0, program.upper[column], program.lower[column])


def _largest_others(program: Program, weight: ndarray) -> ndarray:
    """Return for each entry the largest sum of all other terms of its row, with these weights and
    rounded outward; infinite where one of them is.
    """
    rows = program.rows
    term = _largest_terms(program, weight)
    infinite = np.isinf(term)
    term = np.where(infinite, 0.0, term)
    room = OUTWARD * rows.sums(np.abs(term))
    others = rows.sums(term)[rows.row] - term + room[rows.row]
    return np.where(rows.sums(infinite)[rows.row] > infinite, np.inf, others)


def propagate_bounds(program: Program, rounds: int) -> Program | None:
    """Return the program with bounds that its constraints imply.

    Parameters
    ----------
    program
        The program.
    rounds
        Number of passes over all constraints at most.

    Returns
    -------
    Program or None
        None where the constraints leave no point.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> one = np.ones(2)
    >>> free = Program(
    ...     0 * one,
    ...     Rows.of(sp.csr_matrix([[1.0, -2.0]])),
    ...     0 * one[:1],
    ...     0 * one[:1],
    ...     np.array([-np.inf, 0.0]),
    ...     np.array([np.inf, 3.0]),
    ...     one > 1,
    ... )
    >>> propagate_bounds(free, rounds=2).upper.round(6)
    array([6., 3.])
    """
    for _ in range(rounds):
        check_time()
        lower, upper = _implied_bounds(program)
        if ((lower > program.upper) | (upper < program.lower) | (lower > upper)).any():
            return None
        with np.errstate(invalid="ignore"):
            width = program.upper - program.lower
            needed = np.where(np.isfinite(width), MIN_RELATIVE_TIGHTENING * width, 0.0)
            better_lower = lower > program.lower + needed
            better_upper = upper < program.upper - needed
        if not (better_lower | better_upper).any():
            break
        program = program.within(
            np.where(better_lower, lower, program.lower),
            np.where(better_upper, upper, program.upper),
        )
    return program


def _implied_bounds(program: Program) -> tuple[ndarray, ndarray]:
    """Return the strongest bounds that one constraint alone implies for each variable."""
    rows = program.rows
    weight = rows.weight
    with np.errstate(invalid="ignore", over="ignore"):
        largest = program.row_upper[rows.row] + _largest_others(program, -weight)
        smallest = program.row_lower[rows.row] - _largest_others(program, weight)
        ends = np.where(weight > 0, [smallest, largest], [largest, smallest]) / weight
        low, high = ends + np.abs(ends) * [[-OUTWARD], [OUTWARD]]
    lower = np.full_like(program.lower, -np.inf)
    upper = np.full_like(program.upper, np.inf)
    np.fmax.at(lower, rows.column, low)  # without NaN
    np.fmin.at(upper, rows.column, high)
    lower = np.where(program.integer, np.ceil(lower), lower)
    return lower, np.where(program.integer, np.floor(upper), upper)


def probe_binaries(program: Program, deadline: float) -> Program:
    r"""Return the program with stronger constraints and a smaller box, by fixing each binary.

    Where a binary at 0 leaves a constraint at most $U < b$, by the bounds that follow from it in
    all constraints, it may be written $a^\top v + (b - U)(1 - \delta) \le b$, whether the binary
    occurs in it already or not. A binary whose one value leaves no point has the other one.

    Parameters
    ----------
    program
        The program.
    deadline
        Time at which probing ends.
    """
    sign = _signs(program)
    probing = _Probing(_with_signs(program, sign))
    most = MAX_PROBING_ENTRIES // (len(program.rows.weight) + 1)
    for binary in np.flatnonzero(program.binary)[:most]:
        probing.probe(binary, deadline)
    return _with_signs(probing.result(), sign)


class _Probing:
    """The box so far (lower and upper ends), and by how much the coefficient of a binary may change
    in each constraint.

    It becomes smaller by the slack that the binary leaves at 0, or larger by that at 1.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.box = np.array([program.lower, program.upper])
        self.change = np.zeros(len(program.row_upper))
        self.binary = np.zeros(len(program.row_upper), dtype=int)

    def probe(self, binary: int, deadline: float) -> None:
        fixed = []
        for value in (0, 1):
            if now() >= deadline:
                return
            box = self.box.copy()
            box[:, binary] = value
            program = propagate_bounds(self.program.within(*box), rounds=3)
            if program is None:
                self.box[value, binary] = 1 - value  # the lower end of 0, the upper one of 1
                return
            fixed.append(program)
            self._keep_slack(binary, value, program)
        at_0, at_1 = fixed
        lower, upper = self.box
        self.box[0] = np.maximum(lower, np.minimum(at_0.lower, at_1.lower))
        self.box[1] = np.minimum(upper, np.maximum(at_0.upper, at_1.upper))

    def _keep_slack(self, binary: int, value: int, fixed: Program) -> None:
        limit = fixed.row_upper
        terms = _largest_terms(fixed, fixed.rows.weight)
        size = fixed.rows.sums(np.abs(terms))
        with np.errstate(invalid="ignore"):  # a side that is missing
            slack = limit - fixed.rows.sums(terms) - OUTWARD * (size + np.abs(limit))
        needed = MIN_RELATIVE_SLACK * np.maximum(size, np.abs(limit))
        better = np.isinf(fixed.row_lower) & (slack > np.maximum(np.abs(self.change), needed))
        self.change[better] = (2 * value - 1) * slack[better]
        self.binary[better] = binary

    def result(self) -> Program:
        """Return the program with the binaries written into the constraints: where a binary at 0
        leaves a slack, the limit becomes smaller by it too.
        """
        program = self.program.within(*self.box)
        rows = np.flatnonzero(self.change)
        if not len(rows):
            return program
        matrix = program.rows.matrix(len(program.cost))
        change = (self.change[rows], (rows, self.binary[rows]))
        changed = Rows.of(matrix + sp.csr_matrix(change, matrix.shape))
        limit = program.row_upper + np.minimum(self.change, 0.0)
        return replace(program, rows=changed, row_upper=limit)


class Inequality(NamedTuple):
    r"""The constraint $\sum_j a_j v_j \ge b$, by the variables and the weights of its terms."""

    columns: ndarray
    weights: ndarray
    limit: float

    @property
    def terms(self) -> list[tuple[int, float]]:
        return list(zip(self.columns.tolist(), self.weights.tolist(), strict=True))


class VariableUpperBound(NamedTuple):
    r"""The bound $v \le c + u\,\delta$, with a rate $u$ and a binary $\delta$."""

    binary: int
    rate: float
    constant: float


def cover_cuts(program: Program) -> Program:
    r"""Return the program with cuts on binaries that follow from variable upper bounds.

    From $\sum_j a_j v_j \ge b$ and $v_j \le c_j + u_j \delta_j$ follows $\sum_j a_j u_j \delta_j
    \ge b - \sum_j a_j c_j =: B$, and for integers $\sum_j \min(a_j u_j, B)\, \delta_j \ge B$
    and, for every unit $d > 0$, $\sum_j \lceil a_j u_j / d \rceil\, \delta_j \ge \lceil B / d
    \rceil$: some of the binaries must be 1.
    """
    inequalities = list(_inequalities(program))
    bounds = _variable_upper_bounds(program, inequalities)
    switched = {j for j in bounds if not program.integer[j]}
    cuts: list[Inequality] = []
    for inequality in inequalities:
        check_time()
        if not switched.isdisjoint(inequality.columns.tolist()):
            cuts += _strengthened(_cover(program, inequality, bounds))
    if not cuts:
        return program
    matrix = stacked_rows([cut[:2] for cut in cuts], len(program.cost))
    limits = [cut.limit for cut in cuts]
    return program.with_constraints(matrix, limits, np.full(len(cuts), np.inf))


def _inequalities(program: Program) -> Iterator[Inequality]:
    """Yield all sides of the constraints of a program as lower bounds."""
    rows = program.rows
    for r, sides in enumerate(
        zip(program.row_upper.tolist(), program.row_lower.tolist(), strict=True)
    ):
        check_time()
        entries = slice(rows.first[r], rows.first[r + 1])
        for sign, side in zip((-1.0, 1.0), sides, strict=True):
            if np.isfinite(side):
                yield Inequality(rows.column[entries], sign * rows.weight[entries], sign * side)


def _variable_upper_bounds(
    program: Program, inequalities: list[Inequality]
) -> dict[int, VariableUpperBound]:
    """Return the strongest bound of each continuous variable, at 1, by a constraint with a binary
    alone, rounded up; binaries are their own bounds.
    """
    binary = program.binary
    bounds = {j: VariableUpperBound(j, 1.0, 0.0) for j in np.flatnonzero(binary).tolist()}
    for inequality in inequalities:
        if len(inequality.columns) != 2:
            continue
        for (j, weight), (switch, rise) in permutations(inequality.terms):
            if program.integer[j] or not binary[switch] or not rise > 0 > weight:
                continue
            rate = -rise / weight
            constant = inequality.limit / weight
            if j not in bounds or rate + constant < bounds[j].rate + bounds[j].constant:
                constant += OUTWARD * abs(constant)
                bounds[j] = VariableUpperBound(switch, rate * (1 + OUTWARD), constant)
    return bounds


def _cover(
    program: Program, inequality: Inequality, bounds: dict[int, VariableUpperBound]
) -> Inequality:
    """Return what an inequality implies for binaries, with all other terms at their maximum."""
    limit = inequality.limit
    weights: dict[int, float] = defaultdict(float)
    for j, weight in inequality.terms:
        if weight > 0 and j in bounds:
            binary, rate, end = bounds[j]
            weights[binary] += weight * rate
        else:
            end = float(program.upper[j] if weight > 0 else program.lower[j])
        limit -= weight * end + OUTWARD * abs(weight * end)
    weights = {j: weight for j, weight in weights.items() if weight}
    return Inequality(np.array(list(weights), dtype=int), np.array(list(weights.values())), limit)


def _strengthened(cover: Inequality) -> list[Inequality]:
    """Return the cuts that follow from an inequality since its variables are binary."""
    columns, weights, limit = cover
    cuts: list[Inequality] = []
    if not np.isfinite(limit) or limit <= 0:
        return cuts
    if (weights > limit).any():
        cuts.append(Inequality(columns, np.minimum(weights * (1 + OUTWARD), limit), limit))
    for unit in sorted(set(weights.tolist()), reverse=True)[:MAX_ROUNDED_CUTS]:
        needed = float(np.ceil(limit / unit * (1 - OUTWARD)))
        cuts.append(Inequality(columns, np.minimum(np.ceil(weights / unit), needed), needed))
    return cuts


def strengthen_coefficients(program: Program) -> Program:
    """Return the program with coefficients of binaries that are as strong as its bounds allow.

    The new program is equivalent to the old one within these bounds only.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> one = np.ones(2)
    >>> loose = Program(
    ...     one,
    ...     Rows.of(sp.csr_matrix([[1.0, -1.0]])),
    ...     -np.inf * one[:1],
    ...     0 * one[:1],
    ...     0 * one,
    ...     np.array([0.5, 1.0]),
    ...     np.array([False, True]),
    ... )
    >>> strengthen_coefficients(loose).rows.weight.round(6)
    array([ 1. , -0.5])
    """
    sign = _signs(program)
    changed = _with_signs(program, sign)
    for _ in range(2):
        _subtract_slack(changed)
    return _with_signs(changed, sign)


def _subtract_slack(program: Program) -> None:
    """Strengthen, in place, the coefficient of one binary in each constraint without a lower side
    that is redundant at one value of it.
    """
    rows = program.rows
    at_0 = _largest_others(program, rows.weight)
    at_1 = at_0 + rows.weight
    right = program.row_upper[rows.row]
    redundant = (np.minimum(at_0, at_1) < right) & (right < np.maximum(at_0, at_1))
    one_sided = np.isinf(program.row_lower)[rows.row]
    chosen = np.flatnonzero(redundant & one_sided & program.binary[rows.column])
    chosen = chosen[np.unique(rows.row[chosen], return_index=True)[1]]
    weight = rows.weight[chosen]
    limit = right[chosen]
    maximum = at_0[chosen]
    room = OUTWARD * (np.abs(weight) + np.abs(limit) + np.abs(maximum))
    slack = limit - maximum
    rows.weight[chosen] = np.where(weight > 0, weight - slack, slack - room)
    program.row_upper[rows.row[chosen]] = np.where(weight > 0, maximum + room, limit)

r"""A program made tighter in a box, without losing a point: bounds that constraints imply, stronger
coefficients of binaries, and cuts.

From $\sum_k a_k v_k \le b$ follows $a_j v_j \le b - \min \sum_{k \ne j} a_k v_k$. And where the
rest of such a constraint is at most $U < b$ when a binary is 0, it is redundant there: with $b - U$
subtracted from both $b$ and the binary's coefficient it is equivalent where the binary is 1, and
cuts off fractional points. All is rounded outward, by 1e-9 of the terms.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy import ndarray

from ..clock import check_time, now
from .program import Program, Rows

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

Box = tuple[ndarray, ndarray]


class OneSided(NamedTuple):
    r"""The constraints of a program, those with one side as $s\,a^\top v \\le b$ with a sign $s$.

    Attributes
    ----------
    rows, limit
        $s\,a$ and $b$ of every constraint.
    sign
        $s$.
    mask
        Which constraints have one finite side.
    """

    rows: Rows
    limit: ndarray
    sign: ndarray
    mask: ndarray

    @classmethod
    def of(cls, program: Program) -> "OneSided":
        """Return them for all constraints of a program."""
        rows = program.rows
        mask = np.isinf(program.row_lower) != np.isinf(program.row_upper)
        sign = np.where(mask & np.isinf(program.row_upper), -1.0, 1.0)
        limit = np.where(sign < 0, -program.row_lower, program.row_upper)
        return cls(rows._replace(weight=rows.weight * sign[rows.row]), limit, sign, mask)

    def program(self, program: Program) -> Program:
        """Return a program with these constraints."""
        lower = np.where(self.sign < 0, -self.limit, program.row_lower)
        upper = np.where(self.sign < 0, program.row_upper, self.limit)
        rows = self.rows._replace(weight=self.rows.weight * self.sign[self.rows.row])
        return replace(program, rows=rows, row_lower=lower, row_upper=upper)

    def maximum_activity(self, program: Program) -> tuple[ndarray, ndarray]:
        """Return the maximum of each constraint's activity within the bounds of a program, and the
        sum of the absolute values of its terms.
        """
        rows = self.rows
        end = np.where(rows.weight > 0, program.upper[rows.column], program.lower[rows.column])
        terms = rows.weight * end
        return rows.sums(terms), rows.sums(np.abs(np.where(np.isinf(terms), 0.0, terms)))

    def strengthen(self, candidates: ndarray, program: Program) -> bool:
        """Strengthen the coefficient of one candidate in each constraint, in place; return whether
        there was one.
        """
        rows = self.rows
        at_0 = _other_terms(rows, program.lower, program.upper, 1.0)
        at_1 = at_0 + rows.weight
        right = self.limit[rows.row]
        redundant_at_0 = (rows.weight > 0) & (at_0 < right) & (at_1 > right)
        redundant_at_1 = (rows.weight < 0) & (at_1 < right) & (at_0 > right)
        chosen = np.flatnonzero(candidates & (redundant_at_0 | redundant_at_1))
        if not chosen.size:
            return False
        chosen = chosen[np.unique(rows.row[chosen], return_index=True)[1]]
        self._subtract_slack(chosen, at_0[chosen])
        return True

    def _subtract_slack(self, chosen: ndarray, maximum: ndarray) -> None:
        """Change the coefficients of binaries and the limits, in place, where the other terms have
        this maximum.
        """
        row = self.rows.row[chosen]
        weight = self.rows.weight[chosen]
        right = self.limit[row]
        slack = right - maximum
        room = OUTWARD * (np.abs(weight) + np.abs(right) + np.abs(maximum))
        self.rows.weight[chosen] = np.where(weight > 0, weight - slack, slack - room)
        self.limit[row] = np.where(weight > 0, maximum + room, right)


def _other_terms(rows: Rows, lower: ndarray, upper: ndarray, sign: float) -> ndarray:
    """Return for each entry the maximum (`sign` 1) or minimum (-1) of all other terms of its row,
    rounded outward; infinite where one of them is.
    """
    at_lower = (rows.weight > 0) == (sign < 0)
    term = rows.weight * np.where(at_lower, lower[rows.column], upper[rows.column])
    infinite = np.isinf(term)
    term = np.where(infinite, 0.0, term)
    room = OUTWARD * rows.sums(np.abs(term))
    others = rows.sums(term)[rows.row] - term + sign * room[rows.row]
    infinite_others = rows.sums(infinite)[rows.row] - infinite
    return np.where(infinite_others > 0, sign * np.inf, others)


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
    lower = program.lower
    upper = program.upper
    for _ in range(rounds):
        check_time()
        new_lower, new_upper = _implied_bounds(program, lower, upper)
        if ((new_lower > upper) | (new_upper < lower) | (new_lower > new_upper)).any():
            return None
        with np.errstate(invalid="ignore"):
            width = upper - lower
            needed = np.where(np.isfinite(width), MIN_RELATIVE_TIGHTENING * width, 0.0)
            better_lower = new_lower > lower + needed
            better_upper = new_upper < upper - needed
        if not (better_lower.any() or better_upper.any()):
            break
        lower = np.where(better_lower, new_lower, lower)
        upper = np.where(better_upper, new_upper, upper)
    return program.within(lower, upper)


def _implied_bounds(program: Program, lower: ndarray, upper: ndarray) -> Box:
    """Return the strongest bounds that one constraint alone implies for each variable."""
    rows = program.rows
    minimum = _other_terms(rows, lower, upper, -1.0)
    maximum = _other_terms(rows, lower, upper, 1.0)
    with np.errstate(invalid="ignore", over="ignore"):
        largest_term = program.row_upper[rows.row] - minimum
        smallest_term = program.row_lower[rows.row] - maximum
        high = np.where(rows.weight > 0, largest_term, smallest_term) / rows.weight
        low = np.where(rows.weight > 0, smallest_term, largest_term) / rows.weight
        high = high + OUTWARD * np.abs(high)
        low = low - OUTWARD * np.abs(low)
    new_lower = np.full_like(lower, -np.inf)
    new_upper = np.full_like(upper, np.inf)
    np.fmax.at(new_lower, rows.column, low)  # without NaN
    np.fmin.at(new_upper, rows.column, high)
    new_lower = np.where(program.integer, np.ceil(new_lower), new_lower)
    new_upper = np.where(program.integer, np.floor(new_upper), new_upper)
    return new_lower, new_upper


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
    probing = _Probing(program)
    most = MAX_PROBING_ENTRIES // (len(program.rows.weight) + 1)
    for binary in np.flatnonzero(program.binary)[:most]:
        probing.probe(binary, deadline)
    return probing.result()


class _Probing:
    """The largest slack that a value of a binary leaves in each constraint, and the box so far."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.lower = program.lower.copy()
        self.upper = program.upper.copy()
        self.one_sided = OneSided.of(program)
        self.slack = np.zeros(len(program.row_lower))
        self.binary = np.full(len(program.row_lower), -1)
        self.binary_value = np.full(len(program.row_lower), -1)

    def probe(self, binary: int, deadline: float) -> None:
        both = []
        for value in (0, 1):
            if now() >= deadline:
                return
            lower = self.lower.copy()
            upper = self.upper.copy()
            lower[binary] = upper[binary] = value
            fixed = propagate_bounds(self.program.within(lower, upper), rounds=3)
            if fixed is None:
                if value == 0:
                    self.lower[binary] = 1.0
                else:
                    self.upper[binary] = 0.0
                return
            both.append(fixed)
            self._keep_slack(binary, value, fixed)
        at_0, at_1 = both
        self.lower = np.maximum(self.lower, np.minimum(at_0.lower, at_1.lower))
        self.upper = np.minimum(self.upper, np.maximum(at_0.upper, at_1.upper))

    def _keep_slack(self, binary: int, value: int, fixed: Program) -> None:
        limit = self.one_sided.limit
        maximum, size = self.one_sided.maximum_activity(fixed)
        with np.errstate(invalid="ignore"):  # a side that is missing
            slack = limit - maximum - OUTWARD * (size + np.abs(limit))
        slack = np.where(self.one_sided.mask, slack, -np.inf)
        needed = MIN_RELATIVE_SLACK * np.maximum(size, np.abs(limit))
        better = np.flatnonzero(slack > np.maximum(self.slack, needed))
        self.slack[better] = slack[better]
        self.binary[better] = binary
        self.binary_value[better] = value

    def result(self) -> Program:
        """Return the program with the binaries written into the constraints.

        Where a binary at 0 leaves a slack, its coefficient and the limit both become smaller by it;
        where a binary at 1 does, its coefficient becomes larger.
        """
        rows = np.flatnonzero(self.binary >= 0)
        if not len(rows):
            return self.program.within(self.lower, self.upper)
        off = self.binary_value[rows] == 0
        slack = self.slack[rows]
        matrix = self.one_sided.rows.matrix(len(self.lower))
        change = (np.where(off, -slack, slack), (rows, self.binary[rows]))
        changed = Rows.of(matrix + sp.csr_matrix(change, matrix.shape))
        self.one_sided.limit[rows] -= np.where(off, slack, 0.0)
        changed_program = self.one_sided._replace(rows=changed).program(self.program)
        return changed_program.within(self.lower, self.upper)


class Inequality(NamedTuple):
    r"""The constraint $\sum_j a_j v_j \le b$."""

    columns: list[int]
    weights: list[float]
    limit: float


class VariableUpperBound(NamedTuple):
    r"""The bound $v \le c + u\,\delta$, with a rate $u$ and a binary $\delta$."""

    binary: int
    rate: float
    constant: float


class Cover(NamedTuple):
    r"""The cut $\sum_j a_j \delta_j \ge b$ on binaries, with positive weights $a_j$ and $b > 0$."""

    weights: dict[int, float]
    limit: float


def cover_cuts(program: Program) -> Program:
    r"""Return the program with cuts on binaries that follow from variable upper bounds.

    From $\sum_j a_j v_j \ge b$ and $v_j \le c_j + u_j \delta_j$ follows $\sum_j a_j u_j \delta_j
    \ge b - \sum_j a_j c_j =: B$, and for integers $\sum_j \min(a_j u_j, B)\, \delta_j \ge B$
    and, for every unit $d > 0$, $\sum_j \lceil a_j u_j / d \rceil\, \delta_j \ge \lceil B / d
    \rceil$: some of the binaries must be 1.
    """
    binary = program.binary
    inequalities = list(_inequalities(program))
    bounds = _variable_upper_bounds(program, inequalities, binary)
    cuts: list[Cover] = []
    for inequality in inequalities:
        check_time()
        if not bounds.keys().isdisjoint(inequality.columns):
            cover = _cover(program, inequality, bounds, binary)
            cuts.extend(_strengthened(cover))
    return _with_cuts(program, cuts) if cuts else program


def _inequalities(program: Program) -> Iterator[Inequality]:
    """Yield all constraints of a program as upper bounds."""
    rows = program.rows
    for r in range(len(program.row_lower)):
        entries = slice(rows.first[r], rows.first[r + 1])
        columns = rows.column[entries].tolist()
        weights = rows.weight[entries]
        check_time()
        if not np.isinf(program.row_upper[r]):
            yield Inequality(columns, weights.tolist(), float(program.row_upper[r]))
        if not np.isinf(program.row_lower[r]):
            yield Inequality(columns, (-weights).tolist(), -float(program.row_lower[r]))


def _variable_upper_bounds(
    program: Program, inequalities: list[Inequality], binary: ndarray
) -> dict[int, VariableUpperBound]:
    """Return the strongest bound of each continuous variable, at 1, by a constraint with a binary
    alone; rounded up.
    """
    bounds: dict[int, VariableUpperBound] = {}
    for columns, weights, limit in inequalities:
        if len(columns) != 2:
            continue
        for v, switch in ((0, 1), (1, 0)):
            j = columns[v]
            if program.integer[j] or not binary[columns[switch]]:
                continue
            if not weights[v] > 0 > weights[switch]:
                continue
            rate = -weights[switch] / weights[v]
            constant = limit / weights[v]
            if j not in bounds or rate + constant < bounds[j].rate + bounds[j].constant:
                bounds[j] = VariableUpperBound(
                    columns[switch],
                    rate * (1 + OUTWARD),
                    constant + OUTWARD * abs(constant),
                )
    return bounds


def _cover(
    program: Program,
    inequality: Inequality,
    bounds: dict[int, VariableUpperBound],
    binary: ndarray,
) -> Cover:
    """Return what an inequality, times -1, implies for binaries, with all other terms at their
    maximum.
    """
    limit = -inequality.limit
    weights: dict[int, float] = {}
    for j, negative in zip(inequality.columns, inequality.weights, strict=True):
        weight = -negative
        if weight > 0 and binary[j]:
            weights[j] = weights.get(j, 0.0) + weight
            continue
        if weight > 0 and j in bounds:
            bound = bounds[j]
            weights[bound.binary] = weights.get(bound.binary, 0.0) + weight * bound.rate
            constant = weight * bound.constant
        elif weight > 0:
            constant = weight * float(program.upper[j])
        else:
            constant = weight * float(program.lower[j])
        limit -= constant + OUTWARD * abs(constant)
    return Cover({j: weight for j, weight in weights.items() if weight}, limit)


def _strengthened(cover: Cover) -> list[Cover]:
    """Return the cuts that follow from a cover since its variables are binary."""
    weights, limit = cover
    cuts: list[Cover] = []
    if not np.isfinite(limit) or limit <= 0:
        return cuts
    if any(weight > limit for weight in weights.values()):
        reduced = {j: min(weight * (1 + OUTWARD), limit) for j, weight in weights.items()}
        cuts.append(Cover(reduced, limit))
    for unit in sorted(set(weights.values()), reverse=True)[:MAX_ROUNDED_CUTS]:
        needed = float(np.ceil(limit / unit * (1 - OUTWARD)))
        rounded = {j: min(float(np.ceil(weight / unit)), needed) for j, weight in weights.items()}
        cuts.append(Cover(rounded, needed))
    return cuts


def _with_cuts(program: Program, cuts: list[Cover]) -> Program:
    row = [number for number, cut in enumerate(cuts) for _ in cut.weights]
    column = [j for cut in cuts for j in cut.weights]
    weight = [weight for cut in cuts for weight in cut.weights.values()]
    matrix = sp.csr_matrix((weight, (row, column)), (len(cuts), len(program.cost)))
    limits = [cut.limit for cut in cuts]
    return program.with_constraints(matrix, limits, np.full(len(cuts), np.inf))


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
    one_sided = OneSided.of(program)
    rows = one_sided.rows
    candidates = program.binary[rows.column] & one_sided.mask[rows.row]
    if not (candidates.any() and one_sided.strengthen(candidates, program)):
        return program
    one_sided.strengthen(candidates, program)
    return one_sided.program(program)

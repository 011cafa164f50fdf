r"""A program made tighter in a box, without losing a point: bounds that rows imply, and
coefficients of binaries.

From $\sum_k a_k v_k \le b$ follows $a_j v_j \le b - \min \sum_{k \ne j} a_k v_k$. And where the
rest of such a row is at most $U < b$ when a binary is 0, the row says nothing there: with $b - U$
taken off both $b$ and the binary's coefficient it says as much where the binary is 1, and cuts off
fractions. All is rounded outward, by 1e-9 of the terms.
"""

import itertools
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..clock import check_time, now
from .program import Program, Rows

OUTWARD = 1e-9
ROUNDED = 4  # rounded rows that follow from one
LIFTING = 20_000_000  # entries of rows that are looked at for binaries to be written into them
WORTH = 1e-3  # share of its terms by which a row must be slack for a binary to be written into it
HELPS = 1e-2  # share of its width by which a bound must improve


class ActivityBounds(NamedTuple):
    """For each entry of a row the least and the most of all others, rounded outward; infinite where
    one of them is.
    """

    least: np.ndarray
    most: np.ndarray


def _rests(e: Rows, lower: np.ndarray, upper: np.ndarray, count: int) -> ActivityBounds:
    rising = e.weight > 0
    found = []
    for low, sign in ((rising, -1.0), (~rising, 1.0)):
        end = e.weight * np.where(low, lower[e.column], upper[e.column])
        endless = np.isinf(end)
        end = np.where(endless, 0.0, end)
        total, size = (np.bincount(e.row, part, count) for part in (end, np.abs(end)))
        others = np.bincount(e.row, endless, count)[e.row] - endless
        rest = total[e.row] - end + sign * OUTWARD * size[e.row]
        found.append(np.where(others > 0, sign * np.inf, rest))
    return ActivityBounds(*found)


def propagate_bounds(
    program: Program, lower: np.ndarray, upper: np.ndarray, rounds: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Bounds that the rows imply in a box, or None where they leave no point.

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
    >>> propagate_bounds(free, free.lower, free.upper, 2)[1].round(6)
    array([6., 3.])
    """
    e = program.rows
    for _ in range(rounds):
        check_time()
        rest = _rests(e, lower, upper, len(program.row_lower))
        with np.errstate(invalid="ignore", over="ignore"):
            most = program.row_upper[e.row] - rest.least
            least = program.row_lower[e.row] - rest.most
            high = np.where(e.weight > 0, most, least) / e.weight
            low = np.where(e.weight > 0, least, most) / e.weight
            high = high + OUTWARD * np.abs(high)
            low = low - OUTWARD * np.abs(low)
        new_lower = np.full_like(lower, -np.inf)
        new_upper = np.full_like(upper, np.inf)
        np.fmin.at(new_upper, e.column, np.where(np.isnan(high), np.inf, high))
        np.fmax.at(new_lower, e.column, np.where(np.isnan(low), -np.inf, low))
        whole = program.integer
        new_lower = np.where(whole, np.ceil(new_lower), new_lower)
        new_upper = np.where(whole, np.floor(new_upper), new_upper)
        if ((new_lower > upper) | (new_upper < lower) | (new_lower > new_upper)).any():
            return None
        with np.errstate(invalid="ignore"):
            needed = np.where(np.isfinite(upper - lower), HELPS * (upper - lower), 0.0)
            better_low = new_lower > lower + needed
            better_high = new_upper < upper - needed
        if not (better_low.any() or better_high.any()):
            break
        lower = np.where(better_low, new_lower, lower)
        upper = np.where(better_high, new_upper, upper)
    return lower, upper


def probe_binaries(program: Program, deadline: float) -> Program:
    r"""The program with rows that fit one binary each, and a box that holds what is left for both
    of its values.

    Where a binary at 0 leaves a row at most $U < b$, by the bounds that follow from it in all rows,
    the row may be written $a^\top v + (b - U)(1 - \delta) \le b$, whether the binary stands in it
    already or not. A binary whose one value leaves no point has the other one.
    """
    lower = program.lower.copy()
    upper = program.upper.copy()
    count = len(program.row_lower)
    (single, sign, right) = _one_sided(program)
    e = program.rows
    best = np.zeros(count)
    chosen = np.full((2, count), -1)
    turned = e._replace(weight=e.weight * sign[e.row])
    binaries = np.flatnonzero(program.integer & (lower == 0) & (upper == 1))
    for at in binaries[: LIFTING // (len(e.weight) + 1)]:
        boxes = list[tuple[np.ndarray, np.ndarray]]()
        for value in (0.0, 1.0):
            if now() >= deadline:
                break
            ends = lower.copy(), upper.copy()
            ends[0][at] = ends[1][at] = value
            box = propagate_bounds(program, *ends, rounds=3)
            if box is None:
                (lower if value == 0 else upper)[at] = 1.0 - value
                break
            boxes.append(box)
            most, size = _largest(turned, *box, count)
            with np.errstate(invalid="ignore"):  # a side that is missing
                spare = np.where(single, right - most - OUTWARD * (size + np.abs(right)), -np.inf)
            better = np.flatnonzero(
                spare > np.maximum(best, WORTH * np.maximum(size, np.abs(right)))
            )
            best[better], chosen[0, better], chosen[1, better] = spare[better], at, value
        if len(boxes) == 2:  # every point lies in one of them
            lower = np.maximum(lower, np.minimum(boxes[0][0], boxes[1][0]))
            upper = np.minimum(upper, np.maximum(boxes[0][1], boxes[1][1]))
    rows = np.flatnonzero(chosen[0] >= 0)
    if not len(rows):
        return program.within(lower, upper)
    # b - U off the left where the binary is 0: weight -(b - U), and b becomes U; where it is 1:
    # weight b - U
    off = chosen[1, rows] == 0
    extra = sp.csr_matrix(
        (np.where(off, -1.0, 1.0) * best[rows] * sign[rows], (rows, chosen[0, rows])),
        (count, len(lower)),
    )
    right[rows] -= np.where(off, best[rows], 0.0)
    joined = Rows.of(program.rows.matrix(len(lower)) + extra)
    return _with_sides(program, sign, right, joined).within(lower, upper)


def _one_sided(program: Program) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Which rows have one side; the sign with which they read a'v <= b; and all b."""
    single = np.isinf(program.row_lower) != np.isinf(program.row_upper)
    sign = np.where(single & np.isinf(program.row_upper), -1.0, 1.0)
    return single, sign, np.where(sign < 0, -program.row_lower, program.row_upper)


def _with_sides(program: Program, sign: np.ndarray, right: np.ndarray, rows: Rows) -> Program:
    """The program with other rows, and other b of rows that read a'v <= b with these signs."""
    low = np.where(sign < 0, -right, program.row_lower)
    high = np.where(sign < 0, program.row_upper, right)
    return replace(program, rows=rows, row_lower=low, row_upper=high)


def cover_cuts(program: Program) -> Program:
    r"""The program with rows on binaries that follow from rows on variables which these binaries
    switch on.

    From $\sum_j a_j v_j \ge b$ and $v_j \le c_j + u_j \delta_j$ follows $\sum_j a_j u_j \delta_j
    \ge b - \sum_j a_j c_j =: B$, and for whole numbers $\sum_j \min(a_j u_j, B)\, \delta_j \ge B$
    and, for every unit $d > 0$, $\sum_j \lceil a_j u_j / d \rceil\, \delta_j \ge \lceil B / d
    \rceil$: some of them must be on.
    """
    e = program.rows
    count = len(program.row_lower)
    switched = dict[int, tuple[int, float, float]]()
    binary = program.integer & (program.lower == 0) & (program.upper == 1)
    spans = [(r, slice(e.first[r], e.first[r + 1])) for r in range(count)]
    sides = [(sign, side) for sign, side in ((1.0, program.row_upper), (-1.0, -program.row_lower))]
    for (r, span), (sign, side) in itertools.product(spans, sides):
        check_time()
        if span.stop - span.start != 2 or np.isinf(side[r]):
            continue
        for v, on in (e.column[span], e.column[span][::-1]):
            a = {int(j): sign * w for j, w in zip(e.column[span], e.weight[span], strict=True)}
            if binary[on] and not program.integer[v] and a[v] > 0 > a[on]:
                rate = -a[on] / a[v]
                rest = side[r] / a[v]
                if v not in switched or rate + rest < sum(switched[v][1:]):
                    switched[v] = int(on), rate * (1 + OUTWARD), rest + OUTWARD * abs(rest)
    rows = []
    limits = []
    for (r, span), (sign, side) in itertools.product(spans, sides):
        check_time()
        need = -float(side[r])
        weights = dict[int, float]()
        if np.isinf(need) or not any(int(j) in switched for j in e.column[span]):
            continue
        for j, w in zip(e.column[span].tolist(), (-sign * e.weight[span]).tolist(), strict=True):
            on, rate, rest = switched.get(j, (j, 0.0, float(program.upper[j])))
            if w > 0 and binary[j]:
                weights[j] = weights.get(j, 0.0) + w
            elif w > 0:
                weights[on] = weights.get(on, 0.0) + w * rate
                need -= w * rest + OUTWARD * abs(w * rest)
            else:
                need -= w * float(program.lower[j]) + OUTWARD * abs(w * float(program.lower[j]))
        weights = {j: w for j, w in weights.items() if w}
        if not np.isfinite(need) or need <= 0 or not weights:
            continue
        if any(w > need for w in weights.values()):
            rows.append({j: min(w * (1 + OUTWARD), need) for j, w in weights.items()})
            limits.append(need)
        for unit in sorted(set(weights.values()), reverse=True)[:ROUNDED]:
            least = float(np.ceil(need / unit * (1 - OUTWARD)))
            rows.append({j: min(float(np.ceil(w / unit)), least) for j, w in weights.items()})
            limits.append(least)
    if not rows:
        return program
    columns = [j for row in rows for j in row]
    numbers = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    new = sp.csr_matrix(
        ([w for row in rows for w in row.values()], (numbers, columns)),
        (len(rows), len(program.cost)),
    )
    joined = Rows.of(sp.vstack([e.matrix(len(program.cost)), new]).tocsr())
    low = np.concatenate([program.row_lower, np.array(limits)])
    return replace(
        program,
        rows=joined,
        row_lower=low,
        row_upper=np.append(program.row_upper, np.full(len(rows), np.inf)),
    )


def _largest(
    e: Rows, lower: np.ndarray, upper: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The most that each row can be in a box, and the size of what adds up to it."""
    ends = e.weight * np.where(e.weight > 0, upper[e.column], lower[e.column])
    return np.bincount(e.row, ends, count), np.bincount(
        e.row, np.abs(np.where(np.isinf(ends), 0.0, ends)), count
    )


def strengthen_coefficients(
    program: Program, lower: np.ndarray, upper: np.ndarray, rounds: int = 2
) -> Program:
    """The program with coefficients of binaries that fit the box.

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
    >>> strengthen_coefficients(loose, loose.lower, loose.upper).rows.weight.round(6)
    array([ 1. , -0.5])
    """
    e = program.rows
    count = len(program.row_lower)
    (single, sign, right) = _one_sided(program)
    weight = e.weight.copy()
    switch = (program.integer & (lower == 0) & (upper == 1))[e.column] & single[e.row]
    if not switch.any():
        return program
    changed = False
    for _ in range(rounds):
        a = weight * sign[e.row]
        rest = _rests(e._replace(weight=a), lower, upper, count).most
        b = right[e.row]
        at_off = rest
        at_on = rest + a
        off = switch & (a > 0) & (at_off < b) & (at_on > b)
        on = switch & (a < 0) & (at_on < b) & (at_off > b)
        chosen = np.flatnonzero(off | on)
        if not chosen.size:
            break
        _, first = np.unique(e.row[chosen], return_index=True)  # one binary of a row at a time
        chosen = chosen[first]
        rows = e.row[chosen]
        changed = True
        room = OUTWARD * (np.abs(a[chosen]) + np.abs(b[chosen]) + np.abs(rest[chosen]))
        new = np.where(a[chosen] > 0, a[chosen] - (b - rest)[chosen], (b - rest)[chosen] - room)
        right[rows] = np.where(a[chosen] > 0, rest[chosen] + room, b[chosen])
        weight[chosen] = new * sign[rows]
    if not changed:
        return program
    return _with_sides(program, sign, right, e._replace(weight=weight))

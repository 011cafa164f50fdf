r"""On/off variables of the MIP block: continuous coupled $v$ that a binary $b$ switches off.

Where every row on $v$ is redundant when $b = 0$, $v$ is then free to sit at the minimiser of its
own term $q(v) = cv - \lambda v + \tfrac{\rho}{2}(v - \kappa)^2$, and its cost there is a constant
$q^*$. Writing $\sigma$ for $v$ where $b = 1$ and 0 elsewhere, the block's term becomes $q^* +
\tilde q$ with

$$\tilde q = \tfrac{\rho}{2} z + (c - \lambda - \rho\kappa)\sigma
+ \bigl(\tfrac{\rho}{2}\kappa^2 - q^*\bigr) b, \quad
z \ge 2a\sigma - a^2 b \ \text{ for tangent points } a, \qquad l\,b \le \sigma \le u\,b,$$

the tangents of $\sigma^2$ in perspective form. Rows and tangents stay the same from one iteration
to the next: a MILP with a new objective, and a much tighter one than big-M rows with an epigraph of
$v^2$.
"""

import itertools
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ..programs.scip import MILP


@dataclass(frozen=True)
class OnOffRow:
    r"""The row $a^\top \bar v + a_\sigma \sigma \le \beta b + m\,(1 - b)$ that replaces a row on
    $v$, with $m = \max a^\top\bar v$ where $b = 0$.
    """

    others: dict[int, float]
    sigma: float
    on: float
    off: float


@dataclass(frozen=True)
class OnOff:
    """One on/off variable: position, its switch, and its rows in the new form."""

    variable: int
    switch: int
    rows: tuple[OnOffRow, ...]
    replaced: tuple[int, ...]


def find_onoff(s: MILP, candidates: np.ndarray, own_rows: np.ndarray) -> list[OnOff]:
    """On/off variables among the continuous candidates, in the rows `own_rows`; each row holds one
    of them at most.
    """
    rows = s.rows.tocsr()
    columns = s.rows.tocsc()
    boxed = np.isfinite(s.lower) & np.isfinite(s.upper) & ~s.integer
    binary = s.integer & (s.lower == 0) & (s.upper == 1)
    zeroed = _zeroed(s, rows, binary, own_rows)
    elsewhere = {v for c in s.others for v in c.variables}
    taken: set[int] = set()
    found = []
    for v in candidates[boxed[candidates]]:
        mine = columns.indices[columns.indptr[v] : columns.indptr[v + 1]]
        mine = mine[own_rows[mine]]
        if not mine.size or v in elsewhere or taken.intersection(mine):
            continue
        members = [dict(zip(*_entries(rows, r), strict=True)) for r in mine]
        common = set.intersection(
            *({i for i in m if binary[i]}.union(*(zeroed[t] for t in m)) for m in members)
        )
        for b in sorted(common):
            zero = {t for m in members for t in m if b in zeroed[t]}
            sides = zip(members, s.row_lower[mine], s.row_upper[mine], strict=True)
            shaped = [_on_off_rows(s, m, v, b, zero, lower, upper) for m, lower, upper in sides]
            if all(shape is not None for shape in shaped):
                replacing = tuple(row for shape in shaped for row in shape or ())
                found.append(OnOff(int(v), b, replacing, tuple(mine.tolist())))
                taken.update(mine)
                break
    return found


def _entries(rows: sp.csr_matrix, r: int) -> tuple[list[int], list[float]]:
    span = slice(rows.indptr[r], rows.indptr[r + 1])
    return rows.indices[span].tolist(), rows.data[span].tolist()


def _zeroed(
    s: MILP, rows: sp.csr_matrix, binary: np.ndarray, own_rows: np.ndarray
) -> defaultdict[int, set[int]]:
    """For each t >= 0 the binaries b that a row t <= U b lets make it zero."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    for r in np.flatnonzero(own_rows & (np.diff(rows.indptr) == 2)).tolist():
        entries = dict(zip(*_entries(rows, r), strict=True))
        for t, b in itertools.permutations(entries):
            side = s.row_upper[r] if entries[t] > 0 else s.row_lower[r]
            if binary[b] and s.lower[t] == 0 and side == 0:
                found[t].add(b)
    return found


def _on_off_rows(
    s: MILP, entries: dict[int, float], v: int, b: int, zero: set[int], lower: float, upper: float
) -> list[OnOffRow] | None:
    """A row on v as one or two on/off rows, or None where it still binds v when b = 0."""
    shaped = []
    for sign, side in ((1.0, upper), (-1.0, -lower)):
        if not np.isfinite(side):
            continue
        coefficient = {i: sign * a for i, a in entries.items()}
        a_v = coefficient.pop(v)
        a_b = coefficient.pop(b, 0.0)
        off = sum(
            a * (s.upper[i] if a > 0 else s.lower[i])
            for i, a in coefficient.items()
            if i not in zero
        )
        if not off + max(a_v * s.lower[v], a_v * s.upper[v]) <= side + 1e-9:
            return None
        shaped.append(OnOffRow(coefficient, a_v, on=side - a_b, off=float(off)))
    return shaped

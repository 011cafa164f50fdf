r"""On/off variables of the MIP block: continuous coupled $v$ that a binary $b$ switches off.

If every constraint on $v$ is redundant at $b = 0$, then $v$ takes the minimiser of its own term
$q(v) = cv - \lambda v + \tfrac{\rho}{2}(v - \kappa)^2$ there, at a constant cost $q^*$. Let
$\sigma$ be $v$ at $b = 1$ and 0 elsewhere. The term of the block is then $q^* + \tilde q$ with

$$\tilde q = \tfrac{\rho}{2} z + (c - \lambda - \rho\kappa)\sigma
+ \bigl(\tfrac{\rho}{2}\kappa^2 - q^*\bigr) b, \quad
z \ge 2a\sigma - a^2 b \ \text{ for tangent points } a, \qquad l\,b \le \sigma \le u\,b,$$

the tangents of $\sigma^2$ in perspective form. Constraints and tangents are the same in every
iteration: the block is a MILP whose objective alone changes, with a much stronger relaxation than
big-M constraints with an epigraph of $v^2$.
"""

import itertools
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from ..programs.scip import MILP
from .assignments import indices_of

REDUNDANCY_TOLERANCE = 1e-9
"""Violation up to which a constraint counts as redundant when the switch is off."""


@dataclass(frozen=True)
class OnOffRow:
    r"""The constraint $a^\top \bar v + a_\sigma \sigma \le \beta b + m\,(1 - b)$, with $m = \max
    a^\top\bar v$ at $b = 0$, which replaces one on $v$.

    Attributes
    ----------
    others
        Coefficients $a$, by the positions of the variables $\bar v$.
    sigma
        Coefficient $a_\sigma$.
    on, off
        Right-hand sides $\beta$ and $m$.
    """

    others: dict[int, float]
    sigma: float
    on: float
    off: float


@dataclass(frozen=True)
class OnOff:
    """One on/off variable.

    Attributes
    ----------
    variable, switch
        Positions of $v$ and $b$.
    rows
        Its constraints in on/off form.
    replaced
        The rows of the model that these replace.
    """

    variable: int
    switch: int
    rows: tuple[OnOffRow, ...]
    replaced: tuple[int, ...]


def find_onoff(milp: MILP, candidates: ndarray, own_rows: ndarray) -> list[OnOff]:
    """Return on/off variables, at most one in each constraint.

    Parameters
    ----------
    milp
        The model.
    candidates
        Positions of the variables that may be on/off variables.
    own_rows
        Mask of the constraints that belong to the MIP block.

    Returns
    -------
    list of OnOff
        In the order of the candidates.
    """
    zeroed = _zeroed(milp, own_rows)
    columns = milp.rows.tocsc()
    excluded = {variable for constraint in milp.others for variable in constraint.variables}
    bounded = np.isfinite(milp.lower) & np.isfinite(milp.upper) & ~milp.integer
    taken: set[int] = set()
    found = []
    for variable in candidates[bounded[candidates]].tolist():
        rows = indices_of(columns, variable)
        rows = rows[own_rows[rows]].tolist()
        if not rows or variable in excluded or taken.intersection(rows):
            continue
        onoff = _onoff(milp, zeroed, variable, rows)
        if onoff is not None:
            found.append(onoff)
            taken.update(rows)
    return found


def _zeroed(milp: MILP, own_rows: ndarray) -> defaultdict[int, set[int]]:
    """For each variable t >= 0 the binaries b with t <= U b, which make it zero."""
    zeroed: defaultdict[int, set[int]] = defaultdict(set)
    binary = milp.binary
    for row in np.flatnonzero(own_rows & (np.diff(milp.rows.indptr) == 2)).tolist():
        entries = _entries(milp, row)
        for variable, switch in itertools.permutations(entries):
            side = milp.row_upper[row] if entries[variable] > 0 else milp.row_lower[row]
            if binary[switch] and milp.lower[variable] == 0 and side == 0:
                zeroed[variable].add(switch)
    return zeroed


def _entries(milp: MILP, row: int) -> dict[int, float]:
    """The coefficients of a constraint."""
    weights = milp.rows.data[milp.rows.indptr[row] : milp.rows.indptr[row + 1]]
    return dict(zip(indices_of(milp.rows, row).tolist(), weights.tolist(), strict=True))


def _onoff(
    milp: MILP, zeroed: Mapping[int, set[int]], variable: int, rows: list[int]
) -> OnOff | None:
    """The on/off form of a variable by the first switch that has one.

    Switches are binaries in all of its constraints, or make a variable of each of them zero.
    """
    binary = milp.binary
    possible = []
    one_sided: list[tuple[dict[int, float], float]] = []
    for row in rows:
        entries = _entries(milp, row)
        own = {i for i in entries if binary[i]}
        possible.append(own.union(*(zeroed[i] for i in entries)))
        one_sided.append((entries, milp.row_upper[row]))
        one_sided.append(({i: -a for i, a in entries.items()}, -milp.row_lower[row]))
    for switch in sorted(set.intersection(*possible)):
        switched = [
            _on_off_row(milp, zeroed, (variable, switch), terms, side)
            for terms, side in one_sided
            if np.isfinite(side)
        ]
        found = tuple(row for row in switched if row is not None)
        if len(found) == len(switched):
            return OnOff(variable, switch, found, tuple(rows))
    return None


def _on_off_row(
    milp: MILP,
    zeroed: Mapping[int, set[int]],
    pair: tuple[int, int],
    terms: dict[int, float],
    side: float,
) -> OnOffRow | None:
    """The on/off form of terms <= side; None if that restricts the variable at switch 0."""
    variable, switch = pair
    others = dict(terms)
    sigma = others.pop(variable)
    at_switch = others.pop(switch, 0.0)
    off = sum(_maximum(milp, i, a) for i, a in others.items() if switch not in zeroed[i])
    if not off + _maximum(milp, variable, sigma) <= side + REDUNDANCY_TOLERANCE:
        return None
    return OnOffRow(others, sigma, on=side - at_switch, off=off)


def _maximum(milp: MILP, variable: int, coefficient: float) -> float:
    """The largest value of a term of a constraint."""
    bounds = milp.upper if coefficient > 0 else milp.lower
    return coefficient * float(bounds[variable])

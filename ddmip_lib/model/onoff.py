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
    detection = _Detection(milp, own_rows)
    excluded = {variable for constraint in milp.others for variable in constraint.variables}
    bounded = np.isfinite(milp.lower) & np.isfinite(milp.upper) & ~milp.integer
    taken: set[int] = set()
    found = []
    for variable in candidates[bounded[candidates]].tolist():
        rows = detection.rows_of(variable)
        if not rows or variable in excluded or taken.intersection(rows):
            continue
        onoff = detection.onoff(variable, rows)
        if onoff is not None:
            found.append(onoff)
            taken.update(rows)
    return found


class _Detection:
    """What the detection of on/off variables reads from a model.

    `zeroed` holds for each variable t >= 0 the binaries b with t <= U b, which make it zero.
    """

    def __init__(self, milp: MILP, own_rows: ndarray) -> None:
        self.milp = milp
        self.own_rows = own_rows
        self.rows = milp.rows
        self.columns = milp.rows.tocsc()
        self.binary = milp.binary
        self.zeroed: defaultdict[int, set[int]] = defaultdict(set)
        pairs = np.flatnonzero(own_rows & (np.diff(self.rows.indptr) == 2))
        first = self.rows.indptr[pairs]
        for one, two in ((first, first + 1), (first + 1, first)):
            variable = self.rows.indices[one]
            switch = self.rows.indices[two]
            side = np.where(self.rows.data[one] > 0, milp.row_upper[pairs], milp.row_lower[pairs])
            zeroed = self.binary[switch] & (milp.lower[variable] == 0) & (side == 0)
            for at, binary in zip(variable[zeroed].tolist(), switch[zeroed].tolist(), strict=True):
                self.zeroed[at].add(binary)

    def entries(self, row: int) -> dict[int, float]:
        """The coefficients of a constraint."""
        span = slice(self.rows.indptr[row], self.rows.indptr[row + 1])
        variables = self.rows.indices[span].tolist()
        return dict(zip(variables, self.rows.data[span].tolist(), strict=True))

    def rows_of(self, variable: int) -> list[int]:
        """The constraints of the MIP block that contain a variable."""
        rows = indices_of(self.columns, variable)
        return rows[self.own_rows[rows]].tolist()

    def onoff(self, variable: int, rows: list[int]) -> OnOff | None:
        """The on/off form of a variable by the first switch that has one."""
        switches = set.intersection(*(self._switches(row) for row in rows))
        for switch in sorted(switches):
            constraints = [self._on_off_rows(variable, switch, row) for row in rows]
            switched = [constraint for constraint in constraints if constraint is not None]
            if len(switched) == len(rows):
                return OnOff(variable, switch, tuple(itertools.chain(*switched)), tuple(rows))
        return None

    def _switches(self, row: int) -> set[int]:
        """Binaries in a constraint, and those that make one of its variables zero."""
        entries = self.entries(row)
        binaries = {variable for variable in entries if self.binary[variable]}
        return binaries.union(*(self.zeroed[variable] for variable in entries))

    def _on_off_rows(self, variable: int, switch: int, row: int) -> list[OnOffRow] | None:
        """The on/off form of both sides of a constraint; None if one restricts the variable at
        switch 0.
        """
        found = []
        for sign, side in ((1.0, self.milp.row_upper[row]), (-1.0, -self.milp.row_lower[row])):
            if not np.isfinite(side):
                continue
            others = {i: sign * a for i, a in self.entries(row).items()}
            sigma = others.pop(variable)
            at_switch = others.pop(switch, 0.0)
            off = self._maximum_without(switch, others)
            if not off + self._maximum(variable, sigma) <= side + REDUNDANCY_TOLERANCE:
                return None
            found.append(OnOffRow(others, sigma, on=side - at_switch, off=off))
        return found

    def _maximum_without(self, switch: int, terms: dict[int, float]) -> float:
        """The largest sum of these terms at switch 0."""
        unswitched = [i for i in terms if switch not in self.zeroed[i]]
        return float(sum(self._maximum(i, terms[i]) for i in unswitched))

    def _maximum(self, variable: int, coefficient: float) -> float:
        """The largest value of a term of a constraint."""
        bounds = self.milp.upper if coefficient > 0 else self.milp.lower
        return coefficient * float(bounds[variable])

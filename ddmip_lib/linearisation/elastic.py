r"""The user's model with its networks as lines: elastic, so that it has a point wherever the user's
rows have one.

At a point $v$ with outputs $f$ and slopes $J$ the constraint $y = f(x)$ becomes $y = f + J(x - x_v)
+ \sigma (p - q)$ with $p, q \ge 0$ at a price each, in units $\sigma$ of the output; a class
becomes $\ell + \sigma p \ge \epsilon - M(1 - y)$, $\ell - \sigma q \le My$ for the line $\ell$ of
its logit. Inputs stay near $x_v$: continuous ones within $\Delta$ of their range, integers within
$\max(1, \Delta)$ of it, and together these make at most $\max(2, 2\Delta \cdot \text{count})$ unit
moves.
"""

from copy import copy
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from ..model.instance import Instance
from ..programs import Program
from ..programs.mip import MIPResult, solve_program, solve_with_scip
from ..programs.program import Rows
from ..proofs.encoding import Ends
from ..renamed import renamed_names
from .tangent import Tangent

MARGIN = 1e-6  # of a logit's size: how far beyond 0 a step puts it
FITTING = 1e4  # price of an output off its line, in units of a whole range of one input
SAMPLES = 8  # random points at which the sizes of outputs are looked at


class TrialPoint(NamedTuple):
    """A full assignment, its cost as a minimisation, and by how much its outputs are off, in their
    units.
    """

    values: np.ndarray
    cost: float
    off: float

    def merit(self, price: float) -> float:
        """What descends: the cost, and the price of what does not fit."""
        return self.cost + price * self.off


Term = tuple[np.ndarray, np.ndarray, np.ndarray | float]


class Constraints(NamedTuple):
    """Rows of a program, entry by entry, with their two sides."""

    row: np.ndarray
    column: np.ndarray
    weight: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, matrix: sp.csr_matrix, low: np.ndarray, high: np.ndarray) -> "Constraints":
        row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        return cls(row, matrix.indices, matrix.data, low, high)

    @classmethod
    def terms(cls, low: np.ndarray, high: np.ndarray, *terms: Term) -> "Constraints":
        """Rows whose entries come as triplets of row, column and weight."""
        row, column = (np.concatenate([term[k] for term in terms]) for k in (0, 1))
        weight = np.concatenate([np.broadcast_to(term[2], term[0].shape) for term in terms])
        return cls(row, column, weight, low, high)


class ElasticModel:
    """The elastic model of one instance, asked for steps, for completions and for points near a
    target.
    """

    def __init__(self, instance: Instance, seed: int = 0) -> None:
        s = self.milp = instance.milp
        self.instance = instance
        self.seed = seed
        self.cost = s.sign * s.cost
        self.lower = s.lower.copy()
        self.upper = s.upper.copy()
        self.inputs = instance.free_inputs
        self.outputs = instance.outputs
        kinds = [
            np.full(m.output.size, p.gives_class)
            for p, m in zip(instance.predictors, instance.maps, strict=True)
        ]
        self.classes = np.concatenate(kinds)
        self.range = s.upper[self.inputs] - s.lower[self.inputs]
        self.whole = s.integer[self.inputs]
        self.binary = self.whole & (self.range == 1)
        self.size = self._sizes()
        self.work = 0.0
        self.rows = Constraints.of(s.rows.tocsr(), s.row_lower, s.row_upper)
        spans = np.where(np.isfinite(s.upper - s.lower), s.upper - s.lower, 0.0)
        spans[self.outputs] = np.where(self.classes, 1.0, self.size)
        self.worth = float((np.abs(s.cost) * spans).max(initial=0.0)) or 1.0
        """By how much the objective changes where one variable crosses its range."""

    def _sizes(self) -> np.ndarray:
        """By how much each network value changes over the box, as far as some points show;
        never 0.
        """
        s = self.milp
        rng = np.random.default_rng(self.seed)
        low, high = (np.where(np.isfinite(end), end, 0.0) for end in (s.lower, s.upper))
        points = [low, high, *(low + (high - low) * rng.random(len(low)) for _ in range(SAMPLES))]
        said = np.array([self._said(self.instance.rounded(v)) for v in points])
        said = said[np.isfinite(said).all(axis=1)]
        largest = np.abs(said).max(axis=0, initial=0.0)
        spread = np.ptp(said, axis=0) if len(said) else largest
        return np.where(spread > 1e-9 * largest, spread, np.where(largest > 0, largest, 1.0))

    def _said(self, values: np.ndarray) -> np.ndarray:
        return np.concatenate([raw.ravel() for raw in self.instance.raws(values)])

    def costing(self, cost: np.ndarray) -> Self:
        """The same model with another cost, to be minimised."""
        other = copy(self)
        other.cost = cost
        return other

    def box(self, point: np.ndarray, radius: float | np.ndarray) -> Ends:
        """The bounds of all variables with the network inputs within a radius of a point's."""
        lower = self.lower.copy()
        upper = self.upper.copy()
        at = self.inputs
        reach = np.where(
            self.whole, np.maximum(1.0, np.round(radius * self.range)), radius * self.range
        )
        lower[at] = np.maximum(lower[at], point[at] - reach)
        upper[at] = np.minimum(upper[at], point[at] + reach)
        return lower, upper

    def step(
        self,
        point: np.ndarray,
        line: Tangent,
        radius: float | np.ndarray,
        price: float,
        seconds: float,
    ) -> TrialPoint | None:
        """The best point of the model with lines in place of networks, within a radius of
        `point`.
        """
        ends = self.box(point, radius)
        parts = [*self._lines(line, ends), *self._moves(point, radius)]
        return self._point(parts, ends, price, seconds)

    def complete(self, values: np.ndarray, price: float, seconds: float) -> TrialPoint | None:
        """The best point with the network inputs of `values`, its outputs as near to the true ones
        as rows allow.
        """
        s = self.milp
        values = np.clip(self.instance.rounded(values), s.lower, s.upper)
        raws = zip(self.instance.predictors, self.instance.raws(values), strict=True)
        said = np.concatenate([predictor.outputs_of(raw).ravel() for predictor, raw in raws])
        if not np.isfinite(said).all():
            return None
        lower = self.lower.copy()
        upper = self.upper.copy()
        lower[self.inputs] = upper[self.inputs] = values[self.inputs]
        unit = np.where(self.classes, 1.0, self.size)
        m = np.arange(len(said))
        n = s.n_variables
        tied = Constraints.terms(
            said, said, (m, self.outputs, 1.0), (m, n + m, -unit), (m, n + len(m) + m, unit)
        )
        return self._point([tied], (lower, upper), price, seconds)

    def nearest(self, target: np.ndarray, seconds: float) -> np.ndarray | None:
        """The point of the user's rows whose network inputs are nearest to a target's, outputs
        free.
        """
        s = self.milp
        count = len(self.inputs)
        parts = [self.rows, self._distance(np.arange(count), target, s.n_variables)]
        cost = np.concatenate([np.zeros(s.n_variables), 1.0 / self.range])
        found = self._ask(
            cost, parts, (self.lower, self.upper), s.n_variables + count, seconds
        ).point
        return None if found is None else found[: s.n_variables]

    def fit(
        self, target: np.ndarray, line: Tangent, ends: Ends, seconds: float
    ) -> np.ndarray | None:
        """The point of the user's rows nearest to a target within `ends`, its outputs on lines
        where rows allow.
        """
        n = self.milp.n_variables
        slack = 2 * len(self.outputs)
        count = len(self.inputs)
        parts = [
            self.rows,
            *self._lines(line, ends),
            self._distance(np.arange(count), target, n + slack),
        ]
        cost = np.concatenate([np.zeros(n), np.full(slack, FITTING), 1.0 / self.range])
        found = self._ask(cost, parts, ends, n + slack + count, seconds).point
        return None if found is None else found[:n]

    def choose(
        self, parts: list[Constraints], switches: int, start: np.ndarray, seconds: float
    ) -> np.ndarray | None:
        """The best point of the user's rows and `parts`, which have so many binaries behind the
        user's variables.
        """
        s = self.milp
        width = s.n_variables + switches
        return self._ask(
            s.sign * s.cost, [self.rows, *parts], (s.lower, s.upper), width, seconds, start
        ).point

    def _lines(self, line: Tangent, ends: Ends) -> list[Constraints]:
        """Rows that tie the outputs to the lines, elastically."""
        regression = np.flatnonzero(~self.classes)
        classes = np.flatnonzero(self.classes)
        n = self.milp.n_variables
        m = len(self.size)
        slopes = line.slopes.tocoo()
        place = np.empty(m, dtype=int)
        found = []
        if regression.size:
            place[regression] = np.arange(len(regression))
            mine = ~self.classes[slopes.row]
            row = np.arange(len(regression))
            found.append(
                Constraints.terms(
                    line.rest[regression],
                    line.rest[regression],
                    (place[slopes.row[mine]], slopes.col[mine], -slopes.data[mine]),
                    (row, self.outputs[regression], 1.0),
                    (row, n + regression, -self.size[regression]),
                    (row, n + m + regression, self.size[regression]),
                )
            )
        if classes.size:
            place[classes] = np.arange(len(classes))
            mine = self.classes[slopes.row]
            row = np.arange(len(classes))
            tilt = place[slopes.row[mine]], slopes.col[mine], slopes.data[mine]
            low, high = (np.where(np.isfinite(end), end, 0.0) for end in ends)
            up = line.slopes.maximum(0)
            down = line.slopes.minimum(0)
            margin = MARGIN * self.size
            missing = np.full(classes.size, np.inf)
            on = np.maximum(0.0, margin - (line.rest + up @ low + down @ high))
            off = np.maximum(0.0, line.rest + up @ high + down @ low)
            found.append(
                Constraints.terms(
                    (margin - on - line.rest)[classes],
                    missing,
                    tilt,
                    (row, self.outputs[classes], -on[classes]),
                    (row, n + classes, self.size[classes]),
                )
            )
            found.append(
                Constraints.terms(
                    -missing,
                    -line.rest[classes],
                    tilt,
                    (row, self.outputs[classes], -off[classes]),
                    (row, n + m + classes, -self.size[classes]),
                )
            )
        return found

    def _moves(self, point: np.ndarray, radius: float | np.ndarray) -> list[Constraints]:
        """Rows that let whole inputs make a few unit moves together, the fewer the smaller the
        radius.
        """
        if not self.whole.any():
            return []
        most = max(2.0, 2.0 * float((radius * self.whole).sum()))
        counted = np.flatnonzero(self.whole & ~self.binary)
        first = self.milp.n_variables + 2 * len(self.outputs)
        switch = self.inputs[self.binary]
        away = 1.0 - 2.0 * (point[switch] - self.milp.lower[switch])
        column = np.concatenate([switch, first + np.arange(len(counted))])
        weight = np.concatenate([away, np.ones(len(counted))])
        low = np.array([-np.inf])
        high = np.array([most + away @ point[switch]])
        total = Constraints.terms(low, high, (np.zeros(len(column), dtype=int), column, weight))
        return [self._distance(counted, point, first), total]

    def _distance(self, of: np.ndarray, target: np.ndarray, first: int) -> Constraints:
        """Rows t >= |x - target| for some inputs, with t from column `first` on."""
        k = len(of)
        at = self.inputs[of]
        row = np.arange(len(of))
        missing = np.full(k, np.inf)
        aim = target[self.inputs[of]]
        return Constraints.terms(
            np.concatenate([-missing, aim]),
            np.concatenate([aim, missing]),
            (row, at, 1.0),
            (row, first + row, -1.0),
            (k + row, at, 1.0),
            (k + row, first + row, 1.0),
        )

    def _point(
        self, parts: list[Constraints], ends: Ends, price: float, seconds: float
    ) -> TrialPoint | None:
        s = self.milp
        both = 2 * len(self.outputs)
        cost = np.concatenate([self.cost, np.full(both, price)])
        width = max(s.n_variables + both, *(int(part.column.max(initial=-1)) + 1 for part in parts))
        found = self._ask(cost, [self.rows, *parts], ends, width, seconds).point
        if found is None:
            return None
        values = found[: s.n_variables]
        off = float(np.maximum(found[s.n_variables : s.n_variables + both], 0.0).sum())
        return TrialPoint(values, float(self.cost @ values), off)

    def _ask(
        self,
        cost: np.ndarray,
        parts: list[Constraints],
        ends: Ends,
        width: int,
        seconds: float,
        start: np.ndarray | None = None,
    ) -> MIPResult:
        """Minimise over the parts; columns beyond the user's variables are nonnegative, those
        beyond `cost` free; with a `start` they are binary.
        """
        s = self.milp
        counts = np.cumsum([0, *(len(part.low) for part in parts)])
        row = np.concatenate([part.row + first for part, first in zip(parts, counts, strict=False)])
        column, weight = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
        more = np.zeros(width - s.n_variables)
        program = Program(
            np.concatenate([cost, np.zeros(width - len(cost))]),
            Rows.of(sp.csr_matrix((weight, (row, column)), shape=(counts[-1], width))),
            np.concatenate([part.low for part in parts]),
            np.concatenate([part.high for part in parts]),
            np.concatenate([ends[0], more]),
            np.concatenate([ends[1], more + (np.inf if start is None else 1.0)]),
            np.concatenate([s.integer, more > (0 if start is None else -1)]),
        )
        if s.others:
            answer = solve_with_scip(self.instance.model, program, seconds, self.seed)
        else:
            answer = solve_program(program, seconds, seed=self.seed, start=start)
        self.work += answer.work
        return answer


if not TYPE_CHECKING:  # which would accept any name
    __getattr__ = renamed_names(
        __name__,
        Elastic="ddmip_lib.linearisation.elastic.ElasticModel",
        Point="ddmip_lib.linearisation.elastic.TrialPoint",
    )

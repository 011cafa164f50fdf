r"""Blocks read off a model: where the structure that was found has the form of `Blocks`.

Every way to set the whole numbers of a block is a mode. With them set, rows on one variable are
bounds, and what is left must be of two kinds. *Steps*: variables $a \ge \sigma (x_j - w_j)$, $a \ge
0$, in linking rows that they burden; a row $x_j = w_j + a - b$ holds two, and an input in linking
rows is a step from the end of its box that uses least. *Counts*: $t \le \alpha f(x)$, $t \le h$, of
which one is worth something. Other blocks are left to `general`.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ..bounds.layer_list import output_range
from ..clock import check_time
from ..errors import UnsupportedNetworkError
from ..model.assignments import AssignmentList
from ..model.blocks import Blocks, Mode
from ..model.instance import Instance
from ..model.problem import NeuralMIP
from ..model.structure import Structure, find_structure
from ..renamed import renamed_names

MOST = 4096  # ways to set the whole numbers of a block that are looked at
SLACK = 1e-9


class NotBlockFormError(Exception):
    """A block is not of the form of `Blocks`: heard by `recognise` alone."""


def _demand(holds: Any) -> None:
    if not holds:
        raise NotBlockFormError


class PiecewiseTerm(NamedTuple):
    """The variable a >= slope (x - w), at most `most`, which takes so much of each resource."""

    a: int
    x: int
    slope: float
    w: float
    use: np.ndarray
    most: float


class BlockMode(NamedTuple):
    """One row of the table of `Blocks`; `mode` is what it shares with rows of other blocks."""

    mode: tuple[Any, ...]
    parts: dict[str, Any]  #: of the mode
    row: int
    box: list[np.ndarray]  #: lower, upper, base
    fixed: np.ndarray


_found: WeakKeyDictionary[NeuralMIP, tuple[str, Blocks | Structure]] = WeakKeyDictionary()


def find_blocks(problem: NeuralMIP, instance: Instance) -> Blocks | Structure:
    """The blocks that the user described; else those found in the model, as `Blocks` where they
    have that form.
    """
    if problem.blocks is not None:
        return problem.blocks
    if problem not in _found or _found[problem][0] != instance.digest:
        structure = find_structure(instance)
        _found[problem] = instance.digest, recognise(instance, structure) or structure
    return _found[problem][1]


def recognise(instance: Instance, structure: Structure) -> Blocks | None:
    """The problem as `Blocks`, or None where its blocks are of another form.

    >>> from ddmip_lib.model.structure import find_structure
    >>> from ddmip_lib.predictors import mlp
    >>> from ddmip_lib.problems import water_potability
    >>> instance = water_potability(n=3, net=mlp(2, 16, 9)).instance()
    >>> recognise(instance, find_structure(instance))
    Blocks: 3 blocks, 1 mode, 18 shared resources
    """
    inputs, outputs = (
        {getattr(m, name).shape[1] for m in instance.maps} for name in ("index", "output")
    )
    if structure.obstacle or structure.master or len(inputs) > 1 or outputs != {1}:
        return None
    try:
        reader = BlockReader(instance, structure)
        return reader.blocks(
            [reader.ways(np.flatnonzero(structure.block == b)) for b in range(structure.n)]
        )
    except NotBlockFormError:
        return None


class BlockReader:
    """What the blocks of one instance share: resources, one for each finite side of a linking row,
    and ranges.
    """

    def __init__(self, instance: Instance, structure: Structure) -> None:
        s = self.s = instance.milp
        constant = np.where(s.lower == s.upper, s.lower, 0.0)
        _demand(not (s.cost * constant).any() and (s.lower < s.upper)[instance.outputs].all())
        given = s.rows @ constant
        linking = np.flatnonzero(structure.linking)
        self.sides = s.row_lower - given, s.row_upper - given
        below, above = (linking[np.isfinite(side[linking])] for side in self.sides)
        self.use = np.vstack([s.rows[above].toarray(), -s.rows[below].toarray()]).T
        self.capacities = np.concatenate([self.sides[1][above], -self.sides[0][below]])
        self.names = [s.row_names[r] for r in (*above, *below)]
        self.maps = instance.maps
        self.listing = AssignmentList(s)
        self.linking = structure.linking
        self.owner = {
            int(at): (k, i) for k, m in enumerate(self.maps) for i, at in enumerate(m.output[:, 0])
        }
        self.is_input = np.zeros(s.n_variables, dtype=bool)
        self.is_output = instance.is_output
        self.low = np.full(s.n_variables, -np.inf)
        self.high = np.full(s.n_variables, np.inf)
        for predictor, m in zip(instance.predictors, self.maps, strict=True):
            self.is_input[m.index[m.index >= 0]] = True
            _demand(predictor.gives_class or not s.integer[m.output].any())
            if predictor.gives_class:
                self.low[m.output], self.high[m.output] = 0.0, 1.0
                continue
            with suppress(UnsupportedNetworkError):  # what is not understood may say anything
                ends = output_range(predictor.net, m.at(s.lower), m.at(s.upper))
                self.low[m.output], self.high[m.output] = ends

    def ways(self, own: np.ndarray) -> list[BlockMode]:
        """The rows of the table of the block with these variables."""
        check_time()
        rows = np.unique(self.listing.columns[:, own].indices)
        rows = rows[~self.linking[rows]]
        matrix = self.s.rows[rows][:, own].toarray()
        sides = [side[rows] for side in self.sides]
        whole = self.s.integer[own] & ~self.is_output[own]
        settings = self.listing.combinations(own[whole], MOST)
        _demand(settings is not None)
        found = [FixedBlock(self, own, whole, row).way(matrix, *sides) for row in settings]  # type: ignore[union-attr]
        return [way for way in found if way is not None]

    def blocks(self, table: list[list[BlockMode]]) -> Blocks:
        """All rows as one table; where a block's least use of a resource is below zero, it is
        counted from there.
        """
        capacities = self.capacities.copy()
        modes = dict[Any, tuple[dict[str, Any], list[Any]]]()
        _demand(all(table))
        for number, ways in enumerate(table):
            least = np.minimum(np.min([way.fixed for way in ways], axis=0), 0.0)
            capacities -= least
            for way in ways:
                row = number, way.row, *way.box, way.fixed - least
                modes.setdefault(way.mode, (way.parts, []))[1].append(row)
        made = []
        for parts, rows in modes.values():
            block, at, lower, upper, base, fixed = map(np.array, zip(*rows, strict=True))
            made.append(Mode(block, at, lower, upper, base, fixed=fixed, **parts))
        optional = all(
            len(ways) == 1 and not ways[0].fixed.any() for ways in table
        )  # to stay at the base is free
        return Blocks(
            made, capacities, optional and all(self.s.integer[at] for at in self.owner), self.names
        )


class FixedBlock:
    """One block with its whole numbers set; arrays have an entry for each of its variables."""

    def __init__(
        self, reader: BlockReader, own: np.ndarray, whole: np.ndarray, values: np.ndarray
    ) -> None:
        self.reader = reader
        self.own = own
        self.values = tuple(values.tolist())
        self.use = reader.use[own]
        self.lower = reader.s.lower[own]
        self.upper = reader.s.upper[own]
        self.lower[whole] = self.upper[whole] = values
        self.gain = -reader.s.sign * reader.s.cost[own]
        self.is_input = reader.is_input[own]
        self.is_output = reader.is_output[own]
        self.least = reader.low[own]
        self.most = reader.high[own]  # what networks say without being asked to

    def way(self, matrix: np.ndarray, low: np.ndarray, high: np.ndarray) -> BlockMode | None:
        """The setting as a row of the table; None where no point meets its rows."""
        matrix, low, high = self._tighten(matrix, low, high)
        if (self.lower > self.upper).any() or ((low > SLACK) | (high < -SLACK))[
            ~matrix.any(axis=1)
        ].any():
            return None
        steps = list[PiecewiseTerm]()
        counts = dict[int, tuple[int, float]]()
        for row, *ends in zip(matrix, low, high, strict=True):
            x = np.flatnonzero(row * self.is_input).tolist()
            y = np.flatnonzero(row * self.is_output).tolist()
            rest = np.flatnonzero(row * ~(self.is_input | self.is_output)).tolist()
            if (len(x), len(y), len(rest)) == (0, 1, 1):
                t = rest[0]
                (side, other) = ends if row[rest[0]] < 0 else ends[::-1]
                _demand(
                    t not in counts and side == 0 and np.isinf(other) and row[y[0]] * row[t] < 0
                )
                counts[t] = y[0], -row[y[0]] / row[t]
                _demand(self.lower[t] <= counts[t][1] * self.least[y[0]] + SLACK)
            elif (len(x), len(y)) == (1, 0) and rest:
                steps += [self._step(row, x[0], a, *ends) for a in rest]
                pair = (matrix[:, rest] != 0).sum() == len(rest) == 2 and steps[-1].slope * steps[
                    -2
                ].slope < 0
                _demand(pair if ends[0] == ends[1] else len(rest) == 1)
            else:
                _demand(not row.any())
        return self._row(steps, counts)

    def _tighten(
        self, matrix: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Rows on one variable become bounds, what is fixed becomes a number, until rows hold none
        or several.
        """
        while True:
            fixed = self.lower >= self.upper
            given = matrix[:, fixed] @ self.lower[fixed]
            low = low - given
            high = high - given
            matrix = matrix * ~fixed
            single = (matrix != 0).sum(axis=1) == 1
            for row, *ends in zip(matrix[single], low[single], high[single], strict=True):
                at = int(np.flatnonzero(row)[0])
                ends = sorted(end / row[at] for end in ends)
                self.lower[at], self.upper[at] = (
                    max(self.lower[at], ends[0]),
                    min(self.upper[at], ends[1]),
                )
            if not single.any() or (self.lower > self.upper).any():
                return matrix, low, high
            matrix = matrix[~single]
            low = low[~single]
            high = high[~single]

    def _step(self, row: np.ndarray, x: int, a: int, low: float, high: float) -> PiecewiseTerm:
        side, other = (low, high) if row[a] > 0 else (high, low)
        _demand(np.isfinite(side) and (low == high or np.isinf(other)))
        _demand(self.lower[a] == 0 and not self.gain[a] and (self.use[a] >= 0).all())
        return PiecewiseTerm(a, x, -row[x] / row[a], side / row[x], self.use[a], self.upper[a])

    def _row(
        self, steps: list[PiecewiseTerm], counts: dict[int, tuple[int, float]]
    ) -> BlockMode | None:
        free = self.lower < self.upper
        burdens = self.use.any(axis=1) & free
        fixed = self.lower[~free] @ self.use[~free]
        for x in np.flatnonzero(burdens & self.is_input).tolist():
            rises = bool((self.use[x] >= 0).all())
            _demand(rises or (self.use[x] <= 0).all())
            end = self.lower[x] if rises else self.upper[x]
            steps.append(
                PiecewiseTerm(
                    x,
                    x,
                    1.0 if rises else -1.0,
                    end,
                    self.use[x] if rises else -self.use[x],
                    np.inf,
                )
            )
            fixed = fixed + end * self.use[x]
        (t,) = (
            valued
            if len(valued := np.flatnonzero(free & (self.gain != 0)).tolist()) == 1
            else (-1,)
        )
        _demand(
            t >= 0
            and not (self.gain * self.lower)[~free].any()
            and self.gain[t] > 0
            and (self.use[t] <= 0).all()
        )
        y, alpha = counts.get(t, (t, 1.0))
        cap = self.upper[t] / alpha if t in counts else np.inf
        stepping = {step.a for step in steps}
        _demand(self.is_output[y] and set(np.flatnonzero(burdens).tolist()) <= {t, *stepping})
        _demand(
            not stepping & {t, *counts} and not (t in counts and self.reader.s.integer[self.own[y]])
        )
        bounded = (self.lower <= self.least + SLACK) & (self.upper >= self.most - SLACK)
        _demand(
            bounded[self.is_output].all()
            and len({(step.a, step.slope > 0) for step in steps}) == len(steps)
        )
        _demand(len({(step.a, step.x) for step in steps}) == len(stepping))
        parts = {
            "predictor": self.reader.owner[int(self.own[y])][0],
            "worth": self.gain[t] * alpha,
            "cap": cap,
        }
        parts["per_value"] = self.use[t] / self.gain[t]
        return self._placed(steps, fixed, parts, self.reader.owner[int(self.own[y])][1])

    def _placed(
        self, steps: list[PiecewiseTerm], fixed: np.ndarray, parts: dict[str, Any], row: int
    ) -> BlockMode | None:
        """Box, base point and use in the order of the network's inputs."""
        m = self.reader.maps[parts["predictor"]]
        s = self.reader.s
        own = {int(v): i for i, v in enumerate(self.own)}
        index = m.index[row].tolist()
        free = [v for v in index if v in own and self.lower[own[v]] < self.upper[own[v]]]
        _demand(
            len(set(free)) == len(free) and {step.x for step in steps} <= {own[v] for v in free}
        )
        lower, upper = (
            np.array(
                [
                    m.constant[row, j] if v < 0 else end[own[v]] if v in own else s.lower[v]
                    for j, v in enumerate(index)
                ]
            )
            for end in (self.lower, self.upper)
        )
        rates = np.zeros((2, len(index), len(fixed)))
        w = 0.5 * (lower + upper)
        for k, step in enumerate(steps):
            j = index.index(int(self.own[step.x]))
            _demand(all(abs(step.w - other.w) <= SLACK for other in steps[:k] if other.x == step.x))
            rates[int(step.slope < 0), j] += abs(step.slope) * step.use
            end = step.w + step.most / step.slope
            w[j] = step.w
            lower[j], upper[j] = (
                (lower[j], min(upper[j], end)) if step.slope > 0 else (max(lower[j], end), upper[j])
            )
        if (lower > upper).any():
            return None
        base = np.clip(w, lower, upper)
        fixed = fixed + np.maximum(base - w, 0) @ rates[0] + np.maximum(w - base, 0) @ rates[1]
        parts |= {"up": rates[0], "down": rates[1]}
        key = self.values, *(np.asarray(part).tobytes() for part in parts.values())
        return BlockMode(key, parts, row, [lower, upper, base], fixed)


if not TYPE_CHECKING:  # which would accept any name
    __getattr__ = renamed_names(
        __name__,
        Reader="ddmip_lib.pricing.recognition.BlockReader",
        Setting="ddmip_lib.pricing.recognition.FixedBlock",
        Step="ddmip_lib.pricing.recognition.PiecewiseTerm",
        UnlikeError="ddmip_lib.pricing.recognition.NotBlockFormError",
        Way="ddmip_lib.pricing.recognition.BlockMode",
    )

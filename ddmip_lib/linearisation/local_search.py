"""Whole inputs moved by a unit, one or two at a time, and judged by the true networks: no line is
in it.
"""

import itertools
from copy import copy

import numpy as np

from ..clock import check_time
from .elastic import ElasticModel, TrialPoint

MOST = 300  # moves of one input, and as many of two, whose outputs are looked at together
ENTRIES = 4_000_000  # of all these points, at most
FORCED = 40  # moves that the rows allow only together with others
TRIED = 8  # of the best, completed by the true model


class UnitMoves:
    """The neighbours of a point among the whole network inputs.

    A neighbour moves one or two of them by a unit each. Where the rows on inputs forbid these (in
    an assignment every move takes others along), one input is moved and the nearest point of the
    rows is taken.
    """

    def __init__(self, elastic: ElasticModel, rng: np.random.Generator) -> None:
        self.elastic = elastic
        self.rng = rng
        self.at = elastic.inputs[elastic.whole]
        s = elastic.milp
        free = np.ones(s.n_variables, dtype=bool)
        free[elastic.inputs] = False
        self.tied = (
            np.asarray(abs(s.rows).tocsr() @ (free & (s.lower < s.upper))).ravel() == 0
        )  # by inputs alone
        self.norm = np.maximum(np.asarray(abs(s.rows).tocsr().max(axis=1).todense()).ravel(), 1e-12)

    def better(self, point: TrialPoint, price: float, seconds: float) -> TrialPoint | None:
        """A neighbour of lower merit, or None: the most promising ones are completed, the first
        that is lower wins.
        """
        neighbours = self._neighbours(point.values, seconds)
        if not len(neighbours):
            return None
        merits = self._guessed(neighbours, price)
        enough = point.merit(price) - 1e-7 * max(self.elastic.worth, abs(point.cost))
        for k in np.argsort(merits, kind="stable")[:TRIED]:
            new = (
                self.elastic.complete(neighbours[k], price, seconds)
                if np.isfinite(merits[k])
                else None
            )
            if new is not None and new.merit(price) < enough:
                return new
        return None

    def _neighbours(self, values: np.ndarray, seconds: float) -> np.ndarray:
        s = self.elastic.milp
        now = values[self.at]
        steps = [
            (int(k), d)
            for d in (-1.0, 1.0)
            for k in np.flatnonzero((s.lower[self.at] <= now + d) & (now + d <= s.upper[self.at]))
        ]
        most = max(10, min(MOST, ENTRIES // len(values)))
        if len(steps) ** 2 <= 20 * most:
            pairs = list(itertools.combinations(range(len(steps)), 2))
        else:
            pairs = [tuple(pair) for pair in self.rng.integers(len(steps), size=(most, 2))]
        chosen = [(k,) for k in self._some(len(steps), most)] + [
            pairs[k] for k in self._some(len(pairs), most)
        ]
        found = np.repeat(values[None], len(chosen), axis=0)
        for row, parts in zip(found, chosen, strict=True):
            for part in parts:
                which, step = steps[part]
                row[self.at[which]] = now[which] + step
        found = found[self._allowed(found)]
        if len(found) or not self.tied.any():
            return found
        forced = (self._forced(values, steps[k], seconds) for k in self._some(len(steps), FORCED))
        return np.array([point for point in forced if point is not None])

    def _some(self, count: int, most: int) -> np.ndarray:
        return np.arange(count) if count <= most else self.rng.choice(count, most, replace=False)

    def _allowed(self, points: np.ndarray) -> np.ndarray:
        """Which of some points satisfy the rows that hold network inputs alone."""
        s = self.elastic.milp
        value = points @ s.rows.tocsr()[self.tied].T
        slack = 1e-9 * self.norm[self.tied]
        inside = (value >= s.row_lower[self.tied] - slack) & (
            value <= s.row_upper[self.tied] + slack
        )
        return np.all(inside, axis=1)

    def _forced(
        self, values: np.ndarray, move: tuple[int, float], seconds: float
    ) -> np.ndarray | None:
        """The point of the user's rows nearest to one in which a whole input has moved."""
        other = copy(self.elastic)
        other.lower = self.elastic.lower.copy()
        other.upper = self.elastic.upper.copy()
        at = self.at[move[0]]
        other.lower[at] = other.upper[at] = values[at] + move[1]
        found = other.nearest(values, seconds)
        self.elastic.work = other.work
        return found

    def _guessed(self, points: np.ndarray, price: float) -> np.ndarray:
        """Merits with all variables but inputs and outputs left where they are; infinite where a
        network is.
        """
        instance = self.elastic.instance
        s = self.elastic.milp
        guesses = points.copy()
        for predictor, m in zip(instance.predictors, instance.maps, strict=True):
            check_time()
            x = np.concatenate([m.at(values) for values in points])
            said = predictor.outputs_of(predictor.raw(x))
            guesses[:, m.output.ravel()] = said.reshape(len(points), -1)
        value = guesses @ s.rows.T
        off = np.maximum(0.0, np.maximum(s.row_lower - value, value - s.row_upper)) / self.norm
        merit = guesses @ self.elastic.cost + price * off.sum(axis=1)
        return np.where(np.isfinite(merit), merit, np.inf)

"""Local search on integer network inputs by 1- and 2-flips, evaluated by the true networks."""

import numpy as np
from numpy import ndarray

from .elastic import ElasticModel, TrialPoint, fixed_bounds, set_outputs

# Neighbours by one move, and as many by two, that are evaluated together.
MAX_NEIGHBOURS = 300
# The same where the model has so many variables that memory limits the number.
MIN_NEIGHBOURS = 10
# Numbers in the assignments of all neighbours by one move, at most.
MAX_NEIGHBOUR_VALUES = 4_000_000
# Possible pairs of moves, as a multiple of the neighbours, up to which all pairs are listed.
MAX_PAIRS_FACTOR = 20
# Moves tried together with the other inputs, where the constraints forbid them alone.
MAX_PROJECTED_MOVES = 40
# Neighbours of lowest estimated merit that are completed by the MIP.
MAX_COMPLETED_NEIGHBOURS = 8
# Decrease of the merit, relative to the objective, from which on a neighbour is better.
MIN_RELATIVE_IMPROVEMENT = 1e-7
# Violation of a constraint on inputs, relative to its largest coefficient, that is tolerated.
INPUT_CONSTRAINT_TOLERANCE = 1e-9


class UnitMoves:
    """The neighbours of a point among the integer network inputs.

    A neighbour changes one or two of them by a unit each. If the constraints on inputs forbid all
    of these (in an assignment problem every move takes others along), one input is changed and the
    result projected onto the constraints.

    Parameters
    ----------
    elastic : ElasticModel
        The model that completes neighbours.
    rng : np.random.Generator
        Draws moves where there are too many.

    Attributes
    ----------
    norm : np.ndarray
        Largest coefficient of each constraint, never 0.
    """

    def __init__(self, elastic: ElasticModel, rng: np.random.Generator) -> None:
        self.elastic = elastic
        self.rng = rng
        self.variables = elastic.inputs[elastic.integer]
        s = elastic.milp
        coefficients = abs(s.rows)
        free = s.lower < s.upper
        free[elastic.inputs] = False
        self.on_inputs_only = coefficients @ free == 0
        self.norm = np.maximum(coefficients.max(axis=1).toarray().ravel(), 1e-12)

    def better(self, point: TrialPoint, price: float) -> TrialPoint | None:
        """Return a neighbour of lower merit.

        The neighbours of lowest estimated merit are completed; the first that is better is taken.

        Parameters
        ----------
        point : TrialPoint
            The current point.
        price : float
            Penalty of a unit of output slack.

        Returns
        -------
        TrialPoint or None
            None if no neighbour is found to be better.
        """
        neighbours = self._neighbours(point.values)
        if not len(neighbours):
            return None
        estimated = neighbours.copy()  # all variables but inputs and outputs are unchanged
        set_outputs(self.elastic.instance, estimated)
        merits = self.elastic.merits(estimated, price, self.norm)[0]
        decrease = MIN_RELATIVE_IMPROVEMENT * max(self.elastic.objective_unit, abs(point.cost))
        threshold = point.merit(price) - decrease
        for k in np.argsort(merits, kind="stable")[:MAX_COMPLETED_NEIGHBOURS]:
            if not np.isfinite(merits[k]):
                return None
            new = self.elastic.complete(neighbours[k], price)
            if new is not None and new.merit(price) < threshold:
                return new
        return None

    def _neighbours(self, values: ndarray) -> ndarray:
        variable, value = self._moves(values)
        chosen = self._choose_moves(len(variable), len(values))
        points = np.repeat(values[None], len(chosen), axis=0)
        np.put_along_axis(points, variable[chosen], value[chosen], axis=1)
        points = points[self._feasible(points)]
        if len(points) or not self.on_inputs_only.any():
            return points
        bounds = self.elastic.bounds
        projected = []
        for k in self._sample(len(variable), MAX_PROJECTED_MOVES):
            fixed = fixed_bounds(bounds, variable[k], np.full(len(values), value[k]))
            projected.append(self.elastic.fit(values, None, fixed))
        return np.array([point for point in projected if point is not None])

    def _moves(self, values: ndarray) -> tuple[ndarray, ndarray]:
        """All changes by a unit inside the bounds: the variables and their new values."""
        s = self.elastic.milp
        changed = values[self.variables] + np.array([[-1.0], [1.0]])
        inside = (s.lower[self.variables] <= changed) & (changed <= s.upper[self.variables])
        return self.variables[np.nonzero(inside)[1]], changed[inside]

    def _choose_moves(self, count: int, n_values: int) -> ndarray:
        """Numbers of pairs of moves, or twice that of a single move; random ones of many."""
        limit = max(MIN_NEIGHBOURS, min(MAX_NEIGHBOURS, MAX_NEIGHBOUR_VALUES // n_values))
        if count**2 <= MAX_PAIRS_FACTOR * limit:
            pairs = np.stack(np.triu_indices(count, 1), axis=1)
        else:
            pairs = self.rng.integers(count, size=(limit, 2))
        single = np.repeat(self._sample(count, limit)[:, None], 2, axis=1)
        return np.concatenate([single, pairs[self._sample(len(pairs), limit)]])

    def _sample(self, count: int, limit: int) -> ndarray:
        return np.arange(count) if count <= limit else self.rng.choice(count, limit, replace=False)

    def _feasible(self, points: ndarray) -> ndarray:
        """Which of some points satisfy the constraints on network inputs alone."""
        s = self.elastic.milp
        chosen = self.on_inputs_only
        activity = points @ s.rows[chosen].T
        tolerance = INPUT_CONSTRAINT_TOLERANCE * self.norm[chosen]
        above = activity >= s.row_lower[chosen] - tolerance
        below = activity <= s.row_upper[chosen] + tolerance
        return np.all(above & below, axis=1)

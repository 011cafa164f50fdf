"""A first feasible point: cheap candidates, evaluated by the networks together, then completed."""

import numpy as np
from numpy import ndarray

from ..clock import check_time, now
from ..methods.run import Run
from ..model.incumbent import MAX_SECONDS_FOR_START, START_TIME_FRACTION, Incumbent
from ..model.instance import Instance
from ..model.verification import TOLERANCE
from ..programs.scip import relative_violation
from .elastic import ElasticModel, set_outputs

# Random points of the box besides its middle and two corners.
RANDOM_CANDIDATES = 64
# Numbers in the assignments of all candidates together.
MAX_CANDIDATE_VALUES = 4_000_000
# Random objectives under the constraints without networks, besides that of the problem.
RANDOM_OBJECTIVES = 8
# Candidates that are completed.
MAX_COMPLETED = 4


def submit_first_points(run: Run, incumbent: Incumbent) -> str:
    """Submit candidates until one is feasible; nothing is done if the incumbent has a point.

    Some candidates are points of the box of the network inputs: its middle, its lower and its
    upper corner, and random ones. Others are points of the constraints without networks, optimal
    for the objective without its outputs and for random objectives, whose integer variables keep
    their values in a first completion. These come first where a completion of network inputs has
    to find values of integer variables.

    Parameters
    ----------
    run : Run
        Time limit and seed.
    incumbent : Incumbent
        Receives the points.

    Returns
    -------
    str
        Which candidates were tried, for the log; empty if the incumbent had a point.
    """
    if incumbent.values is not None or run.time_limit <= 0:
        return ""
    search = _FirstPoints(run, incumbent)
    kinds = [
        ("of the box of the network inputs", search.by_box),
        ("of the constraints without networks", search.by_constraints),
    ]
    if (search.others & incumbent.instance.milp.integer).any():
        kinds.reverse()
    tried = []
    for name, submit in kinds:
        tried.append(name)
        if submit():
            break
    return f"points {' and '.join(tried)}"


class _FirstPoints:
    """Candidates for one incumbent, within a fraction of its run's time limit."""

    def __init__(self, run: Run, incumbent: Incumbent) -> None:
        self.instance: Instance = incumbent.instance
        self.incumbent = incumbent
        self.rng = np.random.default_rng(run.seed)
        self.elastic = ElasticModel(incumbent.screening_instance, run.seed)
        self.deadline = now() + min(MAX_SECONDS_FOR_START, START_TIME_FRACTION * run.time_limit)
        milp = self.instance.milp
        self.free = milp.lower < milp.upper
        self.free[self.instance.outputs] = False
        self.others = self.free.copy()  # free variables that are neither inputs nor outputs
        self.others[self.instance.free_inputs] = False

    @property
    def seconds_left(self) -> float:
        return max(self.deadline - now(), 0.0)

    def by_box(self) -> bool:
        """Submit points of the box; return whether one is feasible."""
        milp = self.instance.milp
        inputs = self.instance.free_inputs
        count = min(RANDOM_CANDIDATES, MAX_CANDIDATE_VALUES // milp.n_variables)
        ends = np.repeat([[0.5], [0.0], [1.0]], len(inputs), axis=1)
        parts = np.vstack([ends, self.rng.random((count, len(inputs)))])
        points = np.tile(np.clip(0.0, milp.lower, milp.upper), (len(parts), 1))
        points[:, inputs] = self.elastic.inputs_at(parts)
        return self._submit_best(points)

    def by_constraints(self) -> bool:
        """Submit points of the constraints without networks; return whether one is feasible."""
        milp = self.instance.milp
        completer = self.incumbent.completer
        size = milp.upper - milp.lower
        size[~np.isfinite(size)] = 1.0
        found = []
        for number in range(1 + RANDOM_OBJECTIVES):
            drawn = self.rng.normal(size=milp.n_variables) / np.maximum(size, 1e-9)
            cost = self.elastic.cost if number == 0 else drawn
            point = self.elastic.minimise(np.where(self.free, cost, 0.0), self.seconds_left)
            if point is None or not self.seconds_left:
                break
            point = np.clip(point, milp.lower, milp.upper)
            found.append(point)
            inputs = self.instance.inputs(point)
            completed = completer.complete(inputs, self.seconds_left, integers=point)
            if completed is not None and self.incumbent.consider(completed).feasible:
                return True
        return bool(found) and self._submit_best(np.array(found))

    def _submit_best(self, points: ndarray) -> bool:
        """Complete the inputs of the best candidates until a point is feasible.

        The best ones have the smallest violations that completions cannot change, and then the
        lowest cost.
        """
        milp = self.instance.milp
        points = self.instance.rounded(points)
        set_outputs(self.instance, points)
        decided = abs(milp.rows) @ self.others.astype(float) == 0
        activity = points @ milp.rows[decided].T
        sides = milp.row_lower[decided], milp.row_upper[decided]
        outputs = self.instance.outputs
        bounds = milp.lower[outputs], milp.upper[outputs]
        violation = relative_violation(activity, *sides).sum(axis=1)
        violation += relative_violation(points[:, outputs], *bounds).sum(axis=1)
        violation = np.where(violation <= TOLERANCE, 0.0, violation)
        order = np.lexsort([points @ self.elastic.cost, violation])
        for k in order[:MAX_COMPLETED]:
            check_time()
            left = self.seconds_left
            if not left or not np.isfinite(violation[k]):
                return False
            if self.incumbent.consider_inputs(points[k], left).feasible:
                return True
        return False

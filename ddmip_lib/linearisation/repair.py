"""Repair of starts that fail a constraint, in a small box around their network inputs."""

import numpy as np
from numpy import ndarray

from ..clock import now
from ..model.incumbent import Incumbent, Start
from ..proofs.encoding import Ends
from ..proofs.exact import has_exact_model
from .elastic import ElasticModel
from .neighbourhood import REPAIR_NODES, search_box
from .tangent import linearise

# Radii of the boxes, as fractions of the inputs' ranges; integers may move by 1 at least.
REPAIR_RADII = (0.01, 0.1)
# Linearisations in each box.
MAX_LINEARISATIONS = 5


class _StartRepair:
    """A start, and the models that move its network inputs as little as they can."""

    def __init__(self, incumbent: Incumbent, start: Start, deadline: float) -> None:
        instance = incumbent.instance
        s = instance.milp
        values = instance.assignment(start, rest=0.0)
        self.incumbent = incumbent
        self.deadline = deadline
        self.elastic = ElasticModel(incumbent.screening_instance)
        self.exact = has_exact_model(instance)
        self.target = instance.rounded(np.clip(values, s.lower, s.upper))

    @property
    def seconds_left(self) -> float:
        return max(self.deadline - now(), 0.0)

    def by_linearisation(self, bounds: Ends) -> bool:
        point: ndarray | None = self.target
        for _ in range(MAX_LINEARISATIONS):
            if point is None or not self.seconds_left:
                return False
            tangent = linearise(self.elastic.instance, point)
            point = self.elastic.fit(self.target, tangent, bounds, self.seconds_left)
            if self._is_feasible(point):
                return True
        return False

    def by_exact_model(self, bounds: Ends) -> bool:
        if not self.exact or not self.seconds_left:
            return False
        box = search_box(self.incumbent, bounds, self.seconds_left, REPAIR_NODES)
        return self._is_feasible(box.point)

    def _is_feasible(self, values: ndarray | None) -> bool:
        if values is None:
            return False
        return self.incumbent.consider_inputs(values, self.seconds_left).feasible


def near_start(incumbent: Incumbent, start: Start, seconds: float) -> bool:
    """Search for a feasible point close to a start.

    Steps of the elastic model are completed by the true networks; for ReLU networks the exact model
    of the box follows. What is found is submitted to the incumbent.

    Parameters
    ----------
    incumbent : Incumbent
        Receives the points.
    start : list of np.ndarray
        Network inputs, one matrix for each predictor.
    seconds : float
        Time limit.

    Returns
    -------
    bool
        Whether a feasible point was found.
    """
    repair = _StartRepair(incumbent, start, now() + seconds)
    for radius in REPAIR_RADII:
        bounds = repair.elastic.box(repair.target, radius)
        if repair.by_linearisation(bounds) or repair.by_exact_model(bounds):
            return True
    return False

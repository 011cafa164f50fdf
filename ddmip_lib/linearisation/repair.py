"""Repair of starts that fail a constraint, in a small box around their network inputs."""

from collections.abc import Iterator

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
    deadline = now() + seconds
    elastic = ElasticModel(incumbent.screening_instance)
    instance = incumbent.instance
    values = instance.assignment(start, rest=0.0)
    target = instance.rounded(np.clip(values, instance.milp.lower, instance.milp.upper))
    for radius in REPAIR_RADII:
        bounds = elastic.box(target, radius)
        for point in _candidates(incumbent, elastic, target, bounds, deadline):
            if incumbent.consider_inputs(point, max(deadline - now(), 0.0)).feasible:
                return True
    return False


def _candidates(
    incumbent: Incumbent, elastic: ElasticModel, target: ndarray, bounds: Ends, deadline: float
) -> Iterator[ndarray]:
    """Points of the elastic models that move the inputs of a target as little as they can, then of
    the exact model.
    """
    point: ndarray | None = target
    for _ in range(MAX_LINEARISATIONS):
        if point is None or now() >= deadline:
            break
        tangent = linearise(elastic.instance, point)
        point = elastic.fit(target, tangent, bounds, deadline - now())
        if point is not None:
            yield point
    if now() < deadline and has_exact_model(incumbent.instance):
        point = search_box(incumbent, bounds, deadline - now(), REPAIR_NODES).point
        if point is not None:
            yield point

"""Starts that fail a constraint: the nearest feasible point in a small box around their network
inputs.
"""

import numpy as np

from ..clock import now
from ..model.incumbent import Incumbent
from ..model.repair import Start
from .elastic import ElasticModel
from .neighbourhood import MENDING, exact_graphs, search_box
from .tangent import linearise

RADII = (
    0.01,
    0.1,
)  # of the box, as shares of the ranges of the inputs; integers may move by 1 at least
ROUNDS = 5  # of new lines in each box


def near_start(incumbent: Incumbent, start: Start, seconds: float) -> bool:
    """Whether a feasible point is found close to a start: steps of the elastic model, which move
    its inputs as little as they can, each completed by the true networks; for networks of ReLUs,
    then the exact model of the box.
    """
    deadline = now() + seconds
    instance = incumbent.instance
    elastic = ElasticModel(incumbent.there)
    graphs = exact_graphs(instance)
    s = instance.milp
    target = instance.rounded(np.clip(instance.assignment(start, rest=0.0), s.lower, s.upper))
    for radius in RADII:
        ends = elastic.box(target, radius)
        point = target
        for _ in range(ROUNDS):
            left = deadline - now()
            found = (
                None
                if left <= 0
                else elastic.fit(target, linearise(elastic.instance, point), ends, left)
            )
            if found is None:
                break
            if incumbent.consider_inputs(found, max(deadline - now(), 0.0)).feasible:
                return True
            point = found
        left = deadline - now()
        if graphs is None or left <= 0:
            continue
        exact = search_box(incumbent, graphs, ends, left, MENDING).point
        if (
            exact is not None
            and incumbent.consider_inputs(exact, max(deadline - now(), 0.0)).feasible
        ):
            return True
    return False

"""Where Algorithm 1 begins again, and how a point that misses rows on outputs is put onto them."""

from collections.abc import Iterator

import numpy as np

from ..linearisation.elastic import ElasticModel
from ..linearisation.tangent import linearise
from ..methods.run import Run
from ..model.incumbent import Incumbent

STEPS = 12
RADIUS = 0.2  # of a restoration, the radius as a share of each input's range
FIRM = 30.0  # price of what does not fit, in units of the objective
FITS = 1e-6  # outputs that are off by less, in their units, are tried as they are


class Restarts:
    """Random points of the user's rows, and the nearest points of a linearised model."""

    def __init__(self, run: Run, incumbent: Incumbent) -> None:
        self.run = run
        self.incumbent = incumbent
        self.elastic = ElasticModel(run.instance, run.seed)
        self.rng = np.random.default_rng(run.seed)

    def __iter__(self) -> Iterator[list[np.ndarray]]:
        """Network inputs of the points of the rows that are nearest to random points of the box."""
        instance = self.run.instance
        at = self.elastic.inputs
        s = instance.milp
        while self.run.seconds_left > 0:
            target = np.zeros(s.n_variables)
            target[at] = s.lower[at] + self.elastic.range * self.rng.random(len(at))
            point = self.elastic.nearest(instance.rounded(target), self.run.seconds_left)
            if point is None:
                return
            yield instance.inputs(instance.rounded(point))

    def restore(self, values: np.ndarray) -> None:
        """Put a point onto rows that hold outputs: steps of the linearised model, in which what
        does not fit has a high price, within a radius that shrinks where the true networks do not
        follow.
        """
        elastic = self.elastic
        radius = RADIUS
        price = FIRM * elastic.worth
        point = elastic.complete(values, price, self.run.seconds_left)
        for _ in range(STEPS):
            if point is None or self.run.seconds_left <= 0:
                return
            line = linearise(self.run.instance, point.values)
            aim = elastic.step(point.values, line, radius, price, self.run.seconds_left)
            new = (
                None if aim is None else elastic.complete(aim.values, price, self.run.seconds_left)
            )
            if new is not None and new.merit(price) < point.merit(price):
                point = new
                radius = min(1.0, 2 * radius)
            else:
                radius *= 0.35
            if point.off <= FITS:
                self.incumbent.consider(point.values)

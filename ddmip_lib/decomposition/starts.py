"""Starts of further runs of Algorithm 1, and restoration of points that violate constraints on
outputs.
"""

from collections.abc import Iterator

import numpy as np

from ..linearisation.elastic import ElasticModel
from ..linearisation.tangent import linearise
from ..methods.run import Run
from ..model.incumbent import Incumbent

MAX_RESTORATION_STEPS = 12
"""Maximum number of steps of one restoration."""
RESTORATION_RADIUS = 0.2
"""First trust-region radius of a restoration, as a fraction of the range of each input."""
RADIUS_REDUCTION = 0.35
"""Factor on the radius after a rejected step."""
SLACK_PENALTY = 30.0
"""Penalty on the slack of the elastic model, in units of the objective."""
MAX_OUTPUT_SLACK = 1e-6
"""Slack on the outputs, in units of each output, up to which a point is submitted."""


class Restarts:
    """Starts at feasible points of the constraints, and restoration by a linearised model.

    Parameters
    ----------
    run
        The call of the method.
    incumbent
        The incumbent to which restored points are submitted.
    """

    def __init__(self, run: Run, incumbent: Incumbent) -> None:
        self.run = run
        self.incumbent = incumbent
        self.elastic = ElasticModel(run.instance, run.seed)
        self.rng = np.random.default_rng(run.seed)

    def __iter__(self) -> Iterator[list[np.ndarray]]:
        """Yield network inputs that satisfy the constraints, nearest to random points of the
        box.
        """
        instance = self.run.instance
        inputs = self.elastic.inputs
        lower = instance.milp.lower[inputs]
        while self.run.seconds_left > 0:
            target = np.zeros(instance.milp.n_variables)
            target[inputs] = lower + self.elastic.range * self.rng.random(len(inputs))
            point = self.elastic.nearest(instance.rounded(target), self.run.seconds_left)
            if point is None:
                return
            yield instance.inputs(instance.rounded(point))

    def restore(self, values: np.ndarray) -> None:
        """Submit feasible points near `values`, found by steps of the elastic model in a trust
        region.

        Parameters
        ----------
        values
            A full assignment of the user's variables.
        """
        elastic = self.elastic
        radius = RESTORATION_RADIUS
        price = SLACK_PENALTY * elastic.objective_unit
        point = elastic.complete(values, price, self.run.seconds_left)
        for _ in range(MAX_RESTORATION_STEPS):
            if point is None or self.run.seconds_left <= 0:
                return
            tangent = linearise(self.run.instance, point.values)
            trial = elastic.step(point.values, tangent, radius, price, self.run.seconds_left)
            if trial is not None:
                trial = elastic.complete(trial.values, price, self.run.seconds_left)
            if trial is not None and trial.merit(price) < point.merit(price):
                point = trial
                radius = min(1.0, 2 * radius)
            else:
                radius *= RADIUS_REDUCTION
            if point.infeasibility <= MAX_OUTPUT_SLACK:
                self.incumbent.consider(point.values)

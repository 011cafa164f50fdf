"""Feasible points for other methods: of the constraints without networks, and of all constraints by
trust-region steps.
"""

from collections.abc import Iterator

import numpy as np
from numpy import ndarray

from ..methods.run import Run
from ..model.incumbent import Incumbent
from .elastic import ElasticModel
from .tangent import linearise
from .trust_region import TrustRegion

# Maximum number of steps of one restoration.
MAX_RESTORATION_STEPS = 12
# First trust-region radius of a restoration, as a fraction of the range of each input.
RESTORATION_RADIUS = 0.2
# Penalty on the slack of the elastic model, in units of the objective.
SLACK_PENALTY = 30.0
# Slack on the outputs, in units of each output, up to which a point is submitted.
MAX_OUTPUT_SLACK = 1e-6


class Restoration:
    """Starts that satisfy the constraints, and restoration of points that violate those on outputs.

    Parameters
    ----------
    run : Run
        The call of the method.
    incumbent : Incumbent
        Receives the restored points.
    """

    def __init__(self, run: Run, incumbent: Incumbent) -> None:
        self.run = run
        self.incumbent = incumbent
        self.elastic = ElasticModel(run.instance, run.seed)

    def starts(self) -> Iterator[list[ndarray]]:
        """Yield network inputs that satisfy the constraints with the outputs free.

        Yields
        ------
        list of np.ndarray
            The inputs nearest to a random point of the box, one matrix for each predictor.
        """
        instance = self.run.instance
        rng = np.random.default_rng(self.run.seed)
        inputs = self.elastic.inputs
        while self.run.seconds_left > 0:
            target = np.zeros(instance.milp.n_variables)
            target[inputs] = self.elastic.inputs_at(rng.random(len(inputs)))
            point = self.elastic.nearest(instance.rounded(target))
            if point is None:
                return
            yield instance.inputs(instance.rounded(point))

    def restore(self, values: ndarray) -> None:
        """Submit feasible points near an assignment, found by steps of the elastic model.

        A step is accepted if it decreases the merit at all, because the radius of a restoration
        is never small.

        Parameters
        ----------
        values : np.ndarray
            A full assignment of the user's variables.
        """
        elastic = self.elastic
        region = TrustRegion(RESTORATION_RADIUS)
        price = SLACK_PENALTY * elastic.objective_unit
        point = elastic.complete(values, price)
        for _ in range(MAX_RESTORATION_STEPS):
            if point is None or self.run.seconds_left <= 0:
                return
            tangent = linearise(self.run.instance, point.values)
            trial = elastic.step(point.values, tangent, region.radius, price)
            if trial is not None:
                trial = elastic.complete(trial.values, price)
            if trial is not None and trial.merit(price) < point.merit(price):
                point = trial
                region.expand()
            else:
                region.shrink()
            if point.infeasibility <= MAX_OUTPUT_SLACK:
                self.incumbent.consider(point.values)

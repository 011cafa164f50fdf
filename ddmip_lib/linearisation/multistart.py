"""Multistart projected gradient on the l1-penalty function, for many points at once."""

import numpy as np
import torch
from numpy import ndarray

from ..clock import check_time
from ..device import PlacedNetwork
from ..model.gradients import vjp
from ..model.instance import InputMap, Instance
from .elastic import ElasticModel

# Gradient runs that are made together.
MAX_GRADIENT_RUNS = 256
# Gradient runs below which none is made, where the sizes of model or networks limit them.
MIN_GRADIENT_RUNS = 8
# Weights times samples of one network in all gradient runs together.
MAX_WEIGHT_EVALUATIONS = 10_000_000
# Numbers in the assignments of all gradient runs together.
MAX_RUN_VALUES = 4_000_000
# Steps of one gradient run.
GRADIENT_STEPS = 40
# First step length, as a fraction of each input's range.
MAX_GRADIENT_STEP = 0.2
# Last step length, as a fraction of each input's range.
MIN_GRADIENT_STEP = 0.005
# Largest difference of two end points, as a fraction of the ranges, up to which they are one.
MIN_END_DISTANCE = 0.01


_Evaluated = tuple[InputMap, torch.Tensor, torch.Tensor]
"""A network's map, its inputs with their graph, and its outputs in all gradient runs."""


class GradientMultistart:
    """Distinct end points of projected gradient runs from random points, the best first.

    A run takes gradient steps of falling length on the l1 merit function: the objective and the
    penalised violation of all constraints, with all variables but inputs and outputs where a given
    point has them. Classes are replaced by sigmoids, integer inputs are not rounded. No run is made
    where the networks are large, or have no weights that show how large they are.

    Parameters
    ----------
    elastic : ElasticModel
        Its instance, and the units of outputs.
    norm : np.ndarray
        Scale of each constraint.
    rng : np.random.Generator
        Draws the first points.

    Attributes
    ----------
    count : int
        Gradient runs that are made together.
    """

    def __init__(self, elastic: ElasticModel, norm: ndarray, rng: np.random.Generator) -> None:
        self.elastic = elastic
        self.norm = norm
        self.rng = rng
        self.count = 0
        if len(elastic.inputs):
            most_values = MAX_RUN_VALUES // elastic.milp.n_variables
            self.count = min(MAX_GRADIENT_RUNS, most_values, _affordable_runs(elastic.instance))
        self.ends: list[ndarray] = []
        self.taken: list[ndarray] = []

    def end(self, base: ndarray, price: float) -> ndarray | None:
        """Return the best end point that differs from all returned before.

        Parameters
        ----------
        base : np.ndarray
            A full assignment, for the variables that are neither inputs nor outputs.
        price : float
            Penalty of a unit of violation.

        Returns
        -------
        np.ndarray or None
            Fractions of the inputs' ranges; None if all runs lead to known points.
        """
        for _ in range(2):
            while self.ends:
                end = self.ends.pop(0)
                if all(np.abs(end - other).max() > MIN_END_DISTANCE for other in self.taken):
                    self.taken.append(end)
                    return end
            if self.count >= MIN_GRADIENT_RUNS:
                self.ends = self._descend(base, price)
        return None

    def _descend(self, base: ndarray, price: float) -> list[ndarray]:
        """Make all runs; the best points of each, in the order of their merits."""
        at = self.rng.random((self.count, len(self.elastic.inputs)))
        best = np.full(self.count, np.inf)
        ends = at.copy()
        for length in [*np.geomspace(MAX_GRADIENT_STEP, MIN_GRADIENT_STEP, GRADIENT_STEPS), 0.0]:
            merits, gradient = self._merits(at, base, price)
            better = merits < best
            best[better] = merits[better]
            ends[better] = at[better]
            direction = np.nan_to_num(gradient * self.elastic.range)
            largest = np.maximum(np.abs(direction).max(axis=1, keepdims=True), 1e-300)
            at = np.clip(at - length * direction / largest, 0.0, 1.0)
        return [ends[k] for k in np.argsort(best, kind="stable") if np.isfinite(best[k])]

    @torch.enable_grad()
    def _merits(self, at: ndarray, base: ndarray, price: float) -> tuple[ndarray, ndarray]:
        """Merits, and their gradients in the inputs."""
        elastic = self.elastic
        values = np.repeat(base[None], len(at), axis=0)
        values[:, elastic.inputs] = elastic.inputs_at(at)
        evaluated = self._evaluate(values)
        merits, excess = elastic.merits(values, price, self.norm)
        gradient = elastic.cost + price * (np.sign(excess) / self.norm) @ elastic.milp.rows
        return merits, _chain_rule(evaluated, gradient)[:, elastic.inputs]

    def _evaluate(self, values: ndarray) -> list[_Evaluated]:
        """Evaluate all networks, and write their outputs into `values`."""
        elastic = self.elastic
        evaluated = []
        first = 0
        for predictor, mapping in elastic.instance.networks:
            check_time()
            inputs = np.where(mapping.index >= 0, values[:, mapping.index], mapping.constant)
            x = torch.from_numpy(inputs).flatten(0, 1).requires_grad_()
            raw = predictor.net(x).view(len(values), -1)
            last = first + mapping.output.size
            if predictor.gives_class:
                raw = torch.sigmoid(raw / torch.tensor(elastic.units[first:last]))
            values[:, mapping.output.ravel()] = raw.detach().numpy()
            evaluated.append((mapping, x, raw))
            first = last
        return evaluated


def _affordable_runs(instance: Instance) -> int:
    """Gradient runs that `MAX_WEIGHT_EVALUATIONS` allows for every network."""
    affordable = []
    for predictor, mapping in instance.networks:
        net = predictor.net.here if isinstance(predictor.net, PlacedNetwork) else predictor.net
        n_weights = sum(weight.numel() for weight in net.parameters())
        if not n_weights:
            return 0
        affordable.append(MAX_WEIGHT_EVALUATIONS // (n_weights * len(mapping.index)))
    return min(affordable)


def _chain_rule(evaluated: list[_Evaluated], gradient: ndarray) -> ndarray:
    """Add the gradient in the outputs, through the networks, to that in the inputs."""
    total = gradient.copy()
    for mapping, inputs, outputs in evaluated:
        weights = gradient[:, mapping.output.ravel()].ravel()
        pulled_back = vjp([outputs], inputs, weights).numpy()
        pulled_back = pulled_back.reshape(len(gradient), *mapping.index.shape)
        sample, column = np.nonzero(mapping.index >= 0)
        derivatives = pulled_back[:, sample, column]
        np.add.at(total.T, mapping.index[sample, column], derivatives.T)
    return total

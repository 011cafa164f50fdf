"""Many points at once, walked downhill by gradients: where descents are worth beginning."""

import numpy as np
import torch

from ..clock import check_time
from ..device import PlacedNetwork
from ..model.gradients import vjp
from .elastic import ElasticModel

POINTS = 256
FEWEST = 8  # points that are walked together; where there is room for fewer, none are
WORK = 10_000_000
ENTRIES = 4_000_000  # weights times network rows, and variables, of all these points, at most
STEPS = 40
LONGEST = 0.2
SHORTEST = 0.005  # of a walk; lengths are shares of each input's range
APART = 0.01  # ends of walks that differ by less, as a share of the ranges, are one


class GradientMultistart:
    """Ends of walks from random points of the box, the best first, each once.

    A walk takes gradient steps of falling length on the merit of `Moves`: objective plus price
    times what rows miss, all variables but inputs and outputs where a given point has them. Classes
    are softened, whole inputs are not rounded. Where the networks are large, or no weights tell how
    large they are, nobody walks.
    """

    def __init__(self, elastic: ElasticModel, norm: np.ndarray, rng: np.random.Generator) -> None:
        self.elastic = elastic
        self.norm = norm
        self.rng = rng
        instance = elastic.instance
        self.count = min(POINTS, ENTRIES // elastic.milp.n_variables)
        self.count = self.count if len(elastic.inputs) else 0
        for predictor, m in zip(instance.predictors, instance.maps, strict=True):
            net = predictor.net.here if isinstance(predictor.net, PlacedNetwork) else predictor.net
            weights = sum(weight.numel() for weight in net.parameters())
            self.count = min(self.count, WORK // (weights * len(m.index)) if weights else 0)
        self.ends: list[np.ndarray] = []
        self.taken: list[np.ndarray] = []

    def end(self, base: np.ndarray, price: float) -> np.ndarray | None:
        """The best end that was not given yet, as shares of the inputs' ranges; None where all
        walks lead to known ones. `base` is a full assignment.
        """
        for _ in range(2):
            while self.ends:
                end = self.ends.pop(0)
                if all(np.abs(end - other).max() > APART for other in self.taken):
                    self.taken.append(end)
                    return end
            if self.count >= FEWEST:
                self.ends = self._walked(base, price)
        return None

    def _walked(self, base: np.ndarray, price: float) -> list[np.ndarray]:
        at = self.rng.random((self.count, len(self.elastic.inputs)))
        best = np.full(self.count, np.inf)
        ends = at.copy()
        for length in [*np.geomspace(LONGEST, SHORTEST, STEPS), 0.0]:
            merit, slope = self._merits(at, base, price)
            better = merit < best
            best[better], ends[better] = merit[better], at[better]
            slope = np.nan_to_num(slope * self.elastic.range)
            at = np.clip(
                at - length * slope / np.maximum(np.abs(slope).max(axis=1, keepdims=True), 1e-300),
                0.0,
                1.0,
            )
        return [ends[k] for k in np.argsort(best, kind="stable") if np.isfinite(best[k])]

    @torch.enable_grad()
    def _merits(
        self, at: np.ndarray, base: np.ndarray, price: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Merits, and their gradients in the inputs."""
        elastic = self.elastic
        s = self.elastic.milp
        instance = self.elastic.instance
        values = np.repeat(base[None], len(at), axis=0)
        values[:, elastic.inputs] = s.lower[elastic.inputs] + elastic.range * at
        asked = []
        first = 0
        for predictor, m in zip(instance.predictors, instance.maps, strict=True):
            check_time()
            x = (
                torch.from_numpy(np.where(m.index >= 0, values[:, m.index], m.constant))
                .flatten(0, 1)
                .requires_grad_()
            )
            raw = predictor.net(x)
            part = slice(first, first + m.output.size)
            soft = torch.sigmoid(raw.view(len(at), -1) / torch.tensor(elastic.size[part]))
            said = torch.where(torch.tensor(elastic.classes[part]), soft, raw.view(len(at), -1))
            values[:, m.output.ravel()] = said.detach().numpy()
            asked.append((m, x, said))
            first = part.stop
        value = values @ s.rows.T
        off = np.maximum(0.0, value - s.row_upper) - np.maximum(0.0, s.row_lower - value)
        slope = elastic.cost + price * (np.sign(off) / self.norm) @ s.rows
        total = slope.copy()
        for m, x, said in asked:
            pulled = (
                vjp([said], x, slope[:, m.output.ravel()].ravel())
                .numpy()
                .reshape(len(at), *m.index.shape)
            )
            row, column = np.nonzero(m.index >= 0)
            np.add.at(total.T, m.index[row, column], pulled[:, row, column].T)
        merit = values @ elastic.cost + price * (np.abs(off) / self.norm).sum(axis=1)
        return np.where(np.isfinite(merit), merit, np.inf), total[:, elastic.inputs]

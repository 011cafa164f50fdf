r"""Price coordination for blocks of any form: rows and whole numbers of their own, several outputs, classes or numbers.

At prices $\pi$ of the linking rows every block minimises $c_b^\top v_b - \pi^\top L_b v_b$ by steps in a trust region:
its networks linear around its point, a small MILP; then the true outputs, a completion, and a test of what was gained.
Blocks take their steps in one model (`linearised`) and by one pass through the networks; what each reaches is an option
(`options`). The best choice among options is refined by the same steps with the linking rows in place.
"""

import time

import numpy as np

from ..model.incumbent import Incumbent
from ..model.structure import Structure
from .linearised import Linearised
from .options import Options, Prices

STEPS = 8  # of one path
RADIUS, GROW, SHRINK, SMALLEST = 0.3, 1.5, 0.35, 1e-4  # of trust regions, as shares of the boxes
PENALTY = 100.0  # of a unit of wrong output, in units of the largest cost
STEP_SECONDS, CHOICE_SECONDS = 3.0, 3.0


class Search:
    """The state of the search: options, prices, the incumbent."""

    def __init__(self, incumbent: Incumbent, structure: Structure, deadline: float, seed: int) -> None:
        self.incumbent, self.structure, self.deadline = incumbent, structure, deadline
        self.options, self.draw = Options(incumbent, structure), np.random.default_rng(seed)
        instance = self.instance = incumbent.instance
        self.apart, self.joined = (Linearised(instance, structure, linking) for linking in (False, True))
        self.prices: Prices | None = None

    @property
    def seconds_left(self) -> float:
        return self.deadline - time.perf_counter()

    def cost(self) -> np.ndarray:
        """What each variable costs its block at the prices; without prices nothing is scarce."""
        s = self.instance.milp
        if self.prices is None:
            return s.sign * s.cost
        return self.prices.counts * s.sign * s.cost - self.options.linking.T @ self.prices.linking

    def path(self, values: np.ndarray, model: Linearised, cost: np.ndarray, radius: float = RADIUS) -> np.ndarray:
        """Steps from a point, each block by itself, or all as one where the model joins them; the last point."""
        one = model is self.joined
        label, count = (0 * self.structure.block, 1) if one else (self.structure.block, self.structure.n)
        price = PENALTY * max(float(np.abs(cost).max()), 1e-9)
        reach, merit = np.full(count, radius), np.full(count, np.inf)

        def completed(trial: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
            found = None if trial is None else model.complete(trial, cost, price, self._limit)
            if found is None:
                return values, np.full(count, np.inf)
            true = self.instance.with_outputs(found)
            self.visit(true)
            each = cost * found + price * np.abs(found - true)
            return found, np.bincount(label[label >= 0], each[label >= 0], count)

        values, merit = completed(values)
        for _ in range(STEPS):
            if self.seconds_left <= 0 or (reach < SMALLEST).all():
                break
            trial, reached = completed(model.step(values, cost, price, reach[label], self._limit))
            gained = reached < merit - 1e-9 * np.maximum(1.0, np.abs(reached))
            values, merit = np.where(gained[label], trial, values), np.where(gained, reached, merit)
            reach = np.where(gained, np.minimum(1.0, GROW * reach), SHRINK * reach)
        return values

    @property
    def _limit(self) -> float:
        return min(STEP_SECONDS, self.seconds_left)

    def visit(self, values: np.ndarray) -> None:
        """A point with true outputs: its parts become options, and it competes as a whole."""
        if np.isfinite(values).all():
            self.options.add(values)
            self.incumbent.consider(values)

    def random(self) -> np.ndarray:
        """Inputs anywhere in their boxes."""
        s, at = self.instance.milp, self.instance.free_inputs
        values = np.clip(0.0, s.lower, s.upper)
        values[at] = self.draw.uniform(s.lower[at], s.upper[at])
        return values

    def best_known(self) -> np.ndarray:
        """Of every block its best option at the prices."""
        assert self.prices is not None
        values = self.options.points[-1].copy()
        for o in np.argsort(-self.options.reduced(self.prices), kind="stable"):
            mine = self.structure.block == self.options.block[o]
            values[mine] = self.options.points[self.options.point[o]][mine]
        return values

    def round(self, start: np.ndarray) -> None:
        """Options by a path from a start at the prices, new prices, a choice, and steps onward from a better one."""
        before = self.incumbent.objective
        near = self.apart.nearest(start, self._limit)
        if near is not None:
            self.path(near, self.apart, self.cost())
        if len(self.options):
            self.prices = self.options.prices()
            self.choose()
        if self.incumbent.values is not None and self.incumbent.objective != before:
            s = self.instance.milp
            self.path(self.incumbent.values, self.joined, s.sign * s.cost, RADIUS / 3)

    def choose(self) -> None:
        """Choose among the options that a better choice can hold; the choice competes, and the best completion of it."""
        prices, best = self.prices, self.incumbent.objective
        if prices is None or not prices.counts or self.seconds_left <= 0:
            return
        s = self.instance.milp
        short = np.inf if best is None else s.sign * (best - s.offset) - prices.value + 1e-9
        among = np.flatnonzero(self.options.reduced(prices) <= short)
        chosen = self.options.choose(among, min(CHOICE_SECONDS, self.seconds_left))
        if chosen is not None and self.incumbent.consider(chosen).feasible:
            self.incumbent.consider_inputs(chosen, self._limit)

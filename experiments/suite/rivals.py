"""Rivals: random feasible points, relax-and-walk, and the gradient walk."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from ddmip_lib import NeuralMIP, Solution
from ddmip_lib.errors import ProblemError
from ddmip_lib.methods import Run, start_run
from ddmip_lib.model import PointCallback
from ddmip_lib.programs.scip import MILP
from .regions import Pattern, Regions, key

BEYOND = 1e-5
"""Share of the box by which a walk steps over the border of a region."""


def _solution(run: Run, points: int) -> Solution:
    run.details["points"] = points
    return run.solution("time_limit" if run.seconds_left <= 0 else "iteration_limit")


@dataclass(frozen=True)
class RandomPoints:
    """Points of the rows nearest to random points of the box of inputs, completed and judged by the
    true networks.

    Nearest in the 1-norm, each input in units of its range; rows that hold outputs take part with
    outputs free. Until the time is up, or `most` points.

    >>> from ddmip_lib.problems import hand_sized
    >>> RandomPoints(most=20).solve(hand_sized()).objective
    0.5
    """

    most: int | None = None
    method: ClassVar[str] = "random feasible points"

    def solve(
        self,
        problem: NeuralMIP,
        time_limit: float = 60.0,
        seed: int = 0,
        progress: bool = False,
        on_point: PointCallback | None = None,
    ) -> Solution:
        """Draw targets by `seed`; the best verified point is returned."""
        run = start_run(problem, time_limit, seed, on_point, method=self.method)
        incumbent = run.incumbent()
        rng = np.random.default_rng(seed)
        s = run.instance.milp
        if s.others:
            raise ProblemError(
                f"{self.method} takes linear constraints only, not {s.others[0].kind}."
            )
        nearest = _NearestPoint(s, run.instance.free_inputs)
        points = 0
        while run.seconds_left > 0 and (self.most is None or points < self.most):
            points += 1
            values = nearest(rng.random(len(nearest.inputs)), max(0.1, run.seconds_left))
            if values is not None:
                incumbent.consider_inputs(values, min(10.0, max(run.seconds_left, 0.1)))
        return _solution(run, points)


class _NearestPoint:
    """The point of the linear constraints nearest to a target, by a MIP with distances as
    variables.
    """

    def __init__(self, milp: MILP, inputs: np.ndarray) -> None:
        self.milp = milp
        self.inputs = inputs
        self.unit = (milp.upper - milp.lower)[inputs]
        n = milp.n_variables
        k = len(inputs)
        pick = sp.csr_matrix((1.0 / self.unit, (np.arange(k), inputs)), shape=(k, n))
        off = sp.identity(k)
        empty = sp.csr_matrix((milp.n_rows, k))
        self.rows = sp.bmat([[milp.rows, empty], [pick, -off], [pick, off]]).tocsr()
        self.cost = np.concatenate([np.zeros(n), np.ones(k)])
        self.bounds = Bounds(
            np.concatenate([milp.lower, np.zeros(k)]),
            np.concatenate([milp.upper, np.full(k, np.inf)]),
        )
        self.integer = np.concatenate([milp.integer, np.zeros(k)])

    def __call__(self, share: np.ndarray, seconds: float) -> np.ndarray | None:
        """The nearest point to the one at these shares of the inputs' ranges."""
        target = self.milp.lower[self.inputs] / self.unit + share
        free = np.full(len(target), np.inf)
        low = np.concatenate([self.milp.row_lower, -free, target])
        high = np.concatenate([self.milp.row_upper, target, free])
        found = milp(
            self.cost,
            integrality=self.integer,
            bounds=self.bounds,
            constraints=LinearConstraint(self.rows, low, high),
            options={"time_limit": seconds, "mip_rel_gap": 0.1},
        )
        return None if found.x is None else found.x[: self.milp.n_variables]


class _Walk:
    """What both walks share: the function, its best point, the clock."""

    def __init__(self, run: Run, method: str) -> None:
        self.run = run
        self.incumbent = run.incumbent()
        self.regions = Regions.read(run.instance, method)
        self.rng = np.random.default_rng(run.seed)
        self.best = np.inf
        self.points = 0
        self.kept: np.ndarray | None = None

    def look(self, x: np.ndarray) -> float:
        """The function at x, which competes to be the best point."""
        self.points += 1
        value = self.regions.value(x)
        if value < self.best - 1e-9 * max(1.0, abs(value)):
            self.best = value
            self.kept = x
        return value

    def hand_in(self) -> None:
        """Let the best point be verified, if it is new."""
        if self.kept is not None:
            full = np.zeros(self.run.instance.milp.n_variables)
            full[self.regions.index] = self.kept
            self.incumbent.consider(full)
            self.kept = None

    def clip(self, x: np.ndarray) -> np.ndarray:
        return np.clip(x, self.regions.lower, self.regions.upper)


@dataclass(frozen=True)
class RelaxAndWalk:
    r"""Relax-and-walk of Tong, Cai and Serra (2024, arXiv 2401.03451), for one ReLU network in a
    box.

    *Walk*: in the linear region of a point an LP finds the best point; the walk continues in the
    region slightly behind it, in the direction of the last step, as long as the objective falls and
    the region is new. *Relax*: starts come from the linear relaxation of the Big-M model, whose
    units are fixed one after the other, layer by layer, each on or off at random.

    Filled in here, from the paper's description rather than its code: a unit of the relaxation is
    on with the probability of its relaxed binary (kept within 0.05 and 0.95), is switched where
    that leaves no point, and the sequence begins again with another order when all units are
    fixed; ranges are by intervals; the step over the border is 1e-5 of the box.

    >>> from .families import box
    >>> RelaxAndWalk().solve(box(n=2, widths=(6,)), time_limit=0.5).found
    True
    """

    method: ClassVar[str] = "relax-and-walk"

    def solve(
        self,
        problem: NeuralMIP,
        time_limit: float = 60.0,
        seed: int = 0,
        progress: bool = False,
        on_point: PointCallback | None = None,
    ) -> Solution:
        """Walk from the points of ever more restricted relaxations until the time is up."""
        run = start_run(problem, time_limit, seed, on_point, method=self.method)
        walk = _Walk(run, self.method)
        visited = set[Pattern]()
        while run.seconds_left > 0:
            for x in self._starts(walk):
                self._walk_from(walk, x, visited)
                walk.hand_in()
                if run.seconds_left <= 0:
                    break
            visited.clear()
        return _solution(run, walk.points)

    def _walk_from(self, walk: _Walk, x: np.ndarray, visited: set[Pattern]) -> None:
        before = walk.look(x)
        regions = walk.regions
        while walk.run.seconds_left > 0:
            pattern = regions.pattern(x)
            if key(pattern) in visited:
                return
            visited.add(key(pattern))
            rows, offsets, slope = regions.affine(pattern)
            side = np.where(np.concatenate(pattern), -1.0, 1.0)
            box = np.column_stack([regions.lower, regions.upper])
            found = linprog(
                slope, A_ub=side[:, None] * rows, b_ub=-side * offsets + 1e-9, bounds=box
            )
            if found.x is None:
                return
            corner = walk.clip(found.x)
            value = walk.look(corner)
            step = corner - x
            length = np.abs(step / regions.width).max()
            if value > before - 1e-9 * max(1.0, abs(before)) or length == 0:
                return
            before = value
            x = walk.clip(corner + BEYOND / length * step)

    def _starts(self, walk: _Walk) -> Iterator[np.ndarray]:
        """Points of the relaxation while its units are fixed one after the other."""
        sizes = [len(bias) for bias in walk.regions.biases[:-1]]
        relaxation = _Relaxation(walk.regions)
        fixed: dict[int, float] = {}
        order = np.concatenate(
            [walk.rng.permutation(size) + sum(sizes[:k]) for k, size in enumerate(sizes)]
        )
        found = relaxation.solve(fixed)
        for unit in order:
            if found is None:
                return
            x, z = found
            yield x
            on = float(walk.rng.random() < np.clip(z[unit], 0.05, 0.95))
            found = relaxation.solve({**fixed, int(unit): on})
            if found is None:
                on = 1.0 - on
                found = relaxation.solve({**fixed, int(unit): on})
            fixed[int(unit)] = on


class _Relaxation:
    """The LP of the Big-M model; its variables are inputs, outputs of hidden units, and their
    binaries.
    """

    def __init__(self, regions: Regions) -> None:
        self.regions = regions
        low, high = (np.concatenate(ends) for ends in zip(*regions.ranges(), strict=True))
        self.n = len(regions.lower)
        self.m = len(low)
        parts = []
        before = slice(0, self.n)
        first = 0
        for weight, bias in zip(regions.weights[:-1], regions.biases[:-1], strict=True):
            units = np.arange(first, first + len(bias))
            parts.append(self._rows(weight, before, units, low[units], high[units]))
            before = slice(self.n + first, self.n + first + len(bias))
            first += len(bias)
        bias = np.concatenate(regions.biases[:-1])
        self.matrix = sp.csr_matrix(np.concatenate(parts))
        sides = [-bias, bias - np.minimum(low, 0.0), np.zeros(self.m)]
        self.side = np.column_stack(sides).ravel()
        self.cost = np.zeros(self.n + 2 * self.m)
        self.cost[: self.n] = regions.cost
        self.cost[before] = regions.worth @ regions.weights[-1]
        self.lower = np.concatenate([regions.lower, np.zeros(2 * self.m)])
        self.upper = np.concatenate([regions.upper, np.maximum(high, 0.0), np.ones(self.m)])

    def _rows(
        self,
        weight: np.ndarray,
        before: slice,
        units: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
    ) -> np.ndarray:
        r"""Of each unit: $h - s \le 0$, $s \le h - l (1 - z)$ and $s \le u z$."""
        above, below, off = np.zeros((3, len(units), self.n + 2 * self.m))
        each = np.arange(len(units))
        above[:, before] = weight
        above[each, self.n + units] = -1.0
        below[:] = -above
        below[each, self.n + self.m + units] = -np.minimum(low, 0.0)
        off[each, self.n + units] = 1.0
        off[each, self.n + self.m + units] = -np.maximum(high, 0.0)
        return np.stack([above, below, off], axis=1).reshape(-1, self.n + 2 * self.m)

    def solve(self, fixed: dict[int, float]) -> tuple[np.ndarray, np.ndarray] | None:
        """Inputs and relaxed binaries with some of these fixed; None where nothing is feasible."""
        ends = np.column_stack([self.lower, self.upper])
        for unit, on in fixed.items():
            ends[self.n + self.m + unit] = on
        found = linprog(self.cost, A_ub=self.matrix, b_ub=self.side, bounds=ends)
        if found.x is None:
            return None
        x = np.clip(found.x[: self.n], self.regions.lower, self.regions.upper)
        return x, found.x[self.n + self.m :]


@dataclass(frozen=True)
class GradientWalk:
    r"""The gradient walk of Tong, Zhu, Serra and Burer (2025, arXiv 2512.24295), for one ReLU
    network in a box.

    Projected gradient steps, $x \leftarrow P(x - \gamma\nabla g(x))$, and perturbations where they
    lead nowhere. Their second variant also looks at linear regions; here this means that a step
    goes at least slightly behind the border of the region in which its gradient holds, since
    nothing new is learnt before.

    Filled in here, since we know the paper by its abstract and by summaries and not its settings:
    gradients are scaled to the box, the first step is a quarter of it; after five steps without a
    gain the walk goes back to its best point and the step is halved; below 1e-4 of the box the
    point is perturbed by a normal deviate of a tenth of it; after ten perturbations without a gain
    the walk starts again at a random point.

    >>> from .families import box
    >>> GradientWalk().solve(box(n=2, widths=(6,)), time_limit=0.3).found
    True
    """

    method: ClassVar[str] = "gradient walk"

    def solve(
        self,
        problem: NeuralMIP,
        time_limit: float = 60.0,
        seed: int = 0,
        progress: bool = False,
        on_point: PointCallback | None = None,
    ) -> Solution:
        """Walk from random points until the time is up."""
        run = start_run(problem, time_limit, seed, on_point, method=self.method)
        walk = _Walk(run, self.method)
        regions = walk.regions
        rng = walk.rng
        while run.seconds_left > 0:
            best = regions.lower + regions.width * rng.random(len(regions.lower))
            value = walk.look(best)
            idle = 0
            while idle < 10 and run.seconds_left > 0:
                shaken = walk.clip(
                    best + 0.1 * regions.width * rng.normal(size=len(best)) * (idle > 0)
                )
                point, found = self._descend(walk, shaken)
                walk.hand_in()
                idle += 1
                if found < value - 1e-9 * max(1.0, abs(value)):
                    best = point
                    value = found
                    idle = 1
        return _solution(run, walk.points)

    def _descend(self, walk: _Walk, x: np.ndarray) -> tuple[np.ndarray, float]:
        """Steps of falling length; the best point and its value."""
        regions = walk.regions
        length = 0.25
        idle = 0
        best = x
        value = walk.look(x)
        while length > 1e-4 and walk.run.seconds_left > 0:
            direction = -regions.gradient(x) * regions.width**2
            size = np.abs(direction / regions.width).max()
            if size == 0:
                break
            direction /= size
            border = regions.to_border(x, direction)
            x = walk.clip(x + max(length, min(border, 1.0) + BEYOND) * direction)
            found = walk.look(x)
            idle += 1
            if found < value - 1e-9 * max(1.0, abs(value)):
                best = x
                value = found
                idle = 0
            if idle >= 5:
                x = best
                length = length / 2
                idle = 0
        return best, value

"""The account of a certificate: what is proven and what is known for every row of the table of
`Blocks`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..bounds import Graph
from ..clock import now
from ..model.blocks import Blocks
from ..model.incumbent import Incumbent
from ..model.progress import report_progress
from ..model.solution import Solution
from ..pricing.pricing_problem import MARGIN, ascend, reduce_to_boundary
from .certificate import Certificate, with_bound
from .losses import Losses, losses_at
from .unit_search import LossBounds

# a block is closed when its bound is so near to what is known possible, in units of the largest
# worth
CLOSED = 1e-4


class BoundState:
    """What is proven and what is known for every row of the table, and the bound that follows."""

    def __init__(
        self,
        incumbent: Incumbent,
        solution: Solution,
        blocks: Blocks,
        pi: np.ndarray,
        graphs: dict[int, Graph],
        device: torch.device,
        steps: int | None = None,
    ) -> None:
        self.incumbent = incumbent
        self.solution = solution
        self.blocks = blocks
        self.pi = pi
        self.graphs = graphs
        self.device = device
        self.steps = steps
        self.began = incumbent.began
        self.milp = incumbent.instance.milp
        self.predictors = incumbent.instance.predictors
        size = len(blocks.block)
        self.losses: dict[int, Losses] = {}
        self.top, self.possible, self.least, most = (np.zeros(size) for _ in range(4))
        self.nodes = np.zeros(size, dtype=int)
        for number in graphs:
            rows = self._of(number)
            found = self.losses[number] = losses_at(
                blocks, pi, rows, graphs[number], self._classes(number)
            )
            self.top[rows] = found.top.numpy()
            most[rows] = blocks.worth[rows] * (
                1.0 if self._classes(number) else found.level.numpy()
            )
            # at worst a class is missed, or an output is that of the base point
            missed = (blocks.worth * blocks.gains(pi))[rows]
            if not self._classes(number):
                missed = found.at(found.base, graphs[number](found.base)[:, 0]).numpy()
            self.possible[rows] = missed
        self.tolerance = CLOSED * float(blocks.worth.max())
        free = self._per_block(most)
        free = np.maximum(free, 0.0) if blocks.optional else free
        self.ceiling = float(
            free.sum() + 1e-12 * np.abs(free).sum()
        )  # the bound for prices of zero
        self.history: list[tuple[float, float]] = []
        self._know(solution)
        self.update()

    def _classes(self, number: int) -> bool:
        return self.predictors[number].gives_class

    def _of(self, number: int) -> np.ndarray:
        return np.flatnonzero(self.blocks.predictor == number)

    def _per_block(self, each: np.ndarray) -> np.ndarray:
        most = np.full(self.blocks.n, -np.inf)
        np.maximum.at(most, self.blocks.block, each)
        return most

    def profits(self, loss: np.ndarray) -> np.ndarray:
        """What each block earns at most where its rows lose at least so much."""
        most = self._per_block(self.top - loss)
        return np.maximum(most, 0.0) if self.blocks.optional else most

    def _know(self, solution: Solution) -> None:
        """Options of the solution's pool are known to be possible."""
        pool = solution.details.get("pool")
        if pool is not None and getattr(pool, "blocks", None) is self.blocks:
            lost = self.top[pool.at] - (pool.value - pool.use @ self.pi)
            np.minimum.at(self.possible, pool.at, np.maximum(lost, 0.0))

    def look(self, starts: int) -> None:
        """Let the NN block look for good options at these prices, from the base points and from
        random ones.
        """
        draw = np.random.default_rng(0)
        for number, losses in self.losses.items():
            rows = self._of(number)
            graph = self.graphs[number]
            task = losses.task()
            for k in range(starts):
                shift = (
                    0.25
                    * draw.uniform(-1, 1, losses.base.shape)
                    * (draw.random(losses.base.shape) < 0.4)
                    * (k > 0)
                )
                u = losses.base + torch.from_numpy(shift) * (losses.upper - losses.lower)
                u, _ = ascend(
                    graph, task, torch.minimum(torch.maximum(u, losses.lower), losses.upper)
                )
                if self._classes(number):
                    u = reduce_to_boundary(graph, task, u)
                found = losses.at(u, graph(u)[:, 0], MARGIN).numpy()
                self.possible[rows] = np.minimum(self.possible[rows], found)
        self.update()

    def rows(self) -> np.ndarray:
        """Rows on which there is something left to prove."""
        return np.flatnonzero(self.least < self._target() - 1e-9)

    def _target(self) -> np.ndarray:
        """A row need not lose more than what leaves its block no profit beyond the one that is
        known.
        """
        return (
            np.minimum(self.possible, self.top - self.profits(self.possible)[self.blocks.block])
            - self.tolerance
        )

    def searches(self, rows: np.ndarray) -> tuple[list[tuple[Any, ...]], list[np.ndarray]]:
        """What searches for some rows of the table are made of, one for each network; and the rows
        of each.
        """
        target = self._target() + self.tolerance
        searches = list[tuple[Any, ...]]()
        shares = list[np.ndarray]()
        for number in self.graphs:
            mine = rows[self.blocks.predictor[rows] == number]
            if len(mine):
                at = torch.from_numpy(np.searchsorted(self._of(number), mine))
                goal = torch.from_numpy(target[mine]).to(self.device)
                losses = self.losses[number][at].to(self.device)
                searches.append(
                    (self.graphs[number].to(self.device), losses, goal, self.tolerance, self.steps)
                )
                shares.append(mine)
        return searches, shares

    def hear(self, shares: Sequence[np.ndarray], found: Sequence[LossBounds]) -> bool:
        """Take over what such searches report; whether anything is left to prove."""
        for rows, progress in zip(shares, found, strict=True):
            self.take(rows, progress)
        return not self.settled

    def take(self, rows: np.ndarray, found: LossBounds) -> None:
        """Take over what a search has proven and found."""
        self.least[rows] = np.maximum(self.least[rows], found.least.numpy())
        self.possible[rows] = np.minimum(self.possible[rows], found.possible.numpy())
        self.nodes[rows] = np.maximum(self.nodes[rows], found.nodes.numpy())
        self.update()

    def update(self) -> None:
        value = self.value()
        if not self.history or value < self.history[-1][1]:
            self.history.append((now() - self.began, value))
        report_progress(bound=self.objective(value))

    def value(self) -> float:
        """The bound on the sum of values, rounded up."""
        terms = np.concatenate([self.pi * self.blocks.capacities, self.profits(self.least)])
        return min(float(terms.sum() + 1e-12 * np.abs(terms).sum()), self.ceiling)

    def objective(self, value: float) -> float:
        """A sum of values in the sense of the model."""
        return float(self.milp.offset - self.milp.sign * value)

    @property
    def whole(self) -> bool:
        """Whether all values are whole numbers."""
        worths = np.append(self.blocks.worth, self.milp.offset)
        return all(self._classes(k) for k in self.graphs) and bool(
            (worths == np.round(worths)).all()
        )

    def bound(self) -> float:
        """The bound in the sense of the model, rounded where values are whole numbers."""
        value = self.value()
        return self.objective(float(np.floor(value + 1e-6)) if self.whole else value)

    @property
    def settled(self) -> bool:
        """Whether the bound meets the objective."""
        objective = self.incumbent.objective
        return objective is not None and self.milp.sign * (objective - self.bound()) <= 1e-9 * max(
            1, abs(objective)
        )

    def signed(self) -> Solution:
        """The solution with its certificate."""
        closed = np.ones(self.blocks.n, dtype=bool)
        closed[self.blocks.block[self.rows()]] = False
        nodes = np.bincount(self.blocks.block, self.nodes, self.blocks.n)
        names = np.where(nodes == 0, "evaluated", np.where(nodes == 1, "CROWN", "branching"))
        certificate = Certificate(
            bound=self.objective(self.value()),
            objective=self.incumbent.objective,
            prices=self.pi,
            profit_bound=self.profits(self.least),
            profit_known=self.profits(self.possible),
            closed=closed,
            method=tuple(np.where(closed, names, "open").tolist()),
            nodes=int(self.nodes.sum()),
            seconds=now() - self.began,
            history=tuple((when, self.objective(value)) for when, value in self.history),
        )
        return with_bound(self.solution, self.incumbent, self.bound(), certificate)

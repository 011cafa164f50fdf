"""State of the proof for a problem of blocks: what is proven and what is known for every row of the
table of `Blocks`, and the bound that follows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from numpy.typing import ArrayLike

from ..bounds import Graph
from ..clock import now
from ..errors import ProblemError
from ..model.blocks import Blocks
from ..model.incumbent import Incumbent
from ..model.progress import report_progress
from ..model.solution import Solution
from ..pricing.pricing_problem import MIN_LOGIT
from ..proofs.checking import cutoff
from .certificate import Certificate, with_bound
from .losses import Losses, losses_at, search_points
from .unit_search import LossBounds, SearchArguments

CLOSED_BLOCK_GAP = 1e-4
"""Difference of proven and known profit up to which a block is closed, relative to the largest
value of an output.
"""
SUM_ROUNDING = 1e-12
"""Rounding error of a sum, relative to the sum of the absolute values of its terms."""
INTEGER_TOLERANCE = 1e-6
"""Added to a bound before it is rounded down to an integer."""
SHIFTED_FRACTION = 0.4
"""Fraction of the inputs that a random start changes."""
MAX_SHIFT = 0.25
"""Largest change of an input by a random start, as a fraction of its range."""


@dataclass(frozen=True)
class SearchSettings:
    """Where and how the networks of blocks are bounded.

    Attributes
    ----------
    device
        Device of a search in this process.
    steps
        Gradient steps for the bound of a node.
    workers
        Number of processes; None for one on each CPU.
    client
        A `distributed.Client`, whose workers take the place of processes.
    """

    device: torch.device
    steps: int
    workers: int | None = None
    client: Any = None


@dataclass(eq=False)
class BoundState:
    """What is proven and known for every row of the table of `Blocks` at given prices.

    Parameters
    ----------
    incumbent
        Best verified point of the problem.
    solution
        The solution that is certified; options of its pool are known to be possible.
    blocks
        The blocks of the problem.
    prices
        Prices of the shared resources, not negative.
    graphs
        Network of each predictor that blocks use.
    settings
        Device and gradient steps of the searches.

    Attributes
    ----------
    max_profit
        For each row, the profit of an option without loss (see `losses`).
    loss_known, loss_bound
        For each row, the smallest loss that is known, and a proven lower bound of the loss.
    nodes
        For each row, how many nodes were evaluated.
    history
        Seconds and bound on the sum of values at every improvement.
    """

    incumbent: Incumbent
    solution: Solution
    blocks: Blocks
    prices: ndarray
    graphs: dict[int, Graph]
    settings: SearchSettings

    def __post_init__(self) -> None:
        blocks = self.blocks
        self.milp = self.incumbent.instance.milp
        self.losses: dict[int, Losses] = {}
        self.max_profit = np.zeros(len(blocks.block))
        self.loss_known = np.zeros_like(self.max_profit)
        self.loss_bound = np.zeros_like(self.max_profit)
        self.nodes = np.zeros_like(self.max_profit, dtype=int)
        max_value = np.zeros_like(self.max_profit)
        for number in self.graphs:
            max_value[self._rows_of(number)] = self._add_network(number)
        self.tolerance = CLOSED_BLOCK_GAP * float(blocks.worth.max())
        self.bound_without_prices = _rounded_up(self._best_per_block(max_value))
        self.history: list[tuple[float, float]] = []
        # options of the column pool are known to be possible
        pool = self.solution.details.get("pool")
        if pool is not None and getattr(pool, "blocks", None) is blocks:
            loss = self.max_profit[pool.at] - (pool.value - pool.use @ self.prices)
            np.minimum.at(self.loss_known, pool.at, np.maximum(loss, 0.0))
        self.update()

    def _add_network(self, number: int) -> ndarray:
        """Compute the losses of a predictor's rows; return the largest value of each row."""
        blocks = self.blocks
        graph = self.graphs[number]
        rows = self._rows_of(number)
        gives_class = self._gives_class(number)
        losses = losses_at(blocks, self.prices, rows, graph, gives_class)
        self.losses[number] = losses
        self.max_profit[rows] = losses.top.numpy()
        if gives_class:  # the largest loss possible is that of another class
            self.loss_known[rows] = (blocks.worth * blocks.gains(self.prices))[rows]
            return blocks.worth[rows]
        output = graph(losses.base)[:, 0]
        self.loss_known[rows] = losses.at(losses.base, output).numpy()
        return blocks.worth[rows] * losses.level.numpy()

    def _gives_class(self, number: int) -> bool:
        return self.incumbent.instance.predictors[number].gives_class

    def _rows_of(self, number: int) -> ndarray:
        return np.flatnonzero(self.blocks.predictor == number)

    def _best_per_block(self, values: ndarray) -> ndarray:
        """The largest value of each block's rows, at least 0 where blocks are optional."""
        best = np.full(self.blocks.n, -np.inf)
        np.maximum.at(best, self.blocks.block, values)
        return np.maximum(best, 0.0) if self.blocks.optional else best

    def profits(self, loss: ndarray) -> ndarray:
        """Return the profit of each block if its rows have these losses.

        Parameters
        ----------
        loss
            Loss of every row.

        Returns
        -------
        ndarray
            Upper bounds of the profits if the losses are lower bounds.
        """
        return self._best_per_block(self.max_profit - loss)

    def search_options(self, starts: int) -> None:
        """Search options of small loss by the NN block, from the base points and from random points
        near them.

        Parameters
        ----------
        starts
            Number of starting points, the first of which is the base point.
        """
        draw = np.random.default_rng(0)
        for number, losses in self.losses.items():
            rows = self._rows_of(number)
            graph = self.graphs[number]
            for start in range(starts):
                u = search_points(graph, losses, _starting_points(losses, draw, start > 0))
                found = losses.at(u, graph(u)[:, 0], MIN_LOGIT).numpy()
                self.loss_known[rows] = np.minimum(self.loss_known[rows], found)
        self.update()

    def unproven_rows(self) -> ndarray:
        """Return the rows whose proven loss is below their target."""
        return np.flatnonzero(self.loss_bound < self._target() - 1e-9)

    def _target(self) -> ndarray:
        """The loss to be proven of each row: the smallest one known, or the one that leaves its
        block no more profit than is known, up to the tolerance.
        """
        profit = self.profits(self.loss_known)[self.blocks.block]
        return np.minimum(self.loss_known, self.max_profit - profit) - self.tolerance

    def searches(self, rows: ndarray) -> list[tuple[ndarray, SearchArguments]]:
        """Return searches for some rows, one for each network.

        Parameters
        ----------
        rows
            Rows of the table.

        Returns
        -------
        list of tuple
            Rows of each search, and its arguments of `ReLUBranchAndBound`.
        """
        target = self._target() + self.tolerance
        device = self.settings.device
        searches = []
        for number, graph in self.graphs.items():
            mine = rows[self.blocks.predictor[rows] == number]
            if not len(mine):
                continue
            position = torch.from_numpy(np.searchsorted(self._rows_of(number), mine))
            goal = torch.from_numpy(target[mine]).to(device)
            losses = self.losses[number][position].to(device)
            arguments = graph.to(device), losses, goal, self.tolerance, self.settings.steps
            searches.append((mine, arguments))
        return searches

    def record_all(
        self, searches: Sequence[tuple[ndarray, Any]], found: Sequence[LossBounds]
    ) -> bool:
        """Record the progress of several searches, and return whether anything is left to prove.

        Parameters
        ----------
        searches
            Pairs, of which the first entry holds the rows of a search.
        found
            Progress of each search.
        """
        for (rows, _), progress in zip(searches, found, strict=True):
            self.record(rows, progress)
        return not self.gap_closed

    def record(self, rows: ndarray, found: LossBounds) -> None:
        """Record the progress of one search.

        Parameters
        ----------
        rows
            Rows of the search.
        found
            What it has proven and found for each of them.
        """
        self.loss_bound[rows] = np.maximum(self.loss_bound[rows], found.loss_bound.numpy())
        self.loss_known[rows] = np.minimum(self.loss_known[rows], found.loss_known.numpy())
        self.nodes[rows] = np.maximum(self.nodes[rows], found.nodes.numpy())
        self.update()

    def update(self) -> None:
        """Add the bound to the history if it has improved, and report it."""
        value = self.value()
        if not self.history or value < self.history[-1][1]:
            self.history.append((now() - self.incumbent.began, value))
        report_progress(bound=self.objective(value))

    def value(self) -> float:
        """Return the bound on the sum of values, rounded up."""
        profits = self.profits(self.loss_bound)
        terms = np.concatenate([self.prices * self.blocks.capacities, profits])
        return min(_rounded_up(terms), self.bound_without_prices)

    def objective(self, value: float) -> float:
        """Return a sum of values in the sense of the user's model."""
        return float(self.milp.offset - self.milp.sign * value)

    def bound(self) -> float:
        """Return the bound in the sense of the user's model, rounded where the objective is an
        integer.
        """
        value = self.value()
        values = np.append(self.blocks.worth, self.milp.offset)
        classes = all(self._gives_class(number) for number in self.graphs)
        if classes and (values == np.round(values)).all():
            value = float(np.floor(value + INTEGER_TOLERANCE))
        return self.objective(value)

    @property
    def gap_closed(self) -> bool:
        """Whether the bound is as close to the objective of the incumbent as the goal requires."""
        if self.incumbent.objective is None:
            return False
        return bool(self.milp.sign * self.bound() >= cutoff(self.incumbent))

    def certified_solution(self) -> Solution:
        """Return the solution with the bound and its certificate."""
        blocks = self.blocks
        closed = np.ones(blocks.n, dtype=bool)
        closed[blocks.block[self.unproven_rows()]] = False
        nodes = np.bincount(blocks.block, self.nodes, blocks.n)
        cases = [~closed, nodes == 0, nodes == 1]
        method = np.select(cases, ["open", "evaluated", "CROWN"], "branching")
        certificate = Certificate(
            bound=self.objective(self.value()),
            objective=self.incumbent.objective,
            prices=self.prices,
            profit_bound=self.profits(self.loss_bound),
            profit_known=self.profits(self.loss_known),
            closed=closed,
            method=tuple(method.tolist()),
            nodes=int(self.nodes.sum()),
            seconds=now() - self.incumbent.began,
            history=tuple((seconds, self.objective(value)) for seconds, value in self.history),
        )
        return with_bound(self.solution, self.incumbent, self.bound(), certificate)


def checked_prices(prices: ArrayLike, count: int, what: str) -> ndarray:
    """Return prices as a vector.

    Parameters
    ----------
    prices
        The prices.
    count, what
        How many there must be, and of what, for the message.

    Raises
    ------
    ProblemError
        If their number is wrong, or one is not finite.
    """
    values = np.asarray(prices, dtype=float).ravel()
    if values.size != count:
        raise ProblemError(f"{values.size} prices for {count} {what}: pass one for each.")
    if not np.isfinite(values).all():
        raise ProblemError("prices must be finite.")
    return values


def _starting_points(losses: Losses, draw: np.random.Generator, perturbed: bool) -> torch.Tensor:
    """Base points, or base points with some inputs changed at random, within their boxes."""
    shift = MAX_SHIFT * draw.uniform(-1, 1, losses.base.shape)
    changed = draw.random(losses.base.shape) < SHIFTED_FRACTION
    shift = np.where(changed & perturbed, shift, 0.0)
    u = losses.base + torch.from_numpy(shift) * (losses.upper - losses.lower)
    return u.clamp(losses.lower, losses.upper)


def _rounded_up(terms: ndarray) -> float:
    return float(terms.sum() + SUM_ROUNDING * np.abs(terms).sum())

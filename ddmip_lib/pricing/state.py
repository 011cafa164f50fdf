"""The state of column generation between two rounds, and the verification of a choice."""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy import ndarray

from ..clock import now
from ..errors import ProblemError
from ..methods.run import Run
from ..model.blocks import Blocks
from ..model.incumbent import Incumbent
from ..model.solution import History, Solution
from ..renamed import renamed_fields, renamed_keywords
from ..workers import Executor
from ..workers.cluster import SharedData
from .columns import ColumnPool
from .general_columns import GeneralColumns
from .master import MasterSolution

NEAR_OPTIMAL_TOLERANCE = 0.02
"""Reduced cost up to which a column is a candidate first, in units of the largest value."""
WIDE_TOLERANCE = 0.1
"""Reduced cost up to which a column is a candidate later, in units of the largest value."""
MAX_SELECTION_COLUMNS = 20_000
"""Number of columns that SCIP selects from."""
MAX_COLUMNS_OF_EXACT_CHOICE = 200
"""Size of a pool up to which all columns of a possibly better choice are candidates."""


@dataclass(frozen=True)
class Round:
    """One round of price coordination.

    Attributes
    ----------
    k
        Number of the round, from 1.
    lp_value
        Optimal value of the linear program over the pool, which is no bound on the problem.
    incumbent
        Objective of the best verified point.
    options
        Number of columns in the pool.
    new
        Number of columns found in this round whose reduced cost was positive.
    smoothing
        Weight of the earlier prices in those of the next round.
    seconds_nn, seconds_lp, seconds_mip
        Seconds for the networks, the linear program and the choice.
    seconds
        Seconds since the start of the run.
    prices
        Prices after the round.
    """

    k: int
    lp_value: float
    incumbent: float
    options: int
    new: int
    smoothing: float
    seconds_nn: float
    seconds_lp: float
    seconds_mip: float
    seconds: float
    prices: ndarray = field(repr=False, compare=False)


class Rounds(History):
    """The rounds of price coordination.

    Attributes
    ----------
    prices
        Prices after each round, one array for each.
    """

    columns = tuple(f.name for f in fields(Round) if f.compare)

    @property
    def prices(self) -> list[ndarray]:
        return [iteration.prices for iteration in self]

    def __repr__(self) -> str:
        if not len(self):
            return "Rounds: none"
        last = self[-1]
        return (
            f"Rounds: {len(self)}, incumbent {last.incumbent:.6g}, linear program"
            f" {last.lp_value:.6g}, {last.options} columns"
        )


Selection = tuple[float, int, str]
"""One selection by SCIP: the reduced cost up to which a column is a candidate, in units of the
largest value; the number of nodes, -1 for no limit; and the emphasis of `ColumnPool.select`.
"""


class ColumnGeneration:
    """What column generation shares for all kinds of blocks.

    Attributes
    ----------
    incumbent
        The best verified point.
    deadline
        End of the run, by the clock in force.
    pool
        The columns found so far.
    lp
        Solution of the linear program over the pool, None before the first.
    """

    incumbent: Incumbent
    deadline: float
    pool: ColumnPool | GeneralColumns
    lp: MasterSolution | None = None

    @property
    def seconds_left(self) -> float:
        return self.deadline - now()

    def objective(self, value: float) -> float:
        """Return the objective of the model for a sum of values."""
        s = self.incumbent.instance.milp
        return s.offset - s.sign * value

    def details(self) -> dict[str, Any]:
        """Return the details of a solution."""
        found: dict[str, Any] = {"options": len(self.pool)}
        if self.lp is not None and self.lp.phase_factor:
            found |= {"lp_value": self.objective(self.lp.value), "prices": self.lp.prices}
        return found

    def solution(self, run: Run, status: str) -> Solution:
        """Return the solution of a run with this state."""
        run.details |= self.details()
        if status == "stopped":
            run.details["interrupted"] = True
        elif status != "time_limit" and self.incumbent.values is None:
            status = "no_solution_found"
        return run.solution(status)


@renamed_fields(seen="next_prices")
@dataclass
class CoordinationState(ColumnGeneration):
    """The state of price coordination between two rounds.

    Attributes
    ----------
    blocks
        The blocks of the problem.
    incumbent
        The best verified point.
    pool
        The columns found so far.
    next_prices
        Prices for the next round.
    rng
        Generator of random numbers.
    deadline
        End of the run, by the clock in force.
    executor
        Executor that evaluates the networks.
    shards
        Parts of the table of `Blocks`, kept by the executor from the first round on.
    lp
        Solution of the linear program over the pool.
    chosen
        Numbers of the columns of the best choice.
    rounds
        History of the run.
    idle
        Number of rounds in a row that found no column of positive reduced cost.
    """

    blocks: Blocks
    incumbent: Incumbent
    pool: ColumnPool
    next_prices: ndarray
    rng: np.random.Generator
    deadline: float
    executor: Executor = field(default_factory=Executor)
    shards: list[SharedData] = field(default_factory=list)
    lp: MasterSolution | None = None
    chosen: ndarray | None = None
    rounds: Rounds = field(default_factory=Rounds)
    idle: int = 0

    @classmethod
    @renamed_keywords(crew="executor")
    def empty(
        cls,
        blocks: Blocks,
        incumbent: Incumbent,
        deadline: float,
        seed: int,
        executor: Executor | None = None,
    ) -> "CoordinationState":
        """Return the state before the first round.

        At its prices all capacities together cost half of what all blocks could earn.
        """
        size = np.maximum(np.abs(blocks.capacities), 1e-9)
        prices = 0.5 * blocks.n * float(blocks.worth.max()) / (len(size) * size)
        draw = np.random.default_rng(seed)
        pool = ColumnPool(blocks)
        return cls(blocks, incumbent, pool, prices, draw, deadline, executor or Executor())

    @property
    def scale(self) -> float:
        """The largest value of a column."""
        return max(float(np.abs(self.pool.value).max(initial=0.0)), 1e-9)

    @property
    def settled(self) -> bool:
        """Whether no choice of columns can be better, since the linear program is no better."""
        best = self.incumbent.objective
        if self.lp is None:
            return True
        if best is None or not self.lp.phase_factor:
            return False
        improvement = self.incumbent.instance.milp.sign * (best - self.objective(self.lp.value))
        classes = [predictor.gives_class for predictor in self.incumbent.instance.predictors]
        worth = self.blocks.worth
        if (np.array(classes)[self.blocks.predictor] & (worth == np.round(worth))).all():
            return bool(improvement < 1 - 1e-6)  # all values are integers
        return bool(improvement <= 1e-9 * max(1.0, abs(best)))

    def scarcity(self) -> ndarray:
        """Return the mean of the linear program's prices and of prices of used-up resources."""
        assert self.lp is not None
        size = np.maximum(np.abs(self.blocks.capacities), 1e-9)
        used = 0.0
        if self.chosen is not None:
            used = self.pool.use[self.chosen].sum(axis=0)
        scarce = 1.0 / (np.maximum(self.blocks.capacities - used, 0.0) + 0.05 * size)
        return 0.5 * (self.lp.prices + scarce * (self.lp.prices @ size) / (scarce @ size))

    def jittered(self) -> ndarray:
        """Return the linear program's prices times random factors."""
        assert self.lp is not None
        return self.lp.prices * np.exp(0.3 * self.rng.standard_normal(len(self.lp.prices)))

    def offer(self, chosen: ndarray | None) -> None:
        """Complete and verify a choice if it would improve the incumbent.

        Parameters
        ----------
        chosen
            Numbers of its columns, None for no choice.

        Raises
        ------
        ProblemError
            If the model has no point with the objective that the blocks predict.
        """
        incumbent = self.incumbent
        if chosen is None:
            return
        predicted = self.objective(float(self.pool.value[chosen].sum()))
        if not incumbent.better(predicted):
            return
        seconds = max(1.0, self.seconds_left)
        completed = incumbent.completer.complete(self._inputs(chosen), seconds)
        if completed is None and self.seconds_left <= 0:
            return
        attained = "no feasible point"
        if completed is not None:
            check = incumbent.consider(completed)
            loss = incumbent.instance.milp.sign * (check.objective - predicted)
            if check.feasible and not loss > 1e-5 * max(1.0, abs(predicted)):
                self.chosen = chosen
                return
            if check.feasible:
                attained = f"{check.objective:.6g}"
        raise ProblemError(
            f"the blocks do not describe the model: a choice of value {predicted:.6g} has"
            f" {attained} in the model. Compare values, use and capacities of problem.blocks with"
            " the constraints of the model."
        )

    def choose(self, gap: float, nodes: int, seed: int = 0, thorough: bool = False) -> None:
        """Select the best columns by SCIP.

        First among columns of nearly zero reduced cost with an emphasis on feasible points, then
        among more of them without cuts and with ten times as many nodes. Among all columns if there
        is no choice yet, if the pool is small, or if all boxes are single points.

        Parameters
        ----------
        gap, nodes
            Relative gap and number of nodes at which SCIP stops.
        seed
            Seed of SCIP.
        thorough
            Whether the first two selections are replaced by one with SCIP's default emphasis.
        """
        lp = self.lp
        if lp is None or not lp.phase_factor:
            return
        reduced = self.pool.reduced(lp)
        for tolerance, node_limit, emphasis in self._selections(lp, nodes, thorough):
            if self.seconds_left <= 0:
                return
            among = self._candidates(reduced, tolerance)
            limits = gap, node_limit, self.seconds_left
            self.offer(self.pool.select(among, self.chosen, *limits, seed, emphasis))

    def _selections(self, lp: MasterSolution, nodes: int, thorough: bool) -> Iterator[Selection]:
        """Yield one selection after the other, the last of them for the choice known by then."""
        finite = not (self.blocks.lower < self.blocks.upper).any()
        if not finite and thorough:
            yield 0.5 * WIDE_TOLERANCE, 3 * nodes, "default"
        elif not finite:
            yield NEAR_OPTIMAL_TOLERANCE, nodes, "feasibility"
            yield WIDE_TOLERANCE, 10 * nodes, "no cuts"
        if finite or self.chosen is None:
            yield np.inf, -1, "default"
            return
        # no column of a better choice has a larger reduced cost than this choice in total
        loss = lp.value - float(self.pool.value[self.chosen].sum())
        tolerance = loss / self.scale + 1e-9
        if tolerance > WIDE_TOLERANCE and len(self.pool) <= MAX_COLUMNS_OF_EXACT_CHOICE:
            yield tolerance, 10 * nodes, "default"

    def _candidates(self, reduced: ndarray, tolerance: float) -> ndarray:
        """Return columns of nearly zero reduced cost, and those of the choice in their blocks."""
        among = np.flatnonzero(reduced > -tolerance * self.scale)
        if self.chosen is None:
            return among
        best = np.argsort(-reduced[among], kind="stable")[:MAX_SELECTION_COLUMNS]
        among = among[best]
        block = self.pool.block
        return np.union1d(among, self.chosen[np.isin(block[self.chosen], block[among])])

    def _inputs(self, chosen: ndarray) -> list[ndarray]:
        """Return the networks' inputs; blocks without a chosen column are at base points."""
        blocks = self.blocks
        instance = self.incumbent.instance
        values = instance.milp.lower.copy()
        every = np.arange(len(blocks.block))[::-1]  # base points of first modes are set last
        base = every, blocks.base[every]
        for rows, points in (base, (self.pool.at[chosen], self.pool.u[chosen])):
            for number, mapping in enumerate(instance.maps):
                own = blocks.predictor[rows] == number
                index = mapping.index[blocks.row[rows[own]]]
                variable = index >= 0
                values[index[variable]] = points[own][variable]
        return instance.inputs(values)

    def details(self) -> dict[str, Any]:
        """Return the details of a solution, with the pool if the linear program is feasible."""
        found = super().details()
        return found | {"pool": self.pool} if "prices" in found else found

    def solution(self, run: Run, status: str) -> Solution:
        """Return the solution of a run with this state."""
        run.history = self.rounds
        return super().solution(run, status)

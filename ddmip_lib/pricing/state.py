"""The state of price coordination between two rounds, and how a choice becomes a verified point of
the model.
"""

from dataclasses import dataclass, field, fields

import numpy as np

from ..clock import now
from ..errors import ProblemError
from ..model.blocks import Blocks
from ..model.incumbent import Incumbent
from ..model.solution import History
from ..model.workers import Executor, RemotePiece
from .columns import ColumnPool, MasterSolution

WORTH = 0.02
ALMOST = 0.1
"""By how much, in units of the largest value, an option may miss its price and be chosen: first
little, then more.
"""

MOST = 20_000  # options that SCIP chooses among
SMALL = (
    200  # options of a pool from which SCIP chooses among all that could be part of a better choice
)


@dataclass(frozen=True)
class Round:
    """One round of price coordination."""

    k: int
    # : Optimum of the linear program over the pool. It is not a bound: the pool may lack options.
    lp_value: float
    incumbent: float
    options: int  #: Options in the pool.
    new: int  #: Options of this round whose reduced profit was positive.
    smoothing: float  #: Weight of the earlier prices in those that the networks see next.
    seconds_nn: float
    seconds_lp: float
    seconds_mip: float
    seconds: float  #: Seconds since `solve` was called.


class Rounds(History):
    """The rounds of price coordination: a `History` whose `prices` hold one array for each."""

    columns = tuple(f.name for f in fields(Round))

    def __init__(self) -> None:
        super().__init__()
        self.prices: list[np.ndarray] = []

    def __repr__(self) -> str:
        if not len(self):
            return "Rounds: none"
        k = len(self)
        last = self[-1]
        return (
            f"Rounds: {k}, incumbent {last.incumbent:.6g}, linear program {last.lp_value:.6g},"
            f" {last.options} options"
        )


@dataclass
class CoordinationState:
    """The state of price coordination between two rounds."""

    blocks: Blocks
    incumbent: Incumbent
    pool: ColumnPool
    seen: np.ndarray  #: The prices that the networks see.
    draw: np.random.Generator
    deadline: float
    crew: Executor = field(default_factory=Executor)  #: Who asks the networks.
    shards: list[RemotePiece] = field(
        default_factory=list
    )  #: Parts of the table, kept by the crew from the first round on.
    lp: MasterSolution | None = None
    chosen: np.ndarray | None = None  #: The best choice so far: numbers of options in the pool.
    rounds: Rounds = field(default_factory=Rounds)
    idle: int = 0  #: Rounds in a row that found no option of positive reduced profit.

    @classmethod
    def empty(
        cls,
        blocks: Blocks,
        incumbent: Incumbent,
        deadline: float,
        seed: int,
        crew: Executor | None = None,
    ) -> "CoordinationState":
        """Before the first round: no option; prices at which all capacities cost half of what all
        blocks could earn.
        """
        size = np.maximum(np.abs(blocks.capacities), 1e-9)
        first = 0.5 * blocks.n * float(blocks.worth.max()) / (len(size) * size)
        return cls(
            blocks,
            incumbent,
            ColumnPool(blocks),
            first,
            np.random.default_rng(seed),
            deadline,
            crew or Executor(),
        )

    @property
    def seconds_left(self) -> float:
        return self.deadline - now()

    @property
    def scale(self) -> float:
        """The largest value of an option."""
        return max(float(np.abs(self.pool.value).max(initial=0.0)), 1e-9)

    @property
    def counts(self) -> float:
        """What a unit of value counts for at the prices seen: nothing as long as the pool lacks
        resources.
        """
        return 1.0 if self.lp is None else self.lp.counts

    def objective(self, value: float) -> float:
        """A sum of values in the sense of the model."""
        s = self.incumbent.instance.milp
        return s.offset - s.sign * value

    @property
    def settled(self) -> bool:
        """Whether no choice among the options can be better, by the linear program."""
        s = self.incumbent.instance.milp
        best = self.incumbent.objective
        if self.lp is None or best is None or not self.lp.counts:
            return self.lp is None
        classes = all(
            self.incumbent.instance.predictors[k].gives_class for k in self.blocks.predictor
        )
        whole = classes and bool((self.blocks.worth == np.round(self.blocks.worth)).all())
        ahead = s.sign * (best - self.objective(self.lp.value))
        return bool(ahead < 1 - 1e-6 if whole else ahead <= 1e-9 * max(1.0, abs(best)))

    def scarcity(self) -> np.ndarray:
        """Prices half of which are the linear program's, and half high where the choice has left
        nothing over.
        """
        assert self.lp is not None
        size = np.maximum(np.abs(self.blocks.capacities), 1e-9)
        spent = 0.0
        if self.chosen is not None:
            spent = self.pool.use[self.chosen].sum(axis=0)
        scarce = 1.0 / (np.maximum(self.blocks.capacities - spent, 0.0) + 0.05 * size)
        return 0.5 * (self.lp.prices + scarce * (self.lp.prices @ size) / (scarce @ size))

    def jittered(self) -> np.ndarray:
        """The linear program's prices, each a little higher or lower at random."""
        assert self.lp is not None
        return self.lp.prices * np.exp(0.3 * self.draw.standard_normal(len(self.lp.prices)))

    def offer(self, chosen: np.ndarray | None) -> None:
        """Let a choice that the blocks call better compete, completed and verified on the model."""
        s = self.incumbent.instance.milp
        incumbent = self.incumbent
        if chosen is None:
            return
        promised = self.objective(float(self.pool.value[chosen].sum()))
        if not incumbent.better(promised):
            return
        inputs = self._inputs(chosen)
        completed = incumbent.completer.complete(inputs, max(1.0, self.seconds_left))
        check = None if completed is None else incumbent.consider(completed)
        if check is None and self.seconds_left <= 0:
            return
        reached = check is not None and check.feasible
        if (
            check is None
            or not reached
            or s.sign * (check.objective - promised) > 1e-5 * max(1.0, abs(promised))
        ):
            said = (
                f"{check.objective:.6g}" if check is not None and reached else "no feasible point"
            )
            raise ProblemError(
                f"the blocks do not describe the model: a choice worth {promised:.6g} gives {said}"
                " there. Compare values, use and capacities of problem.blocks with the model's"
                " rows."
            )
        self.chosen = chosen

    def choose(self, gap: float, nodes: int, seed: int = 0, thorough: bool = False) -> None:
        """Let SCIP choose: among the few options that are worth their price, with all its
        heuristics; then among more of them, without cuts and with ten times as many nodes; or, if
        `thorough`, as it would do by itself. Among all as long as there is no choice, or where the
        pool holds every option that there is.
        """
        finite = not (self.blocks.lower < self.blocks.upper).any()
        few = (WORTH, nodes, "feasibility")
        more = (ALMOST, 10 * nodes, "no cuts")
        every = (np.inf, -1, "default")
        itself = (0.5 * ALMOST, 3 * nodes, "default")
        for short, limit, emphasis in (
            (every,) if finite else (itself, every) if thorough else (few, more, every)
        ):
            if self.lp is None or not self.lp.counts or self.seconds_left <= 0:
                return
            if not finite and short == np.inf and self.chosen is not None:
                # a better choice holds no option that misses its price by more than what the choice
                # misses
                short = (
                    self.lp.value - float(self.pool.value[self.chosen].sum())
                ) / self.scale + 1e-9
                if short <= ALMOST or len(self.pool) > SMALL:
                    return
                limit = 10 * nodes
            reduced = self.pool.reduced(self.lp)
            among = np.flatnonzero(reduced > -short * self.scale)
            if self.chosen is not None:
                if (
                    len(among) > MOST
                ):  # the nearest to their price; blocks without one stay as they are
                    among = np.sort(among[np.argsort(-reduced[among], kind="stable")[:MOST]])
                among = np.union1d(
                    among,
                    self.chosen[np.isin(self.pool.block[self.chosen], self.pool.block[among])],
                )
            self.offer(
                self.pool.select(among, self.chosen, gap, limit, self.seconds_left, seed, emphasis)
            )

    def _inputs(self, chosen: np.ndarray) -> list[np.ndarray]:
        """The networks' inputs under a choice; what no block has chosen stays at base points, those
        of first modes.
        """
        instance = self.incumbent.instance
        blocks = self.blocks
        values = instance.milp.lower.copy()
        for rows, points in (
            (np.arange(len(blocks.block))[::-1], blocks.base[::-1]),
            (self.pool.at[chosen], self.pool.u[chosen]),
        ):
            for number in np.unique(
                blocks.predictor[rows]
            ):  # of equal places the last one written stays
                mine = blocks.predictor[rows] == number
                where = instance.maps[number].index[blocks.row[rows[mine]]]
                values[where[where >= 0]] = points[mine][where >= 0]
        return instance.inputs(values)

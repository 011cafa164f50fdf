"""The state of price coordination between two rounds, and how a choice becomes a verified point of the model."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from ..errors import ProblemError
from ..incumbent import Incumbent
from ..problem import NeuralMIP
from ..solution import History
from .blocks import Blocks
from .pool import Pool, Prices

ALMOST = (0.02, 0.05, 0.2)
"""By how much, in units of the largest value, an option may miss its price and be chosen: first little, then more."""


@dataclass(frozen=True)
class Round:
    """One round of price coordination."""

    k: int
    lp_value: float
    """Optimum of the linear program over the pool. It is not a bound: the pool may lack options."""
    incumbent: float
    options: int
    """Options in the pool."""
    new: int
    """Options of this round whose reduced profit was positive."""
    smoothing: float
    """Weight of the earlier prices in those that the networks see next."""
    seconds_nn: float
    seconds_lp: float
    seconds_mip: float
    seconds: float
    """Seconds since `solve` was called."""


class Rounds(History):
    """The rounds of price coordination: a `History` whose `prices` hold one array for each."""

    columns = tuple(f.name for f in fields(Round))

    def __init__(self) -> None:
        super().__init__()
        self.prices: list[np.ndarray] = []

    def __repr__(self) -> str:
        if not len(self):
            return "Rounds: none"
        last = self[-1]
        linear = f"linear program {last.lp_value:.6g}, {last.options} options"
        return f"Rounds: {len(self)}, incumbent {last.incumbent:.6g}, {linear}"


@dataclass
class Market:
    """The state of price coordination between two rounds."""

    blocks: Blocks
    incumbent: Incumbent
    pool: Pool
    seen: np.ndarray
    """The prices that the networks see."""
    draw: np.random.Generator
    deadline: float
    networks: dict[tuple[int, int], Any] = field(default_factory=dict)
    lp: Prices | None = None
    chosen: np.ndarray | None = None
    """The best choice so far: numbers of options in the pool."""
    rounds: Rounds = field(default_factory=Rounds)
    idle: int = 0
    """Rounds in a row that found no option of positive reduced profit."""

    @classmethod
    def empty(cls, blocks: Blocks, incumbent: Incumbent, deadline: float, seed: int) -> Market:
        """Before the first round: no option, and prices at which all capacities together cost half of what all blocks
        could earn."""
        size = np.maximum(np.abs(blocks.capacities), 1e-9)
        first = 0.5 * blocks.n * float(blocks.worth.max()) / (len(size) * size)
        return cls(blocks, incumbent, Pool(blocks), first, np.random.default_rng(seed), deadline)

    @property
    def seconds_left(self) -> float:
        return self.deadline - time.perf_counter()

    @property
    def scale(self) -> float:
        """The largest value of an option."""
        return max(float(np.abs(self.pool.value).max(initial=0.0)), 1e-9)

    @property
    def counts(self) -> float:
        """What a unit of value counts for at the prices seen: nothing as long as the pool lacks resources."""
        return 1.0 if self.lp is None else self.lp.counts

    def objective(self, value: float) -> float:
        """A sum of values in the sense of the model."""
        s = self.incumbent.compiled.snapshot
        return s.offset - s.sign * value

    def offer(self, chosen: np.ndarray | None) -> None:
        """Let a choice that the blocks call better compete, completed and verified on the model."""
        s, incumbent = self.incumbent.compiled.snapshot, self.incumbent
        if chosen is None:
            return
        promised = self.objective(float(self.pool.value[chosen].sum()))
        if not s.better(promised, incumbent.objective):
            return
        inputs = self._inputs(chosen)
        completed = incumbent.compiled.complete(inputs, max(1.0, self.seconds_left))
        check = None if completed is None else incumbent.consider(completed)
        if check is None and self.seconds_left <= 0:
            return
        reached = check is not None and check.feasible
        if check is None or not reached or s.sign * (check.objective - promised) > 1e-5 * max(1.0, abs(promised)):
            said = f"{check.objective:.6g}" if check is not None and reached else "no feasible point"
            raise ProblemError(
                f"the blocks do not describe the model: a choice worth {promised:.6g} gives {said} there. Compare "
                "values, use and capacities of problem.blocks with the model's rows."
            )
        self.chosen = chosen

    def choose(self, gap: float, nodes: int, seed: int = 0) -> None:
        """Let SCIP choose among the options that are almost worth their price, then among more of them, and among all
        as long as there is no choice."""
        finite = not (self.blocks.lower < self.blocks.upper).any()  # the pool holds every option: choose exactly
        for short in (np.inf,) if finite else (*ALMOST, np.inf):
            if self.lp is None or not self.lp.counts or self.seconds_left <= 0:
                return
            if short == np.inf and not finite and self.chosen is not None:
                return
            among = np.flatnonzero(self.pool.reduced(self.lp) > -short * self.scale)
            if self.chosen is not None:
                among = np.union1d(among, self.chosen)
            choice = self.pool.select(among, self.chosen, gap, -1 if finite else nodes, self.seconds_left, seed)
            if choice is not None:
                self.offer(choice)

    def _inputs(self, chosen: np.ndarray) -> list[np.ndarray]:
        """The networks' inputs under a choice; what no block has chosen stays at base points, those of first modes."""
        compiled, blocks = self.incumbent.compiled, self.blocks
        values = compiled.snapshot.lower.copy()
        rows = np.concatenate([np.arange(len(blocks.block))[::-1], self.pool.at[chosen]])
        for at, u in zip(rows, np.concatenate([blocks.base[::-1], self.pool.u[chosen]]), strict=True):
            where = compiled.maps[blocks.predictor[at]].index[blocks.row[at]]
            values[where[where >= 0]] = u[where >= 0]
        return compiled.inputs(values)


def blocks_of(problem: NeuralMIP, what: str) -> Blocks:
    """The problem's blocks, or an error that says what `what` needs."""
    if problem.blocks is None:
        raise ProblemError(
            f"{what} needs to know the problem's blocks: describe values, use and capacities with "
            "problem.set_blocks(Blocks(...)), or use DualDecomposition."
        )
    return problem.blocks

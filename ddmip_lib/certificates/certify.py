r"""A certificate for a problem of blocks: how much better than a solution anything can be.

For all prices $\pi \ge 0$ weak duality bounds the sum of values by

$$\pi^\top R + \sum_i \beta_i(\pi), \qquad \beta_i(\pi) \ge \max_{t, u} \; v_t(u) - \pi^\top r_t(u)
\quad(\text{and} \ge 0 \text{ where blocks are optional}).$$

Each $\beta_i$ is bounded from above by branch and bound on the units of its networks (`unit_search`). The bounds hold
at any time, so the sum does.

Numbers: every bound of a network is pushed outward by what floating point can have changed (`bounds.rounding`); a
class counts from $f(u) > 0$ on, not from a margin; linear programs only propose multipliers; and the sum is rounded up.
The bound is one for points that keep the capacities exactly: `verify` forgives a violation of 1e-6, so an objective
may exceed the bound by the price of that.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from ..bounds import Graph, network_graph
from ..compiled import Compiled
from ..errors import ProblemError
from ..placement import check_place
from ..pricing.blocks import Blocks
from ..pricing.coordination import PriceCoordination
from ..pricing.oracle import MARGIN, follow, pull_back
from ..problem import NeuralMIP, check_call
from ..solution import Solution
from .lagrangian import CROSSED, lagrangian_bound
from .losses import Losses, losses_at
from .process import work, work_in_processes
from .unit_search import Progress, UnitSearch

CLOSED = 1e-4
"""A block is closed when its bound is so near to what is known to be possible, in units of the largest worth."""
PRICING = 0.25
"""Share of the time for finding prices, where none are given."""
ALONE = 2.0
"""Seconds before other processes are started: many certificates are complete by then."""
STARTS = 4


@dataclass(frozen=True, eq=False)
class Certificate:
    """What `certify` proved about a problem of blocks; arrays have one entry for each block."""

    bound: float
    """In the sense of the user's model, not rounded to whole numbers."""
    objective: float | None
    prices: np.ndarray
    profit_bound: np.ndarray
    """No option of the block earns more at these prices."""
    profit_known: np.ndarray
    """What an option that was found earns."""
    closed: np.ndarray
    """Whether the two are equal, up to 1e-4 of the largest worth."""
    method: tuple[str, ...]
    """How the block was bounded: "evaluated", "CROWN" (on one ball), "branching", or "open" (search unfinished)."""
    nodes: int
    seconds: float
    history: tuple[tuple[float, float], ...] = field(repr=False, default=())
    """Seconds and bound, whenever it improved."""

    def __repr__(self) -> str:
        counts = [(name, self.method.count(name)) for name in ("evaluated", "CROWN", "branching", "open")]
        said = ", ".join(f"{count} {name}" for name, count in counts if count)
        objective = "none" if self.objective is None else f"{self.objective:.6g}"
        return "\n".join(
            [
                f"Certificate: {int(self.closed.sum())} of {len(self.closed)} blocks closed",
                f"  bound       {self.bound:.6g}",
                f"  objective   {objective}",
                f"  blocks      {said}",
                f"  nodes       {self.nodes}",
                f"  seconds     {self.seconds:.2f}",
            ]
        )


def certify(
    problem: NeuralMIP,
    solution: Solution,
    prices: Any = None,
    time_limit: float = 60.0,
    workers: int | None = None,
    device: torch.device | str = "cpu",
    seed: int = 0,
    progress: bool = False,
) -> Solution:
    """The same solution with a proven `bound`, and the `Certificate` in ``details["certificate"]``.

    `prices` of the shared resources: any that are not negative give a bound; by default those of the solution, or
    where it has none, those that `PriceCoordination` finds in a quarter of the time. `workers` processes share the
    blocks (default: one for each CPU); on a GPU (`device`) there is one. Stop it whenever you like (Ctrl-C): the bound
    reached by then is returned. Where all values are whole numbers, `Solution.bound` is rounded to the next one; a
    bound that meets the objective makes the status "optimal". Problems without blocks get `lagrangian_bound`.

    >>> from ddmip_lib import PriceCoordination
    >>> from ddmip_lib.predictors import mlp
    >>> from ddmip_lib.problems import water_potability
    >>> problem = water_potability(n=3, net=mlp(2, 16, 9, seed=1))
    >>> solution = certify(problem, PriceCoordination().solve(problem))
    >>> solution.objective <= solution.bound <= 3.0, len(solution.details["certificate"].closed)
    (True, 3)
    """
    began = time.perf_counter()
    check_call(problem, time_limit, seed)
    if not isinstance(solution, Solution):
        raise TypeError(f"certify needs a Solution, not {type(solution).__name__}: pass what solve() returned.")
    if workers is not None and (int(workers) != workers or workers < 1):
        raise ValueError(f"workers={workers} must be a positive integer: processes that share the blocks.")
    place = check_place(device, torch.float64)
    if solution.found and not problem.verify(solution).feasible:
        raise ProblemError("the solution is not feasible for this problem: pass the problem that was solved.")
    if problem.blocks is None:
        if prices is not None:
            raise ProblemError("prices belong to blocks, which this problem does not have: leave them out.")
        found = lagrangian_bound(problem, solution, time_limit, seed, progress)
        return _with_bound(solution, found.bound, found, Compiled(problem.model, problem.predictors).snapshot.sign)
    blocks = problem.blocks
    graphs = {int(k): network_graph(problem.predictors[k].net, blocks.base.shape[1]) for k in set(blocks.predictor)}
    for k, graph in graphs.items():
        if problem.predictors[k].kind == "classification":
            graphs[k] = graph.before_relu()
    if prices is None and time_limit <= 0:
        prices = np.zeros_like(blocks.capacities)
    if prices is None and "prices" not in solution.details:
        priced = PriceCoordination().solve(problem, max(1.0, PRICING * min(time_limit, 1e6)), seed)
        if "prices" not in priced.details:
            raise ProblemError("no prices were found in time: pass some (any that are not negative), or more time.")
        solution = replace(solution, details={**solution.details, "prices": priced.details["prices"]})
    pi = _checked(prices if prices is not None else solution.details["prices"], blocks)
    account = _Account(problem, solution, blocks, pi, graphs, place, began)
    with tqdm(disable=not progress, desc="certify", bar_format="{desc} {elapsed}{postfix}") as bar:
        account.bar = bar
        try:
            _search(account, began + time_limit, workers)
        except KeyboardInterrupt:
            bar.set_description("certify: stopped")
    return account.signed()


def _checked(prices: Any, blocks: Blocks) -> np.ndarray:
    pi = np.asarray(prices, dtype=float).ravel()
    if pi.shape != blocks.capacities.shape:
        raise ProblemError(f"{pi.size} prices for {len(blocks.capacities)} resources: pass one for each.")
    if not np.isfinite(pi).all() or (pi < -1e-9).any():
        raise ProblemError("prices must be finite and not negative: others prove nothing.")
    return np.maximum(pi, 0.0)


def _search(account: _Account, deadline: float, workers: int | None) -> None:
    """First here, then in processes: many problems are done before another process has started."""
    if time.perf_counter() >= deadline:
        return
    account.look(STARTS)
    count = workers or _cpus()
    alone = count == 1 or account.device.type != "cpu"
    mine = account.group(account.rows())
    limit = deadline if alone else min(deadline, time.perf_counter() + ALONE)
    work([UnitSearch(*arguments) for arguments in mine.searches], limit, mine.report)
    open_rows = account.rows()
    if alone or not len(open_rows) or account.settled:
        return
    order = open_rows[np.argsort(-account.possible[open_rows], kind="stable")]
    groups = [account.group(order[k::count]) for k in range(min(count, len(order)))]
    work_in_processes([g.searches for g in groups], deadline, lambda number, found: groups[number].report(found))


def _cpus() -> int:
    """How many CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass
class _Group:
    """Searches that work together, and the rows of the table that each of them has."""

    searches: list[tuple[Any, ...]]
    rows: list[np.ndarray]
    take: Callable[[np.ndarray, Progress], None]
    enough: Callable[[], bool]

    def report(self, found: Sequence[Progress]) -> bool:
        for rows, progress in zip(self.rows, found, strict=True):
            self.take(rows, progress)
        return not self.enough()


class _Account:
    """What is proven and what is known for every row of the table, and the bound that follows."""

    def __init__(
        self, problem: NeuralMIP, solution: Solution, blocks: Blocks, pi: np.ndarray, graphs: dict[int, Graph],
        device: torch.device, began: float,
    ) -> None:  # fmt: skip
        self.solution, self.blocks, self.pi, self.graphs = solution, blocks, pi, graphs
        self.device, self.began = device, began
        self.bar: Any = None
        self.snapshot = Compiled(problem.model, problem.predictors).snapshot
        self.kinds = [predictor.kind for predictor in problem.predictors]
        size = len(blocks.block)
        self.losses: dict[int, Losses] = {}
        self.top, self.possible, self.least, most = (np.zeros(size) for _ in range(4))
        self.nodes = np.zeros(size, dtype=int)
        for number in graphs:
            rows = self._of(number)
            found = self.losses[number] = losses_at(blocks, pi, rows, graphs[number], self._classes(number))
            self.top[rows] = found.top.numpy()
            most[rows] = blocks.worth[rows] * (1.0 if self._classes(number) else found.level.numpy())
            # at worst a class is missed, or an output is that of the base point
            missed = (blocks.worth * blocks.gains(pi))[rows]
            if not self._classes(number):
                missed = found.at(found.base, graphs[number](found.base)[:, 0]).numpy()
            self.possible[rows] = missed
        self.tolerance = CLOSED * float(blocks.worth.max())
        free = self._per_block(most)
        free = np.maximum(free, 0.0) if blocks.optional else free
        self.ceiling = float(free.sum() + 1e-12 * np.abs(free).sum())
        """The bound for prices of zero."""
        self.history: list[tuple[float, float]] = []
        self._know(solution)
        self.update()

    def _classes(self, number: int) -> bool:
        return self.kinds[number] == "classification"

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
        """Let the NN block look for good options at these prices, from the base points and from random ones."""
        draw = np.random.default_rng(0)
        for number, losses in self.losses.items():
            rows, graph = self._of(number), self.graphs[number]
            task = losses.task()
            for k in range(starts):
                shift = 0.25 * draw.uniform(-1, 1, losses.base.shape) * (draw.random(losses.base.shape) < 0.4) * (k > 0)
                u = losses.base + torch.from_numpy(shift) * (losses.upper - losses.lower)
                u, _ = follow(graph, task, torch.minimum(torch.maximum(u, losses.lower), losses.upper))
                if self._classes(number):
                    u = pull_back(graph, task, u)
                found = losses.at(u, graph(u)[:, 0], MARGIN).numpy()
                self.possible[rows] = np.minimum(self.possible[rows], found)
        self.update()

    def rows(self) -> np.ndarray:
        """Rows on which there is something left to prove."""
        return np.flatnonzero(self.least < self._target() - 1e-9)

    def _target(self) -> np.ndarray:
        """A row need not lose more than what leaves its block no profit beyond the one that is known."""
        return np.minimum(self.possible, self.top - self.profits(self.possible)[self.blocks.block]) - self.tolerance

    def group(self, rows: np.ndarray) -> _Group:
        """Searches for some rows of the table, one for each network."""
        target = self._target() + self.tolerance
        group = _Group([], [], self.take, lambda: self.settled)
        for number in self.graphs:
            mine = rows[self.blocks.predictor[rows] == number]
            if len(mine):
                at = torch.from_numpy(np.searchsorted(self._of(number), mine))
                goal = torch.from_numpy(target[mine]).to(self.device)
                losses = self.losses[number][at].to(self.device)
                group.searches.append((self.graphs[number].to(self.device), losses, goal, self.tolerance))
                group.rows.append(mine)
        return group

    def take(self, rows: np.ndarray, found: Progress) -> None:
        """Take over what a search has proven and found."""
        self.least[rows] = np.maximum(self.least[rows], found.least.numpy())
        self.possible[rows] = np.minimum(self.possible[rows], found.possible.numpy())
        self.nodes[rows] = np.maximum(self.nodes[rows], found.nodes.numpy())
        self.update()

    def update(self) -> None:
        value = self.value()
        if not self.history or value < self.history[-1][1]:
            self.history.append((time.perf_counter() - self.began, value))
        if self.bar is not None:
            self.bar.set_postfix(bound=f"{self.objective(value):.6g}", open=len(self.rows()))

    def value(self) -> float:
        """The bound on the sum of values, rounded up."""
        terms = np.concatenate([self.pi * self.blocks.capacities, self.profits(self.least)])
        return min(float(terms.sum() + 1e-12 * np.abs(terms).sum()), self.ceiling)

    def objective(self, value: float) -> float:
        """A sum of values in the sense of the model."""
        return float(self.snapshot.offset - self.snapshot.sign * value)

    @property
    def whole(self) -> bool:
        """Whether all values are whole numbers."""
        worths = np.append(self.blocks.worth, self.snapshot.offset)
        return all(self._classes(k) for k in self.graphs) and bool((worths == np.round(worths)).all())

    def bound(self) -> float:
        """The bound in the sense of the model, rounded where values are whole numbers."""
        value = self.value()
        return self.objective(float(np.floor(value + 1e-6)) if self.whole else value)

    @property
    def settled(self) -> bool:
        """Whether the bound meets the objective."""
        objective = self.solution.objective
        return objective is not None and self.snapshot.sign * (objective - self.bound()) <= 1e-9 * max(
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
            objective=self.solution.objective,
            prices=self.pi,
            profit_bound=self.profits(self.least),
            profit_known=self.profits(self.possible),
            closed=closed,
            method=tuple(np.where(closed, names, "open").tolist()),
            nodes=int(self.nodes.sum()),
            seconds=time.perf_counter() - self.began,
            history=tuple((when, self.objective(value)) for when, value in self.history),
        )
        return _with_bound(self.solution, self.bound(), certificate, self.snapshot.sign)


def _with_bound(solution: Solution, bound: float | None, certificate: Any, sign: float) -> Solution:
    """The solution with a bound; an objective far beyond it is an error, since one of the two is wrong."""
    status = solution.status
    if bound is not None and solution.objective is not None:
        size = max(1.0, abs(solution.objective))
        if sign * (bound - solution.objective) > CROSSED * size:
            raise ProblemError(
                f"the objective {solution.objective:.9g} is better than the bound {bound:.9g}: either the blocks do "
                "not describe the model (compare values, use and capacities of problem.blocks with its rows), or the "
                "point gains by exceeding a capacity within the tolerance of 1e-6 (count that resource in larger "
                "units)."
            )
        bound = sign * min(sign * bound, sign * solution.objective)
    if bound is not None and solution.bound is not None:  # one that was proven before may be better
        bound = sign * max(sign * bound, sign * solution.bound)
    if bound is not None and solution.objective is not None:
        size = max(1.0, abs(solution.objective))
        status = "optimal" if abs(bound - solution.objective) <= 1e-9 * size else status
    return replace(solution, status=status, bound=bound, details={**solution.details, "certificate": certificate})

"""Column recovery: the best choice among points that a method has visited, each block from an
iteration of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ..clock import now
from ..errors import ProblemError
from ..methods import ReportsPoints, Run
from ..methods.run import start_run
from ..model.blocks import Blocks
from ..model.incumbent import Incumbent, PointCallback
from ..model.problem import NeuralMIP
from ..model.progress import ProgressLine
from ..model.solution import Solution
from ..model.structure import Structure
from ..renamed import renamed_keywords
from .general_blocks import GeneralColumnGeneration as GeneralSearch
from .network_oracle import evaluate_columns
from .pricing_problem import PricingProblem, reduce_to_boundary
from .recognition import find_blocks
from .state import CoordinationState

Point = list[np.ndarray]
"""Network inputs, one matrix for each predictor."""
SHARE = 0.8
"""Of the time, what `Recovering` gives to its solver."""
MOST = 40
"""Points of one block that are pulled back: the cheapest ones, where resources cost by their
scarcity alone.
"""


def recover(
    problem: NeuralMIP,
    points: Sequence[Sequence[np.ndarray]],
    time_limit: float = 60.0,
    seed: int = 0,
) -> Solution:
    """The best choice among visited points; a point is a list of input matrices, one for each
    predictor.

    Every row of every matrix becomes an option of its block, in the mode whose box is nearest;
    points of class 1 are pulled back to where the class changes, so that they use as little as they
    can. Then SCIP chooses.

    >>> from ddmip_lib.predictors import mlp
    >>> from ddmip_lib.problems import water_potability
    >>> problem = water_potability(n=3, net=mlp(2, 16, 9, seed=1))
    >>> solution = recover(problem, [problem.start, [problem.start[0] + 1.0]])
    >>> solution.status, bool(problem.verify(solution))
    ('stopped', True)
    """
    run = start_run(problem, time_limit, seed, method="recovery")
    blocks = _blocks(run)
    shapes = [p.inputs.shape for p in problem.predictors]
    for point in points:
        if [np.shape(x) for x in point] != shapes:
            raise ProblemError(
                f"a point has shapes {[np.shape(x) for x in point]}, the predictors need {shapes}."
            )
    incumbent = run.incumbent()

    def chosen() -> Solution:
        options = _recover(blocks, incumbent, points, run)
        run.details["options"] = options
        if run.seconds_left <= 0:
            return run.solution("time_limit")
        return run.solution("stopped" if incumbent.found else "no_solution_found")

    return run.finish(chosen, run.interrupted_solution)


@dataclass(frozen=True)
class Recovering:
    """Any solver, and then the best choice among all points that it visited, each block from a
    point of its own.

    The solver gets four fifths of the time, the choice the rest. The answer is never worse than the
    solver's own.

    >>> from ddmip_lib import DualDecomposition
    >>> from ddmip_lib.predictors import mlp
    >>> from ddmip_lib.problems import water_potability
    >>> problem, plain = (
    ...     water_potability(n=3, net=mlp(2, 16, 9, seed=1)),
    ...     DualDecomposition(max_iterations=3),
    ... )
    >>> Recovering(plain).solve(problem).objective >= plain.solve(problem).objective
    True
    """

    solver: ReportsPoints

    def __post_init__(self) -> None:
        if isinstance(self.solver, type) or not hasattr(self.solver, "solve"):
            raise TypeError(
                f"Recovering needs a solver such as DualDecomposition(), not {self.solver!r}."
            )

    @renamed_keywords(visit="on_point")
    def solve(
        self,
        problem: NeuralMIP,
        time_limit: float = 60.0,
        seed: int = 0,
        progress: bool = False,
        on_point: PointCallback | None = None,
    ) -> Solution:
        """Solve, then choose."""
        run = start_run(problem, time_limit, seed, on_point)
        with ProgressLine(problem, "recovery", run.began, progress):
            return self._solve(run)

    def _solve(self, run: Run) -> Solution:
        visited = list[Point]()
        on_point = run.on_point
        blocks = _blocks(run)

        def record(inputs: Point) -> None:
            visited.append([x.copy() for x in inputs])
            if on_point is not None:
                on_point(inputs)

        found = self.solver.solve(run.problem, SHARE * run.time_limit, run.seed, on_point=record)
        incumbent = run.incumbent(with_start=False)
        if found.values is not None:
            incumbent.consider(found.values)
        incumbent.found[:] = found.details.get("incumbents", [])
        details = {**found.details, "incumbents": incumbent.found}
        known = incumbent.objective
        method = f"{found.method}, recovered"

        def result(status: str) -> Solution:
            if status == "stopped":
                details["interrupted"] = True
            if incumbent.objective != known and status in (
                "claimed_optimal",
                "no_solution_found",
            ):  # no longer so
                status = "stopped"
            seconds = now() - run.began
            return replace(
                found,
                **incumbent.point(),
                status=status,
                method=method,
                seconds=seconds,
                details=details,
            )

        def chosen() -> Solution:
            if visited and "interrupted" not in details and found.status != "infeasible":
                _recover(blocks, incumbent, visited, run)
            return result(found.status)

        return run.finish(chosen, result)


def _blocks(run: Run) -> Blocks | Structure:
    found = find_blocks(run.problem, run.instance)
    if isinstance(found, Structure):
        found.require("recovery")
    return found


def _recover(
    blocks: Blocks | Structure,
    incumbent: Incumbent,
    points: Sequence[Sequence[np.ndarray]],
    run: Run,
) -> int:
    """Let the best choice among points compete; how many options there were."""
    if isinstance(blocks, Structure):
        search = GeneralSearch(incumbent, blocks, run.deadline, run.seed)
        search.gather(points)
        return len(search.options)
    market = CoordinationState.empty(blocks, incumbent, run.deadline, run.seed)
    recover_into(market, points, run.seed)
    return len(market.pool)


def recover_into(
    market: CoordinationState, points: Sequence[Sequence[np.ndarray]], seed: int = 0
) -> None:
    """Fill the pool of a market with visited points and choose; the choice competes with the
    market's incumbent.
    """
    blocks = market.blocks
    predictors = market.incumbent.instance.predictors
    for number in np.unique(blocks.predictor).tolist():
        if market.seconds_left <= 0:
            return
        rows = np.flatnonzero(blocks.predictor == number)
        at, u = _nearest(
            blocks,
            rows,
            np.stack([blocks.base[rows], *(x[number][blocks.row[rows]] for x in points)]),
        )
        net = predictors[number]
        if net.gives_class:
            at, u = _cheapest(market, *(part[net.raw(u)[:, 0] > 0] for part in (at, u)))
            if len(at):
                u = reduce_to_boundary(net.net, _task(market, at), torch.from_numpy(u)).numpy()
        market.pool.add(*evaluate_columns(net, blocks, at, u))
        if not blocks.optional:
            market.pool.add(
                *evaluate_columns(net, blocks, rows, blocks.base[rows], classes_only=False)
            )
    market.lp = market.pool.prices()
    market.offer(market.pool.rounded(market.lp.shares))
    market.choose(gap=1e-6, nodes=100, seed=seed)


def _nearest(blocks: Blocks, rows: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points x, (visits, rows, p), as options: each in the box of that mode of its block which is
    nearest.
    """
    clipped = np.clip(x, blocks.lower[rows], blocks.upper[rows])
    distance = np.abs(x - clipped).sum(axis=2)
    least = np.full((len(x), blocks.n), np.inf)
    for column, i in zip(distance.T, blocks.block[rows], strict=True):
        least[:, i] = np.minimum(least[:, i], column)
    visit, row = np.nonzero(distance <= least[:, blocks.block[rows]])
    return rows[row], clipped[visit, row]


def _cheapest(
    market: CoordinationState, at: np.ndarray, u: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """At most `MOST` points of each block, no two the same."""
    _, first = np.unique(np.column_stack([at, np.round(u, 6)]), axis=0, return_index=True)
    at = at[first]
    u = u[first]
    cost = market.blocks.use(at, u, np.zeros(len(at))) @ market.seen
    order = np.lexsort((cost, market.blocks.block[at]))
    block = market.blocks.block[at[order]]
    rank = np.arange(len(order)) - np.searchsorted(block, block)
    kept = order[rank < MOST]
    return at[kept], u[kept]


def _task(market: CoordinationState, at: np.ndarray) -> PricingProblem:
    up, down = (rate[at] for rate in market.blocks.rates(market.seen))
    return PricingProblem.of(market.blocks, at, up, down, np.full(len(at), np.inf))

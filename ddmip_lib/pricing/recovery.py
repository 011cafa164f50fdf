"""Column recovery: the points that a method evaluated become columns, and a MIP selects the best
column of each block.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy import ndarray

from ..clock import unlimited
from ..errors import ProblemError
from ..methods import Method, ReportsPoints, Run
from ..methods.run import start_run
from ..model.blocks import Blocks
from ..model.incumbent import Incumbent
from ..model.problem import NeuralMIP
from ..model.solution import Solution
from ..model.structure import Structure
from .general_blocks import GeneralColumnGeneration
from .network_oracle import evaluate_columns
from .pricing_problem import PricingProblem, reduce_to_boundary
from .recognition import require_blocks
from .state import CoordinationState

Point = list[ndarray]
"""Network inputs, one matrix for each predictor."""
SOLVER_TIME_FRACTION = 0.8
"""Fraction of the time that `Recovering` gives to its solver."""
MAX_REDUCED_POINTS = 40
"""Number of points of one block that are moved to the boundary of the class: those of least use,
with resources weighted by their scarcity.
"""


def recover(
    problem: NeuralMIP,
    points: Sequence[Sequence[ndarray]],
    time_limit: float = 60.0,
    seed: int = 0,
) -> Solution:
    """Return the best combination of points, with each block from one of them.

    Every row of every matrix becomes a column of its block, in the mode whose box is nearest.
    Points of class 1 are moved towards their base points up to the boundary of the class, so that
    they use little. Then SCIP selects.

    Parameters
    ----------
    problem
        The problem.
    points
        The points, each a list of input matrices, one for each predictor.
    time_limit
        Seconds after which the run ends and returns what it has.
    seed
        Seed of all random numbers.

    Returns
    -------
    Solution
        Its status is "stopped" if a point was found, since nothing is proved.

    Raises
    ------
    ProblemError
        If the problem does not decompose into blocks, or a point has the wrong shapes.

    Examples
    --------
    >>> from ddmip_lib.problems import shared_budget
    >>> problem = shared_budget()
    >>> solution = recover(problem, [problem.start, [problem.start[0] + 0.5]])
    >>> solution.status, bool(problem.verify(solution))
    ('stopped', True)
    """
    run = start_run(problem, time_limit, seed, method="recovery")
    blocks = require_blocks(problem, run.instance, "recovery")
    expected = [predictor.inputs.shape for predictor in problem.predictors]
    for point in points:
        shapes = [np.shape(x) for x in point]
        if shapes != expected:
            raise ProblemError(f"a point has shapes {shapes}, the predictors need {expected}.")
    incumbent = run.incumbent()

    def choose() -> Solution:
        run.details["options"] = _choose(blocks, incumbent, points, run)
        if run.seconds_left <= 0:
            return run.solution("time_limit")
        return run.solution("stopped" if incumbent.found else "no_solution_found")

    return run.finish(choose, run.interrupted_solution)


@dataclass(frozen=True)
class Recovering(Method):
    """A solver, followed by `recover` with all points that it evaluated.

    The solver gets four fifths of the time. The solution is never worse than the solver's.

    Parameters
    ----------
    solver
        The solver, whose `solve` calls `on_point` with every evaluated point.

    Raises
    ------
    TypeError
        If `solver` has no method `solve`, or is a class.

    Examples
    --------
    >>> from ddmip_lib import DualDecomposition
    >>> from ddmip_lib.problems import shared_budget
    >>> problem = shared_budget()
    >>> solver = DualDecomposition(max_iterations=3)
    >>> Recovering(solver).solve(problem).objective >= solver.solve(problem).objective
    True
    """

    solver: ReportsPoints
    method: ClassVar[str] = "recovery"
    checks_ranges_first: ClassVar[bool] = False  # the solver does

    def __post_init__(self) -> None:
        if isinstance(self.solver, type) or not hasattr(self.solver, "solve"):
            raise TypeError(
                f"Recovering needs a solver such as DualDecomposition(), not {self.solver!r}."
            )

    def prepare(self, run: Run) -> None:
        """Find the blocks, before the solver does any work."""
        require_blocks(run.problem, run.instance, self.method)

    def run(self, run: Run) -> Solution:
        """Run the solver, then select from the points that it evaluated."""
        points = list[Point]()

        def record(inputs: Point) -> None:
            points.append([x.copy() for x in inputs])
            if run.on_point is not None:
                run.on_point(inputs)

        seconds = SOLVER_TIME_FRACTION * run.time_limit
        found = self.solver.solve(run.problem, seconds, run.seed, on_point=record)
        incumbent = run.incumbent(with_start=False)
        with unlimited():  # the solver's point is verified even if no time is left
            if found.values is not None:
                incumbent.consider(found.values)
        incumbent.found[:] = found.details.get("incumbents", [])
        run.method = f"{found.method}, recovered"
        run.history = found.history
        run.details = dict(found.details)
        run.state = found, incumbent.objective
        if points and "interrupted" not in found.details and found.status != "infeasible":
            blocks = require_blocks(run.problem, run.instance, self.method)
            _choose(blocks, incumbent, points, run)
        return self.interrupted(run, found.status)

    def interrupted(self, run: Run, status: str) -> Solution:
        """Return the best verified point; the run need not have ended early."""
        if run.state is None:
            return run.interrupted_solution(status)
        found, objective = run.state
        if status == "stopped":
            run.details["interrupted"] = True
        improved = run.best is not None and run.best.objective != objective
        if improved and status in ("claimed_optimal", "no_solution_found"):
            status = "stopped"
        return run.solution(
            status,
            bound=found.bound,
            proof=found.proof,
            objective_last=found.objective_last,
            start=found.start,
        )


def _choose(
    blocks: Blocks | Structure,
    incumbent: Incumbent,
    points: Sequence[Sequence[ndarray]],
    run: Run,
) -> int:
    """Submit the best combination of points to the incumbent; return the number of columns."""
    if isinstance(blocks, Structure):
        search = GeneralColumnGeneration(incumbent, blocks, run.deadline, run.seed)
        search.gather(points)
        return len(search.pool)
    state = CoordinationState.empty(blocks, incumbent, run.deadline, run.seed)
    for number in np.unique(blocks.predictor).tolist():
        if state.seconds_left <= 0:
            return len(state.pool)
        _add_columns(state, number, [point[number] for point in points])
    state.lp = state.pool.prices()
    state.offer(state.pool.rounded(state.lp.weights))
    state.choose(gap=1e-6, nodes=100, seed=run.seed)
    return len(state.pool)


def _add_columns(state: CoordinationState, number: int, matrices: list[ndarray]) -> None:
    """Add the columns of one network, from base points and from rows of input matrices."""
    blocks = state.blocks
    predictor = state.incumbent.instance.predictors[number]
    rows = np.flatnonzero(blocks.predictor == number)
    base = blocks.base[rows]
    points = np.stack([base, *(matrix[blocks.row[rows]] for matrix in matrices)])
    at, u = _nearest(blocks, rows, points)
    if predictor.gives_class:
        in_class = predictor.raw(u)[:, 0] > 0
        at, u = _cheapest(state, at[in_class], u[in_class])
        if len(at):
            up, down = blocks.rates(state.next_prices)[:, at]
            task = PricingProblem.of(blocks, at, up, down, np.full(len(at), np.inf))
            u = reduce_to_boundary(predictor.net, task, torch.from_numpy(u)).numpy()
    state.pool.add(*evaluate_columns(predictor, blocks, at, u))
    if not blocks.optional:
        state.pool.add(*evaluate_columns(predictor, blocks, rows, base, classes_only=False))


def _nearest(blocks: Blocks, rows: ndarray, x: ndarray) -> tuple[ndarray, ndarray]:
    """Assign each point, (points, rows, p), to the modes of its block whose box is nearest.

    Returns rows of the table, and the points projected onto their boxes.
    """
    block = blocks.block[rows]
    projected = np.clip(x, blocks.lower[rows], blocks.upper[rows])
    distance = np.abs(x - projected).sum(axis=2)
    smallest = np.full((len(x), blocks.n), np.inf)
    np.minimum.at(smallest.T, block, distance.T)
    point, row = np.nonzero(distance <= smallest[:, block])
    return rows[row], projected[point, row]


def _cheapest(state: CoordinationState, at: ndarray, u: ndarray) -> tuple[ndarray, ndarray]:
    """Return at most `MAX_REDUCED_POINTS` different points of each block, those of least cost."""
    rounded = np.column_stack([at, np.round(u, 6)])
    first = np.unique(rounded, axis=0, return_index=True)[1]
    block = state.blocks.block[at[first]]
    cost = state.blocks.use(at[first], u[first], np.zeros(len(first))) @ state.next_prices
    order = np.lexsort((cost, block))
    rank = np.arange(len(order)) - np.searchsorted(block[order], block[order])
    kept = first[order[rank < MAX_REDUCED_POINTS]]
    return at[kept], u[kept]

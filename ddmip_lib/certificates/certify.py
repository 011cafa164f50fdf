r"""`certify`: a proven bound for a problem of blocks.

For all prices $\pi \ge 0$ weak duality bounds the sum of values by

$$\pi^\top R + \sum_i \beta_i(\pi), \qquad \beta_i(\pi) \ge \max_{t, u} \; v_t(u) - \pi^\top r_t(u)
\quad(\text{and} \ge 0 \text{ where blocks are optional}).$$

Each $\beta_i$ is bounded from above by branch and bound on the units of its networks
(`unit_search`). The bounds hold at any time, and so does the sum.

Rounding: every bound of a network is rounded outward by what floating point can have changed
(`bounds.rounding`); an output is of the class from $f(u) > 0$ on, without a margin; linear programs
only propose multipliers; and the sum is rounded up. The bound holds for points that satisfy the
capacities exactly: `verify` tolerates a violation of 1e-6, so an objective may exceed the bound by
the price of that violation.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from numpy.typing import ArrayLike

from ..bounds import Graph
from ..clock import TimeOver, check_time, now, unlimited
from ..device import check_place
from ..errors import ProblemError
from ..methods.run import Run, start_run
from ..model.blocks import Blocks
from ..model.goal import Goal
from ..model.incumbent import Incumbent
from ..model.problem import NeuralMIP
from ..model.solution import Solution
from ..model.structure import Structure
from ..pricing.coordination import PriceCoordination
from ..pricing.recognition import find_blocks
from ..proofs.checking import closes_gap
from ..proofs.exact import MAX_EXACT_UNITS
from ..workers import Executor, check_client, work_in_processes
from .bound_state import BoundState, SearchSettings, checked_prices
from .bounding import STEPS_PER_NODE
from .certificate import stopped, with_bound
from .cluster import search_on_cluster
from .lagrangian import LagrangianBound, lagrangian_bound
from .separable import LagrangianDual
from .unit_search import LossBounds, ReLUBranchAndBound, SearchArguments

PRICING_FRACTION = 0.25
"""Fraction of the time for finding prices where none are given."""
LONGEST_TIME_LIMIT = 1e6
"""Seconds that stand for an infinite time limit in computations."""
EXACT_MODEL_FRACTION = 0.7
"""Fraction of the remaining time for exact models of general blocks."""
SECONDS_IN_THIS_PROCESS = 2.0
"""Seconds of search before other processes are started, since many proofs end by then."""
SECONDS_TO_START_PROCESSES = 3.5
"""Seconds until other processes begin to search."""
OPTION_STARTS = 4
"""Starting points of the search for options of each block."""
REPORT_SECONDS = 1.0
"""Seconds between two reports of a search."""

Report = Callable[[list[LossBounds]], bool | None]


def certify(
    problem: NeuralMIP,
    solution: Solution,
    prices: ArrayLike | None = None,
    time_limit: float = 60.0,
    workers: int | None = None,
    device: torch.device | str = "cpu",
    seed: int = 0,
    progress: bool = False,
    steps: int = STEPS_PER_NODE,
    client: Any = None,
    gap: float | None = None,
    absolute_gap: float = 0.0,
) -> Solution:
    """Prove a bound on the optimum of a problem, and return the solution with it.

    Problems of `Blocks` are bounded block by block at prices of the shared resources. Blocks of
    another form are bounded by their exact models (`separable`; prices are then multipliers of the
    coupling constraints of the problem as a minimisation). Problems without blocks get
    `lagrangian_bound`. Ctrl-C ends the proof, and the bound reached by then is returned.

    Parameters
    ----------
    problem
        The problem.
    solution
        A solution of it, whose point is verified again. Its own bound is kept only if it was
        checked and belongs to this very problem (`Solution.proof`).
    prices
        Prices of the shared resources; any that are not negative give a bound. By default those of
        the solution, or else those that `PriceCoordination` finds in a quarter of the time.
    time_limit
        Seconds.
    workers
        Number of processes; by default one for each CPU, and one on a GPU.
    device
        Device on which networks are bounded.
    seed
        Random seed of the search for prices.
    progress
        Whether to print the progress.
    steps
        Gradient steps that improve the bound of a node, at most.
    client
        A `distributed.Client`, whose workers take the place of processes. With one worker or many,
        the same blocks are closed to the same tolerance if time suffices, and bounds proven by a
        worker that dies are kept.
    gap
        Relative gap between objective and bound at which the proof ends. By default it ends at
        1e-5, and a gap of at most 1e-4 counts as closed.
    absolute_gap
        Difference of objective and bound at which the proof ends too.

    Returns
    -------
    Solution
        The solution, or a better one that was found during the proof, with `bound`, a status that
        follows from it ("optimal" if the gap is closed and at most 1e-4, "gap_limit" if it is
        closed and larger), and the `Certificate` in
        ``details["certificate"]``. If all values are integers, the bound is rounded to one. If time
        ends before any bound is known, the bound is that of the solution, or None.

    Raises
    ------
    ProblemError
        If the solution is infeasible, if prices do not fit, or if the blocks contradict the model.
    UnsupportedNetworkError
        If a network has a layer that cannot be bounded.
    TypeError, ValueError
        If an argument has a wrong type or value.

    Examples
    --------
    >>> from ddmip_lib import PriceCoordination
    >>> from ddmip_lib.problems import shared_budget
    >>> problem = shared_budget()
    >>> solution = certify(problem, PriceCoordination().solve(problem))
    >>> solution.objective <= solution.bound < 2.001, len(solution.details["certificate"].closed)
    (True, 3)
    """
    run = start_run(problem, time_limit, seed, method="certify")
    run.goal = Goal.of(gap, absolute_gap)
    _check_arguments(solution, workers, steps)
    place = check_place(device, torch.float64)
    check_client(client)
    if client is not None and (workers is not None or place.type != "cpu"):
        raise ValueError(
            "the proof runs on the workers of client=: leave out workers= and device=, which belong"
            " to this machine."
        )
    proof = _Proof(run, solution, prices, SearchSettings(place, int(steps), workers, client))

    def prove() -> Solution:
        if time_limit > 0:
            return proof.run_to_end()
        with unlimited():  # bounds without any search are computed at any limit
            return proof.run_to_end()

    return run.finish(prove, proof.result_so_far, progress)


def _check_arguments(solution: Solution, workers: int | None, steps: int) -> None:
    if not isinstance(solution, Solution):
        raise TypeError(
            f"certify needs a Solution, not {type(solution).__name__}: pass what solve() returned."
        )
    if workers is not None and (int(workers) != workers or workers < 1):
        raise ValueError(
            f"workers={workers} must be a positive integer: the number of processes that search."
        )
    if int(steps) != steps or steps < 0:
        raise ValueError(
            f"steps={steps} must be an integer, 0 or more: gradient steps for the bound of a node."
        )


@dataclass(eq=False)
class _Proof:
    """One call of `certify`: its arguments, as they were checked, and what is proved so far.

    Attributes
    ----------
    run, solution, prices, settings
        The arguments.
    exact_models
        Bounds of general blocks by their exact models, None before they are computed.
    branching
        Bound by a search that splits inputs, None before it ends.
    """

    run: Run
    solution: Solution
    prices: ArrayLike | None
    settings: SearchSettings
    exact_models: LagrangianDual | None = None
    branching: LagrangianBound | None = None

    def run_to_end(self) -> Solution:
        incumbent = self.run.verified(self.solution)
        blocks = find_blocks(self.run.problem, incumbent.instance)
        if isinstance(blocks, Structure):
            return self.general_blocks(incumbent, blocks)
        state = self.bound_state(incumbent, blocks)
        self.run.state = state
        _search(state, self.run.deadline)
        return state.certified_solution()

    def result_so_far(self, status: str) -> Solution:
        if self.run.state is None:
            found = self.certified_solution(self.run.best or self.run.verified(self.solution))
        else:
            found = self.run.state.certified_solution()
        return found if status == "time_limit" else stopped(found, self.run.seconds)

    def certified_solution(self, incumbent: Incumbent) -> Solution:
        """The solution with the better bound of exact models and of a search that splits inputs."""
        sign = incumbent.instance.milp.sign
        bound = None if self.branching is None else self.branching.bound
        certificate: object = self.branching
        if self.exact_models is not None:
            lower_bound = self.exact_models.bound
            if bound is None or sign * bound < lower_bound:
                bound = None if lower_bound == -np.inf else sign * lower_bound
                certificate = self.exact_models.certificate()
        return with_bound(self.solution, incumbent, bound, certificate)

    def bound_state(self, incumbent: Incumbent, blocks: Blocks) -> BoundState:
        """Start the proof at the prices given, at those of the solution, or at those found here."""
        graphs = self.graphs(blocks)
        solution = self.solution
        prices = self.prices
        if prices is None and self.run.time_limit <= 0:
            prices = np.zeros_like(blocks.capacities)
        elif prices is None and "prices" in solution.details:
            prices = solution.details["prices"]
        elif prices is None:
            prices = self.found_prices(incumbent, blocks)
            solution = replace(solution, details={**solution.details, "prices": prices})
        prices = checked_prices(prices, len(blocks.capacities), "resources")
        if (prices < -1e-9).any():
            raise ProblemError("prices must be finite and nonnegative.")
        prices = np.maximum(prices, 0.0)
        return BoundState(incumbent, solution, blocks, prices, graphs, self.settings)

    def graphs(self, blocks: Blocks) -> dict[int, Graph]:
        """The networks that blocks use, those of classes without a ReLU at the end."""
        instance = self.run.instance
        graphs: dict[int, Graph] = {}
        for number in map(int, set(blocks.predictor)):
            graphs[number] = instance.graph(number)
            if instance.predictors[number].gives_class:
                graphs[number] = graphs[number].before_relu()
        return graphs

    def found_prices(self, incumbent: Incumbent, blocks: Blocks) -> ndarray:
        """Prices that price coordination finds; zero, with a weak bound, if its time was short."""
        priced = self.coordinate(incumbent, self.settings.client)
        check_time()
        prices = priced.details.get("prices")
        if prices is not None:
            return prices
        if priced.status == "time_limit":
            return np.zeros_like(blocks.capacities)
        raise ProblemError(
            "no prices were found: no choice of options satisfies all capacities. Pass prices (any"
            " that are not negative)."
        )

    def coordinate(self, incumbent: Incumbent, client: Any = None) -> Solution:
        """Coordinate prices in a fraction of the time, and verify the point that is found."""
        limit = max(1.0, PRICING_FRACTION * min(self.run.seconds_left, LONGEST_TIME_LIMIT))
        priced = PriceCoordination(client=client).solve(self.run.problem, limit, self.run.seed)
        if priced.values is not None:
            incumbent.consider(priced.values)
        return priced

    def general_blocks(self, incumbent: Incumbent, structure: Structure) -> Solution:
        """Bound general blocks by their exact models; then, or without blocks, branch on inputs."""
        if self.prices is not None and structure.obstacle:
            raise ProblemError(
                "prices belong to blocks, which this problem does not have: leave them out."
            )
        lower_bound = -np.inf
        if not structure.obstacle and now() < self.run.deadline:
            lower_bound = self.bound_blocks(incumbent, structure)
        if lower_bound < np.inf and not closes_gap(incumbent, lower_bound):
            left = max(0.0, self.run.seconds_left)
            without_bound = self.run.solution("stopped")
            self.branching = lagrangian_bound(
                self.run.problem, without_bound, left, self.run.seed, goal=self.run.goal
            )
            if self.branching.point is not None:
                incumbent.consider(self.branching.point)
        return self.certified_solution(incumbent)

    def bound_blocks(self, incumbent: Incumbent, structure: Structure) -> float:
        """Bound every block by its exact model, at multipliers of the coupling constraints; return
        the bound of the problem as a minimisation.
        """
        n_coupling = int(structure.coupling.sum())
        multipliers = self.prices
        if multipliers is None:
            multipliers = self.solution.details.get("prices")
            if multipliers is None or np.size(multipliers) != n_coupling:  # of another problem
                multipliers = self.coordinate(incumbent).details.get("prices")
                check_time()
        until = now() + EXACT_MODEL_FRACTION * self.run.seconds_left
        if incumbent.instance.nonlinear_units > MAX_EXACT_UNITS:
            return -np.inf
        self.exact_models = LagrangianDual(incumbent, structure, multipliers, until)
        self.exact_models.prove_all(until)
        return self.exact_models.bound


def _search(state: BoundState, deadline: float) -> None:
    """Search on a cluster, or first in this process and then in several: many proofs end before
    another process has started.
    """
    if now() >= deadline:
        return
    state.search_options(OPTION_STARTS)
    executor = Executor(state.settings.client)
    if executor.client is not None:
        search_on_cluster(state, deadline, executor)
    if executor.client is None:  # there was no cluster, or it is lost
        _search_here(state, deadline)


def _search_here(state: BoundState, deadline: float) -> None:
    count = _process_count(state.settings)
    # in a short time one process alone does more, since the others search from scratch
    seconds_lost = SECONDS_IN_THIS_PROCESS + SECONDS_TO_START_PROCESSES
    alone = (count - 1) * min(deadline - now(), LONGEST_TIME_LIMIT) <= count * seconds_lost
    limit = deadline if alone else min(deadline, now() + SECONDS_IN_THIS_PROCESS)
    group = state.searches(state.unproven_rows())
    search_in_turn(group, limit, partial(state.record_all, group))
    if not alone and not state.gap_closed:
        _search_in_processes(state, deadline, count)


def search_in_turn(
    group: Sequence[tuple[ndarray, SearchArguments]], deadline: float, report: Report
) -> None:
    """Run the searches of `BoundState.searches` in turn until the deadline, until all are finished,
    or until `report` returns false.
    """
    searches = [ReLUBranchAndBound(*arguments) for _, arguments in group]
    going = True
    seconds = REPORT_SECONDS / max(1, len(searches))
    try:
        while going and now() < deadline and not all(search.finished for search in searches):
            for search in searches:
                search.run(min(deadline, now() + seconds))
            going = report([search.progress() for search in searches]) is not False
    except TimeOver:  # an unfinished batch of nodes counts as unfathomed
        report([search.progress() for search in searches])
        raise


def _search_in_processes(state: BoundState, deadline: float, count: int) -> None:
    """Distribute the unproven rows over processes."""
    unproven = state.unproven_rows()
    if not len(unproven):
        return
    largest_loss_first = unproven[np.argsort(-state.loss_known[unproven], kind="stable")]
    groups = [
        state.searches(largest_loss_first[k::count]) for k in range(min(count, len(unproven)))
    ]
    work_in_processes(
        search_in_turn,
        groups,
        deadline,
        lambda number, found: state.record_all(groups[number], found),
    )


def _process_count(settings: SearchSettings) -> int:
    """One on a GPU, otherwise `settings.workers` or one for each CPU of this process."""
    if settings.device.type != "cpu":
        return 1
    if settings.workers:
        return settings.workers
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

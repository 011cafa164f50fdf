r"""A certificate for a problem of blocks: how much better than a solution anything can be.

For all prices $\pi \ge 0$ weak duality bounds the sum of values by

$$\pi^\top R + \sum_i \beta_i(\pi), \qquad \beta_i(\pi) \ge \max_{t, u} \; v_t(u) - \pi^\top r_t(u)
\quad(\text{and} \ge 0 \text{ where blocks are optional}).$$

Each $\beta_i$ is bounded from above by branch and bound on the units of its networks
(`unit_search`). The bounds hold at any time, so the sum does.

Numbers: every bound of a network is pushed outward by what floating point can have changed
(`bounds.rounding`); a class counts from $f(u) > 0$ on, not from a margin; linear programs only
propose multipliers; and the sum is rounded up. The bound is one for points that keep the capacities
exactly: `verify` forgives a violation of 1e-6, so an objective may exceed the bound by the price of
that.
"""

import os
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from ..bounds import network_graph
from ..clock import check_time, now, unlimited
from ..device import check_place
from ..errors import ProblemError
from ..methods.run import Run, start_run
from ..model.blocks import Blocks
from ..model.incumbent import Incumbent
from ..model.problem import NeuralMIP
from ..model.progress import ProgressLine, report_progress
from ..model.solution import Solution
from ..model.structure import Structure
from ..model.workers import Executor, check_client
from ..pricing.coordination import PriceCoordination
from ..pricing.recognition import find_blocks
from ..proofs.checking import closes_gap
from .bound_state import BoundState
from .bounding import STEPS
from .certificate import stopped, with_bound
from .cluster import search_on_cluster
from .lagrangian import lagrangian_bound
from .process import work, work_in_processes
from .separable import BlockBounds, blocks_bound
from .unit_search import ReLUBranchAndBound

PRICING = 0.25  # share of the time for finding prices, where none are given
PIECES = 0.7  # share of the rest for exact models of general blocks
ALONE = 2.0
STARTING = (
    3.5  # seconds alone, since many certificates end by then; and until other processes begin
)
STARTS = 4


def certify(
    problem: NeuralMIP,
    solution: Solution,
    prices: Any = None,
    time_limit: float = 60.0,
    workers: int | None = None,
    device: torch.device | str = "cpu",
    seed: int = 0,
    progress: bool = False,
    steps: int = STEPS,
    client: Any = None,
) -> Solution:
    """The same solution with a proven `bound`, and the `Certificate` in ``details["certificate"]``.

    Its point is verified again; a better one that is met on the way takes its place. A bound that
    it brings along is kept only if it was checked and belongs to this very problem
    (`Solution.proof`); status and bound are otherwise those that are proved here.

    `prices` of the shared resources: any that are not negative give a bound; by default those of
    the solution, or where it has none, those that `PriceCoordination` finds in a quarter of the
    time. `workers` processes share the blocks (default: one for each CPU); on a GPU (`device`)
    there is one. Stop it whenever you like (Ctrl-C): the bound reached by then is returned. Where
    all values are whole numbers, `Solution.bound` is rounded to the next one; a bound that meets
    the objective makes the status "optimal". Blocks that are found and have not the form of
    `Blocks` are bounded by exact models, one for each (`apart`; prices are then multipliers of the
    linking rows of the problem as a minimisation); problems without blocks get `lagrangian_bound`.

    Where the time ends before any bound is known, the solution comes back without one.

    `steps` of a gradient method improve the bound of each node that needs them. `client`, a
    `distributed.Client`, lets the workers of a cluster take the place of processes: one or many,
    they close the same blocks where time does not end first, to the same tolerance, and what was
    proven by a worker that dies is kept.

    >>> from ddmip_lib import PriceCoordination
    >>> from ddmip_lib.predictors import mlp
    >>> from ddmip_lib.problems import water_potability
    >>> problem = water_potability(n=3, net=mlp(2, 16, 9, seed=1))
    >>> solution = certify(problem, PriceCoordination().solve(problem))
    >>> solution.objective <= solution.bound <= 3.0, len(solution.details["certificate"].closed)
    (True, 3)
    """
    run = start_run(problem, time_limit, seed, method="certify")
    if not isinstance(solution, Solution):
        raise TypeError(
            f"certify needs a Solution, not {type(solution).__name__}: pass what solve() returned."
        )
    if workers is not None and (int(workers) != workers or workers < 1):
        raise ValueError(
            f"workers={workers} must be a positive integer: processes that share the blocks."
        )
    if int(steps) != steps or steps < 0:
        raise ValueError(
            f"steps={steps} must be a whole number, 0 or more: gradient steps for the bound of a"
            " node."
        )
    place = check_place(device, torch.float64)
    check_client(client)
    if client is not None and (workers is not None or place.type != "cpu"):
        raise ValueError(
            "client= names those who work: leave out workers and device, which are of this machine."
        )

    def certified() -> Solution:
        if time_limit <= 0:  # what needs no search is computed in any case
            with unlimited():
                return computed()
        return computed()

    def computed() -> Solution:
        incumbent = _verified(run, solution)
        blocks = find_blocks(problem, incumbent.instance)
        if isinstance(blocks, Structure):
            return _without_description(
                problem, solution, incumbent, blocks, prices, run.deadline, seed
            )
        account = _account(run, solution, incumbent, blocks, prices, place, int(steps), client)
        run.state = account
        _search(account, run.deadline, workers, Executor(client))
        return account.signed()

    def so_far(status: str) -> Solution:
        if run.state is None:
            found = with_bound(solution, run.best or _verified(run, solution), None, None)
        else:
            found = run.state.signed()
        return found if status == "time_limit" else stopped(found, run.seconds)

    with ProgressLine(problem, "certify", run.began, progress):
        found = run.finish(certified, so_far)
        report_progress(bound=found.bound)
        return found


def _verified(run: Run, solution: Solution) -> Incumbent:
    """The point of the solution, verified again."""
    incumbent = run.incumbent(with_start=False)
    if solution.values is not None and not incumbent.consider(solution.values).feasible:
        raise ProblemError(
            "the solution is not feasible for this problem: pass the problem that was solved."
        )
    return incumbent


def _account(
    run: Run,
    solution: Solution,
    incumbent: Incumbent,
    blocks: Blocks,
    prices: Any,
    place: torch.device,
    steps: int,
    client: Any,
) -> BoundState:
    """The account of a problem of blocks at given prices, at those of the solution, or at those
    found here.
    """
    problem = run.problem
    time_limit = run.time_limit
    graphs = {
        int(k): network_graph(problem.predictors[k].net, blocks.base.shape[1])
        for k in set(blocks.predictor)
    }
    graphs = {
        k: graph.before_relu() if problem.predictors[k].gives_class else graph
        for k, graph in graphs.items()
    }
    if prices is None and time_limit <= 0:
        prices = np.zeros_like(blocks.capacities)
    elif prices is None and "prices" not in solution.details:
        priced = PriceCoordination(client=client).solve(
            problem, max(1.0, PRICING * min(time_limit, 1e6)), run.seed
        )
        if priced.values is not None:
            incumbent.consider(priced.values)
        if "interrupted" in priced.details:
            raise KeyboardInterrupt
        check_time()
        found = priced.details.get("prices")
        if found is None and priced.status != "time_limit":
            raise ProblemError(
                "no prices were found: no choice of options keeps all capacities. Pass prices (any"
                " that are not negative)."
            )
        if found is None:  # any prices give a bound, those of zero a weak one
            found = np.zeros_like(blocks.capacities)
        solution = replace(solution, details={**solution.details, "prices": found})
    pi = _checked(prices if prices is not None else solution.details["prices"], blocks)
    return BoundState(incumbent, solution, blocks, pi, graphs, place, steps)


def _without_description(
    problem: NeuralMIP,
    solution: Solution,
    incumbent: Incumbent,
    structure: Structure,
    prices: Any,
    deadline: float,
    seed: int,
) -> Solution:
    """General blocks by the exact models of their pieces; then, or where there are none, by
    branching on inputs.
    """
    if prices is not None and structure.obstacle:
        raise ProblemError(
            "prices belong to blocks, which this problem does not have: leave them out."
        )
    sign = incumbent.instance.milp.sign
    first = BlockBounds()
    if not structure.obstacle and now() < deadline:
        links = int(structure.linking.sum())
        given = solution.details.get("prices") if prices is None else prices
        if prices is None and (
            given is None or np.size(given) != links
        ):  # none, or those of another problem
            share = PRICING * min(deadline - now(), 1e6)
            priced = PriceCoordination().solve(problem, max(1.0, share), seed)
            given = priced.details.get("prices")
            if priced.values is not None:
                incumbent.consider(priced.values)
            if "interrupted" in priced.details:
                return stopped(with_bound(solution, incumbent, None, None), now() - incumbent.began)
        until = now() + PIECES * (deadline - now())
        first = blocks_bound(incumbent, structure, given, until)
        if first.interrupted or first.bound == np.inf or closes_gap(incumbent, first.bound):
            found = with_bound(solution, incumbent, first.said(sign), first.certificate)
            return stopped(found, now() - incumbent.began) if first.interrupted else found
    known = Solution(
        "stopped", solution.method, **incumbent.point()
    )  # not with the bound that it came with
    lines = lagrangian_bound(problem, known, max(0.0, deadline - now()), seed)
    if lines.point is not None:
        incumbent.consider(lines.point)
    if lines.bound is None or sign * lines.bound < first.bound:
        found = with_bound(solution, incumbent, first.said(sign), first.certificate or lines)
    else:
        found = with_bound(solution, incumbent, lines.bound, lines)
    return stopped(found, now() - incumbent.began) if lines.status == "interrupted" else found


def _checked(prices: Any, blocks: Blocks) -> np.ndarray:
    pi = np.asarray(prices, dtype=float).ravel()
    if pi.shape != blocks.capacities.shape:
        raise ProblemError(
            f"{pi.size} prices for {len(blocks.capacities)} resources: pass one for each."
        )
    if not np.isfinite(pi).all() or (pi < -1e-9).any():
        raise ProblemError("prices must be finite and not negative: others prove nothing.")
    return np.maximum(pi, 0.0)


def _search(account: BoundState, deadline: float, workers: int | None, crew: Executor) -> None:
    """On a cluster, or first here, then in processes: many problems are done before another process
    has started.
    """
    if now() >= deadline:
        return
    account.look(STARTS)
    if crew.client is not None:
        search_on_cluster(account, deadline, crew)
        if crew.client is not None:
            return
    allowed = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    count = (
        (workers or allowed) if account.device.type == "cpu" else 1
    )  # one for each CPU that this process may use
    alone = (count - 1) * min(deadline - now(), 1e6) <= count * (
        ALONE + STARTING
    )  # they begin anew
    mine, shares = account.searches(account.rows())
    limit = deadline if alone else min(deadline, now() + ALONE)
    work(
        [ReLUBranchAndBound(*arguments) for arguments in mine], limit, partial(account.hear, shares)
    )
    open_rows = account.rows()
    if alone or not len(open_rows) or account.settled:
        return
    order = open_rows[np.argsort(-account.possible[open_rows], kind="stable")]
    groups = [account.searches(order[k::count]) for k in range(min(count, len(order)))]
    work_in_processes(
        [mine for mine, _ in groups], deadline, lambda k, found: account.hear(groups[k][1], found)
    )

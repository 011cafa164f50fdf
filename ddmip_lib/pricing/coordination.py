"""Price coordination: prices from a linear program, options from the networks, a choice
from a MIP.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch

from ..clock import now
from ..device import check_place
from ..errors import ProblemError
from ..methods import Callback, Method, Run
from ..methods.run import start_run
from ..model.incumbent import PointCallback
from ..model.problem import NeuralMIP
from ..model.progress import report_progress
from ..model.solution import Solution
from ..model.structure import Structure
from ..model.workers import Executor, check_client
from ..renamed import renamed_fields, renamed_keywords
from .general_blocks import coordinate
from .network_oracle import NetworkOracle
from .recognition import find_blocks
from .state import CoordinationState, Round

SHARE = 0.5  # of the time, what is kept for choosing
# reduced profit, relative to the largest value, from which on an option counts as one that was
# missing
POSITIVE = 1e-6


@renamed_fields(idle_rounds="max_failed_rounds")
@dataclass(frozen=True)
class PriceCoordination(Method):
    r"""Independent blocks buy shared resources at prices; a linear program sets the prices, a MIP
    makes the choice.

    For problems that fall into blocks: those described by `NeuralMIP.set_blocks`, or else those
    found in the model (`find_structure`). Each round asks the networks in one batch for the best
    option of every block at the prices, from several starts; solves the linear program over all
    options found so far; smooths its prices; and rounds to a choice. When no option of positive
    reduced profit turns up any more, SCIP chooses among the options that are almost worth their
    price, and again after rounds at prices that favour what the last choice left over. Blocks found
    that do not have the form of `Blocks` are priced by small MILPs (`general`), for which only
    `max_rounds` and `max_failed_rounds` matter. Every choice is verified by the true networks.

    ``details["lp_value"]`` is the optimum of the linear program: what the choice is measured by,
    but no bound, since options may be missing (`certify` proves one); ``details["prices"]`` are its
    prices, ``details["pool"]`` the pool.

    Parameters: `starts` of each block and mode in a round, `steps` of the NN block from each start,
    `max_rounds`, `smoothing` (weight of the earlier prices in the new ones, as long as they help),
    `max_failed_rounds` in a row without a new option that end the search, `choices` that SCIP
    makes at
    most (half of the time is theirs), `gap` and `nodes` at which it stops, `callback` (hears a
    `Moment` after each round), `device` and `dtype` of the networks inside the NN block (values
    come from the CPU in double), `client`, a `distributed.Client` whose workers ask the networks:
    one or many, the answer is the same as without.

    >>> from ddmip_lib.predictors import mlp
    >>> from ddmip_lib.problems import water_potability
    >>> solution = PriceCoordination().solve(water_potability(n=3, net=mlp(2, 16, 9, seed=1)))
    >>> solution.status, solution.objective <= solution.details["lp_value"] + 1e-6
    ('converged', True)
    """

    starts: int = 4
    steps: int = 24
    max_rounds: int = 30
    smoothing: float = 0.5
    max_failed_rounds: int = 3
    choices: int = 4
    gap: float = 1e-6
    nodes: int = 100
    device: torch.device | str = "cpu"
    dtype: torch.dtype = torch.float64
    callback: Callback | None = None
    client: Any = field(default=None, repr=False, compare=False)
    method: ClassVar[str] = "price coordination"

    def __post_init__(self) -> None:
        for name in ("steps", "max_rounds", "nodes", "max_failed_rounds", "choices"):
            count = getattr(self, name)
            if int(count) != count or count < 1:
                raise ValueError(f"{name}={count} must be a positive integer.")
        if int(self.starts) != self.starts or self.starts < 2:
            raise ValueError(
                f"starts={self.starts} must be at least 2: the base point and the best option"
                " known."
            )
        if not 0 <= self.smoothing < 1:
            raise ValueError(
                f"smoothing={self.smoothing} must lie in [0, 1): 0 takes new prices as they are."
            )
        if not self.gap >= 0:
            raise ValueError(f"gap={self.gap} must not be negative.")
        check_place(self.device, self.dtype)
        check_client(self.client)

    @property
    def search(self) -> NetworkOracle:
        """The NN block: what asks the networks for options."""
        return NetworkOracle(
            int(self.starts), int(self.steps), torch.device(self.device), self.dtype
        )

    def run(self, run: Run) -> Solution:
        """Run rounds until no column is missing, then choose."""
        blocks = find_blocks(run.problem, run.instance)
        if isinstance(blocks, Structure):
            blocks.require(self.method)
            return coordinate(run, blocks, self.method, self.max_rounds, self.max_failed_rounds)
        run.state = self._start(run)
        return self._solution(run.state, self._rounds(run.state, run))

    def interrupted(self, run: Run, status: str) -> Solution:
        if run.state is None:
            return run.interrupted_solution(status)
        return self._solution(run.state, status)

    def _rounds(self, market: CoordinationState, run: Run) -> str:
        status = "iteration_limit"
        choosing = SHARE * market.seconds_left
        while status == "iteration_limit" and len(market.rounds) < self.max_rounds:
            if market.seconds_left <= choosing:
                status = "time_limit"
                break
            self.round(market)
            report_progress(turn=True)
            if run.notify():
                return "stopped"
            if market.idle >= self.max_failed_rounds:
                status = "converged"
        for k in range(self.choices):
            market.choose(self.gap, self.nodes, run.seed + k, thorough=k % 2 == 1)
            if market.settled or market.seconds_left <= 0 or k + 1 == self.choices:
                break
            for seen in (market.scarcity(), market.jittered()):
                if market.seconds_left <= 0:
                    break
                self.round(market, seen)
                report_progress(turn=True)
                if run.notify():
                    return "stopped"
        return "time_limit" if market.seconds_left <= 0 else status

    @renamed_keywords(visit="on_point")
    def start(
        self,
        problem: NeuralMIP,
        time_limit: float = np.inf,
        seed: int = 0,
        on_point: PointCallback | None = None,
    ) -> CoordinationState:
        """The market before the first round; `round` and `CoordinationState.choose` continue from
        there.
        """
        return self._start(start_run(problem, time_limit, seed, on_point))

    def _start(self, run: Run) -> CoordinationState:
        blocks = find_blocks(run.problem, run.instance)
        if isinstance(blocks, Structure):
            blocks.require(self.method)
            raise ProblemError(
                f"rounds one by one need blocks of the form of Blocks; call solve() for {blocks!r}."
            )
        return CoordinationState.empty(
            blocks, run.incumbent(), run.deadline, run.seed, Executor(self.client)
        )

    def round(self, market: CoordinationState, seen: np.ndarray | None = None) -> None:
        """Options at the prices seen (or at others), the linear program with them, new prices, a
        choice by rounding.
        """
        clock = [now()]
        before = market.lp
        market.seen = market.seen if seen is None else seen
        found = self.search.options(market)
        clock.append(now())
        new = len(found.at)
        if before is not None:
            use = market.blocks.use(*found)
            value = found.value * before.counts
            profit = value - use @ before.prices - before.earned[market.blocks.block[found.at]]
            new = int((profit > POSITIVE * market.scale).sum())
        market.pool.add(*found)
        market.lp = market.pool.prices(before)
        same = before is not None and before.counts == market.lp.counts
        smoothing = self.smoothing if new and same and seen is None else 0.0
        if len(market.pool):
            market.seen = smoothing * market.seen + (1 - smoothing) * market.lp.prices
        market.idle = 0 if new else market.idle + 1
        clock.append(now())
        market.offer(market.pool.rounded(market.lp.shares))
        clock.append(now())
        market.rounds.prices.append(market.lp.prices)
        latest = Round(
            k=len(market.rounds) + 1,
            lp_value=market.objective(market.lp.value) if market.lp.counts else np.nan,
            incumbent=np.nan if market.incumbent.objective is None else market.incumbent.objective,
            options=len(market.pool),
            new=new,
            smoothing=smoothing,
            seconds_nn=clock[1] - clock[0],
            seconds_lp=clock[2] - clock[1],
            seconds_mip=clock[3] - clock[2],
            seconds=clock[3] - market.incumbent.began,
        )
        market.rounds.append(latest)

    def _solution(self, market: CoordinationState, status: str) -> Solution:
        incumbent = market.incumbent
        details: dict[str, Any] = {"incumbents": incumbent.found, "options": len(market.pool)}
        del market.rounds.prices[len(market.rounds) :]  # of a round that did not come to its end
        if market.lp is not None and market.lp.counts:
            details |= {
                "lp_value": market.objective(market.lp.value),
                "prices": market.lp.prices,
                "pool": market.pool,
            }
        if status == "stopped":  # by the callback, or by Ctrl-C, perhaps in the middle of a round
            details["interrupted"] = True
        elif incumbent.values is None and status != "time_limit":
            status = "no_solution_found"
        seconds = now() - incumbent.began
        return Solution(
            status,
            self.method,
            **incumbent.point(),
            history=market.rounds,
            seconds=seconds,
            details=details,
        )

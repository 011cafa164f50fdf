"""Price coordination: prices from a linear program, options from the networks, a choice from a MIP."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from ..device import check_place
from ..model.incumbent import Incumbent
from ..model.instance import Compiled
from ..model.problem import NeuralMIP, check_call
from ..model.solution import Solution
from .market import Market, Round, blocks_of
from .search import Search

SHARE = 0.5
"""Of the time, what is kept for choosing."""
POSITIVE = 1e-6
"""Reduced profit, relative to the largest value, from which on an option counts as one that was missing."""


class PriceCoordination:
    r"""Independent blocks buy shared resources at prices; a linear program sets the prices, a MIP makes the choice.

    For problems that are described as `Blocks` (`water_potability`, `tree_planting`, `site_care`, your own through
    `NeuralMIP.set_blocks`). Each round asks the networks in one batch for the best option of every block at the
    prices, from several starts; solves the linear program over all options found so far; smooths its prices; and
    rounds to a choice. When no option of positive reduced profit turns up any more, SCIP chooses among the options
    that are almost worth their price, and again after rounds at prices that favour what the last choice left over.
    Every choice is verified by the true networks.

    ``details["lp_value"]`` is the optimum of the linear program: what the choice is measured by, but no bound, since
    options may be missing (`certify` proves one); ``details["prices"]`` are its prices, ``details["pool"]`` all
    options.

    Parameters: `starts` of each block and mode in a round, `steps` of the NN block from each start, `max_rounds`,
    `smoothing` (weight of the earlier prices in the new ones, as long as they help), `idle_rounds` in a row without a
    new option that end the search, `choices` that SCIP makes at most (half of the time is theirs), `gap` and `nodes`
    at which it stops, `device` and `dtype` of the
    networks inside the NN block (options are valued on the CPU in double precision all the same).

    >>> from ddmip_lib.predictors import mlp
    >>> from ddmip_lib.problems import water_potability
    >>> solution = PriceCoordination().solve(water_potability(n=3, net=mlp(2, 16, 9, seed=1)))
    >>> solution.status, solution.objective <= solution.details["lp_value"] + 1e-6
    ('converged', True)
    """

    method = "price coordination"

    def __init__(
        self,
        starts: int = 4,
        steps: int = 24,
        max_rounds: int = 30,
        smoothing: float = 0.5,
        idle_rounds: int = 3,
        choices: int = 4,
        gap: float = 1e-6,
        nodes: int = 100,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float64,
    ) -> None:
        counts = {"steps": steps, "max_rounds": max_rounds, "nodes": nodes, "idle_rounds": idle_rounds,
                  "choices": choices}  # fmt: skip
        for name, count in counts.items():
            if int(count) != count or count < 1:
                raise ValueError(f"{name}={count} must be a positive integer.")
        if int(starts) != starts or starts < 2:
            raise ValueError(f"starts={starts} must be at least 2: the base point and the best option known.")
        if not 0 <= smoothing < 1:
            raise ValueError(f"smoothing={smoothing} must lie in [0, 1): 0 takes new prices as they are.")
        if not gap >= 0:
            raise ValueError(f"gap={gap} must not be negative.")
        self.max_rounds, self.smoothing, self.idle_rounds = int(max_rounds), smoothing, int(idle_rounds)
        self.choices, self.gap, self.nodes = int(choices), gap, int(nodes)
        self.search = Search(int(starts), int(steps), check_place(device, dtype), dtype)

    def solve(self, problem: NeuralMIP, time_limit: float = 60.0, seed: int = 0, progress: bool = False) -> Solution:
        """Run rounds until no option is missing, then choose; the best verified choice is returned."""
        market, status = self.start(problem, time_limit, seed), "iteration_limit"
        choosing = SHARE * market.seconds_left
        with tqdm(disable=not progress, desc=self.method, unit=" rounds") as bar:
            while status == "iteration_limit" and len(market.rounds) < self.max_rounds:
                if market.seconds_left <= choosing:
                    status = "time_limit"
                    break
                self.round(market)
                self._report(market, bar)
                if market.idle >= self.idle_rounds:
                    status = "converged"
            for k in range(self.choices):
                market.choose(self.gap, self.nodes, seed + k, thorough=k % 2 == 1)
                if market.settled or market.seconds_left <= 0 or k + 1 == self.choices:
                    break
                for seen in (market.scarcity(), market.jittered()):
                    self.round(market, seen)
                    self._report(market, bar)
        return self._solution(market, "time_limit" if market.seconds_left <= 0 else status)

    def _report(self, market: Market, bar: Any) -> None:
        latest = market.rounds[-1]
        bar.update(1)
        bar.set_postfix(incumbent=f"{latest.incumbent:.6g}", linear=f"{latest.lp_value:.6g}")

    def start(self, problem: NeuralMIP, time_limit: float = np.inf, seed: int = 0) -> Market:
        """The market before the first round; `round` and `Market.choose` continue from there."""
        began = time.perf_counter()
        check_call(problem, time_limit, seed)
        blocks = blocks_of(problem, "price coordination")
        incumbent = Incumbent(Compiled(problem.model, problem.predictors), began)
        incumbent.consider_start(problem.start, time_limit)
        return Market.empty(blocks, incumbent, began + time_limit, seed)

    def round(self, market: Market, seen: np.ndarray | None = None) -> None:
        """Options at the prices seen (or at others), the linear program with them, new prices, and a choice by
        rounding."""
        clock, before = [time.perf_counter()], market.lp
        market.seen = market.seen if seen is None else seen
        found = self.search.options(market)
        clock.append(time.perf_counter())
        new = len(found.at)
        if before is not None:
            use = market.blocks.use(*found)
            value = found.value * before.counts
            profit = value - use @ before.prices - before.earned[market.blocks.block[found.at]]
            new = int((profit > POSITIVE * market.scale).sum())
        market.pool.add(*found)
        market.lp = market.pool.prices()
        same = before is not None and before.counts == market.lp.counts
        smoothing = self.smoothing if new and same and seen is None else 0.0
        if len(market.pool):
            market.seen = smoothing * market.seen + (1 - smoothing) * market.lp.prices
        market.idle = 0 if new else market.idle + 1
        clock.append(time.perf_counter())
        market.offer(market.pool.rounded(market.lp.shares))
        clock.append(time.perf_counter())
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

    def _solution(self, market: Market, status: str) -> Solution:
        incumbent = market.incumbent
        details: dict[str, Any] = {"incumbents": incumbent.found, "options": len(market.pool)}
        if market.lp is not None and market.lp.counts:
            details |= {"lp_value": market.objective(market.lp.value), "prices": market.lp.prices, "pool": market.pool}
        if incumbent.values is None and status != "time_limit":
            status = "no_solution_found"
        seconds = time.perf_counter() - incumbent.began
        return Solution(
            status, self.method, **incumbent.point(), history=market.rounds, seconds=seconds, details=details
        )

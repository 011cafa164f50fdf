"""Price coordination: column generation with networks as pricing problems, and a MIP that selects
columns.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy import ndarray

from ..clock import now
from ..device import check_place
from ..errors import ProblemError
from ..methods import Callback, Method, Run
from ..methods.run import start_run
from ..model.blocks import Blocks
from ..model.incumbent import PointCallback
from ..model.problem import NeuralMIP
from ..model.progress import report_progress
from ..model.solution import Solution
from ..model.structure import Structure
from ..renamed import renamed_fields, renamed_keywords
from ..workers import Executor, check_client
from .general_blocks import GeneralColumnGeneration
from .network_oracle import NetworkOracle
from .recognition import require_blocks
from .state import ColumnGeneration, CoordinationState, Round

SELECTION_TIME_FRACTION = 0.5
"""Fraction of the time that is kept for the selection by SCIP."""
REDUCED_COST_TOLERANCE = 1e-6
"""Reduced cost, relative to the largest value, above which a column is new."""


@renamed_fields(idle_rounds="max_failed_rounds")
@dataclass(frozen=True)
class PriceCoordination(Method):
    r"""Column generation for problems that decompose into blocks with shared resources.

    The blocks are those described by `NeuralMIP.set_blocks`, or else those found in the model
    (`find_structure`). Each round solves the pricing problems of all blocks by the networks, in one
    batch and from several starts; solves the linear program over all columns found so far; smooths
    its prices; and rounds its solution to a choice. When no column of positive reduced cost is
    found any more, SCIP selects among the columns of nearly zero reduced cost, and again after
    rounds at prices that favour the resources left over. Blocks found that do not have the form of
    `Blocks` are priced by small MILPs (`general_blocks`), for which only `max_rounds` and
    `max_failed_rounds` matter. Every choice is verified by the true networks.

    ``details["lp_value"]`` is the optimal value of the linear program. It is no bound, since
    columns may be missing (`certify` proves one). ``details["prices"]`` are its prices,
    ``details["pool"]`` its columns.

    Parameters
    ----------
    starts
        Number of starts for each block and mode in a round.
    steps
        Number of steps of the NN block from each start.
    max_rounds
        Largest number of rounds before the selection.
    smoothing
        Weight of the earlier prices in the new ones.
    max_failed_rounds
        Number of rounds in a row without a new column after which the rounds end.
    choices
        Largest number of selections by SCIP.
    gap, nodes
        Relative gap and number of nodes at which SCIP stops.
    device, dtype
        Where and in which precision the NN block computes; values are computed on the CPU in
        double precision.
    callback
        Function that is called with a `ProgressEvent` after each round.
    client
        A `distributed.Client` whose workers evaluate the networks; the result does not depend on
        it.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    TypeError
        If `client` is not a client.

    Examples
    --------
    >>> from ddmip_lib.problems import shared_budget
    >>> solution = PriceCoordination().solve(shared_budget())
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
                f"starts={self.starts} must be an integer of at least 2: the first two starts are"
                " the base point and the best known column."
            )
        if not 0 <= self.smoothing < 1:
            raise ValueError(
                f"smoothing={self.smoothing} must lie in [0, 1): use 0 for no smoothing."
            )
        if not self.gap >= 0:
            raise ValueError(f"gap={self.gap} must not be negative.")
        check_place(self.device, self.dtype)
        check_client(self.client)

    @property
    def search(self) -> NetworkOracle:
        """The pricing oracle."""
        return NetworkOracle(
            int(self.starts), int(self.steps), torch.device(self.device), self.dtype
        )

    def run(self, run: Run) -> Solution:
        """Run rounds until no column is missing, then select columns."""
        blocks = require_blocks(run.problem, run.instance, self.method)
        if isinstance(blocks, Structure):
            search = GeneralColumnGeneration(run.incumbent(), blocks, run.deadline, run.seed)
            run.state = search
            return search.solution(run, search.run(run, self.max_rounds, self.max_failed_rounds))
        state = self._first_state(run, blocks)
        run.state = state
        return state.solution(run, self._rounds(state, run))

    def interrupted(self, run: Run, status: str) -> Solution:
        """Return the best verified point of a run that ended early."""
        state: ColumnGeneration | None = run.state
        return run.interrupted_solution(status) if state is None else state.solution(run, status)

    def _rounds(self, state: CoordinationState, run: Run) -> str:
        """Generate and select columns; return the status."""
        status = self._generate_columns(state, run)
        if status == "stopped" or self._select(state, run):
            return "stopped"
        return "time_limit" if state.seconds_left <= 0 else status

    def _generate_columns(self, state: CoordinationState, run: Run) -> str:
        """Run rounds until no column is missing or half of the time is over; return the status."""
        reserved = SELECTION_TIME_FRACTION * state.seconds_left
        while len(state.rounds) < self.max_rounds:
            if state.seconds_left <= reserved:
                return "time_limit"
            self.round(state)
            report_progress(turn=True)
            if run.notify():
                return "stopped"
            if state.idle >= self.max_failed_rounds:
                return "converged"
        return "iteration_limit"

    def _select(self, state: CoordinationState, run: Run) -> bool:
        """Select columns by SCIP, with rounds in between; return whether the callback ends it."""
        for k in range(self.choices):
            state.choose(self.gap, self.nodes, run.seed + k, thorough=k % 2 == 1)
            if state.settled or state.seconds_left <= 0 or k + 1 == self.choices:
                break
            for prices in (state.scarcity(), state.jittered()):
                if state.seconds_left <= 0:
                    break
                self.round(state, prices)
                report_progress(turn=True)
                if run.notify():
                    return True
        return False

    @renamed_keywords(visit="on_point")
    def start(
        self,
        problem: NeuralMIP,
        time_limit: float = np.inf,
        seed: int = 0,
        on_point: PointCallback | None = None,
    ) -> CoordinationState:
        """Return the state before the first round, to call `round` and `CoordinationState.choose`.

        Parameters
        ----------
        problem, time_limit, seed, on_point
            As in `solve`.

        Raises
        ------
        ProblemError
            If the problem does not decompose, or its blocks do not have the form of `Blocks`.
        """
        run = start_run(problem, time_limit, seed, on_point)
        blocks = require_blocks(problem, run.instance, self.method)
        if isinstance(blocks, Structure):
            raise ProblemError(
                f"single rounds need blocks of the form of Blocks: call solve() for {blocks!r}."
            )
        return self._first_state(run, blocks)

    def _first_state(self, run: Run, blocks: Blocks) -> CoordinationState:
        executor = Executor(self.client)
        return CoordinationState.empty(blocks, run.incumbent(), run.deadline, run.seed, executor)

    @renamed_keywords(market="state", seen="prices")
    def round(self, state: CoordinationState, prices: ndarray | None = None) -> None:
        """Run one round: columns, the linear program, new prices, and a choice by rounding.

        Parameters
        ----------
        state
            The state, which is changed.
        prices
            Prices for this round in place of `state.next_prices`.
        """
        times = [now()]
        pool = state.pool
        if prices is not None:
            state.next_prices = prices
        found = self.search.options(state)
        times.append(now())
        before = state.lp
        new = len(found.at)
        if before is not None:
            blocks = state.blocks
            reduced = before.reduced(blocks.block[found.at], found.value, blocks.use(*found))
            new = int((reduced > REDUCED_COST_TOLERANCE * state.scale).sum())
        pool.add(*found)
        state.lp = pool.prices(before)
        comparable = before is not None and before.phase_factor == state.lp.phase_factor
        smoothing = self.smoothing if new and comparable and prices is None else 0.0
        if len(pool):
            state.next_prices = smoothing * state.next_prices + (1 - smoothing) * state.lp.prices
        state.idle = 0 if new else state.idle + 1
        times.append(now())
        state.offer(pool.rounded(state.lp.weights))
        times.append(now())
        _record_round(state, new, smoothing, times)


def _record_round(state: CoordinationState, new: int, smoothing: float, times: list[float]) -> None:
    assert state.lp is not None
    objective = state.incumbent.objective
    seconds_nn, seconds_lp, seconds_mip = np.diff(times).tolist()
    state.rounds.append(
        Round(
            k=len(state.rounds) + 1,
            lp_value=state.objective(state.lp.value) if state.lp.phase_factor else np.nan,
            incumbent=np.nan if objective is None else objective,
            options=len(state.pool),
            new=new,
            smoothing=smoothing,
            seconds_nn=seconds_nn,
            seconds_lp=seconds_lp,
            seconds_mip=seconds_mip,
            seconds=times[-1] - state.incumbent.began,
            prices=state.lp.prices,
        )
    )

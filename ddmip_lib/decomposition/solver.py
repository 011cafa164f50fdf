"""Algorithm 1 of the paper: MIP block, NN block, multiplier, penalty, in this order."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import torch

from ..clock import now
from ..device import check_place
from ..methods import Method, Run
from ..methods.run import start_run
from ..model.incumbent import PointCallback
from ..model.instance import Instance
from ..model.problem import NeuralMIP
from ..model.progress import report_progress
from ..model.solution import History, Solution
from ..renamed import renamed_keywords
from .admm_state import ADMMState, Restart
from .barrier import LogBarrier
from .graph_split import GraphSplit
from .mip_block import mip_block, potential_gain
from .nn_block import NNBlock, NNSubproblem
from .paper_split import NotSeparable, PaperSplit
from .penalty import Fixed, PenaltyRule, ResidualInfo, as_rule, positive
from .pgd import PGD
from .split import Split
from .starts import Restarts
from .stopping import Stopping

RESTARTS = 40  # runs in a row without a better point after which nobody tries again


@dataclass(frozen=True)
class DualDecomposition(Method):
    r"""Augmented-Lagrangian splitting of a neural MIP, with the best verified point as its answer.

    Each iteration does, in this order,

    $$x^{k+1} \in \arg\min_{x \in X}\ c^\top x - \lambda^{k\top} x + \tfrac{\rho}{2}\lVert x
    - u^k\rVert^2,$$

    $$u^{k+1} \approx \arg\min_u\ g(u) + \lambda^{k\top}(u - x^{k+1})
    + \tfrac{\rho}{2}\lVert u - x^{k+1}\rVert^2,$$

    $$\lambda^{k+1} = \lambda^k + \rho\,(u^{k+1} - x^{k+1}).$$

    An x-step with integers stops at a small gap, no worse than the point before. The run settles
    when $\lVert u - x\rVert_\infty$ and $\rho\lVert u^{k+1} - u^k\rVert_\infty$ are below the
    tolerances, or when a state repeats. Every $x^k$ is verified by the true network and competes to
    be the incumbent. It proves no bound.

    A run whose start and penalty nobody has chosen begins again, from points of the rows nearest to
    random points and by either split in turn, until `restarts` runs one after another have found
    nothing better; where rows hold outputs, the last $x^k$ of each sweep is moved onto them. There
    the penalty of an input falls with the square of its range, so that units do not matter.

    Parameters: `nn_block` (default: `PGD`), `penalty` (a number, a pair for inputs and outputs, or
    a rule; default: `Sweeps`), `split` ("paper": outputs stay in the NN block; "graph": outputs are
    coupled too, $f(u) = y$; None: the paper's where it exists), `max_iterations`,
    `primal_tolerance`, `dual_tolerance` (None: no dual test), `detect_cycles`, `temperature` of the
    sigmoid that stands for a class (None: a quarter, an eighth and half of the median size of the
    logits at the start, sweep by sweep), `multiplier_bound` (a safeguard: multipliers are clipped
    to this size), `callback(run)` after each iteration (a true result stops the run), `device` and
    `dtype` of the networks inside the NN block (points are judged there too, in double precision,
    and the answer on the CPU in the end), `restarts` (None: 40, and 0 where the problem has a
    start, or a penalty or another number of iterations is given). Settings do not change;
    `dataclasses.replace` makes others.

    >>> from ddmip_lib.problems import hand_sized
    >>> frozen, moving = (DualDecomposition(penalty=rho).solve(hand_sized()) for rho in (10.0, 1.0))
    >>> frozen.status, frozen.objective, moving.status, moving.objective
    ('converged', 1.5, 'cycle', 0.5)
    """

    nn_block: NNBlock | None = None
    penalty: PenaltyRule | float | tuple[float, float] | None = None
    split: str | None = None
    max_iterations: int = 1000
    primal_tolerance: float = 1e-4
    dual_tolerance: float | None = 1e-4
    detect_cycles: bool = True
    temperature: float | None = None
    multiplier_bound: float | None = None
    callback: Callable[[ADMMState], Any] | None = None
    device: torch.device | str = "cpu"
    dtype: torch.dtype = torch.float64
    restarts: int | None = None
    method: str = "dual decomposition"

    def __post_init__(self) -> None:
        if not isinstance(self.nn_block, NNBlock | None):
            raise TypeError(f"nn_block must be an NNBlock such as PGD(), not {self.nn_block!r}.")
        if self.split not in (None, "paper", "graph"):
            raise ValueError(f"split={self.split!r} is unknown; choose 'paper', 'graph' or None.")
        if int(self.max_iterations) != self.max_iterations or self.max_iterations < 1:
            raise ValueError(f"max_iterations={self.max_iterations} must be a positive integer.")
        for name in ("primal_tolerance", "dual_tolerance", "temperature", "multiplier_bound"):
            if (value := getattr(self, name)) is not None or name == "primal_tolerance":
                positive(value, name)
        if self.restarts is not None and (int(self.restarts) != self.restarts or self.restarts < 0):
            raise ValueError(f"restarts={self.restarts} must be a nonnegative integer, or None.")
        if self.penalty is not None:
            as_rule(self.penalty)
        check_place(self.device, self.dtype)

    @classmethod
    def paper(cls, nn_block: str = "pgd") -> Self:
        """The paper's settings: rho = 10 fixed, primal test alone, 50 iterations; in the NN block
        25 steps of a fresh Adam ("pgd"), a damped Newton barrier ("barrier"), or what the paper's
        set-up calls the barrier variant, L-BFGS-B ("lbfgsb"). Its time limit of 300 s is an
        argument of `solve`.
        """
        blocks: dict[str, NNBlock] = {
            "pgd": PGD(steps=25, method="adam", learning_rate=0.01),
            "barrier": LogBarrier.paper(),
            "lbfgsb": LogBarrier.paper("lbfgsb"),
        }
        if nn_block not in blocks:
            raise ValueError(
                f"nn_block={nn_block!r} is unknown; choose one of {', '.join(map(repr, blocks))}."
            )
        return cls(
            blocks[nn_block],
            Fixed(10.0),
            max_iterations=50,
            dual_tolerance=None,
            detect_cycles=False,
            temperature=1.0,
            method="dual decomposition, the paper's settings",
        )

    @renamed_keywords(visit="on_point")
    def start(
        self,
        problem: NeuralMIP,
        time_limit: float = np.inf,
        seed: int = 0,
        on_point: PointCallback | None = None,
    ) -> ADMMState:
        """Set up the blocks and the state of iteration 0; `step` continues from there."""
        return self._start(start_run(problem, time_limit, seed, on_point))

    def _start(self, run: Run, again: Restart | None = None) -> ADMMState:
        """The first run, or one that begins `again` elsewhere with the best point and the history
        of those before.
        """
        seed = run.seed
        device = torch.device(self.device)
        start = run.problem.start if again is None else again.inputs
        split = self._split(run.instance, start, other=again is not None and again.other_split)
        split.place(device, self.dtype)
        penalty = (
            split.default_rule(again is not None)
            if self.penalty is None
            else copy.deepcopy(as_rule(self.penalty))
        )
        split.admits(penalty)
        mip = mip_block(split, seed, run.deadline)
        if again is None:
            incumbent = run.incumbent(
                split.onoff, screen_on=None if device.type == "cpu" else device
            )
        else:
            incumbent = again.before.incumbent
        copies = split.copies(split.start)
        gain = potential_gain(split, mip, incumbent, run.deadline) if split.couples_outputs else 0.0
        return ADMMState(
            split=split,
            mip=mip,
            nn=(self.nn_block or PGD()).fresh(),
            penalty=penalty,
            incumbent=incumbent,
            u=split.start,
            copies=copies,
            lam=np.zeros_like(copies),
            rho=penalty.first(split.scale(gain, seed)),
            deadline=run.deadline,
            began=run.began,
            history=History() if again is None else again.before.history,
        )

    def _split(
        self, instance: Instance, start: list[np.ndarray] | None, other: bool = False
    ) -> Split:
        """The split asked for or, where none is, the paper's if it exists; the other one where
        `other`.
        """
        weighted = self.penalty is None
        if self.split == "graph" or (other and self.split is None):
            return GraphSplit(instance, start, weighted)
        try:
            return PaperSplit(instance, start, self.temperature, weighted)
        except NotSeparable:
            if self.split == "paper":
                raise
            return GraphSplit(instance, start, weighted)

    def step(self, state: ADMMState) -> ADMMState:
        """One iteration of Algorithm 1; `run.stopped` says when a block could not go on."""
        clock = [now()]
        before = copy.copy(state)
        rho = state.split.weights(state.rho)
        # x-step: the MIP block
        block = state.mip.solve(state.lam, state.copies, rho, state.deadline)
        if block.values is None:
            state.stopped = block.status
            return state
        state.x = block.values
        clock.append(now())
        # u-step: the NN block
        state.sub = NNSubproblem(state.split, state.w, state.lam, state.rho, state.deadline)
        state.u = state.nn.step(state.sub, state.u)
        state.copies = state.split.copies(state.u)
        clock.append(now())
        # multiplier, with the penalty of both steps
        r = state.copies - state.w
        state.lam = self._guarded(state.lam + rho * r)
        state.split.tighten(state.w)
        state.k += 1
        # the iterate, judged by the true network; then the penalty of the next iteration
        state.judge()
        moved = rho * (state.copies - before.copies)
        primal, dual = (
            state.split.by_part(state.split.in_stretches(*v)) for v in ((r, 1), (moved, -1))
        )
        state.record(max(primal), max(dual), clock, block.seconds)
        self._next_penalty(state, before, primal, dual)
        return state

    def _guarded(self, lam: np.ndarray) -> np.ndarray:
        return (
            lam
            if self.multiplier_bound is None
            else np.clip(lam, -self.multiplier_bound, self.multiplier_bound)
        )

    def _next_penalty(
        self,
        state: ADMMState,
        before: ADMMState,
        primal: tuple[float, float],
        dual: tuple[float, float],
    ) -> None:
        """Ask the rule for the penalty of the next iteration, or stop the run."""
        if state.seconds_left <= 0:  # a block that was cut short says nothing about convergence
            state.stopped = "time_limit"
            return
        stopping = Stopping(self.primal_tolerance, self.dual_tolerance, self.detect_cycles)
        converged = stopping.converged(state, max(primal), max(dual))
        settled = converged or stopping.repeats(state, max(*primal, *dual))
        following = state.penalty.after(
            ResidualInfo(state.rho, primal, dual, settled, partial(state.descends_from, before))
        )
        if (
            following is None
            and not settled
            and state.split.couples_outputs
            and state.incumbent.values is None
        ):
            following = (
                state.rho
            )  # nothing found yet: the last penalty may still bring the blocks together
        if following is None or following.inputs < state.rho.inputs:  # a sweep ends
            state.put_onto_rows()
            state.split.next_sweep()
        if following is None:
            state.stopped = "converged" if converged else "cycle" if settled else "iteration_limit"
        else:
            state.rho = following

    def run(self, run: Run) -> Solution:
        """Run Algorithm 1, repeatedly if neither start nor penalty was given."""
        run.state = []
        for state in self._runs(run):
            run.state.append(state)
            self._iterate(state, run)
        return self._solution(run.state)

    def interrupted(self, run: Run, status: str) -> Solution:
        if not run.state:
            return run.interrupted_solution(status)
        return self._solution(run.state, status)

    def _runs(self, run: Run) -> Iterator[ADMMState]:
        """The run from the problem's start, then others, until `restarts` in a row have found
        nothing better.
        """
        state = self._start(run)
        patience = self._patience(run.problem)
        if not patience:
            yield state
            return
        starts = Restarts(run, state.incumbent)
        points = iter(starts)
        idle = 0
        other = False
        while True:
            state.restore = starts.restore
            yield state
            idle = 0 if state.improved else idle + 1
            if idle > patience or state.stopped in ("infeasible", "time_limit", "stopped"):
                return
            inputs = next(points, None)
            if inputs is None:
                return
            other = not other
            state = self._start(run, Restart(inputs, other, state))

    def _patience(self, problem: NeuralMIP) -> int:
        if self.restarts is not None:
            return self.restarts
        chosen = problem.start is not None or self.penalty is not None
        return 0 if chosen or self.max_iterations != type(self).max_iterations else RESTARTS

    def _iterate(self, state: ADMMState, run: Run) -> None:
        while state.stopped is None:
            if state.seconds_left <= 0:
                state.stopped = "time_limit"
            elif state.k == self.max_iterations:
                state.stopped = "iteration_limit"
            else:
                k = state.k
                self.step(state)
                if state.k > k:
                    self._report(state, run)
        report_progress(turn=True)

    def _report(self, state: ADMMState, run: Run) -> None:
        report_progress()
        if self.callback is not None and self.callback(state) and state.stopped is None:
            state.stopped = "stopped"
            run.stop(True)

    def _solution(self, states: list[ADMMState], cut_short: str | None = None) -> Solution:
        """The best point of all runs; `cut_short` is the status of a run that ended in the middle
        of an iteration.
        """
        state = next((state for state in reversed(states) if state.improved), states[-1])
        state.incumbent.settle()
        ended = states[-1].stopped in ("time_limit", "stopped")
        stopped = cut_short or (states[-1].stopped if ended else state.stopped)
        assert stopped is not None
        if stopped == "infeasible" and not state.split.proves_infeasible(
            min(60.0, state.seconds_left)
        ):
            stopped = "stopped"
        interrupted = cut_short == "stopped"
        if state.incumbent.values is None and not interrupted:
            status = stopped if stopped in ("infeasible", "time_limit") else "no_solution_found"
        else:
            status = "stopped" if stopped == "infeasible" else stopped
        details: dict[str, Any] = {
            "split": state.split.name,
            "incumbents": state.incumbent.found,
            **state.nn.remarks(),
        }
        if len(states) > 1:
            details["runs"] = len(states)
        if interrupted:
            details["interrupted"] = True
        if state.incumbent.seen:
            details["points"] = len(state.incumbent.seen)
        return Solution(
            status=status,
            method=self.method,
            **state.incumbent.point(),
            history=state.history,
            seconds=now() - state.began,
            objective_last=(
                state.last.objective if state.last is not None and state.last.feasible else None
            ),
            details=details,
        )

"""Algorithm 1 of the paper: MIP block, NN block, multiplier, penalty, in this order."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy import ndarray

from ..clock import now
from ..device import check_place
from ..linearisation import Restoration
from ..methods import Method, Run
from ..methods.run import start_run
from ..model.incumbent import PointCallback
from ..model.instance import Instance
from ..model.problem import NeuralMIP
from ..model.progress import report_progress
from ..model.solution import Solution
from ..programs.scip import copy_model, has_point
from ..renamed import renamed_keywords
from .admm_state import ADMMState
from .barrier import LogBarrier
from .graph_split import GraphSplit
from .mip_block import mip_block, potential_gain
from .nn_block import NNBlock, NNSubproblem
from .paper_split import NotSeparable, PaperSplit
from .penalty import Fixed, PenaltyRule, ResidualInfo, as_rule, positive
from .pgd import PGD
from .split import Split
from .stopping import Stopping

MAX_FAILED_RESTARTS = 40
"""Number of consecutive runs without a better point after which a call ends, by default."""
MAX_SECONDS_TO_PROVE = 60.0
"""Time limit for the proof that the user's model is infeasible, in seconds."""


@dataclass(frozen=True)
class DualDecomposition(Method):
    r"""Augmented-Lagrangian splitting of a neural MIP, which returns the best verified point.

    Each iteration does, in this order,

    $$x^{k+1} \in \arg\min_{x \in X}\ c^\top x - \lambda^{k\top} x + \tfrac{\rho}{2}\lVert x
    - u^k\rVert^2,$$

    $$u^{k+1} \approx \arg\min_u\ g(u) + \lambda^{k\top}(u - x^{k+1})
    + \tfrac{\rho}{2}\lVert u - x^{k+1}\rVert^2,$$

    $$\lambda^{k+1} = \lambda^k + \rho\,(u^{k+1} - x^{k+1}).$$

    An x-update with integers stops at a small gap, with a point no worse than the one before. A run
    ends when $\lVert u - x\rVert_\infty$ and $\rho\lVert u^{k+1} - u^k\rVert_\infty$ are below the
    tolerances, or when a state repeats. Every $x^k$ is verified by the true network as a candidate
    for the incumbent. The method proves no bound.

    If neither start nor penalty is given, further runs follow, from points of the constraints
    nearest to random points and alternately by either split, until `restarts` consecutive runs
    have found nothing better; where constraints hold outputs, feasible points near the last $x^k$
    of each penalty cycle are submitted. In these runs the penalty of an input falls with the square
    of its range, so that the units of the inputs have no effect.

    Settings do not change; `dataclasses.replace` makes others.

    Attributes
    ----------
    nn_block
        Method for the u-update; None for `PGD`.
    penalty
        A number, a pair for inputs and outputs, or a rule; None for `Sweeps`.
    split
        "paper": outputs belong to the NN block. "graph": outputs are coupled too, $f(u) = y$. None:
        the paper's where it exists.
    max_iterations
        Maximum number of iterations of a run.
    primal_tolerance
        Tolerance on $\lVert u - x\rVert_\infty$.
    dual_tolerance
        Tolerance on $\rho\lVert u^{k+1} - u^k\rVert_\infty$; None for no dual test.
    detect_cycles
        Whether a run ends when its state repeats.
    temperature
        Temperature of the sigmoid that replaces a class; None for a quarter, an eighth and half of
        the median logit at the start, in consecutive penalty cycles.
    multiplier_bound
        A safeguard: multipliers are clipped to this absolute value.
    callback
        Function that is called with the `ADMMState` after each iteration; a true result stops the
        run.
    device, dtype
        Where and in which precision the NN block evaluates the networks. Points are screened on
        this device, in double precision, and the returned one is verified on the CPU.
    restarts
        Number of consecutive runs without a better point; None for 40, and for 0 where the problem
        has a start, or a penalty or another number of iterations is given.
    method
        Name of the method, as in `Solution.method`.

    Raises
    ------
    TypeError
        If `nn_block` or `penalty` has a wrong type.
    ValueError
        If a setting is out of range.

    Examples
    --------
    >>> from ddmip_lib.problems import hand_sized
    >>> stalled = DualDecomposition(penalty=10.0).solve(hand_sized())
    >>> stalled.status, stalled.objective
    ('converged', 1.5)
    >>> moving = DualDecomposition(penalty=1.0).solve(hand_sized())
    >>> moving.status, moving.objective
    ('cycle', 0.5)
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
        positive(self.primal_tolerance, "primal_tolerance")
        for name in ("dual_tolerance", "temperature", "multiplier_bound"):
            value = getattr(self, name)
            if value is not None:
                positive(value, name)
        if self.restarts is not None and (int(self.restarts) != self.restarts or self.restarts < 0):
            raise ValueError(f"restarts={self.restarts} must be a nonnegative integer, or None.")
        if self.penalty is not None:
            as_rule(self.penalty)
        check_place(self.device, self.dtype)

    @classmethod
    def paper(cls, nn_block: str = "pgd") -> Self:
        r"""Return the paper's settings: $\rho = 10$ fixed, primal test alone, 50 iterations.

        The paper's time limit of 300 s is an argument of `solve`.

        Parameters
        ----------
        nn_block
            "pgd": 25 steps of Adam. "barrier": a damped Newton barrier method. "lbfgsb": L-BFGS-B,
            the barrier variant of the paper's experiments.

        Raises
        ------
        ValueError
            If `nn_block` is none of these.
        """
        blocks: dict[str, NNBlock] = {
            "pgd": PGD(steps=25, method="adam", learning_rate=0.01),
            "barrier": LogBarrier.paper(),
            "lbfgsb": LogBarrier.paper("lbfgsb"),
        }
        if nn_block not in blocks:
            names = ", ".join(map(repr, blocks))
            raise ValueError(f"nn_block={nn_block!r} is unknown; choose one of {names}.")
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
        """Return the blocks and the state of iteration 0, from which `step` continues.

        Parameters
        ----------
        problem
            The problem.
        time_limit
            Seconds after which the blocks stop.
        seed
            Seed of all random numbers.
        on_point
            Function that is called with the network inputs of every evaluated point.
        """
        run = start_run(problem, time_limit, seed, on_point)
        return self._state(run, run.start)

    def _state(self, run: Run, start: list[ndarray] | None, other_split: bool = False) -> ADMMState:
        """The state of iteration 0; every one after the first shares the incumbent of the call."""
        split = self._split(run.instance, start, other_split)
        device = torch.device(self.device)
        split.place(device, self.dtype)
        given = None if self.penalty is None else as_rule(self.penalty)
        penalty = split.penalty_rule(given, again=run.best is not None)
        mip = mip_block(split, run.seed, run.deadline)
        screen_on = None if device.type == "cpu" else device
        incumbent = run.best or run.incumbent(split.onoff, screen_on)
        copies = split.copies(split.start)
        gain = potential_gain(split, mip, incumbent, run.deadline) if split.couples_outputs else 0.0
        return ADMMState(
            call=run,
            split=split,
            mip_block=mip,
            nn_block=(self.nn_block or PGD()).fresh(),
            penalty=penalty,
            incumbent=incumbent,
            u=split.start,
            copies=copies,
            lam=np.zeros_like(copies),
            rho=penalty.first(split.scale(gain, run.seed)),
        )

    def _split(self, instance: Instance, start: list[ndarray] | None, other: bool = False) -> Split:
        """The chosen split or, if none was chosen, the paper's where it exists; the other one if
        `other`.
        """
        weighted = self.penalty is None
        if self.split == "paper" or (self.split is None and not other):
            try:
                return PaperSplit(instance, start, self.temperature, weighted)
            except NotSeparable:
                if self.split == "paper":
                    raise
        return GraphSplit(instance, start, weighted)

    def step(self, state: ADMMState) -> ADMMState:
        """Do one iteration of Algorithm 1 in place.

        Parameters
        ----------
        state
            A state from `start` or `step`; its `stopped` is set if a block failed or the run is
            over.

        Returns
        -------
        ADMMState
            The same object.
        """
        began = now()
        before = copy.copy(state)
        rho = state.split.weights(state.rho)
        # x-update: the MIP block
        block = state.mip_block.solve(state.lam, state.copies, rho, state.deadline)
        if block.values is None:
            state.stopped = block.status
            return state
        state.x = block.values
        mip_ended = now()
        # u-update: the NN block
        state.subproblem = NNSubproblem(state.split, state.w, state.lam, state.rho, state.deadline)
        state.u = state.nn_block.step(state.subproblem, state.u)
        state.copies = state.split.copies(state.u)
        nn_ended = now()
        # multiplier update, with the penalty of both steps
        r = state.copies - state.w
        state.lam = state.lam + rho * r
        if self.multiplier_bound is not None:
            state.lam = np.clip(state.lam, -self.multiplier_bound, self.multiplier_bound)
        state.split.tighten(state.w)
        state.k += 1
        primal = state.split.residual(r)
        dual = state.split.residual(rho * (state.copies - before.copies), -1)
        # the iterate, verified by the true network; then the penalty of the next iteration
        state.record(
            max(primal),
            max(dual),
            seconds_mip=mip_ended - began,
            seconds_solver=block.seconds,
            seconds_nn=nn_ended - mip_ended,
        )
        if state.seconds_left <= 0:  # a truncated block shows nothing about convergence
            state.stopped = "time_limit"
        else:
            self._next_penalty(state, before, primal, dual)
        return state

    def _next_penalty(
        self,
        state: ADMMState,
        before: ADMMState,
        primal: tuple[float, float],
        dual: tuple[float, float],
    ) -> None:
        """Set the penalty of the next iteration, or end the run."""
        stopping = Stopping(self.primal_tolerance, self.dual_tolerance, self.detect_cycles)
        settled = None
        if stopping.converged(state, max(primal), max(dual)):
            settled = "converged"
        elif stopping.repeats(state, max(*primal, *dual)):
            settled = "cycle"
        descends = partial(state.descends_from, before)
        info = ResidualInfo(state.rho, primal, dual, settled is not None, descends)
        following = state.penalty.after(info)
        without_point = state.split.couples_outputs and state.incumbent.values is None
        if following is None and settled is None and without_point:
            following = state.rho  # with the last penalty the blocks may still agree
        if following is None or following.inputs < state.rho.inputs:  # the penalty cycle ends
            state.restore_feasibility()
            state.split.end_cycle()
        if following is None:
            state.stopped = settled or "iteration_limit"
        else:
            state.rho = following

    def run(self, run: Run) -> Solution:
        """Run Algorithm 1, repeatedly if neither start nor penalty was given."""
        run.state = []
        for state in self._runs(run):
            run.state.append(state)
            self._iterate(state)
        return self._solution(run)

    def interrupted(self, run: Run, status: str) -> Solution:
        if not run.state:
            return run.interrupted_solution(status)
        return self._solution(run, status)

    def _runs(self, run: Run) -> Iterator[ADMMState]:
        """Yield the states of the run from the problem's start, and of further runs until too many
        consecutive ones have found nothing better.
        """
        state = self._state(run, run.start)
        max_failed = self.restarts
        if max_failed is None:
            given = run.problem.start is not None or self.penalty is not None
            other_length = self.max_iterations != type(self).max_iterations
            max_failed = 0 if given or other_length else MAX_FAILED_RESTARTS
        if not max_failed:
            yield state
            return
        restoration = Restoration(run, state.incumbent)
        starts = restoration.starts()
        failed = 0
        other_split = False
        while True:
            state.restore = restoration.restore
            yield state
            failed = 0 if state.improved else failed + 1
            if failed > max_failed or state.stopped in ("infeasible", "time_limit", "stopped"):
                return
            inputs = next(starts, None)
            if inputs is None:
                return
            other_split = not other_split
            state = self._state(run, inputs, other_split)

    def _iterate(self, state: ADMMState) -> None:
        while state.stopped is None:
            if state.seconds_left <= 0:
                state.stopped = "time_limit"
            elif state.k == self.max_iterations:
                state.stopped = "iteration_limit"
            else:
                k = state.k
                self.step(state)
                if state.k == k:  # the MIP block has failed
                    break
                report_progress()
                if self.callback is not None and self.callback(state) and state.stopped is None:
                    state.stopped = "stopped"
                    state.call.stop(True)
        report_progress(turn=True)

    def _solution(self, run: Run, cut_short: str | None = None) -> Solution:
        """The solution after all runs; `cut_short` is the status of a run that ended in the middle
        of an iteration.
        """
        states: list[ADMMState] = run.state
        state = next((state for state in reversed(states) if state.improved), states[-1])
        state.incumbent.confirm_on_cpu()
        run.details = {"split": state.split.name, **state.nn_block.remarks()}
        if len(states) > 1:
            run.details["runs"] = len(states)
        if cut_short == "stopped":
            run.details["interrupted"] = True
        if state.incumbent.completed:
            run.details["points"] = len(state.incumbent.completed)
        ended_by = cut_short or states[-1].stopped
        status = ended_by if ended_by in ("time_limit", "stopped") else state.stopped
        assert status is not None
        found = state.incumbent.values is not None
        if status == "infeasible" and (found or not self._proves_infeasible(state)):
            status = "stopped"
        unproved = status not in ("infeasible", "time_limit")
        if not found and unproved and cut_short != "stopped":
            status = "no_solution_found"
        last = state.last
        objective = last.objective if last is not None and last.feasible else None
        return run.solution(status, objective_last=objective)

    def _proves_infeasible(self, state: ADMMState) -> bool:
        """Whether the user's model is infeasible, as the MIP block is."""
        if not state.split.couples_outputs:  # the constraints of the block are some of the user's
            return True
        # the block's output ranges may be estimates
        seconds = min(MAX_SECONDS_TO_PROVE, state.seconds_left)
        return not has_point(copy_model(state.split.instance.model), seconds)

"""Algorithm 1 of the paper: MIP block, NN block, multiplier, penalty, in this order."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from numbers import Real
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from .blocks.mip import BlockResult, MILPBlock, QPBlock, mip_block
from .blocks.pgd import PGD, NNBlock, NNSubproblem
from .compiled import Compiled
from .incumbent import Incumbent
from .penalty import Fixed, PenaltyRule, Sweeps, penalty_scale, positive
from .problem import NeuralMIP, check_call
from .solution import History, Iteration, Solution
from .split import PaperSplit
from .verification import Verification


@dataclass
class Run:
    """The state of Algorithm 1 between two iterations."""

    compiled: Compiled
    split: PaperSplit
    mip: QPBlock | MILPBlock
    nn: NNBlock
    penalty: PenaltyRule
    incumbent: Incumbent
    u: np.ndarray
    lam: np.ndarray
    rho: float
    deadline: float
    began: float
    x: np.ndarray | None = None
    k: int = 0
    last: Verification | None = None
    history: History = field(default_factory=History)
    seen: set[tuple[float, bytes]] = field(default_factory=set)
    stopped: str | None = None

    def lagrangian(self) -> float:
        """L_rho(x, u, lambda) as a minimisation, with the costs of all variables of the MIP block."""
        assert self.x is not None
        r = self.u - self.x[self.split.coupled]
        with torch.no_grad():
            g = self.split.g(torch.tensor(self.u)).item()
        return float(self.split.cost @ self.x + g + self.lam @ r + 0.5 * self.rho * r @ r)


class DualDecomposition:
    r"""Augmented-Lagrangian splitting of a neural MIP, with the best verified point as its answer.

    Each iteration does, in this order,

    $$x^{k+1} \in \arg\min_{x \in X}\ c^\top x - \lambda^{k\top} x + \tfrac{\rho}{2}\lVert x - u^k\rVert^2,$$

    $$u^{k+1} \approx \arg\min_u\ g(u) + \lambda^{k\top}(u - x^{k+1}) + \tfrac{\rho}{2}\lVert u - x^{k+1}\rVert^2,$$

    $$\lambda^{k+1} = \lambda^k + \rho\,(u^{k+1} - x^{k+1}).$$

    It settles when $\lVert u - x\rVert_\infty$ and $\rho\lVert u^{k+1} - u^k\rVert_\infty$ are below the tolerances,
    or when a state repeats. Every $x^k$ is verified by the true network and competes to be the incumbent.
    It proves no bound.

    Parameters: `nn_block` (default: `PGD`), `penalty` (a number or a rule; default: `Sweeps`), `max_iterations`,
    `primal_tolerance`, `dual_tolerance` (None: no dual test), `detect_cycles`, `temperature` of the sigmoid that
    stands for a class (None: half the median size of the logits at the start), `callback(run)` after each
    iteration (a true result stops the run).

    >>> from ddmip_lib.problems import hand_sized
    >>> frozen, moving = (DualDecomposition(penalty=rho).solve(hand_sized()) for rho in (10.0, 1.0))
    >>> frozen.status, frozen.objective, moving.status, moving.objective
    ('converged', 1.5, 'cycle', 0.5)
    """

    def __init__(
        self,
        nn_block: NNBlock | None = None,
        penalty: float | PenaltyRule | None = None,
        max_iterations: int = 1000,
        primal_tolerance: float = 1e-4,
        dual_tolerance: float | None = 1e-4,
        detect_cycles: bool = True,
        temperature: float | None = None,
        callback: Callable[[Run], Any] | None = None,
    ) -> None:
        if int(max_iterations) != max_iterations or max_iterations < 1:
            raise ValueError(f"max_iterations={max_iterations} must be a positive integer.")
        self.nn_block: NNBlock = PGD() if nn_block is None else nn_block
        if isinstance(nn_block, type) or not hasattr(self.nn_block, "minimise"):
            raise TypeError(f"nn_block must be an instance such as PGD(), not {nn_block!r}.")
        rule = Sweeps() if penalty is None else penalty
        self.penalty: PenaltyRule = Fixed(float(rule)) if isinstance(rule, (Real, float)) else rule
        if isinstance(rule, type) or not hasattr(self.penalty, "after"):
            raise TypeError(f"penalty must be a number or a rule such as Sweeps(), not {penalty!r}.")
        self.max_iterations = max_iterations
        self.primal_tolerance = positive(primal_tolerance, "primal_tolerance")
        self.dual_tolerance = None if dual_tolerance is None else positive(dual_tolerance, "dual_tolerance")
        self.detect_cycles = detect_cycles
        self.temperature = None if temperature is None else positive(temperature, "temperature")
        self.callback = callback
        self.method = "dual decomposition"

    @classmethod
    def paper(cls, nn_block: str = "pgd") -> DualDecomposition:
        """The paper's settings: rho = 10 fixed, 25 steps of a fresh Adam, primal test alone, 50 iterations.

        Its time limit of 300 s is an argument of `solve`."""
        if nn_block != "pgd":
            raise ValueError(f"nn_block={nn_block!r} is unknown; the paper's preset is available for 'pgd'.")
        solver = cls(
            nn_block=PGD(steps=25, method="adam", learning_rate=0.01),
            penalty=Fixed(10.0),
            max_iterations=50,
            dual_tolerance=None,
            detect_cycles=False,
            temperature=1.0,
        )
        solver.method = "dual decomposition, the paper's settings"
        return solver

    def start(self, problem: NeuralMIP, time_limit: float = np.inf, seed: int = 0) -> Run:
        """Set up the blocks and the state of iteration 0; `step` continues from there."""
        began = time.perf_counter()
        check_call(problem, time_limit, seed)
        compiled = Compiled(problem.model, problem.predictors)
        split = PaperSplit(compiled, problem.start, self.temperature)
        penalty, u = copy.deepcopy(self.penalty), split.start
        scale = penalty_scale(split, u, seed)
        run = Run(
            compiled=compiled,
            split=split,
            mip=mip_block(split, seed),
            nn=copy.deepcopy(self.nn_block),
            penalty=penalty,
            incumbent=Incumbent(compiled, began),
            u=u,
            lam=np.zeros_like(u),
            rho=penalty.first(scale),
            deadline=began + time_limit,
            began=began,
        )
        run.incumbent.consider_start(problem.start, time_limit)
        return run

    def step(self, run: Run) -> Run:
        """One iteration of Algorithm 1; `run.stopped` says when a block could not go on."""
        clock = [time.perf_counter()]
        # x-step: the MIP block
        block: BlockResult = run.mip.solve(run.lam, run.u, run.rho, run.deadline)
        if block.values is None:
            run.stopped = block.status
            return run
        run.x = block.values
        x = run.x[run.split.coupled]
        clock.append(time.perf_counter())
        # u-step: the NN block
        sub = NNSubproblem(run.split, torch.tensor(x), torch.tensor(run.lam), run.rho, run.deadline)
        u_before, run.u = run.u, run.nn.minimise(sub, run.u)
        clock.append(time.perf_counter())
        # multiplier, with the penalty of both steps
        run.lam = run.lam + run.rho * (run.u - x)
        run.split.tighten(x)
        run.k += 1
        # the iterate, judged by the true network
        run.last = run.incumbent.consider(run.x)
        primal = float(np.abs(run.u - x).max())
        dual = run.rho * float(np.abs(run.u - u_before).max())
        run.history.append(self._record(run, primal, dual, clock))
        # the penalty of the next iteration
        if time.perf_counter() >= run.deadline:  # a block that was cut short says nothing about convergence
            run.stopped = "time_limit"
            return run
        settled = self._converged(run, primal, dual) or (max(primal, dual) > 1e-8 and self._repeats(run))
        following = run.penalty.after(run.rho, primal, dual, settled)
        if following is None:
            run.stopped = self._why(run, primal, dual, settled)
        else:
            run.rho = following
        return run

    def solve(
        self, problem: NeuralMIP, time_limit: float = 60.0, seed: int = 0, progress: bool = False
    ) -> Solution:
        """Run Algorithm 1 and return the best verified point."""
        run = self.start(problem, time_limit, seed)
        with tqdm(total=self.max_iterations, disable=not progress, desc=self.method) as bar:
            while run.stopped is None:
                if time.perf_counter() >= run.deadline:
                    run.stopped = "time_limit"
                elif run.k == self.max_iterations:
                    run.stopped = "iteration_limit"
                else:
                    k = run.k
                    self.step(run)
                    if run.k > k:
                        self._report(run, bar)
        return self._solution(run)

    def _report(self, run: Run, bar: Any) -> None:
        latest = run.history[-1]
        bar.update(1)
        bar.set_postfix(incumbent=f"{latest.incumbent:.6g}", residual=f"{latest.primal_residual:.1e}")
        if self.callback is not None and self.callback(run) and run.stopped is None:
            run.stopped = "stopped"

    def _converged(self, run: Run, primal: float, dual: float) -> bool:
        """Both residuals are small, u is stationary for its block and, where rows on outputs are still being learnt,
        the iterate satisfies them. Without a dual tolerance the primal residual alone decides, as in the paper."""
        if primal >= self.primal_tolerance:
            return False
        if run.split.has_output_rows and not (run.last is not None and run.last.feasible):
            return False
        if self.dual_tolerance is None:
            return True
        return dual < self.dual_tolerance and self._stationary(run)

    def _stationary(self, run: Run) -> bool:
        r"""Whether $\lVert u - P(u - (\nabla g(u) + \lambda)/\rho)\rVert_\infty$ is small.

        An NN block that could not move makes both residuals vanish; that is no convergence.
        """
        slope = run.split.gradient(run.u) + run.lam
        ahead = np.clip(run.u - slope / run.rho, *run.split.box)
        return float(np.abs(ahead - run.u).max()) < 10 * self.primal_tolerance

    def _repeats(self, run: Run) -> bool:
        """Whether this state was there before with the same penalty, to a tenth of what the residual test allows."""
        if not self.detect_cycles:
            return False
        assert run.x is not None
        state = np.concatenate([run.x[run.split.coupled], run.u, run.lam, run.split.tightening.numpy()])
        dual = np.inf if self.dual_tolerance is None else self.dual_tolerance / run.rho
        quantum = 0.1 * min(self.primal_tolerance * min(1.0, run.rho), dual)
        rounded = np.round(state / quantum) + 0.0  # + 0.0 turns -0.0 into 0.0
        key = (run.rho, blake2b(rounded.tobytes(), digest_size=16).digest())
        if key in run.seen:
            return True
        run.seen.add(key)
        return False

    def _why(self, run: Run, primal: float, dual: float, settled: bool) -> str:
        if self._converged(run, primal, dual):
            return "converged"
        return "cycle" if settled else "iteration_limit"

    def _record(self, run: Run, primal: float, dual: float, clock: list[float]) -> Iteration:
        assert run.last is not None
        return Iteration(
            k=run.k,
            objective=run.last.objective if run.last.feasible else np.nan,
            incumbent=np.nan if run.incumbent.objective is None else run.incumbent.objective,
            primal_residual=primal,
            dual_residual=dual,
            rho=run.rho,
            lagrangian=run.lagrangian(),
            seconds_mip=clock[1] - clock[0],
            seconds_nn=clock[2] - clock[1],
            seconds=time.perf_counter() - run.began,
        )

    def _solution(self, run: Run) -> Solution:
        assert run.stopped is not None
        seconds = time.perf_counter() - run.began
        if run.incumbent.values is None:
            status = run.stopped if run.stopped in ("infeasible", "time_limit") else "no_solution_found"
            return Solution(status, self.method, history=run.history, seconds=seconds)
        return Solution(
            status="stopped" if run.stopped == "infeasible" else run.stopped,
            method=self.method,
            **run.incumbent.point(),
            history=run.history,
            seconds=seconds,
            objective_last=run.last.objective if run.last is not None and run.last.feasible else None,
        )

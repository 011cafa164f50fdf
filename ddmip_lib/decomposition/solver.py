"""Algorithm 1 of the paper: MIP block, NN block, multiplier, penalty, in this order."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

from ..device import check_place
from ..model.incumbent import Incumbent
from ..model.instance import Compiled
from ..model.problem import NeuralMIP, check_call
from ..model.scip import copy_model, has_point
from ..model.solution import Iteration, Solution
from ..model.verification import Verification
from ..pricing.market import Market, blocks_of
from ..pricing.recovery import recover_into
from .barrier import LogBarrier
from .graph_split import GraphSplit
from .mip_block import mip_block
from .nn_block import NNBlock, NNSubproblem
from .paper_split import NotSeparable, PaperSplit
from .penalty import DescentTest, Fixed, PenaltyRule, Progress, as_rule, positive
from .pgd import PGD
from .split import Split
from .state import Run


class DualDecomposition:
    r"""Augmented-Lagrangian splitting of a neural MIP, with the best verified point as its answer.

    Each iteration does, in this order,

    $$x^{k+1} \in \arg\min_{x \in X}\ c^\top x - \lambda^{k\top} x + \tfrac{\rho}{2}\lVert x - u^k\rVert^2,$$

    $$u^{k+1} \approx \arg\min_u\ g(u) + \lambda^{k\top}(u - x^{k+1}) + \tfrac{\rho}{2}\lVert u - x^{k+1}\rVert^2,$$

    $$\lambda^{k+1} = \lambda^k + \rho\,(u^{k+1} - x^{k+1}).$$

    An x-step with integers stops at a small gap, no worse than the point before. The run settles when
    $\lVert u - x\rVert_\infty$ and $\rho\lVert u^{k+1} - u^k\rVert_\infty$ are below the tolerances, or when a state
    repeats. Every $x^k$ is verified by the true network and competes to be the incumbent.
    It proves no bound.

    Parameters: `nn_block` (default: `PGD`), `penalty` (a number, a pair for inputs and outputs, or a rule; default:
    `Sweeps`), `split` ("paper": outputs stay in the NN block; "graph": outputs are coupled too, $f(u) = y$; None: the
    paper's where it exists), `max_iterations`, `primal_tolerance`, `dual_tolerance` (None: no dual test),
    `detect_cycles`, `temperature` of the sigmoid that stands for a class (None: half the median size of the logits at
    the start), `multiplier_bound` (a safeguard: multipliers are clipped to this size), `callback(run)` after each
    iteration (a true result stops the run), `recover` (with a fifth of the time, choose among all points visited, each
    block from an iteration of its own: see `pricing.recover`), `device` and `dtype` of the networks inside the NN
    block (points are verified on the CPU in double precision all the same).

    >>> from ddmip_lib.problems import hand_sized
    >>> frozen, moving = (DualDecomposition(penalty=rho).solve(hand_sized()) for rho in (10.0, 1.0))
    >>> frozen.status, frozen.objective, moving.status, moving.objective
    ('converged', 1.5, 'cycle', 0.5)
    """

    def __init__(
        self,
        nn_block: NNBlock | None = None,
        penalty: float | tuple[float, float] | PenaltyRule | None = None,
        split: str | None = None,
        max_iterations: int = 1000,
        primal_tolerance: float = 1e-4,
        dual_tolerance: float | None = 1e-4,
        detect_cycles: bool = True,
        temperature: float | None = None,
        multiplier_bound: float | None = None,
        callback: Callable[[Run], Any] | None = None,
        recover: bool = False,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float64,
    ) -> None:
        if int(max_iterations) != max_iterations or max_iterations < 1:
            raise ValueError(f"max_iterations={max_iterations} must be a positive integer.")
        self.nn_block: NNBlock = PGD() if nn_block is None else nn_block
        if isinstance(nn_block, type) or not hasattr(self.nn_block, "minimise"):
            raise TypeError(f"nn_block must be an instance such as PGD(), not {nn_block!r}.")
        if split not in (None, "paper", "graph"):
            raise ValueError(f"split={split!r} is unknown; choose 'paper', 'graph' or None.")
        self.penalty = None if penalty is None else as_rule(penalty)
        self.split = split
        self.max_iterations = max_iterations
        self.primal_tolerance = positive(primal_tolerance, "primal_tolerance")
        self.dual_tolerance = None if dual_tolerance is None else positive(dual_tolerance, "dual_tolerance")
        self.detect_cycles = detect_cycles
        self.temperature = None if temperature is None else positive(temperature, "temperature")
        self.multiplier_bound = np.inf if multiplier_bound is None else positive(multiplier_bound, "multiplier_bound")
        self.callback, self.recover = callback, recover
        self.device, self.dtype = check_place(device, dtype), dtype
        self.method = "dual decomposition"

    @classmethod
    def paper(cls, nn_block: str = "pgd") -> DualDecomposition:
        """The paper's settings: rho = 10 fixed, primal test alone, 50 iterations; in the NN block 25 steps of a fresh
        Adam ("pgd"), a damped Newton barrier ("barrier"), or what the paper's set-up calls the barrier variant,
        L-BFGS-B ("lbfgsb"). Its time limit of 300 s is an argument of `solve`."""
        blocks: dict[str, NNBlock] = {
            "pgd": PGD(steps=25, method="adam", learning_rate=0.01),
            "barrier": LogBarrier.paper(),
            "lbfgsb": LogBarrier.paper("lbfgsb"),
        }
        if nn_block not in blocks:
            raise ValueError(f"nn_block={nn_block!r} is unknown; choose one of {', '.join(map(repr, blocks))}.")
        chosen, rho = blocks[nn_block], Fixed(10.0)
        solver = cls(chosen, rho, max_iterations=50, dual_tolerance=None, detect_cycles=False, temperature=1.0)
        solver.method = "dual decomposition, the paper's settings"
        return solver

    def start(self, problem: NeuralMIP, time_limit: float = np.inf, seed: int = 0) -> Run:
        """Set up the blocks and the state of iteration 0; `step` continues from there."""
        began = time.perf_counter()
        check_call(problem, time_limit, seed)
        if self.recover:
            blocks_of(problem, "recovery")
            time_limit *= 0.8
        split = self._split(Compiled(problem.model, problem.predictors), problem.start)
        split.place(self.device, self.dtype)
        penalty, copies = copy.deepcopy(self.penalty) or split.default_rule(), split.copies(split.start)
        if isinstance(penalty, DescentTest) and split.name != "paper":
            raise ValueError("DescentTest tests a descent that the paper's split has; use another rule here.")
        mip, incumbent = mip_block(split, seed, began + time_limit), Incumbent(split.compiled, began)
        if self.device.type != "cpu":
            incumbent.screen = split.compiled.elsewhere(self.device)
        incumbent.consider_start(problem.start, time_limit)
        watch = getattr(self.nn_block, "callback", None)
        return Run(
            split=split,
            mip=mip,
            nn=copy.deepcopy(self.nn_block, {id(watch): watch}),  # the run's own, but for what the user watches with
            penalty=penalty,
            incumbent=incumbent,
            u=split.start,
            copies=copies,
            lam=np.zeros_like(copies),
            rho=penalty.first(split.scale(mip, incumbent, seed, began + time_limit)),
            deadline=began + time_limit,
            began=began,
        )

    def _split(self, compiled: Compiled, start: list[np.ndarray] | None) -> Split:
        if self.split == "graph":
            return GraphSplit(compiled, start)
        try:
            return PaperSplit(compiled, start, self.temperature)
        except NotSeparable:
            if self.split == "paper":
                raise
            return GraphSplit(compiled, start)

    def step(self, run: Run) -> Run:
        """One iteration of Algorithm 1; `run.stopped` says when a block could not go on."""
        clock, before = [time.perf_counter()], copy.copy(run)
        rho = run.split.weights(run.rho)
        # x-step: the MIP block
        block = run.mip.solve(run.lam, run.copies, rho, run.deadline)
        if block.values is None:
            run.stopped = block.status
            return run
        run.x = block.values
        clock.append(time.perf_counter())
        # u-step: the NN block
        run.sub = NNSubproblem(run.split, run.w, run.lam, run.rho, run.deadline)
        run.u = run.nn.minimise(run.sub, run.u)
        run.copies = run.split.copies(run.u)
        clock.append(time.perf_counter())
        # multiplier, with the penalty of both steps
        r = run.copies - run.w
        run.lam = np.clip(run.lam + rho * r, -self.multiplier_bound, self.multiplier_bound)
        run.split.tighten(run.w)
        run.k += 1
        # the iterate, judged by the true network
        run.last = self._judge(run)
        primal, dual = run.split.by_part(r), run.split.by_part(rho * (run.copies - before.copies))
        run.history.append(self._record(run, max(primal), max(dual), clock, block.seconds))
        # the penalty of the next iteration
        if time.perf_counter() >= run.deadline:  # a block that was cut short says nothing about convergence
            run.stopped = "time_limit"
            return run
        converged = self._converged(run, max(primal), max(dual))
        settled = converged or (max(*primal, *dual) > 0.1 * self.primal_tolerance and self._repeats(run))
        following = run.penalty.after(Progress(run.rho, primal, dual, settled, partial(run.descends_from, before)))
        if following is None and not settled and run.split.name == "graph" and run.incumbent.values is None:
            following = run.rho  # nothing found yet: the last penalty may still bring the blocks together
        if following is None:
            run.stopped = "converged" if converged else "cycle" if settled else "iteration_limit"
        else:
            run.rho = following
        return run

    def solve(self, problem: NeuralMIP, time_limit: float = 60.0, seed: int = 0, progress: bool = False) -> Solution:
        """Run Algorithm 1 and return the best verified point."""
        run, visited = self.start(problem, time_limit, seed), list[list[np.ndarray]]()
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
                        if self.recover:
                            visited += [run.split.points(run.u), run.split.points(run.w)]
        if visited:
            market = Market.empty(blocks_of(problem, "recovery"), run.incumbent, run.began + time_limit, seed)
            recover_into(market, visited, seed)
        return self._solution(run)

    def _report(self, run: Run, bar: Any) -> None:
        latest = run.history[-1]
        bar.update(1)
        bar.set_postfix(incumbent=f"{latest.incumbent:.6g}", residual=f"{latest.primal_residual:.1e}")
        if self.callback is not None and self.callback(run) and run.stopped is None:
            run.stopped = "stopped"

    def _judge(self, run: Run) -> Verification:
        """Verify x by the true network; where outputs share rows with other variables, solve for these again."""
        assert run.x is not None
        values = run.split.users(run.x)
        if run.split.name == "paper":
            return run.incumbent.consider(values)
        return run.incumbent.consider_inputs(values, seconds=min(10.0, run.deadline - time.perf_counter()))

    def _converged(self, run: Run, primal: float, dual: float) -> bool:
        """Both residuals are small, u is stationary for its block and, where there are rows on outputs, the iterate
        satisfies them. Without a dual tolerance the primal residual alone decides, as in the paper."""
        if primal >= self.primal_tolerance:
            return False
        on_outputs = len(run.split.rows_b) > 0 or run.split.name == "graph"
        if on_outputs and not (run.last is not None and run.last.feasible):
            return False
        if self.dual_tolerance is None:
            return True
        return dual < self.dual_tolerance and self._stationary(run)

    def _stationary(self, run: Run) -> bool:
        r"""Whether $\lVert u - P(u - \nabla\varphi(u)/\rho)\rVert_\infty$ is small.

        An NN block that could not move makes both residuals vanish; that is no convergence.
        """
        assert run.sub is not None
        if getattr(run.nn, "holds_rows", False):  # the gradient below knows nothing of these rows' multipliers
            return True
        ahead = run.sub.project(run.u - run.sub.gradient(run.u) / run.rho.inputs)
        return float(np.abs(ahead - run.u).max()) < 10 * self.primal_tolerance

    def _repeats(self, run: Run) -> bool:
        """Whether this state was there before with the same penalty, to a tenth of what the residual test allows."""
        if not self.detect_cycles:
            return False
        state = np.concatenate([run.w, run.u, run.lam, run.split.tightening.numpy()])
        dual = np.inf if self.dual_tolerance is None else self.dual_tolerance / max(run.rho)
        quantum = 0.1 * min(self.primal_tolerance * min(1.0, *run.rho), dual)
        rounded = np.round(state / quantum) + 0.0  # + 0.0 turns -0.0 into 0.0
        key = (run.rho, blake2b(rounded.tobytes(), digest_size=16).digest())
        if key in run.seen:
            return True
        run.seen.add(key)
        return False

    def _record(self, run: Run, primal: float, dual: float, clock: list[float], solver: float) -> Iteration:
        assert run.last is not None
        return Iteration(
            k=run.k,
            objective=run.last.objective if run.last.feasible else np.nan,
            incumbent=np.nan if run.incumbent.objective is None else run.incumbent.objective,
            primal_residual=primal,
            dual_residual=dual,
            rho=run.rho.inputs,
            rho_outputs=np.nan if run.split.name == "paper" else run.rho.outputs,
            lagrangian=run.lagrangian(),
            seconds_mip=clock[1] - clock[0],
            seconds_solver=solver,
            seconds_nn=clock[2] - clock[1],
            seconds=time.perf_counter() - run.began,
        )

    def _solution(self, run: Run) -> Solution:
        assert run.stopped is not None
        compiled, stopped = run.split.compiled, run.stopped
        seconds = min(60.0, run.deadline - time.perf_counter())
        if stopped == "infeasible" and run.split.name == "graph" and has_point(copy_model(compiled.model), seconds):
            stopped = "stopped"  # the ranges of the outputs are no proof
        if run.incumbent.values is None:
            status = stopped if stopped in ("infeasible", "time_limit") else "no_solution_found"
        else:
            status = "stopped" if stopped == "infeasible" else stopped
        details: dict[str, Any] = {"split": run.split.name, "incumbents": run.incumbent.found}
        if run.incumbent.seen:
            details["points"] = len(run.incumbent.seen)
        if getattr(run.nn, "phase_one", None) == "failed":
            details["phase_one"] = "failed"  # the barrier left its rows to the hinge
        return Solution(
            status=status,
            method=self.method,
            **run.incumbent.point(),
            history=run.history,
            seconds=time.perf_counter() - run.began,
            objective_last=run.last.objective if run.last is not None and run.last.feasible else None,
            details=details,
        )

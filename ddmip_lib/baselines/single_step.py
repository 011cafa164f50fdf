"""The paper's SSG: relax the integers, penalise every row, descend, round. As printed, and
repaired.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import piqp
import scipy.sparse as sp
import torch

from ..clock import TimeOver, now, unlimited
from ..errors import ProblemError
from ..methods import Callback, Method, Run
from ..model.gradients import take_step, vjp
from ..model.instance import Instance
from ..model.progress import report_progress
from ..model.solution import Solution
from ..programs.scip import copy_model, has_point

ZERO = 1e-9
"""The pseudo-code tests p = 0; in floating point a violation up to this counts as none."""
OPTIMISERS = ("gradient", "adam")


@dataclass(frozen=True)
class SingleStepGradient(Method):
    r"""Projected gradient steps on the penalised relaxation, all variables in one vector $v$, the
    outputs in it overwritten by $\hat y$ (the network, or the sigmoid of its logit for a class):

    $$\mathcal L(v) = c^\top v + d^\top \hat y(v) + \mu \lVert p(v) \rVert^2, \quad
    v^t = P_{[l,u]}\bigl(v^{t-1} - \eta_t \nabla\mathcal L(v^{t-1})\bigr), \quad
    \eta_t = \eta\,(1 + \delta t)^{-1/2},$$

    with $p$ the violations of all rows and output bounds, $\mu$ = `penalty`, $\eta$ =
    `learning_rate`, $\delta$ = `decay` and `steps` steps. It proves no bound. The inputs start at
    the problem's start, all else at the point of the box nearest 0. `optimiser` is ``"gradient"``
    (the printed step) or ``"adam"`` (the paper's text); None takes the first as printed and the
    second when repaired: plain steps diverge once $\eta_t\mu\lVert A\rVert^2 > 1$, with the paper's
    figures as soon as a row adds up a few variables.

    ``repaired=False`` is the printed pseudo-code: $p = 0$ is tested at $v^{t-1}$, before rounding;
    $v^t$ is stored, rounded; points are compared by $c^\top v^t$ alone. What it claims is in
    `details` (``claimed_objective``, ``claimed_values``, and ``claimed_feasible``: whether the
    claimed point passes verification); the objective of the solution is verified, or there is none.

    ``repaired=True`` moves every rounded $v^t$ to the rows (`PenalisedRelaxation.repair`), verifies
    it, and compares by the true objective; variables that enter no network but cost something or
    meet outputs in a row are solved for again, as for an iterate of Algorithm 1. The start competes
    too. `callback` hears a `Moment` after each step.

    >>> from ddmip_lib.problems import hand_sized
    >>> SingleStepGradient().solve(hand_sized()).objective
    1.5
    """

    repaired: bool = True
    steps: int = 100
    learning_rate: float = 0.01
    decay: float = 0.01
    penalty: float = 50.0
    optimiser: str | None = None
    callback: Callback | None = None

    def __post_init__(self) -> None:
        positive = (
            0 < self.learning_rate < np.inf
            and 0 < self.penalty < np.inf
            and 0 <= self.decay < np.inf
        )
        if int(self.steps) != self.steps or self.steps < 1 or not positive:
            raise ValueError(
                f"steps={self.steps} must be a positive integer, learning_rate={self.learning_rate}"
                f" and penalty={self.penalty} positive, decay={self.decay} not negative."
            )
        if self.optimiser not in (None, *OPTIMISERS):
            raise ValueError(
                f"optimiser={self.optimiser!r} is unknown; choose 'gradient' or 'adam'."
            )

    @property
    def method(self) -> str:
        return f"single-step gradient, {'repaired' if self.repaired else 'as printed'}"

    @torch.enable_grad()
    def run(self, run: Run) -> Solution:
        """Take the steps; nothing is random, so `seed` has no effect."""
        problem = run.problem
        instance = run.instance
        began = run.began
        deadline = run.deadline
        s = instance.milp
        relaxation = PenalisedRelaxation(instance)
        incumbent = run.incumbent(with_start=self.repaired)
        v = torch.tensor(relaxation.start(problem.start), requires_grad=True)
        free = v.detach()
        point = free.numpy()  # v itself: the same memory
        chosen = self.optimiser or ("adam" if self.repaired else "gradient")
        moments = (torch.zeros_like(free), torch.zeros_like(free)) if chosen == "adam" else None
        best = np.inf
        claimed = None
        t = 0
        p = np.inf
        interrupted = False
        stopped = False
        try:
            while t < self.steps and now() < deadline and not stopped:
                t += 1
                # forward: p, at the point before the step
                _, slope, p = relaxation.loss(v, self.penalty)
                # backward: the step, and the projection on the box
                take_step(
                    free, slope, self.learning_rate * (1 + self.decay * t) ** -0.5, moments, t
                )
                np.clip(point, s.lower, s.upper, out=point)
                if self.repaired and relaxation.settles:
                    seconds = min(10.0, deadline - now())
                    incumbent.consider_inputs(relaxation.repair(point), seconds)
                elif self.repaired:
                    incumbent.consider(relaxation.repair(point))
                elif p <= ZERO and relaxation.own_cost @ point < best:
                    best = relaxation.own_cost @ point
                    claimed = instance.rounded(point)
                report_progress()
                stopped = run.notify() and t < self.steps
        except TimeOver:
            pass  # the status says so
        except KeyboardInterrupt:
            interrupted = True
        details: dict[str, Any] = {"steps": t, "violation": float(p), "incumbents": incumbent.found}
        if claimed is not None:
            details["claimed_objective"] = float(s.sign * best + s.offset)
            with unlimited():  # the claim is verified, whatever ended the run
                details["claimed_values"] = instance.with_outputs(claimed)
                details["claimed_feasible"] = incumbent.consider(claimed).feasible
        status = (
            "stopped"
            if interrupted or stopped
            else "iteration_limit"
            if t == self.steps
            else "time_limit"
        )
        if interrupted:
            details["interrupted"] = True
        elif incumbent.values is None and t == self.steps:
            may_exist = has_point(copy_model(problem.model), deadline - now())
            status = "no_solution_found" if may_exist else "infeasible"
        seconds = now() - began
        return Solution(status, self.method, **incumbent.point(), seconds=seconds, details=details)


class PenalisedRelaxation:
    """Every variable relaxed to its interval, outputs computed, rows as violations; and the way
    back to the rows.
    """

    def __init__(self, instance: Instance) -> None:
        s = instance.milp
        self.instance = instance
        outputs = instance.is_output
        if s.others:
            raise ProblemError(
                f"{s.others[0].kind} {s.others[0].name} is no linear row: write it as big-M rows,"
                " or use BigM."
            )
        self.cost, self.own_cost = s.sign * s.cost, np.where(outputs, 0.0, s.sign * s.cost)
        self.is_class = np.zeros(s.n_variables, dtype=bool)
        for predictor, m in zip(instance.predictors, instance.maps, strict=True):
            self.is_class[m.output] = predictor.gives_class
        # bounds of outputs are rows like any other: no step can project on them
        self.rows = sp.vstack([s.rows, sp.identity(s.n_variables, format="csr")[outputs]]).tocsr()
        self.lower = np.concatenate([s.row_lower, s.lower[outputs]])
        self.upper = np.concatenate([s.row_upper, s.upper[outputs]])
        # what the repair moves, and by which rows
        on_outputs = abs(s.rows) @ outputs > 0
        self.free = ~outputs & ~s.integer & (s.lower < s.upper)
        movable = ~on_outputs & (abs(s.rows) @ self.free > 0)
        self.equal = movable & (s.row_lower == s.row_upper)
        self.between = movable & ~self.equal
        side = ~outputs
        side[np.concatenate([m.index[m.index >= 0] for m in instance.maps])] = False
        self.settles = bool(s.cost[side].any()) or s.rows[on_outputs][:, side].nnz > 0

    def start(self, inputs: list[np.ndarray] | None) -> np.ndarray:
        """The given network inputs, fractional ones too; all else at the point of the box nearest
        0.
        """
        s = self.instance.milp
        values = np.zeros(s.n_variables)
        for m, x in zip(self.instance.maps, inputs or (), strict=False):
            m.put(values, x)
        return np.clip(values, s.lower, s.upper)

    def loss(self, v: torch.Tensor, penalty: float) -> tuple[float, torch.Tensor, float]:
        """The penalised objective, its gradient, and the largest violation with true classes
        instead of sigmoids.
        """
        outputs = v
        for predictor, m in zip(self.instance.predictors, self.instance.maps, strict=True):
            x = torch.where(torch.tensor(m.index >= 0), v[m.index], torch.tensor(m.constant))
            raw = predictor.net(x)
            if not raw.requires_grad:
                raise ProblemError(
                    "no gradient reaches the network's inputs: remove detach() or no_grad() from"
                    " its forward()."
                )
            if not raw.isfinite().all():  # a sigmoid would hide it
                self.instance.blame(self.instance.inputs(v.detach().numpy()))
            y = predictor.surrogate(raw)
            outputs = outputs.index_copy(0, torch.tensor(m.output.ravel()), y.reshape(-1))
        full = outputs.detach().numpy()
        p = self._excess(full)
        slope = vjp([outputs], v, self.cost + 2 * penalty * self.rows.T @ p)
        if not (np.isfinite(full).all() and slope.isfinite().all()):
            self.instance.blame(self.instance.inputs(v.detach().numpy()))
        true = np.where(self.is_class, full > 0.5, full)
        return self.cost @ full + penalty * p @ p, slope, np.abs(self._excess(true)).max()

    def _excess(self, full: np.ndarray) -> np.ndarray:
        """By how much each row is above (positive) or below its sides."""
        left = self.rows @ full
        return left - np.clip(left, self.lower, self.upper)

    def repair(self, v: np.ndarray) -> np.ndarray:
        """Integers rounded, then continuous variables moved to the nearest point of the rows
        without outputs (a QP); where there is no such point nothing moves.
        """
        s = self.instance.milp
        free = self.free
        values = self.instance.rounded(v)
        if not (self.equal | self.between).any():
            return values
        rows = s.rows[:, free]
        shift = s.rows @ np.where(free, 0.0, values)
        low = s.row_lower - shift
        high = s.row_upper - shift
        box = (s.lower[free], s.upper[free])
        equalities = rows[self.equal].tocsc(), high[self.equal]
        inequalities = rows[self.between].tocsc(), low[self.between], high[self.between]
        solver = piqp.SparseSolver()
        weights = sp.identity(free.sum(), format="csc")
        solver.setup(weights, -values[free], *equalities, *inequalities, *box)
        if solver.solve() == piqp.PIQP_SOLVED:
            values[free] = np.clip(solver.result.x, *box)
        return values

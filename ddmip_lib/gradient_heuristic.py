"""The paper's SSG: relax the integers, penalise every row, descend, round. As printed, and repaired."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import piqp
import scipy.sparse as sp
import torch
from scipy.optimize import Bounds, LinearConstraint, milp
from tqdm.auto import tqdm

from .compiled import Compiled
from .errors import ProblemError
from .incumbent import Incumbent
from .problem import NeuralMIP, check_call
from .snapshot import Snapshot
from .solution import Solution
from .verification import TOLERANCE, relative_violation

ZERO = 1e-9
"""The pseudo-code tests p = 0; in floating point a violation up to this counts as none."""
OPTIMISERS = {"gradient": torch.optim.SGD, "adam": torch.optim.Adam}


class SingleStepGradient:
    r"""Projected gradient steps on the penalised relaxation, all variables in one vector $v$, the outputs in it
    overwritten by $\hat y$ (the network, or the sigmoid of its logit for a class):

    $$\mathcal L(v) = c^\top v + d^\top \hat y(v) + \mu \lVert p(v) \rVert^2, \quad
    v^t = P_{[l,u]}\bigl(v^{t-1} - \eta_t \nabla\mathcal L(v^{t-1})\bigr), \quad
    \eta_t = \eta\,(1 + \delta t)^{-1/2},$$

    with $p$ the violations of all rows and output bounds, $\mu$ = `penalty`, $\eta$ = `learning_rate`,
    $\delta$ = `decay` and `steps` steps. It proves no bound. The steps start at the problem's start, else at the
    point of the box nearest 0. `optimiser` is ``"gradient"`` (the printed step) or ``"adam"`` (the paper's text);
    None takes the first as printed and the second when repaired: plain steps diverge once
    $\eta_t\mu\lVert A\rVert^2 > 1$, with the paper's figures as soon as a row adds up a few variables.

    ``repaired=False`` is the printed pseudo-code: $p = 0$ is tested at $v^{t-1}$, before rounding; $v^t$ is stored,
    rounded; points are compared by $c^\top v^t$ alone. What it claims is in `details` (``claimed_objective``,
    ``claimed_values``, and ``claimed_feasible``: whether the claimed point passes verification); the objective of
    the solution is verified, or there is none.

    ``repaired=True`` rounds every iterate, repairs it without branching (see `Repair`), verifies it, and compares
    by the true objective. The start competes too.

    >>> from ddmip_lib.problems import hand_sized
    >>> SingleStepGradient().solve(hand_sized()).objective
    1.5
    """

    def __init__(
        self,
        repaired: bool = True,
        steps: int = 100,
        learning_rate: float = 0.01,
        decay: float = 0.01,
        penalty: float = 50.0,
        optimiser: str | None = None,
    ) -> None:
        if int(steps) != steps or steps < 1:
            raise ValueError(f"steps={steps} must be a positive integer.")
        if not (0 < learning_rate < np.inf and 0 <= decay < np.inf and 0 < penalty < np.inf):
            raise ValueError(
                f"learning_rate={learning_rate} and penalty={penalty} must be positive, decay={decay} not negative."
            )
        optimiser = ("adam" if repaired else "gradient") if optimiser is None else optimiser
        if optimiser not in OPTIMISERS:
            raise ValueError(f"optimiser={optimiser!r} is unknown; choose 'gradient' or 'adam'.")
        self.repaired, self.steps, self.optimiser = repaired, int(steps), optimiser
        self.learning_rate, self.decay, self.penalty = learning_rate, decay, penalty
        self.method = f"single-step gradient, {'repaired' if repaired else 'as printed'}"

    def solve(
        self, problem: NeuralMIP, time_limit: float = 60.0, seed: int = 0, progress: bool = False
    ) -> Solution:
        """Take the steps and return the best verified point; nothing here is random, `seed` changes nothing."""
        began = time.perf_counter()
        check_call(problem, time_limit, seed)
        compiled = Compiled(problem.model, problem.predictors)
        s = compiled.snapshot
        if s.others:
            raise ProblemError(
                f"{s.others[0].kind} constraint {s.others[0].name} is no linear row, so it has no penalty here: "
                "write it as rows (an indicator by a big-M row), or use BigM."
            )
        incumbent = Incumbent(compiled, began)
        if time_limit <= 0:
            return Solution("time_limit", self.method, seconds=time.perf_counter() - began)
        relaxation, repair = Relaxation(compiled), Repair(compiled)
        v = torch.tensor(self._start(compiled, problem.start, time_limit, incumbent), requires_grad=True)
        optimiser = OPTIMISERS[self.optimiser]([v], lr=self.learning_rate)
        claim: tuple[float, np.ndarray] | None = None
        steps, violation, stopped = 0, np.inf, "iteration_limit"
        with tqdm(total=self.steps, disable=not progress, desc=self.method) as bar:
            while steps < self.steps:
                if self.repaired:
                    repair.consider(v.detach().numpy(), incumbent)
                if time.perf_counter() >= began + time_limit:
                    stopped = "time_limit"
                    break
                steps += 1
                loss, violation = relaxation.loss(v, self.penalty)
                v.grad = relaxation.gradient(loss, v)
                optimiser.param_groups[0]["lr"] = self.learning_rate * (1 + self.decay * steps) ** -0.5
                optimiser.step()
                with torch.no_grad():
                    v.copy_(torch.clamp(v, *relaxation.box))
                    linear = float(relaxation.own_cost @ v)
                if violation <= ZERO and (claim is None or linear < claim[0]):
                    claim = linear, v.detach().numpy().copy()
                bar.update(1)
                best = "none" if incumbent.objective is None else f"{incumbent.objective:.6g}"
                bar.set_postfix(incumbent=best, violation=f"{violation:.1e}")
        details: dict[str, Any] = {"steps": steps, "violation": violation}
        if self.repaired:
            repair.consider(v.detach().numpy(), incumbent)
        elif claim is not None:
            check = incumbent.consider(claim[1])
            details |= {
                "claimed_objective": s.sign * claim[0] + s.offset,
                "claimed_feasible": check.feasible,
                "claimed_values": compiled.with_outputs(claim[1]),
            }
        if incumbent.values is None and stopped != "time_limit":
            stopped = "infeasible" if rows_are_empty(s) else "no_solution_found"
        return Solution(
            stopped,
            self.method,
            **incumbent.point(),
            seconds=time.perf_counter() - began,
            details=details | {"incumbents": incumbent.found},
        )

    def _start(
        self,
        compiled: Compiled,
        inputs: list[np.ndarray] | None,
        time_limit: float,
        incumbent: Incumbent,
    ) -> np.ndarray:
        """The start with its own inputs, fractional ones too, and the rest completed; else the box's point near 0."""
        s = compiled.snapshot
        values = np.clip(np.zeros(s.n_variables), s.lower, s.upper)
        if inputs is None:
            return values
        completed = compiled.complete(inputs, seconds=min(10.0, 0.2 * time_limit))
        if completed is not None:
            values = completed.copy()
            if self.repaired:
                incumbent.consider(completed)
        for m, x in zip(compiled.maps, inputs, strict=True):
            values[m.index[m.index >= 0]] = x[m.index >= 0]
        return np.clip(values, s.lower, s.upper)


class Relaxation:
    """The model in torch: every variable relaxed to its interval, outputs computed, rows as violations."""

    def __init__(self, compiled: Compiled) -> None:
        s = compiled.snapshot
        self.predictors = compiled.predictors
        self.places = [
            (torch.tensor(m.index), torch.tensor(m.constant), torch.tensor(m.output.ravel()))
            for m in compiled.maps
        ]
        outputs = np.flatnonzero(compiled.is_output)
        self.box = torch.tensor(s.lower), torch.tensor(s.upper)
        self.cost = torch.tensor(s.sign * s.cost)
        self.own_cost = torch.tensor(np.where(compiled.is_output, 0.0, s.sign * s.cost))
        self.is_class = torch.tensor(compiled.is_output & s.integer)
        # bounds of outputs are rows like any other: no step can project on them
        rows = sp.vstack([s.rows, sp.identity(s.n_variables, format="csr")[outputs]]).tocoo()
        index = torch.tensor(np.vstack([rows.row, rows.col]))
        self.rows = torch.sparse_coo_tensor(
            index, torch.tensor(rows.data), rows.shape, check_invariants=True
        ).coalesce()
        self.lower = torch.tensor(np.concatenate([s.row_lower, s.lower[outputs]]))
        self.upper = torch.tensor(np.concatenate([s.row_upper, s.upper[outputs]]))

    def loss(self, v: torch.Tensor, penalty: float) -> tuple[torch.Tensor, float]:
        """The penalised objective, and the largest violation with true classes in place of sigmoids."""
        full = v
        for predictor, (index, constant, output) in zip(self.predictors, self.places, strict=True):
            raw = predictor.net(torch.where(index >= 0, v[index], constant))
            if not raw.requires_grad:
                raise ProblemError(
                    "no gradient flows from the network's outputs to its inputs: remove detach() or no_grad() "
                    "from its forward()."
                )
            y = torch.sigmoid(raw) if predictor.kind == "classification" else raw
            full = full.index_copy(0, output, y.reshape(-1))
        loss = self.cost @ full + penalty * self._violations(full).square().sum()
        with torch.no_grad():
            true = torch.where(self.is_class, (full > 0.5).double(), full)
            return loss, float(self._violations(true).max())

    def _violations(self, full: torch.Tensor) -> torch.Tensor:
        left = self.rows @ full
        return torch.relu(self.lower - left) + torch.relu(left - self.upper)

    def gradient(self, loss: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        (slope,) = torch.autograd.grad(loss, v)
        if not (torch.isfinite(loss) and torch.isfinite(slope).all()):
            raise ProblemError(
                "the network's value or gradient is NaN or infinite inside the box of its inputs: "
                "tighten their bounds, or use a network that is finite there."
            )
        return slope


class Repair:
    r"""From a relaxed vector $v$ to points that satisfy the rows, without branching: integers are rounded, then

    1. the continuous variables move to the nearest point of the rows without outputs (a QP);
    2. where variables that enter no network cost something or share rows with outputs, these alone take their best
       values given inputs, integers and the network's outputs (an LP).
    """

    def __init__(self, compiled: Compiled) -> None:
        s, self.compiled = compiled.snapshot, compiled
        on_outputs = np.asarray(abs(s.rows[:, compiled.is_output]).sum(axis=1)).ravel() > 0
        free = ~compiled.is_output & ~s.integer & (s.lower < s.upper)
        side = free.copy()
        for m in compiled.maps:
            side[m.index[m.index >= 0]] = False
        self.nearest = Mover(s, free, ~on_outputs)
        needed = bool(s.cost[side].any()) or bool(s.rows[on_outputs][:, side].nnz)
        self.best = Mover(s, side, np.ones(on_outputs.size, dtype=bool)) if needed else None

    def consider(self, v: np.ndarray, incumbent: Incumbent) -> None:
        """Let the points made of `v` compete."""
        for values in self._points(v):
            incumbent.consider(values)

    def _points(self, v: np.ndarray) -> Iterator[np.ndarray]:
        values = self.nearest(self.compiled.with_outputs(v))
        if values is None:
            return
        yield values
        if self.best is not None:
            values = self.best(self.compiled.with_outputs(values), self.compiled.snapshot.sign)
            if values is not None:
                yield values


class Mover:
    """Moves the variables in `free` to satisfy `rows`, all others fixed, by PIQP."""

    def __init__(self, s: Snapshot, free: np.ndarray, rows: np.ndarray) -> None:
        self.free, self.cost, self.bounds = free, s.cost[free], (s.lower[free], s.upper[free])
        self.rest, own = s.rows[rows][:, ~free], s.rows[rows][:, free].tocsr()
        self.lower, self.upper = s.row_lower[rows], s.row_upper[rows]
        self.still = np.diff(own.indptr) == 0
        self.equal = ~self.still & (self.lower == self.upper)
        self.between = ~self.still & ~self.equal
        self.equalities, self.inequalities = own[self.equal].tocsc(), own[self.between].tocsc()

    def __call__(self, values: np.ndarray, sign: float = 0.0) -> np.ndarray | None:
        """The nearest such point, or with `sign` the one of least `sign` times the cost; None where there is none."""
        shift = self.rest @ values[~self.free]
        gap = relative_violation(shift[self.still], self.lower[self.still], self.upper[self.still])
        if gap.max(initial=0.0) > TOLERANCE:
            return None
        if not self.free.any():
            return values
        lower, upper, size = self.lower - shift, self.upper - shift, len(self.cost)
        curvature = sp.csc_matrix((size, size)) if sign else sp.identity(size, format="csc")
        cost = sign * self.cost if sign else -values[self.free]
        equal, between = upper[self.equal], (lower[self.between], upper[self.between])
        solver = piqp.SparseSolver()
        solver.setup(curvature, cost, self.equalities, equal, self.inequalities, *between, *self.bounds)
        if solver.solve() != piqp.PIQP_SOLVED:
            return None
        moved = values.copy()
        moved[self.free] = np.clip(solver.result.x, *self.bounds)
        return moved


def rows_are_empty(s: Snapshot) -> bool:
    """Whether the LP relaxation of all rows, outputs taken as free variables, is proved to have no point.

    >>> from pyscipopt import Model
    >>> from ddmip_lib.snapshot import read_model
    >>> m = Model()
    >>> x = m.addVar("x", ub=1)
    >>> _ = m.addCons(2 * x >= 3)
    >>> rows_are_empty(read_model(m))
    True
    """
    if not s.rows.shape[0]:
        return bool((s.lower > s.upper).any())
    rows = LinearConstraint(s.rows, s.row_lower, s.row_upper)
    return milp(np.zeros(s.n_variables), bounds=Bounds(s.lower, s.upper), constraints=rows).status == 2

"""The paper's SSG: relax the integers, penalise every constraint, descend, round. As printed, and
with a repair step.
"""

from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import piqp
import scipy.sparse as sp
import torch
from numpy import ndarray

from ..clock import unlimited
from ..errors import ProblemError
from ..methods import Callback, Method, Run
from ..model.gradients import take_step, vjp
from ..model.instance import Instance
from ..model.progress import report_progress
from ..model.solution import Solution
from ..programs.scip import copy_model, has_point

ZERO_VIOLATION = 1e-9
"""The pseudo-code tests p = 0; in floating point a violation up to this counts as none."""
COMPLETION_SECONDS = 10.0
"""Time limit for solving again for the variables that enter no network."""
OPTIMISERS = ("gradient", "adam")


@dataclass(frozen=True)
class SingleStepGradient(Method):
    r"""Projected gradient steps on the penalised relaxation, all variables in one vector $v$, the
    outputs in it overwritten by $\hat y$ (the network, or the sigmoid of its logit for a class):

    $$\mathcal L(v) = c^\top v + d^\top \hat y(v) + \mu \lVert p(v) \rVert^2, \quad
    v^t = P_{[l,u]}\bigl(v^{t-1} - \eta_t \nabla\mathcal L(v^{t-1})\bigr), \quad
    \eta_t = \eta\,(1 + \delta t)^{-1/2},$$

    with $p$ the violations of all constraints and output bounds, $\mu$ = `penalty`, $\eta$ =
    `learning_rate` and $\delta$ = `decay`. It proves no bound. The inputs start at the problem's
    start, all else at the point of the box nearest 0.

    As printed, $p = 0$ is tested at $v^{t-1}$, before rounding; $v^t$ is stored, rounded; points
    are compared by $c^\top v^t$ alone. What it claims is in `details` (``claimed_objective``,
    ``claimed_values``, and ``claimed_feasible``: whether the claimed point passes verification);
    the objective of the solution is verified, or there is none.

    Parameters
    ----------
    repaired
        Whether every rounded $v^t$ is projected on the constraints (`PenalisedRelaxation.repair`)
        and verified, and points are compared by the true objective. Variables that enter no network
        but cost something or occur in a constraint with outputs are then solved for again, as for
        an iterate of Algorithm 1. The start is evaluated too.
    steps
        Number of steps.
    learning_rate, decay, penalty
        $\eta$, $\delta$ and $\mu$.
    optimiser
        ``"gradient"`` (the printed step) or ``"adam"`` (the paper's text); None takes the first as
        printed and the second when repaired: plain steps diverge once
        $\eta_t\mu\lVert A\rVert^2 > 1$, with the paper's figures as soon as a constraint adds up a
        few variables.
    callback
        Function that is called with a `ProgressEvent` after each step.

    Raises
    ------
    ValueError
        If a parameter is out of range.

    Examples
    --------
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
        kind = "repaired" if self.repaired else "as printed"
        return f"single-step gradient, {kind}"

    @torch.enable_grad()
    def run(self, run: Run) -> Solution:
        """Take the steps; nothing is random, so the seed has no effect.

        Raises
        ------
        ProblemError
            If a constraint is not linear, or a network has no gradient.
        """
        descent = run.state = _Descent(self, run)
        stopped = False
        while descent.steps < self.steps and run.seconds_left > 0 and not stopped:
            descent.step()
            report_progress()
            stopped = run.notify() and descent.steps < self.steps
        run.details = descent.details()
        if stopped:
            status = "stopped"
        elif descent.steps < self.steps:
            status = "time_limit"
        elif descent.incumbent.values is not None:
            status = "iteration_limit"
        elif has_point(copy_model(run.problem.model), run.seconds_left):
            status = "no_solution_found"
        else:
            status = "infeasible"
        return run.solution(status)

    def interrupted(self, run: Run, status: str) -> Solution:
        """Return the best point of the steps that were taken."""
        if run.state is None:
            return run.interrupted_solution(status)
        run.details = run.state.details()
        if status == "stopped":
            run.details["interrupted"] = True
        return run.solution(status)


class _Descent:
    """The iterate of a run, and the best claimed point of the printed algorithm."""

    def __init__(self, settings: SingleStepGradient, run: Run) -> None:
        self.settings = settings
        self.run = run
        self.relaxation = PenalisedRelaxation(run.instance)
        self.incumbent = run.incumbent(with_start=settings.repaired)
        self.v = torch.tensor(self.relaxation.start(run.start), requires_grad=True)
        self.values = self.v.detach()  # the same memory
        optimiser = settings.optimiser or ("adam" if settings.repaired else "gradient")
        self.moments: tuple[torch.Tensor, torch.Tensor] | None = None
        if optimiser == "adam":
            self.moments = (torch.zeros_like(self.values), torch.zeros_like(self.values))
        self.steps = 0
        self.violation = np.inf
        self.claimed: ndarray | None = None
        self.claimed_cost = np.inf

    def step(self) -> None:
        """Take a projected gradient step, and evaluate its rounded point."""
        settings = self.settings
        relaxation = self.relaxation
        self.steps += 1
        _, gradient, self.violation = relaxation.loss(self.v, settings.penalty)
        rate = settings.learning_rate * (1 + settings.decay * self.steps) ** -0.5
        take_step(self.values, gradient, rate, self.moments, self.steps)
        point = self.values.numpy()
        milp = self.run.instance.milp
        np.clip(point, milp.lower, milp.upper, out=point)
        if settings.repaired and relaxation.needs_completion:
            seconds = min(COMPLETION_SECONDS, self.run.seconds_left)
            self.incumbent.consider_inputs(relaxation.repair(point), seconds)
        elif settings.repaired:
            self.incumbent.consider(relaxation.repair(point))
        elif self.violation <= ZERO_VIOLATION:  # before the step
            cost = relaxation.cost @ np.where(self.run.instance.is_output, 0.0, point)
            if cost < self.claimed_cost:
                self.claimed_cost = float(cost)
                self.claimed = self.run.instance.rounded(point)

    def details(self) -> dict[str, Any]:
        """Return the details of the solution; the claimed point is verified."""
        details: dict[str, Any] = {"steps": self.steps, "violation": float(self.violation)}
        if self.claimed is not None:
            instance = self.run.instance
            claimed = instance.milp.sign * self.claimed_cost + instance.milp.offset
            details["claimed_objective"] = float(claimed)
            with unlimited():  # whatever ended the run
                details["claimed_values"] = instance.with_outputs(self.claimed)
                details["claimed_feasible"] = self.incumbent.consider(self.claimed).feasible
        return details


class PenalisedRelaxation:
    """The problem with integers relaxed, outputs computed and constraints penalised; and the
    projection of its points on the constraints.

    Parameters
    ----------
    instance
        The problem.

    Raises
    ------
    ProblemError
        If a constraint is not linear.
    """

    def __init__(self, instance: Instance) -> None:
        milp = instance.milp
        if milp.others:
            raise ProblemError(
                f"{milp.others[0].kind} {milp.others[0].name} is not linear: write it as big-M"
                " constraints, or use BigM."
            )
        outputs = instance.is_output
        self.instance = instance
        self.cost = milp.sign * milp.cost
        self.classes = instance.outputs[instance.classes]
        # bounds of outputs are constraints like any other: no step can project on them
        output_bounds = sp.identity(milp.n_variables, format="csr")[outputs]
        self.rows = sp.vstack([milp.rows, output_bounds]).tocsr()
        self.lower = np.concatenate([milp.row_lower, milp.lower[outputs]])
        self.upper = np.concatenate([milp.row_upper, milp.upper[outputs]])
        # the repair moves these variables, by these constraints
        has_outputs = abs(milp.rows) @ outputs > 0
        self.free = ~outputs & ~milp.integer & (milp.lower < milp.upper)
        movable = ~has_outputs & (abs(milp.rows) @ self.free > 0)
        self.equal = movable & (milp.row_lower == milp.row_upper)
        self.between = movable & ~self.equal
        free_columns = milp.rows[:, self.free]
        self.equal_rows = free_columns[self.equal].tocsc()
        self.between_rows = free_columns[self.between].tocsc()
        self.free_box = (milp.lower[self.free], milp.upper[self.free])
        # variables that enter no network
        side = ~outputs
        for mapping in instance.maps:
            side[mapping.index[mapping.index >= 0]] = False
        self.needs_completion = (
            bool(milp.cost[side].any()) or milp.rows[has_outputs][:, side].nnz > 0
        )

    def start(self, inputs: list[ndarray] | None) -> ndarray:
        """Return the given network inputs, also fractional; all else nearest to 0 in the box."""
        milp = self.instance.milp
        values = np.zeros(milp.n_variables)
        if inputs is not None:
            values = self.instance.assignment(inputs, rest=0.0)
        return np.clip(values, milp.lower, milp.upper)

    def loss(self, v: torch.Tensor, penalty: float) -> tuple[float, torch.Tensor, float]:
        """Evaluate the penalised objective.

        Parameters
        ----------
        v
            All variables; the outputs among them are not used.
        penalty
            Penalty of the squared violations.

        Returns
        -------
        loss, gradient, violation
            The objective, its gradient, and the largest violation with true classes instead of
            sigmoids.

        Raises
        ------
        ProblemError
            If a network has no gradient, or is not finite.
        """
        outputs = v
        for predictor, mapping in self.instance.networks:
            free = torch.tensor(mapping.index >= 0)
            raw = predictor.net(torch.where(free, v[mapping.index], torch.tensor(mapping.constant)))
            if not raw.requires_grad:
                raise ProblemError(
                    "no gradient reaches the network's inputs: remove detach() or no_grad() from"
                    " its forward()."
                )
            if not raw.isfinite().all():  # a sigmoid would hide it
                self._raise_not_finite(v)
            predicted = predictor.surrogate(raw).reshape(-1)
            outputs = outputs.index_copy(0, torch.tensor(mapping.output.ravel()), predicted)
        full = outputs.detach().numpy()
        violation = self._violation(full)
        gradient = vjp([outputs], v, self.cost + 2 * penalty * self.rows.T @ violation)
        if not (np.isfinite(full).all() and gradient.isfinite().all()):
            self._raise_not_finite(v)
        with_classes = full.copy()
        with_classes[self.classes] = full[self.classes] > 0.5
        return (
            self.cost @ full + penalty * violation @ violation,
            gradient,
            np.abs(self._violation(with_classes)).max(),
        )

    def _raise_not_finite(self, v: torch.Tensor) -> NoReturn:
        self.instance.raise_not_finite(self.instance.inputs(v.detach().numpy()))

    def _violation(self, full: ndarray) -> ndarray:
        """Return by how much each constraint is above (positive) or below its sides."""
        activity = self.rows @ full
        return activity - np.clip(activity, self.lower, self.upper)

    def repair(self, v: ndarray) -> ndarray:
        """Round the integers, then project the continuous variables on the constraints.

        The nearest point that satisfies all constraints without outputs is found by a QP. If there
        is none, the continuous variables keep their values.

        Parameters
        ----------
        v
            All variables.

        Returns
        -------
        array
            The repaired point.
        """
        milp = self.instance.milp
        free = self.free
        values = self.instance.rounded(v)
        if not (self.equal | self.between).any():
            return values
        fixed = milp.rows @ np.where(free, 0.0, values)
        low = milp.row_lower - fixed
        high = milp.row_upper - fixed
        solver = piqp.SparseSolver()
        solver.setup(
            sp.identity(free.sum(), format="csc"),
            -values[free],
            self.equal_rows,
            high[self.equal],
            self.between_rows,
            low[self.between],
            high[self.between],
            *self.free_box,
        )
        if solver.solve() == piqp.PIQP_SOLVED:
            values[free] = np.clip(solver.result.x, *self.free_box)
        return values

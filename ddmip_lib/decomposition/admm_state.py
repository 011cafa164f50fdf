"""The state of Algorithm 1 between two iterations, and a callback that records it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from numpy import ndarray

from ..methods.run import Run
from ..model.incumbent import Incumbent
from ..model.solution import History, Iteration
from ..model.verification import Verification
from ..renamed import renamed_fields
from .mip_block import MIPBlock
from .nn_block import NNBlock, NNSubproblem
from .penalty import Penalty, PenaltyRule
from .split import Split

MAX_SECONDS_TO_VERIFY = 10.0
"""Time limit for the verification of one iterate, in seconds."""
DESCENT_ROUNDING = 1e-9
"""Relative rounding error that the descent test tolerates."""


@renamed_fields(mip="mip_block", nn="nn_block", sub="subproblem")
@dataclass
class ADMMState:
    r"""The state of Algorithm 1 between two iterations.

    Attributes
    ----------
    call
        The call of `solve` or `start`, with its clock, its incumbent and its history.
    split
        The coupled variables, and what each block owns.
    mip_block, nn_block
        The two blocks.
    penalty
        The penalty rule of this run.
    incumbent
        The best verified point, shared by all runs of one call.
    u
        The NN block's copy of the network inputs.
    copies
        $w(u)$: u itself, followed by the networks' outputs where these are coupled.
    lam
        Multipliers of the coupling constraints.
    rho
        The current penalty.
    x
        Variables of the MIP block in the order of `split.milp`, None before the first iteration.
    subproblem
        The NN block's last subproblem.
    k
        Number of iterations so far.
    last
        Verification of the last $x^k$.
    seen
        Penalty and digest of earlier states, for the detection of cycles.
    stopped
        Status with which the run ended, None while it goes on.
    bound
        Always None: the method proves no bound.
    restore
        Function that submits feasible points near an assignment, None without restoration.
    """

    call: Run
    split: Split
    mip_block: MIPBlock
    nn_block: NNBlock
    penalty: PenaltyRule
    incumbent: Incumbent
    u: ndarray
    copies: ndarray
    lam: ndarray
    rho: Penalty
    x: ndarray | None = None
    subproblem: NNSubproblem | None = None
    k: int = 0
    last: Verification | None = None
    seen: set[tuple[Penalty, bytes]] = field(default_factory=set)
    stopped: str | None = None
    bound: None = None
    restore: Callable[[ndarray], None] | None = None

    def __post_init__(self) -> None:
        self._improvements_before = len(self.incumbent.found)

    @property
    def improved(self) -> bool:
        """Whether this run has improved the incumbent of the runs before it."""
        return len(self.incumbent.found) > self._improvements_before

    @property
    def w(self) -> ndarray:
        """The coupled part of x."""
        assert self.x is not None
        return self.x[self.split.coupled]

    @property
    def iteration(self) -> int:
        """Number of iterations so far."""
        return self.k

    @property
    def objective(self) -> float | None:
        """Objective of the incumbent, None where no point was verified yet."""
        return self.incumbent.objective

    @property
    def history(self) -> History:
        """The iterations of all runs of one call."""
        return self.call.history

    @property
    def deadline(self) -> float:
        """End of the time limit, in seconds of the clock in force."""
        return self.call.deadline

    @property
    def seconds(self) -> float:
        """Seconds since the start of the call."""
        return self.call.seconds

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline."""
        return self.call.seconds_left

    def restore_feasibility(self) -> None:
        """Submit feasible points near x, where x violates constraints on outputs."""
        assert self.x is not None
        assert self.last is not None
        if self.restore is not None and self.split.constrains_outputs and not self.last.feasible:
            self.restore(self.split.users(self.x))

    def record(self, primal: float, dual: float, **seconds: float) -> None:
        """Report the evaluated point u, verify x by the true network as a candidate for the
        incumbent, and add this iteration to the history.

        Parameters
        ----------
        primal, dual
            The residuals.
        **seconds
            Seconds of the MIP block, of its solver, and of the NN block: `seconds_mip`,
            `seconds_solver`, `seconds_nn`.
        """
        assert self.x is not None
        lagrangian = self.lagrangian()
        if self.incumbent.on_point is not None:
            self.incumbent.on_point(self.split.points(self.u))
        values = self.split.users(self.x)
        if self.split.couples_outputs:  # y and what depends on it may differ from f(x)
            limit = min(MAX_SECONDS_TO_VERIFY, self.seconds_left)
            self.last = self.incumbent.consider_inputs(values, limit)
        else:
            self.last = self.incumbent.consider(values)
        iteration = Iteration(
            k=len(self.history) + 1,
            objective=self.last.objective if self.last.feasible else np.nan,
            incumbent=np.nan if self.incumbent.objective is None else self.incumbent.objective,
            primal_residual=primal,
            dual_residual=dual,
            rho=self.rho.inputs,
            rho_outputs=self.rho.outputs if self.split.couples_outputs else np.nan,
            lagrangian=lagrangian,
            seconds=self.seconds,
            **seconds,
        )
        self.history.append(iteration)

    def lagrangian(self, rho: Penalty | None = None) -> float:
        r"""Return the augmented Lagrangian $L_\rho(x, u, \lambda)$ of the problem written as a
        minimisation.

        Parameters
        ----------
        rho
            The penalty; None for the current one.
        """
        residual = self.copies - self.w
        proximal = 0.5 * (self.split.weights(rho or self.rho) * residual) @ residual
        return self.objective_at(self.u) + float(self.lam @ residual + proximal)

    def objective_at(self, u: ndarray) -> float:
        """Return c'x + g(u): at u = x the function that the split minimises."""
        with torch.no_grad():
            return float(self.split.cost @ self.x) + float(self.split.g(torch.from_numpy(u)))

    def descends_from(self, before: Self, sigma: float) -> bool:
        """Return whether both inequalities of `DescentTest` hold, up to rounding.

        Parameters
        ----------
        before
            The state before the iteration; the test holds if it is that of iteration 0.
        sigma
            Factor of the required decrease.
        """
        if before.k == 0:
            return True
        old = before.lagrangian(self.rho)
        new = self.lagrangian()
        squared_step = float(((self.u - before.u) ** 2).sum())
        noise = DESCENT_ROUNDING * max(1.0, abs(old), abs(new))
        objective_at_x = self.objective_at(self.w[: self.split.inputs.size])
        decreased = new <= old - sigma * self.rho.inputs * squared_step + noise
        return decreased and new >= objective_at_x - noise


@dataclass
class Trace:
    r"""A callback for `DualDecomposition` that keeps the iterates.

    Attributes
    ----------
    x
        Coupled part of $x^k$, one array for each iteration.
    u
        $u^k$.
    lam
        $\lambda^k$.

    Examples
    --------
    >>> from ddmip_lib import DualDecomposition
    >>> from ddmip_lib.problems import hand_sized
    >>> trace = Trace()
    >>> solution = DualDecomposition(penalty=10.0, max_iterations=3, callback=trace).solve(
    ...     hand_sized()
    ... )
    >>> len(trace.x) == len(solution.history), trace.u[0].shape
    (True, (2,))
    """

    x: list[ndarray] = field(default_factory=list)
    u: list[ndarray] = field(default_factory=list)
    lam: list[ndarray] = field(default_factory=list)

    def __call__(self, run: ADMMState) -> None:
        """Record the iterates of one iteration."""
        self.x.append(run.w)
        self.u.append(run.u.copy())
        self.lam.append(run.lam.copy())

"""The state of Algorithm 1 between two iterations, and how a callback records it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
import torch

from ..clock import now
from ..model.incumbent import Incumbent
from ..model.solution import History, Iteration
from ..model.verification import Verification
from .mip_block import MIPBlock
from .nn_block import NNBlock, NNSubproblem
from .penalty import Penalty, PenaltyRule
from .split import Split


@dataclass
class ADMMState:
    """The state of Algorithm 1 between two iterations."""

    split: Split
    mip: MIPBlock
    nn: NNBlock
    penalty: PenaltyRule
    incumbent: Incumbent
    u: np.ndarray
    copies: np.ndarray
    r"""$\kappa(u)$: u itself, with the networks' outputs behind it where these are coupled."""
    lam: np.ndarray
    rho: Penalty
    deadline: float
    began: float
    x: np.ndarray | None = None
    """The MIP block's variables, in the order of `split.milp`."""
    sub: NNSubproblem | None = None
    k: int = 0
    last: Verification | None = None
    history: History = field(default_factory=History)
    seen: set[tuple[Penalty, bytes]] = field(default_factory=set)
    stopped: str | None = None
    bound: None = None
    restore: Callable[[np.ndarray], None] | None = None
    """Moves a point onto rows that hold outputs (None: points stay where they are)."""

    def __post_init__(self) -> None:
        self._found_before = len(self.incumbent.found)

    @property
    def improved(self) -> bool:
        """Whether this run has found a better point than those before it."""
        return len(self.incumbent.found) > self._found_before

    @property
    def w(self) -> np.ndarray:
        """The coupled part of x."""
        assert self.x is not None
        return self.x[self.split.coupled]

    @property
    def iteration(self) -> int:
        return self.k

    @property
    def objective(self) -> float | None:
        """Of the best verified point, as in every solver's `Moment`."""
        return self.incumbent.objective

    @property
    def seconds(self) -> float:
        return now() - self.began

    @property
    def seconds_left(self) -> float:
        return self.deadline - now()

    def judge(self) -> None:
        """The iterates, heard by whoever follows the run; x is verified by the true network and
        competes.
        """
        assert self.x is not None
        if self.incumbent.on_point is not None:
            self.incumbent.on_point(self.split.points(self.u))
        self.last = self.split.judge(self.incumbent, self.x, seconds=min(10.0, self.seconds_left))

    def put_onto_rows(self) -> None:
        """Let the point nearest to x that satisfies rows on outputs compete, where x does not and
        one is wanted.
        """
        assert self.x is not None
        assert self.last is not None
        if self.restore is not None and self.split.constrains_outputs and not self.last.feasible:
            self.restore(self.split.users(self.x))

    def record(self, primal: float, dual: float, clock: list[float], solver: float) -> None:
        """Add this iteration to the history: its residuals, when each block ended, and seconds
        inside the solver.
        """
        assert self.last is not None
        iteration = Iteration(
            k=len(self.history) + 1,
            objective=self.last.objective if self.last.feasible else np.nan,
            incumbent=np.nan if self.incumbent.objective is None else self.incumbent.objective,
            primal_residual=primal,
            dual_residual=dual,
            rho=self.rho.inputs,
            rho_outputs=self.rho.outputs if self.split.couples_outputs else np.nan,
            lagrangian=self.lagrangian(),
            seconds_mip=clock[1] - clock[0],
            seconds_solver=solver,
            seconds_nn=clock[2] - clock[1],
            seconds=now() - self.began,
        )
        self.history.append(iteration)

    def lagrangian(self, rho: Penalty | None = None) -> float:
        """L_rho(x, u, lambda) as a minimisation, with the costs of all variables of the MIP
        block.
        """
        r = self.copies - self.w
        proximal = 0.5 * (self.split.weights(rho or self.rho) * r) @ r
        return self.objective_at(self.u) + float(self.lam @ r + proximal)

    def objective_at(self, u: np.ndarray) -> float:
        """c'x + g(u): at u = x the function that the split minimises."""
        with torch.no_grad():
            return float(self.split.cost @ self.x) + float(self.split.g(torch.from_numpy(u)))

    def descends_from(self, before: Self, sigma: float) -> bool:
        """The two inequalities of `DescentTest`, up to rounding; true before there is anything to
        compare.
        """
        if before.k == 0:
            return True
        old = before.lagrangian(self.rho)
        new = self.lagrangian()
        moved = float(((self.u - before.u) ** 2).sum())
        noise = 1e-9 * max(1.0, abs(old), abs(new))
        at_x = self.objective_at(self.w[: self.split.inputs.size])
        return new <= old - sigma * self.rho.inputs * moved + noise and new >= at_x - noise


class Restart(NamedTuple):
    """Where a run begins that is not the first: network inputs, by the other split or not, after
    another run.
    """

    inputs: list[np.ndarray]
    other_split: bool
    before: ADMMState


@dataclass
class Trace:
    r"""A callback for `DualDecomposition` that keeps $x^k$ (coupled part), $u^k$ and $\lambda^k$ of
    every iteration.

    >>> from ddmip_lib import DualDecomposition
    >>> from ddmip_lib.problems import hand_sized
    >>> trace = Trace()
    >>> solution = DualDecomposition(penalty=10.0, max_iterations=3, callback=trace).solve(
    ...     hand_sized()
    ... )
    >>> len(trace.x) == len(solution.history), trace.u[0].shape
    (True, (2,))
    """

    x: list[np.ndarray] = field(default_factory=list)
    u: list[np.ndarray] = field(default_factory=list)
    lam: list[np.ndarray] = field(default_factory=list)

    def __call__(self, run: ADMMState) -> None:
        self.x.append(run.w)
        self.u.append(run.u.copy())
        self.lam.append(run.lam.copy())

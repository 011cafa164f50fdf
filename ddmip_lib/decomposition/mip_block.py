r"""The MIP block: $\min_{v \in X}\ c^\top v - \lambda^\top w + \tfrac12 \lVert w - w(u)
\rVert_\rho^2$ over the coupled part $w$ of $v$, with $w(u)$ the NN block's copies.

Components of the block without integer variables are a convex QP (PIQP, or sorting where the QP has
the form of `separable`); the others are a MILP (SCIP). Either may be empty.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import piqp
import scipy.sparse as sp
from numpy import ndarray

from ..clock import now
from ..errors import ProblemError
from ..model.incumbent import Incumbent
from ..model.verification import TOLERANCE
from ..programs.scip import has_point, optimise, relative_violation
from ..programs.scip_program import set_objective
from .scip_block import BlockResult, MILPBlock
from .separable import KnapsackBlock
from .split import Split, components

MAX_SECONDS_FOR_INFEASIBILITY = 60.0
"""Time limit for the proof that a QP is infeasible, in seconds."""
MAX_SECONDS_FOR_BOUNDEDNESS = 10.0
"""Time limit for the check that a block is bounded, in seconds."""
MAX_SECONDS_FOR_START = 10.0
"""Time limit for the completion of the split's own start, in seconds."""
RELATIVE_TINY_PENALTY = 1e-9
"""Penalty of the relaxed x-update of `potential_gain`, in units of the largest cost."""
MIN_RELATIVE_GAIN = 1e-9
"""Potential gain that counts as zero, in units of the objective."""
DEFAULT_RELATIVE_GAIN = 0.1
"""Gain that is used instead of zero, in units of the objective."""


class MIPBlock(Protocol):
    """What Algorithm 1 requires of a MIP block."""

    def solve(
        self, lam: ndarray, copies: ndarray, rho: ndarray, deadline: float = np.inf
    ) -> BlockResult:
        """Do one x-update.

        Parameters
        ----------
        lam
            Multipliers of the coupling constraints.
        copies
            The NN block's copies of the coupled quantities.
        rho
            Their penalties.
        deadline
            End of the time limit, in seconds of the clock in force.
        """
        ...


class QPBlock:
    """A block without integer variables (or the components `mask` of one), as a sparse QP.

    Parameters
    ----------
    split
        The coupled variables, and what the block owns.
    mask
        Which variables of `split.milp` belong to the QP; None for all that the block owns.
    """

    def __init__(self, split: Split, mask: ndarray | None = None) -> None:
        milp = split.milp
        self.split = split
        self.mask = split.owned if mask is None else mask
        self.kept = np.flatnonzero(self.mask)
        self.mine = self.mask[split.coupled]
        self.slots = np.searchsorted(self.kept, split.coupled[self.mine])
        within = split.mip_constraints & (abs(milp.rows) @ self.mask > 0)
        self.rows = milp.rows[within][:, self.kept]
        self.sides = (milp.row_lower[within], milp.row_upper[within])
        equal = self.sides[0] == self.sides[1]
        self.equalities = (self.rows[equal].tocsc(), self.sides[1][equal])
        unequal = (side[~equal] for side in self.sides)
        self.inequalities = (self.rows[~equal].tocsc(), *unequal)
        self.bounds = (milp.lower[self.kept], milp.upper[self.kept])
        self.knapsacks = KnapsackBlock.find(
            self.slots, split.cost[self.kept], self.equalities, self.inequalities, self.bounds
        )

    def solve(
        self, lam: ndarray, copies: ndarray, rho: ndarray, deadline: float = np.inf
    ) -> BlockResult:
        """Do one x-update; a QP takes milliseconds, so `deadline` limits the proof of infeasibility
        alone.
        """
        cost = self.split.cost[self.kept].copy()
        cost[self.slots] -= (lam + rho * copies)[self.mine]
        rho = rho[self.mine]
        began = now()
        if self.knapsacks is not None and (rho > 0).all():
            x: ndarray | None = self.knapsacks.solve(-cost[self.slots] / rho, rho)
        else:
            x = self._solve_by_piqp(cost, rho)
        seconds = now() - began
        if x is None:  # an interior-point method cannot prove infeasibility
            limit = min(MAX_SECONDS_FOR_INFEASIBILITY, deadline - now())
            feasible = has_point(self.split.block_model(), limit)
            return BlockResult(None, "stopped" if feasible else "infeasible")
        values = np.zeros(self.split.milp.n_variables)
        values[self.kept] = x
        return BlockResult(values, "solved", seconds)

    def _solve_by_piqp(self, cost: ndarray, rho: ndarray) -> ndarray | None:
        """The minimiser, or None if the end point of PIQP is infeasible."""
        diagonal = np.zeros(self.kept.size)
        diagonal[self.slots] = rho
        each = np.arange(self.kept.size)
        quadratic = sp.csc_matrix((diagonal, (each, each)))
        # a new solver each time: update() of an existing one may end at PIQP's iteration limit
        solver = piqp.SparseSolver()
        solver.setup(quadratic, cost, *self.equalities, *self.inequalities, *self.bounds)
        status = solver.solve()
        x = np.clip(solver.result.x, *self.bounds)
        violation = relative_violation(self.rows @ x, *self.sides).max(initial=0.0)
        return x if status == piqp.PIQP_SOLVED or violation <= TOLERANCE else None


@dataclass
class JointBlock:
    """A QP and a MILP without common constraints.

    Attributes
    ----------
    qp, milp
        The blocks of the two parts.
    """

    qp: QPBlock
    milp: MILPBlock

    def solve(
        self, lam: ndarray, copies: ndarray, rho: ndarray, deadline: float = np.inf
    ) -> BlockResult:
        """Do one x-update of both parts."""
        continuous = self.qp.solve(lam, copies, rho, deadline)
        if continuous.values is None:
            return continuous
        integer = self.milp.solve(lam, copies, rho, deadline)
        if integer.values is None:
            return integer
        values = np.where(self.qp.mask, continuous.values, integer.values)
        return BlockResult(values, "solved", continuous.seconds + integer.seconds)


def mip_block(split: Split, seed: int = 0, deadline: float = np.inf) -> MIPBlock:
    """Return the block for a problem: a QP for the components without integer variables, SCIP for
    the others.

    Parameters
    ----------
    split
        The coupled variables, and what the block owns.
    seed
        Seed of SCIP.
    deadline
        End of the time limit, in seconds of the clock in force.

    Raises
    ------
    ProblemError
        If the objective is unbounded over the block.
    """
    require_bounded(split, min(MAX_SECONDS_FOR_BOUNDEDNESS, deadline - now()))
    continuous = _continuous_components(split)
    others = split.owned & ~continuous
    qp = QPBlock(split, continuous) if continuous.any() else None
    if qp is not None and not others.any():
        return qp
    milp = MILPBlock(split, others, seed)
    return milp if qp is None else JointBlock(qp, milp)


def _continuous_components(split: Split) -> ndarray:
    """Which variables of the block are in no component with an integer variable or a constraint
    that is not linear.
    """
    milp = split.milp
    each = np.arange(milp.n_variables)
    needs_scip = milp.integer.copy()
    constraints = [abs(milp.rows[split.mip_constraints])]
    for other in milp.others:
        members = np.isin(each, other.variables)
        needs_scip |= members
        constraints.append(sp.csr_matrix(members.astype(float)))
    component = components(sp.vstack(constraints, format="csr"))[1]
    return split.owned & ~np.isin(component, component[needs_scip & split.owned])


def potential_gain(split: Split, mip: MIPBlock, incumbent: Incumbent, deadline: float) -> float:
    """Return the decrease of the objective below the incumbent if the MIP block could choose all
    outputs; the first penalty depends on it (`Split.scale`).

    If no start was given, the split's own start is submitted first.

    Parameters
    ----------
    split
        The coupled variables, and what the block owns.
    mip
        The MIP block.
    incumbent
        The best verified point.
    deadline
        End of the time limit, in seconds of the clock in force.
    """
    largest = float(np.abs(split.cost).max(initial=0.0))
    rho = np.full(split.coupled.size, RELATIVE_TINY_PENALTY * (largest or 1.0))
    relaxed = mip.solve(np.zeros_like(rho), split.copies(split.start), rho, deadline)
    best = 0.0 if relaxed.values is None else float(split.cost @ relaxed.values)
    milp = split.milp
    if incumbent.objective is None and now() < deadline:
        user = split.instance.milp
        values = np.clip(0.0, user.lower, user.upper)
        values[split.inputs] = split.start
        incumbent.consider_inputs(values, min(MAX_SECONDS_FOR_START, deadline - now()))
    if incumbent.objective is not None:
        gain = milp.sign * (incumbent.objective - milp.offset) - best
        if gain > MIN_RELATIVE_GAIN * max(1.0, abs(best)):
            return gain
    return max(DEFAULT_RELATIVE_GAIN * abs(best), largest, 1e-12)


def require_bounded(split: Split, seconds: float = MAX_SECONDS_FOR_BOUNDEDNESS) -> None:
    """Check that the cost of the MIP block has a lower bound; coupled variables are bounded anyway.

    Parameters
    ----------
    split
        The coupled variables, and what the block owns.
    seconds
        Time limit of the check.

    Raises
    ------
    ProblemError
        If it has none.
    """
    milp = split.milp
    cost = split.cost.copy()
    cost[split.coupled] = 0.0
    best_bound = np.where(cost > 0, milp.lower, milp.upper)
    unbounded = ~np.isfinite(best_bound) & (cost != 0)
    if not unbounded.any():
        return
    model = split.block_model()
    set_objective(model, model.getVars(), cost)
    # the relaxation at the root decides; presolve may return "infeasible or unbounded"
    model.setParam("presolving/maxrounds", 0)
    model.setParam("limits/nodes", 1)
    optimise(model, seconds)
    if model.getStatus() in ("unbounded", "inforunbd"):
        name = milp.names[int(np.argmax(unbounded))]
        raise ProblemError(
            f"the objective is unbounded over the MIP block: give {name} a finite bound."
        )

r"""The MIP block: $\min_{v \in X}\ c^\top v - \lambda^\top w + \tfrac12 \lVert w - \kappa
\rVert_\rho^2$ over the coupled part $w$ of $v$, with $\kappa$ the copies that the NN block holds.

Parts of the block that hold no integer variable and share no row with one are a convex QP (PIQP, or
by sorting where it has the form of `separable`); the rest is a MILP (SCIP). Either part may be
empty.
"""

from typing import Protocol

import numpy as np
import piqp
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..clock import now
from ..errors import ProblemError
from ..model.incumbent import Incumbent
from ..model.verification import TOLERANCE
from ..programs.scip import has_point, matrix_of, optimise, relative_violation
from .scip_block import BlockResult, MILPBlock
from .separable import Budgets
from .split import Split


class MIPBlock(Protocol):
    """What Algorithm 1 needs of a MIP block."""

    def solve(
        self, lam: np.ndarray, copies: np.ndarray, rho: np.ndarray, deadline: float = np.inf
    ) -> BlockResult: ...


class QPBlock:
    """A block without integer variables (or the part `mask` of one), as a sparse QP for PIQP."""

    def __init__(self, split: Split, mask: np.ndarray | None = None) -> None:
        s = split.milp
        self.split = split
        self.mask = split.owned if mask is None else mask
        self.kept = np.flatnonzero(self.mask)
        self.mine = self.mask[split.coupled]
        self.slots = np.searchsorted(self.kept, split.coupled[self.mine])
        within = split.mip_constraints & (abs(s.rows) @ self.mask > 0)
        rows = s.rows[within][:, self.kept]
        lower = s.row_lower[within]
        upper = s.row_upper[within]
        equal = lower == upper
        self.equalities = (rows[equal].tocsc(), upper[equal])
        self.inequalities = (rows[~equal].tocsc(), lower[~equal], upper[~equal])
        self.bounds = (s.lower[self.kept], s.upper[self.kept])
        parts = self.slots, split.cost[self.kept], self.equalities, self.inequalities, self.bounds
        self.budgets = Budgets.find(*parts)

    def solve(
        self, lam: np.ndarray, copies: np.ndarray, rho: np.ndarray, deadline: float = np.inf
    ) -> BlockResult:
        """One x-step; a QP takes milliseconds, so `deadline` limits the proof of infeasibility
        alone.
        """
        cost = self.split.cost[self.kept].copy()
        cost[self.slots] -= (lam + rho * copies)[self.mine]
        if self.budgets is not None and (rho[self.mine] > 0).all():
            return self._by_budgets(
                self.budgets, -cost[self.slots] / rho[self.mine], rho[self.mine]
            )
        diagonal = np.zeros(self.kept.size)
        diagonal[self.slots] = rho[self.mine]
        # a fresh solver each time: PIQP's update() of an existing one was seen to end in its
        # iteration limit
        each = np.arange(self.kept.size + 1, dtype=np.int32)
        quadratic = sp.csc_matrix((diagonal, each[:-1], each), shape=2 * (self.kept.size,))
        began = now()
        solver = piqp.SparseSolver()
        a, b = self.equalities
        g, low, high = self.inequalities
        solver.setup(quadratic, cost, a, b, g, low, high, *self.bounds)
        status = solver.solve()
        seconds = now() - began
        x = np.clip(solver.result.x, *self.bounds)
        if status != piqp.PIQP_SOLVED and not self._violation(x) <= TOLERANCE:
            # an interior-point method's word is no proof of infeasibility
            seconds = min(60.0, deadline - now())
            return BlockResult(
                None, "stopped" if has_point(self.split.block_model(), seconds) else "infeasible"
            )
        values = np.zeros(self.split.milp.n_variables)
        values[self.kept] = x
        return BlockResult(values, "solved", seconds)

    def _by_budgets(self, budgets: Budgets, best: np.ndarray, rho: np.ndarray) -> BlockResult:
        began = now()
        values = np.zeros(self.split.milp.n_variables)
        x, steps = budgets.solve(best, rho)
        values[self.kept[self.slots]] = x
        there = budgets.step >= 0
        values[self.kept[budgets.step[there]]] = steps[there]
        return BlockResult(values, "solved", now() - began)

    def _violation(self, x: np.ndarray) -> float:
        a, b = self.equalities
        g, low, high = self.inequalities
        parts = np.concatenate(
            [relative_violation(a @ x, b, b), relative_violation(g @ x, low, high)]
        )
        return float(parts.max(initial=0.0))


class JointBlock:
    """A QP and a MILP that share no row: each solves its part."""

    def __init__(self, qp: QPBlock, milp: MILPBlock) -> None:
        self.qp = qp
        self.milp = milp

    def solve(
        self, lam: np.ndarray, copies: np.ndarray, rho: np.ndarray, deadline: float = np.inf
    ) -> BlockResult:
        """One x-step of both parts."""
        continuous = self.qp.solve(lam, copies, rho, deadline)
        if continuous.values is None:
            return continuous
        integer = self.milp.solve(lam, copies, rho, deadline)
        if integer.values is None:
            return integer
        values = np.where(self.qp.mask, continuous.values, integer.values)
        return BlockResult(values, "solved", continuous.seconds + integer.seconds)


def mip_block(split: Split, seed: int = 0, deadline: float = np.inf) -> MIPBlock:
    """The block that fits the problem: a QP where no integer variable is near, SCIP elsewhere."""
    require_bounded(split, min(10.0, deadline - now()))
    s = split.milp
    each = np.arange(split.milp.n_variables)
    joined = [
        sp.csr_matrix(np.isin(each, c.variables).astype(float)) for c in s.others
    ]  # as a row would join them
    together = sp.vstack([abs(s.rows[split.mip_constraints]), *joined], format="csr")
    _, part = connected_components(
        sp.block_array([[None, together.T], [together, None]]), directed=False
    )
    part = part[: s.n_variables]
    hard = s.integer | np.isin(each, [v for c in s.others for v in c.variables])
    continuous = split.owned & ~np.isin(part, part[hard & split.owned])
    if not continuous.any():
        return MILPBlock(split, split.owned, seed)
    qp = QPBlock(split, continuous)
    rest = split.owned & ~continuous
    return JointBlock(qp, MILPBlock(split, rest, seed)) if rest.any() else qp


def potential_gain(split: Split, mip: MIPBlock, incumbent: Incumbent, deadline: float) -> float:
    """What the MIP block, free to choose any output in range, would gain over the best point known:
    the size of the first penalty follows from it (`Split.scale`).

    Where no start was given, the split's own start competes first.
    """
    largest = float(np.abs(split.cost).max(initial=0.0))
    tiny = np.full(split.coupled.size, 1e-9 * largest or 1e-9)
    dream = mip.solve(np.zeros(split.coupled.size), split.copies(split.start), tiny, deadline)
    best = 0.0 if dream.values is None else float(split.cost @ dream.values)
    if incumbent.objective is None and now() < deadline:
        values = np.clip(0.0, split.instance.milp.lower, split.instance.milp.upper)
        values[split.inputs] = split.start
        incumbent.consider_inputs(values, min(10.0, deadline - now()))
    reached = incumbent.objective
    s = split.milp
    gain = 0.0 if reached is None else s.sign * (reached - s.offset) - best
    return gain if gain > 1e-9 * max(1.0, abs(best)) else max(0.1 * abs(best), largest, 1e-12)


def require_bounded(split: Split, seconds: float = 10.0) -> None:
    """Refuse a block whose cost has no lower bound; the coupled variables are boxed, so theirs
    always has one.
    """
    s = split.milp
    cost = split.cost.copy()
    cost[split.coupled] = 0.0
    endless = ~np.isfinite(np.where(cost > 0, s.lower, s.upper)) & (cost != 0)
    if not endless.any():
        return
    model = split.block_model()
    model.setObjective((matrix_of(model.getVars()) * cost).sum(), "minimize")
    # the relaxation at the root decides; presolve may answer "infeasible or unbounded" without
    # telling which
    model.setParam("presolving/maxrounds", 0)
    model.setParam("limits/nodes", 1)
    optimise(model, seconds)
    if model.getStatus() in ("unbounded", "inforunbd"):
        name = s.names[int(np.argmax(endless))]
        raise ProblemError(
            f"the objective is unbounded over the MIP block: give {name} a finite bound."
        )

r"""The MIP block: $\min_{x \in X}\ c^\top x - \lambda^\top x + \tfrac{\rho}{2} \lVert x - u \rVert^2$.

Without integer variables it is a convex QP (PIQP). With them SCIP solves it: the quadratic term is linear for binary
variables ($x^2 = x$), exact by finitely many cuts for bounded integers, and an epigraph $z \ge x^2$ for the rest.
SCIP's model is built once; each iteration changes its objective only.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import piqp
import scipy.sparse as sp
from pyscipopt import Model

from ..errors import ProblemError
from ..snapshot import copy_model, matrix_of, set_time_limit, solution_values
from ..split import PaperSplit
from ..verification import TOLERANCE, relative_violation

MAX_CUTS = 1000
"""Largest range of a coupled integer variable: its square takes one cut for each unit of range."""


@dataclass(frozen=True)
class BlockResult:
    """A full assignment (outputs meaningless), or the reason why there is none."""

    values: np.ndarray | None
    status: str


def square_cuts(lower: int, upper: int) -> list[tuple[float, float]]:
    r"""Slopes and intercepts $(2k+1, -k(k+1))$, $l \le k < u$, whose maximum equals $x^2$ at every integer in $[l, u]$.

    >>> square_cuts(0, 3)
    [(1.0, 0.0), (3.0, -2.0), (5.0, -6.0)]
    """
    return [(2.0 * k + 1.0, 0.0 - k * (k + 1)) for k in range(lower, upper)]


class QPBlock:
    """A block without integer variables, as a sparse QP for PIQP."""

    def __init__(self, split: PaperSplit, seed: int = 0) -> None:
        s = split.compiled.snapshot
        self.split = split
        self.kept = np.flatnonzero(~split.compiled.is_output)
        self.slots = np.searchsorted(self.kept, split.coupled)
        rows = s.rows[split.mip_rows][:, self.kept]
        lower, upper = s.row_lower[split.mip_rows], s.row_upper[split.mip_rows]
        equal = lower == upper
        self.equalities = (rows[equal].tocsc(), upper[equal])
        self.inequalities = (rows[~equal].tocsc(), lower[~equal], upper[~equal])
        self.bounds = (s.lower[self.kept], s.upper[self.kept])

    def solve(self, lam: np.ndarray, u: np.ndarray, rho: float, deadline: float = np.inf) -> BlockResult:
        """One x-step; `deadline` is not needed here, a QP takes milliseconds."""
        cost = self.split.cost[self.kept].copy()
        cost[self.slots] -= lam + rho * u
        # a fresh solver each time: PIQP's update() of an existing one was seen to end in its iteration limit
        solver = piqp.SparseSolver()
        a, b = self.equalities
        g, low, high = self.inequalities
        solver.setup(self._quadratic(rho), cost, a, b, g, low, high, *self.bounds)
        status = solver.solve()
        x = np.clip(solver.result.x, *self.bounds)
        if status != piqp.PIQP_SOLVED and not self._violation(x) <= TOLERANCE:
            return BlockResult(None, "stopped" if self._has_point() else "infeasible")
        values = np.zeros(self.split.compiled.snapshot.n_variables)
        values[self.kept] = x
        return BlockResult(values, "solved")

    def _has_point(self) -> bool:
        """Whether the block may have a point: an interior-point method's word is no proof of infeasibility."""
        model = block_model(self.split)
        model.setObjective(0.0)
        set_time_limit(model, 60.0)
        model.optimize()
        return model.getStatus() != "infeasible"

    def _quadratic(self, rho: float) -> sp.csc_matrix:
        diagonal = np.zeros(self.kept.size)
        diagonal[self.slots] = rho
        return sp.csc_matrix(sp.diags(diagonal, format="csc"))

    def _violation(self, x: np.ndarray) -> float:
        a, b = self.equalities
        g, low, high = self.inequalities
        parts = np.concatenate([relative_violation(a @ x, b, b), relative_violation(g @ x, low, high)])
        return float(parts.max(initial=0.0))


class MILPBlock:
    """A block with integer variables (or constraints that are no rows): one SCIP model, solved again and again."""

    def __init__(self, split: PaperSplit, seed: int = 0) -> None:
        s = split.compiled.snapshot
        self.split = split
        self.model = block_model(split, seed)
        variables = self.model.getVars()
        self.variables = matrix_of(variables)
        self.binary = s.integer[split.coupled] & (split.box[0] == 0) & (split.box[1] == 1)
        squares = [self._square(variables[at]) for at in split.coupled[~self.binary]]
        self.squares = matrix_of(squares) if squares else None
        self.solved_before = False

    def _square(self, x: Any) -> Any:
        """A variable z with z >= x^2, tight wherever z is minimised."""
        low, high = x.getLbOriginal(), x.getUbOriginal()
        z = self.model.addVar(lb=0.0, ub=max(low**2, high**2))
        if x.vtype() == "CONTINUOUS":
            # SCIP's NLP solver has crashed on such models on aarch64; branch and cut does not need it
            self.model.setParam("nlp/disable", True)
            self.model.addCons(z >= x * x)
            return z
        if high - low > MAX_CUTS:
            raise ProblemError(
                f"integer variable {x.name} ranges over {high - low:.0f} values and enters a network; the library "
                f"represents its square by cuts for ranges up to {MAX_CUTS}. Tighten its bounds, or make it continuous."
            )
        for slope, intercept in square_cuts(int(np.ceil(low)), int(np.floor(high))):
            self.model.addCons(z >= slope * x + intercept)
        return z

    def solve(self, lam: np.ndarray, u: np.ndarray, rho: float, deadline: float = np.inf) -> BlockResult:
        """One x-step, to optimality or to the deadline (then with the best point found)."""
        remaining = deadline - time.perf_counter()
        if remaining <= 0:
            return BlockResult(None, "time_limit")
        if self.solved_before:
            self.model.freeTransform()
        self.solved_before = True
        cost = self.split.cost.copy()
        cost[self.split.coupled] -= lam + rho * u
        cost[self.split.coupled[self.binary]] += 0.5 * rho
        objective = (self.variables * cost).sum()
        if self.squares is not None:
            objective = objective + 0.5 * rho * self.squares.sum()
        self.model.setObjective(objective, "minimize")
        set_time_limit(self.model, remaining)
        self.model.optimize()
        if self.model.getNSols() == 0:
            # the objective is bounded (see require_bounded), so "infeasible or unbounded" means infeasible
            proved = self.model.getStatus() in ("infeasible", "inforunbd")
            return BlockResult(None, "infeasible" if proved else "time_limit")
        values = solution_values(self.model, self.variables)
        integer = self.split.compiled.snapshot.integer
        return BlockResult(np.where(integer, np.round(values), values), "solved")


def block_model(split: PaperSplit, seed: int = 0) -> Model:
    """A SCIP copy of the user's model without the constraints on outputs."""
    model = copy_model(split.compiled.model, seed)
    variables = model.getVars()
    outputs = {variables[at].ptr() for at in np.flatnonzero(split.compiled.is_output)}
    for constraint in model.getConss():
        if any(v.ptr() in outputs for v in model.getConsVars(constraint) or ()):
            model.delCons(constraint)
    return model


def require_bounded(split: PaperSplit) -> None:
    """Refuse a block whose cost has no lower bound; the coupled variables are boxed, so theirs always has one."""
    s = split.compiled.snapshot
    cost = split.cost.copy()
    cost[split.coupled] = 0.0
    endless = ~np.isfinite(np.where(cost > 0, s.lower, s.upper)) & (cost != 0)
    if not endless.any():
        return
    model = block_model(split)
    model.setObjective((matrix_of(model.getVars()) * cost).sum(), "minimize")
    # the relaxation at the root decides; presolve may answer "infeasible or unbounded" without telling which
    model.setParam("presolving/maxrounds", 0)
    model.setParam("limits/nodes", 1)
    set_time_limit(model, 10.0)
    model.optimize()
    if model.getStatus() in ("unbounded", "inforunbd"):
        name = s.names[int(np.argmax(endless))]
        raise ProblemError(f"the objective is unbounded over the MIP block: give {name} a finite bound.")


def mip_block(split: PaperSplit, seed: int = 0) -> QPBlock | MILPBlock:
    """The block that fits the problem: QP without integer variables, SCIP otherwise."""
    require_bounded(split)
    s = split.compiled.snapshot
    owned = ~split.compiled.is_output
    if s.integer[owned].any() or s.others:
        return MILPBlock(split, seed)
    return QPBlock(split, seed)

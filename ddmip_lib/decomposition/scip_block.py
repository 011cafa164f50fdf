r"""The MIP block's part with integer variables: one SCIP model, solved again and again with a new
objective.

The quadratic term is linear for binary variables ($x^2 = x$), exact by finitely many cuts for
bounded integers, by tangents in perspective form for on/off variables, and an epigraph $z \ge x^2$
for the rest. An x-step need only be no worse than the previous point, which SCIP keeps as its
start: it stops at a small gap.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from pyscipopt import SCIP_PARAMSETTING, quicksum

from ..clock import now
from ..errors import ProblemError
from ..model.onoff import OnOff, find_onoff
from ..programs.scip import ROW_HANDLERS, matrix_of, optimise, solution_values
from .split import Split

# largest range of a coupled integer variable: its square takes one cut for each unit of range
MAX_CUTS = 1000
TANGENTS = 9  # tangent points over the range of an on/off variable
GAP = 1e-4
NODES = 10
CUT_ROUNDS = 5
"""An x-step ends at this relative gap, or after so many nodes; its root gets so many rounds of
cuts.
"""


@dataclass(frozen=True)
class BlockResult:
    """A full assignment (outputs that the block does not own are meaningless), or the reason why
    there is none.
    """

    values: np.ndarray | None
    status: str
    seconds: float = 0.0  #: Seconds inside the solver.


def square_cuts(lower: int, upper: int) -> list[tuple[float, float]]:
    r"""Slopes and intercepts $(2k+1, -k(k+1))$, $l \le k < u$, whose maximum equals $x^2$ at every
    integer in $[l, u]$.

    >>> square_cuts(0, 3)
    [(1.0, 0.0), (3.0, -2.0), (5.0, -6.0)]
    """
    return [(2.0 * k + 1.0, 0.0 - k * (k + 1)) for k in range(lower, upper)]


class MILPBlock:
    """The part `mask` of a block, by SCIP."""

    def __init__(self, split: Split, mask: np.ndarray | None = None, seed: int = 0) -> None:
        s = split.milp
        at = split.coupled
        self.split = split
        self.mask = split.owned if mask is None else mask
        self.model = split.block_model(seed)
        variables = self.model.getVars()
        self.variables = matrix_of(variables)
        rows = [c for c in self.model.getConss() if c.getConshdlrName() in ROW_HANDLERS]
        constraints = dict(zip(np.flatnonzero(split.mip_constraints).tolist(), rows, strict=True))
        for r in np.flatnonzero(
            split.mip_constraints & (abs(s.rows) @ (split.owned & ~self.mask) > 0)
        ).tolist():
            self.model.delCons(constraints[r])  # another part's row
        self.onoff = find_onoff(s, at[self.mask[at]], split.mip_constraints)
        slot = {v: j for j, v in enumerate(at.tolist())}
        self.switched = np.array([slot[o.variable] for o in self.onoff], dtype=int)
        self.switches = np.array([o.switch for o in self.onoff], dtype=int)
        mine = self.mask[at]
        self.binary = mine & s.integer[at] & (s.lower[at] == 0) & (s.upper[at] == 1)
        self.linear = np.flatnonzero(mine)
        self.squared = np.setdiff1d(np.flatnonzero(mine & ~self.binary), self.switched)
        squares = [self._square(variables[at[j]]) for j in self.squared]
        squares += [self._switch(variables, o, constraints) for o in self.onoff]
        self.squares = matrix_of(squares) if squares else None
        self.model.setPresolve(SCIP_PARAMSETTING.FAST)
        self.model.setParam("limits/gap", GAP)
        self.model.setParam("limits/nodes", NODES)
        self.model.setParam("separating/maxroundsroot", CUT_ROUNDS)
        self.solved_before = False

    def _square(self, x: Any) -> Any:
        """A variable z with z >= x^2, tight wherever z is minimised."""
        low = x.getLbOriginal()
        high = x.getUbOriginal()
        z = self.model.addVar(lb=0.0, ub=max(low**2, high**2))
        if x.vtype() == "CONTINUOUS":
            # SCIP's NLP solver has crashed on such models on aarch64; branch and cut does not need
            # it
            self.model.setParam("nlp/disable", True)
            self.model.addCons(z >= x * x)
            return z
        if high - low > MAX_CUTS:
            raise ProblemError(
                f"integer variable {x.name} ranges over {high - low:.0f} values and meets a"
                f" network; the library represents its square by cuts for ranges up to {MAX_CUTS}."
                " Tighten its bounds, or make it continuous."
            )
        for slope, intercept in square_cuts(int(np.ceil(low)), int(np.floor(high))):
            self.model.addCons(z >= slope * x + intercept)
        return z

    def _switch(self, variables: list[Any], onoff: OnOff, constraints: dict[int, Any]) -> Any:
        """Turn a variable into its on/off form and return z, the perspective of its square."""
        sigma = variables[onoff.variable]
        b = variables[onoff.switch]
        low = sigma.getLbOriginal()
        high = sigma.getUbOriginal()
        for r in onoff.replaced:
            self.model.delCons(constraints[r])
        self.model.chgVarLb(sigma, min(low, 0.0))
        self.model.chgVarUb(sigma, max(high, 0.0))
        self.model.addCons(sigma - high * b <= 0)
        self.model.addCons(sigma - low * b >= 0)
        for row in onoff.rows:
            others = quicksum(a * variables[i] for i, a in row.others.items())
            self.model.addCons(others + row.sigma * sigma - (row.on - row.off) * b <= row.off)
        z = self.model.addVar(lb=0.0, ub=max(low**2, high**2))
        for a in np.linspace(low, high, TANGENTS):
            self.model.addCons(z - 2.0 * a * sigma + a**2 * b >= 0)
        return z

    def solve(
        self, lam: np.ndarray, copies: np.ndarray, rho: np.ndarray, deadline: float = np.inf
    ) -> BlockResult:
        """One x-step, to a small gap or to the deadline (then with the best point found)."""
        remaining = deadline - now()
        if remaining <= 0:
            return BlockResult(None, "time_limit")
        if self.solved_before:
            self.model.freeTransform()
        self.solved_before = True
        at = self.split.coupled
        on = self.switched
        cost = np.where(self.mask, self.split.cost, 0.0)
        cost[at[self.linear]] -= (lam + rho * copies)[self.linear]
        cost[at[self.binary]] += 0.5 * rho[self.binary]
        free = self._free(lam, copies, rho)
        off = (
            cost[at[on]] * free + 0.5 * rho[on] * free**2
        )  # the term at its minimiser, less its constant
        np.add.at(cost, self.switches, -off)
        objective = (self.variables * cost).sum()
        if self.squares is not None:
            objective = (
                objective + (self.squares * (0.5 * rho[np.concatenate([self.squared, on])])).sum()
            )
        self.model.setObjective(objective, "minimize")
        began = now()
        optimise(self.model, remaining)
        if self.model.getNSols() == 0 and self.model.getStatus() == "nodelimit":
            self.model.setParam("limits/nodes", -1)
            self.model.setParam("limits/solutions", 1)
            optimise(
                self.model, self.model.getSolvingTime() + deadline - now()
            )  # SCIP's clock goes on
            self.model.setParam("limits/solutions", -1)
            self.model.setParam("limits/nodes", NODES)
        if self.model.getNSols() == 0:
            # the objective is bounded (see require_bounded), so "infeasible or unbounded" means
            # infeasible
            statuses = {
                "infeasible": "infeasible",
                "inforunbd": "infeasible",
                "timelimit": "time_limit",
            }
            return BlockResult(None, statuses.get(self.model.getStatus(), "stopped"))
        seconds = now() - began
        values = solution_values(self.model, self.variables)
        values = np.where(self.split.milp.integer, np.round(values), values)
        return BlockResult(self._switch_back(values, free), "solved", seconds)

    def _free(self, lam: np.ndarray, copies: np.ndarray, rho: np.ndarray) -> np.ndarray:
        """Minimisers of the on/off variables' own terms over their bounds."""
        on = self.switched
        s = self.split.milp
        at = self.split.coupled[on]
        return np.clip(
            copies[on] + (lam[on] - self.split.cost[at]) / rho[on], s.lower[at], s.upper[at]
        )

    def _switch_back(self, values: np.ndarray, free: np.ndarray) -> np.ndarray:
        """Put each on/off variable at its exact minimiser, given all others: free, or as near as
        its rows allow.
        """
        if not self.onoff:
            return values
        s = self.split.milp
        row = np.concatenate([o.replaced for o in self.onoff])
        owner = np.repeat(np.arange(len(self.onoff)), [len(o.replaced) for o in self.onoff])
        at = self.split.coupled[self.switched]
        values = values.copy()
        values[at] = 0.0
        rest = s.rows[row] @ values
        slope = np.asarray(s.rows[row, at[owner]]).ravel()
        ends = np.stack([(s.row_lower[row] - rest) / slope, (s.row_upper[row] - rest) / slope])
        low = s.lower[at].copy()
        high = s.upper[at].copy()
        np.maximum.at(low, owner, ends.min(axis=0))
        np.minimum.at(high, owner, ends.max(axis=0))
        values[at] = np.clip(free, low, np.maximum(low, high))
        return values

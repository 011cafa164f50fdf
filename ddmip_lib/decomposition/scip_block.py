r"""The MIP block's part with integer variables: one SCIP model, re-solved with a new objective.

The quadratic term is linear for binary variables ($x^2 = x$), exact by finitely many cuts for
bounded integers, by tangents in perspective form for on/off variables, and an epigraph $z \ge x^2$
for the others. An x-step may stop at a small gap, because its point only has to be no worse than
the one before, which is SCIP's start.
"""

from dataclasses import dataclass

import numpy as np
from numpy import ndarray
from pyscipopt import SCIP_PARAMSETTING, Constraint, Variable, quicksum

from ..clock import now
from ..errors import ProblemError
from ..model.onoff import OnOff, find_onoff
from ..programs.scip import ROW_HANDLERS, optimise, solution_values
from ..programs.scip_program import set_objective
from .split import Split

MAX_SQUARE_CUTS = 1000
"""Largest range of a coupled integer variable: its square has one cut for each unit of range."""
SQUARE_TANGENTS = 9
"""Number of tangent points over the range of an on/off variable."""
X_STEP_RELATIVE_GAP = 1e-4
"""Relative gap at which an x-step ends."""
X_STEP_MAX_NODES = 10
"""Number of nodes after which an x-step ends."""
X_STEP_CUT_ROUNDS = 5
"""Maximum number of rounds of cuts at the root of an x-step."""
STATUS_WITHOUT_POINT = {
    "infeasible": "infeasible",
    "inforunbd": "infeasible",  # the objective is bounded, see `require_bounded`
    "timelimit": "time_limit",
}
"""Status of an x-step without a point, by the status of SCIP; "stopped" for all others."""


@dataclass(frozen=True)
class BlockResult:
    """The result of an x-step.

    Attributes
    ----------
    values
        A full assignment, in which outputs that the block does not own have no meaning; None if
        there is none.
    status
        "solved", or the reason why there is no assignment.
    seconds
        Seconds inside the solver.
    """

    values: ndarray | None
    status: str
    seconds: float = 0.0


def square_cuts(lower: int, upper: int) -> list[tuple[float, float]]:
    r"""Return linear functions whose maximum equals $x^2$ at every integer in $[l, u]$.

    Parameters
    ----------
    lower, upper
        The range.

    Returns
    -------
    list of tuple of two float
        Derivatives and intercepts $(2k+1, -k(k+1))$, $l \le k < u$.

    Examples
    --------
    >>> square_cuts(0, 3)
    [(1.0, 0.0), (3.0, -2.0), (5.0, -6.0)]
    """
    return [(2.0 * k + 1.0, 0.0 - k * (k + 1)) for k in range(lower, upper)]


class MILPBlock:
    """A block, or the components `mask` of one, by SCIP.

    Parameters
    ----------
    split
        The coupled variables, and what the block owns.
    mask
        Which variables of `split.milp` belong to this part; None for all that the block owns.
    seed
        Seed of SCIP.

    Attributes
    ----------
    model, variables
        SCIP's model and its variables.
    onoff
        The on/off variables.
    switched, switches
        Positions of the on/off variables among the coupled ones, and of their binaries in the
        model.
    binary, linear, squared
        Coupled variables of this part: which are binary, positions of all, and positions of those
        with cuts or an epigraph.
    """

    def __init__(self, split: Split, mask: ndarray | None = None, seed: int = 0) -> None:
        self.split = split
        self.mask = split.owned if mask is None else mask
        self.model = split.block_model(seed)
        self.variables = self.model.getVars()
        self._constraints = self._own_constraints()
        coupled = split.coupled
        mine = self.mask[coupled]
        self.onoff = find_onoff(split.milp, coupled[mine], split.mip_constraints)
        is_switched = np.isin(coupled, [o.variable for o in self.onoff])
        self.switched = np.flatnonzero(is_switched)
        self.switches = np.array([o.switch for o in self.onoff], dtype=int)
        self.binary = mine & split.milp.binary[coupled]
        self.linear = np.flatnonzero(mine)
        self.squared = np.flatnonzero(mine & ~self.binary & ~is_switched)
        self._squares = [self._add_square(self.variables[v]) for v in coupled[self.squared]]
        self._squares += map(self._add_onoff, self.onoff)
        self.model.setPresolve(SCIP_PARAMSETTING.FAST)
        self.model.setParam("limits/gap", X_STEP_RELATIVE_GAP)
        self.model.setParam("limits/nodes", X_STEP_MAX_NODES)
        self.model.setParam("separating/maxroundsroot", X_STEP_CUT_ROUNDS)

    def _own_constraints(self) -> dict[int, Constraint]:
        """The linear constraints by their rows of `milp`, after those of other parts were
        deleted.
        """
        split = self.split
        linear = [c for c in self.model.getConss() if c.getConshdlrName() in ROW_HANDLERS]
        rows = np.flatnonzero(split.mip_constraints)
        constraints = dict(zip(rows.tolist(), linear, strict=True))
        of_others = abs(split.milp.rows[rows]) @ (split.owned & ~self.mask) > 0
        for row in rows[of_others].tolist():
            self.model.delCons(constraints[row])
        return constraints

    def _add_square(self, x: Variable) -> Variable:
        """Add a variable z >= x^2, with equality wherever z is minimised."""
        lower = x.getLbOriginal()
        upper = x.getUbOriginal()
        z = self.model.addVar(lb=0.0, ub=max(lower**2, upper**2))
        if x.vtype() == "CONTINUOUS":
            # SCIP's NLP solver is not needed for branch and cut, and can crash on aarch64
            self.model.setParam("nlp/disable", True)
            self.model.addCons(z >= x * x)
            return z
        if upper - lower > MAX_SQUARE_CUTS:
            raise ProblemError(
                f"integer variable {x.name} takes {upper - lower:.0f} values and is an input of a"
                " network; the library represents its square by cuts for ranges up to"
                f" {MAX_SQUARE_CUTS}. Tighten its bounds, or make it continuous."
            )
        for derivative, intercept in square_cuts(int(np.ceil(lower)), int(np.floor(upper))):
            self.model.addCons(z >= derivative * x + intercept)
        return z

    def _add_onoff(self, onoff: OnOff) -> Variable:
        """Rewrite an on/off variable and return z, the perspective of its square."""
        variables = self.variables
        sigma = variables[onoff.variable]
        b = variables[onoff.switch]
        lower = sigma.getLbOriginal()
        upper = sigma.getUbOriginal()
        for row in onoff.replaced:
            self.model.delCons(self._constraints[row])
        self.model.chgVarLb(sigma, min(lower, 0.0))
        self.model.chgVarUb(sigma, max(upper, 0.0))
        self.model.addCons(sigma - upper * b <= 0)
        self.model.addCons(sigma - lower * b >= 0)
        for new in onoff.rows:
            others = quicksum(a * variables[v] for v, a in new.others.items())
            self.model.addCons(others + new.sigma * sigma - (new.on - new.off) * b <= new.off)
        z = self.model.addVar(lb=0.0, ub=max(lower**2, upper**2))
        for a in np.linspace(lower, upper, SQUARE_TANGENTS):
            self.model.addCons(z - 2.0 * a * sigma + a**2 * b >= 0)
        return z

    def solve(
        self, lam: ndarray, copies: ndarray, rho: ndarray, deadline: float = np.inf
    ) -> BlockResult:
        """Do one x-step, to a small gap or to the deadline (then with the best point found)."""
        remaining = deadline - now()
        if remaining <= 0:
            return BlockResult(None, "time_limit")
        self.model.freeTransform()
        free = self._unconstrained_minimisers(lam, copies, rho)
        self._set_objective(lam, copies, rho, free)
        began = now()
        optimise(self.model, remaining)
        if self.model.getNSols() == 0 and self.model.getStatus() == "nodelimit":
            self._continue_to_first_solution(deadline)
        if self.model.getNSols() == 0:
            status = STATUS_WITHOUT_POINT.get(self.model.getStatus(), "stopped")
            return BlockResult(None, status)
        seconds = now() - began
        values = solution_values(self.model, self.variables)
        values = np.where(self.split.milp.integer, np.round(values), values)
        return BlockResult(self._restore_onoff(values, free), "solved", seconds)

    def _set_objective(self, lam: ndarray, copies: ndarray, rho: ndarray, free: ndarray) -> None:
        coupled = self.split.coupled
        on = self.switched
        cost = np.where(self.mask, self.split.cost, 0.0)
        cost[coupled[self.linear]] -= (lam + rho * copies)[self.linear]
        cost[coupled[self.binary]] += 0.5 * rho[self.binary]
        # the term of an on/off variable that is off, up to a constant
        off = cost[coupled[on]] * free + 0.5 * rho[on] * free**2
        np.add.at(cost, self.switches, -off)
        weights = 0.5 * rho[np.concatenate([self.squared, on])]
        variables = [*self.variables, *self._squares]
        set_objective(self.model, variables, np.concatenate([cost, weights]))

    def _continue_to_first_solution(self, deadline: float) -> None:
        """Continue without a node limit until a solution is found."""
        self.model.setParam("limits/nodes", -1)
        self.model.setParam("limits/solutions", 1)
        # SCIP's clock includes the time before
        optimise(self.model, self.model.getSolvingTime() + deadline - now())
        self.model.setParam("limits/solutions", -1)
        self.model.setParam("limits/nodes", X_STEP_MAX_NODES)

    def _unconstrained_minimisers(self, lam: ndarray, copies: ndarray, rho: ndarray) -> ndarray:
        """Minimisers of the terms of the on/off variables over their bounds."""
        on = self.switched
        milp = self.split.milp
        at = self.split.coupled[on]
        best = copies[on] + (lam[on] - self.split.cost[at]) / rho[on]
        return np.clip(best, milp.lower[at], milp.upper[at])

    def _restore_onoff(self, values: ndarray, free: ndarray) -> ndarray:
        """Set each on/off variable to its minimiser, given all others, subject to its
        constraints.
        """
        if not self.onoff:
            return values
        milp = self.split.milp
        at = self.split.coupled[self.switched]
        values[at] = 0.0
        row = np.concatenate([o.replaced for o in self.onoff])
        owner = np.repeat(np.arange(len(self.onoff)), [len(o.replaced) for o in self.onoff])
        activity = milp.rows[row] @ values
        coefficient = np.asarray(milp.rows[row, at[owner]]).ravel()
        sides = np.array([milp.row_lower[row], milp.row_upper[row]])
        ends = np.sort((sides - activity) / coefficient, axis=0)
        lower = milp.lower[at].copy()
        upper = milp.upper[at].copy()
        np.maximum.at(lower, owner, ends[0])
        np.minimum.at(upper, owner, ends[1])
        values[at] = np.clip(free, lower, np.maximum(lower, upper))
        return values

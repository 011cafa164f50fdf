r"""The restricted master problem for blocks of any form: its columns, prices, and the best choice.

A column is a point of one block that satisfies its own constraints with the networks' true outputs;
it costs $c_o$ and uses $L_o$ of the coupling constraints. With the master's variables $v_0$

$$\min \sum_o c_o \delta_o + c_0^\top v_0 \quad\text{s.t.}\quad l \le \sum_o L_o \delta_o
+ L_0 v_0 \le u, \qquad
\sum_{o \text{ of } b} \delta_o = 1, \qquad \delta \ge 0,$$

the dual values of the coupling constraints are the prices $\pi$, and with $\delta$ binary the
program selects one column of each block.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..model.incumbent import Incumbent
from ..model.structure import Structure
from ..model.verification import TOLERANCE
from ..programs.lp import LPSolver
from ..programs.mip import solve_program
from ..programs.program import Program, Rows
from ..programs.scip import relative_violation

MAX_CHOICE_NODES = 2000
"""Number of nodes of HiGHS for one choice of columns."""


class GeneralMasterSolution(NamedTuple):
    """Solution of the linear program over the columns.

    Attributes
    ----------
    coupling
        Dual values of the coupling constraints.
    blocks
        Dual values of the convexity constraints.
    value
        Optimal value. If it is infinite, no mixture of the columns is feasible, and the other
        attributes are those of the mixture of least constraint violation.
    weights
        Weights of the columns.
    """

    coupling: np.ndarray
    blocks: np.ndarray
    value: float
    weights: np.ndarray

    @property
    def phase_factor(self) -> float:
        """Factor of costs in reduced costs: 0 as long as no mixture is feasible, else 1."""
        return float(np.isfinite(self.value))


class GeneralColumns:
    """The columns found so far, as parallel arrays; costs are minimised.

    Parameters
    ----------
    incumbent
        The incumbent, which verifies points.
    structure
        The blocks.

    Attributes
    ----------
    block
        Block of each column, (k,).
    point
        Index in `points` of the point that each column is part of, (k,).
    cost
        Objective coefficients, (k,).
    use
        Coefficients in the coupling constraints, (k, m).
    """

    def __init__(self, incumbent: Incumbent, structure: Structure) -> None:
        s = incumbent.instance.milp
        self.incumbent = incumbent
        self.structure = structure
        self.milp = s
        self.coupling = s.rows[structure.coupling]
        self.master = np.flatnonzero(structure.block < 0)
        own = np.flatnonzero(structure.block >= 0)
        self.member = sp.csr_matrix(
            (np.ones(len(own)), (own, structure.block[own])), shape=(s.n_variables, structure.n)
        )
        self.row_member = (abs(s.rows[~structure.coupling]) @ self.member).astype(bool).tocsr()
        self.points: list[np.ndarray] = []
        self.block = np.zeros(0, dtype=int)
        self.point = np.zeros(0, dtype=int)
        self.cost = np.zeros(0)
        self.use = np.zeros((0, self.coupling.shape[0]))

    def __len__(self) -> int:
        return len(self.block)

    def add(self, values: np.ndarray) -> None:
        """Append the parts of a point that satisfy their block's constraints and are new.

        Parameters
        ----------
        values
            A full assignment with the networks' true outputs.
        """
        blocks = self._feasible_blocks(values)
        cost = ((self.milp.sign * self.milp.cost * values) @ self.member)[blocks]
        use = (self.coupling @ sp.diags(values) @ self.member).T.toarray()[blocks]
        known = np.column_stack([self.block, self.cost, self.use])
        found = np.column_stack([blocks, cost, use])
        key = np.round(np.vstack([known, found]), 9)
        first = np.sort(np.unique(key, axis=0, return_index=True)[1])
        new = first[first >= len(self)] - len(self)
        self.block = np.append(self.block, blocks[new])
        self.cost = np.append(self.cost, cost[new])
        self.use = np.vstack([self.use, use[new]])
        self.point = np.append(self.point, np.full(len(new), len(self.points)))
        self.points.append(values)

    def _feasible_blocks(self, values: np.ndarray) -> np.ndarray:
        missed, outside = self.incumbent.missed(values)
        violated = self.row_member.T @ (missed[~self.structure.coupling] > TOLERANCE)
        violated = violated + self.member.T @ (outside > TOLERANCE)
        return np.flatnonzero(violated == 0)

    def _program(self, among: np.ndarray) -> Program:
        """Return the program over some columns, followed by the master's variables."""
        s = self.milp
        n = self.structure.n
        ones = np.ones(len(among))
        convexity = sp.csr_matrix(
            (ones, (self.block[among], np.arange(len(among)))), shape=(n, len(among))
        )
        linking = [sp.csr_matrix(self.use[among].T), self.coupling[:, self.master]]
        rows = sp.block_array([linking, [convexity, None]])
        row_lower, row_upper = s.sides
        return Program(
            np.concatenate([self.cost[among], s.sign * s.cost[self.master]]),
            Rows.of(rows.tocsr()),
            np.concatenate([row_lower[self.structure.coupling], np.ones(n)]),
            np.concatenate([row_upper[self.structure.coupling], np.ones(n)]),
            np.concatenate([0 * ones, s.lower[self.master]]),
            np.concatenate([np.inf * ones, s.upper[self.master]]),
            np.concatenate([ones > 0, s.integer[self.master]]),
        )

    def prices(self) -> GeneralMasterSolution:
        """Solve the linear program; if it is infeasible, minimise the constraint violation."""
        program = self._program(np.arange(len(self)))
        matrix = program.rows.matrix(len(program.cost))
        sides = program.row_lower, program.row_upper
        found = LPSolver().solve(program)
        value = np.inf
        if (
            found.point is not None
            and relative_violation(matrix @ found.point, *sides).max() <= TOLERANCE
        ):
            value = float(program.cost @ found.point)
        else:
            found = LPSolver().solve(_phase_one(program, matrix))
        shares = np.zeros(len(self)) if found.point is None else found.point[: len(self)]
        linking, blocks = np.split(found.multipliers, [self.use.shape[1]])
        return GeneralMasterSolution(linking, blocks, value, shares)

    def reduced(self, prices: GeneralMasterSolution) -> np.ndarray:
        """Return the reduced cost of each column, negative where it would improve the program."""
        return (
            self.cost * prices.phase_factor - self.use @ prices.coupling - prices.blocks[self.block]
        )

    def choose(self, among: np.ndarray, seconds: float) -> np.ndarray | None:
        """Select the best columns among candidates by HiGHS.

        Parameters
        ----------
        among
            Numbers of the candidates.
        seconds
            Time limit.

        Returns
        -------
        ndarray or None
            The choice as a full assignment; None if HiGHS found none.
        """
        if len(np.unique(self.block[among])) < self.structure.n:
            return None
        point = solve_program(self._program(among), seconds, MAX_CHOICE_NODES).point
        if point is None:
            return None
        delta, master = np.split(point, [len(among)])
        return self.assembled(among[delta > 0.5], master)

    def assembled(self, chosen: np.ndarray, master: np.ndarray | float = 0.0) -> np.ndarray:
        """Combine columns to a full assignment.

        Parameters
        ----------
        chosen
            Numbers of the columns; of several columns of one block the last one counts, and blocks
            without a column are as near to zero as their bounds allow.
        master
            Values of the master's variables.
        """
        values = np.zeros(self.milp.n_variables)
        values[self.master] = master
        for k in chosen:
            own = self.structure.block == self.block[k]
            values[own] = self.points[self.point[k]][own]
        return self.incumbent.instance.rounded(np.clip(values, self.milp.lower, self.milp.upper))


def _phase_one(program: Program, matrix: sp.csr_matrix) -> Program:
    """Return the program whose objective is the violation of the constraints."""
    m = matrix.shape[0]
    slack = np.ones(2 * m)
    identity = sp.identity(m)
    return Program(
        np.concatenate([0 * program.cost, slack]),
        Rows.of(sp.hstack([matrix, identity, -identity]).tocsr()),
        program.row_lower,
        program.row_upper,
        np.concatenate([program.lower, 0 * slack]),
        np.concatenate([program.upper, np.inf * slack]),
        np.concatenate([program.integer, slack < 0]),
    )

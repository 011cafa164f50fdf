r"""The restricted master problem for blocks of any form: its columns, prices, and the best choice.

A column is a point of one block that satisfies its own constraints with the networks' true outputs;
its value $v_o$ is its cost with the other sign, and it uses $r_o$ of the coupling constraints. With
the master's variables $x_0$ of cost $c_0$

$$\max \sum_o v_o \delta_o - c_0^\top x_0 \quad\text{s.t.}\quad l \le \sum_o r_o \delta_o
+ L_0 x_0 \le u, \qquad
\sum_{o \text{ of } b} \delta_o = 1, \qquad \delta \ge 0,$$

the dual values of the coupling constraints are the prices $\pi$, and with $\delta$ integer the
program selects one column of each block.
"""

import numpy as np
import scipy.sparse as sp
from numpy import ndarray

from ..model.incumbent import Incumbent
from ..model.structure import Structure
from ..model.verification import TOLERANCE
from ..programs.mip import solve_program
from .columns import Columns
from .master import MasterSolution, MasterVariables, RestrictedMaster

MAX_CHOICE_NODES = 2000
"""Number of nodes of HiGHS for one choice of columns."""


class GeneralColumns(Columns):
    """The columns found so far, as parallel arrays.

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
    value
        Objective coefficients, (k,): the costs with the other sign.
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
        self.points: list[ndarray] = []
        self.block = np.zeros(0, dtype=int)
        self.point = np.zeros(0, dtype=int)
        self.value = np.zeros(0)
        self.use = np.zeros((0, self.coupling.shape[0]))

    def add(self, values: ndarray) -> None:
        """Append the parts of a point that satisfy their block's constraints and are new.

        Parameters
        ----------
        values
            A full assignment with the networks' true outputs.
        """
        missed, outside = self.incumbent.verifier.missed(values)
        violated = self.row_member.T @ (missed[~self.structure.coupling] > TOLERANCE)
        violated = violated + self.member.T @ (outside > TOLERANCE)
        blocks = np.flatnonzero(violated == 0)
        value = -((self.milp.sign * self.milp.cost * values) @ self.member)[blocks]
        use = (self.coupling @ sp.diags(values) @ self.member).T.toarray()[blocks]
        known = np.column_stack([self.block, self.value, self.use])
        found = np.column_stack([blocks, value, use])
        key = np.round(np.vstack([known, found]), 9)
        first = np.sort(np.unique(key, axis=0, return_index=True)[1])
        new = first[first >= len(self)] - len(self)
        point = np.full(len(new), len(self.points))
        self._append(block=blocks[new], value=value[new], use=use[new], point=point)
        self.points.append(values)

    def _master(self, among: ndarray) -> RestrictedMaster:
        """Return the program over some columns and the master's variables."""
        s = self.milp
        n = self.structure.n
        coupling = self.coupling[:, self.master]
        others = MasterVariables(
            s.sign * s.cost[self.master],
            sp.vstack([coupling, sp.csr_matrix((n, len(self.master)))]),
            s.lower[self.master],
            s.upper[self.master],
            s.integer[self.master],
        )
        return RestrictedMaster(
            n,
            optional=False,
            block=self.block[among],
            value=self.value[among],
            use=self.use[among],
            capacities=s.row_upper[self.structure.coupling],
            demands=s.row_lower[self.structure.coupling],
            others=others,
        )

    def prices(self) -> MasterSolution:
        """Solve the linear program; if it is infeasible, minimise the constraint violation."""
        master = self._master(np.arange(len(self)))
        n = len(master.capacities) + master.n
        added = sp.hstack([sp.eye(n), -sp.eye(n)])  # to the activity of each constraint
        return master.solve_in_two_phases(MasterVariables.nonnegative(np.ones(2 * n), added))

    def choose(self, among: ndarray, seconds: float) -> ndarray | None:
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
        point = solve_program(self._master(among).program(), seconds, MAX_CHOICE_NODES).point
        if point is None:
            return None
        delta, master = np.split(point, [len(among)])
        return self.assembled(among[delta > 0.5], master)

    def assembled(self, chosen: ndarray, master: ndarray | float = 0.0) -> ndarray:
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

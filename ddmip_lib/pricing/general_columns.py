r"""Options of blocks of any form, the prices that they give, and the best choice among them.

An option is a point of one block that keeps its rows with the networks' true outputs; it costs
$c_o$ and takes $L_o$ of the linking rows. With the master's variables $v_0$

$$\min \sum_o c_o \delta_o + c_0^\top v_0 \quad\text{s.t.}\quad l \le \sum_o L_o \delta_o
+ L_0 v_0 \le u, \qquad
\sum_{o \text{ of } b} \delta_o = 1, \qquad \delta \ge 0,$$

the multipliers of the linking rows are the prices $\pi$, and with $\delta$ binary the program
chooses.
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

CHOICE_NODES = 2000  # of HiGHS, for one choice


class GeneralMasterSolution(NamedTuple):
    """Multipliers of the linking rows and of the blocks, and the optimum of the linear program:
    infinite as long as no mixture of options keeps the linking rows; prices are then those of the
    mixture that lacks least.
    """

    linking: np.ndarray
    blocks: np.ndarray
    value: float
    shares: np.ndarray

    @property
    def counts(self) -> float:
        """What a unit of cost counts for: nothing as long as options are missing."""
        return float(np.isfinite(self.value))


class GeneralColumns:
    """Options as parallel arrays, each a block's part of one of the `points`; costs are to be
    minimised.
    """

    def __init__(self, incumbent: Incumbent, structure: Structure) -> None:
        self.incumbent = incumbent
        self.structure = structure
        s = incumbent.instance.milp
        self.milp, self.linking, m = s, s.rows[structure.linking], int(structure.linking.sum())
        own = np.flatnonzero(structure.block >= 0)
        self.master = np.flatnonzero(structure.block < 0)
        shape = s.n_variables, structure.n
        self.member = sp.csr_matrix((np.ones(len(own)), (own, structure.block[own])), shape=shape)
        self.row_member = (abs(s.rows[~structure.linking]) @ self.member).astype(bool).tocsr()
        self.points: list[np.ndarray] = []
        self.block = np.zeros(0, dtype=int)
        self.point = np.zeros(0, dtype=int)
        self.cost = np.zeros(0)
        self.use = np.zeros((0, m))

    def __len__(self) -> int:
        return len(self.block)

    def add(self, values: np.ndarray) -> None:
        """The parts of a point, with the networks' true outputs, that keep their blocks' rows and
        are new.
        """
        s = self.milp
        (missed, outside) = self.incumbent.missed(values)
        bad = self.row_member.T @ (missed[~self.structure.linking] > TOLERANCE) + self.member.T @ (
            outside > TOLERANCE
        )
        blocks = np.flatnonzero(bad == 0)
        cost = (s.sign * s.cost * values) @ self.member
        use = (self.linking @ sp.diags(values) @ self.member).T.toarray()
        old = np.column_stack([self.block, self.cost, self.use])
        key = np.round(np.vstack([old, np.column_stack([blocks, cost[blocks], use[blocks]])]), 9)
        first = np.sort(np.unique(key, axis=0, return_index=True)[1])
        new = blocks[first[first >= len(self)] - len(self)]
        self.block = np.append(self.block, new)
        self.cost = np.append(self.cost, cost[new])
        self.use = np.vstack([self.use, use[new]])
        self.point = np.append(self.point, np.full(len(new), len(self.points)))
        self.points.append(values)

    def _program(self, among: np.ndarray) -> Program:
        s = self.milp
        k = len(among)
        n = self.structure.n
        linking = self.structure.linking
        owns = sp.csr_matrix((np.ones(k), (self.block[among], np.arange(k))), shape=(n, k))
        rows = sp.block_array(
            [[sp.csr_matrix(self.use[among].T), self.linking[:, self.master]], [owns, None]]
        )
        cost = np.concatenate([self.cost[among], s.sign * s.cost[self.master]])
        lower = np.concatenate([np.zeros(k), s.lower[self.master]])
        upper = np.concatenate([np.full(k, np.inf), s.upper[self.master]])
        low, high = (np.concatenate([side[linking], np.ones(n)]) for side in s.sides)
        integer = np.concatenate([np.ones(k, dtype=bool), s.integer[self.master]])
        return Program(cost, Rows.of(rows.tocsr()), low, high, lower, upper, integer)

    def prices(self) -> GeneralMasterSolution:
        """Solve the linear program; where no mixture will do, look for the one that lacks least
        instead.
        """
        program = self._program(np.arange(len(self)))
        m = self.use.shape[1]
        matrix = program.rows.matrix(len(program.cost))
        k = len(program.cost)
        found = LPSolver().ask(program)
        value = np.inf
        sides = program.row_lower, program.row_upper
        if (
            found.point is not None
            and relative_violation(matrix @ found.point, *sides).max() <= TOLERANCE
        ):
            value = float(program.cost @ found.point)
        else:  # the first phase: buy as little as possible of what is missing
            eye = sp.identity(len(sides[0]))
            slack = np.ones(2 * len(sides[0]))
            found = LPSolver().ask(
                Program(
                    np.concatenate([np.zeros(k), slack]),
                    Rows.of(sp.hstack([matrix, eye, -eye]).tocsr()),
                    *sides,
                    np.concatenate([program.lower, 0 * slack]),
                    np.concatenate([program.upper, np.inf * slack]),
                    np.concatenate([program.integer, slack < 0]),
                )
            )
        shares = np.zeros(len(self)) if found.point is None else found.point[: len(self)]
        return GeneralMasterSolution(found.multipliers[:m], found.multipliers[m:], value, shares)

    def reduced(self, prices: GeneralMasterSolution) -> np.ndarray:
        """What each option costs at the prices, beyond what its block pays."""
        return self.cost * prices.counts - self.use @ prices.linking - prices.blocks[self.block]

    def choose(self, among: np.ndarray, seconds: float) -> np.ndarray | None:
        """The best choice among some options by HiGHS, as a full assignment; None where it finds
        none in time.
        """
        if len(np.unique(self.block[among])) < self.structure.n:
            return None
        found = solve_program(self._program(among), seconds, CHOICE_NODES).point
        return (
            None
            if found is None
            else self.assembled(among[found[: len(among)] > 0.5], found[len(among) :])
        )

    def assembled(self, chosen: np.ndarray, master: np.ndarray | float = 0.0) -> np.ndarray:
        """The full assignment of some options, later ones over earlier ones; blocks without one
        stay near zero.
        """
        values = np.zeros(self.milp.n_variables)
        values[self.master] = master
        for o in chosen:
            mine = self.structure.block == self.block[o]
            values[mine] = self.points[self.point[o]][mine]
        return self.incumbent.instance.rounded(np.clip(values, self.milp.lower, self.milp.upper))

r"""The restricted master problem of price coordination: its columns, their prices, and the best
choice.

$$\max \sum_o v_o \delta_o \quad\text{s.t.}\quad \sum_o r_o \delta_o \le R, \qquad
\sum_{o \text{ of } i} \delta_o \le 1 \ \ (= 1 \text{ where blocks are not optional}),
\qquad \delta \ge 0;$$

a column is one point of one block; the dual values of the coupling constraints in this linear
program are the prices, and with $\delta$ binary it selects one column of each block.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from pyscipopt import SCIP_PARAMEMPHASIS, SCIP_PARAMSETTING, Model

from ..clock import now
from ..model.blocks import Blocks
from ..programs.scip import add_start, optimise, set_quiet, solution_values
from ..programs.scip_program import add_rows, add_variables, set_objective
from .master import (
    MAX_FREE_BLOCKS,
    LPSolution,
    RestrictedMaster,
    TradePrices,
    solve_master_by_sifting,
)

MISSING_TOLERANCE = 1e-9
"""Amount of all resources together that a feasible mixture may lack by rounding errors."""
ROUNDING_BATCH = 4096
"""Number of columns that rounding considers at once."""


@dataclass(frozen=True)
class MasterSolution:
    """Solution of the linear program over a pool of columns.

    Attributes
    ----------
    value
        Optimal value.
    prices
        Dual values of the coupling constraints, one for each resource.
    convexity_duals
        Dual values of the convexity constraints, one for each block.
    weights
        Weights of the columns.
    lacking
        Amount of the resources that is missing. If it is positive, no mixture of the columns is
        feasible, and the other attributes are those of the mixture that lacks least.
    """

    value: float
    prices: np.ndarray
    convexity_duals: np.ndarray
    weights: np.ndarray
    lacking: float

    @property
    def phase_factor(self) -> float:
        """Factor of values in reduced costs: 0 as long as resources are missing, else 1."""
        return 1.0 if self.lacking <= MISSING_TOLERANCE else 0.0


class ColumnPool:
    """The columns found so far, as parallel arrays.

    Parameters
    ----------
    blocks
        The blocks of the problem.

    Attributes
    ----------
    at
        Row of the table of `Blocks` that each column belongs to, (k,).
    u
        Network inputs, (k, p).
    value
        Objective coefficients, (k,).
    use
        Coefficients in the coupling constraints, (k, m).
    key
        Hashes of the columns, which are equal for equal points.
    """

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.at = np.zeros(0, dtype=int)
        self.u = np.zeros((0, blocks.base.shape[1]))
        self.value = np.zeros(0)
        self.use = np.zeros((0, len(blocks.capacities)))
        self.key = np.zeros(0, dtype=np.uint64)

    def __len__(self) -> int:
        return len(self.at)

    @property
    def block(self) -> np.ndarray:
        """Block of each column."""
        return self.blocks.block[self.at]

    def add(self, at: np.ndarray, u: np.ndarray, value: np.ndarray) -> None:
        """Append columns that are not in the pool yet.

        A column that alone exceeds a capacity is added too: no choice contains it, but the prices
        depend on it.

        Parameters
        ----------
        at, u, value
            Row of the table of `Blocks`, network inputs and value of each column.
        """
        key = self._key(at, u)
        first = np.sort(np.unique(key, return_index=True)[1])
        # sorting, since a lookup table over the range of hashes would not fit into memory
        new = first[~np.isin(key[first], self.key, kind="sort")]
        use = self.blocks.use(at[new], u[new], value[new])
        self.at = np.concatenate([self.at, at[new]])
        self.u = np.concatenate([self.u, u[new]])
        self.value = np.concatenate([self.value, value[new]])
        self.use = np.concatenate([self.use, use])
        self.key = np.concatenate([self.key, key[new]])

    def _key(self, at: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Hash the columns, with points rounded to 1e-7 of the box, as splitmix64 does.

        Two of 10^7 different points have one key in one of 10^5 runs.
        """
        width = self.blocks.upper[at] - self.blocks.lower[at]
        width = np.where(width > 0, width, 1.0)
        place = np.round((u - self.blocks.base[at]) / width * 1e7).astype(np.int64)
        key = at.astype(np.uint64)
        for coordinate in place.T.astype(np.uint64):
            key = (key ^ coordinate) * np.uint64(0xBF58476D1CE4E5B9)
            key = (key ^ (key >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
            key ^= key >> np.uint64(32)
        return key

    def prices(self, earlier: MasterSolution | None = None) -> MasterSolution:
        """Solve the linear program.

        Parameters
        ----------
        earlier
            Solution for fewer columns, whose prices warm-start a large program.

        Returns
        -------
        MasterSolution
            If no mixture is feasible, the one that lacks least of the resources.
        """
        blocks = self.blocks
        if not blocks.optional and len(np.unique(self.block)) < blocks.n:
            return self._without_solution(np.inf)
        if len(self) == 0:
            return self._without_solution(float(np.maximum(-blocks.capacities, 0).sum()))
        solution = self._solve(earlier)
        lacking = float(np.maximum(solution.extra, 0.0).sum())
        value = float(self.value @ solution.weights)
        return MasterSolution(
            value, solution.prices, solution.convexity_duals, solution.weights, lacking
        )

    def _without_solution(self, lacking: float) -> MasterSolution:
        prices = np.zeros(len(self.blocks.capacities))
        return MasterSolution(0.0, prices, np.zeros(self.blocks.n), np.zeros(len(self)), lacking)

    def _solve(self, earlier: MasterSolution | None) -> LPSolution:
        blocks = self.blocks
        master = RestrictedMaster(
            blocks.n, blocks.optional, self.block, self.value, self.use, blocks.capacities
        )
        known_prices = None
        if earlier is not None and earlier.phase_factor:
            known_prices = earlier.prices
        feasible = known_prices is not None or (
            blocks.optional and bool((blocks.capacities >= 0).all())
        )
        if feasible and blocks.n > MAX_FREE_BLOCKS:
            return solve_master_by_sifting(master, known_prices)
        solution = master.solve()
        if solution is None:  # phase one: minimise the amount of resources that is missing
            m = len(blocks.capacities)
            phase_one = master._replace(value=0 * self.value)
            solution = phase_one.solve(TradePrices(np.ones(m), np.zeros(m)))
            assert solution is not None
        return solution

    def reduced(self, lp: MasterSolution) -> np.ndarray:
        """Return the reduced cost of each column, positive where it would improve the program."""
        return self.value * lp.phase_factor - self.use @ lp.prices - lp.convexity_duals[self.block]

    def rounded(self, shares: np.ndarray) -> np.ndarray | None:
        """Select columns greedily, in the order of their weights, as long as they fit.

        Parameters
        ----------
        shares
            Weight of each column in the linear program.

        Returns
        -------
        ndarray or None
            Numbers of the selected columns; None if they violate a coupling constraint, or if a
            block that is not optional has none.
        """
        capacities = self.blocks.capacities
        supplied = (self.use < 0).any(axis=0)  # a later column may give what an earlier one takes
        left = np.where(supplied, np.inf, capacities)
        free = np.ones(self.blocks.n, dtype=bool)
        order = self._rounding_order(shares)
        selected = [np.zeros(0, dtype=int)]
        for first in range(0, len(order), ROUNDING_BATCH):
            waiting = self._fitting(order[first : first + ROUNDING_BATCH], free, left)
            while len(waiting):
                taken = self._leading(waiting, left)
                selected.append(taken)
                left = left - self.use[taken].sum(axis=0)
                free[self.block[taken]] = False
                waiting = self._fitting(waiting, free, left)
        columns = np.concatenate(selected)
        violated = (self.use[columns].sum(axis=0) > capacities + 1e-9).any()
        if violated or (free.any() and not self.blocks.optional):
            return None
        return columns

    def _rounding_order(self, shares: np.ndarray) -> np.ndarray:
        """Sort columns by weight, then by value for scaled use."""
        scaled_use = self.use @ (1.0 / np.maximum(np.abs(self.blocks.capacities), 1e-9))
        use_per_value = scaled_use / np.maximum(self.value, 1e-9)
        order = np.lexsort((use_per_value, -np.round(shares, 6)))
        if not self.blocks.optional:
            return order
        useful = (self.value > 0) | (shares > 0.5)
        return order[useful[order]]

    def _fitting(self, columns: np.ndarray, free: np.ndarray, left: np.ndarray) -> np.ndarray:
        """Return the columns of free blocks that alone use no more than is left."""
        fits = (self.use[columns] <= left + 1e-12).all(axis=1)
        return columns[free[self.block[columns]] & fits]

    def _leading(self, columns: np.ndarray, left: np.ndarray) -> np.ndarray:
        """Return the first column of each block, up to the first that does not fit any more."""
        first = np.unique(self.block[columns], return_index=True)[1]
        leading = columns[np.sort(first)]
        fits = (self.use[leading].cumsum(axis=0) <= left + 1e-12).all(axis=1)
        if fits.all():
            return leading
        return leading[: int(fits.argmin())]

    def select(
        self,
        among: np.ndarray,
        start: np.ndarray | None,
        gap: float,
        nodes: int,
        seconds: float,
        seed: int = 0,
        emphasis: str = "default",
    ) -> np.ndarray | None:
        """Select the best columns among candidates by SCIP.

        Parameters
        ----------
        among
            Numbers of the candidates.
        start
            Columns of a feasible choice; blocks without a candidate keep their column of it.
        gap, nodes, seconds
            Relative gap, number of nodes (-1: no limit) and time at which SCIP stops.
        seed
            Seed of SCIP.
        emphasis
            ``"feasibility"``, ``"no cuts"`` or ``"default"``.

        Returns
        -------
        ndarray or None
            Numbers of the selected columns, None if SCIP found no choice.
        """
        began = now()
        kept = np.zeros(0, dtype=int)
        if start is not None:
            kept = start[~np.isin(self.block[start], self.block[among])]
        covered = np.unique(self.block[np.concatenate([kept, among])])
        if not self.blocks.optional and len(covered) < self.blocks.n:
            return None
        model = _selection_model(gap, nodes, seed, emphasis)
        zero = np.zeros(len(among))
        delta = add_variables(model, zero, zero + 1.0, zero == 0)
        set_objective(model, delta, self.value[among], sign=-1.0)
        add_rows(model, delta, *self._constraints(among, kept))
        if start is not None:
            add_start(model, delta, np.isin(among, start))
        optimise(model, seconds - (now() - began))
        if model.getNSols() == 0:
            return None
        return np.concatenate([kept, among[solution_values(model, delta) > 0.5]])

    def _constraints(
        self, among: np.ndarray, kept: np.ndarray
    ) -> tuple[sp.csr_matrix, np.ndarray, np.ndarray]:
        """At most one column of each block, or exactly one, and the capacities that are left."""
        block, row = np.unique(self.block[among], return_inverse=True)
        one = np.ones(len(block))
        entries = np.ones(len(among)), (row, np.arange(len(among)))
        convexity = sp.csr_matrix(entries, (len(block), len(among)))
        left = self.blocks.capacities - self.use[kept].sum(axis=0)
        rows = sp.vstack([convexity, sp.csr_matrix(self.use[among].T)]).tocsr()
        fewest = one - np.inf if self.blocks.optional else one
        return rows, np.append(fewest, left - np.inf), np.append(one, left)


def _selection_model(gap: float, nodes: int, seed: int, emphasis: str) -> Model:
    model = Model("selection")
    set_quiet(model, seed)
    if emphasis == "feasibility":
        model.setEmphasis(SCIP_PARAMEMPHASIS.FEASIBILITY)
    elif emphasis == "no cuts":
        model.setSeparating(SCIP_PARAMSETTING.OFF)
    model.setParam("numerics/feastol", 1e-7)  # verification allows 1e-6
    model.setParam("limits/gap", gap)
    model.setParam("limits/nodes", nodes)
    return model

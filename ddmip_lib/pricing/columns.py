r"""The restricted master problem of price coordination: its columns, their prices, and the best
choice.

$$\max \sum_o v_o \delta_o \quad\text{s.t.}\quad \sum_o r_o \delta_o \le R, \qquad
\sum_{o \text{ of } i} \delta_o \le 1 \ \ (= 1 \text{ where blocks are not optional}),
\qquad \delta \ge 0;$$

a column is one point of one block; the dual values of the coupling constraints in this linear
program are the prices, and with $\delta$ binary it selects one column of each block.
"""

import numpy as np
from numpy import ndarray
from pyscipopt import SCIP_PARAMEMPHASIS, SCIP_PARAMSETTING, Model

from ..clock import now
from ..model.blocks import Blocks
from ..programs.scip import add_start, optimise, set_quiet, solution_values
from ..programs.scip_program import add_rows, add_variables, set_objective
from .master import (
    MAX_FREE_BLOCKS,
    MasterSolution,
    RestrictedMaster,
    solve_master_by_sifting,
)

ROUNDING_BATCH = 4096
"""Number of columns that rounding considers at once."""


class Columns:
    """The columns found so far, as parallel arrays.

    Attributes
    ----------
    block
        Block of each column, (k,).
    value
        Objective coefficients, (k,).
    use
        Coefficients in the coupling constraints, (k, m).
    """

    block: ndarray
    value: ndarray
    use: ndarray

    def __len__(self) -> int:
        return len(self.value)

    def reduced(self, lp: MasterSolution) -> ndarray:
        """Return the reduced cost of each column, positive where it would improve the program."""
        return lp.reduced(self.block, self.value, self.use)

    def _append(self, **columns: ndarray) -> None:
        for name, array in columns.items():
            setattr(self, name, np.concatenate([getattr(self, name), array]))


class ColumnPool(Columns):
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
        self.at = blocks.block[:0]
        self.u = blocks.base[:0]
        self.value = blocks.worth[:0]
        self.use = blocks.fixed[:0]
        self.key = np.zeros(0, dtype=np.uint64)
        draw = np.random.default_rng(0)
        self.hash_factors = draw.integers(2**64, size=1 + self.u.shape[1], dtype=np.uint64) | 1

    @property
    def block(self) -> ndarray:  # type: ignore[override]
        """Block of each column."""
        return self.blocks.block[self.at]

    def add(self, at: ndarray, u: ndarray, value: ndarray) -> None:
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
        self._append(at=at[new], u=u[new], value=value[new], use=use, key=key[new])

    def _key(self, at: ndarray, u: ndarray) -> ndarray:
        """Hash the columns, with points rounded to 1e-7 of the box.

        Two of 10^7 different points have one key in one of 10^5 runs.
        """
        width = self.blocks.upper[at] - self.blocks.lower[at]
        place = (u - self.blocks.base[at]) / np.where(width > 0, width, 1.0) * 1e7
        rounded = np.column_stack([at, np.round(place)]).astype(np.int64)
        return (rounded.astype(np.uint64) * self.hash_factors).sum(axis=1)

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
        missing = not blocks.optional and len(np.unique(self.block)) < blocks.n
        if missing or not len(self):
            lacking = np.inf if missing else float(np.maximum(-blocks.capacities, 0.0).sum())
            none = np.zeros(len(blocks.capacities)), np.zeros(blocks.n), np.zeros(len(self))
            return MasterSolution(0.0, *none, lacking)
        master = RestrictedMaster(
            blocks.n, blocks.optional, self.block, self.value, self.use, blocks.capacities
        )
        known_prices = None
        if earlier is not None and earlier.phase_factor:
            known_prices = earlier.prices
        feasible = known_prices is not None or (blocks.optional and (blocks.capacities >= 0).all())
        if feasible and blocks.n > MAX_FREE_BLOCKS:
            solution = solve_master_by_sifting(master, known_prices)
        else:
            free = np.zeros(len(blocks.capacities))
            solution = master.solve_in_two_phases(master.bought_and_sold(free + 1.0, free))
        return solution._replace(value=float(self.value @ solution.weights))

    def rounded(self, shares: ndarray) -> ndarray | None:
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

    def _rounding_order(self, shares: ndarray) -> ndarray:
        """Sort columns by weight, then by value for scaled use."""
        scaled_use = self.use @ (1.0 / np.maximum(np.abs(self.blocks.capacities), 1e-9))
        use_per_value = scaled_use / np.maximum(self.value, 1e-9)
        order = np.lexsort((use_per_value, -np.round(shares, 6)))
        if not self.blocks.optional:
            return order
        useful = (self.value > 0) | (shares > 0.5)
        return order[useful[order]]

    def _fitting(self, columns: ndarray, free: ndarray, left: ndarray) -> ndarray:
        """Return the columns of free blocks that alone use no more than is left."""
        fits = (self.use[columns] <= left + 1e-12).all(axis=1)
        return columns[free[self.block[columns]] & fits]

    def _leading(self, columns: ndarray, left: ndarray) -> ndarray:
        """Return the first column of each block, up to the first that does not fit any more."""
        first = np.unique(self.block[columns], return_index=True)[1]
        leading = columns[np.sort(first)]
        fits = (self.use[leading].cumsum(axis=0) <= left + 1e-12).all(axis=1)
        if fits.all():
            return leading
        return leading[: int(fits.argmin())]

    def select(
        self,
        among: ndarray,
        start: ndarray | None,
        gap: float,
        nodes: int,
        seconds: float,
        seed: int = 0,
        emphasis: str = "default",
    ) -> ndarray | None:
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
        kept = among[:0]
        if start is not None:
            kept = start[~np.isin(self.block[start], self.block[among])]
        owners, block = np.unique(self.block[among], return_inverse=True)
        if not self.blocks.optional and len(kept) + len(owners) < self.blocks.n:
            return None
        left = self.blocks.capacities - self.use[kept].sum(axis=0)
        program = RestrictedMaster(
            len(owners), self.blocks.optional, block, self.value[among], self.use[among], left
        ).program()
        model = _selection_model(gap, nodes, seed, emphasis)
        delta = add_variables(model, program.lower, program.lower + 1.0, program.integer)
        set_objective(model, delta, -program.cost, sign=-1.0)
        order = np.roll(np.arange(len(program.row_lower)), len(owners))  # coupling constraints last
        rows = program.rows.matrix(len(among))[order]
        add_rows(model, delta, rows, program.row_lower[order], program.row_upper[order])
        if start is not None:
            add_start(model, delta, np.isin(among, start))
        optimise(model, seconds - (now() - began))
        if model.getNSols() == 0:
            return None
        return np.concatenate([kept, among[solution_values(model, delta) > 0.5]])


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

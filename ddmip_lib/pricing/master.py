r"""The restricted master problem, and its solution by sifting where blocks are many.

The dual of the linear program over all columns is
$\min_{\pi \ge 0} D(\pi) = \pi^\top R + \sum_i \max_o (v_o - \pi^\top r_o)$, a function of few
prices. Near prices $\bar\pi$ most blocks have one column whose reduced value is far above that of
their others. With these blocks fixed to it the program is small, and its value $\tilde D \le D$ is
exact at $\bar\pi$; it is solved with prices in a box around $\bar\pi$. Blocks that would choose
another column at the new prices become free, until $\tilde D = D$ there and the prices are inside
the box. Then they are optimal for all columns.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

MAX_FREE_BLOCKS = 1500
"""Number of blocks up to which the program is solved with all columns; sifting frees as many."""
SIFTING_RELATIVE_GAP = 1e-8
"""Relative difference of the two dual values below which prices are optimal."""
MAX_SIFTING_ROUNDS = 60
"""Number of rounds after which the program is solved with all columns."""
INITIAL_BOX_WIDTH = 0.5
"""Half width of the first price box, relative to the prices."""


class LPSolution(NamedTuple):
    """Primal and dual solution of a restricted master problem.

    Attributes
    ----------
    prices
        Dual values of the coupling constraints, one for each resource.
    convexity_duals
        Dual values of the convexity constraints, one for each block.
    weights
        Weights of the columns.
    extra
        Amount of each resource that was bought beyond its capacity, less the amount that was sold.
    """

    prices: np.ndarray
    convexity_duals: np.ndarray
    weights: np.ndarray
    extra: np.ndarray


class TradePrices(NamedTuple):
    """Prices at which resources may be bought and sold, one of each for every resource."""

    buy: np.ndarray
    sell: np.ndarray


class RestrictedMaster(NamedTuple):
    """The linear program over k columns of n blocks with m coupling constraints.

    Attributes
    ----------
    n
        Number of blocks.
    optional
        Whether the weights of a block's columns may sum to less than 1.
    block, value, use
        Block and value of each column, (k,), and its use of the resources, (k, m).
    capacities
        Right-hand sides of the coupling constraints, (m,).

    Examples
    --------
    >>> columns = np.zeros(2, dtype=int), np.array([1.0, 3.0]), np.array([[1.0], [2.0]])
    >>> RestrictedMaster(1, True, *columns, np.array([1.0])).solve().prices
    array([1.5])
    """

    n: int
    optional: bool
    block: np.ndarray
    value: np.ndarray
    use: np.ndarray
    capacities: np.ndarray

    def with_columns(
        self, columns: np.ndarray, block: np.ndarray, n: int, capacities: np.ndarray
    ) -> "RestrictedMaster":
        """Return the program over some columns, with other numbers of their n blocks."""
        return RestrictedMaster(
            n, self.optional, block, self.value[columns], self.use[columns], capacities
        )

    def solve(self, trade: TradePrices | None = None) -> LPSolution | None:
        """Solve the program; with `trade`, resources may be bought and sold at these prices.

        Returns
        -------
        LPSolution or None
            None if the program is infeasible.

        Raises
        ------
        RuntimeError
            If HiGHS fails.
        """
        from scipy.optimize import linprog

        m = len(self.capacities)
        k = len(self.value)
        cost = -self.value
        coupling = sp.csr_matrix(self.use.T)
        convexity = sp.csr_matrix((np.ones(k), (self.block, np.arange(k))), shape=(self.n, k))
        if trade is not None:
            cost = np.concatenate([cost, trade.buy, -trade.sell])
            identity = sp.identity(m)
            coupling = sp.hstack([coupling, -identity, identity])
            convexity = sp.hstack([convexity, sp.csr_matrix((self.n, 2 * m))])
        result = linprog(cost, method="highs", **self._constraints(coupling, convexity))
        if result.status == 2:
            return None
        if result.status != 0:
            raise RuntimeError(f"the linear program over {k} columns failed: {result.message}")
        duals = -result.ineqlin.marginals
        earned = duals[m:] if self.optional else -result.eqlin.marginals
        extra = np.zeros(m)
        if trade is not None:
            extra = result.x[k : k + m] - result.x[k + m :] * (trade.sell > 0)
        return LPSolution(np.maximum(duals[:m], 0.0), earned, result.x[:k], extra)

    def _constraints(
        self, coupling: sp.spmatrix, convexity: sp.spmatrix
    ) -> dict[str, sp.spmatrix | np.ndarray]:
        """Return the constraints as arguments of `scipy.optimize.linprog`."""
        ones = np.ones(self.n)
        if self.optional:
            upper = np.concatenate([self.capacities, ones])
            return {"A_ub": sp.vstack([coupling, convexity]), "b_ub": upper}
        return {"A_ub": coupling, "b_ub": self.capacities, "A_eq": convexity, "b_eq": ones}


class Dominance(NamedTuple):
    """For each block its best column at given prices.

    Attributes
    ----------
    column
        Number of the best column, -1 where choosing none is better.
    profit
        Value of that column less the price of its use.
    lead
        Difference to the profit of the block's second best choice.
    """

    column: np.ndarray
    profit: np.ndarray
    lead: np.ndarray


class DominantColumns:
    """The columns of a program, sorted by block, to find the best one of every block.

    Parameters
    ----------
    master
        The program.
    """

    def __init__(self, master: RestrictedMaster) -> None:
        self.master = master
        self.order = np.argsort(master.block, kind="stable")
        self.sorted = master.block[self.order]
        self.owners, self.first = np.unique(self.sorted, return_index=True)

    def at(self, prices: np.ndarray) -> Dominance:
        """Return the best column of every block at these prices."""
        master = self.master
        profit = (master.value - master.use @ prices)[self.order]
        no_column = 0.0 if master.optional else -np.inf
        best = np.full(master.n, -np.inf)
        position = np.full(master.n, -1)
        lead = np.full(master.n, np.inf)
        best[self.owners] = np.maximum.reduceat(profit, self.first)
        tied = np.flatnonzero(profit == best[self.sorted])[::-1]
        position[self.sorted[tied]] = tied  # of equal columns the first is written last
        profit[position[self.owners]] = -np.inf
        second = np.maximum(np.maximum.reduceat(profit, self.first), no_column)
        owned = best[self.owners]
        lead[self.owners] = np.where(owned <= no_column, no_column - owned, np.abs(owned - second))
        column = np.where(best <= no_column, -1, self.order[position])
        return Dominance(column, np.maximum(best, no_column), lead)


def solve_master_by_sifting(
    master: RestrictedMaster,
    known_prices: np.ndarray | None = None,
    max_free_blocks: int = MAX_FREE_BLOCKS,
) -> LPSolution:
    """Solve a feasible program over many blocks by smaller ones.

    Parameters
    ----------
    master
        The program.
    known_prices
        Prices that may be close to the optimal ones.
    max_free_blocks
        Number of blocks that keep all of their columns in the first smaller program.

    Raises
    ------
    RuntimeError
        If the program is infeasible.
    """
    sifting = _Sifting(master, known_prices, max_free_blocks)
    for _ in range(MAX_SIFTING_ROUNDS):
        solution = sifting.solve_round()
        if solution is not None:
            return solution
    solution = master.solve()
    if solution is None:
        raise RuntimeError(f"the linear program over {len(master.value)} columns is infeasible.")
    return solution


class _Sifting:
    """The state between two rounds: the best prices so far, and which blocks are free there."""

    def __init__(
        self, master: RestrictedMaster, known_prices: np.ndarray | None, max_free_blocks: int
    ) -> None:
        capacities = master.capacities
        self.master = master
        self.dominant = DominantColumns(master)
        self.max_free_blocks = max_free_blocks
        self.price_scale = (
            np.abs(master.value).max()
            * master.n
            / np.maximum(len(capacities) * np.abs(capacities), 1e-9)
        )
        self.width = INITIAL_BOX_WIDTH
        self.dual_value = np.inf
        sampled = _sampled_prices(master, max_free_blocks)
        self._accept(sampled, self.dominant.at(sampled))
        if known_prices is not None:  # columns added since may have moved the optimum far from them
            self._accept(known_prices, self.dominant.at(known_prices))
        self.free = self._least_dominant()

    def _accept(self, prices: np.ndarray, dominance: Dominance) -> bool:
        """Keep the prices if their dual value is lower; return whether it is."""
        dual_value = self._dual_value(prices, dominance)
        better = bool(dual_value < self.dual_value)
        if better:
            self.prices = prices
            self.dual_value = dual_value
            self.dominance = dominance
        return better

    def _dual_value(self, prices: np.ndarray, dominance: Dominance) -> float:
        return float(self.master.capacities @ prices + dominance.profit.sum())

    def _least_dominant(self) -> np.ndarray:
        """Return a mask of the blocks whose best column has the smallest lead."""
        lead = self.dominance.lead
        mask = np.zeros(len(lead), dtype=bool)
        mask[np.argsort(lead, kind="stable")[: self.max_free_blocks]] = True
        return mask

    def solve_round(self) -> LPSolution | None:
        """Solve one smaller program; return the solution of the whole one if prices are optimal."""
        master = self.master
        chosen = self.dominance.column
        fixed = chosen[~self.free & (chosen >= 0)]
        columns = np.flatnonzero(self.free[master.block])
        solution = self._solve_smaller(fixed, columns)
        prices = solution.prices
        dominance = self.dominant.at(prices)
        missed = dominance.profit.sum() - dominance.profit[self.free].sum()
        missed -= (master.value[fixed] - master.use[fixed] @ prices).sum()
        scale = np.abs(master.capacities).max(initial=1.0)
        inside = bool(np.abs(solution.extra).max(initial=0.0) <= 1e-9 * scale)
        dual_value = self._dual_value(prices, dominance)
        if inside and missed <= SIFTING_RELATIVE_GAP * max(1.0, abs(dual_value)):
            shares = np.zeros(len(master.value))
            shares[fixed] = 1.0
            shares[columns] = solution.weights
            return LPSolution(prices, dominance.profit, shares, solution.extra)
        self._update(prices, dominance, inside)
        return None

    def _solve_smaller(self, fixed: np.ndarray, columns: np.ndarray) -> LPSolution:
        """Solve the program of the free blocks, with prices in a box; trading prices bound them."""
        master = self.master
        lower = self.prices * max(1 - self.width, 0.0)
        upper = self.prices * (1 + self.width) + 1e-3 * self.width * self.price_scale
        left = master.capacities - master.use[fixed].sum(axis=0)
        number = np.cumsum(self.free) - 1
        smaller = master.with_columns(
            columns, number[master.block[columns]], int(self.free.sum()), left
        )
        solution = smaller.solve(TradePrices(upper, lower))
        assert solution is not None  # missing resources can be bought
        return solution

    def _update(self, prices: np.ndarray, dominance: Dominance, inside: bool) -> None:
        """Free more blocks, move the box or change its width."""
        changed = ~self.free & (dominance.column != self.dominance.column)
        better = self._accept(prices, dominance)
        if changed.sum() <= self.max_free_blocks:
            self.free = self.free | changed
            if not inside:
                self.width *= 2.0
            return
        self.max_free_blocks *= 2
        if better:
            self.free = self._least_dominant()
        else:
            self.width *= 0.5


def _sampled_prices(master: RestrictedMaster, max_blocks: int) -> np.ndarray:
    """Return prices of every k-th block alone, with its part of the capacities."""
    step = -(-master.n // max_blocks)
    columns = np.flatnonzero(master.block % step == 0)
    n = len(range(0, master.n, step))
    no_prices = np.zeros(len(master.capacities))
    if len(columns) == 0:
        return no_prices
    sample = master.with_columns(
        columns, master.block[columns] // step, n, n / master.n * master.capacities
    )
    solution = sample.solve()
    return no_prices if solution is None else solution.prices

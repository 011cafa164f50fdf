r"""The restricted master problem, and its solution by sifting where blocks are many.

The dual of the linear program over all columns is
$\min_{\pi \ge 0} D(\pi) = \pi^\top R + \sum_i \max_o (v_o - \pi^\top r_o)$, a function of few
prices. Near prices $\bar\pi$ most blocks have one column whose reduced value is far above that of
their others. With these blocks fixed to it the program is small, and its value $\tilde D \le D$ is
exact at $\bar\pi$; it is solved with prices in a box around $\bar\pi$. Blocks that would choose
another column at the new prices become free, until $\tilde D = D$ there and the prices are inside
the box. Then they are optimal for all columns.
"""

from typing import NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy import ndarray

from ..programs.lp import LPProposal, LPSolver
from ..programs.program import Program, Rows

MISSING_TOLERANCE = 1e-9
"""Amount of all resources together that a feasible mixture may lack by rounding errors."""
MAX_FREE_BLOCKS = 1500
"""Number of blocks up to which the program is solved with all columns; sifting frees as many."""
SIFTING_RELATIVE_GAP = 1e-8
"""Relative difference of the two dual values below which prices are optimal."""
MAX_SIFTING_ROUNDS = 60
"""Number of rounds after which the program is solved with all columns."""
INITIAL_BOX_WIDTH = 0.5
"""Half width of the first price box, relative to the prices."""


class MasterSolution(NamedTuple):
    """Primal and dual solution of the linear program over the columns.

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
        feasible, and the solution is that of the mixture that lacks least.
    traded
        Amounts that were traded, where the program had such variables.
    """

    value: float
    prices: ndarray
    convexity_duals: ndarray
    weights: ndarray
    lacking: float = 0.0
    traded: ndarray = np.zeros(0)

    @property
    def phase_factor(self) -> float:
        """Factor of values in reduced costs: 0 as long as resources are missing, else 1."""
        return 1.0 if self.lacking <= MISSING_TOLERANCE else 0.0

    def reduced(self, block: ndarray, value: ndarray, use: ndarray) -> ndarray:
        """Return the reduced costs of columns, positive where they would improve the program."""
        return value * self.phase_factor - use @ self.prices - self.convexity_duals[block]


class MasterVariables(NamedTuple):
    """Variables of a master problem besides the weights of its columns.

    Attributes
    ----------
    cost
        Objective coefficients, to be minimised.
    matrix
        Coefficients in the coupling constraints and, below them, in the convexity constraints.
    lower, upper, integer
        Bounds, and which variables are integer.
    """

    cost: ndarray
    matrix: sp.spmatrix
    lower: ndarray
    upper: ndarray
    integer: ndarray

    @classmethod
    def nonnegative(cls, cost: ndarray, matrix: sp.spmatrix, integer: bool = False) -> Self:
        """Return variables without upper bounds."""
        zeros = np.zeros(len(cost))
        return cls(cost, matrix, zeros, zeros + np.inf, np.full(len(cost), integer))


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
    capacities, demands
        Upper and lower sides of the coupling constraints, (m,); without `demands` no lower ones.
    others
        Variables that belong to no column, None if there are none.

    Examples
    --------
    >>> columns = np.zeros(2, dtype=int), np.array([1.0, 3.0]), np.array([[1.0], [2.0]])
    >>> RestrictedMaster(1, True, *columns, np.array([1.0])).solve().prices
    array([1.5])
    """

    n: int
    optional: bool
    block: ndarray
    value: ndarray
    use: ndarray
    capacities: ndarray
    demands: ndarray | None = None
    others: MasterVariables | None = None

    def of_blocks(self, blocks: ndarray, capacities: ndarray) -> Self:
        """Return the program of the blocks in a mask, with other capacities."""
        columns = blocks[self.block]
        number = np.cumsum(blocks) - 1
        return self._replace(
            n=int(blocks.sum()),
            block=number[self.block[columns]],
            value=self.value[columns],
            use=self.use[columns],
            capacities=capacities,
        )

    def program(self, traded: MasterVariables | None = None) -> Program:
        """Return the program that selects columns, as a minimisation over integer weights."""
        sums = sp.eye(self.n, format="csr")[:, self.block]
        columns = sp.vstack([sp.csr_matrix(self.use.T), sums])
        weights = MasterVariables.nonnegative(-self.value, columns, integer=True)
        parts = [part for part in (weights, self.others, traded) if part is not None]
        cost, matrix, *bounds = zip(*parts, strict=True)
        lower, upper, integer = (np.concatenate(part) for part in bounds)
        demands = np.full(len(self.capacities), -np.inf) if self.demands is None else self.demands
        least = np.full(self.n, -np.inf if self.optional else 1.0)
        return Program(
            np.concatenate(cost),
            Rows.of(sp.hstack(matrix)),
            np.concatenate([demands, least]),
            np.concatenate([self.capacities, np.ones(self.n)]),
            lower,
            upper,
            integer,
        )

    def solve(self, traded: MasterVariables | None = None) -> MasterSolution | None:
        """Solve the linear program; None if HiGHS finds no feasible point.

        Parameters
        ----------
        traded
            Amounts of the resources that are bought and sold. The value is not computed then.

        Raises
        ------
        RuntimeError
            If HiGHS fails.
        """
        k, m = self.use.shape
        program = self.program(traded)
        found = _solve_unscaled(program) if self.demands is None else LPSolver().solve(program)
        if found.point is None:
            return None
        prices, convexity_duals = np.split(-found.multipliers, [m])
        if self.demands is None:
            prices = np.maximum(prices, 0.0)
        solution = MasterSolution(-np.inf, prices, convexity_duals, found.point[:k])
        if traded is None:
            return solution._replace(value=-float(program.cost @ found.point))
        return solution._replace(traded=found.point[len(program.cost) - len(traded.cost) :])

    def solve_in_two_phases(self, slack: MasterVariables) -> MasterSolution:
        """Solve the linear program; if it is infeasible, minimise the slack that makes it feasible.

        Parameters
        ----------
        slack
            Variables with which it is feasible. Where several bases are optimal, their order
            decides which one HiGHS finds.
        """
        solution = self.solve()
        if solution is not None:
            return solution
        phase_one = self._replace(value=0 * self.value)
        if self.others is not None:
            phase_one = phase_one._replace(others=self.others._replace(cost=0 * self.others.cost))
        solution = phase_one.solve(slack)
        assert solution is not None
        return solution._replace(lacking=float(slack.cost @ np.maximum(solution.traded, 0.0)))

    def bought_and_sold(self, buy: ndarray, sell: ndarray) -> MasterVariables:
        """Return the amounts of the resources that are bought and sold at these prices."""
        resources = sp.eye(len(self.capacities) + self.n, len(buy))
        cost = np.concatenate([buy, -sell])
        return MasterVariables.nonnegative(cost, sp.hstack([-resources, resources]))


def _solve_unscaled(program: Program) -> LPProposal:
    """Solve a linear program of at-most constraints and equations, in this order."""
    from scipy.optimize import linprog

    matrix = program.rows.matrix(len(program.cost))
    side = program.row_upper
    equation = program.row_lower == side
    at_most = matrix[~equation], side[~equation]
    equations = matrix[equation], side[equation]
    bounds = np.column_stack([program.lower, program.upper])
    result = linprog(program.cost, *at_most, *equations, bounds)
    if result.status not in (0, 2):
        raise RuntimeError(f"the linear program over columns failed: {result.message}")
    if result.x is None:
        return LPProposal(np.zeros(len(side)), None, empty=True)
    multipliers = np.concatenate([result.ineqlin.marginals, result.eqlin.marginals])
    return LPProposal(multipliers, result.x, empty=False)


class DualPoint(NamedTuple):
    """The dual function at some prices.

    Attributes
    ----------
    prices, value
        The prices, and the value of the dual function.
    column
        Number of the best column of each block, -1 where choosing none is better.
    profit
        Value of that column less the price of its use.
    lead
        Difference to the profit of the block's second best choice.
    """

    prices: ndarray
    value: float
    column: ndarray
    profit: ndarray
    lead: ndarray


class DominantColumns:
    """The columns of a program, sorted by block, to find the best one of every block.

    Parameters
    ----------
    master
        The program.
    """

    def __init__(self, master: RestrictedMaster) -> None:
        self.master = master
        number = np.arange(len(master.value))
        block = master.block
        if master.optional:  # choosing none comes first
            number = np.concatenate([np.full(master.n, -1), number])
            block = np.concatenate([np.arange(master.n), block])
        order = np.argsort(block, kind="stable")
        self.number = number[order]
        self.block = block[order]
        self.first = np.searchsorted(self.block, np.arange(master.n))

    def at(self, prices: ndarray) -> DualPoint:
        """Return the best column of every block at these prices."""
        master = self.master
        profit = np.append(master.value - master.use @ prices, 0.0)[self.number]
        best = np.maximum.reduceat(profit, self.first)
        tied = np.flatnonzero(profit == best[self.block])[::-1]
        position = np.zeros(master.n, dtype=int)
        position[self.block[tied]] = tied  # of equal columns the first is written last
        profit[position] = -np.inf
        lead = best - np.maximum.reduceat(profit, self.first)
        value = float(master.capacities @ prices + best.sum())
        return DualPoint(prices, value, self.number[position], best, lead)


def solve_master_by_sifting(
    master: RestrictedMaster,
    known_prices: ndarray | None = None,
    max_free_blocks: int = MAX_FREE_BLOCKS,
) -> MasterSolution:
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
        self, master: RestrictedMaster, known_prices: ndarray | None, max_free_blocks: int
    ) -> None:
        self.master = master
        self.dominant = DominantColumns(master)
        self.max_free_blocks = max_free_blocks
        size = np.maximum(len(master.capacities) * np.abs(master.capacities), 1e-9)
        self.price_scale = np.abs(master.value).max() * master.n / size
        self.width = INITIAL_BOX_WIDTH
        # columns added since may have moved the optimum far from known prices
        candidates = _sampled_prices(master, max_free_blocks), known_prices
        points = [self.dominant.at(prices) for prices in candidates if prices is not None]
        self.best = min(points, key=lambda point: point.value)
        self.free = self._least_dominant()

    def _least_dominant(self) -> ndarray:
        """Return a mask of the blocks whose best column has the smallest lead."""
        mask = np.zeros(self.master.n, dtype=bool)
        mask[np.argsort(self.best.lead, kind="stable")[: self.max_free_blocks]] = True
        return mask

    def solve_round(self) -> MasterSolution | None:
        """Solve one smaller program; return the solution of the large one if prices are optimal."""
        master = self.master
        chosen = self.best.column
        fixed = chosen[~self.free & (chosen >= 0)]
        solution = self._solve_smaller(fixed)
        point = self.dominant.at(solution.prices)
        missed = point.profit.sum() - point.profit[self.free].sum()
        missed -= (master.value[fixed] - master.use[fixed] @ point.prices).sum()
        scale = np.abs(master.capacities).max(initial=1.0)
        inside = bool(np.abs(solution.traded).max(initial=0.0) <= 1e-9 * scale)
        if inside and missed <= SIFTING_RELATIVE_GAP * max(1.0, abs(point.value)):
            weights = np.zeros(len(master.value))
            weights[fixed] = 1.0
            weights[self.free[master.block]] = solution.weights
            return solution._replace(convexity_duals=point.profit, weights=weights)
        self._update(point, inside)
        return None

    def _solve_smaller(self, fixed: ndarray) -> MasterSolution:
        """Solve the program of the free blocks, with prices in a box; trading prices bound them."""
        prices = self.best.prices
        lower = prices * max(1 - self.width, 0.0)
        upper = prices * (1 + self.width) + 1e-3 * self.width * self.price_scale
        left = self.master.capacities - self.master.use[fixed].sum(axis=0)
        smaller = self.master.of_blocks(self.free, left)
        solution = smaller.solve(smaller.bought_and_sold(upper, lower))
        assert solution is not None  # missing resources can be bought
        bought, sold = np.split(solution.traded, 2)
        return solution._replace(traded=bought - sold * (lower > 0))

    def _update(self, point: DualPoint, inside: bool) -> None:
        """Free more blocks, move the box or change its width."""
        changed = ~self.free & (point.column != self.best.column)
        better = point.value < self.best.value
        if better:
            self.best = point
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


def _sampled_prices(master: RestrictedMaster, max_blocks: int) -> ndarray:
    """Return prices of every k-th block alone, with its part of the capacities."""
    sampled = np.arange(master.n) % -(-master.n // max_blocks) == 0
    sample = master.of_blocks(sampled, sampled.sum() / master.n * master.capacities)
    solution = sample.solve() if len(sample.value) else None
    return np.zeros(len(master.capacities)) if solution is None else solution.prices

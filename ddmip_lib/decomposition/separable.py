r"""MIP blocks without integers that reduce to continuous quadratic knapsack problems.

A coupled variable is $x_i = w_i + r_i a_i - q_i b_i$ with two variables $a_i, b_i \ge 0$ of cost 0
that no other equality contains: the *moves* of $x_i$ up and down. Or no equality contains $x_i$;
then $w_i$ is the point of its bounds nearest to 0, and it may move to each bound. Every inequality
is a knapsack constraint $\sum g a + \sum g' b \le R$ with positive coefficients and $R \ge 0$, and
no move is in two of them.

Let $t_i$ be the minimiser of $x_i$ without constraints. A move away from $t_i$ is 0: it would use
capacity and make the objective worse. So each knapsack constraint is a problem of its own, in the
distances $d_i \ge 0$ from $w_i$ of the moves that it contains, with the wanted distance $e_i =
|t_i - w_i|$, the use $c_i$ of the capacity by one unit of distance, and the longest distance $h_i$:

$$\min_d \sum_i \tfrac{\rho_i}{2} (d_i - e_i)^2 \quad\text{s.t.}\quad \sum_i c_i d_i \le R,
\quad 0 \le d_i \le h_i,
\qquad d_i(\mu) = \min(h_i, \max(0, e_i - \mu c_i / \rho_i)).$$

The use of the capacity is a decreasing, piecewise linear function of the multiplier $\mu$, whose
breakpoints are sorted: $O(n \log n)$.
"""

from typing import NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy import ndarray

Equalities = tuple[sp.csc_matrix, ndarray]
Inequalities = tuple[sp.csc_matrix, ndarray, ndarray]


class KnapsackBlock(NamedTuple):
    """The data of these problems for k coupled variables and m knapsack constraints.

    Row 0 of an array of shape (2, k) is for moves up, row 1 for moves down.

    Attributes
    ----------
    coupled
        Indices of the coupled variables in the block, (k,).
    lower, upper
        Their bounds, (k,).
    base
        Their values without moves $w$, (k,).
    move
        Index in the block of each move, (2, k); -1 where a variable has none.
    rate
        Distance for one unit of the move, $r$ and $q$, (2, k).
    max_distance
        Longest distance $h$, (2, k).
    constraint
        Knapsack constraint of each move, (2, k); -1 without one.
    use
        Use of its capacity by one unit of distance $c$, (2, k).
    capacity
        Right-hand sides $R$, (m,).
    """

    coupled: ndarray
    lower: ndarray
    upper: ndarray
    base: ndarray
    move: ndarray
    rate: ndarray
    max_distance: ndarray
    constraint: ndarray
    use: ndarray
    capacity: ndarray

    @classmethod
    def find(
        cls,
        coupled: ndarray,
        cost: ndarray,
        equalities: Equalities,
        inequalities: Inequalities,
        bounds: tuple[ndarray, ndarray],
    ) -> Self | None:
        """Return the block of a quadratic program, or None if that has another structure.

        Parameters
        ----------
        coupled
            Indices of the coupled variables. The quadratic term is diagonal in them and zero in
            the others.
        cost
            Linear cost of every variable; of the coupled ones it belongs to $t$.
        equalities
            Matrix and right-hand side.
        inequalities
            Matrix, lower and upper sides.
        bounds
            Lower and upper bounds of all variables.
        """
        moves = np.setdiff1d(np.arange(len(cost)), coupled)
        if bounds[0][moves].any() or cost[moves].any():  # a move is at least 0 and costs nothing
            return None
        if not _has_structure(coupled, moves, equalities[0], inequalities):
            return None
        lower = bounds[0][coupled]
        upper = bounds[1][coupled]
        base, move, rate, limit = _read_equalities(coupled, moves, equalities, bounds)
        # two moves of one variable in the same direction: the second replaced the first
        has_duplicates = np.count_nonzero(move >= 0) < len(moves)
        if has_duplicates or ((lower > base) | (base > upper)).any():
            return None
        max_distance = np.minimum(limit, [upper - base, base - lower])
        knapsacks = _read_inequalities(move, rate, inequalities)
        return cls(coupled, lower, upper, base, move, rate, max_distance, *knapsacks)

    def solve(self, target: ndarray, rho: ndarray) -> ndarray:
        r"""Return the minimiser of $\sum_i \tfrac{\rho_i}{2} (x_i - t_i)^2$ over the block.

        Parameters
        ----------
        target
            The minimisers $t$ without constraints.
        rho
            The weights.
        """
        difference = target - self.base
        wanted = np.maximum([difference, -difference], 0.0)
        distance = np.minimum(wanted, self.max_distance)
        limited = self.constraint >= 0
        used = np.bincount(
            self.constraint[limited], (self.use * distance)[limited], len(self.capacity)
        )
        weight = np.broadcast_to(rho, wanted.shape)
        for r in np.flatnonzero(used > self.capacity):
            at = (self.constraint == r) & (distance > 0)
            data = (each[at] for each in (self.use, self.max_distance, wanted, weight))
            distance[at] = _solve_knapsack(*data, self.capacity[r])
        x = np.zeros(self.coupled.size + np.count_nonzero(self.move >= 0))
        x[self.coupled] = np.clip(self.base + distance[0] - distance[1], self.lower, self.upper)
        exists = self.move >= 0
        x[self.move[exists]] = (distance / self.rate)[exists]
        return x


def _read_equalities(
    coupled: ndarray, moves: ndarray, equalities: Equalities, bounds: tuple[ndarray, ndarray]
) -> tuple[ndarray, ndarray, ndarray, ndarray]:
    """Return `base`, `move`, `rate` and the longest distances that the bounds of moves allow."""
    a, b = equalities
    of_coupled = a[:, coupled].tocsr()
    owner = of_coupled.indices  # the coupled variable of each equality
    base = np.clip(0.0, bounds[0][coupled], bounds[1][coupled])
    base[owner] = b / of_coupled.data
    of_moves = a[:, moves].tocoo()
    signed_rate = -of_moves.data / of_coupled.data[of_moves.row]
    at = ((signed_rate < 0).astype(int), owner[of_moves.row])
    move = np.full((2, len(coupled)), -1)
    move[at] = moves[of_moves.col]
    rate = np.ones(move.shape)
    rate[at] = np.abs(signed_rate)
    # a variable without an equality moves by itself, one with an equality by its moves alone
    limit = np.full(move.shape, np.inf)
    limit[:, owner] = 0.0
    limit[at] = rate[at] * bounds[1][move[at]]
    return base, move, rate, limit


def _read_inequalities(
    move: ndarray, rate: ndarray, inequalities: Inequalities
) -> tuple[ndarray, ndarray, ndarray]:
    """Return `constraint`, `use` and `capacity`."""
    g, _, capacity = inequalities
    entries = g.tocoo()
    constraint = np.full(g.shape[1] + 1, -1)  # index -1, no move, finds the last entry
    constraint[entries.col] = entries.row
    coefficient = np.zeros(g.shape[1] + 1)
    coefficient[entries.col] = entries.data
    return constraint[move], coefficient[move] / rate, capacity


def _has_structure(
    coupled: ndarray, moves: ndarray, a: sp.csc_matrix, inequalities: Inequalities
) -> bool:
    """Whether each equality contains one coupled variable and moves of its own, and the
    inequalities are knapsack constraints on moves, no move in two of them.
    """
    g, g_lower, g_upper = inequalities
    of_coupled = a[:, coupled]
    if (of_coupled.getnnz(axis=1) != 1).any() or (of_coupled.getnnz(axis=0) > 1).any():
        return False
    if (a[:, moves].getnnz(axis=0) != 1).any():
        return False
    if g[:, coupled].nnz or (g.getnnz(axis=0) > 1).any() or (g.data <= 0).any():
        return False
    # moves are at least 0, so lower sides of at most 0 are redundant; no moves at all are feasible
    return bool((g_lower <= 0).all() and (g_upper >= 0).all())


def _solve_knapsack(
    use: ndarray, longest: ndarray, wanted: ndarray, rho: ndarray, capacity: float
) -> ndarray:
    """Return the distances of a knapsack constraint that holds with equality.

    The total use is linear in the multiplier between breakpoints: a distance begins to decrease at
    the first of its own and is 0 from the second on.
    """
    decrease = use**2 / rho  # of the total use, for one unit of the multiplier
    ends = np.concatenate([np.maximum(wanted - longest, 0.0), wanted])
    breakpoints = ends * np.tile(rho / use, 2)
    order = np.argsort(breakpoints, kind="stable")
    breakpoints = breakpoints[order]
    decrease = np.concatenate([decrease, -decrease])[order].cumsum()
    steps = np.append(0.0, decrease[:-1] * np.diff(breakpoints))
    total_use = float(use @ np.minimum(wanted, longest)) - steps.cumsum()
    last = max(int((total_use > capacity).sum()) - 1, 0)  # the last one with too large a use
    smallest = 1e-300  # without it 0 / 0 where rounding leaves no decrease
    mu = breakpoints[last] + (total_use[last] - capacity) / max(decrease[last], smallest)
    return np.clip(wanted - mu * use / rho, 0.0, longest)

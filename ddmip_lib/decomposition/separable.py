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
    """The data of these problems for k coupled variables, n moves and m knapsack constraints.

    Attributes
    ----------
    coupled, moves
        Indices in the block of the coupled variables, (k,), and of the moves, (n,).
    lower, upper
        Bounds of the coupled variables, (k,).
    tied
        Whether an equality contains the coupled variable, which then moves by its moves alone,
        (k,).
    base
        Values of the coupled variables without moves $w$, (k,).
    owner
        The coupled variable of each move, (n,).
    rate
        Change of this variable for one unit of the move, $r$ or $-q$, (n,).
    max_distance
        Longest distance $h$, (n,).
    constraint
        Knapsack constraint of each move, -1 without one, (n,).
    use
        Use of its capacity by one unit of distance $c$, (n,).
    capacity
        Right-hand sides $R$, (m,).
    """

    coupled: ndarray
    moves: ndarray
    lower: ndarray
    upper: ndarray
    tied: ndarray
    base: ndarray
    owner: ndarray
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
        of_coupled = equalities[0][:, coupled].tocsr()  # one entry in each row
        of_moves = equalities[0][:, moves]  # one entry in each column
        base = np.clip(0.0, lower, upper)
        base[of_coupled.indices] = equalities[1] / of_coupled.data
        owner = of_coupled.indices[of_moves.indices]
        rate = -of_moves.data / of_coupled.data[of_moves.indices]
        # two moves of one variable in the same direction have no distances of their own
        if len(np.unique(2 * owner + (rate > 0))) < len(moves):
            return None
        if ((lower > base) | (base > upper)).any():
            return None
        to_bound = np.where(rate > 0, (upper - base)[owner], (base - lower)[owner])
        max_distance = np.minimum(np.abs(rate) * bounds[1][moves], to_bound)
        knapsacks = _read_inequalities(moves, rate, inequalities)
        tied = of_coupled.getnnz(axis=0) > 0
        return cls(coupled, moves, lower, upper, tied, base, owner, rate, max_distance, *knapsacks)

    def solve(self, target: ndarray, rho: ndarray) -> ndarray:
        r"""Return the minimiser of $\sum_i \tfrac{\rho_i}{2} (x_i - t_i)^2$ over the block.

        Parameters
        ----------
        target
            The minimisers $t$ without constraints.
        rho
            The weights.
        """
        direction = np.sign(self.rate)
        weight = rho[self.owner]
        wanted = np.maximum(direction * (target - self.base)[self.owner], 0.0)
        distance = np.minimum(wanted, self.max_distance)
        use = self.use * distance
        limited = self.constraint >= 0
        used = np.bincount(self.constraint[limited], use[limited], len(self.capacity))
        for r in np.flatnonzero(used > self.capacity):
            at = (self.constraint == r) & (distance > 0)
            data = (each[at] for each in (self.use, self.max_distance, wanted, weight))
            distance[at] = _solve_knapsack(self.capacity[r], *data)
        moved = self.base + np.bincount(self.owner, direction * distance, self.base.size)
        x = np.empty(self.coupled.size + self.moves.size)
        x[self.coupled] = np.clip(np.where(self.tied, moved, target), self.lower, self.upper)
        x[self.moves] = distance / np.abs(self.rate)
        return x


def _read_inequalities(
    moves: ndarray, rate: ndarray, inequalities: Inequalities
) -> tuple[ndarray, ndarray, ndarray]:
    """Return `constraint`, `use` and `capacity`."""
    entries = inequalities[0][:, moves].tocoo()
    constraint = np.full(moves.size, -1)
    constraint[entries.col] = entries.row
    use = np.zeros(moves.size)
    use[entries.col] = entries.data / np.abs(rate[entries.col])
    return constraint, use, inequalities[2]


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
    capacity: float,
    use: ndarray,
    longest: ndarray,
    wanted: ndarray,
    rho: ndarray,
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

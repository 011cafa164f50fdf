r"""A MIP block that is separable but for budgets, solved exactly by sorting.

Every coupled variable is $x_i = w_i + r_i a_i - q_i b_i$ with steps $a_i, b_i \ge 0$ that cost
nothing, and every other constraint is a budget $\sum_i g_i s_i \le R$ on steps. With $t_i$ the
unconstrained minimiser of $x_i$, the steps up should cover $t_i - w_i$, those down $w_i - t_i$, and
each budget is a problem of its own in the distances $d_i$ from $w_i$:

$$\min_d \sum_i \tfrac{\rho_i}{2} (d_i - e_i)^2 \quad\text{s.t.}\quad \sum_i c_i d_i \le R,
\quad 0 \le d_i \le h_i,
\qquad d_i(\mu) = \min(h_i, \max(0, e_i - \mu c_i / \rho_i)).$$

The use of the budget is a decreasing, piecewise linear function of the multiplier $\mu$, whose
breakpoints are sorted: $O(n \log n)$.
"""

from typing import NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy import ndarray

Equalities = tuple[sp.csc_matrix, ndarray]
Inequalities = tuple[sp.csc_matrix, ndarray, ndarray]


class Budgets(NamedTuple):
    """A separable block with budgets. Arrays of shape (2, k) describe the steps up and down of the
    k coupled variables.

    Attributes
    ----------
    lower, upper, base
        Bounds of the coupled variables, and their values without steps.
    step
        Position of each step, -1 where there is none.
    rate
        Distance moved by one unit of the step.
    max_move
        Largest distance.
    budget
        Budget of each step, -1 where there is none.
    use
        Use of that budget by one unit of distance.
    capacity
        Right-hand side of each budget.
    """

    lower: ndarray
    upper: ndarray
    base: ndarray
    step: ndarray
    rate: ndarray
    max_move: ndarray
    budget: ndarray
    use: ndarray
    capacity: ndarray

    @classmethod
    def find(
        cls,
        slots: ndarray,
        cost: ndarray,
        equalities: Equalities,
        inequalities: Inequalities,
        bounds: tuple[ndarray, ndarray],
    ) -> Self | None:
        """Return a QP in this form, or None if it does not have it.

        Parameters
        ----------
        slots
            Positions of the coupled variables; the quadratic term is diagonal in these.
        cost
            Linear costs of the other variables.
        equalities
            Matrix and right-hand side.
        inequalities
            Matrix, and both sides.
        bounds
            Bounds of all variables.
        """
        steps = np.setdiff1d(np.arange(len(cost)), slots)
        if bounds[0][steps].any() or cost[steps].any():
            return None
        if not _has_form(slots, steps, equalities[0], inequalities):
            return None
        lower = bounds[0][slots]
        upper = bounds[1][slots]
        base, step, rate, reach = _read_equalities(slots, steps, equalities, bounds)
        two_alike = np.count_nonzero(step >= 0) < len(steps)  # of one variable, in one direction
        if two_alike or ((lower > base) | (base > upper)).any():
            return None
        max_move = np.minimum(reach, [upper - base, base - lower])
        return cls(lower, upper, base, step, rate, max_move, *_budgets(step, rate, inequalities))

    def solve(self, best: ndarray, rho: ndarray) -> tuple[ndarray, ndarray]:
        r"""Minimise $\sum_i \rho_i (x_i - t_i)^2$.

        Parameters
        ----------
        best
            The unconstrained minimisers $t$.
        rho
            The weights.

        Returns
        -------
        tuple of two numpy.ndarray
            The coupled variables, and the steps of shape (2, k).
        """
        away = best - self.base
        wanted = np.maximum([away, -away], 0.0)
        moved = np.minimum(wanted, self.max_move)
        limited = self.budget >= 0
        used = np.bincount(self.budget[limited], (self.use * moved)[limited], len(self.capacity))
        weight = np.broadcast_to(rho, wanted.shape)
        for r in np.flatnonzero(used > self.capacity):
            at = (self.budget == r) & (moved > 0)
            use = self.use[at]
            mu = _multiplier(use, self.max_move[at], wanted[at], weight[at], self.capacity[r])
            moved[at] = np.clip(wanted[at] - mu * use / weight[at], 0.0, self.max_move[at])
        return np.clip(self.base + moved[0] - moved[1], self.lower, self.upper), moved / self.rate


def _read_equalities(
    slots: ndarray,
    steps: ndarray,
    equalities: Equalities,
    bounds: tuple[ndarray, ndarray],
) -> tuple[ndarray, ...]:
    """Values of the coupled variables without steps; their steps up and down, the distances moved
    by one unit of each, and the distances that the bounds of the steps allow.
    """
    a, b = equalities
    of_coupled = a[:, slots].tocsr()
    owner = of_coupled.indices  # the coupled variable of each equality
    base = np.clip(0.0, bounds[0][slots], bounds[1][slots])
    base[owner] = b / of_coupled.data
    of_steps = a[:, steps].tocoo()
    move = -of_steps.data / of_coupled.data[of_steps.row]
    at = ((move < 0).astype(int), owner[of_steps.row])
    step = np.full((2, len(slots)), -1)
    step[at] = steps[of_steps.col]
    rate = np.ones(step.shape)
    rate[at] = np.abs(move)
    reach = np.full(step.shape, np.inf)
    reach[:, owner] = 0.0
    reach[at] = rate[at] * bounds[1][step[at]]
    return base, step, rate, reach


def _budgets(
    step: ndarray, rate: ndarray, inequalities: Inequalities
) -> tuple[ndarray, ndarray, ndarray]:
    """The budget of each step, its use by one unit of distance, and the budgets."""
    g, _, capacity = inequalities
    entries = g.tocoo()
    budget = np.full(g.shape[1] + 1, -1)  # the last entry: no step
    budget[entries.col] = entries.row
    use = np.zeros(g.shape[1] + 1)
    use[entries.col] = entries.data
    return budget[step], use[step] / rate, capacity


def _has_form(slots: ndarray, steps: ndarray, a: sp.csc_matrix, inequalities: Inequalities) -> bool:
    """Whether each equality gives one coupled variable by steps of its own, and each inequality is
    a budget on other steps.
    """
    g, g_lower, g_upper = inequalities
    of_coupled = a[:, slots]
    if (of_coupled.getnnz(axis=1) != 1).any() or (of_coupled.getnnz(axis=0) > 1).any():
        return False
    if (a[:, steps].getnnz(axis=0) != 1).any():
        return False
    if g[:, slots].nnz or (g.getnnz(axis=0) > 1).any() or (g.data <= 0).any():
        return False
    return bool((g_lower <= 0).all() and (g_upper >= 0).all())


def _multiplier(
    use: ndarray,
    max_move: ndarray,
    wanted: ndarray,
    rho: ndarray,
    capacity: float,
) -> float:
    """The multiplier at which the use of a budget, linear between sorted breakpoints, is its
    capacity.
    """
    rate = use**2 / rho
    # where a move begins to decrease, and where it is zero
    distances = np.concatenate([np.maximum(wanted - max_move, 0.0), wanted])
    breakpoints = distances * np.tile(rho / use, 2)
    order = np.argsort(breakpoints, kind="stable")
    breakpoints = breakpoints[order]
    slope = np.concatenate([rate, -rate])[order].cumsum()
    used = float(use @ np.minimum(wanted, max_move)) - np.concatenate(
        [[0.0], (slope[:-1] * np.diff(breakpoints)).cumsum()]
    )
    last = max(int((used > capacity).sum()) - 1, 0)
    return float(breakpoints[last] + (used[last] - capacity) / max(slope[last], 1e-300))

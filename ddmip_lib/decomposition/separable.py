r"""A MIP block that falls apart but for budgets, solved exactly by sorting.

Every coupled variable is $x_i = w_i + r_i a_i - q_i b_i$ with steps $a_i, b_i \ge 0$ that cost
nothing, and every other row is a budget $\sum_i g_i s_i \le R$ of steps. With $t_i$ the point where
$x_i$ alone would be best, the steps up ask for $t_i - w_i$, those down for $w_i - t_i$, and each
budget is a problem of its own in the distances $d_i$ from $w_i$:

$$\min_d \sum_i \tfrac{\rho_i}{2} (d_i - e_i)^2 \quad\text{s.t.}\quad \sum_i c_i d_i \le R,
\quad 0 \le d_i \le h_i,
\qquad d_i(\mu) = \min(h_i, \max(0, e_i - \mu c_i / \rho_i)).$$

What is spent falls with the price $\mu$ along straight pieces, whose ends are sorted: $O(n \log
n)$.
"""

from typing import NamedTuple, Self

import numpy as np
import scipy.sparse as sp


class Budgets(NamedTuple):
    """The block in this form. Arrays (2, k) hold steps up and down of the k coupled variables: the
    number of the step (-1: none), how far x moves by one unit, the furthest move, its budget (-1:
    none) and what a unit of move takes.
    """

    lower: np.ndarray
    upper: np.ndarray
    base: np.ndarray
    step: np.ndarray
    rate: np.ndarray
    room: np.ndarray
    budget: np.ndarray
    takes: np.ndarray
    most: np.ndarray  #: of each budget

    @classmethod
    def find(
        cls,
        slots: np.ndarray,
        cost: np.ndarray,
        equalities: tuple[sp.csc_matrix, np.ndarray],
        inequalities: tuple[sp.csc_matrix, np.ndarray, np.ndarray],
        bounds: tuple[np.ndarray, np.ndarray],
    ) -> Self | None:
        """The form of a QP with coupled variables `slots`, or None where it has another."""
        (a, b), (g, low, high), (lower, upper) = equalities, inequalities, bounds
        is_x = np.zeros(len(cost), dtype=bool)
        is_x[slots] = True
        of_row = a.tocoo()
        spent = g.tocoo()
        x_entry = is_x[of_row.col]
        s_entry = ~is_x[of_row.col]
        once = (np.bincount(of_row.col, minlength=len(cost)) == 1) | is_x
        plain = (lower[~is_x] == 0).all() and not cost[~is_x].any() and once.all()
        plain &= np.array_equal(
            np.sort(of_row.row[x_entry]), np.arange(a.shape[0])
        )  # one x in each row
        plain &= (np.bincount(of_row.col[x_entry], minlength=1) <= 1).all() and not is_x[
            spent.col
        ].any()
        plain &= (np.bincount(spent.col, minlength=1) <= 1).all() and (spent.data > 0).all()
        if not (plain and (low <= 0).all() and (high >= 0).all()):
            return None
        k = len(slots)
        place = np.full(len(cost), -1)
        place[slots] = np.arange(k)
        owner = np.zeros(a.shape[0], dtype=int)
        scale = np.ones(a.shape[0])
        owner[of_row.row[x_entry]], scale[of_row.row[x_entry]] = (
            place[of_row.col[x_entry]],
            of_row.data[x_entry],
        )
        base = np.clip(0.0, lower[slots], upper[slots])
        step = np.full((2, k), -1)
        base[owner] = b / scale
        row = of_row.row[s_entry]
        column = of_row.col[s_entry]
        moves = -of_row.data[s_entry] / scale[row]
        way = (moves < 0).astype(int)
        rate = np.ones((2, k))
        room = np.zeros((2, k))
        free = np.ones(k, dtype=bool)
        free[owner] = False
        room[:, free] = np.inf
        if len(np.unique(2 * owner[row] + way)) < len(row):  # two steps the same way
            return None
        step[way, owner[row]], rate[way, owner[row]] = column, np.abs(moves)
        room[way, owner[row]] = np.abs(moves) * upper[column]
        room = np.minimum(room, np.maximum([upper[slots] - base, base - lower[slots]], 0.0))
        if ((lower[slots] > base) | (base > upper[slots])).any():
            return None
        budget = np.full(len(cost) + 1, -1)
        takes = np.zeros(len(cost) + 1)  # the last entry: no step
        budget[spent.col], takes[spent.col] = spent.row, spent.data
        return cls(
            lower[slots],
            upper[slots],
            base,
            step,
            rate,
            room,
            budget[step],
            takes[step] / rate,
            high,
        )

    def solve(self, best: np.ndarray, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""The coupled variables that minimise $\sum_i \rho_i (x_i - t_i)^2$ for `best` $= t$, and
        the steps (2, k).
        """
        away = best - self.base
        asked = np.maximum([away, -away], 0.0)
        d = np.minimum(asked, self.room)
        paid = self.takes * d
        limited = self.budget >= 0
        spent = np.bincount(self.budget[limited], paid[limited], len(self.most))
        weight = np.broadcast_to(rho, asked.shape)
        for r in np.flatnonzero(spent > self.most):
            mine = (self.budget == r) & (d > 0)
            c = self.takes[mine]
            h = self.room[mine]
            e = asked[mine]
            w = weight[mine]
            mu = _price(c, h, e, w, float(self.most[r]))
            d[mine] = np.clip(e - mu * c / w, 0.0, h)
        return np.clip(self.base + d[0] - d[1], self.lower, self.upper), d / self.rate


def _price(c: np.ndarray, h: np.ndarray, e: np.ndarray, rho: np.ndarray, most: float) -> float:
    """The price at which so much is spent: where the straight pieces, taken in order, reach it."""
    falls = c**2 / rho
    at = np.concatenate([np.maximum(e - h, 0.0), e]) * np.tile(
        rho / c, 2
    )  # where d begins to fall, and where it ends
    order = np.argsort(at, kind="stable")
    at = at[order]
    slope = np.concatenate([falls, -falls])[order].cumsum()
    spent = float(c @ np.minimum(e, h)) - np.concatenate(
        [[0.0], (slope[:-1] * np.diff(at)).cumsum()]
    )
    last = max(int((spent > most).sum()) - 1, 0)
    return float(at[last] + (spent[last] - most) / max(slope[last], 1e-300))

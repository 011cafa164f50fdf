r"""The linear program over many options, small: blocks whose choice is clear are taken out of it.

Its dual is $\min_{\pi \ge 0} D(\pi) = \pi^\top R + \sum_i \max_o (v_o - \pi^\top r_o)$, a function
of few prices. Near prices $\bar\pi$ most blocks have one option far ahead of their others. With
these blocks held to it the program is small, and its value $\tilde D \le D$ is exact at $\bar\pi$;
it is solved with prices in a box around $\bar\pi$. Blocks that would choose otherwise at the new
prices join it, until $\tilde D = D$ there inside of the box. Then the prices are optimal for all
options.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..model.blocks import Blocks

# blocks of which all are kept in the program, and so many that are the least clear of more
FEW = 1500
CLOSED = 1e-8  # relative difference of the two values that counts as none
ROUNDS = 60  # after which the whole program is solved
WIDTH = 0.5  # of the first box, as a share of the prices


class LPSolution(NamedTuple):
    """Prices of the resources, what each block earns, shares of the options, and what was
    traded.
    """

    prices: np.ndarray
    earned: np.ndarray
    shares: np.ndarray
    extra: (
        np.ndarray
    )  #: Of each resource what was bought beyond its capacity, less what was sold for a price.


def solve_master(
    n: int,
    optional: bool,
    block: np.ndarray,
    value: np.ndarray,
    use: np.ndarray,
    capacities: np.ndarray,
    buy: np.ndarray | None = None,
    sell: np.ndarray | None = None,
) -> LPSolution | None:
    """The linear program over options of n blocks, where resources may be bought and sold at
    prices; None where no mixture is feasible.
    """
    from scipy.optimize import linprog

    m = len(capacities)
    k = len(value)
    sold = np.zeros(m) if sell is None else sell
    own = sp.csr_matrix((np.ones(k), (block, np.arange(k))), shape=(n, k))
    cost = -value
    shared = sp.csr_matrix(use.T)
    if buy is not None:
        cost = np.concatenate([cost, buy, -sold])
        eye = sp.identity(m)
        shared = sp.hstack([shared, -eye, eye])
        own = sp.hstack([own, sp.csr_matrix((n, 2 * m))])
    if optional:
        sides = np.concatenate([capacities, np.ones(n)])
        found = linprog(cost, A_ub=sp.vstack([shared, own]), b_ub=sides, method="highs")
    else:
        found = linprog(
            cost, A_ub=shared, b_ub=capacities, A_eq=own, b_eq=np.ones(n), method="highs"
        )
    if found.status == 2:
        return None
    if found.status != 0:
        raise RuntimeError(f"the linear program over {k} options failed: {found.message}")
    earned = -found.ineqlin.marginals[m:] if optional else -found.eqlin.marginals
    bought = np.zeros(m) if buy is None else found.x[k : k + m] - found.x[k + m :] * (sold > 0)
    return LPSolution(np.maximum(-found.ineqlin.marginals[:m], 0.0), earned, found.x[:k], bought)


class DominantColumns:
    """For given prices the best option of every block, and how far it is ahead of the block's next
    one.
    """

    def __init__(
        self, blocks: Blocks, block: np.ndarray, value: np.ndarray, use: np.ndarray
    ) -> None:
        self.blocks = blocks
        self.value = value
        self.use = use
        self.order = np.argsort(block, kind="stable")
        self.sorted = block[self.order]
        self.owners, self.first = np.unique(self.sorted, return_index=True)

    def at(self, prices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The best option of each block (-1: to choose nothing), what it brings, and by how much it
        leads.
        """
        profit = (self.value - self.use @ prices)[self.order]
        nothing = 0.0 if self.blocks.optional else -np.inf
        top = np.full(self.blocks.n, -np.inf)
        chosen = np.full(self.blocks.n, -1)
        lead = np.full(self.blocks.n, np.inf)
        top[self.owners] = np.maximum.reduceat(profit, self.first)
        best = np.flatnonzero(profit == top[self.sorted])[::-1]
        chosen[self.sorted[best]] = best  # the first of equal ones is written last
        profit[chosen[self.owners]] = -np.inf
        second = np.maximum(np.maximum.reduceat(profit, self.first), nothing)
        lead[self.owners] = np.abs(top[self.owners] - second)
        alone = top <= nothing
        lead[self.owners] = np.where(
            alone[self.owners], nothing - top[self.owners], lead[self.owners]
        )
        return np.where(alone, -1, self.order[chosen]), np.maximum(top, nothing), lead


def solve_master_by_sifting(
    blocks: Blocks,
    block: np.ndarray,
    value: np.ndarray,
    use: np.ndarray,
    near: np.ndarray | None = None,
    few: int = FEW,
) -> LPSolution:
    """The linear program of options that have a feasible mixture, from prices that may be near to
    its own.
    """
    leaders = DominantColumns(blocks, block, value, use)
    capacities = blocks.capacities
    scale = np.abs(value).max() * blocks.n / np.maximum(len(capacities) * np.abs(capacities), 1e-9)
    known = [_sampled(blocks, block, value, use, few), *([] if near is None else [near])]
    values = [capacities @ prices + leaders.at(prices)[1].sum() for prices in known]
    prices = known[int(np.argmin(values))]
    reached = min(values)  # earlier prices may be far from those of new options
    chosen, top, lead = leaders.at(prices)
    width = WIDTH
    open_ = _least(lead, few)
    for _ in range(ROUNDS):
        held = chosen[~open_ & (chosen >= 0)]
        among = np.flatnonzero(open_[block])
        low = prices * max(1 - width, 0.0)
        high = prices * (1 + width) + 1e-3 * width * scale
        left = capacities - use[held].sum(axis=0)
        number = np.cumsum(open_) - 1
        answer = solve_master(
            int(open_.sum()),
            blocks.optional,
            number[block[among]],
            value[among],
            use[among],
            left,
            high,
            low,
        )
        assert answer is not None  # what is lacking can be bought
        best, top, lead = leaders.at(answer.prices)
        exact = capacities @ answer.prices + top.sum()
        missed = top.sum() - top[open_].sum()
        missed -= (value[held] - use[held] @ answer.prices).sum()
        inside = np.abs(answer.extra).max(initial=0.0) <= 1e-9 * np.abs(capacities).max(initial=1.0)
        if missed <= CLOSED * max(1.0, abs(exact)) and inside:
            shares = np.zeros(len(value))
            shares[held], shares[among] = 1.0, answer.shares
            return LPSolution(answer.prices, top, shares, answer.extra)
        wrong = ~open_ & (best != chosen)
        better = exact < reached
        many = wrong.sum() > few
        if better:  # the blocks that are held follow
            prices = answer.prices
            reached = exact
            chosen = best
        few = 2 * few if many else few  # in the end all that is wrong can join
        open_ = _least(lead, few) if many and better else open_ if many else open_ | wrong
        if many and not better:
            width *= 0.5
        elif not inside and not many:
            width *= 2.0
    whole = solve_master(blocks.n, blocks.optional, block, value, use, capacities)
    if whole is None:
        raise RuntimeError(f"the linear program over {len(value)} options has no feasible mixture.")
    return whole


def _least(lead: np.ndarray, few: int) -> np.ndarray:
    """The blocks whose choice is the least clear."""
    found = np.zeros(len(lead), dtype=bool)
    found[np.argsort(lead, kind="stable")[:few]] = True
    return found


def _sampled(
    blocks: Blocks, block: np.ndarray, value: np.ndarray, use: np.ndarray, few: int
) -> np.ndarray:
    """Prices of every so many-th block alone, with its part of the capacities."""
    step = -(-blocks.n // few)
    among = np.flatnonzero(block % step == 0)
    n = len(range(0, blocks.n, step))
    if len(among) == 0:
        return np.zeros(len(blocks.capacities))
    part = n / blocks.n * blocks.capacities
    answer = solve_master(n, blocks.optional, block[among] // step, value[among], use[among], part)
    return np.zeros(len(blocks.capacities)) if answer is None else answer.prices

"""Price coordination on lists: columns written down, exact multipliers, and pricing by Adam."""

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor

from ddmip_lib.pricing import PricingProblem
from ddmip_lib.pricing.pricing_problem import Network, values_and_slopes


class Linear(NamedTuple):
    """The linear program over a list: value, multipliers of the coupling and of the convexity
    constraints, and the weights of the columns.
    """

    value: float
    prices: np.ndarray
    convexity_duals: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class Listed:
    r"""Columns written down: `block`, `value` and `use` of each, and the capacities; blocks are
    optional.

    >>> listed = hand_market()
    >>> listed.linear().value, listed.best()
    (2.5, 2.0)
    """

    block: Any
    value: Any
    use: Any
    capacities: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "block", np.asarray(self.block, dtype=int))
        for name in ("value", "use", "capacities"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=float))

    @property
    def n(self) -> int:
        return int(self.block.max()) + 1

    def profits(self, prices: Any) -> np.ndarray:
        r"""$v_o - \pi^\top a_o$ of every column."""
        return self.value - self.use @ np.asarray(prices, dtype=float)

    def demand(self, prices: Any) -> tuple[float, np.ndarray, np.ndarray]:
        r"""The dual function $\theta(\pi)$, its subgradient $b - \sum_i a_i$, and the columns that
        attain it (-1: none).
        """
        profits = self.profits(prices)
        bought = np.full(self.n, -1)
        for i in range(self.n):
            mine = np.flatnonzero(self.block == i)
            best = mine[profits[mine].argmax()]
            bought[i] = best if profits[best] > 0 else -1
        taken = bought[bought >= 0]
        value = float(np.asarray(prices) @ self.capacities + profits[taken].sum())
        return value, self.capacities - self.use[taken].sum(axis=0), bought

    def linear(self) -> Linear:
        """The linear program over these columns."""
        own = (self.block == np.arange(self.n)[:, None]).astype(float)
        upper = np.concatenate([self.capacities, np.ones(self.n)])
        result = linprog(-self.value, np.vstack([self.use.T, own]), upper, method="highs")
        multipliers = -result.ineqlin.marginals
        m = len(self.capacities)
        return Linear(0.0 - float(result.fun), multipliers[:m], multipliers[m:], result.x)

    def best(self) -> float:
        """The largest value of a selection, by enumeration."""
        ways = [[-1, *np.flatnonzero(self.block == i)] for i in range(self.n)]
        values = []
        for choice in itertools.product(*ways):
            taken = [o for o in choice if o >= 0]
            if (self.use[taken].sum(axis=0) <= self.capacities + 1e-9).all():
                values.append(self.value[taken].sum())
        return float(max(values))

    def generate(
        self, smoothing: float = 0.0, joint: bool = False, rounds: int = 200
    ) -> list[tuple[float, np.ndarray, float]]:
        r"""Column generation from an empty pool: (value of the linear program, its multipliers,
        $\theta$ there) by rounds.

        Pricing uses smoothed multipliers $\pi \leftarrow s\,\pi + (1 - s)\,\pi^{LP}$, and those of
        the program if no column is new. With `joint`, the columns of all blocks are one column, as
        of a single block.

        >>> [round(value, 3) for value, _, _ in hand_market().generate()]
        [0.0, 1.5, 2.5]
        """
        none = Listed(
            [0 if joint else self.n - 1], [0.0], 0 * self.capacities[None], self.capacities
        )
        found = []
        pool = none
        seen = np.zeros(len(self.capacities))
        for _ in range(rounds):
            lp = pool.linear()
            found.append((lp.value, lp.prices, self.demand(lp.prices)[0]))
            if found[-1][2] - lp.value <= 1e-9 * max(1.0, lp.value):
                break
            seen = smoothing * seen + (1 - smoothing) * lp.prices
            for prices in (seen, lp.prices):
                bought = self.demand(prices)[2]
                taken = bought[bought >= 0]
                block = self.block[taken]
                value = self.value[taken]
                use = self.use[taken]
                if joint:
                    block = np.zeros(1, int)
                    value = value.sum(keepdims=True)
                    use = use.sum(axis=0, keepdims=True)
                if (value - use @ lp.prices - lp.convexity_duals[block]).max(initial=0.0) > 1e-9:
                    break
            block, value, use = (
                np.concatenate(p)
                for p in ((pool.block, block), (pool.value, value), (pool.use, use))
            )
            pool = Listed(block, value, use, self.capacities)
        return found


def hand_market() -> Listed:
    """Three samples with two columns each, two resources with capacities 2 and 4."""
    return Listed(
        [0, 0, 1, 1, 2, 2], np.ones(6), [[1, 0], [0, 4], [2, 1], [0, 4], [2, 0], [1, 2]], [2, 4]
    )


def random_market(n: int, m: int, each: int, seed: int, scale: float = 0.25) -> Listed:
    """`each` columns for n blocks, random values and usage, and capacities that allow a fraction
    `scale` of the mean usage.
    """
    draw = np.random.default_rng(seed)
    use = draw.exponential(size=(n * each, m)) * (draw.random((n * each, m)) < 0.5)
    return Listed(
        np.repeat(np.arange(n), each), draw.uniform(0.5, 1.5, n * each), use, np.full(m, scale * n)
    )


def adam_search(
    network: Network,
    task: PricingProblem,
    u: Tensor,
    steps: int,
    rate: float = 0.05,
    weight: float = 1.0,
) -> tuple[Tensor, Tensor]:
    r"""Adam with a projection on $\pi^\top a(u) + w \max(0, \text{margin} - f(u))$: the cheapest
    point of class 1 among its iterates, and its profit (minus infinity without such a point).
    """
    u = u.clone().requires_grad_(True)
    adam = torch.optim.Adam([u], lr=rate)
    best = u.detach().clone()
    most = torch.full((len(u),), -torch.inf)
    most = most.to(u.dtype)
    for _ in range(steps + 1):
        output, slope = values_and_slopes(network, u)
        with torch.no_grad():
            profit = task.profit(u, output)
            better = profit > most
            best = torch.where(better[:, None], u, best)
            most = torch.where(better, profit, most)
            rises = torch.where(u > task.base, task.up, torch.where(u < task.base, -task.down, 0.0))
            u.grad = rises - weight * slope * (output < task.margin)[:, None]
            adam.step()
            u.clamp_(task.lower, task.upper)
    return best, most

r"""The options found so far, the prices that they give, and the best choice among them.

$$\max \sum_o v_o \delta_o \quad\text{s.t.}\quad \sum_o r_o \delta_o \le R, \qquad
\sum_{o \text{ of } i} \delta_o \le 1 \ \ (= 1 \text{ where blocks are not optional}), \qquad \delta \ge 0;$$

the multipliers of the shared rows in this linear program are the prices, and with $\delta$ binary it chooses.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from pyscipopt import SCIP_PARAMEMPHASIS, SCIP_PARAMSETTING, Model, quicksum
from scipy.optimize import linprog

from ..model.blocks import Blocks
from ..model.scip import matrix_of, optimise, solution_values

LACKING = 1e-9  # so much of a resource may be missing for lack of digits


@dataclass(frozen=True)
class Prices:
    """The linear program over a pool: its value, prices of the resources, what each block earns, and shares."""

    value: float
    prices: np.ndarray
    earned: np.ndarray
    shares: np.ndarray
    lacking: float
    """How much of the resources is missing: above zero, the pool holds no feasible mixture, and prices and earnings
    are those of the mixture that lacks least."""

    @property
    def counts(self) -> float:
        """What a unit of value counts for: nothing as long as resources are missing."""
        return 1.0 if self.lacking <= LACKING else 0.0


class Pool:
    """Options as parallel arrays: `at` (row of the table of `Blocks`), point, value, use."""

    def __init__(self, blocks: Blocks) -> None:
        m, p = len(blocks.capacities), blocks.base.shape[1]
        self.blocks = blocks
        self.at, self.u = np.zeros(0, dtype=int), np.zeros((0, p))
        self.value, self.use = np.zeros(0), np.zeros((0, m))

    def __len__(self) -> int:
        return len(self.at)

    @property
    def block(self) -> np.ndarray:
        """The block of each option."""
        return self.blocks.block[self.at]

    def add(self, at: np.ndarray, u: np.ndarray, value: np.ndarray) -> None:
        """Add options behind the others, but for those that are there already. One that alone takes more than there
        is stays too: no choice holds it, but it teaches the prices."""
        both = [(self.at, at), (self.u, u), (self.value, value), (self.use, self.blocks.use(at, u, value))]
        key = np.concatenate([self._key(self.at, self.u), self._key(at, u)])
        _, first = np.unique(key, axis=0, return_index=True)
        first = np.sort(first)  # those that were there come first and stay where they are
        self.at, self.u, self.value, self.use = (np.concatenate([a, b])[first] for a, b in both)

    def _key(self, at: np.ndarray, u: np.ndarray) -> np.ndarray:
        """What tells options apart: their points to a millionth of the box."""
        width = self.blocks.upper[at] - self.blocks.lower[at]
        return np.column_stack([at, np.round((u - self.blocks.base[at]) / np.where(width > 0, width, 1.0), 6)])

    def rows(self) -> sp.csr_matrix:
        """Which block each option belongs to, as a matrix (blocks, options)."""
        return sp.csr_matrix((np.ones(len(self)), (self.block, np.arange(len(self)))), shape=(self.blocks.n, len(self)))

    def prices(self) -> Prices:
        """Solve the linear program; where the pool holds no feasible mixture, the one that lacks least instead."""
        m, k = len(self.blocks.capacities), len(self)
        if not self.blocks.optional and len(np.unique(self.block)) < self.blocks.n:  # a block has no option at all
            return Prices(0.0, np.zeros(m), np.zeros(self.blocks.n), np.zeros(k), np.inf)
        if k == 0:
            lacking = float(np.maximum(-self.blocks.capacities, 0).sum())
            return Prices(0.0, np.zeros(m), np.zeros(self.blocks.n), np.zeros(k), lacking)
        result = self._solve(lacking=False)
        if result.status == 2:
            result = self._solve(lacking=True)
        if result.status != 0:
            raise RuntimeError(f"the linear program over {k} options failed: {result.message}")
        shared, own = -result.ineqlin.marginals[:m], -result.ineqlin.marginals[m:]
        earned = own if self.blocks.optional else -result.eqlin.marginals
        shares, lacking = result.x[:k], float(result.x[k:].sum())
        return Prices(float(self.value @ shares), np.maximum(shared, 0.0), earned, shares, lacking)

    def _solve(self, lacking: bool) -> Any:
        blocks, m = self.blocks, len(self.blocks.capacities)
        cost, shared, own = -self.value, sp.csr_matrix(self.use.T), self.rows()
        if lacking:  # the first phase: buy as little as possible of what is missing
            cost = np.concatenate([0 * cost, np.ones(m)])
            shared, own = sp.hstack([shared, -sp.identity(m)]), sp.hstack([own, sp.csr_matrix((blocks.n, m))])
        one = np.ones(blocks.n)
        if blocks.optional:
            upper = np.concatenate([blocks.capacities, one])
            return linprog(cost, A_ub=sp.vstack([shared, own]), b_ub=upper, method="highs")
        return linprog(cost, A_ub=shared, b_ub=blocks.capacities, A_eq=own, b_eq=one, method="highs")

    def reduced(self, lp: Prices) -> np.ndarray:
        """How much more than its block earns each option would bring at the prices."""
        return self.value * lp.counts - self.use @ lp.prices - lp.earned[self.block]

    def rounded(self, shares: np.ndarray) -> np.ndarray | None:
        """A choice by rounding: options in the order of their shares, then of value for use, as long as they fit;
        None where targets are missed or a block is left without the option that it needs."""
        helped = (self.use < 0).any(axis=0)  # what some options give may be taken by others before
        left, free = np.where(helped, np.inf, self.blocks.capacities), np.ones(self.blocks.n, dtype=bool)
        weight = self.use @ (1.0 / np.maximum(np.abs(self.blocks.capacities), 1e-9))
        order = np.lexsort((weight / np.maximum(self.value, 1e-9), -np.round(shares, 6)))
        chosen, block = [], self.block
        for o in order:
            helps = self.value[o] > 0 or shares[o] > 0.5 or not self.blocks.optional
            if helps and free[block[o]] and (self.use[o] <= left + 1e-12).all():
                chosen.append(o)
                left -= self.use[o]
                free[block[o]] = False
        short = (self.use[chosen].sum(axis=0) > self.blocks.capacities + 1e-9).any()
        return None if short or (free.any() and not self.blocks.optional) else np.array(chosen, dtype=int)

    def select(
        self, among: np.ndarray, start: np.ndarray | None, gap: float, nodes: int, seconds: float, seed: int = 0,
        emphasis: str = "default",
    ) -> np.ndarray | None:  # fmt: skip
        """The best choice among some options by SCIP, to a relative gap or so many nodes (-1: to the end); None where
        there is none. `emphasis` is ``"feasibility"``, ``"no cuts"`` or SCIP's default."""
        model = Model("selection")
        model.hideOutput()
        if emphasis == "feasibility":
            model.setEmphasis(SCIP_PARAMEMPHASIS.FEASIBILITY)
        elif emphasis == "no cuts":
            model.setSeparating(SCIP_PARAMSETTING.OFF)
        model.setParam("randomization/randomseedshift", seed % 2_000_000_000)
        model.setParam("numerics/feastol", 1e-7)  # verification allows 1e-6
        model.setParam("limits/gap", gap)
        model.setParam("limits/nodes", nodes)
        began = time.perf_counter()
        delta = matrix_of([model.addVar(vtype="B", obj=float(v)) for v in self.value[among]])
        model.setMaximize()
        block = self.block[among]
        for i in np.unique(block) if self.blocks.optional else range(self.blocks.n):
            mine = quicksum(delta[o] for o in np.flatnonzero(block == i))
            model.addCons(mine <= 1 if self.blocks.optional else mine == 1)
        for r, capacity in enumerate(self.blocks.capacities):
            users = np.flatnonzero(self.use[among, r])
            model.addCons(quicksum(float(self.use[among[o], r]) * delta[o] for o in users) <= float(capacity))
        if start is not None:
            sol = model.createSol()
            for o in np.flatnonzero(np.isin(among, start)):
                model.setSolVal(sol, delta[o], 1.0)
            model.addSol(sol)
        optimise(model, seconds - (time.perf_counter() - began))
        return among[solution_values(model, delta) > 0.5] if model.getNSols() else None

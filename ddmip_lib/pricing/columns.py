r"""The options found so far, the prices that they give, and the best choice among them.

$$\max \sum_o v_o \delta_o \quad\text{s.t.}\quad \sum_o r_o \delta_o \le R, \qquad
\sum_{o \text{ of } i} \delta_o \le 1 \ \ (= 1 \text{ where blocks are not optional}),
\qquad \delta \ge 0;$$

the multipliers of the shared rows in this linear program are the prices, and with $\delta$ binary
it chooses.
"""

from dataclasses import dataclass

import numpy as np
from pyscipopt import SCIP_PARAMEMPHASIS, SCIP_PARAMSETTING, Model, quicksum

from ..clock import now
from ..model.blocks import Blocks
from ..programs.scip import matrix_of, optimise, solution_values
from .master import FEW, LPSolution, solve_master, solve_master_by_sifting

LACKING = 1e-9  # so much of a resource may be missing for lack of digits
STRIDE = 4096  # options that rounding looks at together


@dataclass(frozen=True)
class MasterSolution:
    """The linear program over a pool: its value, prices of the resources, what each block earns,
    and shares.
    """

    value: float
    prices: np.ndarray
    earned: np.ndarray
    shares: np.ndarray
    lacking: float
    """How much of the resources is missing: above zero, the pool holds no feasible mixture, and
    prices and earnings are those of the mixture that lacks least.
    """

    @property
    def counts(self) -> float:
        """What a unit of value counts for: nothing as long as resources are missing."""
        return 1.0 if self.lacking <= LACKING else 0.0


class ColumnPool:
    """Options as parallel arrays: `at` (row of the table of `Blocks`), point, value, use."""

    def __init__(self, blocks: Blocks) -> None:
        m = len(blocks.capacities)
        p = blocks.base.shape[1]
        self.blocks = blocks
        self.at = np.zeros(0, dtype=int)
        self.u = np.zeros((0, p))
        self.value = np.zeros(0)
        self.use = np.zeros((0, m))
        self.key = np.zeros(0, dtype=np.uint64)

    def __len__(self) -> int:
        return len(self.at)

    @property
    def block(self) -> np.ndarray:
        """The block of each option."""
        return self.blocks.block[self.at]

    def add(self, at: np.ndarray, u: np.ndarray, value: np.ndarray) -> None:
        """Add options behind the others, but for those that are there already. One that alone takes
        more than there is stays too: no choice holds it, but it teaches the prices.
        """
        key = self._key(at, u)
        first = np.sort(np.unique(key, return_index=True)[1])
        new = first[
            ~np.isin(key[first], self.key, kind="sort")
        ]  # keys are hashes: a table would not do
        at = at[new]
        u = u[new]
        value = value[new]
        both = [
            (self.at, at),
            (self.u, u),
            (self.value, value),
            (self.use, self.blocks.use(at, u, value)),
        ]
        self.at, self.u, self.value, self.use = map(np.concatenate, both)
        self.key = np.concatenate([self.key, key[new]])

    def _key(self, at: np.ndarray, u: np.ndarray) -> np.ndarray:
        """What tells options apart: their points to 1e-7 of the box, mixed into one number each."""
        width = self.blocks.upper[at] - self.blocks.lower[at]
        place = np.round((u - self.blocks.base[at]) / np.where(width > 0, width, 1.0) * 1e7).astype(
            np.int64
        )
        mixed = at.astype(np.uint64)
        for column in place.T.astype(
            np.uint64
        ):  # as in splitmix64: two of 10^7 points meet once in 10^5 runs
            mixed = (mixed ^ column) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(32)
        return mixed

    def prices(self, near: MasterSolution | None = None) -> MasterSolution:
        """Solve the linear program; where the pool holds no feasible mixture, the one that lacks
        least instead. `near` is the answer of an earlier pool, from which a large program sets out.
        """
        blocks = self.blocks
        m = len(self.blocks.capacities)
        k = len(self)
        if (
            not blocks.optional and len(np.unique(self.block)) < blocks.n
        ):  # a block has no option at all
            return MasterSolution(0.0, np.zeros(m), np.zeros(blocks.n), np.zeros(k), np.inf)
        if k == 0:
            lacking = float(np.maximum(-blocks.capacities, 0).sum())
            return MasterSolution(0.0, np.zeros(m), np.zeros(blocks.n), np.zeros(k), lacking)
        known = near.prices if near is not None and near.counts else None
        if blocks.n > FEW and (
            known is not None or (blocks.optional and (blocks.capacities >= 0).all())
        ):
            found: LPSolution | None = solve_master_by_sifting(
                blocks, self.block, self.value, self.use, known
            )
        else:
            found = solve_master(
                blocks.n, blocks.optional, self.block, self.value, self.use, blocks.capacities
            )
        if found is None:  # the first phase: buy as little as possible of what is missing
            nothing = 0 * self.value
            price = np.ones(m)
            found = solve_master(
                blocks.n, blocks.optional, self.block, nothing, self.use, blocks.capacities, price
            )
        assert found is not None
        lacking = float(np.maximum(found.extra, 0.0).sum())
        return MasterSolution(
            float(self.value @ found.shares), found.prices, found.earned, found.shares, lacking
        )

    def reduced(self, lp: MasterSolution) -> np.ndarray:
        """How much more than its block earns each option would bring at the prices."""
        return self.value * lp.counts - self.use @ lp.prices - lp.earned[self.block]

    def rounded(self, shares: np.ndarray) -> np.ndarray | None:
        """A choice by rounding: options in the order of their shares, then of value for use, as
        long as they fit; None where targets are missed or a block is left without the option that
        it needs.
        """
        helped = (self.use < 0).any(axis=0)  # what some options give may be taken by others before
        left = np.where(helped, np.inf, self.blocks.capacities)
        free = np.ones(self.blocks.n, dtype=bool)
        weight = self.use @ (1.0 / np.maximum(np.abs(self.blocks.capacities), 1e-9))
        order = np.lexsort((weight / np.maximum(self.value, 1e-9), -np.round(shares, 6)))
        if self.blocks.optional:
            order = order[(self.value > 0)[order] | (shares > 0.5)[order]]
        chosen = [np.zeros(0, dtype=int)]
        block = self.block
        for first in range(0, len(order), STRIDE):
            waiting = order[first : first + STRIDE]
            while len(
                waiting := waiting[
                    free[block[waiting]] & (self.use[waiting] <= left + 1e-12).all(axis=1)
                ]
            ):
                leading = waiting[
                    np.sort(np.unique(block[waiting], return_index=True)[1])
                ]  # the first of each block
                fits = (self.use[leading].cumsum(axis=0) <= left + 1e-12).all(axis=1)
                taken = leading[: len(leading) if fits.all() else int(fits.argmin())]
                chosen.append(taken)
                left = left - self.use[taken].sum(axis=0)
                free[block[taken]] = False
        picked = np.concatenate(chosen)
        short = (self.use[picked].sum(axis=0) > self.blocks.capacities + 1e-9).any()
        return None if short or (free.any() and not self.blocks.optional) else picked

    def select(
        self,
        among: np.ndarray,
        start: np.ndarray | None,
        gap: float,
        nodes: int,
        seconds: float,
        seed: int = 0,
        emphasis: str = "default",
    ) -> np.ndarray | None:
        """The best choice among some options by SCIP, to a relative gap or so many nodes (-1: to
        the end); None where there is none. `emphasis` is ``"feasibility"``, ``"no cuts"`` or SCIP's
        default.
        """
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
        began = now()
        block = self.block[among]
        others = np.zeros(0, dtype=int)
        if start is not None:  # blocks of which nothing is among the options keep what they have
            others = start[~np.isin(self.block[start], block)]
        delta = matrix_of([model.addVar(vtype="B", obj=float(v)) for v in self.value[among]])
        model.setMaximize()
        owned = np.split(
            np.argsort(block, kind="stable"), np.flatnonzero(np.diff(np.sort(block))) + 1
        )
        if (
            not self.blocks.optional
            and len(np.unique(self.block[others])) + len(np.unique(block)) < self.blocks.n
        ):
            return None
        for mine in owned if len(among) else ():
            sum_ = quicksum(delta[o] for o in mine)
            model.addCons(sum_ <= 1 if self.blocks.optional else sum_ == 1)
        for r, left in enumerate(self.blocks.capacities - self.use[others].sum(axis=0)):
            users = np.flatnonzero(self.use[among, r])
            model.addCons(
                quicksum(float(self.use[among[o], r]) * delta[o] for o in users) <= float(left)
            )
        if start is not None:
            sol = model.createSol()
            for o in np.flatnonzero(np.isin(among, start)):
                model.setSolVal(sol, delta[o], 1.0)
            model.addSol(sol)
        optimise(model, seconds - (now() - began))
        if model.getNSols() == 0:
            return None
        return np.concatenate([others, among[solution_values(model, delta) > 0.5]])

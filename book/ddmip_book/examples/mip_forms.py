"""The x-step in a form that the library avoids, to be measured against those that it uses."""

import time

import numpy as np

from ddmip_lib.decomposition import Split
from ddmip_lib.decomposition.scip_block import BlockResult
from ddmip_lib.programs.scip import matrix_of, set_time_limit, solution_values


def x_step_value(
    split: Split, values: np.ndarray, lam: np.ndarray, copies: np.ndarray, rho: np.ndarray
) -> float:
    r"""The x-step's objective $c^\top v - \lambda^\top w + \tfrac12\lVert w - \kappa\rVert_\rho^2$
    at an assignment $v$ of the block with coupled part $w$.

    >>> from ddmip_lib import DualDecomposition
    >>> from ddmip_lib.problems import hand_sized
    >>> split = DualDecomposition().start(hand_sized()).split
    >>> x_step_value(split, np.array([1.0, 0.0, 0.0]), np.zeros(2), np.zeros(2), np.ones(2))
    2.0
    """
    w = values[split.coupled]
    return float(split.cost @ values - lam @ w + 0.5 * (rho * (w - copies)) @ (w - copies))


class EpigraphBlock:
    r"""A whole MIP block by SCIP, with one variable $z$ and one row $z \ge w^2$ for each coupled
    $w$ but binary ones.

    Right for every block, and slow for most: SCIP approaches each parabola by tangents.

    >>> from ddmip_lib import DualDecomposition
    >>> from ddmip_lib.problems import hand_sized
    >>> block = EpigraphBlock(DualDecomposition().start(hand_sized()).split)
    >>> block.solve(np.array([2.5, 0.0]), np.zeros(2), np.ones(2)).values[:2]
    array([1., 0.])
    """

    def __init__(self, split: Split, seed: int = 0) -> None:
        self.split = split
        self.model = split.block_model(seed)
        self.model.setParam("nlp/disable", True)
        s = split.milp
        at = split.coupled
        variables = self.model.getVars()
        self.variables = matrix_of(variables)
        self.binary = s.integer[at] & (s.lower[at] == 0) & (s.upper[at] == 1)
        squares = []
        for j in at[~self.binary]:
            z = self.model.addVar(lb=0.0, ub=max(s.lower[j] ** 2, s.upper[j] ** 2))
            self.model.addCons(z >= variables[j] * variables[j])
            squares.append(z)
        self.squares = matrix_of(squares)

    def solve(
        self, lam: np.ndarray, copies: np.ndarray, rho: np.ndarray, deadline: float = np.inf
    ) -> BlockResult:
        """One x-step, within whatever limits `model` was given."""
        at = self.split.coupled
        cost = self.split.cost.copy()
        cost[at] -= lam + rho * copies
        cost[at[self.binary]] += 0.5 * rho[self.binary]
        self.model.freeTransform()
        objective = (self.variables * cost).sum()
        if self.squares.size:
            objective = objective + (self.squares * (0.5 * rho[~self.binary])).sum()
        self.model.setObjective(objective, "minimize")
        began = time.perf_counter()
        set_time_limit(self.model, deadline - began)
        self.model.optimize()
        if self.model.getNSols() == 0:
            return BlockResult(None, self.model.getStatus())
        values = solution_values(self.model, self.variables)
        values = np.where(self.split.milp.integer, np.round(values), values)
        return BlockResult(values, "solved", time.perf_counter() - began)

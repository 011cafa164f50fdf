"""Blockwise and joint optimality of a split problem, by linear programs over the multiplier."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import linprog

from .tiny import Tiny

Cut = tuple[np.ndarray, float]
SLACK = 1e-8


def optimal_multiplier(problem: Tiny, x: Any, rho: float, joint: bool = False) -> np.ndarray | None:
    r"""A multiplier at which $u = x$ is blockwise or jointly optimal, or None where there is none.

    *Blockwise*: $x$ minimises $L_\rho$ in each block, so $(x, x, \lambda)$ is a fixed point of
    Algorithm 1. *Jointly*: no pair $(x', u)$ has a smaller $L_\rho(x', u, \lambda)$ than $(x, x)$.
    Both conditions are linear in $\lambda$, one inequality for each $x'$ and $u$: linear programs
    choose multipliers, exact steps of the blocks find the most violated inequality, and it becomes
    a constraint of the next program.

    >>> from ddmip_book.examples.tiny import quadratic
    >>> tie = quadratic([[0], [1]], curvature=1.0, centre=0.5)
    >>> (
    ...     optimal_multiplier(tie, [0], rho=0.9),
    ...     optimal_multiplier(tie, [0], rho=1.1),
    ...     optimal_multiplier(tie, [0], 1.1, joint=True),
    ... )
    (None, array([0.5]), None)
    """
    at = np.asarray(x, dtype=float)
    moves = problem.points - at
    alone: list[Cut] = [(d, float(problem.cost @ d + rho / 2 * d @ d)) for d in moves]

    def worst(lam: np.ndarray) -> list[Cut]:
        cuts = []
        for point in problem.points if joint else [at]:
            u = np.asarray(problem.u_step(point - lam / rho, rho), dtype=float)
            r = u - point
            rest = float(problem.cost @ point + problem.g(u) + rho / 2 * r @ r) - problem.total(at)
            cuts.append((-r, rest))
        return cuts

    return _multiplier(len(at), [] if joint else alone, worst)


def _multiplier(
    p: int, cuts: list[Cut], worst: Callable[[np.ndarray], list[Cut]], rounds: int = 500
) -> np.ndarray | None:
    r"""Some $\lambda$ that satisfies all constraints $a^\top\lambda \le b$, those given and those
    that `worst` finds.
    """
    size = np.hstack(
        [np.vstack([np.eye(p), -np.eye(p)]), -np.ones((2 * p, 1))]
    )  # the last variable is max |lambda|
    for _ in range(rounds):
        rows = np.vstack([size, *(np.append(a, 0.0)[None] for a, _ in cuts)])
        sides = np.concatenate([np.zeros(2 * p), [b for _, b in cuts]])
        found = linprog([0.0] * p + [1.0], A_ub=rows, b_ub=sides, bounds=(None, None))
        if found.status == 2:  # infeasible; any other failure has no found.x and is loud
            return None
        lam = found.x[:p]
        broken = [(a, b) for a, b in worst(lam) if a @ lam > b + SLACK]
        if not broken:
            return lam.round(3) + 0.0
        cuts = cuts + broken
    raise RuntimeError(
        f"no multiplier was found or excluded in {rounds} rounds; scale the problem to values near"
        " one."
    )

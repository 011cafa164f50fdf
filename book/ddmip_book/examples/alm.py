"""Penalties and multipliers on small equality-constrained problems with known solutions."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse.linalg import cg


@dataclass(frozen=True)
class EqualityQP:
    r"""The problem $\min\ F(x) = \tfrac12 x^\top Q x - p^\top x$ subject to $r(x) = Ax - b = 0$.

    >>> problem = EqualityQP(np.eye(2), [2, 1], [[1, 1]], [1])
    >>> x, lam = problem.solution()
    >>> x.round(6), lam.round(6)
    (array([1., 0.]), array([1.]))
    >>> problem.residual(problem.minimiser(rho=2.0)).round(6)
    array([0.4])
    """

    hessian: Any
    linear: Any
    rows: Any
    right: Any

    def __post_init__(self) -> None:
        for name in ("hessian", "linear", "rows", "right"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=float))

    def residual(self, x: np.ndarray) -> np.ndarray:
        """$r(x) = Ax - b$."""
        return self.rows @ x - self.right

    def lagrangian(self, x: np.ndarray, lam: Any = 0.0, rho: float = 0.0) -> float:
        r"""$F(x) + \lambda^\top r(x) + \tfrac{\rho}{2}\lVert r(x) \rVert^2$."""
        r = self.residual(x)
        return float(x @ self.hessian @ x / 2 - self.linear @ x + np.sum(lam * r) + rho / 2 * r @ r)

    def penalised(self, rho: float, lam: Any = 0.0) -> tuple[np.ndarray, np.ndarray]:
        r"""$H$ and $h$ such that the gradient of the augmented Lagrangian is $Hx - h$."""
        force = rho * self.right - np.broadcast_to(np.asarray(lam, float), self.right.shape)
        return self.hessian + rho * self.rows.T @ self.rows, self.linear + self.rows.T @ force

    def minimiser(self, rho: float, lam: Any = 0.0) -> np.ndarray:
        """The point where the gradient of the augmented Lagrangian is zero (a minimiser where $H$
        is positive).
        """
        return np.linalg.solve(*self.penalised(rho, lam))

    def solution(self) -> tuple[np.ndarray, np.ndarray]:
        r"""$x^*$ and $\lambda^*$ from $Qx + A^\top\lambda = p$, $Ax = b$."""
        m, n = self.rows.shape
        system = np.block([[self.hessian, self.rows.T], [self.rows, np.zeros((m, m))]])
        both = np.linalg.solve(system, np.r_[self.linear, self.right])
        return both[:n], both[n:]

    def dual_hessian(self) -> np.ndarray:
        r"""$S = A Q^{-1} A^\top$, the negative Hessian of the dual function."""
        return self.rows @ np.linalg.solve(self.hessian, self.rows.T)


def gradient_path(
    matrix: np.ndarray,
    vector: np.ndarray,
    start: Any,
    tolerance: float = 1e-8,
    limit: int = 500_000,
) -> np.ndarray:
    r"""Gradient descent for $\tfrac12 x^\top H x - h^\top x$ with the best fixed step; the
    iterates.

    The step is $2 / (\lambda_{\min} + \lambda_{\max})$; it stops where the gradient norm is at most
    ``tolerance``, which rounding can prevent if the matrix is badly conditioned: then ``limit``
    steps are an error.

    >>> len(gradient_path(np.diag([1.0, 3.0]), np.zeros(2), [1.0, 1.0], tolerance=0.01)) - 1
    9
    """
    eigenvalues = np.linalg.eigvalsh(matrix)
    step = 2 / (eigenvalues[0] + eigenvalues[-1])
    path = [np.asarray(start, dtype=float)]
    gradient = matrix @ path[0] - vector
    while gradient @ gradient > tolerance**2:
        if len(path) > limit:
            raise ValueError(
                f"no gradient below {tolerance:g} in {limit} steps. To fix this, raise the"
                " tolerance."
            )
        path.append(path[-1] - step * gradient)
        gradient = matrix @ path[-1] - vector
    return np.array(path)


def count_cg(
    matrix: np.ndarray, vector: np.ndarray, start: Any = None, rtol: float = 1e-8
) -> tuple[np.ndarray, int]:
    """The solution of $Hx = h$ by conjugate gradients, and the steps that it took.

    >>> count_cg(np.diag([1.0, 2.0]), np.ones(2))[1]
    2
    """
    seen: list[int] = []
    x, _ = cg(matrix, vector, x0=start, rtol=rtol, callback=lambda _: seen.append(1))
    return x, len(seen)


def best_multiplier(costs: Any, residuals: Any) -> tuple[float, np.ndarray]:
    r"""$\max_\lambda \min_j\ \text{cost}_j + \lambda^\top r_j$ over listed points (an LP), and its
    $\lambda$.

    With costs that contain an augmenting term this is the best dual bound of these points.

    >>> best_multiplier([1.0, 0.0, 0.0], [[0.0], [1.0], [-1.0]])[0]
    0.0
    """
    costs = np.asarray(costs, dtype=float)
    residuals = np.asarray(residuals, dtype=float)
    size = residuals.shape[1]
    best = linprog(
        np.r_[np.zeros(size), -1.0],
        A_ub=np.c_[-residuals, np.ones(len(costs))],
        b_ub=costs,
        bounds=[(None, None)] * (size + 1),
    )
    if best.status != 0:
        raise ValueError(
            f"no best multiplier: {best.message} To fix this, list a point with residual zero."
        )
    return float(-best.fun) + 0.0, best.x[:size]

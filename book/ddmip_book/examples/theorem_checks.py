"""The statements of the convergence chapter as numbers: margins that must not be negative, points,
bounds.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .smooth import Smooth
from .tiny import Path, Tiny

Inner = Callable[[np.ndarray, Callable[[np.ndarray], np.ndarray]], np.ndarray]


def theorem_a_margins(path: Path, problem: Smooth) -> dict[str, float]:
    r"""For each clause of the convergence theorem how far a run with constant $\rho$ is from
    violating it.

    >>> from ddmip_book.examples.smooth import with_curvature
    >>> from ddmip_book.examples.tiny import quadratic
    >>> problem = with_curvature(quadratic([[0], [1]], curvature=1.0, centre=0.4), ell=1.0)
    >>> min(theorem_a_margins(problem.run(1.5, 30), problem).values()) >= -1e-12
    True
    """
    room = (path.merit[0] - problem.optimum()) / problem.decrease(float(path.rho[0]))
    return _margins_of_steps(path, problem, room) | _margins_of_limit(path, problem, room)


def _margins_of_steps(path: Path, problem: Smooth, room: float) -> dict[str, float]:
    rho = float(path.rho[0])
    merit = path.merit
    r2 = path.residual**2
    moved = (np.diff(path.u, axis=0) ** 2).sum(axis=1)
    summed = problem.ell**2 / rho**2 * room
    slopes = np.array([problem.gradient(point) for point in path.u])
    least = np.minimum.accumulate(r2[1:])
    return {
        "multiplier": -float(np.abs(path.lam + slopes).max()),
        "descent": float((merit[:-1] - merit[1:] - problem.decrease(rho) * moved).min()),
        "lower bound": float((merit - path.total - (rho - problem.ell) / 2 * r2).min()),
        "sum of moves": float(room - moved.sum()),
        "sum of residuals": float(summed - r2[1:].sum()),
        "residual rate": float((summed / np.arange(1, len(r2)) - least).min()),
    }


def _margins_of_limit(path: Path, problem: Smooth, room: float) -> dict[str, float]:
    rho = float(path.rho[0])
    ell = problem.ell
    m = problem.m
    x = path.x
    changes = np.flatnonzero(np.any(np.diff(x, axis=0) != 0, axis=1))
    settled = int(changes[-1]) + 1 if changes.size else 0
    error = np.linalg.norm(path.u[settled:] - x[-1], axis=1)
    rate = max(ell / (ell + rho), m / (rho - m))
    reach = (rho + m) / 2 * rate ** (2 * np.arange(len(error))) * error[0] ** 2
    return {
        "limit condition": float(shortfall(problem, rho, x[-1])),
        "linear rate": float((rate * error[:-1] - error[1:]).min(initial=np.inf)),
        "value": float((reach - (path.merit[settled:] - path.total[-1])).min()),
        "changes": 2 * (1 + 2 * ell / rho) ** 2 * room + 2 - changes.size,
    }


def shortfall(problem: Smooth, rho: float, x: np.ndarray) -> float:
    r"""$\min_{z \in X} \nabla F(x)^\top (z - x) + \tfrac{\rho}{2}\lVert z - x \rVert^2$: zero at
    rest.
    """
    away = problem.points - x
    return float((away @ problem.slope(x) + rho / 2 * (away**2).sum(axis=1)).min())


def resting_points(problem: Smooth, rho: float) -> np.ndarray:
    r"""Which of the points satisfy the limit condition of the convergence theorem for this $\rho$.

    >>> from ddmip_book.examples.smooth import with_curvature
    >>> from ddmip_book.examples.tiny import quadratic
    >>> line = with_curvature(quadratic([[0], [1], [2]], curvature=0.0, cost=-0.4), ell=0.0)
    >>> resting_points(line, 0.1), resting_points(line, 1.0)
    (array([False, False,  True]), array([ True,  True,  True]))
    """
    return np.array([shortfall(problem, rho, x) >= -1e-12 for x in problem.points])


def run_inexact(problem: Tiny, rho: float, steps: int, inner: Inner, u: Any = 0.0) -> Path:
    r"""Algorithm 1 whose u-step is ``inner(u, slope)`` with the last $u$ and the function $\nabla_u
    L_\rho$.

    It starts with $\lambda^0 = -\nabla g(u^0)$.

    >>> from ddmip_book.examples.tiny import quadratic
    >>> problem = quadratic([[0], [1]], curvature=1.0, centre=0.4)
    >>> path = run_inexact(problem, 8.0, 50, lambda u, slope: u - slope(u) / 8.0)
    >>> bool(path.residual[-1] < 1e-9)
    True
    """
    u = np.broadcast_to(np.asarray(u, dtype=float), problem.points.shape[1:]).copy()
    lam = -np.asarray(problem.gradient(u))
    path = Path(problem, start=(u, lam))
    for _ in range(steps):
        x = problem.x_step(u, lam, rho)
        u = inner(u, lambda w, x=x, lam=lam: problem.gradient(w) + lam + rho * (w - x))  # type: ignore[misc]
        lam = lam + rho * (u - x)
        path.append(x, u, lam, rho)
    return path


def joint_minimum(problem: Tiny, lam: Any, rho: float) -> tuple[np.ndarray, np.ndarray, float]:
    r"""$\min L_\rho(x, u, \lambda)$ over all points $x$ and all $u \in C$ at once, by trying every
    $x$.

    >>> from ddmip_book.examples.tiny import quadratic
    >>> x, u, value = joint_minimum(quadratic([[0], [1]], curvature=1.0, centre=0.4), 0.0, rho=9.0)
    >>> x, round(value, 3)
    (array([0.]), 0.072)
    """
    lam = np.broadcast_to(np.asarray(lam, dtype=float), problem.points.shape[1:])
    pairs = [(x, np.asarray(problem.u_step(x - lam / rho, rho))) for x in problem.points]
    values = [problem.lagrangian(x, u, lam, rho) for x, u in pairs]
    best = int(np.argmin(values))
    return *pairs[best], values[best]


def block_rest(
    problem: Tiny, x: np.ndarray, lam: np.ndarray, rho: float
) -> tuple[np.ndarray, np.ndarray, int]:
    r"""Exact u- and x-steps in turn at fixed $(\lambda, \rho)$ until $x$ rests; also the number of
    its changes.

    >>> from ddmip_book.examples.tiny import quadratic
    >>> problem = quadratic([[0], [1]], curvature=0.0, low=0.3, high=1.0)
    >>> x, u, changes = block_rest(problem, np.array([0.0]), np.array([0.0]), rho=1.0)
    >>> x, u, changes
    (array([0.]), array([0.3]), 0)
    """
    for changes in range(len(problem.points) + 1):
        u = np.asarray(problem.u_step(x - lam / rho, rho))
        better = problem.x_step(u, lam, rho)
        gain = problem.lagrangian(x, u, lam, rho) - problem.lagrangian(better, u, lam, rho)
        if gain <= 1e-12:
            return x, u, changes
        x = better
    raise ArithmeticError("x returned to an earlier point, which exact steps cannot do.")

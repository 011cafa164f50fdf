"""Algorithm 1 with exact steps on problems small enough to list every decision."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ddmip_lib.decomposition import Penalty, PenaltyRule, ResidualInfo

UStep = Callable[[np.ndarray, float], np.ndarray]
RhoRule = Callable[["Path"], float]


@dataclass(frozen=True)
class Tiny:
    r"""The problem $\min\ c^\top x + g(x)$ over the listed ``points`` that lie in $C$, with both
    steps exact.

    The set $C$ enters through ``u_step`` alone: ``u_step(v, rho)`` is $\arg\min_{u \in C} g(u) +
    \tfrac{\rho}{2}\lVert u - v \rVert^2$, so that the NN block of Algorithm 1 is ``u_step(x - lam /
    rho, rho)``.

    >>> path = quadratic([[0], [1]], curvature=1.0, centre=0.5).run(rho=2.0, steps=3)
    >>> path.x.ravel()
    array([0., 0., 0.])
    """

    points: Any
    cost: Any
    g: Callable[[np.ndarray], float]
    gradient: Callable[[np.ndarray], np.ndarray]
    u_step: UStep

    def __post_init__(self) -> None:
        points = np.atleast_2d(np.asarray(self.points, dtype=float))
        object.__setattr__(self, "points", points)
        object.__setattr__(
            self, "cost", np.broadcast_to(np.asarray(self.cost, float), points.shape[1:])
        )

    def total(self, x: Any) -> float:
        """$F(x) = c^\top x + g(x)$."""
        x = np.asarray(x, dtype=float)
        return float(self.cost @ x + self.g(x))

    def optimum(self) -> float:
        """The smallest $F$ over all points (of which all lie in $C$, where there is one)."""
        return min(self.total(x) for x in self.points)

    def lagrangian(self, x: np.ndarray, u: np.ndarray, lam: np.ndarray, rho: float) -> float:
        r"""$L_\rho(x, u, \lambda)$."""
        return float(self.cost @ x + self.g(u) + lam @ (u - x) + rho / 2 * (u - x) @ (u - x))

    def x_step(self, u: np.ndarray, lam: np.ndarray, rho: float) -> np.ndarray:
        r"""The first minimiser over the points of $(c - \lambda)^\top x + \tfrac{\rho}{2}\lVert x -
        u \rVert^2$.
        """
        values = self.points @ (self.cost - lam) + rho / 2 * ((self.points - u) ** 2).sum(1)
        return self.points[np.flatnonzero(values <= values.min() + 1e-12)[0]]

    def run(
        self,
        rho: float | RhoRule,
        steps: int,
        u: Any = 0.0,
        lam: Any = 0.0,
        order: str = "xu",
        bound: float = np.inf,
    ) -> Path:
        r"""Algorithm 1 from $(u, \lambda)$; ``order="ux"`` swaps the two blocks (its first $x$ is
        the nearest point).

        ``rho`` may be a function of the path so far; ``bound`` safeguards $\lvert\lambda_i\rvert$.
        """
        if order not in ("xu", "ux"):
            raise ValueError(f"order is {order!r}. To fix this, use 'xu' (Algorithm 1) or 'ux'.")
        shape = self.points.shape[1:]
        u, lam = (np.broadcast_to(np.asarray(v, float), shape).copy() for v in (u, lam))
        path = Path(self, start=(u, lam))
        x = self.x_step(u, np.asarray(self.cost), 1.0)
        for _ in range(steps):
            weight = rho(path) if callable(rho) else float(rho)
            for block in order:
                if block == "x":
                    x = self.x_step(u, lam, weight)
                else:
                    u = np.asarray(self.u_step(x - lam / weight, weight), dtype=float)
            lam = np.clip(lam + weight * (u - x), -bound, bound)
            path.append(x, u, lam, weight)
        return path


@dataclass
class Path:
    """The iterates of a run, one row per iteration: ``x``, ``u``, ``lam``, and the penalties
    ``rho``.
    """

    problem: Tiny
    start: tuple[np.ndarray, np.ndarray]
    rows: list[tuple[np.ndarray, np.ndarray, np.ndarray, float]] = field(default_factory=list)

    def append(self, x: np.ndarray, u: np.ndarray, lam: np.ndarray, rho: float) -> None:
        self.rows.append((x.copy(), u.copy(), lam.copy(), rho))

    x = property(lambda self: np.array([row[0] for row in self.rows]))
    u = property(lambda self: np.array([row[1] for row in self.rows]))
    lam = property(lambda self: np.array([row[2] for row in self.rows]))
    rho = property(lambda self: np.array([row[3] for row in self.rows]))

    @property
    def residual(self) -> np.ndarray:
        r"""$\lVert u^k - x^k \rVert$ of every iteration."""
        return np.linalg.norm(self.u - self.x, axis=1)

    @property
    def merit(self) -> np.ndarray:
        r"""$L_\rho(x^k, u^k, \lambda^k)$ of every iteration."""
        return np.array([self.problem.lagrangian(*row) for row in self.rows])

    @property
    def total(self) -> np.ndarray:
        """$F(x^k)$ of every iteration."""
        return np.array([self.problem.total(row[0]) for row in self.rows])


def quadratic(
    points: Any,
    curvature: float = 1.0,
    centre: Any = 0.0,
    cost: Any = 0.0,
    low: Any = -np.inf,
    high: Any = np.inf,
) -> Tiny:
    r"""$g(u) = \tfrac{a}{2}\lVert u - z \rVert^2$ with curvature $a$ (negative: concave, needs
    $\rho > -a$), $C$ a box.

    >>> quadratic([[0], [1]], curvature=1.0, centre=0.5).total([1.0])
    0.125
    """
    centre = np.asarray(centre, dtype=float)
    return Tiny(
        points,
        cost,
        g=lambda u: float(curvature / 2 * np.sum((u - centre) ** 2)),
        gradient=lambda u: curvature * (u - centre),
        u_step=lambda v, rho: np.clip(
            (curvature * centre + rho * v) / (curvature + rho), low, high
        ),
    )


def ruled_by(rule: PenaltyRule, scale: float = 1.0, tolerance: float = 1e-4) -> RhoRule:
    r"""A penalty rule of `ddmip_lib` as the ``rho`` of `Tiny.run`; a rule that ends the run holds
    its last penalty.

    >>> from ddmip_lib import IncreaseOnStagnation
    >>> path = quadratic([[0], [1]], centre=0.5).run(
    ...     ruled_by(IncreaseOnStagnation(0.5, patience=2)), 9, u=0.3
    ... )
    >>> path.rho[0], path.rho[-1]
    (np.float64(0.5), np.float64(1.0))
    """
    own = copy.deepcopy(rule)

    def weight(path: Path) -> float:
        if not path.rows:
            return own.first(Penalty.both(scale)).inputs
        x, u, lam, rho = path.rows[-1]
        old = path.rows[-2][:3] if len(path.rows) > 1 else None
        problem = path.problem
        u_old = path.start[0] if old is None else old[1]

        def descends(sigma: float) -> bool:
            if old is None:
                return True
            before = problem.lagrangian(*old, rho)
            after = problem.lagrangian(x, u, lam, rho)
            enough = after <= before - sigma * rho * float((u - u_old) @ (u - u_old)) + 1e-13
            return enough and after >= problem.total(x) - 1e-13

        primal = float(np.abs(u - x).max())
        dual = float(rho * np.abs(u - u_old).max())
        settled = max(primal, dual) < tolerance
        following = own.after(
            ResidualInfo(Penalty.both(rho), (primal, 0.0), (dual, 0.0), settled, descends)
        )
        return rho if following is None else following.inputs

    return weight

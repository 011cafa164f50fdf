"""Smooth test problems for Algorithm 1 whose curvature bounds are known, with exact steps."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .tiny import Tiny, UStep

Slope = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Smooth(Tiny):
    r"""A `Tiny` problem whose $g$ has curvature in $[-m, \ell]$: what the convergence theorem asks
    for.

    >>> from ddmip_book.examples.tiny import quadratic
    >>> problem = with_curvature(quadratic([[0], [1]], curvature=2.0), ell=2.0)
    >>> problem.threshold, problem.decrease(4.0)
    (2.0, 2.0)
    """

    ell: float = 0.0
    m: float = 0.0

    @property
    def threshold(self) -> float:
        r"""$\max\{\ell, 2m\}$: the convergence theorem asks for a larger $\rho$."""
        return max(self.ell, 2 * self.m)

    def decrease(self, rho: float) -> float:
        r"""The constant $\delta$ of the descent lemma."""
        first = (rho - 2 * self.m) * (rho + self.m)
        second = (rho - self.ell) * (rho + 2 * self.ell)
        return min(first, second) / (2 * rho)

    def bregman(self, a: np.ndarray, b: np.ndarray) -> float:
        r"""$D_g(a, b) = g(a) - g(b) - \nabla g(b)^\top (a - b)$."""
        return float(self.g(a) - self.g(b) - self.gradient(b) @ (a - b))

    def slope(self, x: np.ndarray) -> np.ndarray:
        r"""$\nabla F(x) = c + \nabla g(x)$."""
        return np.asarray(self.cost + self.gradient(x))


def with_curvature(problem: Tiny, ell: float, m: float = 0.0) -> Smooth:
    r"""The same problem, together with the curvature bounds $-m$ and $\ell$ of its $g$."""
    return Smooth(**vars(problem), ell=ell, m=m)


def newton_step(g: Callable[[np.ndarray], float], gradient: Slope, hessian: Slope) -> UStep:
    r"""The minimiser of $g(u) + \tfrac{\rho}{2}\lVert u - v \rVert^2$ by damped Newton steps, for
    $\rho > m$.

    >>> step = newton_step(lambda u: float(u @ u), lambda u: 2 * u, lambda u: 2 * np.eye(1))
    >>> step(np.array([3.0]), 1.0)
    array([1.])
    """

    def u_step(v: np.ndarray, rho: float) -> np.ndarray:
        def value(u: np.ndarray) -> float:
            return g(u) + rho / 2 * float((u - v) @ (u - v))

        u = np.array(v, dtype=float)
        for _ in range(100):
            slope = gradient(u) + rho * (u - v)
            if np.linalg.norm(slope) <= 1e-14 * (1 + rho * (1 + np.linalg.norm(v))):
                break
            move = -np.linalg.solve(hessian(u) + rho * np.eye(u.size), slope)
            here = value(u)
            length = 1.0
            noise = 1e-14 * (1 + abs(here))
            while (
                value(u + length * move) > here + 1e-4 * length * (slope @ move) + noise
                and length > 1e-6
            ):
                length /= 2
            u = u + length * move
        return u

    return u_step


def ridge(
    points: Any, weights: Any, bias: Any, outer: Any, cost: Any = 0.0, kind: str = "tanh"
) -> Smooth:
    r"""One hidden layer, $g(u) = \sum_i v_i\,\sigma(w_i^\top u + b_i)$, where $\sigma$ is ``tanh``
    or ``softplus``.

    With nonnegative ``outer`` weights the softplus network is input-convex ($m = 0$).

    >>> net = ridge([[0], [1]], weights=[[1.0]], bias=[0.0], outer=[4.0], kind="softplus")
    >>> net.ell, net.m
    (1.0, 0.0)
    """
    w, b, v = (np.asarray(value, dtype=float) for value in (weights, bias, outer))

    def spread(part: np.ndarray) -> float:
        return float(np.linalg.norm((w.T * part) @ w, 2))

    if kind == "tanh":
        ell = m = 4 / (3 * np.sqrt(3)) * spread(np.abs(v))  # the largest |tanh''|
    else:
        m = spread(np.maximum(-v, 0)) / 4
        ell = max(spread(np.maximum(v, 0)) / 4, m)

    def shapes(u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        z = w @ u + b
        t = np.tanh(z if kind == "tanh" else z / 2)
        if kind == "tanh":
            return t, 1 - t**2, -2 * t * (1 - t**2)
        return np.logaddexp(0, z), (1 + t) / 2, (1 - t**2) / 4

    def g(u: np.ndarray) -> float:
        return float(v @ shapes(u)[0])

    def gradient(u: np.ndarray) -> np.ndarray:
        return w.T @ (v * shapes(u)[1])

    def hessian(u: np.ndarray) -> np.ndarray:
        return (w.T * (v * shapes(u)[2])) @ w

    return Smooth(points, cost, g, gradient, newton_step(g, gradient, hessian), ell=ell, m=m)


def triangle_nets(seed: int) -> tuple[Smooth, Smooth]:
    r"""An input-convex softplus network and a tanh network on the integer points of a triangle.

    >>> convex, wavy = triangle_nets(seed=1)
    >>> convex.m, bool(wavy.m == wavy.ell), len(wavy.points)
    (0.0, True, 148)
    """
    points = [z for z in itertools.product(range(13), repeat=2) if sum(z) <= 18]
    rng = np.random.default_rng(seed)
    inner = rng.normal(size=(16, 2))
    bias = rng.normal(size=16)
    outer = rng.normal(size=16)
    wavy = ridge(points, 0.07 * inner, bias, 4 * outer, 0.05 * rng.normal(size=2))
    convex = (0.14 * inner, bias, 4 * np.abs(outer))
    lowest = np.array([5.3, 4.6])  # where the convex network, with its cost, has its minimum
    uphill = ridge(points, *convex, kind="softplus").gradient(lowest)
    return ridge(points, *convex, cost=-uphill, kind="softplus"), wavy


def on_the_line(
    points: Any, g: Slope, first: Slope, second: Slope, ell: float, m: float, cost: Any = 0.0
) -> Smooth:
    r"""A smooth function of one variable, given with its first two derivatives.

    >>> cosine = on_the_line(
    ...     [[0]], np.cos, lambda u: -np.sin(u), lambda u: -np.cos(u), ell=1.0, m=1.0
    ... )
    >>> bool(cosine.run(rho=3.0, steps=40, u=0.1, lam=0.1).residual[-1] < 1e-9)
    True
    """
    step = newton_step(lambda u: float(g(u)[0]), first, lambda u: np.diag(second(u)))
    return Smooth(points, cost, lambda u: float(g(u)[0]), first, step, ell=ell, m=m)


def piecewise(points: Any, knots: Any, slopes: Any, start: float = 0.0, cost: Any = 0.0) -> Smooth:
    r"""One variable, $g'$ continuous and piecewise linear: ``slopes[i]`` left of ``knots[i]``, the
    last one after all.

    Such functions meet the bounds of the descent lemma with equality.  ``start`` is $g'$ at the
    first knot.

    >>> bend = piecewise([[0]], knots=[0.0], slopes=[-1.0, 2.0])
    >>> bend.ell, bend.m, bend.gradient(np.array([3.0])), bend.g(np.array([-2.0]))
    (2.0, 1.0, array([6.]), -2.0)
    """
    knot = np.asarray(knots, dtype=float)
    bend = np.asarray(slopes, dtype=float)
    value = start + np.concatenate([[0.0], np.cumsum(bend[1:-1] * np.diff(knot))])

    def derivative(t: float) -> float:
        i = int(np.searchsorted(knot, t))
        near = max(i - 1, 0)
        return float(value[near] + bend[i] * (t - knot[near]))

    def g(u: np.ndarray) -> float:
        t = float(u[0])
        inside = knot[(knot > min(t, knot[0])) & (knot < max(t, knot[0]))]
        corners = np.sort(np.concatenate([[knot[0]], inside, [t]]))
        heights = np.array([derivative(corner) for corner in corners])
        area = float(((heights[1:] + heights[:-1]) / 2 * np.diff(corners)).sum())
        return area if t > knot[0] else -area

    def u_step(v: np.ndarray, rho: float) -> np.ndarray:
        level = value + rho * (knot - v[0])  # g' + rho (u - v) at the knots, increasing for rho > m
        i = int(np.searchsorted(level, 0.0))
        near = max(i - 1, 0)
        return np.array([knot[near] - level[near] / (bend[i] + rho)])

    ell = float(np.abs(bend).max())
    m = max(0.0, -float(bend.min()))
    return Smooth(points, cost, g, lambda u: np.array([derivative(u[0])]), u_step, ell=ell, m=m)


def random_bends(seed: int, m: float, size: int = 6) -> Smooth:
    r"""A `piecewise` function on $X = \{0, \dots, \text{size}\}$ whose curvature jumps at random
    between $-m$ and 1.

    >>> random_bends(seed=0, m=0.5).ell
    1.0
    """
    rng = np.random.default_rng(seed)
    knots = np.sort(rng.uniform(-2, size + 2, 12))
    slopes = rng.choice([-m, 1.0], 13)
    slopes[0] = 1.0
    points = np.arange(size + 1.0)[:, None]
    return piecewise(points, knots, slopes, start=rng.uniform(-3, 3), cost=rng.uniform(-4, 4))

"""Small problems on which a hypothesis of a convergence theorem fails, and the steps that show it exactly."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ddmip_lib.teaching.tiny import Tiny

Projection = Callable[[np.ndarray], np.ndarray]
SQUARE = tuple(itertools.product((0, 1), repeat=2))


def constrained(points: Any, project: Projection, cost: Any = 0.0, slope: Any = 0.0, curvature: float = 0.0,
                centre: Any = 0.0) -> Tiny:  # fmt: skip
    r"""$g(u) = s^\top u + \tfrac{a}{2}\lVert u - z \rVert^2$ on a set $C$ given by its projection; exact steps.

    The NN block minimises a multiple of $\lVert u - w \rVert^2$ over $C$, so it is the projection of $w$.

    >>> wall = constrained([[0], [1]], lambda w: np.minimum(w, 0.0), slope=-1.0)
    >>> wall.u_step(np.array([-3.0]), 1.0)
    array([-2.])
    """
    s, z = np.asarray(slope, dtype=float), np.asarray(centre, dtype=float)
    return Tiny(
        points,
        cost,
        g=lambda u: float(np.sum(s * u) + curvature / 2 * np.sum((u - z) ** 2)),
        gradient=lambda u: s + curvature * (u - z),
        u_step=lambda v, rho: project((curvature * z + rho * v - s) / (curvature + rho)),
    )


def slab(normal: Any, low: Any, high: Any) -> Projection:
    r"""The projection onto $\{u : \text{low} \le a^\top u \le \text{high}\}$; exact on arrays of fractions.

    >>> slab((3, -1), Fraction(9, 5), Fraction(21, 10))(np.array([Fraction(0), Fraction(0)]))
    array([Fraction(27, 50), Fraction(-9, 50)], dtype=object)
    """
    a = np.asarray(normal)

    def project(w: np.ndarray) -> np.ndarray:
        level = a @ w
        return np.asarray(w + (min(max(level, low), high) - level) / (a @ a) * a)

    return project


def three_cycle(**about_g: Any) -> Tiny:
    r"""$X = \{0,1\}^2$ and $C = \{1.8 \le 3u_1 - u_2 \le 2.1\}$, of whose points only $(1, 1)$ is in $X$.

    >>> three_cycle().run(rho=5.0, steps=6).x.astype(int).tolist()
    [[0, 0], [1, 0], [1, 0], [1, 0], [0, 0], [1, 0]]
    """
    return constrained(SQUARE, slab((3, -1), 1.8, 2.1), **about_g)


class Exact(NamedTuple):
    """One iteration in fractions: the iterates, the scaled multiplier, and by how much the x-step was decided."""

    x: tuple[Fraction, ...]
    u: tuple[Fraction, ...]
    scaled: tuple[Fraction, ...]
    margin: Fraction


def rational_path(points: Any, project: Projection, steps: int) -> list[Exact]:
    r"""Algorithm 1 for $c = 0$, $g = 0$ in exact arithmetic, written for $\lambda / \rho$: no $\rho$ is left.

    >>> path = rational_path(SQUARE, slab((3, -1), Fraction(9, 5), Fraction(21, 10)), 7)
    >>> path[3] == path[6], path[3].u
    (True, (Fraction(73, 100), Fraction(9, 100)))
    """
    listed = np.array([[Fraction(value) for value in point] for point in points])
    u = scaled = np.array([Fraction(0)] * listed.shape[1])
    path = []
    for _ in range(steps):
        distance = ((listed - (u + scaled)) ** 2).sum(axis=1)
        first, second = sorted(distance)[:2]
        x = listed[list(distance).index(first)]
        u = project(x - scaled)
        scaled = scaled + u - x
        path.append(Exact(tuple(x), tuple(u), tuple(scaled), second - first))
    return path


def kink(points: Any, sign: float, centre: float = 0.0, cost: Any = 0.0) -> Tiny:
    r"""$g(u) = \pm\lvert u - z \rvert$ in one variable, the smallest ReLU networks: two neurons, slopes $\pm 1$.

    >>> kink([[0]], sign=-1.0).run(rho=10.0, steps=3).u.ravel()
    array([ 0.1, -0.2,  0.2])
    """

    def u_step(v: np.ndarray, rho: float) -> np.ndarray:
        away = np.where(v >= centre, 1.0, -1.0)
        if sign < 0:  # the global minimiser lies beyond v, on its own side of the kink
            return v + away / rho
        return centre + away * np.maximum(np.abs(v - centre) - 1 / rho, 0.0)

    return Tiny(
        points,
        cost,
        g=lambda u: float(sign * np.abs(u - centre).sum()),
        gradient=lambda u: sign * np.where(u >= centre, 1.0, -1.0),
        u_step=u_step,
    )

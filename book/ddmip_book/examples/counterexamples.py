"""Small problems on which a hypothesis of a convergence theorem fails, and the steps that show it
exactly.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from .tiny import Tiny

Projection = Callable[[np.ndarray], np.ndarray]
SQUARE = tuple(itertools.product((0, 1), repeat=2))


def constrained(
    points: Any,
    project: Projection,
    cost: Any = 0.0,
    slope: Any = 0.0,
    curvature: float = 0.0,
    centre: Any = 0.0,
) -> Tiny:
    r"""$g(u) = s^\top u + \tfrac{a}{2}\lVert u - z \rVert^2$ on a set $C$ given by its projection;
    exact steps.

    The NN block minimises a multiple of $\lVert u - w \rVert^2$ over $C$, so it is the projection
    of $w$.

    >>> wall = constrained([[0], [1]], lambda w: np.minimum(w, 0.0), slope=-1.0)
    >>> wall.u_step(np.array([-3.0]), 1.0)
    array([-2.])
    """
    s = np.asarray(slope, dtype=float)
    z = np.asarray(centre, dtype=float)
    return Tiny(
        points,
        cost,
        g=lambda u: float(np.sum(s * u) + curvature / 2 * np.sum((u - z) ** 2)),
        gradient=lambda u: s + curvature * (u - z),
        u_step=lambda v, rho: project((curvature * z + rho * v - s) / (curvature + rho)),
    )


def slab(normal: Any, low: Any, high: Any) -> Projection:
    r"""The projection onto $\{u : \text{low} \le a^\top u \le \text{high}\}$; exact on arrays of
    fractions.

    >>> slab((3, -1), Fraction(9, 5), Fraction(21, 10))(np.array([Fraction(0), Fraction(0)]))
    array([Fraction(27, 50), Fraction(-9, 50)], dtype=object)
    """
    a = np.asarray(normal)

    def project(w: np.ndarray) -> np.ndarray:
        level = a @ w
        return np.asarray(w + (min(max(level, low), high) - level) / (a @ a) * a)

    return project


def random_slab(rng: np.random.Generator, points: Any, half_width: float) -> Projection:
    """A `slab` of random direction whose middle passes through one of the points of the plane.

    >>> project = random_slab(np.random.default_rng(0), SQUARE, 0.2)
    >>> any(np.allclose(project(np.array(point)), point) for point in SQUARE)
    True
    """
    angle = rng.uniform(0, np.pi)
    centre = np.asarray(points)[rng.integers(len(points))]
    normal = np.array([np.cos(angle), np.sin(angle)])
    return slab(normal, normal @ centre - half_width, normal @ centre + half_width)


def three_cycle(**about_g: Any) -> Tiny:
    r"""$X = \{0,1\}^2$ and $C = \{1.8 \le 3u_1 - u_2 \le 2.1\}$, of whose points only $(1, 1)$ is
    in $X$.

    >>> three_cycle().run(rho=5.0, steps=6).x.astype(int).tolist()
    [[0, 0], [1, 0], [1, 0], [1, 0], [0, 0], [1, 0]]
    """
    return constrained(SQUARE, slab((3, -1), 1.8, 2.1), **about_g)


class RationalState(NamedTuple):
    """One iteration in fractions: the iterates, the scaled multiplier, and by how much the x-step
    was decided.
    """

    x: tuple[Fraction, ...]
    u: tuple[Fraction, ...]
    scaled: tuple[Fraction, ...]
    margin: Fraction


def rational_path(points: Any, project: Projection, steps: int) -> list[RationalState]:
    r"""Algorithm 1 for $c = 0$, $g = 0$ in exact arithmetic, written for $\lambda / \rho$: no
    $\rho$ is left.

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
        path.append(RationalState(tuple(x), tuple(u), tuple(scaled), second - first))
    return path


@dataclass(frozen=True)
class Lipschitz(Tiny):
    r"""A `Tiny` problem whose $g$ has the Lipschitz constant $G$ = ``steepness``; kinks are
    allowed.
    """

    steepness: float = 0.0


def relu_line(points: Any, weights: Any, bias: Any, outer: Any, cost: Any = 0.0) -> Lipschitz:
    r"""One input, one ReLU layer: $g(u) = \sum_i v_i\,(w_i u + b_i)_+$, with the global minimiser
    as NN step.

    Between two kinks $g$ is linear, so each piece has one candidate and the best of them is taken.

    >>> roof = relu_line([[0]], weights=[1, -1], bias=[0, 0], outer=[-1, -1])  # -|u|
    >>> np.abs(roof.run(rho=10.0, steps=3).u.ravel())
    array([0.1, 0.2, 0.2])
    """
    w, b, v = (np.asarray(value, dtype=float) for value in (weights, bias, outer))
    edges = np.concatenate([[-np.inf], np.unique(-b / w), [np.inf]])
    middles = np.concatenate([[edges[1] - 1], (edges[1:-2] + edges[2:-1]) / 2, [edges[-2] + 1]])
    slopes = ((np.outer(middles, w) + b > 0) * w) @ v

    def g(u: np.ndarray) -> float:
        return float(v @ np.maximum(w * u[0] + b, 0.0))

    def u_step(target: np.ndarray, rho: float) -> np.ndarray:
        candidates = np.clip(target - slopes / rho, edges[:-1], edges[1:])
        heights = (
            np.maximum(np.outer(candidates, w) + b, 0.0) @ v + rho / 2 * (candidates - target) ** 2
        )
        return candidates[[heights.argmin()]]

    def gradient(u: np.ndarray) -> np.ndarray:
        return slopes[[int(np.searchsorted(edges[1:-1], u[0], side="right"))]]

    return Lipschitz(points, cost, g, gradient, u_step, steepness=float(np.abs(slopes).max()))

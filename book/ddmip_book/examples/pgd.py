"""Projected gradient step by step: paths, contraction factors, and projections that need a
solver.
"""

from collections.abc import Callable
from itertools import product

import numpy as np
import piqp
from torch import nn

Map = Callable[[np.ndarray], np.ndarray]


def projected_path(
    gradient: Map, project: Map, start: np.ndarray, steps: int, eta: float
) -> np.ndarray:
    r"""The points of $u \leftarrow P(u - \eta\,\nabla\varphi(u))$, the start first.

    >>> projected_path(lambda u: u, lambda u: u, np.array([8.0]), steps=3, eta=0.5).ravel()
    array([8., 4., 2., 1.])
    """
    path = [np.asarray(start, dtype=float)]
    for _ in range(steps):
        path.append(project(path[-1] - eta * gradient(path[-1])))
    return np.array(path)


class Adam:
    r"""Adam's direction $\hat m_t / (\sqrt{\hat v_t} + \epsilon)$ with its usual constants, and the
    state it keeps.

    >>> Adam()(np.array([1e-3, -40.0])).round(4)  # the first one is the sign of the gradient
    array([ 1., -1.])
    """

    def __init__(self) -> None:
        self.t = 0
        self.mean = np.zeros(1)
        self.square = np.zeros(1)

    def __call__(self, slope: np.ndarray) -> np.ndarray:
        self.t += 1
        self.mean = 0.9 * self.mean + 0.1 * slope
        self.square = 0.999 * self.square + 0.001 * slope**2
        return self.mean / (1 - 0.9**self.t) / self.scale

    @property
    def scale(self) -> np.ndarray:
        r"""$\sqrt{\hat v_t} + \epsilon$, the diagonal of the matrix $D$ that divides the mean
        slope.
        """
        return np.sqrt(self.square / (1 - 0.999**self.t)) + 1e-8


def adam_path(
    gradient: Map,
    project: Map,
    start: np.ndarray,
    steps: int,
    rate: float = 0.01,
    state: Adam | None = None,
) -> np.ndarray:
    """The points of Adam with a projection after every step; a fresh Adam unless a state is handed
    in.

    >>> adam_path(lambda u: u, lambda u: u, np.array([8.0]), steps=2, rate=0.5).ravel().round(2)
    array([8. , 7.5, 7. ])
    """
    direction = Adam() if state is None else state
    return projected_path(lambda u: direction(gradient(u)), project, start, steps, rate)


def contraction_factor(eta: float | np.ndarray, least: float, most: float) -> np.ndarray:
    r"""$\max(|1 - \eta\alpha|, |1 - \eta\beta|)$ for curvature between $\alpha$ (`least`) and
    $\beta$ (`most`).

    >>> contraction_factor(0.1, least=6.0, most=14.0).round(6)
    np.float64(0.4)
    """
    return np.maximum(np.abs(1 - np.asarray(eta) * least), np.abs(1 - np.asarray(eta) * most))


def qp_project(
    v: np.ndarray, rows: np.ndarray, upper: np.ndarray, low: float = -1e30, high: float = 1e30
) -> np.ndarray | None:
    """The point of {w : rows w <= upper, low <= w <= high} nearest to v, by PIQP; None where the
    set is empty.

    >>> qp_project(np.array([2.0, 2.0]), np.array([[1.0, 2.0]]), np.array([1.0])).round(6) + 0.0
    array([1., 0.])
    """
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-11
    bounds = np.full(v.size, low), np.full(v.size, high)
    solver.setup(np.eye(v.size), -v, None, None, rows, np.full(len(rows), -1e30), upper, *bounds)
    return solver.result.x.copy() if solver.solve() == piqp.PIQP_SOLVED else None


def project_below(
    v: np.ndarray, net: nn.Sequential, limit: float, low: float, high: float
) -> np.ndarray:
    r"""The point of $\{u \in [low, high]^p : f(u) \le limit\}$ nearest to v, for a net with one
    hidden ReLU layer.

    Each on/off pattern of the h units has its own polyhedron, on which f is affine: $2^h$
    projections.

    >>> from ddmip_lib.problems import hand_sized_net
    >>> (
    ...     project_below(
    ...         np.array([0.0, 0.0]), hand_sized_net(), limit=1.0, low=0.0, high=1.0
    ...     ).round(3)
    ...     + 0.0
    ... )
    array([0.  , 0.25])
    """
    weights = [weight.detach().numpy() for weight in net.parameters()]
    w, b, a, c = weights
    best = np.inf
    nearest = None
    for on in product((0.0, 1.0), repeat=len(b)):
        sign = 1 - 2 * np.array(on)  # a unit that is on has w'u + b >= 0
        active = a[0] * np.array(on)
        rows = np.vstack([sign[:, None] * w, active @ w])
        point = qp_project(v, rows, np.append(-sign * b, limit - c[0] - active @ b), low, high)
        if point is not None and np.linalg.norm(point - v) < best:
            best = float(np.linalg.norm(point - v))
            nearest = point
    if nearest is None:
        raise ValueError(f"no point of the box has f(u) <= {limit}. To fix this, raise the limit.")
    return nearest

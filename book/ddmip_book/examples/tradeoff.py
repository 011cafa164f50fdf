"""Random small networks over listed binary decisions, for measuring what a penalty buys and what it
costs.
"""

import itertools

import numpy as np

from .tiny import Tiny


def tanh_problem(seed: int, inputs: int = 8, hidden: int = 14, most: int = 5) -> tuple[Tiny, float]:
    r"""A random problem with $g(u) = w^\top \tanh(Wu + b)$ over binary $x$ with at most `most`
    ones, and a bound on the Lipschitz constant of $\nabla g$: $\tfrac{4}{3\sqrt3}\lVert W^\top
    \mathrm{diag}\lvert w\rvert\, W\rVert$.

    The u-step is Newton's method; above that bound its answer is the minimiser, below it the better
    of what is found from $v$ and from the middle of the cube.

    >>> problem, ell = tanh_problem(seed=0)
    >>> problem.points.shape, ell > 0
    ((219, 8), True)
    """
    random = np.random.default_rng(seed)
    matrix = 0.5 * random.standard_normal((hidden, inputs))
    shift = random.standard_normal(hidden)
    weight = random.standard_normal(hidden)
    cost = 0.3 * random.standard_normal(inputs)
    points = [x for x in itertools.product((0.0, 1.0), repeat=inputs) if sum(x) <= most]
    ell = 4 / (3 * np.sqrt(3)) * np.linalg.norm((matrix.T * np.abs(weight)) @ matrix, 2)

    def g(u: np.ndarray) -> float:
        return float(weight @ np.tanh(matrix @ u + shift))

    def gradient(u: np.ndarray) -> np.ndarray:
        return matrix.T @ (weight * (1 - np.tanh(matrix @ u + shift) ** 2))

    def newton(u: np.ndarray, v: np.ndarray, rho: float) -> tuple[float, np.ndarray]:
        value = g(u) + rho / 2 * (u - v) @ (u - v)
        for _ in range(60):
            t = np.tanh(matrix @ u + shift)
            slope = matrix.T @ (weight * (1 - t * t)) + rho * (u - v)
            if np.abs(slope).max() < 1e-9:
                break
            bend = (matrix.T * (-2 * weight * t * (1 - t * t))) @ matrix + rho * np.eye(inputs)
            size, axes = np.linalg.eigh(bend)
            step = -axes @ ((axes.T @ slope) / np.maximum(np.abs(size), 0.1 * rho))
            length = 1.0
            while length > 1e-10:
                ahead = u + length * step
                reached = g(ahead) + rho / 2 * (ahead - v) @ (ahead - v)
                if reached <= value + 1e-4 * length * (slope @ step) + 1e-13:
                    break
                length /= 2
            else:
                break
            u = ahead
            value = reached
        return value, u

    def u_step(v: np.ndarray, rho: float) -> np.ndarray:
        starts = [v] if rho > ell else [v, np.full(inputs, 0.5)]
        return min((newton(start, v, rho) for start in starts), key=lambda found: found[0])[1]

    return Tiny(points, cost, g, gradient, u_step), float(ell)

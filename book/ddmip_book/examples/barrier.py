"""Small problems with known answers for the logarithmic barrier: polytopes, one bound, a soft
hand-sized network.
"""

import numpy as np
import piqp
import torch
from torch import Tensor, nn

from ddmip_lib.problems import hand_sized_net


def soft_hand_sized(sharpness: float = 10.0) -> nn.Sequential:
    r"""The hand-sized network with $\log(1 + e^{\beta t}) / \beta$ for each ReLU: it has second
    derivatives.

    >>> soft_hand_sized(1e3)(torch.tensor([1.0, 1.0], dtype=torch.float64)).item()
    -3.0
    """
    first, _, last = hand_sized_net()
    return nn.Sequential(first, nn.Softplus(beta=sharpness), last)


def two_dips(u: Tensor) -> Tensor:
    r"""A row made of four neurons, $h(u) = 1 - 0.8\,b(u + 1) - 1.3\,b(u - \tfrac65)$ with bumps
    $b(v) = (\tanh(4v + 2) - \tanh(4v - 2)) / 2$; only its second dip reaches below zero.

    >>> two_dips(torch.tensor([-1.0, 0.0, 1.2])).sign()
    tensor([ 1.,  1., -1.])
    """

    def bump(v: Tensor) -> Tensor:
        return (torch.tanh(4 * v + 2) - torch.tanh(4 * v - 2)) / 2

    return 1 - 0.8 * bump(u + 1) - 1.3 * bump(u - 1.2)


def nearest_in_polytope(a: np.ndarray, b: np.ndarray, z: np.ndarray) -> np.ndarray:
    r"""The point of $\{u : Au \le b\}$ nearest to $z$, by a QP solver.

    >>> nearest_in_polytope(np.array([[1.0, 0.0]]), np.array([0.5]), np.array([2.0, 3.0])).round(6)
    array([0.5, 3. ])
    """
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-13
    solver.setup(np.eye(len(z)), -z, None, None, a, None, b)
    solver.solve()
    return np.array(solver.result.x)


def polytope_barrier(
    a: np.ndarray, b: np.ndarray, z: np.ndarray, rho: float, mu: float, u: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    r"""$\Phi_\mu(u) = \tfrac{\rho}{2}\lVert u - z \rVert^2 - \mu \sum_j \log(b_j - a_j^\top u)$,
    gradient, Hessian.

    >>> polytope_barrier(np.eye(1), np.ones(1), np.zeros(1), 1.0, 0.5, np.zeros(1))
    (0.0, array([0.5]), array([[1.5]]))
    """
    slack = b - a @ u
    if slack.min() <= 0:
        return np.inf, np.full_like(u, np.nan), np.full((len(u), len(u)), np.nan)
    value = rho / 2 * (u - z) @ (u - z) - mu * np.log(slack).sum()
    bend = rho * np.eye(len(u)) + mu * (a.T / slack**2) @ a
    return float(value), rho * (u - z) + mu * a.T @ (1 / slack), bend


def central_point(
    a: np.ndarray, b: np.ndarray, z: np.ndarray, rho: float, mu: float, u: np.ndarray
) -> np.ndarray:
    r"""The minimiser $u_\mu$ of `polytope_barrier`, by damped Newton steps from a strictly feasible
    $u$.

    >>> central_point(np.eye(1), np.zeros(1), np.zeros(1), 2.0, 0.5, -np.ones(1)).round(
    ...     6
    ... )  # -sqrt(mu / rho)
    array([-0.5])
    """
    for _ in range(200):
        value, slope, bend = polytope_barrier(a, b, z, rho, mu, u)
        step = np.linalg.solve(bend, -slope)
        promise = -slope @ step
        length = 1.0
        if promise <= 1e-12 * mu:
            return u + step if polytope_barrier(a, b, z, rho, mu, u + step)[0] < np.inf else u
        while (
            polytope_barrier(a, b, z, rho, mu, u + length * step)[0]
            > value - 0.25 * length * promise
        ):
            length /= 2
            if length < 1e-12:  # rounding: nothing left to gain
                return u
        u = u + length * step
    return u


def crowded_corner(
    active: int, p: int, seed: int = 0, idle: int = 10
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Rows $Au \le b$ and a target $z$ whose nearest point is 0, with `active` rows through 0 and
    `idle` others.

    >>> a, b, z = crowded_corner(active=3, p=8)
    >>> bool(np.abs(nearest_in_polytope(a, b, z)).max() < 1e-6), int((b == 0).sum())
    (True, 3)
    """
    random = np.random.default_rng(seed)
    a = random.normal(size=(active + idle, p))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    b = np.concatenate([np.zeros(active), np.ones(idle)])
    return a, b, a[:active].T @ random.uniform(0.5, 2.0, active)


def bound_step(v: float, rho: float, mu: float) -> float:
    r"""The minimiser over $u < 0$ of $\tfrac{\rho}{2}(u - v)^2 - \mu \log(-u)$, the negative root
    of $\rho u^2 - \rho v u - \mu = 0$, without cancellation.

    >>> bound_step(0.0, rho=1.0, mu=0.25)
    -0.5
    """
    root = np.sqrt(v * v + 4 * mu / rho)
    return float((v - root) / 2 if v <= 0 else -2 * mu / rho / (v + root))

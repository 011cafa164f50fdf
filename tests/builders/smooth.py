"""Smooth networks with known curvature, and runs of Algorithm 1 on them with nearly exact
NN steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from ddmip_lib import PGD, DualDecomposition, Fixed, Trace
from tests.builders.instances import Built, build

WIDE = 25


class Quadratic(nn.Module):
    """(u - a)' H (u - a) / 2"""

    def __init__(self, h: np.ndarray, a: np.ndarray) -> None:
        super().__init__()
        self.register_buffer("h", torch.tensor(h))
        self.register_buffer("a", torch.tensor(a))

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        d = u - self.a
        return 0.5 * ((d @ self.h) * d).sum(1, keepdim=True)


class Ridge(nn.Module):
    """sum_i v_i activation(w_i'u + b_i)"""

    def __init__(self, activation: nn.Module, w: np.ndarray, b: np.ndarray, v: np.ndarray) -> None:
        super().__init__()
        self.activation = activation
        for name, value in (("w", w), ("b", b), ("v", v)):
            self.register_buffer(name, torch.tensor(value))

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        return self.activation(u @ self.w.T + self.b) @ self.v[:, None]


class Cosine(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("one", torch.ones(1, dtype=torch.float64))

    def forward(self, u: torch.Tensor) -> torch.Tensor:
        return self.one * torch.cos(u)


@dataclass
class Smooth:
    """A network with curvature in [-m, L]."""

    net: nn.Module
    upper: float
    lower: float

    @property
    def threshold(self) -> float:
        return max(self.upper, 2 * self.lower)

    def delta(self, rho: float) -> float:
        """Lemma 2's constant of decrease."""
        m = self.lower
        big = self.upper
        return min((rho - 2 * m) * (rho + m), (rho - big) * (rho + 2 * big)) / (2 * rho)

    def slope_left(self, rho: float, value: float) -> float:
        r"""How far from zero an NN step of `exact` may leave the slope of $\varphi$, whose value
        there is `value`.

        `PGD` keeps the least value that it saw, and values are rounded: $\varphi(u) - \min\varphi
        \le \nu$ with $\nu$ some machine epsilons, and so $\lVert\nabla\varphi(u)\rVert \le \sqrt{2
        (\rho + L) \nu}$.
        """
        noise = 50 * np.finfo(float).eps * max(1.0, abs(value))
        return float(np.sqrt(2 * (rho + self.upper) * noise))


def smooth(kind: str, p: int, seed: int) -> Smooth:
    rng = np.random.default_rng(seed)
    if kind == "quadratic":
        q, _ = np.linalg.qr(rng.normal(size=(p, p)))
        spectrum = np.append(rng.uniform(0.0, 1.0, p - 1), 1.5)
        return Smooth(Quadratic(q * spectrum @ q.T, rng.uniform(-2, 2, p)), 1.5, 0.0)
    w = rng.normal(size=(5, p))
    b = rng.normal(size=5)
    v = rng.normal(size=5)
    if kind == "softplus":
        # input-convex: nonnegative weights on convex ridges; softplus'' <= 1/4
        v = np.abs(v)
        return Smooth(Ridge(nn.Softplus(), w, b, v), 0.25 * np.linalg.norm(w.T * v @ w, 2), 0.0)
    # |tanh''| <= 4 / (3 sqrt 3)
    bound = 4 / (3 * np.sqrt(3)) * np.linalg.norm(w.T * np.abs(v) @ w, 2)
    return Smooth(Ridge(nn.Tanh(), w, b, v), bound, bound)


def restricted(
    net: nn.Module, p: int, low: int, high: int, cost: np.ndarray | None = None
) -> Built:
    """Integer inputs whose box is far wider than the rows low <= x <= high: the NN block sees no
    bound.
    """
    built = build(net, p, vtype="I", low=-WIDE, high=WIDE, cost=cost)
    for v in built.x.flat:
        built.model.addCons(v >= low)
        built.model.addCons(v <= high)
    return built


def exact(
    rho: float, trace: Trace | None = None, tolerance: float = 1e-7, **options: object
) -> DualDecomposition:
    settings = {
        "max_iterations": 300,
        "primal_tolerance": tolerance,
        "dual_tolerance": tolerance,
    } | options
    block = PGD(steps=300, tolerance=1e-12)
    return DualDecomposition(block, Fixed(rho), callback=trace, **settings)  # type: ignore[arg-type]

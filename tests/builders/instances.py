"""Small problems for the tests, with answers computed apart from the library: plain numpy and
enumeration.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pyscipopt import Model
from torch import nn

from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import NeuralMIP
from tests.builders.networks import linear

torch.set_num_threads(1)


@dataclass
class Built:
    """A problem with one predictor, and the variables it was made of."""

    model: Model
    x: Any
    y: Any
    problem: NeuralMIP


def build(
    net: nn.Module,
    p: int,
    n: int = 1,
    vtype: str = "C",
    low: float = 0.0,
    high: float = 1.0,
    output: str = "regression",
    sense: str = "minimize",
    cost: np.ndarray | None = None,
) -> Built:
    """min (or max) cost'x + sum of outputs over n rows of p inputs in [low, high]; no rows yet."""
    model = Model()
    model.hideOutput()
    x = model.addMatrixVar((n, p), vtype=vtype, lb=low, ub=high, name="x")
    q = net(torch.zeros(2, p, dtype=next(iter([*net.parameters(), *net.buffers()])).dtype)).shape[1]
    binary = output == "classification"
    y = model.addMatrixVar((n, q), vtype="B" if binary else "C", lb=0 if binary else None, name="y")
    linear = 0 if cost is None else (x * np.broadcast_to(cost, (n, p))).sum()
    model.setObjective(y.sum() + linear, sense)
    problem = NeuralMIP(model)
    problem.add_predictor(net.eval(), x, y, output=output)
    return Built(model, x, y, problem)


def relu_net(
    p: int, width: int = 6, q: int = 1, seed: int = 0, scale: float = 1.0
) -> nn.Sequential:
    """A random one-hidden-layer ReLU network in float64."""
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(p, width), nn.ReLU(), nn.Linear(width, q)).double().eval()
    with torch.no_grad():
        for weight in net.parameters():
            weight.copy_(scale * torch.randn(weight.shape, dtype=torch.float64))
    return net


def forward(net: nn.Sequential, x: np.ndarray) -> np.ndarray:
    """The same network in plain numpy."""
    first = net[0]
    last = net[2]
    hidden = np.maximum(x @ first.weight.detach().numpy().T + first.bias.detach().numpy(), 0.0)
    return hidden @ last.weight.detach().numpy().T + last.bias.detach().numpy()


def lattice(low: int, high: int, p: int) -> np.ndarray:
    """All integer points of [low, high]^p."""
    return np.array(list(itertools.product(range(low, high + 1), repeat=p)), dtype=float)


def linear_water(n: int = 6) -> NeuralMIP:
    """Water Potability with a linear logit: features 0, 2, ... help and the others harm; both
    directions are used.
    """
    return water_potability(n=n, net=linear(*((-1.0) ** j for j in range(9)), bias=-1.0), seed=42)


@dataclass
class Tiny:
    r"""A random instance with few input points: one row of integer inputs, a classifier or a
    regression, and

    $$\min\ c^\top x + e\,t + d^\top y \quad\text{s.t.}\quad A x \le b,\quad t \ge h^\top x - s,\quad 0 \le t \le T,$$

    written as a maximisation of the negative where `maximise` says so.
    """

    net: nn.Sequential
    points: np.ndarray
    kind: str
    a: np.ndarray
    b: np.ndarray
    c: np.ndarray
    d: np.ndarray
    h: np.ndarray
    s: float
    e: float
    t_max: float
    maximise: bool
    problem: NeuralMIP

    @property
    def sign(self) -> float:
        return -1.0 if self.maximise else 1.0

    def outputs(self, x: np.ndarray) -> np.ndarray:
        raw = forward(self.net, x)
        return (raw > 0).astype(float) if self.kind == "classification" else raw

    def feasible_inputs(self) -> np.ndarray:
        """Which points satisfy the rows, with the best t."""
        return (self.points @ self.a.T <= self.b + 1e-9).all(axis=1) & (
            self.best_t() <= self.t_max + 1e-9
        )

    def best_t(self) -> np.ndarray:
        return np.maximum(0.0, self.points @ self.h - self.s)

    def values(self, t: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Objective of the user's model at every point."""
        return self.sign * (self.points @ self.c + self.e * t + y @ self.d)

    def optimum(self) -> float | None:
        """By enumeration; None where no point is feasible."""
        ok = self.feasible_inputs()
        if not ok.any():
            return None
        values = self.values(self.best_t(), self.outputs(self.points))[ok]
        return float(values.max() if self.maximise else values.min())


def tiny(seed: int) -> Tiny:
    """A random `Tiny`: binary or integer inputs (also negative), at most 2^10 points."""
    rng = np.random.default_rng(seed)
    binary = bool(rng.integers(2))
    p = int(rng.integers(3, 9)) if binary else int(rng.integers(2, 5))
    low, high = (0, 1) if binary else (int(rng.integers(-3, 1)), int(rng.integers(1, 3)))
    kind = "classification" if rng.integers(2) else "regression"
    q = int(rng.integers(1, 4))
    net = relu_net(p, width=6, q=q, seed=seed, scale=1.0 / np.sqrt(p))
    points = lattice(low, high, p)
    centre = points[rng.integers(len(points))]
    a = rng.normal(size=(2, p)).round(2)
    b = (a @ centre + rng.random(2)).round(2)
    c = 0.3 * rng.normal(size=p)
    d = rng.normal(size=q)
    h = rng.normal(size=p).round(2)
    e = float(rng.random() + 0.1)
    t_max = 2.0
    s = float(np.round(h @ centre - rng.uniform(0.0, 1.5), 2))
    maximise = bool(rng.integers(2))

    model = Model()
    model.hideOutput()
    # continuous before integer on purpose: SCIP lists variables by type
    t = model.addVar("t", lb=0.0, ub=t_max)
    vtype = "B" if binary else "I"
    x = model.addMatrixVar((1, p), vtype=vtype, lb=low, ub=high, name="x")
    y = model.addMatrixVar(
        (1, q), vtype="B" if kind == "classification" else "C", lb=None, name="y"
    )
    for row, side in zip(a, b, strict=True):
        model.addCons((x[0] * row).sum() <= side)
    model.addCons(t - (x[0] * h).sum() >= -s)
    sign = -1.0 if maximise else 1.0
    objective = sign * ((x[0] * c).sum() + e * t + (y[0] * d).sum())
    model.setObjective(objective, "maximize" if maximise else "minimize")
    problem = NeuralMIP(model)
    problem.add_predictor(net, x, y, output=kind)
    return Tiny(net, points, kind, a, b, c, d, h, s, e, t_max, maximise, problem)


def knapsack(seed=0, sense="maximize"):
    """Six binaries under a knapsack row, a continuous side variable, a network's value in the
    objective: 2^6 points.
    """
    net = mlp(2, 6, 6, seed=seed)
    rng = np.random.default_rng(seed)
    weight = rng.integers(1, 6, 6)
    cost = rng.normal(size=6) * 0.1
    m = Model()
    x = m.addMatrixVar((1, 6), vtype="B", name="x")
    y = m.addMatrixVar((1, 1), lb=None, name="y")
    spare = m.addVar("spare", lb=0, ub=4)
    m.addCons((x[0] * weight).sum() + spare <= 10, name="capacity")
    m.setObjective((x[0] * cost).sum() + y[0, 0] + 0.05 * spare, sense)
    problem = NeuralMIP(m, "knapsack")
    problem.add_predictor(net, x, y)
    values = []
    for p in lattice(0, 1, 6):
        if p @ weight > 10:
            continue
        with torch.no_grad():
            value = net.double()(torch.tensor(p[None])).item() + cost @ p
        if sense == "maximize":
            value += 0.05 * min(4.0, 10 - p @ weight)
        values.append(value)
    return problem, (max if sense == "maximize" else min)(values)

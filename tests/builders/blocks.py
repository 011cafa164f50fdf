"""Problems made of blocks that share capacities, with optima computed apart from the library."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from pyscipopt import Model
from torch import nn

from ddmip_book.networks import mlp
from ddmip_book.problems import tree_planting
from ddmip_lib import NeuralMIP
from ddmip_lib.pricing import Blocks, Mode
from tests.builders.instances import forward, relu_net


@dataclass
class Own:
    r"""A user's own blocks, one input each: $\max\ \omega \sum_i v_i$ (or $\min$ of the negative,
    with an offset) under $\sum_i (x_i - w_i)^+ + 2 (w_i - x_i)^+ \le R$, with $v_i = \min(f(x_i),
    h)$ or the class.
    """

    net: nn.Sequential
    w: np.ndarray
    capacity: float
    kind: str
    worth: float
    cap: float
    offset: float
    minimise: bool
    optional: bool

    def problem(self) -> NeuralMIP:
        n = len(self.w)
        model = Model()
        model.hideOutput()
        w = self.w[:, None]
        large = 100.0
        x = model.addMatrixVar((n, 1), lb=w - 1.5, ub=w + 1.5, name="x")
        a, b = (model.addMatrixVar((n, 1), ub=3.0) for _ in range(2))
        model.addMatrixCons(x - a + b == w)
        model.addCons((a + 2 * b).sum() <= self.capacity)
        classes = self.kind == "classification"
        y = model.addMatrixVar(
            (n, 1), vtype="B" if classes else "C", lb=0 if classes else None, name="y"
        )
        counted = y
        if not classes:
            counted = model.addMatrixVar((n, 1), lb=None, ub=min(self.cap, large), name="counted")
            off = model.addMatrixVar((n, 1), vtype="B", ub=float(self.optional), name="off")
            model.addMatrixCons(counted - large * off <= y)
            model.addMatrixCons(counted + large * off <= large)
        sign = -1.0 if self.minimise else 1.0
        model.setObjective(
            sign * self.worth * counted.sum() + self.offset,
            "minimize" if self.minimise else "maximize",
        )
        problem = NeuralMIP(model)
        each = np.arange(n)
        one = np.eye(1)
        problem.add_predictor(self.net, x, y, output=self.kind)
        use = (one, 2 * one, np.zeros((n, 1)), np.zeros(1))
        mode = Mode(each, each, w - 1.5, w + 1.5, w, *use, worth=self.worth, cap=self.cap)
        problem.set_blocks(Blocks([mode], [self.capacity], self.optional))
        return problem

    def objective(self, value: float) -> float:
        return self.offset - value if self.minimise else self.offset + value

    def _f(self, u: np.ndarray) -> np.ndarray:
        return forward(self.net, np.reshape(u, (-1, 1)))[:, 0]

    def _points(self, w: float) -> np.ndarray:
        """Where a piecewise linear f can have its best point: kinks, ends, the base, crossings of 0
        or of h.
        """
        first = self.net[0]
        kinks = (-first.bias / first.weight[:, 0]).detach().numpy()
        u = np.unique(np.clip(np.concatenate([kinks, [w - 1.5, w, w + 1.5]]), w - 1.5, w + 1.5))
        g = self._f(u) - (0.0 if self.kind == "classification" else min(self.cap, 1e9))
        cross = np.flatnonzero(g[:-1] * g[1:] < 0)
        return np.concatenate(
            [u, u[cross] - g[cross] * (u[cross + 1] - u[cross]) / (g[cross + 1] - g[cross])]
        )

    def _value(self, u: np.ndarray) -> np.ndarray:
        f = self._f(u)
        return self.worth * (
            (f >= -1e-9).astype(float) if self.kind == "classification" else np.minimum(f, self.cap)
        )

    def optimum(self) -> float:
        """At most one block of an optimal vertex lies between such points: there it uses all that
        is left.
        """
        table = []
        for w in self.w:
            u = self._points(w)
            rows = list(
                zip(np.maximum(u - w, 0) + 2 * np.maximum(w - u, 0), self._value(u), strict=True)
            )
            table.append(rows + [(0.0, 0.0)] * self.optional)
        best = -np.inf
        for last, w in enumerate(self.w):
            for others in itertools.product(*(rows for i, rows in enumerate(table) if i != last)):
                left = self.capacity - sum(use for use, _ in others)
                if left < -1e-12:
                    continue
                ends = np.clip([w + left, w - left / 2], w - 1.5, w + 1.5)
                own = [value for use, value in table[last] if use <= left + 1e-12]
                best = max(
                    best, sum(value for _, value in others) + max([*own, *self._value(ends)])
                )
        return self.objective(best)


def own(seed: int, kind: str, minimise: bool = False, optional: bool = True) -> Own:
    draw = np.random.default_rng(seed)
    net = relu_net(1, width=4, seed=seed)
    worth = draw.uniform(0.2, 5)
    cap = draw.uniform(0.2, 2) if draw.integers(2) and kind == "regression" else np.inf
    w = draw.normal(size=draw.integers(1, 4))
    capacity = draw.uniform(0.1, 2.0)
    return Own(net, w, capacity, kind, worth, cap, draw.normal(), minimise, optional)


def trees(grid: int, seed: int) -> NeuralMIP:
    """Tree Planting with random networks whose survivals lie around a half."""
    nets = [mlp(2, 8, 7, seed=10 * seed + k) for k in range(4)]
    for net in nets:
        nn.init.constant_(net[-1].bias, 0.5)
    return tree_planting(grid=grid, nets=nets, seed=seed)


def grid(lower: np.ndarray, upper: np.ndarray, base: np.ndarray, size: int = 700) -> np.ndarray:
    """Points of a box: a fine grid with its corners, and the base point's coordinates."""
    count = max(2, int(size ** (1 / len(base))))
    ticks = [
        np.unique([*np.linspace(a, b, count), w])
        for a, b, w in zip(lower, upper, base, strict=True)
    ]
    return np.array(list(itertools.product(*ticks)))


def random_mode(draw: np.random.Generator, n: int, p: int, m: int, **fields: object) -> Mode:
    """n blocks of p inputs that share m capacities, each in a box of its own, some of whose sides
    are empty.
    """
    base = draw.normal(size=(n, p))
    wide = draw.random((2, n, p)) * (draw.random((2, n, p)) < 0.85) * 1.5
    return Mode(
        block=np.arange(n),
        row=np.arange(n),
        lower=base - wide[0],
        upper=base + wide[1],
        base=base,
        up=draw.random((p, m)) * (draw.random((p, m)) < 0.8),
        down=draw.random((p, m)),
        fixed=draw.choice([0.0, 1.0]) * draw.uniform(-0.2, 0.5, (n, m)),
        per_value=-draw.choice([0.0, 1.0], m) * draw.random(m),
        **fields,
    )

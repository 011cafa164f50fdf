"""Random problems with at most 4,096 input points, and their optimum by looking at all of them."""

import itertools
from typing import NamedTuple

import numpy as np
from torch import nn

from ddmip_lib.model.problem import NeuralMIP
from .parts import drawn, mlp, new_model, said, weighted

MOST = 4096
BOXES = ((0, 1), (0, 2), (-1, 1), (0, 3), (-2, 2), (-1, 4))
"""Values that all inputs of a problem take, from the first to the last."""


class Tiny(NamedTuple):
    """A random problem, with all that is needed to look at each of its points without the
    library.
    """

    problem: NeuralMIP
    points: np.ndarray
    """All input points of the box."""
    outputs: np.ndarray
    """What the networks say at each of them: classes are 0 or 1."""
    feasible: np.ndarray
    objective: np.ndarray
    maximise: bool

    @property
    def optimum(self) -> float | None:
        """The best objective of all points that keep the rows; None where there is none."""
        kept = self.objective[self.feasible]
        if not len(kept):
            return None
        return float(kept.max() if self.maximise else kept.min())


def tiny(seed: int = 0) -> Tiny:
    """A random problem: binaries or whole numbers, one or two networks, classes or values, rows on
    both.

    >>> found = tiny(0)
    >>> len(found.points) <= MOST, found.feasible.any()
    (True, np.True_)
    """
    rng = np.random.default_rng([12, seed])
    low, high = BOXES[rng.integers(len(BOXES))]
    n = int(rng.integers(3, int(np.log(MOST) / np.log(high - low + 1)) + 1))
    count = int(rng.integers(1, 3))
    classes = bool(rng.integers(2))
    activation: type[nn.Module] = (nn.ReLU, nn.ReLU, nn.Tanh)[rng.integers(3)]
    nets = [drawn(mlp([n, 8, 8, 2], activation), rng, 1.5) for _ in range(count)]
    points = np.array(list(itertools.product(range(low, high + 1), repeat=n)), dtype=float)
    raw = [said(net, points) for net in nets]
    outputs = np.hstack([(r > 0).astype(float) if classes else r for r in raw])
    a = rng.integers(-3, 5, (2, n)).astype(float)
    b = rng.normal(size=(0 if classes else 1, outputs.shape[1]))
    centre = int(rng.integers(len(points)))
    side = a @ points[centre] + rng.integers(0, 3, 2)
    limit = (b @ outputs.T).T[centre] + 0.2
    cost = rng.normal(0, 0.5, n)
    worth = rng.normal(0, 1, outputs.shape[1])
    maximise = bool(rng.integers(2))

    m = new_model("tiny")
    x = m.addMatrixVar((1, n), vtype="I", lb=low, ub=high, name="x")
    y = [
        m.addMatrixVar(
            (1, 2), vtype="B" if classes else "C", lb=0 if classes else None, name=f"y{k}"
        )
        for k in range(count)
    ]
    every = np.concatenate([np.ravel(np.asarray(each, dtype=object)) for each in y])
    for row, most in zip(a, side, strict=True):
        m.addCons(weighted(row, x) <= float(most))
    for row, most in zip(b, limit, strict=True):
        m.addCons(weighted(row, every) <= float(most))
    m.setObjective(
        weighted(cost, x) + weighted(worth, every), "maximize" if maximise else "minimize"
    )
    problem = NeuralMIP(m, "tiny")
    for net, output in zip(nets, y, strict=True):
        problem.add_predictor(net, x, output, output="classification" if classes else "regression")
    slack = 1e-9
    feasible = (points @ a.T <= side + slack).all(axis=1) & (outputs @ b.T <= limit + slack).all(
        axis=1
    )
    return Tiny(problem, points, outputs, feasible, points @ cost + outputs @ worth, maximise)


def tiny_problem(seed: int = 0) -> NeuralMIP:
    """The problem of `tiny` alone."""
    return tiny(seed).problem

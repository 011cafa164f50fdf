"""Random problems with at most 4,096 input points, and their optimum by looking at all of them."""

import itertools
from typing import Any, NamedTuple

import numpy as np
from torch import nn

from ddmip_lib import NeuralMIP
from .parts import drawn, mlp, new_model, said, weighted

MOST = 4096
SLACK = 1e-9
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
    """Outputs of the networks at each of them: classes are 0 or 1."""
    feasible: np.ndarray
    objective: np.ndarray
    maximise: bool

    @property
    def optimum(self) -> float | None:
        """The best objective of all points that are feasible; None where there is none."""
        kept = self.objective[self.feasible]
        if not len(kept):
            return None
        return float(kept.max() if self.maximise else kept.min())


class Terms(NamedTuple):
    r"""Constraints $Ax \le s$ and $By \le t$, and the objective $c^\top x + d^\top y$."""

    a: np.ndarray
    side: np.ndarray
    b: np.ndarray
    limit: np.ndarray
    cost: np.ndarray
    worth: np.ndarray
    maximise: bool

    @classmethod
    def draw(
        cls, rng: np.random.Generator, points: np.ndarray, outputs: np.ndarray, classes: bool
    ) -> "Terms":
        """Constraints that a random one of the points satisfies; on outputs only if they are no
        classes.
        """
        a = rng.integers(-3, 5, (2, points.shape[1])).astype(float)
        b = rng.normal(size=(0 if classes else 1, outputs.shape[1]))
        centre = int(rng.integers(len(points)))
        side = a @ points[centre] + rng.integers(0, 3, 2)
        limit = (b @ outputs.T).T[centre] + 0.2
        cost = rng.normal(0, 0.5, points.shape[1:])
        worth = rng.normal(0, 1, outputs.shape[1:])
        return cls(a, side, b, limit, cost, worth, bool(rng.integers(2)))

    def satisfied(self, points: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Which points satisfy all constraints."""
        on_inputs = (points @ self.a.T <= self.side + SLACK).all(axis=1)
        return on_inputs & (outputs @ self.b.T <= self.limit + SLACK).all(axis=1)


def tiny(seed: int = 0) -> Tiny:
    """A random problem: binaries or integers, one or two networks, classes or values, constraints
    on both.

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
    outputs = np.hstack([said(net, points) for net in nets])
    if classes:
        outputs = (outputs > 0).astype(float)
    terms = Terms.draw(rng, points, outputs, classes)
    objective = points @ terms.cost + outputs @ terms.worth
    problem = _written(nets, (low, high), terms, classes)
    feasible = terms.satisfied(points, outputs)
    return Tiny(problem, points, outputs, feasible, objective, terms.maximise)


def _written(nets: list[nn.Module], box: tuple[int, int], terms: Terms, classes: bool) -> NeuralMIP:
    m = new_model("tiny")
    low, high = box
    x = m.addMatrixVar((1, terms.a.shape[1]), vtype="I", lb=low, ub=high, name="x")
    kind: dict[str, Any] = {"vtype": "B", "lb": 0} if classes else {"vtype": "C", "lb": None}
    y = [m.addMatrixVar((1, 2), name=f"y{k}", **kind) for k in range(len(nets))]
    every = np.concatenate([np.ravel(np.asarray(each, dtype=object)) for each in y])
    for row, most in zip(terms.a, terms.side, strict=True):
        m.addCons(weighted(row, x) <= float(most))
    for row, most in zip(terms.b, terms.limit, strict=True):
        m.addCons(weighted(row, every) <= float(most))
    objective = weighted(terms.cost, x) + weighted(terms.worth, every)
    m.setObjective(objective, "maximize" if terms.maximise else "minimize")
    problem = NeuralMIP(m, "tiny")
    for net, output in zip(nets, y, strict=True):
        problem.add_predictor(net, x, output, output="classification" if classes else "regression")
    return problem


def tiny_problem(seed: int = 0) -> NeuralMIP:
    """The problem of `tiny` alone."""
    return tiny(seed).problem

"""Small random problems in all units: inputs, layers and outputs between 1e-spread and 1e+spread,
with their optima.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import torch
from pyscipopt import Model
from torch import nn

from ddmip_lib import NeuralMIP


@dataclass(frozen=True)
class Scaled:
    """A problem, points to compare with, and what they are worth."""

    problem: NeuralMIP
    points: (
        np.ndarray
    )  #: Full assignments, every whole-number combination and random continuous inputs.
    complete: bool  #: Whether these are all points there are.
    sign: float

    def best(self, strictly: bool) -> float | None:
        """The best cost, of a minimisation, among points that keep all rows, or that `verify`
        accepts.
        """
        s = self.problem.instance().milp
        cost = self.sign * (self.points @ s.cost + s.offset)
        left = self.points @ s.rows.T.toarray()
        size = np.abs(self.points) @ abs(s.rows).T.toarray()
        kept = ((left <= s.row_upper + 1e-15 * size) & (left >= s.row_lower - 1e-15 * size)).all(
            axis=1
        )
        for at in np.argsort(cost, kind="stable"):
            if kept[at] if strictly else self.problem.verify(self.points[at]).feasible:
                return float(cost[at])
        return None


def draw_scaled(seed: int, spread: float) -> Scaled:
    """One problem; `spread` is the largest power of ten by which a unit differs from 1."""
    rng = np.random.default_rng([seed, 7])

    def scale() -> float:
        return float(10.0 ** rng.uniform(-spread, spread))

    p = int(rng.integers(1, 4))
    continuous = bool(rng.random() < 0.35)
    widths = [p, *(int(rng.integers(2, 5)) for _ in range(int(rng.integers(1, 3)))), 1]
    units = [scale() if continuous and rng.random() < 0.7 else 1.0 for _ in range(p)]
    layers: list[nn.Module] = []
    for k, (before, after) in enumerate(itertools.pairwise(widths)):
        layer = nn.Linear(before, after).double().requires_grad_(False)
        size = scale()
        weight = rng.standard_normal((after, before)) * size
        layer.weight.copy_(torch.tensor(weight / np.array(units) if k == 0 else weight))
        layer.bias.copy_(torch.tensor(rng.standard_normal(after) * size))
        layers += [layer, nn.ReLU()]
    net = nn.Sequential(*layers[:-1]).eval()
    lower = -rng.integers(0, 3, p).astype(float)
    upper = rng.integers(1, 4, p).astype(float)
    whole = np.array([not continuous or (unit == 1.0 and rng.random() < 0.5) for unit in units])
    grid = [
        np.arange(low, high + 1)
        if is_whole
        else np.concatenate([[low, high], rng.uniform(low, high, 12)])
        for low, high, is_whole in zip(lower, upper, whole, strict=True)
    ]
    inputs = np.array(list(itertools.product(*grid))) * units
    outputs = net(torch.tensor(inputs)).numpy()
    classes = bool(rng.random() < 0.3)
    said = (outputs > 0).astype(float) if classes else outputs
    typical = 1.0 if classes else float(np.abs(outputs).max()) or 1.0
    model = Model()
    model.hideOutput()
    x = [
        model.addVar(f"x{j}", vtype="I" if is_whole else "C", lb=low * unit, ub=high * unit)
        for j, (low, high, unit, is_whole) in enumerate(
            zip(lower, upper, units, whole, strict=True)
        )
    ]
    y = model.addVar("y", vtype="B") if classes else model.addVar("y", lb=None)
    weights = rng.integers(-3, 4, p) / np.array(units)
    if rng.random() < 0.6:
        limit = float(np.median(inputs @ weights))
        model.addCons(sum(float(w) * v for w, v in zip(weights, x, strict=True)) <= limit + 0.25)
    if rng.random() < 0.4 and not classes:
        size = scale()
        model.addCons(float(size / typical) * y <= float(size * np.quantile(said / typical, 0.8)))
    cost = rng.standard_normal(p) * typical / np.array(units) * (rng.random() < 0.6)
    size = scale()
    sense = str(rng.choice(["minimize", "maximize"]))
    size = min(size, 1e15 / max(1.0, float(np.abs(cost).max())))  # beyond 1e20 SCIP reads infinity
    model.setObjective(
        size * y + sum(float(size * c) * v for c, v in zip(cost, x, strict=True)), sense
    )
    problem = NeuralMIP(model)
    problem.add_predictor(net, [x], [[y]], "classification" if classes else "regression")
    named = dict(zip([*(v.name for v in x), "y"], np.hstack([inputs, said]).T, strict=True))
    points = np.column_stack(
        [named[v.name] for v in model.getVars()]
    )  # SCIP lists whole numbers first
    return Scaled(problem, points, bool(whole.all()), 1.0 if sense == "minimize" else -1.0)

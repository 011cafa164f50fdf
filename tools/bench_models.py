"""Models on which a single step of a careless method takes seconds: for limits, callbacks and
interrupts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from pyscipopt import Model
from torch import nn

from ddmip_book.networks import load_npz
from ddmip_book.problems import water_potability
from ddmip_lib import NeuralMIP

ROOT = Path(__file__).resolve().parent.parent


def _network(widths: list[int], activation: type[nn.Module], seed: int) -> nn.Sequential:
    """A random network in double precision whose outputs vary over the unit box."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), activation()]
    return nn.Sequential(*layers[:-1]).double().eval()


def reactor(hours: int = 24) -> NeuralMIP:
    """A schedule: in each hour a tanh 24-24 network with temperature and feed as inputs, ramps
    between the hours.
    """
    rng = np.random.default_rng(0)
    model = Model()
    model.hideOutput()
    on = model.addMatrixVar(hours, vtype="B", name="on")
    temperature = model.addMatrixVar(hours, lb=0, ub=1, name="temperature")
    feed = model.addMatrixVar(hours, lb=0, ub=1, name="feed")
    reached = model.addMatrixVar((hours, 1), lb=None, name="reached")
    made = model.addMatrixVar(hours, lb=0, ub=2, name="made")
    for t in range(hours):
        model.addCons(made[t] <= 2 * on[t])
        model.addCons(made[t] <= reached[t, 0] + 1)
        if t > 0:
            model.addCons(temperature[t] - temperature[t - 1] <= 0.2)
            model.addCons(temperature[t - 1] - temperature[t] <= 0.2)
    model.addCons(made.sum() >= 0.2 * hours)
    price = rng.uniform(0.5, 1.5, hours)
    model.setObjective((price * temperature).sum() + feed.sum() + 0.3 * on.sum(), "minimize")
    problem = NeuralMIP(model, name="reactor")
    problem.add_predictor(
        _network([3, 24, 24, 1], nn.Tanh, 0), _columns(temperature, feed, 0.5), reached
    )
    return problem


def prices(products: int = 300) -> NeuralMIP:
    """One price for each product, a ReLU 32-32 network for its demand, and a limited number of
    products to offer.
    """
    rng = np.random.default_rng(1)
    model = Model()
    model.hideOutput()
    price = model.addMatrixVar(products, lb=0, ub=1, name="price")
    offered = model.addMatrixVar(products, vtype="B", name="offered")
    demand = model.addMatrixVar((products, 1), lb=None, name="demand")
    sold = model.addMatrixVar(products, lb=0, ub=3, name="sold")
    for k in range(products):
        model.addCons(sold[k] <= 3 * offered[k])
        model.addCons(sold[k] <= demand[k, 0] + 1)
    model.addCons(offered.sum() <= products // 3)
    model.setObjective((rng.uniform(0.5, 1.5, products) * sold).sum(), "maximize")
    problem = NeuralMIP(model, name="prices")
    features = [rng.random(products), rng.random(products), rng.random(products)]
    inputs = np.empty((products, 4), dtype=object)
    inputs[:, 0] = list(price)
    for column, feature in enumerate(features):
        inputs[:, column + 1] = feature
    problem.add_predictor(_network([4, 32, 32, 1], nn.ReLU, 1), inputs, demand)
    return problem


def assignments(integers: int = 6, values: int = 7) -> NeuralMIP:
    """Six integer inputs of seven values, each of a tanh network: 117,649 assignments, compared one
    by one.
    """
    model = Model()
    model.hideOutput()
    x = model.addMatrixVar((integers, 1), vtype="I", lb=0, ub=values - 1, name="x")
    y = model.addMatrixVar((integers, 1), lb=None, name="y")
    model.addCons(x.sum() >= 2 * integers)
    model.setObjective(y.sum() + 0.01 * x.sum(), "minimize")
    problem = NeuralMIP(model, name="assignments")
    problem.add_predictor(_network([1, 24, 1], nn.Tanh, 2), x, y)
    return problem


def water(n: int = 100, network: str = "water_6x128") -> NeuralMIP:
    """A hundred samples and a network of six layers of 128 units."""
    return water_potability(
        n=n, net=load_npz(ROOT / "data" / "networks" / f"{network}.npz"), seed=42
    )


def _columns(temperature: object, feed: object, age: float) -> np.ndarray:
    found = np.empty((len(temperature), 3), dtype=object)  # type: ignore[arg-type]
    found[:, 0], found[:, 1] = list(temperature), list(feed)  # type: ignore[call-overload]
    found[:, 2] = age
    return found


HEAVY: dict[str, Callable[[], NeuralMIP]] = {
    "reactor": reactor,
    "prices": prices,
    "assignments": assignments,
    "water": water,
}

"""Small models of different shape on which linearisation is measured, with best values where these
can be listed.
"""

import itertools

import numpy as np
import torch
from pyscipopt import Model
from torch import nn

from ddmip_book.networks import mlp
from ddmip_lib import NeuralMIP
from .linearise import blocked, folds, minimise

SUN = (2.5, 4.0, 5.5, 7.0)


def drawn(
    p: int, width: int, activation: nn.Module, q: int = 1, seed: int = 0, scale: float = 1.0
) -> nn.Sequential:
    """A network with one hidden layer and normal random weights, the same on every machine up to
    rounding.

    >>> drawn(3, 8, nn.Tanh(), seed=1)(torch.zeros(2, 3).double()).shape
    torch.Size([2, 1])
    """
    draw = np.random.default_rng(seed)
    net = nn.Sequential(nn.Linear(p, width), activation, nn.Linear(width, q)).double()
    with torch.no_grad():
        for weight in net.parameters():
            weight.copy_(torch.from_numpy(scale * draw.normal(size=tuple(weight.shape))))
    return net.eval()


def harvest_net(width: int = 24, seed: int = 0) -> nn.Sequential:
    """A smooth network, fitted to made-up seasons: harvest of a house by lamps, heaters and
    daylight. Its hidden layer is random; the last one is found by least squares, which takes no
    training loop.
    """
    draw = np.random.default_rng(seed)
    lamps = draw.integers(0, 7, 300)
    heaters = draw.integers(0, 5, 300)
    sun = draw.uniform(2, 8, 300)
    light = lamps + sun
    kilos = 12 - 0.12 * (light - 9) ** 2 - 0.5 * (heaters - 0.35 * light) ** 2
    net = drawn(3, width, nn.SiLU(), seed=seed, scale=0.5)
    last = net[2]
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        hidden = net[:2](torch.tensor(np.column_stack([lamps, heaters, sun]))).numpy()
        fitted = np.linalg.lstsq(np.column_stack([hidden, np.ones(len(kilos))]), kilos, rcond=1e-6)[
            0
        ]
        last.weight.copy_(torch.from_numpy(fitted[None, :-1]))
        last.bias.fill_(float(fitted[-1]))
    return net


def greenhouses() -> NeuralMIP:
    """Four houses, integer numbers of lamps and heaters, one power supply."""
    model = Model("greenhouses")
    model.hideOutput()
    x = model.addMatrixVar((4, 2), vtype="I", ub=np.array([[6, 4]] * 4), name="x")
    y = model.addMatrixVar((4, 1), lb=None, name="y")
    model.addCons(2 * x[:, 0].sum() + 3 * x[:, 1].sum() <= 30)
    model.setObjective(y.sum() - 0.1 * x[:, 0].sum() - 0.2 * x[:, 1].sum(), "maximize")
    problem = NeuralMIP(model, "greenhouses")
    problem.add_predictor(harvest_net(), np.hstack([x, np.reshape(SUN, (4, 1))]), y)
    return problem


def recipe() -> NeuralMIP:
    """Two whole and two continuous inputs, which a tanh network turns into a yield and a ReLU
    network into a class: no recipe may be sold that the second one does not call safe.
    """
    model = Model("recipe")
    model.hideOutput()
    x = [model.addVar(f"x{j}", "I" if j < 2 else "C", 0, 4 if j < 2 else 1) for j in range(4)]
    gain = model.addVar("gain", lb=None)
    safe = model.addVar("safe", "B")
    model.addCons(safe == 1)
    model.addCons(x[0] + x[1] + 2 * x[2] <= 6)
    model.setObjective(gain - 0.1 * x[3], "maximize")
    problem = NeuralMIP(model, "recipe")
    problem.add_predictor(drawn(4, 10, nn.Tanh(), seed=3), [x], [[gain]])
    problem.add_predictor(drawn(4, 8, nn.ReLU(), seed=6), [x], [[safe]], output="classification")
    return problem


def target(level: float = 0.4) -> NeuralMIP:
    """The cheapest setting of three dials at which a tanh network returns a given number."""
    model = Model("target")
    model.hideOutput()
    x = [model.addVar(f"x{j}", lb=-1, ub=1) for j in range(3)]
    y = model.addVar("y", lb=None)
    model.addCons(y == level)
    model.setObjective(x[0] + 2 * x[1] - x[2], "minimize")
    problem = NeuralMIP(model, "target")
    problem.add_predictor(drawn(3, 8, nn.Tanh(), seed=5), [x], [[y]])
    return problem


def dials(depth: int = 2, width: int = 24, count: int = 6) -> NeuralMIP:
    """Continuous dials, a deeper ReLU network, and one row: where boxes are grown."""
    net = mlp(depth, width, count, seed=2).double()
    with torch.no_grad():
        for layer in net:
            if isinstance(layer, nn.Linear):
                layer.weight *= 2.0
    return minimise(net.eval(), [-1.0] * count, [1.0] * count, cost=0.05, name="dials")


def models() -> dict[str, NeuralMIP]:
    """The models that the chapter measures, by name."""
    made = (greenhouses(), recipe(), target(), folds(), blocked())
    return {problem.name: problem for problem in made}


def best_of_grid(problem: NeuralMIP, each: int = 41) -> float | None:
    """The best objective over all integer inputs and `each` values of every continuous one, None
    where no point is feasible.

    For problems of network inputs and outputs alone; where all inputs are integer, it is the
    optimum.

    >>> from ddmip_lib.problems import hand_sized
    >>> round(best_of_grid(hand_sized()), 6)
    0.5
    """
    instance = problem.instance()
    s = instance.milp
    sides = [
        np.arange(s.lower[at], s.upper[at] + 0.5)
        if s.integer[at]
        else np.linspace(s.lower[at], s.upper[at], each)
        for at in instance.free_inputs
    ]
    points = np.array(list(itertools.product(*sides)))
    values = np.zeros((len(points), s.n_variables))
    values[:, instance.free_inputs] = points
    for predictor, m in zip(instance.predictors, instance.maps, strict=True):
        for row in range(len(m.index)):
            inputs = np.where(m.index[row] >= 0, values[:, m.index[row]], m.constant[row])
            values[:, m.output[row]] = predictor.outputs_of(predictor.raw(inputs))
    sides_of_rows = values @ s.rows.T
    kept = (sides_of_rows >= s.row_lower - 1e-9) & (sides_of_rows <= s.row_upper + 1e-9)
    feasible = kept.all(axis=1)
    costs = s.sign * (values @ s.cost)[feasible]
    return float(s.sign * costs.min() + s.offset) if feasible.any() else None

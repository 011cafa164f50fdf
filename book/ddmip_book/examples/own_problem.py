"""Data for problems unlike the two benchmarks, made up from formulas that a reader may look up, and
a shop's units.

Each generator returns what a laboratory, a kiln or a warehouse might have written down: inputs in
their own units, and outcomes with some noise. `glue_truth` is what stands behind the first of them,
and is never shown to an optimiser.
"""

import copy
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyscipopt
import torch
from torch import nn

from ddmip_lib import NeuralMIP

GLUE_LOWER = (30, 5, 60, 1, 0)
"""Resin and hardener in grams, oven in degrees Celsius, layers, primer: the least of the trials."""
GLUE_UPPER = (70, 25, 140, 5, 1)
"""The largest values of the trials."""
GLUE_PRICES = (0.04, 0.09, 0.012, 0.35, 0.6)
"""Euros for each gram, degree and layer, and for the primer."""


class Records(NamedTuple):
    """Inputs (rows, features) and outcomes (rows, outputs), in the units in which they were written
    down.
    """

    x: np.ndarray
    y: np.ndarray


def in_own_units(net: nn.Sequential, x: np.ndarray, y: np.ndarray | None = None) -> nn.Sequential:
    r"""A network that was trained on standardised columns, for columns in their own units.

    With means $m$ and deviations $s$ the first layer becomes $W \operatorname{diag}(1/s)$, $b - W
    (m / s)$, and where outputs were standardised too the last becomes $\operatorname{diag}(s_y) W$,
    $s_y b + m_y$: the layers stay as many as they were.

    >>> net = nn.Sequential(nn.Linear(2, 1)).double()
    >>> x = np.array([[0.0, 100.0], [2.0, 300.0]])
    >>> raw, scaled = torch.tensor(x[:1]), torch.tensor([[-1.0, -1.0]]).double()
    >>> bool((in_own_units(net, x)(raw) - net(scaled)).abs() < 1e-12)
    True
    """
    made = copy.deepcopy(net).double().requires_grad_(False).eval()
    linear = [layer for layer in made if isinstance(layer, nn.Linear)]
    first = linear[0]
    last = linear[-1]
    mean = torch.tensor(x.mean(axis=0))
    deviation = torch.tensor(x.std(axis=0))
    first.bias.sub_(first.weight @ (mean / deviation))
    first.weight /= deviation
    if y is not None:
        mean = torch.tensor(y.mean(axis=0))
        deviation = torch.tensor(y.std(axis=0))
        last.weight *= deviation[:, None]
        last.bias.copy_(deviation * last.bias + mean)
    return made


def learn(
    widths: Sequence[int],
    records: Records,
    activation: Callable[[], nn.Module],
    classes: bool = False,
    seed: int = 0,
) -> nn.Sequential:
    """Train on standardised columns; the network takes and returns the units of the records.

    >>> x = np.linspace(0, 9, 40)[:, None]
    >>> net = learn([1, 4, 1], Records(x, 3 * x), nn.ReLU)
    >>> bool((net(torch.tensor([[5.0]]).double()) - 15).abs() < 0.1)
    True
    """
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), activation()]
    net = nn.Sequential(*layers[:-1]).double()
    x = torch.tensor((records.x - records.x.mean(axis=0)) / records.x.std(axis=0))
    y = torch.tensor((records.y - records.y.mean(axis=0)) / records.y.std(axis=0))
    target = torch.tensor(records.y) if classes else y
    loss_function = nn.BCEWithLogitsLoss() if classes else nn.MSELoss()
    optimiser = torch.optim.LBFGS(net.parameters(), max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimiser.zero_grad()
        loss = loss_function(net(x), target)
        loss.backward()
        return loss

    optimiser.step(closure)
    return in_own_units(net, records.x, None if classes else records.y)


def relu(a: np.ndarray) -> np.ndarray:
    """The positive part of an array."""
    return np.maximum(a, 0)


def forward(
    net: nn.Sequential, samples: np.ndarray, activation: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Evaluate a network of linear layers with NumPy alone.

    >>> net = nn.Sequential(nn.Linear(2, 1)).double().requires_grad_(False)
    >>> sample = np.array([[1.0, 2.0]])
    >>> bool(np.allclose(forward(net, sample, relu), net(torch.tensor(sample)).numpy()))
    True
    """
    linear = [layer for layer in net if isinstance(layer, nn.Linear)]
    values = samples
    for layer in linear[:-1]:
        values = activation(values @ layer.weight.numpy().T + layer.bias.numpy())
    return values @ linear[-1].weight.numpy().T + linear[-1].bias.numpy()


def glue_problem(net: nn.Module, strength: float = 20.0, minutes: float = 20.0) -> NeuralMIP:
    """The cheapest glue mixture whose predicted strength and curing time satisfy two limits.

    >>> len(glue_problem(learn([5, 4, 2], glue_trials(), nn.Tanh)).predictors)
    1
    """
    model = pyscipopt.Model("glue")
    kinds = np.array([["C", "C", "C", "I", "B"]])
    lower = np.array([GLUE_LOWER])
    upper = np.array([GLUE_UPPER])
    x = model.addMatrixVar((1, 5), lb=lower, ub=upper, vtype=kinds, name="x")
    y = model.addMatrixVar((1, 2), lb=None, name="y")
    model.addCons(y[0, 0] >= strength, name="strength")
    model.addCons(y[0, 1] <= minutes, name="curing time")
    model.addCons(x[0, 0] + x[0, 1] <= 70, name="cartridge")
    model.setObjective((np.array(GLUE_PRICES) * x[0]).sum(), "minimize")
    problem = NeuralMIP(model, name="glue")
    problem.add_predictor(net, x, y)
    return problem


def glue_truth(x: np.ndarray) -> np.ndarray:
    """Strength in MPa and curing time in minutes of recipes: resin and hardener in grams, oven in
    degrees Celsius, layers, primer.
    """
    resin, hardener, oven, layers, primer = np.asarray(x, dtype=float).T
    bond = np.exp(-(((resin - 55) / 18) ** 2) - ((hardener - 14) / 8) ** 2)
    strength = (
        6
        + 14 * bond * (0.75 + 0.25 * np.tanh((oven - 95) / 20))
        + 4 * (1 - np.exp(-0.6 * layers))
        + primer
    )
    curing = 12 + 80 * np.exp(-(oven - 60) / 45) * (0.7 + 0.1 * layers) - 0.6 * (hardener - 5)
    return np.column_stack([strength, curing])


def glue_trials(n: int = 500, seed: int = 0) -> Records:
    """Trials of a laboratory that varied everything at once; strength is measured to 0.3 MPa, time
    to a minute.

    >>> glue_trials(n=3).x.shape, glue_trials(n=3).y.shape
    ((3, 5), (3, 2))
    """
    rng = np.random.default_rng(seed)
    low = np.array([30, 5, 60, 1, 0])
    high = np.array([70, 25, 140, 5, 1])
    x = rng.uniform(low, high, (n, 5))
    x[:, 3:] = rng.integers(low[3:], high[3:] + 1, (n, 2))
    return Records(x, glue_truth(x) + rng.normal(0, [0.3, 1.0], (n, 2)))


def kiln_log(n: int = 800, seed: int = 0) -> Records:
    """Firings of a kiln: kilograms of ware, of these glazed and thick-walled, the programme (0, 1,
    2), and whether all came out whole and glossy.

    >>> whole = kiln_log().y
    >>> bool(0.3 < whole.mean() < 0.7)
    True
    """
    rng = np.random.default_rng(seed)
    mass = rng.uniform(10, 100, n)
    programme = rng.integers(0, 3, n)
    glazed = mass * rng.beta(1.5, 1.5, n)
    thick = mass * rng.beta(1.2, 1.8, n)
    heat = 0.9 + 0.35 * programme - 0.006 * mass  # a full kiln is slower
    gloss = heat - 0.011 * glazed
    cracks = 0.45 * heat**2 + 0.013 * thick
    fine = np.minimum(gloss - 0.25, 0.95 - cracks) + rng.normal(0, 0.03, n) > 0
    return Records(np.column_stack([mass, glazed, thick, programme]), fine[:, None].astype(float))


def store_days(n: int = 1200, seed: int = 0) -> Records:
    """Days of a cold store: degrees Celsius inside, fans running, tonnes stored, degrees outside,
    and the tonnes that were still saleable.

    >>> days = store_days()
    >>> bool((days.y <= days.x[:, 2:3] + 1).all())
    True
    """
    rng = np.random.default_rng(seed)
    inside = rng.uniform(1, 12, n)
    fans = rng.integers(0, 4, n)
    tonnes = rng.uniform(4, 14, n)
    outside = rng.uniform(12, 34, n)
    rot = 0.04 + 0.5 / (1 + np.exp(-(inside + 0.12 * (outside - 20) - 1.6 * fans - 5) / 1.4))
    dry = 0.015 * fans * (1 + 0.05 * (outside - 12))
    kept = tonnes * (1 - rot - dry) + rng.normal(0, 0.1, n)
    return Records(np.column_stack([inside, fans, tonnes, outside]), kept[:, None])


def tile_line(n: int = 600, seed: int = 0) -> tuple[Records, Records]:
    """Two machines in a row: moisture (per cent) and pressure (MPa) to the density of a pressed
    tile, and density and kiln temperature (hundreds of degrees) to its strength.

    >>> [records.x.shape[1] for records in tile_line(n=5)]
    [2, 2]
    """
    rng = np.random.default_rng(seed)
    pressed = rng.uniform([4, 20], [8, 50], (n, 2))
    density = 1.6 + 0.5 * (1 - np.exp(-pressed[:, 1] / 25)) - 0.03 * (pressed[:, 0] - 5.5) ** 2
    fired = rng.uniform([1.6, 10.5], [2.15, 12.5], (n, 2))
    strength = 25 * (fired[:, 0] - 1.5) + 14 * np.exp(-(((fired[:, 1] - 11.6) / 0.6) ** 2))
    return (
        Records(pressed, (density + rng.normal(0, 0.01, n))[:, None]),
        Records(fired, (strength + rng.normal(0, 0.3, n))[:, None]),
    )


def press_dust(n: int = 300, seed: int = 0) -> Records:
    """What a filter weighed behind the press: moisture (per cent) and pressure in bar to grams of
    dust an hour.

    >>> bool(press_dust(n=4).x[:, 1].min() >= 200)
    True
    """
    rng = np.random.default_rng(seed)
    x = rng.uniform([4, 200], [8, 500], (n, 2))
    grams = 5 + 30 / (1 + np.exp(1.8 * (x[:, 0] - 5.5))) + 8 * np.tanh((x[:, 1] - 380) / 60)
    return Records(x, (grams + rng.normal(0, 0.5, n))[:, None])

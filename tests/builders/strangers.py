"""Thirteen kinds of models with networks of random weights, any seed: on which no method of the
library was tuned.

Layers that the benchmarks and the suite lack, inputs in odd units, whole numbers beside continuous
ones, rows on outputs, constraints that are no rows, sites that share a budget. Every instance has a
point.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from pyscipopt import Expr, Model, quicksum
from torch import Tensor, nn

from ddmip_lib import NeuralMIP


def mlp(*widths: int, act: Callable[[], nn.Module] = nn.ReLU) -> nn.Sequential:
    layers = [layer for a, b in itertools.pairwise(widths) for layer in (nn.Linear(a, b), act())]
    return nn.Sequential(*layers[:-1])


def heated(net: nn.Module, seed: int, gain: float = 1.8) -> nn.Module:
    """The network with weights large enough that it bends within its box."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in net.parameters():
            if weight.dim() > 1:
                drawn = torch.randn(weight.shape, generator=generator)
                weight.copy_(drawn * gain / np.sqrt(weight[0].numel()))
            else:
                weight.add_(0.3 * torch.randn(weight.shape, generator=generator))
    return net.eval()


def dot(weights: Iterable[float], variables: Iterable[Any]) -> Expr:
    return quicksum(float(a) * v for a, v in zip(weights, variables, strict=True))


def switched(m: Model, x: Any, on: Any, size: float = 1.0) -> None:
    """|x| is at most `size` where its switch is on, else 0."""
    for variable, switch in zip(np.ravel(x), np.ravel(on), strict=True):
        m.addCons(variable <= size * switch)
        if variable.getLbOriginal() < 0:
            m.addCons(-variable <= size * switch)


def new_model() -> Model:
    m = Model()
    m.hideOutput()
    return m


def normed(seed: int) -> NeuralMIP:
    """GELU and LayerNorm, at most six of fourteen inputs on."""
    n = 14
    m = new_model()
    body = [
        nn.Linear(n, 32),
        nn.GELU(),
        nn.LayerNorm(32),
        nn.Linear(32, 32),
        nn.GELU(),
        nn.Linear(32, 3),
    ]
    net = heated(nn.Sequential(*body), seed)
    x = m.addMatrixVar((1, n), lb=-1, ub=1)
    on = m.addMatrixVar(n, vtype="B")
    y = m.addMatrixVar((1, 3), lb=None)
    switched(m, x, on)
    m.addCons(on.sum() <= 6)
    m.addCons(y[0, 1] + y[0, 2] <= 0.5)
    m.setObjective(y[0, 0] - 0.1 * on.sum(), "maximize")
    problem = NeuralMIP(m)
    problem.add_predictor(net, x, y)
    return problem


class Residual(nn.Module):
    """BatchNorm, a way around a layer, Dropout."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.first = nn.Linear(n, 24)
        self.norm = nn.BatchNorm1d(24)
        self.middle = nn.Linear(24, 24)
        self.drop = nn.Dropout(0.3)
        self.last = nn.Linear(24, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.norm(self.first(x)))
        return self.last(self.drop(torch.relu(self.middle(h)) + h))


def balanced(seed: int) -> NeuralMIP:
    """The difference of two outputs is given; four inputs come in tenths."""
    rng = np.random.default_rng([12, seed])
    n = 8
    m = new_model()
    net = Residual(n)
    with torch.no_grad():
        net.norm.running_mean.copy_(torch.tensor(rng.normal(0, 0.5, 24)))
        net.norm.running_var.copy_(torch.tensor(rng.uniform(0.5, 3, 24)))
    heated(net, seed)
    known = rng.uniform(0, 1, (1, n))
    with torch.no_grad():
        low, high = net.double()(torch.tensor(known))[0].tolist()
    x = m.addMatrixVar((1, n), lb=0, ub=1)
    tenths = m.addMatrixVar(4, vtype="I", lb=0, ub=10)
    y = m.addMatrixVar((1, 2), lb=None)
    for j in range(4):
        m.addCons(x[0, j] == 0.1 * tenths[j])
    m.addCons(y[0, 1] - y[0, 0] == high - low)
    m.addCons(x.sum() <= float(known.sum() + 0.3))
    m.setObjective(y[0, 0] + dot(rng.uniform(0, 0.5, n), x[0]), "minimize")
    problem = NeuralMIP(m)
    problem.add_predictor(net, x, y)
    return problem


class Picture(nn.Module):
    """Two convolutions over six by six pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 6, 3, padding=1)
        self.second = nn.Conv2d(6, 6, 3, stride=2, padding=1)
        self.last = nn.Linear(54, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(
            torch.relu(self.second(torch.relu(self.first(x.view(-1, 1, 6, 6))))).flatten(1)
        )


def pixels(seed: int) -> NeuralMIP:
    """Five of the pixels of a picture may change."""
    rng = np.random.default_rng([13, seed])
    n = 36
    m = new_model()
    net = heated(Picture(), seed)
    picture = rng.uniform(0, 1, n)
    x = m.addMatrixVar((1, n), lb=0, ub=1)
    free = m.addMatrixVar(n, vtype="B")
    y = m.addMatrixVar((1, 2), lb=None)
    for j in range(n):
        m.addCons(x[0, j] - float(picture[j]) <= free[j])
        m.addCons(float(picture[j]) - x[0, j] <= free[j])
    m.addCons(free.sum() <= 5)
    m.setObjective(y[0, 0] - y[0, 1], "maximize")
    problem = NeuralMIP(m)
    problem.add_predictor(net, x, y)
    return problem


class Recurrent(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.steps = nn.GRU(width, 12, batch_first=True)
        self.last = nn.Linear(12, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.steps(x.view(x.shape[0], -1, self.width))[0]).flatten(1)


def periods(seed: int) -> NeuralMIP:
    """Six periods of a recurrent network, at most four of them active, ramps on inputs and
    outputs.
    """
    rng = np.random.default_rng([14, seed])
    count = 6
    width = 3
    m = new_model()
    net = heated(Recurrent(width), seed, 2.5)
    x = m.addMatrixVar((1, count * width), lb=0, ub=2)
    on = m.addMatrixVar(count, vtype="B")
    y = m.addMatrixVar((1, count), lb=None)
    for t in range(count):
        switched(m, x[0, t * width : (t + 1) * width], [on[t]] * width, 2.0)
        if t:
            m.addCons(x[0, t * width] - x[0, (t - 1) * width] <= 0.7)
            m.addCons(y[0, t] - y[0, t - 1] <= 1.0)
    m.addCons(on.sum() <= 4)
    m.addCons(x.sum() <= 10)
    m.setObjective(y.sum() - dot(rng.uniform(0, 0.3, count * width), x[0]), "maximize")
    problem = NeuralMIP(m)
    problem.add_predictor(net, x, y)
    return problem


def odd_units(seed: int) -> NeuralMIP:
    """Inputs in units from a ten-thousandth to ten thousand, scaled by the network's first
    layer.
    """
    rng = np.random.default_rng([15, seed])
    n = 9
    m = new_model()
    unit = 10.0 ** rng.integers(-4, 5, n)
    scale = nn.Linear(n, n).double()
    with torch.no_grad():
        scale.weight.copy_(torch.diag(torch.tensor(1 / unit)))
        scale.bias.fill_(-1.0)
    net = nn.Sequential(scale, heated(mlp(n, 24, 24, 2, act=nn.Tanh), seed, 2.0).double()).eval()
    x = [m.addVar(lb=0, ub=float(2 * each)) for each in unit]
    on = [m.addVar(vtype="B") for _ in unit]
    for j in range(n):
        m.addCons(x[j] <= float(2 * unit[j]) * on[j])
    m.addCons(quicksum(on) <= 6)
    problem = NeuralMIP(m)
    y = problem.add_predictor(net, x).outputs
    m.addCons(y[0, 1] >= 0.2)
    m.setObjective(1e3 * y[0, 0] + dot(20 / unit, x), "minimize")
    return problem


def two_networks(seed: int) -> NeuralMIP:
    """Four rows through a regression and a class that share inputs; whole effort beside them."""
    rng = np.random.default_rng([16, seed])
    n = 10
    m = new_model()
    gain = heated(mlp(n, 20, 2, act=nn.SiLU), seed, 2.2)
    passes = heated(mlp(n + 2, 20, 1), seed + 100, 2.0)
    x = m.addMatrixVar((4, n), lb=0, ub=1)
    effort = m.addMatrixVar((4, 2), vtype="I", lb=0, ub=3)
    problem = NeuralMIP(m)
    y = problem.add_predictor(gain, x).outputs
    both = np.array([[*x[i], *effort[i]] for i in range(4)], dtype=object)
    passed = problem.add_predictor(passes, both, output="classification").outputs
    m.addCons(x.sum() <= 14)
    m.addCons(passed.sum() >= 3)
    m.addCons(y[:, 1].sum() <= float(rng.uniform(0.3, 1)))
    m.addCons(effort.sum() <= 8)
    m.setObjective(y[:, 0].sum() - 0.2 * effort.sum(), "maximize")
    return problem


class Chained(nn.Module):
    """One network after another, with a window on what goes between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = mlp(6, 16, 2)
        self.second = mlp(6, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        between = self.first(x[:, :6])
        return torch.cat([between, self.second(torch.cat([between, x[:, 6:]], 1))], 1)


def chains(seed: int) -> NeuralMIP:
    """Five chains that share three rows."""
    m = new_model()
    net = heated(Chained(), seed, 2.0)
    x = m.addMatrixVar((5, 10), lb=-1, ub=1)
    on = m.addMatrixVar((5, 10), vtype="B")
    problem = NeuralMIP(m)
    y = problem.add_predictor(net, x).outputs
    for i in range(5):
        m.addCons(on[i].sum() <= 7)
        m.addCons(y[i, 0] <= 1.0)
    switched(m, x, on)
    m.addCons(x.sum() <= 3)
    m.addCons(y[:, 1].sum() >= -1)
    m.addCons(on.sum() <= 28)
    m.setObjective(y[:, 2].sum(), "maximize")
    return problem


def machines(seed: int) -> NeuralMIP:
    """Twelve jobs on three machines; the last to be done counts."""
    jobs = 12
    m = new_model()
    net = heated(mlp(jobs, 16, 16, 1), seed, 1.6)
    given = m.addMatrixVar((3, jobs), vtype="B")
    done = m.addVar(lb=None)
    for j in range(jobs):
        m.addCons(given[:, j].sum() == 1)
    problem = NeuralMIP(m)
    y = problem.add_predictor(net, given).outputs
    for k in range(3):
        m.addCons(given[k].sum() <= 5)
        m.addCons(given[k].sum() >= 3)
        m.addCons(done >= y[k, 0] + 0.1 * k)
    m.setObjective(done, "minimize")
    return problem


def whole(seed: int) -> NeuralMIP:
    """Twelve whole numbers with a given sum."""
    rng = np.random.default_rng([19, seed])
    n = 12
    m = new_model()
    layers = [nn.Linear(n, 20), nn.Tanh(), nn.Linear(20, 20), nn.Softplus(), nn.Linear(20, 2)]
    net = heated(nn.Sequential(*layers), seed, 1.0)
    with torch.no_grad():
        layers[0].weight.mul_(0.25)
    x = m.addMatrixVar((1, n), vtype="I", lb=0, ub=20)
    problem = NeuralMIP(m)
    y = problem.add_predictor(net, x).outputs
    m.addCons(x.sum() == 90)
    m.addCons(dot(rng.integers(1, 9, n), x[0]) <= 450)
    m.addCons(y[0, 1] <= 1.0)
    m.setObjective(y[0, 0], "minimize")
    return problem


def no_rows(seed: int) -> NeuralMIP:
    """A ball and a special ordered set, which are no rows."""
    n = 10
    m = new_model()
    net = heated(mlp(n, 24, 24, 1), seed, 2.0)
    x = m.addMatrixVar((1, n), lb=-2, ub=2)
    on = m.addMatrixVar(n, vtype="B")
    problem = NeuralMIP(m)
    y = problem.add_predictor(net, x).outputs
    m.addCons(quicksum(v * v for v in x[0]) <= 4)
    switched(m, x, on, 2.0)
    m.addConsSOS1([x[0, 0], x[0, 1], x[0, 2]])
    m.addCons(on.sum() <= 6)
    m.setObjective(y[0, 0] - 0.1 * on.sum(), "maximize")
    return problem


class Attentive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.looks = nn.MultiheadAttention(8, 2, batch_first=True)
        self.last = nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.first(x.view(-1, 5, 4))
        return self.last(torch.relu(h + self.looks(h, h, h, need_weights=False)[0])).sum(1)


def attention(seed: int) -> NeuralMIP:
    """Five items of four features, at most two of them on, each feature somewhere."""
    rng = np.random.default_rng([21, seed])
    m = new_model()
    net = heated(Attentive(), seed, 2.0)
    x = m.addMatrixVar((1, 20), lb=0, ub=1)
    on = m.addMatrixVar((5, 4), vtype="B")
    switched(m, x, on)
    for i in range(5):
        m.addCons(on[i].sum() <= 2)
    for j in range(4):
        m.addCons(on[:, j].sum() >= 1)
    m.addCons(x.sum() <= 6)
    problem = NeuralMIP(m)
    y = problem.add_predictor(net, x).outputs
    m.setObjective(y[0, 0] + dot(rng.normal(0, 0.1, 20), x[0]), "minimize")
    return problem


def wide(seed: int) -> NeuralMIP:
    """A hundred and fifty inputs under two budgets."""
    rng = np.random.default_rng([22, seed])
    n = 150
    m = new_model()
    net = heated(mlp(n, 64, 64, 1), seed, 1.6)
    x = m.addMatrixVar((1, n), lb=0, ub=1)
    on = m.addMatrixVar(n, vtype="B")
    switched(m, x, on)
    m.addCons(dot(rng.uniform(1, 5, n), on) <= 100)
    m.addCons(dot(rng.uniform(0, 2, n), x[0]) <= 25)
    problem = NeuralMIP(m)
    y = problem.add_predictor(net, x).outputs
    m.setObjective(10 * y[0, 0] - 0.05 * on.sum(), "maximize")
    return problem


def stations(seed: int) -> NeuralMIP:
    """Fifteen stations, at most nine open, whole crews, an output with a limit and one that
    earns.
    """
    rng = np.random.default_rng([23, seed])
    count = 15
    m = new_model()
    x = m.addMatrixVar((count, 4), lb=0, ub=1)
    open_ = m.addMatrixVar(count, vtype="B")
    crew = m.addMatrixVar(count, vtype="I", lb=0, ub=4)
    place = rng.normal(0, 1, count)
    problem = NeuralMIP(m)
    inputs = np.array([[*x[i], crew[i], float(place[i])] for i in range(count)], dtype=object)
    y = problem.add_predictor(heated(mlp(6, 20, 20, 2), seed, 2.0), inputs).outputs
    earned = m.addMatrixVar(count, lb=None, ub=20)
    for i in range(count):
        switched(m, x[i], [open_[i]] * 4)
        m.addCons(crew[i] <= 4 * open_[i])
        m.addCons(earned[i] <= y[i, 0])
        m.addCons(y[i, 1] <= 4)
    m.addCons(open_.sum() <= 9)
    m.addCons(x.sum() <= 12)
    m.addCons(crew.sum() <= 15)
    m.setObjective(earned.sum() - 0.3 * open_.sum(), "maximize")
    return problem


KINDS = (
    normed,
    balanced,
    pixels,
    periods,
    odd_units,
    two_networks,
    chains,
    machines,
    whole,
    no_rows,
    attention,
    wide,
    stations,
)


def stranger(kind: Callable[[int], NeuralMIP], seed: int) -> NeuralMIP:
    torch.manual_seed(1000 + seed)
    return kind(seed)

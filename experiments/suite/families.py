"""Random families: any seed draws an instance, networks included, so that nothing can be tuned to
one of them.

Sides of rows are taken from what a random point of the box uses or gives, so that every instance
has a solution.
"""

import numpy as np
from torch import nn

from ddmip_book.networks import conv1d, lstm
from ddmip_lib import NeuralMIP
from .parts import drawn, mlp, new_model, said, weighted


def knapsack(seed: int = 0) -> NeuralMIP:
    """Twelve shares under three resources, valued by a ReLU network and a price each."""
    rng = np.random.default_rng([1, seed])
    n = 12
    net = drawn(mlp([n, 20, 20, 1]), rng, 2.0)
    m = new_model("knapsack")
    x = m.addMatrixVar((1, n), lb=0, ub=1, name="x")
    y = m.addMatrixVar((1, 1), lb=None, name="y")
    for _ in range(3):
        m.addCons(weighted(rng.uniform(0.2, 1, n), x) <= 0.25 * n)
    m.setObjective(y[0, 0] + weighted(rng.uniform(-0.5, 1, n), x), "maximize")
    problem = NeuralMIP(m, "knapsack")
    problem.add_predictor(net, x, y)
    return problem


def units(seed: int = 0) -> NeuralMIP:
    """The same kind of problem in units from a thousandth to a thousand, its objective in ten
    thousands.
    """
    rng = np.random.default_rng([2, seed])
    n = 10
    unit = 10.0 ** rng.integers(-3, 4, n)
    net = drawn(mlp([n, 20, 20, 1]), rng, 2.0)
    net[0].weight.copy_(net[0].weight / net[0].weight.new_tensor(unit))  # type: ignore[index]
    net[-1].weight.mul_(1e4)  # type: ignore[index]
    m = new_model("units")
    x = m.addMatrixVar((1, n), lb=0, ub=unit[None], name="x")
    y = m.addMatrixVar((1, 1), lb=None, name="y")
    for _ in range(2):
        m.addCons(weighted(100 * rng.uniform(0.2, 1, n) / unit, x) <= 25 * n)
    m.setObjective(y[0, 0] + weighted(1e4 * rng.uniform(-1, 0.5, n) / unit, x), "minimize")
    problem = NeuralMIP(m, "units")
    problem.add_predictor(net, x, y)
    return problem


def whole(seed: int = 0) -> NeuralMIP:
    """Eight integers from 0 to 6 under two rows, in a smooth network."""
    rng = np.random.default_rng([3, seed])
    n = 8
    net = drawn(
        nn.Sequential(nn.Linear(n, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)),
        rng,
        1.0,
    )
    net[-1].weight.mul_(4.0)  # type: ignore[index]
    m = new_model("whole")
    x = m.addMatrixVar((1, n), vtype="I", lb=0, ub=6, name="x")
    y = m.addMatrixVar((1, 1), lb=None, name="y")
    weight = rng.integers(1, 6, n)
    m.addCons(weighted(weight, x) <= int(3 * weight.sum()))
    m.addCons(x.sum() >= 2 * n)
    m.setObjective(y[0, 0] + weighted(rng.normal(0, 0.2, n), x), "minimize")
    problem = NeuralMIP(m, "whole")
    problem.add_predictor(net, x, y)
    return problem


def switches(seed: int = 0) -> NeuralMIP:
    """Thirty binaries, four to ten of them on, ten conflicts; a sigmoid network predicts the gain
    and a limited risk.
    """
    rng = np.random.default_rng([4, seed])
    n = 30
    net = drawn(mlp([n, 20, 2], nn.Sigmoid), rng, 4.0)
    m = new_model("switches")
    x = m.addMatrixVar((1, n), vtype="B", name="x")
    y = m.addMatrixVar((1, 2), lb=None, name="y")
    m.addCons(x.sum() >= 4)
    m.addCons(x.sum() <= 10)
    for _ in range(10):
        a, b = rng.choice(n, 2, replace=False)
        m.addCons(x[0, int(a)] + x[0, int(b)] <= 1)
    points = np.zeros((500, n))
    for point in points:
        point[rng.choice(n, int(rng.integers(4, 11)), replace=False)] = 1
    m.addCons(y[0, 1] <= float(np.quantile(said(net, points)[:, 1], 0.3)))
    m.setObjective(y[0, 0] + weighted(rng.normal(0, 0.1, n), x), "maximize")
    problem = NeuralMIP(m, "switches")
    problem.add_predictor(net, x, y)
    return problem


def balance(seed: int = 0) -> NeuralMIP:
    """Six continuous inputs as cheap as possible, two equations on three outputs of a smooth
    network.
    """
    rng = np.random.default_rng([5, seed])
    n = 6
    net = drawn(mlp([n, 16, 16, 3], nn.Tanh), rng, 2.0)
    target = said(net, rng.uniform(-1, 1, (1, n)))[0]
    m = new_model("balance")
    x = m.addMatrixVar((1, n), lb=-1, ub=1, name="x")
    y = m.addMatrixVar((1, 3), lb=None, name="y")
    m.addCons(y[0, 0] + y[0, 1] == float(target[0] + target[1]))
    m.addCons(y[0, 2] == float(target[2]))
    m.setObjective(weighted(rng.uniform(0.5, 2, n), x), "minimize")
    problem = NeuralMIP(m, "balance")
    problem.add_predictor(net, x, y)
    return problem


def chain(seed: int = 0) -> NeuralMIP:
    """What a first network makes of five inputs enters a second one, with two inputs of its own."""
    rng = np.random.default_rng([6, seed])
    first = drawn(mlp([5, 12, 2]), rng, 1.5)
    second = drawn(mlp([4, 16, 1]), rng, 2.0)
    second[-1].weight.mul_(3.0)  # type: ignore[index]
    middle = said(first, rng.uniform(-1, 1, (500, 5)))
    low = middle.min(axis=0) - 1.0
    high = middle.max(axis=0) + 1.0
    m = new_model("chain")
    x = m.addMatrixVar((1, 5), lb=-1, ub=1, name="x")
    between = m.addMatrixVar((1, 2), lb=None, name="between")
    passed = m.addMatrixVar((1, 2), lb=low[None], ub=high[None], name="passed")
    own = m.addMatrixVar(2, lb=-1, ub=1, name="own")
    y = m.addMatrixVar((1, 1), lb=None, name="y")
    for j in range(2):
        m.addCons(passed[0, j] == between[0, j])
    m.addCons(x.sum() + own.sum() <= 1)
    m.setObjective(y[0, 0] + weighted(rng.normal(0, 0.3, 5), x), "maximize")
    problem = NeuralMIP(m, "chain")
    problem.add_predictor(first, x, between)
    problem.add_predictor(second, [*passed[0], *own], y)
    return problem


def shared(seed: int = 0) -> NeuralMIP:
    """Four whole and four continuous inputs in two networks, of ReLUs and smooth: one limited, the
    other to lower.
    """
    rng = np.random.default_rng([7, seed])
    n = 8
    nets = drawn(mlp([n, 16, 16, 1]), rng, 1.5), drawn(mlp([n, 16, 1], nn.Tanh), rng, 1.5)
    nets[1][-1].weight.mul_(3.0)  # type: ignore[index]
    points = np.column_stack([rng.integers(-2, 3, (400, 4)), rng.uniform(-1, 1, (400, 4))])
    m = new_model("shared")
    count = m.addMatrixVar(4, vtype="I", lb=-2, ub=2, name="count")
    level = m.addMatrixVar(4, lb=-1, ub=1, name="level")
    y = [m.addMatrixVar((1, 1), lb=None, name=f"y{k}") for k in range(2)]
    m.addCons(y[0][0, 0] >= float(np.quantile(said(nets[0], points), 0.8)))
    m.addCons(count.sum() + level.sum() <= 2)
    m.setObjective(y[1][0, 0] + weighted(rng.uniform(0, 0.3, 4), count), "minimize")
    problem = NeuralMIP(m, "shared")
    for net, output in zip(nets, y, strict=True):
        problem.add_predictor(net, [*count, *level], output)
    return problem


def sequence(seed: int = 0) -> NeuralMIP:
    """A control over twelve steps with a limited slope and sum, read by an LSTM."""
    rng = np.random.default_rng([8, seed])
    n = 12
    net = drawn(lstm(1, 8, n), rng, 2.0)
    net.head.weight.mul_(4.0)  # type: ignore[operator,union-attr]
    m = new_model("sequence")
    x = m.addMatrixVar((1, n), lb=-1, ub=1, name="x")
    y = m.addMatrixVar((1, 1), lb=None, name="y")
    for t in range(n - 1):
        m.addCons(x[0, t + 1] - x[0, t] <= 0.5)
        m.addCons(x[0, t] - x[0, t + 1] <= 0.5)
    m.addCons(x.sum() == 1)
    m.setObjective(y[0, 0] + weighted(rng.normal(0, 0.1, n), x), "maximize")
    problem = NeuralMIP(m, "sequence")
    problem.add_predictor(net, x, y)
    return problem


def strip(seed: int = 0) -> NeuralMIP:
    """Sixteen levels in steps of a quarter along a strip, read by a convolutional network, two rows
    on them.
    """
    rng = np.random.default_rng([9, seed])
    n = 16
    net = drawn(conv1d(2, 4, n), rng, 2.5)
    m = new_model("strip")
    step = m.addMatrixVar(n, vtype="I", lb=0, ub=4, name="step")
    y = m.addMatrixVar((1, 1), lb=None, name="y")
    m.addCons(step.sum() <= 2 * n)
    m.addCons(weighted(rng.integers(1, 5, n), step) >= 2 * n)
    m.setObjective(y[0, 0] - 0.05 * step.sum(), "maximize")
    problem = NeuralMIP(m, "strip")
    problem.add_predictor(net, [0.25 * v for v in step], y)
    return problem


def departments(seed: int = 0) -> NeuralMIP:
    """Ten departments with two levels and an integer each, a constraint of their own, and two
    budgets between them.
    """
    rng = np.random.default_rng([10, seed])
    n = 10
    net = drawn(mlp([4, 12, 12, 1]), rng, 2.0)
    m = new_model("departments")
    level = m.addMatrixVar((n, 2), lb=0, ub=1, name="level")
    staff = m.addMatrixVar(n, vtype="I", lb=0, ub=3, name="staff")
    y = m.addMatrixVar((n, 1), lb=None, name="y")
    trait = rng.uniform(-1, 1, n)
    for i in range(n):
        m.addCons(level[i].sum() <= 0.5 + 0.4 * staff[i])
    m.addCons(staff.sum() <= n)
    m.addCons(weighted(rng.uniform(0.5, 1.5, 2 * n), level) <= 0.6 * n)
    m.setObjective(weighted(rng.uniform(0.5, 2, n), y) - 0.1 * staff.sum(), "maximize")
    problem = NeuralMIP(m, "departments")
    inputs = [[*level[i], staff[i], trait[i]] for i in range(n)]
    problem.add_predictor(net, np.array(inputs, dtype=object), y)
    return problem


def box(seed: int = 0, n: int = 10, widths: tuple[int, ...] = (30, 30)) -> NeuralMIP:
    """The highest value of a ReLU network in a box, with no row at all: what walks through linear
    regions are for.
    """
    rng = np.random.default_rng([11, n, seed])
    net = drawn(mlp([n, *widths, 1]), rng, 2.0)
    m = new_model("box")
    x = m.addMatrixVar((1, n), lb=-1, ub=1, name="x")
    y = m.addMatrixVar((1, 1), lb=None, name="y")
    m.setObjective(y[0, 0], "maximize")
    problem = NeuralMIP(m, "box")
    problem.add_predictor(net, x, y)
    return problem


def deep_box(seed: int = 0) -> NeuralMIP:
    """The same with twenty inputs and four layers of 24 units."""
    return box(seed, 20, (24, 24, 24, 24))

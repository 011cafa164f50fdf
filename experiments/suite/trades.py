"""Seven models after problem classes of SurrogateLIB, on generated data: `training` fits and stores
their networks.

SurrogateLIB is the library of MIPs with embedded predictors that came with PySCIPOpt-ML (Turner,
Chmiela, Koch and Winkler, arXiv 2312.08074). The settings are theirs (wine, city planning, cars,
workloads, functions, adversarial pictures); models and data are made here. `seed` draws what
surrounds the networks.
"""

import numpy as np
from torch import nn

from ddmip_lib import NeuralMIP
from .parts import Picture, changed_picture, mlp, new_model, stored, weighted, with_weights

WINES = 3
VINEYARDS = 12
TRAITS = 6
SIDE = 3
KINDS = 3
CORES = 6
LOADS = 12
APPLICANTS = 15
CAR_LOW = (3.4, 0.8, 40.0, 2.0, 2.0, 0.0)
CAR_HIGH = (5.2, 2.4, 300.0, 5.0, 9.0, 1.0)


def wine(seed: int = 0) -> NeuralMIP:
    """Mix three wines from twelve vineyards; traits mix linearly, and a network predicts the
    quality.
    """
    rng = np.random.default_rng(100 + seed)
    traits = rng.uniform(0, 1, (VINEYARDS, TRAITS))
    price = rng.uniform(1, 4, VINEYARDS)
    m = new_model("wine")
    share = m.addMatrixVar((WINES, VINEYARDS), lb=0, ub=1, name="share")
    used = m.addMatrixVar((WINES, VINEYARDS), vtype="B", name="used")
    quality = m.addMatrixVar((WINES, 1), lb=None, name="quality")
    for k in range(WINES):
        m.addCons(share[k].sum() == 1)
        m.addCons(used[k].sum() <= 4)
        m.addCons(quality[k, 0] >= 5)
        for g in range(VINEYARDS):
            m.addCons(share[k, g] <= used[k, g])
            m.addCons(share[k, g] >= 0.1 * used[k, g])
    for g in range(VINEYARDS):
        m.addCons(share[:, g].sum() <= 0.7)
    m.addCons(sum(weighted(price, share[k]) for k in range(WINES)) <= 6.0)
    m.setObjective(quality.sum(), "maximize")
    mixed = [[weighted(traits[:, f], share[k]) for f in range(TRAITS)] for k in range(WINES)]
    problem = NeuralMIP(m, "wine")
    net = with_weights(mlp([TRAITS, 16, 16, 1]), stored("wine"))
    problem.add_predictor(net, np.array(mixed, dtype=object), quality)
    return problem


def city(seed: int = 0) -> NeuralMIP:
    """Houses, parks and works on nine plots; what a plot is worth depends on its neighbours through
    a network.
    """
    rng = np.random.default_rng(200 + seed)
    plots = SIDE**2
    access = rng.uniform(0, 1, SIDE**2)
    m = new_model("city")
    kind = m.addMatrixVar((plots, KINDS), vtype="B", name="kind")
    worth = m.addMatrixVar((plots, 1), lb=None, name="worth")
    inputs = []
    for i in range(plots):
        m.addCons(kind[i].sum() == 1)
        r, c = divmod(i, SIDE)
        near = [
            (r + a) * SIDE + c + b
            for a, b in ((1, 0), (-1, 0), (0, 1), (0, -1))
            if 0 <= r + a < SIDE and 0 <= c + b < SIDE
        ]
        beside = [weighted(np.ones(len(near)), [kind[j, k] for j in near]) for k in (1, 2)]
        inputs.append([*kind[i], *beside, access[i]])
    m.addCons(kind[:, 0].sum() >= 3)
    m.addCons(kind[:, 1].sum() <= 3)
    m.addCons(kind[:, 2].sum() >= 2)
    m.setObjective(worth.sum(), "maximize")
    problem = NeuralMIP(m, "city")
    problem.add_predictor(
        with_weights(mlp([6, 16, 16, 1]), stored("city")), np.array(inputs, dtype=object), worth
    )
    return problem


def car(seed: int = 0) -> NeuralMIP:
    """A car of six traits, whole and continuous; two networks share them and say price and
    sales.
    """
    rng = np.random.default_rng(300 + seed)
    data = stored("car")
    cost = np.array([1.5, 2.0, 0.02, 0.3, 0.2, 2.5]) * rng.uniform(0.8, 1.2, 6)
    m = new_model("car")
    kinds = ("C", "C", "C", "I", "I", "B")
    parts = zip(kinds, CAR_LOW, CAR_HIGH, strict=True)
    trait = [
        m.addVar(f"trait{j}", vtype=t, lb=low, ub=high) for j, (t, low, high) in enumerate(parts)
    ]
    price = m.addMatrixVar((1, 1), lb=None, name="price")
    sales = m.addMatrixVar((1, 1), lb=None, name="sales")
    m.addCons(trait[1] >= 0.35 * trait[0] - 0.6)
    m.addCons(trait[2] <= 200 + 100 * trait[5])
    m.addCons(trait[4] <= 2 * trait[3])
    m.addCons(sales[0, 0] >= 2.0)
    m.setObjective(price[0, 0] + 0.5 * sales[0, 0] - weighted(cost, trait), "maximize")
    problem = NeuralMIP(m, "car")
    problem.add_predictor(with_weights(mlp([6, 20, 20, 1]), data, "price:"), trait, price)
    problem.add_predictor(with_weights(mlp([6, 12, 12, 1], nn.Tanh), data, "sales:"), trait, sales)
    return problem


def workload(seed: int = 0) -> NeuralMIP:
    """Twelve jobs on six cores: speed and temperature of a core by a smooth network of its load and
    its neighbours'.
    """
    rng = np.random.default_rng(400 + seed)
    size = rng.uniform(0.1, 0.5, LOADS)
    cooling = rng.uniform(0.6, 1.4, CORES)
    m = new_model("workload")
    put = m.addMatrixVar((LOADS, CORES), vtype="B", name="put")
    said = m.addMatrixVar((CORES, 2), lb=None, name="said")
    for j in range(LOADS):
        m.addCons(put[j].sum() == 1)
    load = [weighted(size, put[:, c]) for c in range(CORES)]
    inputs = []
    for c in range(CORES):
        m.addCons(load[c] <= 1.5)
        m.addCons(said[c, 1] <= 0.9)
        inputs.append([load[c], 0.5 * load[c - 1] + 0.5 * load[(c + 1) % CORES], cooling[c]])
    m.setObjective(said[:, 0].sum(), "maximize")
    problem = NeuralMIP(m, "workload")
    net = with_weights(mlp([3, 14, 14, 2], nn.Tanh), stored("workload"))
    problem.add_predictor(net, np.array(inputs, dtype=object), said)
    return problem


def surface() -> NeuralMIP:
    """The lowest point of a network that was fitted to a function of four variables with many
    valleys.
    """
    m = new_model("surface")
    x = m.addMatrixVar((1, 4), lb=-2, ub=2, name="x")
    y = m.addMatrixVar((1, 1), lb=None, name="y")
    m.setObjective(y[0, 0], "minimize")
    problem = NeuralMIP(m, "surface")
    problem.add_predictor(with_weights(mlp([4, 32, 32, 1]), stored("surface")), x, y)
    return problem


def ocean() -> NeuralMIP:
    """Make a convolutional network as sure as possible of a wrong class, with a limited change of
    64 pixels.
    """
    data = stored("ocean")
    given = data["picture"]
    m = new_model("ocean")
    pixel, change = changed_picture(m, given, 0.4, largest=0.4)
    said = m.addMatrixVar((1, 3), lb=None, name="said")
    m.addCons(change.sum() <= 4)
    m.setObjective(said[0, 2] - said[0, 0], "maximize")
    problem = NeuralMIP(m, "ocean")
    problem.add_predictor(with_weights(Picture(), data), pixel, said)
    problem.set_start(given[None])
    return problem


def approvals(seed: int = 0) -> NeuralMIP:
    """Which of fifteen applicants to help, and with what, so that a network approves: classes,
    three budgets.
    """
    rng = np.random.default_rng(500 + seed)
    data = stored("approvals")
    given = rng.uniform(0, 0.35, (APPLICANTS, 5))
    worth = rng.uniform(1, 3, APPLICANTS).round(2)
    m = new_model("approvals")
    help_ = m.addMatrixVar((APPLICANTS, 3), lb=0, ub=0.5, name="help")
    yes = m.addMatrixVar((APPLICANTS, 1), vtype="B", name="yes")
    for j, most in enumerate((0.6, 0.4, 0.5)):
        m.addCons(help_[:, j].sum() <= most)
    m.setObjective(weighted(worth, yes), "maximize")
    inputs = [
        [*(help_[i, j] + float(given[i, j]) for j in range(3)), *given[i, 3:]]
        for i in range(APPLICANTS)
    ]
    problem = NeuralMIP(m, "approvals")
    net = with_weights(mlp([5, 16, 16, 1]), data)
    problem.add_predictor(net, np.array(inputs, dtype=object), yes, output="classification")
    return problem

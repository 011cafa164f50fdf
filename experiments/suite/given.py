"""Nine models with networks trained on generated data, as users of surrogate models write them;
weights are stored.

The data of each model lie beside its weights, so that best known values stay comparable. Variables
are added in the order in which points list them.
"""

import numpy as np

from ddmip_lib import NeuralMIP
from .parts import Former, changed_picture, mlp, new_model, stored, weighted, with_weights

UNITS = 3
PERIODS = 6


def blend() -> NeuralMIP:
    """Mix at most four of eight fuels, cheaply, to a quality and a viscosity that a network
    predicts.
    """
    data = stored("blend")
    m = new_model("blend")
    share = m.addMatrixVar(8, lb=0, ub=1, name="share")
    used = m.addMatrixVar(8, vtype="B", name="used")
    said = m.addMatrixVar((1, 2), lb=None, name="said")
    m.addCons(share.sum() == 1)
    m.addCons(used.sum() <= 4)
    for j in range(8):
        m.addCons(share[j] <= 0.6 * used[j])
        m.addCons(share[j] >= 0.05 * used[j])
    m.addCons(said[0, 0] >= float(data["quality"]))
    m.addCons(said[0, 1] >= 1.0)
    m.addCons(said[0, 1] <= 1.1)
    m.setObjective(weighted(data["cost"], share) + 0.05 * used.sum(), "minimize")
    problem = NeuralMIP(m, "blend")
    problem.add_predictor(with_weights(mlp([8, 24, 24, 2]), data), share, said)
    return problem


def ladder() -> NeuralMIP:
    """Choose one of six prices for each of four goods whose demands a network predicts, under a
    capacity.
    """
    data = stored("ladder")
    prices = np.linspace(5, 15, 6)
    n = 4
    m = new_model("ladder")
    chosen = m.addMatrixVar((n, 6), vtype="B", name="chosen")
    price = m.addMatrixVar((1, n), lb=5, ub=15, name="price")
    sold = m.addMatrixVar((1, n), lb=0, ub=20, name="sold")
    revenue = m.addMatrixVar(n, lb=0, name="revenue")
    for j in range(n):
        m.addCons(chosen[j].sum() == 1)
        m.addCons(price[0, j] == weighted(prices, chosen[j]))
        for k, step in enumerate(prices):
            m.addCons(revenue[j] <= float(step) * sold[0, j] + 300 * (1 - chosen[j, k]))
    m.addCons(sold.sum() <= 8)
    m.setObjective(revenue.sum() - weighted(data["cost"], sold), "maximize")
    problem = NeuralMIP(m, "ladder")
    problem.add_predictor(with_weights(mlp([n, 24, 24, n]), data), price, sold)
    return problem


def commit() -> NeuralMIP:
    """Three units over six periods: fuel and temperature by a network of a unit's state, ramps,
    starts, a demand.
    """
    demand = 1.2 + 0.7 * np.sin(np.linspace(0, 5, PERIODS))
    m = new_model("commit")
    on = m.addMatrixVar((UNITS, PERIODS), vtype="B", name="on")
    power = m.addMatrixVar((UNITS, PERIODS), lb=0, ub=1, name="power")
    start = m.addMatrixVar((UNITS, PERIODS), lb=0, ub=1, name="start")
    said = m.addMatrixVar((UNITS * PERIODS, 2), lb=None, name="said")
    for t in range(PERIODS):
        m.addCons(power[:, t].sum() == float(demand[t]))
        for k in range(UNITS):
            m.addCons(power[k, t] <= on[k, t])
            m.addCons(power[k, t] >= 0.1 * on[k, t])
            if t == 0:
                m.addCons(start[k, 0] >= on[k, 0] - (k == 0))
                continue
            m.addCons(power[k, t] - power[k, t - 1] <= 0.45)
            m.addCons(power[k, t - 1] - power[k, t] <= 0.45)
            m.addCons(start[k, t] >= on[k, t] - on[k, t - 1])
    for i in range(UNITS * PERIODS):
        m.addCons(said[i, 1] <= 0.85)
    m.setObjective(said[:, 0].sum() + 0.3 * start.sum(), "minimize")
    states = [
        [on[k, t], power[k, t], *np.eye(UNITS)[k]] for k in range(UNITS) for t in range(PERIODS)
    ]
    problem = NeuralMIP(m, "commit")
    net = with_weights(mlp([5, 20, 20, 2]), stored("commit"))
    problem.add_predictor(net, np.array(states, dtype=object), said)
    return problem


def diet() -> NeuralMIP:
    """Up to four portions of each of fifteen foods: enough of every nutrient, and a taste that a
    network predicts.
    """
    data = stored("diet")
    n = 15
    m = new_model("diet")
    portions = m.addMatrixVar((1, n), vtype="I", lb=0, ub=4, name="portions")
    taste = m.addMatrixVar((1, 1), lb=None, name="taste")
    for nutrient in data["nutrients"]:
        m.addCons(weighted(nutrient, portions) >= 35)
    m.addCons(weighted(data["nutrients"][0], portions) <= 60)
    m.addCons(taste[0, 0] >= 0.6)
    m.setObjective(weighted(data["cost"], portions), "minimize")
    problem = NeuralMIP(m, "diet")
    problem.add_predictor(with_weights(mlp([n, 24, 24, 1]), data), portions, taste)
    return problem


def adversarial() -> NeuralMIP:
    """The smallest change (in the 1-norm) of a picture of 64 pixels that a network takes for
    another class.
    """
    data = stored("adversarial")
    given = data["picture"]
    m = new_model("adversarial")
    pixel, change = changed_picture(m, given, 0.3)
    said = m.addMatrixVar((1, 3), lb=None, name="said")
    m.addCons(said[0, 2] - said[0, 0] >= 0.1)
    m.addCons(said[0, 2] - said[0, 1] >= 0.1)
    m.setObjective(change.sum(), "minimize")
    problem = NeuralMIP(m, "adversarial")
    problem.add_predictor(with_weights(mlp([64, 16, 16, 3]), data), pixel, said)
    problem.set_start(given[None])
    return problem


def sites() -> NeuralMIP:
    """Open at most six of twelve sites: size and advertising of each, sales by a network, one
    budget.
    """
    data = stored("sites")
    n = 12
    people, income, rent, margin = (data[name] for name in ("people", "income", "rent", "margin"))
    m = new_model("sites")
    opened = m.addMatrixVar(n, vtype="B", name="open")
    size = m.addMatrixVar(n, lb=0, ub=4, name="size")
    ads = m.addMatrixVar(n, lb=0, ub=3, name="ads")
    served = m.addMatrixVar(n, lb=0, ub=10, name="served")
    demand = m.addMatrixVar((n, 1), lb=None, name="demand")
    for i in range(n):
        m.addCons(size[i] <= 4 * opened[i])
        m.addCons(ads[i] <= 3 * opened[i])
        m.addCons(served[i] <= demand[i, 0] + 2 * (1 - opened[i]))
        m.addCons(served[i] <= 10 * opened[i])
        m.addCons(served[i] <= 1.2 * size[i])
    spent = weighted(rent, size) + 0.3 * ads.sum() + 0.8 * opened.sum()
    m.addCons(opened.sum() <= 6)
    m.addCons(spent <= 12)
    m.setObjective(weighted(margin, served) - spent, "maximize")
    inputs = [[size[i], ads[i], people[i], income[i]] for i in range(n)]
    problem = NeuralMIP(m, "sites")
    problem.add_predictor(
        with_weights(mlp([4, 16, 16, 1]), data), np.array(inputs, dtype=object), demand
    )
    return problem


def integers() -> NeuralMIP:
    """Six integers from -5 to 5 that add up to 2, neighbours at most 6 apart, under a wavy
    network.
    """
    data = stored("integers")
    n = 6
    m = new_model("integers")
    x = m.addMatrixVar((1, n), vtype="I", lb=-5, ub=5, name="x")
    said = m.addMatrixVar((1, 1), lb=None, name="said")
    m.addCons(x.sum() == 2)
    for j in range(n - 1):
        m.addCons(x[0, j] - x[0, j + 1] <= 6)
        m.addCons(x[0, j + 1] - x[0, j] <= 6)
    m.setObjective(said[0, 0] + weighted(data["cost"], x), "minimize")
    problem = NeuralMIP(m, "integers")
    problem.add_predictor(with_weights(mlp([n, 32, 32, 1]), data), x, said)
    return problem


def jobs() -> NeuralMIP:
    """Six jobs on two lines: crews decide durations through a network, orders and lines decide the
    makespan.
    """
    data = stored("jobs")
    n = 6
    m = new_model("jobs")
    crew = m.addMatrixVar(n, vtype="I", lb=1, ub=4, name="crew")
    lasts = m.addMatrixVar((n, 1), lb=0, name="lasts")
    start = m.addMatrixVar(n, lb=0, ub=30, name="start")
    line = m.addMatrixVar(n, vtype="B", name="line")
    end = m.addVar(lb=0, ub=60, name="makespan")
    for i in range(n):
        m.addCons(end >= start[i] + lasts[i, 0])
        for j in range(i + 1, n):
            first = m.addVar(vtype="B")
            same = m.addVar(vtype="B")
            m.addCons(same >= line[i] + line[j] - 1)
            m.addCons(same >= 1 - line[i] - line[j])
            m.addCons(start[j] >= start[i] + lasts[i, 0] - 40 * (1 - first) - 40 * (1 - same))
            m.addCons(start[i] >= start[j] + lasts[j, 0] - 40 * first - 40 * (1 - same))
    m.addCons(start[3] >= start[0] + lasts[0, 0])
    m.addCons(start[5] >= start[1] + lasts[1, 0])
    m.addCons(crew.sum() <= 14)
    m.setObjective(end + 0.05 * crew.sum(), "minimize")
    inputs = [[data["work"][i], crew[i], data["skill"][i]] for i in range(n)]
    problem = NeuralMIP(m, "jobs")
    problem.add_predictor(
        with_weights(mlp([3, 20, 20, 1]), data), np.array(inputs, dtype=object), lasts
    )
    return problem


def order() -> NeuralMIP:
    """The order of six items that a transformer values most, as a matrix of binaries."""
    n = 6
    m = new_model("order")
    place = m.addMatrixVar((n, n), vtype="B", name="place")
    value = m.addVar(lb=None, name="value")
    for i in range(n):
        m.addCons(place[i].sum() == 1)
        m.addCons(place[:, i].sum() == 1)
    m.setObjective(value, "maximize")
    problem = NeuralMIP(m, "order")
    net = with_weights(Former(n), stored("order"))
    problem.add_predictor(net, np.asarray(place).reshape(1, -1), value)
    return problem

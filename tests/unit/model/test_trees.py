"""Trees inside a problem: exact constraints, points that the library verifies, proved optima."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyscipopt import Model
from torch import nn

from ddmip_lib import NeuralMIP, solve
from ddmip_lib.model.instance import Instance
from ddmip_lib.predictors.estimators import TreeModel
from ddmip_lib.predictors.trees import Tree, TreeEnsemble

P = 3


def ensemble(rng: np.random.Generator, trees: int, depth: int = 3) -> TreeModel:
    """Random trees of inputs in [0, 4], some thresholds of which are integers."""
    inner = 2**depth - 1
    size = 2 ** (depth + 1) - 1
    nodes = np.arange(size)
    found = []
    for _ in range(trees):
        feature = np.where(nodes < inner, rng.integers(P, size=size), -1)
        threshold = rng.integers(8, size=size) / 2
        value = rng.normal(size=(size, 1))
        found.append(Tree(feature, threshold, 2 * nodes + 1, 2 * nodes + 2, value))
    together = TreeEnsemble(found, np.array([0.25]), np.array([1e-12]))
    return TreeModel(together.predict, together).eval()


def problem(net: nn.Module, kinds: str, output: str = "regression") -> NeuralMIP:
    model = Model()
    x = [model.addVar(vtype=kind, lb=0, ub=1 if kind == "B" else 4) for kind in kinds]
    y = model.addVar(lb=None, vtype="C" if output == "regression" else "B")
    model.addCons(x[0] + x[1] + x[2] <= 7.25)
    model.addCons(x[0] - x[1] >= -2.5)
    model.setObjective((3 if output != "regression" else 1) * y - 0.125 * x[2], "maximize")
    found = NeuralMIP(model)
    found.add_predictor(net, x, [y], output)
    return found


def best(net: TreeModel, kinds: str, gives_class: bool = False) -> float:
    """The optimum: x_2 counts by its upper end, all else by values between the thresholds."""
    integer = [0.0, 1.0, 2.0, 3.0, 4.0]
    steps = np.arange(9) / 2
    between = np.unique([*steps, *(steps[:-1] + 1e-9)])
    axes = [{"B": [0.0, 1.0], "I": integer, "C": between}[kind] for kind in kinds]
    points = np.array(list(itertools.product(*axes)))
    feasible = (points.sum(axis=1) <= 7.25) & (points[:, 0] - points[:, 1] >= -2.5)
    points = points[feasible]
    raw = net.ensemble.predict(points)[:, 0]
    values = 3.0 * (raw > 0) if gives_class else raw
    return float((values - 0.125 * points[:, 2]).max())


def extended(found: NeuralMIP) -> Instance:
    instance = found.instance()
    assert instance.stated is not instance
    return instance


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31), st.sampled_from(["CCC", "CIB", "CCI"]))
def test_every_point_extends_to_one_that_satisfies_all_constraints(seed: int, kinds: str) -> None:
    rng = np.random.default_rng(seed)
    net = ensemble(rng, 3)
    instance = extended(problem(net, kinds))
    stated = instance.stated
    milp = instance.milp
    for _ in range(10):
        x = rng.integers(9, size=P) / 2
        x = np.where(rng.random(P) < 0.5, np.nextafter(x, rng.choice([-1.0, 9.0])), x)
        values = np.zeros(stated.milp.n_variables)
        values[stated.maps[0].index[0]] = np.clip(x, 0, 4)
        values = stated.with_outputs(np.clip(values, stated.milp.lower, stated.milp.upper))
        point = instance.with_outputs(values)
        np.testing.assert_allclose(instance.restrict(point), values, atol=1e-12)
        activity = (milp.rows @ point)[stated.milp.n_rows :]
        added = slice(stated.milp.n_rows, None)
        assert (activity >= milp.row_lower[added] - 1e-9).all()
        assert (activity <= milp.row_upper[added] + 1e-9).all()


@pytest.mark.parametrize("kinds", ["CCC", "CIB"])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_optimum_is_proved(kinds: str, seed: int) -> None:
    net = ensemble(np.random.default_rng(seed), 4)
    solution = solve(problem(net, kinds), 30)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(best(net, kinds), abs=1e-5)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_class_is_proved(seed: int) -> None:
    net = ensemble(np.random.default_rng(seed), 3)
    solution = solve(problem(net, "CIC", "classification"), 30)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(best(net, "CIC", gives_class=True), abs=1e-5)


def test_points_close_to_a_threshold_are_moved_to_their_leaf() -> None:
    tree = Tree(
        np.array([0, -1, -1]),
        np.array([2.0, 0.0, 0.0]),
        np.array([1, 0, 0]),
        np.array([2, 0, 0]),
        np.array([[0.0], [1.0], [5.0]]),
    )
    one = TreeEnsemble([tree], np.zeros(1), np.zeros(1))
    instance = extended(problem(TreeModel(one.predict, one).eval(), "CCC"))
    place = instance.place[instance.stated.maps[0].index[0, 0]]
    output = instance.stated.maps[0].output[0, 0]
    right = instance.extend(np.where(np.arange(instance.stated.milp.n_variables) == output, 0, 3.0))
    for distance, moved, value in ((1e-7, np.nextafter(2.0, 3.0), 5.0), (0.1, 1.9, 1.0)):
        right[place] = 2.0 - distance
        user = instance.restrict(right)
        assert user[instance.stated.maps[0].index[0, 0]] == moved
        assert user[output] == value


def test_trees_and_networks_in_series() -> None:
    rng = np.random.default_rng(3)
    net = ensemble(rng, 2)
    layer = nn.Sequential(nn.Linear(1, 3), nn.ReLU(), nn.Linear(3, 1)).double().eval()
    with torch.no_grad():
        for weight in layer.parameters():
            weight.copy_(torch.tensor(rng.normal(size=weight.shape)))
    model = Model()
    x = [model.addVar(vtype="I", ub=4) for _ in range(P)]
    y = model.addVar(lb=None)
    z = model.addVar(lb=None)
    model.addCons(x[0] + x[1] + x[2] <= 7)
    model.setObjective(z, "minimize")
    found = NeuralMIP(model)
    found.add_predictor(net, x, [y])
    found.add_predictor(layer, [y], [z])
    solution = solve(found, 30)
    points = np.array(list(itertools.product(range(5), repeat=P)), dtype=float)
    points = points[points.sum(axis=1) <= 7]
    values = layer(torch.tensor(net.ensemble.predict(points))).detach().numpy()
    assert solution.objective == pytest.approx(values.min(), abs=1e-5)
    assert solution.status == "optimal"


def test_a_forest_of_sklearn_is_optimised() -> None:
    ensemble_module: Any = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    data = rng.uniform(0, 4, size=(60, P))
    target = (data[:, 0] - 2) ** 2 + data[:, 1] - data[:, 2]
    forest = ensemble_module.RandomForestRegressor(4, max_depth=3, random_state=0)
    found = problem(forest.fit(data, target), "CII")
    solution = solve(found, 30)
    assert solution.status == "optimal"
    inputs = solution[found.predictors[0].inputs]
    predicted = float(forest.predict(np.asarray(inputs, dtype=float))[0])
    assert solution[found.predictors[0].outputs][0, 0] == pytest.approx(predicted, abs=1e-12)


def test_outputs_of_trees_have_ranges_before_other_constraints_are_written() -> None:
    """A tree of a tree, and an indicator constraint on its output, without bounds of the user."""
    rng = np.random.default_rng(4)
    first = ensemble(rng, 2)
    second = ensemble(rng, 1)
    model = Model()
    x = [model.addVar(vtype="I", ub=4) for _ in range(P)]
    y = model.addVar(lb=None)
    z = model.addVar(lb=None)
    b = model.addVar(vtype="B")
    model.addConsIndicator(y <= -0.5, binvar=b)
    model.setObjective(z - 0.75 * b, "minimize")
    found = NeuralMIP(model)
    found.add_predictor(first, x, [y])
    found.add_predictor(second, [x[0], y, 1.0], [z])
    solution = solve(found, 30)
    points = np.array(list(itertools.product(range(5), repeat=P)), dtype=float)
    inner = first.ensemble.predict(points)
    values = second.ensemble.predict(np.hstack([points[:, :1], inner, np.ones_like(inner)]))
    values -= 0.75 * (inner <= -0.5)
    assert not found.instance().left_out
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(values.min(), abs=1e-6)


def test_a_tree_of_few_values_beside_a_network_is_part_of_the_proof() -> None:
    rng = np.random.default_rng(5)
    net = ensemble(rng, 1)
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1)).double().eval()
    model = Model()
    x = [model.addVar(vtype="I", ub=3) for _ in range(2)]
    v = [model.addVar(ub=3) for _ in range(2)]
    y = model.addVar(lb=None)
    z = model.addVar(lb=None)
    model.addCons(x[0] + v[0] >= 2.5)
    model.setObjective(y + z)
    found = NeuralMIP(model)
    found.add_predictor(net, [*x, 1.0], [y])
    found.add_predictor(layer, v, [z])
    assert solve(found, 30).status == "optimal"


def test_a_tree_of_which_one_leaf_is_reached_is_part_of_the_proof() -> None:
    net = ensemble(np.random.default_rng(6), 1)
    layer = nn.Linear(1, 1).double().eval()
    model = Model()
    fixed = [model.addVar(lb=1, ub=1) for _ in range(P)]
    x = model.addVar(ub=1)
    y = model.addVar(lb=None)
    z = model.addVar(lb=None)
    model.setObjective(y + z)
    found = NeuralMIP(model)
    found.add_predictor(net, fixed, [y])
    found.add_predictor(layer, [x], [z])
    assert solve(found, 30).status == "optimal"

"""Models for other solvers: their optimum is that of the problem, and their answers are verified."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import highspy
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyscipopt import Model
from torch import nn

from ddmip_lib import NeuralMIP, solve
from ddmip_lib.errors import ProblemError, UnsupportedNetworkError
from ddmip_lib.predictors.estimators import TreeModel
from ddmip_lib.predictors.trees import Tree, TreeEnsemble
from ddmip_lib.problems import hand_sized
from ddmip_lib.proofs.export import VALID_NAMES, export_model, valid_names, verify_values
from tests.builders.instances import relu_net


def by_scip(path: Path) -> tuple[float, dict[str, float]]:
    model = Model()
    model.hideOutput()
    model.readProblem(str(path))
    model.optimize()
    assert model.getStatus() == "optimal"
    values = {v.name: model.getVal(v) for v in model.getVars()}
    return model.getObjVal(), values


def by_highs(path: Path) -> tuple[float, dict[str, float]]:
    highs = highspy.Highs()
    highs.silent()
    assert highs.readModel(str(path)) == highspy.HighsStatus.kOk
    highs.run()
    assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    names = highs.getLp().col_names_
    values = dict(zip(names, highs.getSolution().col_value, strict=True))
    return highs.getInfo().objective_function_value, values


SOLVERS = {"scip": by_scip, "highs": by_highs}


def bought(net: nn.Module, output: str = "regression", sense: str = "maximize") -> NeuralMIP:
    """Names that files cannot hold, a general integer, a constant input, an offset, two samples."""
    model = Model("two words")
    a = model.addVar("amount [kg]", vtype="I", lb=-2, ub=3)
    b = model.addVar("e1", lb=-1, ub=2)
    kind = "B" if output == "classification" else "C"
    y = [model.addVar(f"y[{k}]", vtype=kind, lb=0 if kind == "B" else None) for k in range(2)]
    model.addCons(a + b <= 3.5, name="the budget")
    model.addCons((a - 2 * b <= 4) >= -5, name="e1")
    model.setObjective(y[0] - y[1] + 0.1 * a - 0.2 * b + 7, sense)
    problem = NeuralMIP(model, "two words")
    problem.add_predictor(net, [[a, b], [b, 0.5]], [[y[0]], [y[1]]], output=output)
    return problem


@pytest.mark.parametrize("ending", VALID_NAMES)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("output", ["regression", "classification"])
def test_other_solvers_find_the_optimum_that_solve_proves(
    tmp_path: Path, ending: str, solver: str, output: str
) -> None:
    problem = bought(relu_net(2, 4), output)
    path = tmp_path / f"m{ending}"
    about = export_model(problem, path)
    assert about == json.loads(path.with_suffix(".json").read_text())
    assert (about["kind"], about["relaxed"]) == ("exact", [])
    objective, values = SOLVERS[solver](path)
    verification = verify_values(problem, values, path.with_suffix(".json"))
    assert verification.feasible
    assert verification.objective == pytest.approx(objective, abs=1e-4)
    best = solve(problem, 20.0)
    assert best.status == "optimal"
    assert objective == pytest.approx(best.objective, abs=1e-4)


def test_the_hand_sized_problem_keeps_its_names(tmp_path: Path) -> None:
    problem = hand_sized()
    path = tmp_path / "m.mps"
    about = export_model(problem, path)
    objective, values = by_scip(path)
    assert objective == pytest.approx(0.5)
    named = {name: values[name] for name in problem.instance().milp.names}
    assert about["variables"] == {name: name for name in named}
    assert about["predictors"][0]["outputs"] == [[problem.predictors[0].outputs[0, 0].name]]
    assert verify_values(problem, named).objective == pytest.approx(0.5)
    wrong = {**named, about["predictors"][0]["outputs"][0][0]: 100.0}
    assert verify_values(problem, wrong).objective == pytest.approx(0.5)


@settings(deadline=None, max_examples=8, derandomize=True)
@given(st.integers(0, 10_000), st.booleans(), st.sampled_from(list(VALID_NAMES)))
def test_the_exported_model_has_the_optimum_of_an_enumeration(
    seed: int, maximise: bool, ending: str
) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.integers(-3, 4, 2).astype(float)
    problem = integer_problem(relu_net(2, 3, seed=seed), weights, maximise)
    points = [{"a": float(a), "b": float(b)} for a in range(-1, 3) for b in range(-1, 3)]
    found = [v.objective for point in points if (v := verify_values(problem, point))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"m{ending}"
        export_model(problem, path)
        objective, values = by_scip(path)
    assert objective == pytest.approx(max(found) if maximise else min(found), abs=1e-5)
    named = {name: values[name] for name in ("a", "b")}
    assert verify_values(problem, named).objective == pytest.approx(objective, abs=1e-5)


def integer_problem(net: nn.Module, weights: np.ndarray, maximise: bool) -> NeuralMIP:
    """Two integers in [-1, 2] with one constraint, which (0, 0) satisfies."""
    model = Model()
    a, b = (model.addVar(name, vtype="I", lb=-1, ub=2) for name in "ab")
    y = model.addVar("y", lb=None)
    model.addCons(weights[0] * a + weights[1] * b <= 1)
    model.setObjective(y + 0.1 * a, "maximize" if maximise else "minimize")
    problem = NeuralMIP(model)
    problem.add_predictor(net, [[a, b]], [[y]])
    return problem


def test_networks_in_series(tmp_path: Path) -> None:
    model = Model()
    a = model.addVar("a", vtype="I", lb=-2, ub=3)
    middle = [model.addVar(f"m{k}", lb=None) for k in range(2)]
    y = model.addVar("y", lb=None)
    model.addCons(middle[0] <= 1.0)
    model.setObjective(y, "maximize")
    problem = NeuralMIP(model)
    problem.add_predictor(relu_net(1, 3, 2), [[a]], [middle])
    problem.add_predictor(relu_net(2, 3, 1, seed=1), [middle], [[y]])
    path = tmp_path / "m.mps"
    about = export_model(problem, path)
    assert about["predictors"][1]["inputs"] == [["m0", "m1"]]
    objective, values = by_highs(path)
    found = verify_values(problem, values, path.with_suffix(".json"))
    assert found.feasible
    assert found.objective == pytest.approx(objective, abs=1e-4)
    points = [{"a": float(k)} for k in range(-2, 4)]
    feasible = [v.objective for point in points if (v := verify_values(problem, point))]
    assert objective == pytest.approx(max(feasible), abs=1e-4)


@pytest.mark.parametrize("solver", SOLVERS)
def test_answers_in_files_are_verified(tmp_path: Path, solver: str) -> None:
    problem = hand_sized()
    path = tmp_path / "m.mps"
    answer = tmp_path / "m.sol"
    export_model(problem, path)
    if solver == "scip":
        model = Model()
        model.hideOutput()
        model.readProblem(str(path))
        model.optimize()
        model.writeBestSol(str(answer))
    else:
        highs = highspy.Highs()
        highs.silent()
        highs.readModel(str(path))
        highs.run()
        highs.writeSolution(str(answer), 0)
    found = verify_values(problem, answer, path.with_suffix(".json"))
    assert found.feasible
    assert found.objective == pytest.approx(0.5)


def curved() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).double().eval()


@pytest.mark.parametrize("sense", ["minimize", "maximize"])
def test_a_relaxation_is_marked_and_its_value_a_bound(tmp_path: Path, sense: str) -> None:
    problem = bought(curved(), sense=sense)
    path = tmp_path / "m.mps"
    with pytest.raises(UnsupportedNetworkError, match=r"tanh of layer Tanh 1 .* no exact"):
        export_model(problem, path)
    assert not path.exists()
    about = export_model(problem, path, relaxation=True)
    assert about["kind"] == "relaxation"
    assert about["relaxed"] == ["tanh of layer Tanh 1 of network Sequential"]
    assert "relaxation" in path.read_text().splitlines()[1] + path.read_text().splitlines()[0]
    bound, values = by_scip(path)
    sign = 1 if sense == "minimize" else -1
    grid = [(a, b) for a in range(-2, 4) for b in np.linspace(-1, 2, 4)]
    inside = [(a, b) for a, b in grid if a + b <= 3.5 and -5 <= a - 2 * b <= 4]
    for a, b in inside:
        point = {"amount [kg]": a, "e1": b, "y[0]": 0.0, "y[1]": 0.0}
        found = verify_values(problem, point)
        assert found.feasible
        assert sign * found.objective >= sign * bound - 1e-6
    assert verify_values(problem, values, path.with_suffix(".json")).feasible


def test_a_constraint_that_is_not_linear_is_named(tmp_path: Path) -> None:
    model = Model()
    x = model.addVar("x", ub=2.0)
    y = model.addVar("y", lb=None)
    model.addCons(x * x * x <= 2.0 + y, name="cubic")
    problem = NeuralMIP(model)
    problem.add_predictor(nn.Linear(1, 1).eval(), [[x]], [[y]])
    with pytest.raises(ProblemError, match="constraint cubic has no exact"):
        export_model(problem, tmp_path / "m.lp")
    about = export_model(problem, tmp_path / "m.lp", relaxation=True)
    assert about["relaxed"] == ["nonlinear constraint cubic"]


def test_trees_of_few_values_are_written_by_their_leaves(tmp_path: Path) -> None:
    node = np.array([0, -1, -1]), np.array([1.5, 0.0, 0.0])
    children = np.array([1, 0, 0]), np.array([2, 0, 0])
    tree = Tree(*node, *children, np.array([[0.0], [3.0], [4.0]]))
    ensemble = TreeEnsemble([tree], np.array([1.0]), np.zeros(1))
    model = Model()
    x = model.addVar("x", vtype="I", ub=3)
    y = model.addVar("y", lb=None)
    model.setObjective(y - 2 * x, "maximize")
    problem = NeuralMIP(model)
    problem.add_predictor(TreeModel(ensemble.predict, ensemble).eval(), [[x]], [[y]])
    path = tmp_path / "m.mps"
    assert export_model(problem, path)["kind"] == "exact"
    objective, values = by_highs(path)
    assert abs(objective) == pytest.approx(4.0)
    assert verify_values(problem, values, path.with_suffix(".json")).objective == 4.0


def test_a_problem_that_bounds_show_to_be_infeasible_is_not_written(tmp_path: Path) -> None:
    model = Model()
    x = model.addVar("x", ub=1.0)
    y = model.addVar("y", lb=50.0, ub=60.0)
    problem = NeuralMIP(model)
    problem.add_predictor(nn.Linear(1, 1).eval(), [[x]], [[y]])
    with pytest.raises(ProblemError, match="has no feasible point, as bounds show"):
        export_model(problem, tmp_path / "m.mps")


def test_bad_arguments_are_named(tmp_path: Path) -> None:
    problem = hand_sized()
    with pytest.raises(ProblemError, match=r"must end in \.mps or \.lp"):
        export_model(problem, tmp_path / "m.txt")
    with pytest.raises(ProblemError, match="no variable of the problem is called 'nobody'"):
        verify_values(problem, {"nobody": 1.0})
    with pytest.raises(ProblemError, match="no finite value for x_0_0"):
        verify_values(problem, {"x_0_1": 1.0})


@settings(deadline=None, max_examples=20)
@given(st.lists(st.text(max_size=6), max_size=8), st.sampled_from(list(VALID_NAMES)))
def test_names_are_unique_valid_and_kept_where_they_can_be(names: list[str], ending: str) -> None:
    found: list[Any] = valid_names(names, ending)
    assert len(set(found)) == len(names)
    assert all(VALID_NAMES[ending].fullmatch(name) for name in found)
    again = valid_names(found, ending)
    assert again == found

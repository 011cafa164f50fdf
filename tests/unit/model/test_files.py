"""Problems from files: a model that SCIP reads, and a map of names that connects its networks."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ddmip_lib import NeuralMIP, solve
from ddmip_lib.errors import ProblemError

LP_TEXT = """Maximize
 obj: 3 x1 + x2 + 2 y + 5
Subject To
 budget: x1 + x2 + z <= 3
Bounds
 x1 <= 2
 x2 <= 2
 z <= 2
 y free
Generals
 x1 x2
End
"""
MAP_ENTRY = {"inputs": [["x1", "x2"]], "outputs": [["y"]]}


def network() -> nn.Module:
    """relu(x1 - x2) - x1."""
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1, bias=False)).eval()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, -1.0], [1.0, 0.0]]))
        net[0].bias.zero_()
        net[2].weight.copy_(torch.tensor([[1.0, -1.0]]))
    return net


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m.lp").write_text(LP_TEXT)
    torch.jit.save(torch.jit.script(network()), tmp_path / "net.pt")
    entry = {**MAP_ENTRY, "network": "net.pt"}
    (tmp_path / "map.json").write_text(json.dumps({"predictors": [entry]}))
    return tmp_path


def best() -> float:
    """By enumeration: z = 0 is best."""
    points = [(a, b) for a in range(3) for b in range(3) if a + b <= 3]
    return max(3 * a + b + 2 * (max(a - b, 0) - a) + 5 for a, b in points)


def test_a_model_and_a_map_are_a_problem(folder: Path) -> None:
    problem = NeuralMIP.read(folder / "m.lp", folder / "map.json")
    solution = solve(problem, 20.0)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(best())
    assert solution["x1"] == solution[problem["x1"]]


def test_networks_replace_those_of_the_map(folder: Path) -> None:
    entries = {"predictors": [{**MAP_ENTRY, "network": "nowhere.pt"}]}
    problem = NeuralMIP.read(folder / "m.lp", entries, [network()])
    assert problem.predictors[0].name == "Sequential"
    with pytest.raises(ProblemError, match="1 predictors, but 2 networks"):
        NeuralMIP.read(folder / "m.lp", entries, [network(), network()])


@pytest.mark.parametrize("ending", ["mps", "lp", "cip"])
def test_the_formats_of_scip_and_compression(folder: Path, ending: str) -> None:
    model = NeuralMIP.read(folder / "m.lp").model
    path = folder / f"copy.{ending}"
    model.writeProblem(str(path), verbose=False)
    packed = folder / f"copy.{ending}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for given in (path, packed):
        problem = NeuralMIP.read(given)
        problem.add_predictor(network(), ["x1", "x2"], ["y"])
        milp = problem.instance().milp
        assert (milp.sign, milp.offset, milp.n_rows) == (-1.0, 5.0, 1)
        assert dict(zip(milp.names, milp.upper, strict=True))["x1"] == 2.0


def test_variables_by_name(folder: Path) -> None:
    problem = NeuralMIP.read(folder / "m.lp")
    assert problem["z"].name == "z"
    assert [v.name for v in problem[["x1", "y"]]] == ["x1", "y"]
    assert problem[[["x1"], ["y"]]].shape == (2, 1)
    predictor = problem.add_predictor(network(), [[problem["x1"], "x2"], [1.5, "z"]])
    assert predictor.inputs[1, 1].name == "z"
    assert predictor.inputs[1, 0] == 1.5
    for name, count in (("w", "no"), ("x", "no")):
        with pytest.raises(
            ProblemError, match=f"{count} variables of the model are called '{name}'"
        ):
            problem[name]
    with pytest.raises(TypeError, match=r"takes names of variables, not 0"):
        next(iter(problem))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("nothing", "is not JSON"),
        ("[]", "holds a list, not an object"),
        ("{}", 'has no list "predictors"'),
        ('{"predictors": [1]}', 'has no list "predictors"'),
        ('{"predictors": [{"inputs": [["x1"]]}]}', "predictor 0 of the map lacks 'network'"),
        ('{"predictors": [{"network": "net.pt"}]}', "predictor 0 of the map lacks 'inputs'"),
        (
            '{"predictors": [{"network": "net.pt", "inputs": [["x1"]], "input": 1}]}',
            "has an unknown key 'input'",
        ),
        (
            '{"predictors": [{"network": "net.pt", "inputs": [["x1", "no"]]}]}',
            "no variables of the model are called 'no'",
        ),
    ],
)
def test_a_map_of_another_form_is_refused(folder: Path, content: str, message: str) -> None:
    (folder / "map.json").write_text(content)
    with pytest.raises(ProblemError, match=message):
        NeuralMIP.read(folder / "m.lp", folder / "map.json")


def test_files_that_are_no_models(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.mps does not exist"):
        NeuralMIP.read(folder / "nowhere.mps")
    with pytest.raises(ProblemError, match=r"SCIP cannot read .*map\.json"):
        NeuralMIP.read(folder / "map.json")
    empty: Any = folder / "empty.lp"
    empty.write_text("Minimize\n obj:\nEnd\n")
    with pytest.raises(ProblemError, match="SCIP finds no variable"):
        NeuralMIP.read(empty)

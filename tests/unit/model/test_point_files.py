"""Solutions and points in files: what is written is read back to the last digit."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddmip_lib import DualDecomposition, NeuralMIP, Solution, solve
from ddmip_lib.errors import ProblemError
from ddmip_lib.model.point_files import plain, read_json, read_sol, write_sol
from ddmip_lib.model.solution import Iteration
from ddmip_lib.problems import hand_sized
from tests.builders.instances import build
from tests.builders.networks import linear

JSON_NUMBERS = st.floats(allow_nan=False)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | JSON_NUMBERS | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


@settings(max_examples=25)
@given(st.dictionaries(st.text(), JSON_VALUES))
def test_json_loses_nothing(tmp_path_factory: pytest.TempPathFactory, record: dict) -> None:
    file = tmp_path_factory.getbasetemp() / "record.json"
    text = json.dumps(plain(record), allow_nan=False)
    file.write_text(text)
    assert plain(read_json(file)) == plain(record)


@settings(max_examples=25)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_sol_loses_nothing(tmp_path_factory: pytest.TempPathFactory, values: list[float]) -> None:
    file = tmp_path_factory.getbasetemp() / "point.sol"
    names = [f"x({i})" for i in range(len(values))]
    write_sol(file, names, np.array(values), "optimal", 0.5)
    assert read_sol(file) == dict(zip(names, values, strict=True))


def same(first: Solution, second: Solution) -> bool:
    """Whether both are equal in everything that a file holds."""
    return first.to_json() == second.to_json()


@pytest.mark.parametrize("method", ["solve", "dual decomposition"])
def test_a_solution_comes_back(tmp_path: Path, method: str) -> None:
    problem = hand_sized()
    if method == "solve":
        solution = solve(problem)
    else:
        solution = DualDecomposition(max_iterations=3).solve(problem)
    solution.to_json(tmp_path / "solution.json")
    loaded = Solution.from_json(tmp_path / "solution.json")
    assert loaded.values.tolist() == solution.values.tolist()
    assert loaded.verification == solution.verification
    assert (loaded.status, loaded.gap, loaded["y_0_0"]) == (
        solution.status,
        solution.gap,
        solution["y_0_0"],
    )
    assert problem.verify(loaded).feasible
    assert loaded.proof == solution.proof
    for column in solution.history.columns:
        assert np.array_equal(loaded.history[column], solution.history[column], equal_nan=True)
    assert all(isinstance(entry, Iteration) for entry in loaded.history)
    assert repr(loaded.details.get("log")) == repr(solution.details.get("log"))
    left_out = json.loads(solution.to_json())["details_left_out"]
    assert loaded.details.keys() | set(left_out) == solution.details.keys()


def test_a_solution_without_a_point_comes_back(tmp_path: Path) -> None:
    built = build(linear(1.0, 2.0), 2)
    built.model.addCons(built.y[0, 0] >= 4, name="impossible")
    solution = solve(built.problem)
    assert solution.status == "infeasible"
    solution.to_json(tmp_path / "solution.json")
    loaded = Solution.from_json(tmp_path / "solution.json")
    assert same(loaded, Solution.from_json(tmp_path / "solution.json"))
    assert repr(loaded.nearest) == repr(solution.nearest)
    assert loaded.report() == solution.report()
    assert loaded.nearest.violations[0].upper == math.inf


@pytest.mark.parametrize("ending", [".json", ".sol"])
def test_a_file_is_a_start(tmp_path: Path, ending: str) -> None:
    solution = solve(hand_sized())
    file = tmp_path / f"point{ending}"
    if ending == ".json":
        solution.to_json(file)
    else:
        solution.to_sol(file)
    problem = hand_sized()
    problem.set_start(file)
    assert problem.start[0].tolist() == [[1.0, 1.0]]
    assert list(problem.start_point.values()) == solution.values.tolist()
    assert DualDecomposition(max_iterations=1).solve(problem, seed=1).start == ""


def test_scip_reads_what_we_write_and_we_read_what_scip_writes(tmp_path: Path) -> None:
    solution = solve(hand_sized())
    solution.to_sol(tmp_path / "ours.sol")
    model = hand_sized().model
    read = model.readSolFile(str(tmp_path / "ours.sol"))
    assert [model.getSolVal(read, v) for v in model.getVars()] == solution.values.tolist()
    model.addSol(read)
    model.hideOutput()
    model.optimize()
    model.writeBestSol(str(tmp_path / "theirs.sol"))
    written = read_sol(tmp_path / "theirs.sol")
    assert written.keys() <= {"x_0_0", "x_0_1", "y_0_0"}
    assert all(value == model.getVal(v) for v in model.getVars() if (value := written.get(v.name)))


def test_files_of_gurobi_and_highs(tmp_path: Path) -> None:
    file = tmp_path / "point.sol"
    file.write_text("# Solution for model m\n# Objective value = 2\nx1 1\nx2 0\n")
    assert read_sol(file) == {"x1": 1.0, "x2": 0.0}
    file.write_text(
        "Model status\nOptimal\n\n# Primal solution values\nFeasible\nObjective 2\n"
        "# Columns 2\nx1 1\nx2 0\n# Rows 1\nbudget 1\n\n# Dual solution values\nNone\n"
    )
    assert read_sol(file) == {"x1": 1.0, "x2": 0.0}


def shared_names() -> NeuralMIP:
    built = build(linear(1.0, 1.0), 2, vtype="B")
    built.model.addVar("t", vtype="B")
    built.model.addVar("t", vtype="B")
    return built.problem


def test_shared_names_come_back_from_json_and_are_refused_by_sol(tmp_path: Path) -> None:
    solution = solve(shared_names())
    solution.to_json(tmp_path / "solution.json")
    with pytest.raises(ProblemError, match=r"cannot hold the name 't'.*use to_json"):
        solution.to_sol(tmp_path / "solution.sol")
    problem = shared_names()
    problem.set_start(tmp_path / "solution.json")
    assert list(problem.start_point.values()) == solution.values.tolist()


def test_unknown_names_of_a_start_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "point.sol"
    file.write_text("x_0_0 1\nunit7 2\n")
    problem = hand_sized()
    problem.set_start(file)
    assert "1 unknown name" in caplog.text
    assert "unit7" in caplog.text
    assert problem.start[0].tolist() == [[1.0, 0.0]]
    file.write_text("unit7 2\n")
    with pytest.raises(ProblemError, match="no variable of this model"):
        problem.set_start(file)


@pytest.mark.parametrize(
    ("text", "told"),
    [("{", "is not JSON"), ("[1]", "a list, not an object"), ("{}", "has no entry '")],
)
def test_other_files_are_no_solutions(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "solution.json"
    file.write_text(text)
    with pytest.raises(ProblemError, match=told):
        Solution.from_json(file)


@pytest.mark.parametrize("line", ["x", "x one"])
def test_other_files_are_no_points(tmp_path: Path, line: str) -> None:
    file = tmp_path / "point.sol"
    file.write_text(line)
    with pytest.raises(ProblemError, match="is not a name and a number"):
        read_sol(file)


def test_a_point_is_needed(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="no point was found"):
        Solution("time_limit", "none").to_sol(tmp_path / "point.sol")

"""What a user does with a solution: ask it, store it, start from it; and what is said where there
is none.
"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pyscipopt import Model, sin

from ddmip_lib import BigM, DualDecomposition, Enumeration, NeuralMIP, SingleStepGradient, Solution
from ddmip_lib.errors import ProblemError
from ddmip_lib.model.incumbent import Incumbent
from ddmip_lib.model.solution import History
from ddmip_lib.problems import hand_sized
from tests.builders.clocks import LONG
from tests.builders.instances import Built, build, relu_net
from tests.builders.networks import linear


def solved() -> tuple[Built, Solution]:
    """max x0 - x1 + 2 over [0, 1]^2 with an integer k beside it."""
    built = build(linear(1.0, -1.0, bias=2.0), 2, vtype="B", sense="maximize")
    return built, Enumeration().solve(built.problem)


class TestValues:
    def test_variables_expressions_arrays_and_names(self) -> None:
        built, solution = solved()
        x = built.x
        y = built.y
        assert solution[x[0, 0]] == 1.0
        assert type(solution[x[0, 0]]) is float
        assert solution["x_0_0"] == 1.0
        assert solution[2 * x[0, 0] + 3 * y[0, 0] - 1] == 2 + 9 - 1
        assert solution[x[0, 0] * y[0, 0]] == 3.0
        assert solution[x.sum()] == 1.0
        for what in (x, [[x[0, 0], x[0, 1]]], 1 * x):
            np.testing.assert_array_equal(solution[what], [[1.0, 0.0]])
        np.testing.assert_array_equal(solution[[x[0, 1], 7, y[0, 0]]], [0.0, 7.0, 3.0])
        np.testing.assert_array_equal(
            solution[built.problem.predictors[0].outputs], solution.outputs[0]
        )

    def test_what_has_no_value_is_refused_by_name(self) -> None:
        built, solution = solved()
        elsewhere = Model()  # which PySCIPOpt 5 needs as long as its variable
        stranger = elsewhere.addVar("stranger")
        later = built.model.addVar("later")
        for variable in (stranger, later):
            with pytest.raises(
                ProblemError, match=f"{variable.name} is no variable of the model that was solved"
            ):
                solution[variable + 1]
        with pytest.raises(ProblemError, match="no variables of the model are called 'z'"):
            solution["z"]
        for what in ({"x": 1}, None, sin(built.x[0, 0])):
            with pytest.raises(TypeError, match="has no value: pass variables"):
                solution[what]

    def test_a_model_that_took_the_place_of_another_is_not_mistaken_for_it(self) -> None:
        _, solution = solved()
        for _ in range(20):
            other = build(linear(1.0, -1.0, bias=2.0), 2, vtype="B")
            with pytest.raises(ProblemError, match="no variable of the model"):
                solution[other.x]

    def test_a_loaded_solution_goes_by_names(self) -> None:
        built, solution = solved()
        loaded = pickle.loads(pickle.dumps(solution))
        assert loaded["x_0_0"] == 1.0
        with pytest.raises(ProblemError, match="by name"):
            loaded[built.x]


class TestExport:
    def test_json(self, tmp_path: Path) -> None:
        _, solution = solved()
        text = solution.to_json(tmp_path / "solution.json")
        said = json.loads((tmp_path / "solution.json").read_text())
        assert said == json.loads(text)
        assert (said["status"], said["objective"], said["proof"]["checked"]) == (
            "optimal",
            3.0,
            True,
        )
        assert said["variables"] == {"x_0_0": 1.0, "x_0_1": 0.0, "y_0_0": 3.0}
        assert said["history"]["rho"] == []

    def test_what_json_does_not_have_is_null(self) -> None:
        solution = DualDecomposition(max_iterations=3).solve(hand_sized())
        said = json.loads(solution.to_json(), parse_constant=lambda name: pytest.fail(name))
        assert len(said["history"]["objective"]) == len(solution.history)
        empty = json.loads(Solution("no_solution_found", "none").to_json())
        assert (empty["objective"], empty["variables"], empty["proof"]) == (None, None, None)

    def test_names_that_are_shared(self) -> None:
        model = Model()
        x = [model.addVar("x", vtype="B") for _ in range(2)]
        problem = NeuralMIP(model)
        problem.add_predictor(linear(1.0, 1.0), x)
        solution = Enumeration().solve(problem)
        assert len(json.loads(solution.to_json())["variables"]) == 3
        with pytest.raises(ProblemError, match="2 variables of the model are called 'x'"):
            solution["x"]

    def test_frames(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _, solution = solved()
        monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=dict))
        assert solution.to_frame() == {
            "variable": ["x_0_0", "x_0_1", "y_0_0"],
            "value": [1.0, 0.0, 3.0],
        }
        history = DualDecomposition(max_iterations=3).solve(hand_sized()).history
        assert list(history.to_frame()) == list(history.columns)
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(ImportError, match=r"pip install 'ddmip-lib\[frames\]'"):
            solution.to_frame()

    def test_pandas(self) -> None:
        pytest.importorskip("pandas")
        _, solution = solved()
        assert solution.to_frame().shape == (3, 2)
        assert History().to_frame().empty

    @pytest.mark.parametrize("ask", [lambda s: s["x"], lambda s: s.to_frame()])
    def test_where_there_is_no_point(self, ask: Any) -> None:
        with pytest.raises(ProblemError, match=r"no point was found \(time_limit\).*report"):
            ask(Solution("time_limit", "none"))


def knapsack() -> Built:
    """max y over binary x with a continuous t, which is worth something up to what x leaves."""
    built = build(relu_net(3, seed=4), 3, vtype="B", sense="maximize")
    t = built.model.addVar("t", ub=1.0)
    built.model.addCons(built.x.sum() + t <= 2.5, name="room")
    return built


class TestStarts:
    def test_a_solution_is_where_the_next_run_begins(self) -> None:
        built = knapsack()
        best = Enumeration().solve(built.problem)
        for start in (best, best.values, json.loads(best.to_json())["variables"]):
            built.problem.set_start(start)
            np.testing.assert_array_equal(built.problem.start[0], best.inputs[0])
            run = DualDecomposition(restarts=0).start(built.problem).incumbent
            assert run.objective == pytest.approx(best.objective)

    def test_a_whole_point_competes_as_it_is(self) -> None:
        built = knapsack()
        heard: list[np.ndarray] = []
        point = {"x_0_0": 1.0, "x_0_1": 0.0, "x_0_2": 0.0, "t": 0.25}
        built.problem.set_start(point)
        instance = built.problem.instance()
        incumbent = Incumbent(instance, 0.0)
        incumbent.completer.complete = lambda *_, **__: heard.append(1)  # type: ignore[assignment, method-assign]
        incumbent.consider_start(built.problem.start, 60.0)
        assert incumbent.values is not None
        assert incumbent.values[instance.milp.names.index("t")] == 0.25
        assert heard
        built.model.addVar(
            "s"
        )  # which no one said anything of; SCIP may list variables in another order now
        instance = built.problem.instance()
        incumbent = Incumbent(instance, 0.0)
        incumbent.consider_start(built.problem.start, 60.0)
        assert incumbent.values is not None
        np.testing.assert_array_equal(instance.inputs(incumbent.values)[0], [[1.0, 0.0, 0.0]])

    def test_inputs_alone_are_enough_and_needed(self) -> None:
        built = knapsack()
        built.problem.set_start({"x_0_0": 1, "x_0_1": 0, "x_0_2": 0})
        np.testing.assert_array_equal(built.problem.start[0], [[1.0, 0.0, 0.0]])
        with pytest.raises(ProblemError, match="no finite value for x_0_1, which a network needs"):
            built.problem.set_start({"x_0_0": 1, "x_0_2": 0})
        with pytest.raises(ProblemError, match="no variables of the model are called 'u'"):
            built.problem.set_start({"u": 1})

    def test_input_matrices_work_as_ever(self) -> None:
        built = knapsack()
        for start in ([1, 0, 0], [[1, 0, 0]], np.array([[1.0, 0.0, 0.0]])):
            built.problem.set_start(start)
            np.testing.assert_array_equal(built.problem.start[0], [[1.0, 0.0, 0.0]])
            assert built.problem.start_point == {}
        with pytest.raises(ProblemError, match=r"shapes \[\(1, 4\)\]"):
            built.problem.set_start([1, 0, 0, 0])

    def test_what_may_be_both_is_refused(self) -> None:
        model = Model()
        x = model.addVar("x", ub=1)
        problem = NeuralMIP(model)
        problem.add_predictor(linear(1.0, 1.0), [x, 3.0])
        with pytest.raises(ProblemError, match="2 numbers may be inputs or all variables"):
            problem.set_start([0.5, 3.0])
        problem.set_start([[0.5, 3.0]])

    def test_solutions_of_other_models_are_refused(self) -> None:
        _, solution = solved()
        for other in (solution, Solution("no_solution_found", "none")):
            with pytest.raises(ProblemError, match="no point of this model"):
                knapsack().problem.set_start(other)


def out_of_reach(vtype: str = "C") -> Built:
    built = build(linear(1.0, 1.0), 2, vtype=vtype)
    built.model.addCons(built.y[0, 0] >= 3, name="demand")
    return built


class TestReports:
    @pytest.mark.parametrize(
        ("solver", "vtype"),
        [
            (DualDecomposition(max_iterations=5), "C"),
            (DualDecomposition(max_iterations=5, split="graph"), "C"),
            (SingleStepGradient(steps=20), "C"),
            (Enumeration(), "B"),
        ],
        ids=["paper", "graph", "single step", "enumeration"],
    )
    def test_the_row_is_named_with_its_amount(self, solver: Any, vtype: str) -> None:
        solution = solver.solve(out_of_reach(vtype).problem, time_limit=LONG)
        assert not solution.found
        (violation,) = solution.nearest.violations
        assert violation.what == "constraint demand"
        assert violation.amount == pytest.approx(3 - solution.nearest.inputs[0].sum())
        assert "constraint demand is" in solution.report()
        assert "at the inputs of predictor 0" in solution.report()
        assert "nearest     constraint demand is" in repr(solution)

    def test_enumeration_names_the_nearest_of_all(self) -> None:
        solution = Enumeration().solve(out_of_reach("B").problem)
        assert (
            str(solution.nearest.violations[0]) == "constraint demand is 2, outside [3, inf] by 1"
        )
        assert solution.report().endswith("proved infeasible.")

    def test_where_ranges_prove_it_a_point_is_visited_for_the_report(self) -> None:
        solution = BigM().solve(out_of_reach().problem, time_limit=LONG)
        assert "violates\n  constraint demand is" in solution.report()
        assert solution.report().endswith("proved infeasible.")

    def test_where_nothing_was_visited_it_says_so(self) -> None:
        solution = Solution("infeasible", "by hand")
        assert (
            solution.report()
            == "No point was evaluated that could be verified.\nThe problem was proved infeasible."
        )

    def test_a_feasible_point_needs_no_report(self) -> None:
        _, solution = solved()
        assert solution.nearest is None
        assert solution.report().startswith("The point is feasible")

    def test_the_nearest_of_many_is_kept_until_one_is_feasible(self) -> None:
        built = build(linear(1.0, 1.0), 2, low=0.0, high=10.0)
        k = built.model.addVar("k", vtype="I", ub=5)
        built.model.addCons(built.y[0, 0] <= 4, name="cap")
        built.model.addCons(100 * k <= 200, name="whole")
        instance = built.problem.instance()
        incumbent = Incumbent(instance, 0.0)
        at = {name: i for i, name in enumerate(instance.milp.names)}

        def visit(x: float, k: float) -> None:
            values = np.zeros(instance.milp.n_variables)
            values[[at["x_0_0"], at["x_0_1"], at["k"]]] = x, 0.0, k
            incumbent.consider(values)

        for x, k in (
            (9.0, 0),
            (6.0, 0),
            (11.0, 1),
            (1.0, 3),
        ):  # misses 5/4, 2/4, 7/4, and 1/5 of the whole numbers' row
            visit(x, k)
        report = incumbent.point()["nearest"]
        assert [str(violation) for violation in report.violations] == [
            "constraint whole is 300, outside [-inf, 200] by 100"
        ]
        assert report.inputs[0].tolist() == [[1.0, 0.0]]
        visit(1.0, 0)
        assert incumbent.point()["verification"].feasible
        assert "nearest" not in incumbent.point()

    def test_outputs_bounds_and_whole_numbers(self) -> None:
        model = Model()
        x = model.addVar("x", lb=0.5, ub=0.6)
        y = model.addVar("y", lb=1.0, ub=2.0), model.addVar("k", vtype="I", ub=3)
        problem = NeuralMIP(model)
        net = relu_net(1, q=2)
        for weight, value in zip(net.parameters(), (0.0, 0.0, 0.0, 0.0), strict=True):
            weight.data.fill_(value)
        net[2].bias.data[1] = 0.4
        problem.add_predictor(net, [[x]], [y])
        incumbent = Incumbent(problem.instance(), 0.0)
        incumbent.consider(np.full(3, 0.5))
        said = [str(violation) for violation in incumbent.point()["nearest"].violations]
        assert said == [
            "output y is 0, outside [1, 2] by 1",
            "integer output k is 0.4, outside [0, 0] by 0.4",
        ]

    def test_constraints_that_are_no_rows(self) -> None:
        built = build(linear(1.0, 1.0), 2)
        built.model.addCons(built.x[0, 0] * built.x[0, 1] >= 2, name="product")
        incumbent = Incumbent(built.problem.instance(), 0.0)
        incumbent.consider(np.ones(3))
        assert [str(v) for v in incumbent.point()["nearest"].violations] == [
            "perhaps nonlinear product"
        ]

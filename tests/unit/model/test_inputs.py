"""What users may pass to `add_predictor`: no outputs, expressions, lists, and what is refused by
name.
"""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from pyscipopt import Model, quicksum, sqrt
from torch import Tensor, nn

from ddmip_lib import DualDecomposition, Enumeration, NeuralMIP
from ddmip_lib.errors import ProblemError
from ddmip_lib.programs import read_model
from tests.builders.clocks import LONG
from tests.builders.instances import build, relu_net
from tests.builders.networks import linear


def quiet() -> Model:
    model = Model()
    model.hideOutput()
    return model


class TestOutputs:
    def test_a_regression_gets_free_variables_named_after_it(self) -> None:
        model = quiet()
        x = model.addMatrixVar((3, 2), lb=-1, ub=1, name="x")
        problem = NeuralMIP(model)
        y = problem.add_predictor(relu_net(2, q=2), x).outputs
        assert y.shape == (3, 2)
        assert [v.name for v in y.flat][:2] == ["Sequential0_0_0", "Sequential0_0_1"]
        milp = read_model(model)
        at = [milp.position[v.ptr()] for v in y.flat]
        assert np.isinf(milp.lower[at]).all()
        assert np.isinf(milp.upper[at]).all()
        assert not milp.integer[at].any()

    def test_a_class_gets_binaries(self) -> None:
        model = quiet()
        x = model.addMatrixVar((3, 2), lb=-1, ub=1)
        y = NeuralMIP(model).add_predictor(relu_net(2), x, output="classification").outputs
        assert {(v.vtype(), v.getLbOriginal(), v.getUbOriginal()) for v in y.flat} == {
            ("BINARY", 0.0, 1.0)
        }

    def test_rows_sums_and_objective_take_them(self) -> None:
        model = quiet()
        x = model.addMatrixVar((2, 1), vtype="I", lb=-3, ub=3)
        problem = NeuralMIP(model)
        y = problem.add_predictor(linear(2.0, bias=1.0), x).outputs
        model.addMatrixCons(y <= 4)
        model.addCons(y.sum() <= 6)
        model.setObjective(y.sum() - y[0, 0] / 2, "maximize")
        solution = Enumeration().solve(problem)
        assert solution.objective == 3 + 3 / 2  # both at x = 1: outputs 3 and 3

    def test_outputs_that_are_passed_are_a_matrix_too(self) -> None:
        built = build(relu_net(2), 2)
        outputs = built.problem.predictors[0].outputs
        built.model.addCons(outputs.sum() <= 100)
        assert [v.ptr() for v in outputs.flat] == [v.ptr() for v in built.y.flat]

    @pytest.mark.filterwarnings("ignore:.*torch.jit")
    def test_two_predictors_have_two_names(self) -> None:
        model = quiet()
        x = model.addMatrixVar((1, 1), ub=1)
        problem = NeuralMIP(model)
        names = [
            problem.add_predictor(torch.jit.script(linear(1.0)), x).outputs[0, 0].name
            for _ in range(2)
        ]
        assert names == ["Linear0_0_0", "Linear1_0_0"]

    @pytest.mark.parametrize("rest", [[np.nan], ["x"], [1.0, 2.0], []])
    def test_a_refusal_leaves_the_model_as_it_was(self, rest: Any) -> None:
        model = quiet()
        x = model.addMatrixVar((1, 2), ub=1)
        problem = NeuralMIP(model)
        with pytest.raises(ProblemError):
            problem.add_predictor(relu_net(2), [[2 * x[0, 0] + 1, *rest]])
        assert (model.getNVars(), model.getNConss(), problem.predictors) == (2, 0, [])

    def test_after_a_start_or_a_solve_it_is_too_late(self) -> None:
        built = build(relu_net(2), 2)
        built.problem.set_start([[0.0, 0.0]])
        with pytest.raises(ProblemError, match="start was set already"):
            built.problem.add_predictor(relu_net(2), built.x)
        built = build(relu_net(2), 2)
        built.model.setObjective(0)
        built.model.optimize()
        with pytest.raises(ProblemError, match="freeTransform"):
            built.problem.add_predictor(relu_net(2), built.x)


class TestExpressions:
    def test_bounds_kind_and_row_follow(self) -> None:
        model = quiet()
        k = model.addVar("k", vtype="I", lb=-2, ub=3)
        b = model.addVar("b", vtype="B")
        c = model.addVar("c", lb=-1, ub=2)
        problem = NeuralMIP(model)
        z = problem.add_predictor(relu_net(4), [1 - 2 * k, 1 - b, 0.5 * c - k, k + 0]).inputs
        kinds = [(v.vtype(), v.getLbOriginal(), v.getUbOriginal()) for v in z[0]]
        assert kinds == [
            ("INTEGER", -5, 5),
            ("BINARY", 0, 1),
            ("CONTINUOUS", -3.5, 3),
            ("INTEGER", -2, 3),
        ]
        assert z[0, 3].ptr() == k.ptr()
        milp = read_model(model)
        values = np.zeros(milp.n_variables)
        at = {name: i for i, name in enumerate(milp.names)}
        values[[at["k"], at["b"], at["c"]]] = 2.0, 1.0, 1.5
        values[[milp.position[v.ptr()] for v in z[0, :3]]] = 1 - 2 * 2.0, 0.0, 0.75 - 2.0
        np.testing.assert_allclose(milp.rows @ values, milp.row_lower, atol=1e-12)
        np.testing.assert_array_equal(milp.row_lower, milp.row_upper)
        assert milp.row_names == [
            "Sequential0_input_0_0",
            "Sequential0_input_0_1",
            "Sequential0_input_0_2",
        ]

    @pytest.mark.parametrize("solver", [DualDecomposition(max_iterations=20), Enumeration()])
    def test_the_network_sees_the_expression(self, solver: Any) -> None:
        model = quiet()
        x = model.addMatrixVar((3, 2), vtype="B", name="x")
        problem = NeuralMIP(model)
        y = problem.add_predictor(linear(1.0, -1.0), x * np.array([[2.0, 3.0]]) - 1.0).outputs
        model.setObjective(y.sum(), "maximize")
        solution = solver.solve(problem, time_limit=LONG)
        assert solution.objective == pytest.approx(6.0)
        np.testing.assert_array_equal(
            solution.inputs[0], 2 * np.tile([[1.0, 0.0]], (3, 1)) * [[1, 1.5]] - 1
        )
        np.testing.assert_array_equal(solution[x], np.tile([[1.0, 0.0]], (3, 1)))

    def test_sums_and_numbers_mix(self) -> None:
        model = quiet()
        x = model.addMatrixVar((2, 2), vtype="B")
        problem = NeuralMIP(model)
        inputs = [[x.sum(), quicksum(x[0]), 4.0], [x[1, 0], x[0, 0] - x[0, 0] + 2, 1]]
        z = problem.add_predictor(relu_net(3), inputs).inputs
        assert [v.getUbOriginal() for v in z[0, :2]] == [4, 2]
        assert z[1, 1:].tolist() == [2.0, 1]

    def test_what_has_no_bounds_or_is_not_linear_is_refused_by_name(self) -> None:
        model = quiet()
        other = quiet()
        x = model.addVar("x", ub=1)
        free = model.addVar("free", lb=None)
        stranger = other.addVar("stranger", ub=1)
        problem = NeuralMIP(model)
        y = problem.add_predictor(linear(1.0), [x]).outputs[0, 0]
        for entry, message in [
            (x + 2 * free, "free is unbounded"),
            (x * x + 1, r"x, x.*not linear: pass a variable z"),
            (sqrt(x), "no variable, linear expression or finite number"),
            (x + stranger, "stranger belongs to another model"),
            (y + 1, "an output of a network: pass it as an input by itself"),
            (float("nan") * x, "not finite"),
        ]:
            with pytest.raises(ProblemError, match=message):
                problem.add_predictor(linear(1.0), [entry])
        assert (model.getNVars(), model.getNConss()) == (3, 0)


class TestShapes:
    def test_a_list_for_one_feature_is_one_row_each(self) -> None:
        model = quiet()
        x = [model.addVar(ub=1) for _ in range(4)]
        problem = NeuralMIP(model)
        assert problem.add_predictor(relu_net(1), x).inputs.shape == (4, 1)
        assert problem.add_predictor(relu_net(4), x).inputs.shape == (1, 4)
        assert problem.add_predictor(nn.Tanh().eval(), x).inputs.shape == (1, 4)  # takes both
        with pytest.raises(ProblemError, match="samples of 4 features"):
            problem.add_predictor(relu_net(3), x)
        with pytest.raises(ProblemError, match="samples of 4 features"):
            problem.add_predictor(relu_net(1), [x])

    def test_ragged_lists_and_dictionaries(self) -> None:
        model = quiet()
        x = model.addMatrixVar((2, 3), ub=1)
        problem = NeuralMIP(model)
        for ragged, said in (
            [[list(x[0]), list(x[1, :2])], "3, 2"],
            [[x[0], x[1, :1]], "3, 1"],
            [[x[0], 1.0], "3, 1"],
        ):
            with pytest.raises(
                ProblemError, match=f"inputs is ragged, its rows have {said} entries"
            ):
                problem.add_predictor(relu_net(3), ragged)
        with pytest.raises(ProblemError, match=r"inputs is a dict.*as a list"):
            problem.add_predictor(relu_net(3), {"a": x[0, 0]})
        with pytest.raises(ProblemError, match=r"outputs is a dict"):
            problem.add_predictor(relu_net(3), x, {0: x[0, 0]})

    def test_tables_work_through_numpy(self) -> None:
        model = quiet()
        x = model.addVar(ub=1)

        class Table:  # what a pandas.DataFrame is to numpy
            ndim = 2

            def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
                return np.array([[x, 1], [np.float32(0.5), 2 * x]], dtype=object)

        assert NeuralMIP(model).add_predictor(relu_net(2), Table()).inputs.shape == (2, 2)

    def test_pandas(self) -> None:
        pandas = pytest.importorskip("pandas")
        model = quiet()
        frame = pandas.DataFrame({"a": [model.addVar(ub=1), 0.5], "b": [1, 2]})
        assert NeuralMIP(model).add_predictor(relu_net(2), frame).inputs.shape == (2, 2)


class Keeps(nn.Module):
    """Remembers its hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)
        self.hidden = []

    def forward(self, x: Tensor) -> Tensor:
        self.hidden.append(self.layer(x))
        return self.hidden[-1]


class Locked(nn.Linear):
    def __init__(self) -> None:
        super().__init__(3, 1)
        self.bars = (i for i in range(3))


class Joined(nn.Module):
    """Adds a column of ones, as many as it has rows; a trace keeps that number."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1))


@pytest.mark.filterwarnings("ignore")
class TestModules:
    @pytest.mark.parametrize(
        "make", [torch.jit.script, lambda net: torch.jit.trace(net, torch.zeros(2, 3))]
    )
    def test_scripted_and_traced_modules_are_copied_to_double(self, make: Any) -> None:
        net = make(relu_net(3).float())
        model = quiet()
        x = model.addMatrixVar((2, 3), ub=1)
        predictor = NeuralMIP(model).add_predictor(net, x)
        assert predictor.raw(np.ones((2, 3))).dtype == np.float64
        torch.testing.assert_close(
            net(torch.ones(2, 3)).double(), torch.tensor(predictor.raw(np.ones((2, 3))))
        )

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: called(Keeps()), r"cannot be copied.*no tensors with a gradient.*detach"),
            (lambda: nn.utils.weight_norm(nn.Linear(3, 1)), r"cannot be copied.*parametrizations"),
            (
                lambda: called(nn.utils.spectral_norm(nn.Linear(3, 1))),
                r"cannot be copied.*parametrizations",
            ),
            (Locked, r"cannot be copied \(cannot pickle 'generator' object\)"),
            (
                lambda: torch.jit.freeze(torch.jit.script(relu_net(3).float())),
                r"script or trace net\.double",
            ),
            (
                lambda: torch.jit.trace(Joined(), torch.zeros(2, 3)),
                "every batch size.*tracing fixes sizes",
            ),
            (
                lambda: nn.Sequential(nn.LazyLinear(1)),
                "0.weight has no shape yet: run the lazy network once",
            ),
        ],
        ids=[
            "stored",
            "weight norm",
            "spectral norm",
            "generator",
            "frozen",
            "traced sizes",
            "lazy",
        ],
    )
    def test_what_torch_cannot_copy_is_named(self, make: Any, message: str) -> None:
        model = quiet()
        x = model.addMatrixVar((2, 3), ub=1)
        with pytest.raises(ProblemError, match=message) as raised:
            NeuralMIP(model).add_predictor(make().eval(), x)
        assert "\n" not in str(raised.value)

    def test_parametrised_weights_are_taken(self) -> None:
        model = quiet()
        x = model.addMatrixVar((2, 3), ub=1)
        norms = nn.utils.parametrizations
        for net in (
            norms.weight_norm(nn.Linear(3, 1)),
            norms.spectral_norm(nn.Linear(3, 1)),
            called(nn.LazyLinear(1)),
        ):
            NeuralMIP(model).add_predictor(net.eval(), x)


def called(net: nn.Module) -> nn.Module:
    net(torch.zeros(2, 3))
    return net


def test_a_problem_says_that_it_cannot_be_pickled() -> None:
    problem = build(relu_net(2), 2).problem
    for act in (pickle.dumps, copy.deepcopy, copy.copy):
        with pytest.raises(TypeError, match=r"model of SCIP.*build it where it is solved"):
            act(problem)

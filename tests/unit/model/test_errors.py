"""What is refused, before any long work, and that the message says what to do."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest
import torch
from pyscipopt import Model
from torch import nn

from ddmip_book.problems import water_potability
from ddmip_lib import (
    PGD,
    DescentTest,
    DualDecomposition,
    Enumeration,
    Fixed,
    IncreaseOnStagnation,
    NeuralMIP,
    ResidualBalancing,
    Sweeps,
)
from ddmip_lib.errors import ProblemError
from tests.builders.clocks import LONG
from tests.builders.instances import build, relu_net

PYSCIPOPT = int(version("pyscipopt").split(".")[0])


def model_with(p: int = 3, **bounds: Any) -> tuple[Model, Any, Any]:
    model = Model()
    model.hideOutput()
    x = model.addMatrixVar((1, p), **{"lb": 0.0, "ub": 1.0, **bounds})
    return model, x, model.addMatrixVar((1, 1), lb=None)


def spoiled(value: float) -> nn.Sequential:
    net = relu_net(3)
    with torch.no_grad():
        net[2].weight[0, 0] = value
    return net


@pytest.mark.parametrize(
    ("net", "error", "message"),
    [
        (lambda x: x, TypeError, "torch.nn.Module"),
        (None, TypeError, "torch.nn.Module"),
        (relu_net(3).train(), ProblemError, r"net\.eval\(\)"),
        (spoiled(np.nan), ProblemError, "2.weight contains NaN"),
        (spoiled(-np.inf), ProblemError, "2.weight contains NaN or infinity"),
        (relu_net(3).half(), ProblemError, r"net\.float\(\)"),
        (relu_net(3).bfloat16(), ProblemError, r"net\.float\(\)"),
        (relu_net(4), ProblemError, "does not accept samples of 3 features"),
        (relu_net(3, q=2), ProblemError, "one output variable for each sample"),
        (nn.Flatten(0).eval(), ProblemError, "must map"),
    ],
    ids=[
        "function",
        "none",
        "training",
        "nan",
        "inf",
        "half",
        "bfloat",
        "narrow",
        "outputs",
        "vector",
    ],
)
def test_networks(net: Any, error: type[Exception], message: str) -> None:
    model, x, y = model_with()
    with pytest.raises(error, match=message):
        NeuralMIP(model).add_predictor(net, x, y)


def test_one_submodule_in_training_mode_is_enough() -> None:
    net = nn.Sequential(nn.Linear(3, 1), nn.Dropout()).eval()
    net[1].train()
    model, x, y = model_with()
    with pytest.raises(ProblemError, match="training mode"):
        NeuralMIP(model).add_predictor(net, x, y)


def test_nan_in_a_buffer() -> None:
    net = nn.Sequential(nn.Linear(3, 1), nn.BatchNorm1d(1)).eval()
    net[1].running_var.fill_(torch.nan)
    model, x, y = model_with()
    with pytest.raises(ProblemError, match="running_var"):
        NeuralMIP(model).add_predictor(net, x, y)


@pytest.mark.parametrize("bounds", [{"ub": None}, {"lb": None}, {"lb": None, "ub": None}])
def test_unbounded_inputs(bounds: dict[str, Any]) -> None:
    model, x, y = model_with(**bounds)
    with pytest.raises(ProblemError, match="unbounded: give it finite lb and ub"):
        NeuralMIP(model).add_predictor(relu_net(3), x, y)


def test_bound_removed_later() -> None:
    built = build(relu_net(3), 3)
    built.model.chgVarUb(built.x[0, 0], None)
    with pytest.raises(ProblemError, match="unbounded: give it finite lb and ub"):
        DualDecomposition(restarts=0).solve(built.problem)


def test_unknown_output_kind() -> None:
    model, x, y = model_with()
    with pytest.raises(ProblemError, match="'regression', 'classification'"):
        NeuralMIP(model).add_predictor(relu_net(3), x, y, output="classifier")


def test_class_must_be_binary() -> None:
    model, x, y = model_with()
    with pytest.raises(ProblemError, match='vtype="B"'):
        NeuralMIP(model).add_predictor(relu_net(3), x, y, output="classification")


@pytest.mark.parametrize("empty", [[], [[]], np.empty((0, 3), dtype=object)])
def test_empty_batch(empty: Any) -> None:
    model, _, y = model_with()
    with pytest.raises(ProblemError, match="inputs is empty"):
        NeuralMIP(model).add_predictor(relu_net(3), empty, y)


@pytest.mark.parametrize("number", [np.nan, np.inf, "a"])
def test_bad_plain_number(number: Any) -> None:
    model, x, y = model_with()
    with pytest.raises(ValueError, match=r"finite|called 'a'"):
        NeuralMIP(model).add_predictor(relu_net(3), [x[0, 0], number, x[0, 2]], y)


# of `_other`, a model that lives on: PySCIPOpt 5 crashes on variables of one that does not
class TestVariables:
    def test_foreign_inputs(self) -> None:
        model, _, y = model_with()
        _other, foreign, _ = model_with()
        with pytest.raises(ProblemError, match="another model"):
            NeuralMIP(model).add_predictor(relu_net(3), foreign, y)

    def test_foreign_outputs(self) -> None:
        model, x, _ = model_with()
        _other, _, foreign = model_with()
        with pytest.raises(ProblemError, match=r"output variable .* belongs to another model"):
            NeuralMIP(model).add_predictor(relu_net(3), x, foreign)

    @pytest.mark.skipif(
        PYSCIPOPT < 6, reason="PySCIPOpt 5 crashes where a deleted variable is asked for its kind"
    )
    def test_variables_deleted_before(self) -> None:
        for at in range(2):
            model = Model()
            given = [model.addVar("x", ub=1.0), model.addVar("y", lb=None)]
            model.delVar(given[at])
            with pytest.raises(
                ProblemError, match=f"{('input', 'output')[at]} variable was deleted"
            ):
                NeuralMIP(model).add_predictor(relu_net(1), [[given[0]]], [[given[1]]])

    @pytest.mark.parametrize("at", range(2))
    def test_variables_deleted_later(self, at: int) -> None:
        """SCIP reads memory that it has given back where it is asked about them."""
        model = Model()
        given = [model.addVar("x", ub=1.0), model.addVar("y", lb=None)]
        more = model.addVar("z", ub=1.0)
        problem = NeuralMIP(model)
        problem.add_predictor(relu_net(1), [[given[0]]], [[given[1]]])
        model.delVar(given[at])
        attempts: list[Callable[[], Any]] = [
            problem.instance,
            lambda: repr(problem),
            lambda: problem.add_predictor(relu_net(1), [[more]]),
            lambda: problem.set_start([[0.5]]) or problem.instance(),
            lambda: Enumeration().solve(problem),
        ]
        for attempt in attempts:
            with pytest.raises(
                ProblemError, match="was deleted from the model: build model and problem again"
            ):
                attempt()

    def test_output_used_twice(self) -> None:
        built = build(relu_net(3), 3)
        with pytest.raises(ProblemError, match="used twice"):
            built.problem.add_predictor(relu_net(3), built.x, built.y)

    def test_same_output_in_two_columns(self) -> None:
        model, x, y = model_with()
        with pytest.raises(ProblemError, match="used twice"):
            NeuralMIP(model).add_predictor(relu_net(3, q=2), x, [[y[0, 0], y[0, 0]]])

    def test_output_that_is_its_own_input(self) -> None:
        model, x, _ = model_with()
        problem = NeuralMIP(model)
        problem.add_predictor(relu_net(3), x, x[0, 0])
        with pytest.raises(ProblemError, match="form a cycle: an input of network 0, Sequential"):
            problem.instance()


class NotANumber(nn.Module):
    """Finite at some points of the box only."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shift", torch.tensor(1.5, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sqrt(x.sum(1, keepdim=True) - self.shift)


@pytest.mark.parametrize("vtype", ["B", "C"])
@pytest.mark.parametrize("penalty", [None, 1.0])
def test_network_that_is_nan_inside_the_box(vtype: str, penalty: float | None) -> None:
    built = build(NotANumber(), 3, vtype=vtype)
    with pytest.raises(ProblemError, match="NaN"):
        DualDecomposition(penalty=penalty).solve(built.problem, time_limit=LONG)


class TestModels:
    def test_no_model(self) -> None:
        with pytest.raises(TypeError, match=r"pyscipopt\.Model"):
            NeuralMIP("model")  # type: ignore[arg-type]

    def test_already_optimised(self) -> None:
        model, _, _ = model_with()
        model.optimize()
        with pytest.raises(ProblemError, match="freeTransform"):
            NeuralMIP(model)

    def test_optimised_after_the_predictor_was_added(self) -> None:
        built = build(relu_net(3), 3)
        built.model.setObjective(0)
        built.model.optimize()
        with pytest.raises(ProblemError, match="freeTransform"):
            DualDecomposition(restarts=0).solve(built.problem)
        built.model.freeTransform()
        assert DualDecomposition(max_iterations=2).solve(built.problem).found

    def test_no_predictor(self) -> None:
        with pytest.raises(ProblemError, match="add_predictor"):
            DualDecomposition(restarts=0).solve(NeuralMIP(Model()))

    def test_everything_fixed(self) -> None:
        with pytest.raises(ProblemError, match="every network input is fixed"):
            DualDecomposition(restarts=0).solve(build(relu_net(2), 2, low=1.0, high=1.0).problem)

    def test_start_of_the_wrong_shape(self) -> None:
        problem = build(relu_net(2), 2).problem
        with pytest.raises(ProblemError, match=r"\(1, 2\)"):
            problem.set_start([[0.0, 0.0, 0.0]])
        with pytest.raises(ProblemError, match="NaN"):
            problem.set_start([[0.0, np.nan]])

    def test_point_of_the_wrong_shape(self) -> None:
        problem = build(relu_net(2), 2).problem
        with pytest.raises(ProblemError, match="one for each variable"):
            problem.verify(np.zeros(2))
        with pytest.raises(ProblemError, match="no finite value"):
            problem.verify(np.full(3, np.nan))


class TestPaperSplitDoesNotExist:
    def test_row_of_an_output_and_another_variable(self) -> None:
        built = build(relu_net(2), 2)
        z = built.model.addVar("stray", ub=1.0)
        built.model.addCons(built.y[0, 0] + z <= 1)
        with pytest.raises(
            ProblemError, match="variable stray shares a constraint with a network output"
        ):
            DualDecomposition(split="paper", restarts=0).solve(built.problem)

    def test_indicator_of_a_class(self) -> None:
        built = build(relu_net(2), 2, output="classification")
        z = built.model.addVar("z", ub=1.0)
        built.model.addConsIndicator(z <= 0.5, binvar=built.y[0, 0])
        with pytest.raises(ProblemError, match="variable indslack_c1 shares a constraint"):
            DualDecomposition(split="paper", restarts=0).solve(built.problem)

    def test_fixed_variable_beside_an_output_is_a_constant(self) -> None:
        built = build(relu_net(2), 2, vtype="B")
        one = built.model.addVar(lb=1.0, ub=1.0)
        built.model.addCons(built.y[0, 0] + 50 * one <= 100)
        assert DualDecomposition(max_iterations=3).solve(built.problem).found


@pytest.mark.parametrize(
    "make",
    [
        lambda: DualDecomposition(penalty=0.0),
        lambda: DualDecomposition(penalty=-1),
        lambda: DualDecomposition(penalty=float("nan")),
        lambda: DualDecomposition(penalty=float("inf")),
        lambda: Fixed(0.0),
        lambda: Sweeps(low=0.0),
        lambda: Sweeps(low=2.0, high=1.0),
        lambda: Sweeps(lengths=()),
        lambda: Sweeps(lengths=(1,)),
        lambda: DualDecomposition(penalty=(1.0, 0.0)),
        lambda: DualDecomposition(penalty=(1.0, 1.0, 1.0)),
        lambda: DualDecomposition(split="dual"),
        lambda: DualDecomposition(multiplier_bound=0.0),
        lambda: IncreaseOnStagnation(factor=1.0),
        lambda: ResidualBalancing(ratio=0.5),
        lambda: DescentTest(sigma=0.5),
        lambda: DualDecomposition(max_iterations=0),
        lambda: DualDecomposition(primal_tolerance=0.0),
        lambda: DualDecomposition(dual_tolerance=-1.0),
        lambda: DualDecomposition(temperature=0.0),
        lambda: DualDecomposition.paper(nn_block="newton"),
        lambda: PGD(steps=0),
        lambda: PGD(method="sgd"),
        lambda: PGD(learning_rate=0.0),
        lambda: water_potability(n=2, net=relu_net(9), budget=0.0),
    ],
)
def test_values_out_of_range(make: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=r"must be|needs|needed|unknown"):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: DualDecomposition(rho=10.0),  # type: ignore[call-arg]
        lambda: DualDecomposition(max_iteration=5),  # type: ignore[call-arg]
        lambda: DualDecomposition(restarts=0).solve(build(relu_net(2), 2).problem, timelimit=1.0),  # type: ignore[call-arg]
        lambda: PGD(step=3),  # type: ignore[call-arg]
        lambda: water_potability(n=2, net=relu_net(9), budgets=1.0),  # type: ignore[call-arg]
        lambda: build(relu_net(2), 2).problem.add_predictor(
            relu_net(2), [0, 0], 0, kind="regression"
        ),  # type: ignore[call-arg]
    ],
)
def test_misspelt_keywords(make: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match="unexpected keyword"):
        make()


def test_nn_block_must_be_a_block() -> None:
    with pytest.raises(TypeError, match=r"PGD\(\)"):
        DualDecomposition(nn_block="pgd")  # type: ignore[arg-type]

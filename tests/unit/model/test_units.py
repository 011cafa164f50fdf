"""`verify` judges in the units of the problem."""

import numpy as np
import pytest
from pyscipopt import Model
from torch import nn

from ddmip_lib import NeuralMIP
from ddmip_lib.errors import ProblemError
from ddmip_lib.model.scaling import Units
from tests.builders.networks import linear


def one_input(
    net: nn.Module, ub: float = 1.0, vtype: str = "C", output: str = "regression"
) -> NeuralMIP:
    model = Model()
    x = model.addVar(vtype=vtype, ub=ub, name="x")
    y = model.addVar(
        name="y",
        vtype="B" if output == "classification" else "C",
        lb=0 if output == "classification" else None,
    )
    problem = NeuralMIP(model)
    problem.add_predictor(net, [[x]], [[y]], output)
    return problem


def point(problem: NeuralMIP, **values: float) -> np.ndarray:
    """A full assignment by names; SCIP lists whole numbers first."""
    return np.array([values[v.name] for v in problem.model.getVars()])


def test_a_class_is_that_of_the_rounded_integer() -> None:
    problem = one_input(
        linear(1.0, bias=-1.0), ub=3, vtype="I", output="classification"
    )  # 1 only from 2 on
    assert not problem.verify(point(problem, x=1 + 1e-6, y=1.0)).feasible
    assert problem.verify(point(problem, x=1 + 1e-6, y=0.0)).feasible


def test_rows_of_integers_are_not_forgiven_a_millionth() -> None:
    problem = one_input(linear(1.0), vtype="I")
    x = problem.model.getVars()[0]
    problem.model.addCons(1e8 * x <= 99999950)
    assert not problem.verify(np.array([1.0, 1.0])).feasible
    assert problem.verify(np.array([0.0, 0.0])).feasible


def test_sums_of_integers_are_forgiven_their_rounding() -> None:
    problem = one_input(linear(1.0), vtype="I")
    model = problem.model
    more = [model.addVar(name, vtype="B") for name in "ab"]
    model.addCons(0.1 * more[0] + 0.2 * more[1] <= 0.3)  # 0.1 + 0.2 > 0.3 in floating point
    assert problem.verify(point(problem, x=0.0, y=0.0, a=1.0, b=1.0)).feasible


@pytest.mark.parametrize("scale", [1e-9, 1e-4, 1.0, 1e5])
def test_outputs_are_judged_in_their_own_size(scale: float) -> None:
    problem = one_input(linear(scale))
    assert problem.verify(np.array([0.5, 0.5 * scale * (1 + 5e-7)])).feasible
    assert not problem.verify(np.array([0.5, 0.5 * scale + 3e-6 * scale])).feasible


@pytest.mark.parametrize("scale", [1e-8, 1.0])
def test_rows_and_bounds_are_judged_in_the_size_of_their_variables(scale: float) -> None:
    problem = one_input(linear(1.0), ub=scale)
    model = problem.model
    model.addCons(model.getVars()[0] - model.getVars()[1] <= 0)
    assert not problem.verify(np.array([scale + 3e-6 * scale, scale + 3e-6 * scale])).feasible
    assert problem.verify(np.array([scale * (1 + 5e-7), scale * (1 + 5e-7)])).feasible


def test_complex_numbers_are_refused() -> None:
    with pytest.raises(ProblemError, match="complex"):
        one_input(linear(1.0)).verify(np.array([0.5 + 0.1j, 0.5]))


def test_an_improvement_counts_in_the_size_of_the_objective() -> None:
    problem = one_input(linear(1e-10))
    problem.model.setObjective(problem.model.getVars()[1], "maximize")
    assert Units(problem.instance(), 1e-6).objective(0.0) == pytest.approx(1e-10)

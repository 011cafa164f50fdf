"""Lines in place of networks: slopes, elastic models, and what HiGHS and SCIP make of them."""

from __future__ import annotations

import numpy as np
import pyscipopt
import pytest
import torch
from torch import nn

from ddmip_lib import NeuralMIP
from ddmip_lib.linearisation.elastic import ElasticModel
from ddmip_lib.linearisation.tangent import linearise
from tests.builders.instances import build, relu_net
from tests.builders.networks import linear


def shared_inputs():
    """Two networks, one variable that enters both, one number, and outputs of two widths."""
    m = pyscipopt.Model()
    x = m.addMatrixVar(3, lb=-1, ub=2, name="x")
    w = m.addVar("w", ub=3)
    y = m.addMatrixVar((2, 2), lb=None, name="y")
    z = m.addMatrixVar((1, 1), lb=None, name="z")
    m.setObjective(y.sum() + z[0, 0] + w)
    problem = NeuralMIP(m)
    problem.add_predictor(
        nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 2)).eval(),
        [[x[0], x[1]], [x[1], 0.5]],
        y,
    )
    problem.add_predictor(
        nn.Sequential(nn.Linear(2, 4), nn.GELU(), nn.Linear(4, 1)).eval(), [[x[2], x[0]]], z
    )
    return problem.instance()


def test_slopes_are_those_of_finite_differences():
    torch.manual_seed(0)
    instance = shared_inputs()
    values = np.random.default_rng(1).uniform(-0.5, 0.5, instance.milp.n_variables)
    line = linearise(instance, values)

    def said(v):
        return np.concatenate([raw.ravel() for raw in instance.raw_outputs(v)])

    np.testing.assert_allclose(line.values, said(values))
    for at in range(len(values)):
        step = np.zeros(len(values))
        step[at] = 1e-6
        slope = (said(values + step) - said(values - step)) / 2e-6
        np.testing.assert_allclose(line.jacobian[:, [at]].toarray().ravel(), slope, atol=1e-8)
    np.testing.assert_allclose(line.offset + line.jacobian @ values, line.values)


def test_a_step_is_exact_where_the_network_is_linear():
    built = build(linear(2.0, -3.0, bias=1.0), 2, low=-1.0, high=1.0)
    elastic = ElasticModel(built.problem.instance())
    middle = np.zeros(elastic.milp.n_variables)
    aim = elastic.step(middle, linearise(elastic.instance, middle), 1.0, 100.0, 10.0)
    assert aim.cost == pytest.approx(1.0 - 2.0 - 3.0)
    np.testing.assert_allclose(aim.values[elastic.inputs], [-1.0, 1.0])
    assert aim.infeasibility == pytest.approx(0.0, abs=1e-9)
    half = elastic.step(
        middle, linearise(elastic.instance, middle), 0.25, 100.0, 10.0
    )  # a quarter of a range of 2
    assert half.cost == pytest.approx(1.0 - 0.5 * 5.0)


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_a_completion_says_what_does_not_fit(kind):
    built = build(linear(1.0, bias=-0.5), 1, output=kind)
    built.model.addCons(built.y[0, 0] >= 1)
    elastic = ElasticModel(built.problem.instance())
    inputs = elastic.inputs
    values = np.zeros(elastic.milp.n_variables)
    values[inputs] = 0.25  # says -0.25, class 0
    point = elastic.complete(values, 10.0, 10.0)
    unit = 1.0 if kind == "classification" else elastic.units[0]
    assert point.infeasibility * unit == pytest.approx(1.0 if kind == "classification" else 1.25)
    assert point.merit(10.0) == pytest.approx(point.cost + 10.0 * point.infeasibility)


def test_whole_inputs_move_at_most_as_far_as_they_may():
    built = build(relu_net(6), 6, vtype="I", low=0, high=5)
    elastic = ElasticModel(built.problem.instance())
    here = np.zeros(elastic.milp.n_variables)
    here[elastic.inputs] = 2.0
    for radius, most, together in ((0.1, 1, 2), (0.4, 2, 4.8)):
        aim = elastic.step(here, linearise(elastic.instance, here), radius, 100.0, 10.0)
        moves = np.abs(aim.values - here)[elastic.inputs]
        assert moves.max() <= most
        assert moves.sum() <= together


@pytest.mark.parametrize("vtype", ["B", "I", "C"])
def test_the_nearest_point_of_the_rows(vtype):
    built = build(relu_net(3), 3, vtype=vtype, low=0, high=1)
    built.model.addCons(built.x.sum() == 1)
    elastic = ElasticModel(built.problem.instance())
    target = np.zeros(elastic.milp.n_variables)
    target[elastic.inputs] = [0.9, 0.4, 0.1]
    found = elastic.nearest(target, 10.0)[elastic.inputs]
    assert found.sum() == pytest.approx(1.0)
    assert np.abs(found - target[elastic.inputs]).sum() == pytest.approx(
        0.6 if vtype != "C" else 0.4, abs=1e-6
    )


def test_scip_takes_over_where_constraints_are_no_rows():
    built = build(linear(1.0, 1.0), 2, sense="maximize", low=0, high=1)
    built.model.addCons(built.x[0, 0] * built.x[0, 0] + built.x[0, 1] * built.x[0, 1] <= 0.5)
    elastic = ElasticModel(built.problem.instance())
    here = np.zeros(elastic.milp.n_variables)
    aim = elastic.step(here, linearise(elastic.instance, here), 1.0, 100.0, 30.0)
    assert aim.cost == pytest.approx(-1.0, abs=1e-3)

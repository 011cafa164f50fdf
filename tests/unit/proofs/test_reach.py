"""Rows that no output reaches: proved at once by every solver, and never claimed of a problem that
has a point.
"""

import numpy as np
import pyscipopt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ddmip_book.networks import mlp
from ddmip_lib import (
    DualDecomposition,
    NeuralMIP,
    PriceCoordination,
    SequentialMIP,
    SingleStepGradient,
    solve,
)
from ddmip_lib.predictors import black_box
from ddmip_lib.problems import hand_sized
from ddmip_lib.proofs.ranges import infeasible_by_ranges
from tests.builders.clocks import LONG
from tests.builders.instances import lattice, relu_net


def asking(net, low, rows=2, kind="I", output="regression", coefficients=(1.0, 1.0)):
    """Integers in [-2, 2], and a row that asks at least `low` of the outputs."""
    model = pyscipopt.Model()
    x = model.addMatrixVar((rows, 2), vtype=kind, lb=-2, ub=2, name="x")
    problem = NeuralMIP(model)
    y = problem.add_predictor(net, x, output=output).outputs
    model.addCons(
        sum(c * v for c, v in zip(coefficients, y.flat, strict=True)) >= low, name="asked"
    )
    model.setObjective(x.sum())
    return problem


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6),
    st.floats(0.001, 1000.0),
    st.floats(-1.5, 1.5),
    st.booleans(),
    st.sampled_from([(1.0, 1.0), (1.0, -1.0), (-3.0, 0.5)]),
)
def test_no_problem_with_a_point_is_called_infeasible(seed, scale, share, classes, coefficients):
    net = relu_net(2, seed=seed, scale=scale)
    points = lattice(-2, 2, 2)
    said = (
        asking(net, 0.0, output="classification" if classes else "regression")
        .predictors[0]
        .predict(points)
        .ravel()
    )
    reached = (coefficients[0] * said[:, None] + coefficients[1] * said[None]).ravel()
    low = reached.max() + share * max(np.ptp(reached), 1e-3)  # some are just met, some just missed
    problem = asking(
        net, low, output="classification" if classes else "regression", coefficients=coefficients
    )
    proved = infeasible_by_ranges(problem.instance())
    assert not (proved and low <= reached.max())


@given(st.integers(0, 10**6), st.floats(-1e-7, 1e-7))
@settings(max_examples=25, deadline=None)
def test_what_verify_forgives_is_not_out_of_reach(seed, beyond):
    """With a network that says one number only, the range is a point: rows beyond it by less than
    1e-6 are met.
    """
    net = nn.Sequential(nn.Linear(2, 1)).double().eval()
    with torch.no_grad():
        net[0].weight.zero_()
        net[0].bias.fill_(float(np.random.default_rng(seed).uniform(0.5, 2.0)))
    low = 2 * net[0].bias.item()
    problem = asking(net, low * (1 + beyond))
    values = problem.instance().with_outputs(np.zeros(len(problem.model.getVars())))
    assert problem.verify(values).feasible
    assert not infeasible_by_ranges(problem.instance())


SOLVERS = {
    "dual decomposition": DualDecomposition(restarts=0),
    "graph split": DualDecomposition(split="graph", restarts=0),
    "paper": DualDecomposition.paper(),
    "single step gradient": SingleStepGradient(),
    "sequential MIP": SequentialMIP(),
    "price coordination": PriceCoordination(),
}


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_says_so_before_any_work(name):
    heard = []
    problem = asking(mlp(2, 6, 2, seed=0), 1e3)
    solution = SOLVERS[name].solve(problem, time_limit=LONG, on_point=heard.append)
    assert solution.status == "infeasible"
    assert len(heard) <= 1  # the point of the report
    assert "constraint asked is" in solution.report()
    assert "proved infeasible" in solution.report()


def test_solve_says_so_in_its_log():
    solution = solve(asking(mlp(2, 6, 2, seed=0), 1e3), time_limit=LONG)
    assert (solution.status, solution.method) == ("infeasible", "solve")
    assert [turn.method for turn in solution.details["log"]] == ["ranges"]


def test_crown_sees_what_intervals_do_not():
    """f(x) = (x_1)_+ - (x_1)_+ = 0, of which intervals know nothing."""
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)).double().eval()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
        net[0].bias.fill_(5.0)
        net[2].weight.copy_(torch.tensor([[1.0, -1.0]]))
        net[2].bias.zero_()
    assert infeasible_by_ranges(asking(net, 1.0).instance())


def test_bounds_of_outputs_count_too():
    problem = hand_sized()
    problem.model.chgVarLb(problem.predictors[0].outputs[0, 0], 10.0)
    assert DualDecomposition(restarts=0).solve(problem, time_limit=LONG).status == "infeasible"


def test_what_cannot_be_read_is_left_to_the_solver():
    problem = asking(black_box(lambda rows: rows.sum(axis=1)), 100.0)
    assert not infeasible_by_ranges(problem.instance())
    overflowing = nn.Sequential(nn.Linear(2, 1)).double().eval()
    with torch.no_grad():
        overflowing[0].weight.fill_(1e308)
    assert not infeasible_by_ranges(asking(overflowing, 0.0).instance())


def test_without_time_there_is_no_proof():
    assert (
        DualDecomposition(restarts=0).solve(asking(mlp(2, 6, 2), 1e3), time_limit=0).status
        == "time_limit"
    )

"""Networks with one free input: breakpoints, error bounds, and exact models made of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyscipopt import Model
from torch import nn

from ddmip_lib import NeuralMIP, solve
from ddmip_lib.bounds import network_graph
from ddmip_lib.methods import start_run
from ddmip_lib.proofs import breakpoints
from ddmip_lib.proofs.breakpoints import Curve, curves
from ddmip_lib.proofs.exact import exact_program
from tests.builders.clocks import LONG


class Skip(nn.Module):
    """relu(Wx + b) + x, then a layer: a sum of nodes."""

    def __init__(self, p: int) -> None:
        super().__init__()
        self.first = nn.Linear(p, p)
        self.last = nn.Linear(p, 2)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)) + x)


def network(p: int, seed: int, deep: bool) -> nn.Module:
    torch.manual_seed(seed)
    layers = [nn.Linear(p, 7), nn.ReLU(), nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 2)]
    return (nn.Sequential(*layers) if deep else Skip(p)).double().eval()


@given(st.integers(1, 4), st.integers(0, 10**6), st.booleans(), st.sampled_from([1e-3, 1.0, 1e4]))
@settings(max_examples=25, deadline=None)
def test_curves_are_the_network_up_to_their_errors(p, seed, deep, size):
    net = network(p, seed, deep)
    rng = np.random.default_rng(seed)
    low = size * rng.normal(size=(3, p))
    high = low.copy()
    column = rng.integers(p)
    high[:, column] += size * rng.uniform(0.1, 3.0, 3)
    found = curves(network_graph(net, p), low, high)
    for start, end, curve in zip(low, high, found, strict=True):
        part = np.append(np.sort(rng.random(50)), [0.0, 1.0])
        points = start + part[:, None] * (end - start)
        points[-1] = end
        values = net(torch.tensor(points)).detach().numpy()
        for unit in range(2):
            x = points[:, column]
            curved = np.interp(x, curve.ends, curve.values[:, unit])
            rounding = 1e-14 * (1 + np.abs(curve.values).max())  # of np.interp
            assert np.abs(curved - values[:, unit]).max() <= curve.error[unit] + rounding
            assert curve.error[unit] <= 1e-9 * (1 + size)
            assert values[:, unit].min() >= curve.range[0][unit]
            assert values[:, unit].max() <= curve.range[1][unit]


def test_too_many_pieces_are_left_to_the_exact_model_of_units(monkeypatch):
    monkeypatch.setattr(breakpoints, "MAX_PIECES", 3)
    graph = network_graph(network(1, 0, deep=True), 1)
    assert curves(graph, np.array([[-5.0]]), np.array([[5.0]])) is None


def one_input(n: int, budget: float, seed: int = 0) -> tuple[NeuralMIP, list[Curve]]:
    """Maximise the sum of n outputs of one network with one free input each, under a budget."""
    net = nn.Sequential(network(2, seed, deep=True), nn.Linear(2, 1).double()).eval()
    model = Model()
    x = model.addMatrixVar((n, 1), lb=-2.0, ub=2.0, name="x")
    y = model.addMatrixVar((n, 1), lb=None, name="y")
    model.addCons(x.sum() <= budget)
    model.setObjective(y.sum(), "maximize")
    problem = NeuralMIP(model)
    known = np.linspace(-1.0, 1.0, n)[:, None]
    problem.add_predictor(net, np.hstack([x, known]), y)
    low = np.hstack([np.full((n, 1), -2.0), known])
    high = np.hstack([np.full((n, 1), 2.0), known])
    return problem, curves(network_graph(net, 2), low, high)


@pytest.mark.parametrize("budget", [-1.0, 0.7])
def test_two_samples_with_a_budget_have_the_optimum_of_all_breakpoints(budget):
    """One of two piecewise linear functions is at a breakpoint, the other too or at the budget."""
    problem, (first, second) = one_input(2, budget)
    ends = [first.ends, second.ends]
    ends = [np.append(ends[k], budget - ends[1 - k]) for k in range(2)]
    ends = [x[np.abs(x) <= 2.0] for x in ends]
    one = np.interp(ends[0], first.ends, first.values[:, 0])
    two = np.interp(ends[1], second.ends, second.values[:, 0])
    allowed = np.add.outer(ends[0], ends[1]) <= budget + 1e-9
    optimum = np.add.outer(one, two)[allowed].max()
    found = solve(problem, time_limit=LONG)
    assert found.status == "optimal"
    assert found.objective == pytest.approx(optimum, abs=1e-5)


def test_the_relaxation_is_the_convex_hull_of_every_curve():
    """Without a budget the linear relaxation has the optimum of the problem."""
    problem, found = one_input(3, 100.0, seed=2)
    run = start_run(problem, LONG, 0)
    incumbent = run.incumbent()
    proved = run.prove(exact_program(run.instance, incumbent.units), max_nodes=1)
    optimum = sum(curve.values.max() for curve in found)
    assert -proved.bound == pytest.approx(optimum, abs=1e-4)


def test_a_class_of_one_input_is_exact():
    net = network(1, 3, deep=True)
    net = nn.Sequential(net, nn.Linear(2, 1).double()).eval()
    model = Model()
    x = model.addMatrixVar((1, 1), lb=-3.0, ub=3.0, name="x")
    y = model.addMatrixVar((1, 1), vtype="B", name="y")
    model.setObjective(x[0, 0] * 0.1 + y[0, 0], "maximize")
    problem = NeuralMIP(model)
    problem.add_predictor(net, x, y, output="classification")
    curve = curves(network_graph(net, 1), np.array([[-3.0]]), np.array([[3.0]]))[0]
    grid = np.linspace(-3, 3, 60_001)
    logits = np.interp(grid, curve.ends, curve.values[:, 0])
    optimum = (0.1 * grid + (logits > 0)).max()
    found = solve(problem, time_limit=LONG)
    assert found.status == "optimal"
    assert found.objective == pytest.approx(optimum, abs=1e-4)

"""Python functions as predictors: exact values, slopes by differences, no bounds."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
import torch
from pyscipopt import Model
from torch import nn

from ddmip_lib import BigM, DualDecomposition, Enumeration, NeuralMIP
from ddmip_lib.bounds import network_graph
from ddmip_lib.errors import ProblemError, UnsupportedNetworkError
from ddmip_lib.predictors import black_box
from tests.builders.clocks import LONG


def wave(rows: np.ndarray) -> np.ndarray:
    return np.stack([np.sin(rows[:, 0]) * rows[:, 1], rows[:, 1] ** 3], axis=1)


def test_values_are_exact_and_slopes_central_differences() -> None:
    net = black_box(wave, n_outputs=2, width=1e-2)
    h = 1e-2
    x = torch.tensor([[0.3, 2.0], [1.0, -1.0]], dtype=torch.float64, requires_grad=True)
    at = x.detach().numpy()
    np.testing.assert_array_equal(net(x).detach().numpy(), wave(at))
    weights = np.array([[1.0, 2.0], [-1.0, 0.5]])
    (slope,) = torch.autograd.grad(net(x), x, torch.tensor(weights))
    for j, step in enumerate(h * np.eye(2)):
        expected = ((wave(at + step) - wave(at - step)) / (2 * h) * weights).sum(axis=1)
        np.testing.assert_allclose(slope[:, j], expected, atol=1e-12)


def test_slopes_have_slopes() -> None:
    net = black_box(lambda rows: rows[:, 0] ** 2 * rows[:, 1], width=1e-2)
    x = torch.tensor([[0.5, 2.0]], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
    (curvature,) = torch.autograd.grad(slope[0, 0], x)
    np.testing.assert_allclose(curvature, [[4.0, 1.0]], atol=1e-6)


def test_the_function_is_shared_and_cannot_be_changed_by_its_rows() -> None:
    def spoils(rows: np.ndarray) -> np.ndarray:
        rows += 1
        return rows[:, 0]

    net = black_box(spoils)
    twin = copy.deepcopy(net).double()
    assert twin.function is spoils
    assert not twin.training
    x = torch.zeros(2, 1)
    assert twin(x).dtype == torch.float32
    assert x.sum() == 0
    assert repr(net).endswith("spoils, n_outputs=1, width=0.001)")


def problem_with(vtype: str = "B") -> tuple[NeuralMIP, Model]:
    """A small tree on two inputs, whose best leaf is x = (1, 0)."""
    model = Model()
    model.hideOutput()
    x = model.addMatrixVar((2, 2), vtype=vtype, ub=1, name="x")
    problem = NeuralMIP(model)
    tree = black_box(
        lambda rows: np.where(rows[:, 0] > 0.5, 3 - 2 * (rows[:, 1] > 0.5), 1.0), width=0.5
    )
    y = problem.add_predictor(tree, x).outputs
    model.setObjective(y.sum() - 0.1 * x.sum(), "maximize")
    return problem, model


def test_trees_are_solved() -> None:
    problem, _ = problem_with()
    assert Enumeration().solve(problem).objective == pytest.approx(2 * 2.9)
    followed = DualDecomposition(max_iterations=30).solve(problem, time_limit=LONG)
    assert followed.objective > 2.0  # what (0, 0) is worth: sampled slopes lead away from it
    assert problem.verify(followed).feasible


def test_bounds_and_exact_models_refuse_it_by_name() -> None:
    problem, _ = problem_with("C")
    with pytest.raises(UnsupportedNetworkError, match=r"BlackBox \(.*nothing but values is known"):
        BigM().solve(problem)
    with pytest.raises(UnsupportedNetworkError, match=r"BlackBox \(.*nothing but values is known"):
        network_graph(black_box(wave, 2), 2)


def test_bad_calls_are_refused() -> None:
    for call, error, message in (
        (lambda: black_box(3), TypeError, "function of a batch of inputs, not int"),
        (lambda: black_box(wave, 0), ValueError, "n_outputs=0"),
        (lambda: black_box(wave, 1.5), ValueError, "n_outputs=1.5"),
        (lambda: black_box(wave, width=0.0), ValueError, "width=0.0"),
        (
            lambda: black_box(wave, 1)(torch.zeros(3, 2)),
            ProblemError,
            r"maps \(3, 2\) to \(3, 2\), not to \(3, 1\)",
        ),
        (lambda: black_box(lambda rows: 1.0)(torch.zeros(1, 2)), ProblemError, r"to \(\)"),
    ):
        with pytest.raises(error, match=message):
            call()


class Tree(nn.Module):
    """A step in torch operations: no slope anywhere."""

    def forward(self, x):
        return torch.floor(2 * x).sum(dim=1, keepdim=True)


def test_a_network_of_steps_is_named_and_black_box_recommended():
    model = Model()
    x = model.addMatrixVar((3, 2), lb=0, ub=3)
    with pytest.warns(UserWarning, match="black_box"):
        NeuralMIP(model).add_predictor(Tree().eval(), x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NeuralMIP(model).add_predictor(
            black_box(lambda rows: np.floor(2 * rows).sum(axis=1), width=0.5), x
        )
        dead = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)).eval()
        with torch.no_grad():
            dead[0].bias.fill_(-100.0)
        NeuralMIP(model).add_predictor(
            dead, x
        )  # it says one number only: nothing to learn, nothing to warn of

"""What a network must not do to be a predictor, and values that are no numbers: clear errors, never
a class.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from pyscipopt import Model
from torch import Tensor, nn
from torch.nn import functional

from ddmip_book.networks import lstm
from ddmip_lib import (
    DualDecomposition,
    Enumeration,
    NeuralMIP,
    PriceCoordination,
    SequentialMIP,
    SingleStepGradient,
    Solution,
)
from ddmip_lib.errors import ProblemError
from ddmip_lib.model.network_checks import not_finite
from ddmip_lib.model.predictor import Classification
from tests.builders.clocks import LONG
from tests.builders.instances import build, relu_net
from tests.builders.networks import linear


def add(net: nn.Module) -> None:
    """The network on three inputs in [0, 1], as it is given."""
    model = Model()
    x = model.addMatrixVar((2, 3), ub=1.0)
    y = model.addMatrixVar((2, 1), lb=None)
    NeuralMIP(model).add_predictor(net, x, y)


class Own(nn.Module):
    """One layer and a forward of its own."""

    def __init__(self, forward: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(3, 1)
        self.own = forward
        self.gate = nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        return self.own(self.layer, x)


@pytest.mark.parametrize(
    ("forward", "named"),
    [
        (
            lambda layer, x: layer(functional.dropout(x)),
            "not deterministic.*training=self.training",
        ),
        (lambda layer, x: layer(x) + torch.rand(1).double(), "not deterministic"),
        (lambda layer, x: layer(x - x.mean(0)), "other samples of the batch.*stored means"),
        (lambda layer, x: layer(x.flip(0)), "other samples of the batch"),
        (
            lambda layer, x: layer(functional.batch_norm(x, None, None, training=True)),
            "every batch size.*BatchNorm",
        ),
        (
            lambda layer, x: layer(x) + torch.zeros(len(x), 3) @ layer.weight.T,
            "float64.*dtype=x.dtype",
        ),
    ],
    ids=["dropout", "noise", "centred", "turned", "normed", "float32"],
)
def test_networks_that_are_no_function_of_a_row_are_refused(
    forward: Callable[[nn.Module, Tensor], Tensor], named: str
) -> None:
    with pytest.raises(ProblemError, match=named):
        add(Own(forward).eval())


@pytest.mark.parametrize("name", ["sigmoid", "logsigmoid"])
def test_a_classifier_that_squashes_inside_forward_is_refused(name: str) -> None:
    end = getattr(functional, name)
    with pytest.raises(ProblemError, match=r"ends in (log_)?sigmoid.*without its last layer"):
        build(Own(lambda layer, x: end(layer(x)).view(-1, 1)).eval(), 3, output="classification")


def test_what_only_looks_like_probabilities_is_taken() -> None:
    build(
        Own(lambda layer, x: layer(x) ** 2 / 100).eval(), 3, output="classification"
    )  # its last module is a Sigmoid
    build(Own(lambda layer, x: torch.sigmoid(layer(x))).eval(), 3)


@pytest.mark.filterwarnings("ignore")
def test_networks_of_other_makes() -> None:
    with pytest.raises(ProblemError, match="lazy"):
        add(nn.LazyLinear(1).eval())
    old = nn.utils.weight_norm(nn.Linear(3, 1)).eval()
    old(torch.zeros(1, 3))
    with pytest.raises(ProblemError, match="parametrizations"):
        add(old)
    for net in (
        torch.jit.script(relu_net(3)),
        torch.jit.trace(relu_net(3), torch.zeros(2, 3).double()),
        lstm(1, 4, 3),
    ):
        add(net)


def test_training_on_changes_nothing() -> None:
    net = relu_net(3)
    built = build(net, 3)
    before = built.problem.predictors[0].raw(np.ones((1, 3)))
    net[0].weight.data.add_(1.0)
    assert np.array_equal(built.problem.predictors[0].raw(np.ones((1, 3))), before)


def overflowing() -> nn.Module:
    """1 - 1e200 relu(1e200 (x - 0.5)): finite for x up to 0.5."""
    net = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1)).double().eval()
    for parameter, value in zip(net.parameters(), (1e200, -0.5e200, -1e200, 1.0), strict=True):
        parameter.data.fill_(value)
    return net


def test_no_number_is_no_class() -> None:
    made = Classification(nn.Identity(), np.zeros((1, 1)), np.zeros((1, 1)), "net")
    found = made.outputs_of(np.array([[np.nan, np.inf, -np.inf, -1.0, 1.0]]))
    np.testing.assert_array_equal(found, [[np.nan, np.nan, np.nan, 0.0, 1.0]])


def test_the_layer_and_the_row_are_named() -> None:
    assert not_finite(overflowing(), np.zeros((3, 1))) == ""
    assert not_finite(overflowing(), np.array([[0.0], [1.0]])).startswith(
        "layer 2 (Linear) is NaN or infinite"
    )
    built = build(overflowing(), 1, output="classification")
    for solver in (DualDecomposition(penalty=1.0), SingleStepGradient(learning_rate=1.0)):
        built.problem.set_start([[1.0]])
        with pytest.raises(
            ProblemError, match=r"layer 2 \(Linear\) is NaN or infinite at the inputs"
        ):
            solver.solve(built.problem, time_limit=LONG)


def test_enumeration_leaves_out_points_without_a_class() -> None:
    built = build(overflowing(), 1, vtype="B", output="classification", sense="minimize")
    solution = Enumeration().solve(built.problem, time_limit=LONG)
    assert solution.objective == 1.0  # x = 1, whose logit is -inf, is no class 0


class OnItsInput(nn.Module):
    """It writes on what it is given: by torch, or by numpy, which torch does not notice."""

    def __init__(self, by_numpy: bool) -> None:
        super().__init__()
        self.by_numpy = by_numpy
        torch.manual_seed(0)
        self.layer = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        if self.by_numpy:
            x.detach().numpy()[:] *= 2.0
        else:
            x *= 2.0
        out: Tensor = self.layer(x)
        return out


@pytest.mark.parametrize(
    "net",
    [
        OnItsInput(False),
        OnItsInput(True),
        nn.Sequential(nn.ReLU(inplace=True), linear(-1.0, 0.5, 2.0)),
    ],
)
@pytest.mark.parametrize(
    "method",
    [
        lambda problem: SequentialMIP(max_failed_starts=3).solve(problem, LONG),
        lambda problem: DualDecomposition(max_iterations=2).solve(problem, np.inf),
        lambda problem: SingleStepGradient(steps=3).solve(problem, np.inf),
        lambda problem: PriceCoordination(max_rounds=2).solve(problem, np.inf),
    ],
)
def test_networks_that_write_on_their_inputs_get_copies(
    net: nn.Module, method: Callable[[NeuralMIP], Solution]
) -> None:
    built = build(net.eval(), 3, n=2, low=-1.0)
    x = np.array([[0.5, -0.5, 0.25], [1.0, 1.0, -1.0]])
    given = x.copy()
    raw = built.problem.predictors[0].raw(x)
    assert (x == given).all()
    assert np.array_equal(raw, net.double()(torch.tensor(x)).detach().numpy())
    found = method(built.problem)
    assert not found.found or built.problem.verify(found).feasible


def test_weights_on_the_meta_device_are_refused_with_a_remedy() -> None:
    weights = nn.Linear(3, 1).double().state_dict()
    net = nn.Linear(3, 1, device="meta", dtype=torch.float64).eval()
    with pytest.raises(
        ProblemError, match=r"weight weight is on the meta device.*to_empty.*load_state_dict"
    ):
        add(net)
    net = net.to_empty(device="cpu")
    net.load_state_dict(weights)
    add(net)

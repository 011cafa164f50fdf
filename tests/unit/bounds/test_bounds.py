"""Bounds of networks: what is read and refused, exact regions, exact models, slopes, splits and
rounding.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyscipopt import Model
from scipy.optimize import linprog
from torch import Tensor, nn
from torch.nn import functional

from ddmip_book.examples.embed import embed
from ddmip_book.networks import attention, conv1d, lstm, mlp, resnet
from ddmip_lib.bounds import (
    Ball,
    Bounds,
    Box,
    Graph,
    crown,
    intervals,
    network_graph,
    optimised_crown,
)
from ddmip_lib.bounds.activations import ACTIVATIONS
from ddmip_lib.errors import UnsupportedNetworkError
from ddmip_lib.problems import hand_sized_net
from tests.builders.networks import relu_layers


class OwnNet(nn.Module):
    """What people write: constants, functions and methods in forward, a residual sum, a reshape by
    sizes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.randn(4))
        self.std = nn.Parameter(1.5 + torch.rand(4))
        self.first = nn.Linear(4, 6)
        self.second = nn.Linear(6, 6)
        self.conv = nn.Conv1d(2, 3, 2, bias=False)
        self.norm = nn.BatchNorm1d(3)
        self.head = nn.Linear(6, 2)
        self.drop = nn.Dropout()

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.first((x - self.mean) / self.std))
        hidden = (
            hidden
            + self.drop(functional.leaky_relu(self.second(hidden), 0.1))
            - 0.5 * hidden.tanh()
        )
        hidden = self.norm(self.conv(hidden.view(x.shape[0], 2, -1)))
        hidden = functional.dropout(functional.relu(hidden.flatten(1)), training=self.training)
        return -(1 - self.head(hidden)) * 2 + 0


class Joined(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, x.relu()], 1)


class InputTwice(nn.Module):
    """Two ReLUs, of which the second does not depend on the first."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return x.relu().sum(1, keepdim=True) - self.first(x).relu().sum(1, keepdim=True)


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        return hidden.relu_() + hidden


def batch_norm(features: int) -> nn.Module:
    norm = nn.BatchNorm1d(features)
    norm.running_mean.copy_(torch.randn(features))  # type: ignore[union-attr]
    norm.running_var.copy_(0.5 + torch.rand(features))  # type: ignore[union-attr]
    return norm


def deep_sequential() -> nn.Module:
    inner = nn.Sequential(nn.Linear(4, 5, bias=False), batch_norm(5), nn.ReLU(), nn.Dropout(0.5))
    return nn.Sequential(
        nn.Identity(),
        inner,
        nn.Linear(5, 5),
        nn.Tanh(),
        nn.Linear(5, 3),
        nn.Sigmoid(),
        nn.Linear(3, 2),
    )


def prelu(*slopes: float) -> nn.PReLU:
    """A PReLU with these slopes, one for each channel."""
    layer = nn.PReLU(len(slopes))
    layer.weight.data.copy_(torch.tensor(slopes))
    return layer


def parametric() -> nn.Module:
    """PReLUs with one slope for each unit, for each channel and for all, some of them negative."""
    return nn.Sequential(
        nn.Linear(4, 4),
        prelu(-1.5, 0.25, 0.0, 3.0),
        nn.Unflatten(1, (2, 2)),
        nn.Conv1d(2, 3, 2, padding=1),
        prelu(-1.0, 0.1, 1.0),
        nn.Flatten(),
        nn.Linear(9, 3),
        prelu(-0.5),
        nn.Linear(3, 1),
    )


def image_net() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)),
        nn.Conv2d(1, 2, 2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(18, 1),
    )


NETS = {
    "mlp": lambda: mlp(3, 8, 4, n_out=2),
    "convolution": lambda: conv1d(2, 3, 4),
    "residual": lambda: resnet(2, 5, 4, n_out=2),
    "sequential": deep_sequential,
    "own": OwnNet,
    "linear": lambda: nn.Linear(4, 2),
    "relu last": lambda: nn.Sequential(nn.Linear(4, 3), nn.ReLU()),
    "leaky": lambda: nn.Sequential(nn.Linear(4, 6), nn.LeakyReLU(0.2), nn.Linear(6, 1)),
    "leaky, negative slope": lambda: nn.Sequential(nn.Linear(4, 3), nn.LeakyReLU(-0.7)),
    "parametric": parametric,
    "one unit": lambda: nn.Sequential(nn.Linear(4, 1), nn.ReLU(), nn.Linear(1, 1)),
    "image": image_net,
    "joined": Joined,
    "in place": InPlace,
    "relu first": lambda: nn.Sequential(nn.ReLU(), nn.Linear(4, 1)),
}


@pytest.mark.parametrize("name", NETS)
def test_the_graph_computes_the_network_and_bounds_enclose_it_without_tolerance(name: str) -> None:
    torch.manual_seed(1)
    net = NETS[name]().eval()
    graph = network_graph(net, 4)
    exact = net.double()  # a float32 network is read as its weights say
    rng = np.random.default_rng(0)
    centre = torch.tensor(rng.normal(size=(3, 4)))
    box = Box(centre - 1.0, centre + 0.5)
    ball = Ball(
        box.lower,
        box.upper,
        centre,
        1.0,
        torch.tensor(rng.uniform(0, 2, (3, 4))),
        torch.tensor([0.0, 0.5, 2.0]),
    )
    points = box.lower + torch.tensor(rng.uniform(size=(300, 3, 4))) * 1.5
    with torch.no_grad():
        assert torch.allclose(graph(points[:, 0]), exact(points[:, 0]), rtol=1e-12, atol=1e-12)
        for region, inside in (
            (box, points),
            (ball, ball.argsmallest(torch.randn(3, 300, 4).double()).transpose(0, 1)),
        ):
            values = exact(inside.reshape(-1, 4)).reshape(300, 3, -1)
            check_encloses(crown(graph, region), inside, values)
            check_encloses(intervals(graph, region), inside, values)
            check_encloses(optimised_crown(graph, region, 3, 2), inside, values)


def check_encloses(bounds: Bounds, points: Tensor, values: Tensor) -> None:
    """Bounds and linear bounds hold for the values of a network at some points."""
    assert (bounds.lower <= values).all()
    assert (values <= bounds.upper).all()
    for (coef, const), sign in ((bounds.lower_linear, 1.0), (bounds.upper_linear, -1.0)):
        form = torch.einsum("nqp,snp->snq", coef, points) + const
        assert (sign * (values - form) >= 0).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_the_bounds_of_one_prelu_are_those_of_its_ends_and_its_kink(seed: int) -> None:
    rng = np.random.default_rng(seed)
    slopes = 10.0 ** rng.uniform(-2, 2) * rng.normal(size=3)
    low = rng.normal(size=3)
    high = low + rng.exponential(size=3)
    layer = prelu(*slopes).double()
    slopes = layer.weight.numpy(force=True)
    graph = network_graph(layer, 3)
    box = Box(torch.tensor(low)[None], torch.tensor(high)[None])
    ends = [np.where(a > 0, a, slopes * a) for a in (low, high, np.clip(0.0, low, high))]
    smallest = np.min(ends, axis=0)
    largest = np.max(ends, axis=0)
    for bounds in (intervals(graph, box), crown(graph, box), optimised_crown(graph, box)):
        assert (bounds.lower[0].numpy() <= smallest).all()
        assert (bounds.upper[0].numpy() >= largest).all()
        if (
            bounds.slopes is not None
        ):  # the chord is above a convex function and below a concave one
            convex = slopes <= 1
            assert bounds.upper[0][convex].numpy() == pytest.approx(
                largest[convex], rel=1e-9, abs=1e-9
            )
            assert bounds.lower[0][~convex].numpy() == pytest.approx(
                smallest[~convex], rel=1e-9, abs=1e-9
            )


def test_adjacent_affine_maps_are_merged() -> None:
    net = nn.Sequential(
        nn.Linear(2, 3), batch_norm(3), nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 2), nn.Linear(2, 1)
    ).eval()
    assert [type(node).__name__ for node in network_graph(net, 2).nodes] == [
        "Input",
        "Affine",
        "Elementwise",
        "Affine",
    ]


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.first(x)


class Pair(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, x / 2


class Branching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("net", "named"),
    [
        (lstm(1, 4, 4), "LSTM"),
        (attention(1, 4, 4), "LayerNorm.*softmax"),
        (
            nn.Sequential(nn.Unflatten(1, (1, 4)), nn.MaxPool1d(2), nn.Flatten(), nn.Linear(2, 1)),
            "MaxPool1d",
        ),
        (nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Softmax(1)), "GELU, Softmax"),
        (nn.MultiheadAttention(4, 1), "MultiheadAttention"),
        (Gated(), "mul of two layers"),
        (Pair(), "output that is no tensor"),
        (Branching(), "Branching .*control flow by data"),
        (nn.BatchNorm1d(4, track_running_stats=False), "without running statistics"),
    ],
)
def test_other_networks_are_refused_by_name(net: nn.Module, named: str) -> None:
    with pytest.raises(UnsupportedNetworkError, match=named):
        network_graph(net, 4)


@pytest.mark.parametrize("p", [1, 2, 6])
def test_the_smallest_value_over_a_ball_is_that_of_linear_programming(p: int) -> None:
    rng = np.random.default_rng(p)
    n = 12
    k = 3
    centre = rng.normal(size=(n, p))
    lower = centre - rng.uniform(0, 1, (n, p))
    upper = centre + rng.uniform(0, 1, (n, p))
    up, down = (
        rng.uniform(0, 2, (n, p)) * (rng.random((n, p)) < 0.8) for _ in range(2)
    )  # some have no price
    radius = rng.uniform(0, 1.5, n) * (rng.random(n) < 0.8)
    coef = rng.normal(size=(n, k, p)) * (rng.random((n, k, p)) < 0.8)
    ball = Ball(*map(torch.tensor, (lower, upper, centre, up, down, radius)))
    found = ball.smallest(torch.tensor(coef)).numpy()
    points = ball.argsmallest(torch.tensor(coef)).numpy()
    for i in range(n):
        moves = [(0, b) for b in [*(upper - centre)[i], *(centre - lower)[i]]]
        for j in range(k):
            exact = linprog(
                [*coef[i, j], *-coef[i, j]],
                A_ub=[[*up[i], *down[i]]],
                b_ub=[radius[i]],
                bounds=moves,
            )
            assert found[i, j] == pytest.approx(exact.fun + coef[i, j] @ centre[i], abs=1e-9)
            moved = points[i, j] - centre[i]
            assert (
                up[i] @ np.maximum(moved, 0) + down[i] @ np.maximum(-moved, 0) <= radius[i] + 1e-12
            )
    around = ball.box()
    unit = torch.eye(p).double().expand(n, p, p)
    assert torch.allclose(around.lower, ball.smallest(unit), atol=1e-12)
    assert torch.allclose(around.upper, -ball.smallest(-unit), atol=1e-12)
    assert (
        (around.lower <= ball.argsmallest(unit).amin(1))
        & (around.upper >= ball.argsmallest(-unit).amax(1))
    ).all()


def test_regions_refuse_what_is_none() -> None:
    zero = torch.zeros(1, 2)
    one = torch.ones(1, 2)
    for wrong in ((one, zero), (zero, torch.inf * one), (zero[0], one[0])):
        with pytest.raises(ValueError, match="box"):
            Box(*wrong)
    with pytest.raises(ValueError, match="weights and radius"):
        Ball(zero, one, zero, -1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="centre"):
        Ball(zero, one, 2 * one, 1.0, 1.0, 1.0)


@pytest.mark.parametrize("kind", ACTIVATIONS)
@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 30.0])
def test_lines_enclose_the_activation(kind: str, scale: float) -> None:
    rng = np.random.default_rng(3)
    middle, half = (torch.tensor(rng.normal(size=500)) * scale for _ in range(2))
    low = middle - half.abs()
    high = middle + half.abs()
    lines = ACTIVATIONS[kind].linear_bounds(low, high)
    a = torch.minimum(
        torch.maximum(low + torch.linspace(0, 1, 101).double()[:, None] * (high - low), low), high
    )
    value = getattr(torch, kind)(a)
    assert (lines.below * a + lines.below_shift <= value).all()
    assert (value <= lines.above * a + lines.above_shift).all()
    gap = torch.stack(
        [value - lines.below * a - lines.below_shift, lines.above * a + lines.above_shift - value]
    )
    assert (gap.amin(1) < 2e-2 * scale + 1e-12).all()  # and they touch it
    assert ((lines.below >= 0) & (lines.above <= 1)).all()


SMALL_NETS: dict[str, Callable[[int], nn.Module]] = {
    "mlp": lambda depth: mlp(depth, 4, 3),
    "residual": lambda depth: resnet(depth, 3, 3),
    "convolution": lambda depth: conv1d(depth, 1, 3),
    "leaky": lambda _: nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(0.3), nn.Linear(4, 1)),
    "parametric": lambda _: nn.Sequential(
        nn.Linear(3, 4), prelu(-0.8, 0.2, 1.5, 0.5), nn.Linear(4, 1)
    ),
}


def largest_output(graph: Graph, bounds: Bounds) -> float:
    """The largest output over the unit box by the exact model, with a binary for each unit whose
    sign bounds leave open; the network itself has it where the model does.
    """
    model = Model()
    model.hideOutput()
    x = [model.addVar(lb=-1.0, ub=1.0) for _ in range(3)]
    (y,) = embed(model, x, graph, bounds, row=1)
    switches = [(bounds.nodes[i][0][1] < 0) & (bounds.nodes[i][1][1] > 0) for i in graph.hidden]
    assert model.getNBinVars() == sum(int(s.sum()) for s in switches)
    model.setObjective(y, "maximize")
    model.optimize()
    at = torch.tensor([[model.getVal(v) for v in x]]).double()
    assert graph(at).item() == pytest.approx(model.getObjVal(), abs=1e-5)
    return model.getObjVal()


@pytest.mark.parametrize(
    ("name", "depth"),
    [("mlp", 2), ("residual", 1), ("convolution", 2), ("leaky", 1), ("parametric", 1)],
)
def test_the_exact_model_is_exact_and_lies_within_the_bounds(name: str, depth: int) -> None:
    torch.manual_seed(2)
    chosen = SMALL_NETS[name](depth)
    for parameter in chosen.parameters():
        parameter.data.mul_(2.0)
    graph = network_graph(chosen, 3)
    box = Box(torch.full((2, 3), -1.0), torch.ones(2, 3) * torch.tensor([[0.2], [1.0]]))
    plain = crown(graph, box)
    better = optimised_crown(graph, box, 30, 10)
    wide = intervals(graph, box)
    points = torch.cat([torch.cartesian_prod(*[torch.linspace(-1, 1, 21).double()] * 3)])
    seen = graph(points).max().item()
    for bounds in (plain, wide):
        best = largest_output(graph, bounds)
        assert seen <= best + 1e-5
        assert best <= better.upper[1].item() + 1e-5
    ends = [best, better.upper[1].item(), plain.upper[1].item(), wide.upper[1].item()]
    assert ends[1] <= ends[2] <= ends[3], ends
    assert plain.lower[1] >= wide.lower[1]


def test_the_exact_model_refuses_what_is_not_linear() -> None:
    graph = network_graph(nn.Sequential(nn.Linear(1, 1), nn.Tanh()), 1)
    box = Box(torch.zeros(1, 1), torch.ones(1, 1))
    with pytest.raises(UnsupportedNetworkError, match="tanh"):
        embed(Model(), [Model().addVar()], graph, crown(graph, box))


def test_activations_on_which_a_node_does_not_depend_take_no_steps() -> None:
    graph = network_graph(InputTwice(), 4)
    box = Box(-torch.ones(1, 4), torch.ones(1, 4))
    found = optimised_crown(graph, box)
    plain = crown(graph, box)
    assert (found.lower >= plain.lower).all()
    assert (found.upper <= plain.upper).all()


def test_optimised_slopes_reach_the_linear_relaxation() -> None:
    graph = network_graph(hand_sized_net(), 2)
    box = Box(torch.zeros(1, 2), torch.ones(1, 2))
    assert crown(graph, box).upper.item() == pytest.approx(4.25)
    assert optimised_crown(graph, box, steps=200, rate=0.03).upper.item() == pytest.approx(
        25 / 8, abs=1e-3
    )
    fixed = [torch.full((1, 3), 0.25).double()]
    assert crown(graph, box, slopes=fixed).upper.item() == pytest.approx(25 / 8)


def random_splits(
    graph, signs: list[Tensor], share: float, rng: np.random.Generator
) -> list[Tensor]:  # type: ignore[no-untyped-def]
    return [torch.tensor(rng.random(sign.shape) < share) * sign for sign in signs]


def test_splits_hold_where_their_units_are_so_and_multipliers_help() -> None:
    rng = np.random.default_rng(5)
    net = mlp(3, 8, 3, seed=2)
    for parameter in net.parameters():
        parameter.data.mul_(2.0)
    graph = network_graph(net, 3)
    points = torch.tensor(rng.uniform(-1, 1, (20000, 3)))
    values = graph.values(points)
    rows = 6
    box = Box(-torch.ones(rows, 3), torch.ones(rows, 3))
    signs = [(2 * (values[i][:rows] > 0) - 1) for i in graph.hidden]
    splits = random_splits(graph, signs, 0.3, rng)
    whole = optimised_crown(graph, box)
    plain = crown(graph, box, splits=splits)
    better = optimised_crown(graph, box, splits=splits, known=whole.nodes)
    cheap = optimised_crown(
        graph, box, splits=splits, known=whole.nodes, tighten=False, start=whole.slopes
    )
    assert not plain.empty.any()
    for row in range(rows):
        agrees = torch.stack(
            [(s[row] * values[i] >= 0).all(1) for s, i in zip(splits, graph.hidden, strict=True)]
        ).all(0)
        assert agrees.sum() > 1
        for bounds in (plain, better, cheap):
            for (low, high), value in zip(bounds.nodes, values, strict=True):
                assert ((low[row] <= value[agrees]) & (value[agrees] <= high[row])).all()
    assert (better.upper <= whole.upper).all()
    assert better.upper.mean() < plain.upper.mean()
    assert (cheap.upper < whole.upper).any()


def test_contradictory_splits_are_empty() -> None:
    net = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1))
    net[0].weight.data = torch.tensor([[1.0], [1.0]])
    net[0].bias.data = torch.tensor([5.0, 0.0])
    graph = network_graph(net, 1)
    box = Box(-torch.ones(3, 1), torch.ones(3, 1))
    bounds = crown(graph, box, splits=[torch.tensor([[-1, 0], [1, 1], [0, -1]])])
    assert bounds.empty.tolist() == [True, False, False]
    assert bounds.lower[0] == torch.inf
    assert bounds.upper[0] == -torch.inf
    assert bounds[1:].lower.isfinite().all()
    assert [end[2].tolist() for end in bounds.nodes[1]] == [
        pytest.approx([4.0, -1.0]),
        pytest.approx([6.0, 0.0]),
    ]


def test_multipliers_use_the_split_beyond_its_unit() -> None:
    """Of f = (x)_+ - (x - 1/2)_+ on [-1, 1] with the first unit off: x <= 0, so the second is off,
    and f = 0.
    """
    net = relu_layers(([[1.0], [1.0]], [0.0, -0.5]), ([[1.0, -1.0]], [0.0])).float()
    graph = network_graph(net, 1)
    box = Box(-torch.ones(1, 1), torch.ones(1, 1))
    splits = [torch.tensor([[-1, 0]])]
    assert crown(graph, box, splits=splits).lower.item() == pytest.approx(-0.5)
    # the chord -(x + 1)/4, with the multiplier 1/4 for x <= 0
    assert optimised_crown(
        graph, box, steps=60, rate=0.05, splits=splits
    ).lower.item() == pytest.approx(-0.25, abs=1e-3)


def test_rows_are_independent_and_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = network_graph(resnet(2, 6, 3, n_out=2), 3)
    centre = torch.tensor(np.random.default_rng(1).normal(size=(7, 3)))
    ball = Ball(centre - 1, centre + 1, centre, 1.0, 2.0, torch.linspace(0, 2, 7))
    splits = [
        torch.zeros(7, node.units, dtype=torch.int64)
        for node in graph.nodes
        if hasattr(node, "kind")
    ]
    wholes = [crown(graph, ball, splits=splits), optimised_crown(graph, ball, 3, 2)]
    monkeypatch.setattr(
        importlib.import_module("ddmip_lib.bounds.crown"), "CHUNK_ENTRIES", 2 * 6 * 6 * 3
    )
    for whole, part in zip(
        wholes, [crown(graph, ball, splits=splits), optimised_crown(graph, ball, 3, 2)], strict=True
    ):
        assert torch.allclose(whole.upper, part.upper, atol=1e-10)
        assert torch.allclose(whole.lower_linear[0], part.lower_linear[0], atol=1e-10)
        assert torch.allclose(whole.nodes[3][0], part.nodes[3][0], atol=1e-10)
        picked = whole[torch.tensor([1, 4])]
        assert torch.equal(picked.nodes[2][1], whole.nodes[2][1][[1, 4]])


def test_the_outward_push_is_tiny() -> None:
    graph = network_graph(mlp(6, 64, 9, seed=3), 9)
    point = torch.tensor(np.random.default_rng(0).normal(size=(4, 9)))
    bounds = crown(graph, Box(point, point))
    value = graph(point)
    assert (bounds.lower < value).all()
    assert (value < bounds.upper).all()
    assert (bounds.upper - bounds.lower).max() < 1e-11

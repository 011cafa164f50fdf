"""Networks read by running them: what they do is in the graph, and what the graph cannot hold is
refused by name.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from ddmip_lib.bounds import Ball, Box, crown, intervals, network_graph, optimised_crown
from ddmip_lib.bounds.graph import Node
from ddmip_lib.bounds.reader import is_plain, traced_run
from ddmip_lib.errors import UnsupportedNetworkError

Forward = Callable[["Net", Tensor], Tensor]


class Net(nn.Module):
    """Two layers, a ReLU in place, a buffer, and a forward of its own."""

    def __init__(self, forward: Forward) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.own = forward
        self.a = nn.Linear(4, 4)
        self.c = nn.Linear(4, 4)
        self.act = nn.ReLU(inplace=True)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return self.own(self, x)


def changed_in_place(net: Net, x: Tensor) -> Tensor:
    h = net.a(x)
    return net.act(h) + h + net.c(x)


def view_changed(net: Net, x: Tensor) -> Tensor:
    h = net.a(x)
    h.view(-1, 2, 2).relu_()
    return h


def entry_set(net: Net, x: Tensor) -> Tensor:
    h = net.a(x)
    h[:, 0] = 0.0
    return h


def written_elsewhere(net: Net, x: Tensor) -> Tensor:
    h = net.a(x)
    torch.add(net.c(x), 1.0, out=h)
    return h


def reshaped_in_place(net: Net, x: Tensor) -> Tensor:
    return net.a(x).unsqueeze_(1).flatten(1)


def caught(net: Net, x: Tensor) -> Tensor:
    try:
        return net.a(x) * x[0, 0].item()
    except Exception:
        return net.a(x)


READ: dict[str, Forward] = {
    "in place": changed_in_place,
    "in place, twice": lambda net, x: net.c(net.a(x)).add_(1).mul_(2),
    "joined": lambda net, x: torch.cat([net.a(x), x.relu()], 1),
    "parts": lambda net, x: sum(net.a(x).chunk(2, 1)) - x[:, 1:3],  # type: ignore[arg-type,return-value]
    "turned": lambda net, x: net.a(x.flip(1)).view(-1, 2, 2).transpose(1, 2).flatten(1),
    "mean of a row": lambda net, x: net.a(x).relu().mean(1, keepdim=True),
    "spread": lambda net, x: net.a(x)[:, :1] * torch.arange(4).double() + x,
    "3d linear": lambda net, x: net.c(torch.stack([net.a(x), x], 1)).flatten(1),
    "constants of its size": lambda net, x: net.a(x) + torch.ones_like(x) - x.new_zeros(4),
    "dropout off": lambda net, x: functional.dropout(net.a(x), training=net.training),
    "detached": lambda net, x: 1 - net.a(x.detach()) / 3,
}


@pytest.mark.parametrize("name", READ)
def test_what_forward_does_is_in_the_graph(name: str) -> None:
    net = Net(READ[name]).eval()
    net.a.bias.data += 3
    graph = network_graph(net, 4)
    exact = copy.deepcopy(net).double()
    x = torch.tensor(np.random.default_rng(0).normal(size=(50, 4)))
    box = Box(-torch.ones(1, 4), torch.ones(1, 4))
    with torch.no_grad():
        assert torch.allclose(graph(x), exact(x.clone()), rtol=1e-12, atol=1e-12)
        values = exact(x.clamp(-1, 1))
    found = crown(graph, box)
    assert (found.lower <= values).all()
    assert (values <= found.upper).all()


REFUSED: dict[str, tuple[Forward, str]] = {
    "input in place": (lambda net, x: net.a(x.relu_()), "in place, on the input"),
    "view in place": (view_changed, "in place.*another name or view"),
    "data in place": (
        lambda net, x: (h := net.a(x), h.data.relu_())[0],
        "in place.*another name or view",
    ),
    "entry set": (entry_set, "in place"),
    "written elsewhere": (written_elsewhere, "into another tensor"),
    "reshaped in place": (reshaped_in_place, "in place"),
    "buffer": (lambda net, x: net.a(x) + net.count.add_(1), "parameter or buffer changed"),
    "layer into buffer": (
        lambda net, x: net.a(x) + net.count.copy_(x[0, :1]),
        "into another tensor",
    ),
    "dropout": (lambda net, x: functional.dropout(net.a(x)), "bernoulli_, which is random"),
    "noise": (lambda net, x: net.a(x) + torch.rand_like(x), "rand_like, which is random"),
    "hidden noise": (lambda net, x: net.a(x) + torch.rand(4).double(), "random"),
    "centred": (lambda net, x: net.a(x - x.mean(0)), "samples that influence"),
    "rows turned": (lambda net, x: net.a(x.flip(0)), "samples that influence"),
    "rows summed": (lambda net, x: net.a(x) + x.sum(), "samples that influence"),
    "counted": (lambda net, x: net.a(x) * len(x), "number of samples"),
    "numbered": (
        lambda net, x: net.a(x) * torch.arange(len(x)).double()[:, None],
        "same for every sample",
    ),
    "item": (lambda net, x: net.a(x) * x[0, 0].item(), "control flow by data"),
    "item, caught": (caught, "control flow by data"),
    "list": (lambda net, x: net.a(x) + x.tolist()[0][0], "control flow by data"),
    "numpy": (lambda net, x: net.a(x) + float(x.numpy()[0, 0]), "control flow by data"),
    "if": (lambda net, x: net.a(x) if (x > 0).all() else x, "control flow by data"),
    "float32": (lambda net, x: net.a(x).float().double(), "another precision"),
    "product": (lambda net, x: net.a(x) * x, "mul of two layers"),
    "function": (lambda net, x: functional.softplus(net.a(x)), r"Net \(softplus\)"),
    "nothing of x": (
        lambda net, x: torch.zeros(len(x), 1).double(),
        "does not come from the input",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_graph_cannot_hold_is_refused_by_name(name: str) -> None:
    forward, named = REFUSED[name]
    with pytest.raises(UnsupportedNetworkError, match=named):
        network_graph(Net(forward).eval(), 4)


@pytest.mark.filterwarnings("ignore")
def test_hooks_are_refused_and_parametrizations_and_scripts_are_read() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1)).eval()
    x = torch.tensor(np.random.default_rng(0).normal(size=(9, 4)))
    twin = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 2)), nn.Tanh())
    for read in (torch.jit.script(net), torch.jit.trace(net, torch.zeros(2, 4)), twin):
        with torch.no_grad():
            expected = copy.deepcopy(read).double()(x)
        assert torch.allclose(network_graph(read, 4)(x), expected, rtol=1e-12, atol=1e-12)
    net[2].register_forward_hook(lambda module, args, out: out + 1)
    with pytest.raises(UnsupportedNetworkError, match=r"hook of Linear 2: remove it"):
        network_graph(net, 4)
    old = nn.utils.weight_norm(nn.Linear(4, 2))
    with pytest.raises(UnsupportedNetworkError, match="parametrizations"):
        network_graph(old, 4)


def test_reading_leaves_the_network_and_torch_as_they_were() -> None:
    net = Net(lambda net, x: net.a(x).softmax(1)).eval()
    before = copy.deepcopy(net.state_dict())
    with pytest.raises(UnsupportedNetworkError, match="softmax"):
        network_graph(net, 4)
    assert all(torch.equal(before[name], part) for name, part in net.state_dict().items())
    assert not torch.nn.modules.module._global_forward_hooks
    assert not torch.nn.modules.module._global_forward_pre_hooks
    assert traced_run(net.double(), 4).last == "softmax"


class RandomNet(nn.Module):
    """Layers in an order drawn at random: each takes one or two of the values so far, some work in
    place.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        rng = np.random.default_rng(seed)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(rng.integers(1, 4)))
        self.norm = nn.BatchNorm1d(4)
        self.norm.running_mean.uniform_(-1, 1)  # type: ignore[union-attr]
        self.steps = [
            (int(rng.integers(12)), *rng.random(2).tolist()) for _ in range(rng.integers(2, 9))
        ]

    def forward(self, x: Tensor) -> Tensor:
        values = [x]
        for kind, first, second in self.steps:
            one = values[int(first * len(values))]
            two = values[int(second * len(values))]
            made = one + 0
            if kind < 3:
                made = self.layers[int(second * len(self.layers))](one)
            elif kind < 9:
                made = (
                    one.relu(),
                    functional.leaky_relu(one, 0.3),
                    one.tanh(),
                    one.sigmoid(),
                    one - 0.5 * two,
                    self.norm(one),
                )[kind - 3]
            elif kind == 9:
                made.relu_()
                made += two
            elif kind == 10:
                made = torch.cat([one[:, 2:], two.flip(1)[:, :2]], 1)
            else:
                made = (
                    one.view(-1, 2, 2).transpose(1, 2) * torch.tensor([1.0, -2.0]).double()
                ).flatten(1) / 3
            values.append(made)
        return values[-1]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_random_networks_equal_their_graphs_and_stay_within_bounds(seed: int) -> None:
    stays_within(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 10_000, 500))
def test_ten_thousand_networks(first: int) -> None:
    for seed in range(first, first + 500):
        stays_within(seed)


def stays_within(seed: int) -> None:
    """The graph of a random network says what the network says, and its bounds hold at 120 points
    of three boxes.
    """
    net = RandomNet(seed).eval()
    graph = network_graph(net, 4)
    exact = net.double()
    rng = np.random.default_rng(seed)
    centre = rng.normal(size=(3, 4))
    half = rng.random((3, 4))
    points = torch.tensor(centre + half * rng.uniform(-1, 1, (40, 3, 4)))
    with torch.no_grad():
        values = exact(points.reshape(-1, 4)).reshape(40, 3, -1)
    assert torch.allclose(graph(points), values, rtol=1e-12, atol=1e-12)
    for bound in (crown, intervals):
        found = bound(graph, Box(torch.tensor(centre - half), torch.tensor(centre + half)))
        assert (found.lower <= values).all()
        assert (values <= found.upper).all()


def scaled(*weights: float) -> nn.Module:
    """ReLU layers of one unit with these weights; the last has none behind it."""
    layers: list[nn.Module] = []
    for weight in weights:
        linear = nn.Linear(1, 1).double()
        linear.weight.data.fill_(weight)
        linear.bias.data.fill_(0.0)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1]).eval()


@pytest.mark.parametrize("weights", [(1e200, -1e200), (1e-200, 1e200, 1e200), (1e130, 1.0)])
def test_weights_too_large_or_small_for_products_are_refused_by_layer(
    weights: tuple[float, ...],
) -> None:
    with pytest.raises(UnsupportedNetworkError, match=r"Linear \(weights whose size .*rescale"):
        network_graph(scaled(*weights), 1)


def test_merged_matrices_are_looked_at_too() -> None:
    net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)).double()
    for layer in net:
        layer.weight.data.fill_(1e-100)  # type: ignore[union-attr,operator]
    with pytest.raises(UnsupportedNetworkError, match="product"):
        network_graph(net, 1)


def test_products_that_vanish_leave_the_bounds_sound() -> None:
    """1e-110 three times is 0 in floating point; 1e100 three times behind it makes the
    value 1e-30.
    """
    graph = network_graph(scaled(*[1e-110] * 3, *[1e100] * 3), 1)
    one = torch.ones(1, 1)
    for found in (intervals(graph, Box(one, one)), crown(graph, Box(one, one))):
        assert found.lower.item() <= 1e-30 <= found.upper.item()


def test_what_overflows_is_an_error_that_names_the_layer() -> None:
    graph = network_graph(scaled(*[1e100] * 4), 1)
    one = torch.ones(1, 1)
    for bound in (crown, intervals, optimised_crown):
        with pytest.raises(
            UnsupportedNetworkError, match=r"node 7 .*layer Linear 6\) is not finite.*rescale"
        ):
            bound(graph, Box(-one, one))


def test_slopes_and_prices_that_bounds_cannot_use_are_refused() -> None:
    graph = network_graph(scaled(1.0, 1.0), 1)
    one = torch.ones(1, 1)
    for slope in (-0.1, 1.1, torch.nan):
        with pytest.raises(ValueError, match=r"\[0, 1\]"):
            crown(graph, Box(-one, one), slopes=[slope * one])
        with pytest.raises(ValueError, match=r"\[0, 1\]"):
            optimised_crown(graph, Box(-one, one), start=[slope * one[None]])
    with pytest.raises(ValueError, match="rescale"):
        Ball(-1e10 * one, 1e10 * one, 0 * one, 1e300, 1e300, 1e300)
    ball = Ball(-one, one, 0 * one, 0.1, 0.1, 0.05)
    assert ball.up.item() == 0.1  # numbers are taken in full precision


class Wrapped(nn.Module):
    """What is plain inside is not so as a part of another module: it is traced."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


def differing(one: Node, other: Node) -> list[str]:
    """Names of the attributes of one node that are not equal to those of another one."""
    theirs = vars(other)
    names = []
    for name, value in vars(one).items():
        equal = torch.equal if isinstance(value, Tensor) else operator.eq
        if not equal(value, theirs[name]):
            names.append(name)
    return names


@pytest.mark.parametrize("bias", [True, False])
def test_a_plain_network_read_by_hand_is_the_one_that_torch_would_have_us_trace(bias: bool) -> None:
    torch.manual_seed(0)
    act = nn.ReLU()
    inner = nn.Sequential(nn.Linear(3, 4, bias=bias), nn.Tanh(), nn.Linear(4, 4, bias=bias), act)
    net = nn.Sequential(
        nn.Linear(4, 3, bias=bias), act, inner, nn.Sigmoid(), nn.Linear(4, 2, bias=bias)
    )
    assert is_plain(net)
    assert not is_plain(Wrapped(net))
    by_hand = network_graph(net, 4)
    traced = network_graph(Wrapped(net), 4)
    assert [type(node) for node in by_hand.nodes] == [type(node) for node in traced.nodes]
    for one, other in zip(by_hand.nodes, traced.nodes, strict=True):
        assert set(differing(one, other)) <= {"layer"}, type(one).__name__
    last = traced_run(net.double(), 4).last
    assert last == traced_run(Wrapped(net).double(), 4).last == ("addmm" if bias else "mm")


def hooked(layer: nn.Module) -> nn.Module:
    layer.register_forward_hook(lambda *_: None)
    return layer


def replaced(layer: nn.Module) -> nn.Module:
    layer.forward = lambda x: 2 * x  # type: ignore[method-assign]
    return layer


class Doubled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


@pytest.mark.parametrize(
    "layer",
    [
        hooked(nn.Linear(2, 2)),
        replaced(nn.Linear(2, 2)),
        Doubled(2, 2),
        nn.ReLU(inplace=True),
        nn.Softmax(1),
        nn.BatchNorm1d(2),
        nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)),
        torch.jit.script(nn.Linear(2, 2)),
    ],
    ids=[
        "hook",
        "forward of its own",
        "subclass",
        "in place",
        "softmax",
        "batch norm",
        "parametrised",
        "scripted",
    ],
)
def test_what_does_more_than_its_class_says_is_not_plain(layer: nn.Module) -> None:
    assert not is_plain(nn.Sequential(nn.Linear(2, 2), layer))

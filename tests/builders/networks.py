"""Networks for the tests: with weights that are given, random ones of every sort, and those stored
with the project.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from ddmip_book.data import load_trees
from ddmip_book.networks import load_npz
from tests.builders.places import NETWORKS

torch.set_num_threads(1)


def double(values: object) -> Tensor:
    return torch.as_tensor(np.asarray(values, dtype=float))


def linear(*weights: float, bias: float = 0.0) -> nn.Linear:
    """weights'x + bias, in float64."""
    net = nn.Linear(len(weights), 1).double().eval().requires_grad_(False)
    net.weight.copy_(double([weights])), net.bias.fill_(bias)
    return net


def relu_layers(*layers: tuple[object, object]) -> nn.Sequential:
    """Linear layers with these weights and biases, ReLU between them, in float64."""
    modules: list[nn.Module] = []
    for weight, bias in layers:
        layer = nn.Linear(*np.shape(weight)[::-1])
        layer.weight.data = double(weight)
        layer.bias.data = double(bias)
        modules += [layer, nn.ReLU()]
    return nn.Sequential(*modules[:-1]).eval().requires_grad_(False)


def water_network(size: str = "2x16") -> nn.Module:
    return load_npz(NETWORKS / f"water_{size}.npz")


def tree_networks(size: str = "2x16") -> dict[str, nn.Module]:
    """The stored survival network of each species."""
    return {
        name: load_npz(NETWORKS / f"tree_{size}_{name.lower().replace(' ', '_')}.npz")
        for name in load_trees()
    }


class Residual(nn.Module):
    """A layer, a layer with a way around it, an output."""

    def __init__(self, p: int, h: int) -> None:
        super().__init__()
        self.first = nn.Linear(p, h)
        self.second = nn.Linear(h, h)
        self.last = nn.Linear(h, 1)

    def forward(self, x: Tensor) -> Tensor:
        z = torch.relu(self.first(x))
        return self.last(z + torch.relu(self.second(z)))


KINDS = {
    "one layer": lambda p, h: nn.Sequential(nn.Linear(p, h), nn.ReLU(), nn.Linear(h, 1)),
    "two layers": lambda p, h: nn.Sequential(
        nn.Linear(p, h), nn.ReLU(), nn.Linear(h, h), nn.ReLU(), nn.Linear(h, 1)
    ),
    "three layers": lambda p, h: nn.Sequential(
        nn.Linear(p, h),
        nn.ReLU(),
        nn.Linear(h, 3),
        nn.ReLU(),
        nn.Linear(3, 2),
        nn.ReLU(),
        nn.Linear(2, 1),
    ),
    "residual": Residual,
    "convolution": lambda p, h: nn.Sequential(
        nn.Unflatten(1, (1, p)),
        nn.Conv1d(1, 2, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2 * p, 1),
    ),
    "leaky": lambda p, h: nn.Sequential(nn.Linear(p, h), nn.LeakyReLU(0.2), nn.Linear(h, 1)),
    "parametric": lambda p, h: nn.Sequential(
        nn.Linear(p, h), nn.PReLU(h), nn.Linear(h, 2), nn.PReLU(), nn.Linear(2, 1)
    ),
    "tanh": lambda p, h: nn.Sequential(nn.Linear(p, h), nn.Tanh(), nn.Linear(h, 1)),
    "sigmoid": lambda p, h: nn.Sequential(
        nn.Linear(p, h), nn.ReLU(), nn.Linear(h, 2), nn.Sigmoid(), nn.Linear(2, 1)
    ),
    "ends in ReLU": lambda p, h: nn.Sequential(
        nn.Linear(p, h), nn.ReLU(), nn.Linear(h, 1), nn.ReLU()
    ),
    "linear": lambda p, h: nn.Sequential(nn.Linear(p, 1)),
}


def random_net(draw: np.random.Generator, p: int, kind: str) -> nn.Module:
    """One of `KINDS` with weights of very different sizes, so that units of all sorts occur."""
    net = KINDS[kind](p, int(draw.integers(2, 7))).double().eval().requires_grad_(False)
    scale = draw.choice([0.5, 1.0, 2.0])
    for part in net.parameters():
        part.copy_(double(scale * draw.normal(size=part.shape)))
    return net


def shifted(net: nn.Module, by: float) -> nn.Module:
    """The network with another bias of its last layer."""
    layers = [module for module in net.modules() if isinstance(module, nn.Linear)]
    layers[-1].bias += by
    return net

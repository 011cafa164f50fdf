"""What the models of the suite are made of: networks that are stored or drawn, and a few words of
modelling.
"""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pyscipopt import Model, quicksum
from torch import Tensor, nn

STORED = Path(__file__).resolve().parents[2] / "data" / "networks"
"""Where ``suite_NAME.npz`` lie: weights (``w:...``) and the data that a model is written with."""


def stored(name: str) -> dict[str, np.ndarray]:
    """The arrays of a model with trained networks, by name."""
    with np.load(STORED / f"suite_{name}.npz", allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def mlp(widths: Sequence[int], activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Linear layers of these widths with an activation between them.

    >>> mlp([3, 4, 1])
    Sequential(
      (0): Linear(in_features=3, out_features=4, bias=True)
      (1): ReLU()
      (2): Linear(in_features=4, out_features=1, bias=True)
    )
    """
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), activation()]
    return nn.Sequential(*layers[:-1])


def with_weights(net: nn.Module, arrays: dict[str, np.ndarray], prefix: str = "w:") -> nn.Module:
    """`net` with stored weights, in double precision, frozen."""
    own = {
        key.removeprefix(prefix): torch.from_numpy(a)
        for key, a in arrays.items()
        if key.startswith(prefix)
    }
    net.load_state_dict(own)
    return net.double().requires_grad_(False).eval()


def drawn(net: nn.Module, rng: np.random.Generator, gain: float = 1.5) -> nn.Module:
    """`net` with weights of the size `gain` over the root of what enters a unit, so that outputs
    react to inputs.

    numpy draws them, in the order of the parameters: its generator gives the same numbers on every
    machine.
    """
    with torch.no_grad():
        for weight in net.parameters():
            fan_in = weight[0].numel() if weight.dim() > 1 else 4.0
            size = gain / np.sqrt(fan_in) if weight.dim() > 1 else 0.4
            weight.copy_(torch.from_numpy(size * rng.normal(size=tuple(weight.shape))))
    return net.double().requires_grad_(False).eval()


def said(net: nn.Module, x: np.ndarray) -> np.ndarray:
    """The outputs of a network of the suite, as an array."""
    with torch.no_grad():
        return np.asarray(net(torch.from_numpy(np.ascontiguousarray(x, dtype=np.float64))))


def new_model(name: str) -> Model:
    """A silent model."""
    model = Model(name)
    model.hideOutput()
    return model


def weighted(coefficients: Any, variables: Any) -> Any:
    """The sum of variables with these coefficients."""
    pairs = zip(np.ravel(coefficients), np.ravel(np.asarray(variables, dtype=object)), strict=True)
    return quicksum(float(c) * v for c, v in pairs)


def changed_picture(
    m: Model, given: np.ndarray, reach: float, largest: float | None = None
) -> tuple[Any, Any]:
    """Pixels within `reach` of those of a picture, and bounds on the size of each one's change."""
    low = np.maximum(0, given - reach)
    high = np.minimum(1, given + reach)
    pixel = m.addMatrixVar((1, 64), lb=low[None], ub=high[None], name="pixel")
    change = m.addMatrixVar(64, lb=0, ub=largest, name="change")
    for j, value in enumerate(map(float, given)):
        m.addCons(change[j] >= pixel[0, j] - value)
        m.addCons(change[j] >= value - pixel[0, j])
    return pixel, change


class Former(nn.Module):
    """A small transformer that reads a square matrix row by row and returns one number."""

    def __init__(self, n: int = 6, width: int = 16) -> None:
        super().__init__()
        self.n = n
        self.e = nn.Linear(n, width)
        self.pos = nn.Parameter(torch.zeros(1, n, width))
        layer = nn.TransformerEncoderLayer(
            width, 2, 32, dropout=0.0, batch_first=True, norm_first=True
        )
        self.t = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.o = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.e(x.reshape(-1, self.n, self.n)) + self.pos
        return self.o(self.t(tokens).mean(1))


class Picture(nn.Module):
    """Two convolutions over a small picture that comes as a row of pixels, then a linear layer."""

    def __init__(self, side: int = 8, channels: int = 4, classes: int = 3) -> None:
        super().__init__()
        self.side = side
        self.first = nn.Conv2d(1, channels, 3, stride=2, padding=1)
        self.second = nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1)
        self.relu = nn.ReLU()
        self.last = nn.Linear(2 * channels * ((side + 3) // 4) ** 2, classes)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.relu(self.first(x.reshape(-1, 1, self.side, self.side)))
        return self.last(self.relu(self.second(hidden)).flatten(1))

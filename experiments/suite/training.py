"""The networks of `trades`: ``python -m experiments.suite.training FOLDER`` fits and
stores them again.

Data come from functions with noise-free, curved and interacting terms; inputs are standardised for
training and the scaling is folded into the first layer, so that a stored network takes them in
their own units.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ddmip_book.networks.architectures import seeded
from .parts import Picture, mlp
from .trades import CAR_HIGH, CAR_LOW

STEPS = 1000
BATCH = 128
RATE = 1e-2
Fitted = dict[str, np.ndarray]


def fit(
    net: nn.Module,
    x: np.ndarray,
    y: np.ndarray,
    loss: Callable[[Tensor, Tensor], Tensor],
    seed: int,
) -> nn.Module:
    """Adam with a falling rate, in single precision."""
    inputs = torch.tensor(x, dtype=torch.float32)
    targets = torch.as_tensor(y)
    targets = targets if targets.dtype == torch.int64 else targets.float()
    rng = np.random.default_rng(seed)
    optimiser = torch.optim.Adam(net.parameters(), RATE)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, STEPS)
    for _ in range(STEPS):
        chosen = torch.from_numpy(rng.integers(0, len(inputs), BATCH))
        optimiser.zero_grad()
        loss(net(inputs[chosen]), targets[chosen]).backward()
        optimiser.step()
        falling.step()
    return net.eval()


def fit_mlp(
    widths: list[int],
    x: np.ndarray,
    y: np.ndarray,
    seed: int,
    activation: type[nn.Module] = nn.ReLU,
    loss: Callable[[Tensor, Tensor], Tensor] = nn.functional.mse_loss,
) -> nn.Sequential:
    """A flat network of inputs in their own units."""
    mean = x.mean(axis=0)
    spread = x.std(axis=0) + 1e-9
    with seeded(seed):
        net = mlp(widths, activation)
        fit(net, (x - mean) / spread, y, loss, seed)
    first = net[0]
    assert isinstance(first, nn.Linear)
    with torch.no_grad():
        first.weight /= torch.tensor(spread, dtype=torch.float32)
        first.bias.sub_(first.weight @ torch.tensor(mean, dtype=torch.float32))
    return net


def weights(net: nn.Module, prefix: str = "w:") -> Fitted:
    """As they are stored."""
    return {
        prefix + name: tensor.numpy().astype(np.float32)
        for name, tensor in net.state_dict().items()
    }


def wine() -> Fitted:
    x = np.random.default_rng(1).uniform(0, 1, (6000, 6))
    y = (
        5
        + 3 * np.sin(3 * x[:, 0]) * x[:, 1]
        - 2 * np.abs(x[:, 2] - 0.5)
        + 2 * np.tanh(4 * (x[:, 3] - x[:, 4]))
    )
    return weights(fit_mlp([6, 16, 16, 1], x, (y + x[:, 5] * (1 - x[:, 0]))[:, None], 1))


def city() -> Fitted:
    rng = np.random.default_rng(2)
    kind = rng.integers(0, 3, 6000)
    parks = rng.integers(0, 5, 6000)
    works = rng.integers(0, 5, 6000)
    access = rng.uniform(0, 1, 6000)
    house = 3 + 1.2 * np.sqrt(parks) - 0.9 * works + 0.8 * access
    park = 0.5 - 0.2 * parks + 0.4 * access
    work = 1.5 + 0.8 * np.minimum(works, 2) * (0.5 + access) - 0.3 * parks
    y = np.choose(kind, [house, park, work])
    return weights(
        fit_mlp(
            [6, 16, 16, 1], np.column_stack([np.eye(3)[kind], parks, works, access]), y[:, None], 2
        )
    )


def car() -> Fitted:
    rng = np.random.default_rng(3)
    low = np.array(CAR_LOW)
    high = np.array(CAR_HIGH)
    x = low + (high - low) * rng.uniform(0, 1, (8000, 6))
    x[:, 3:] = x[:, 3:].round()
    u = (x - low) / (high - low)
    price = (
        6
        + 8 * u[:, 2] ** 0.7
        + 4 * u[:, 0] * (1 - 0.5 * u[:, 1])
        + 3 * u[:, 5]
        + np.sin(5 * u[:, 4]) * u[:, 3]
    )
    sales = (
        4 * np.exp(-3 * (u[:, 2] - 0.4) ** 2) * (0.5 + u[:, 3])
        + 2 * u[:, 5] * u[:, 4]
        - 2 * np.abs(u[:, 1] - 0.3)
    )
    own = weights(fit_mlp([6, 20, 20, 1], x, price[:, None], 3), "price:")
    return own | weights(fit_mlp([6, 12, 12, 1], x, sales[:, None], 4, nn.Tanh), "sales:")


def workload() -> Fitted:
    x = np.random.default_rng(4).uniform([0, 0, 0.6], [2, 2, 1.4], (6000, 3))
    hot = 0.25 * x[:, 0] ** 1.5 + 0.2 * x[:, 1] + 0.3 / x[:, 2]
    speed = x[:, 0] / (1 + np.exp(8 * (hot - 0.85))) + 0.1 * np.sin(4 * x[:, 0])
    return weights(fit_mlp([3, 14, 14, 2], x, np.column_stack([speed, hot]), 5, nn.Tanh))


def surface() -> Fitted:
    x = np.random.default_rng(5).uniform(-2, 2, (8000, 4))
    y = (
        np.sin(3 * x[:, 0]) * np.cos(2 * x[:, 1])
        + 0.3 * (x**2).sum(axis=1)
        + np.sin(2 * x[:, 2] * x[:, 3])
        - 2
    )
    return weights(fit_mlp([4, 32, 32, 1], x, y[:, None], 6))


def pictures(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of 64 pixels with a bright row, a bright column or a bright square, and which."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n)
    x = rng.normal(0.3, 0.15, (n, 8, 8))
    for picture, what in zip(x, kind, strict=True):
        a = int(rng.integers(0, 7))
        b = int(rng.integers(0, 5))
        where = (slice(a, a + 2), slice(None)) if what == 0 else (slice(None), slice(a, a + 2))
        picture[where if what < 2 else (slice(min(a, 4), min(a, 4) + 4), slice(b, b + 4))] += 0.4
    return np.clip(x, 0, 1).reshape(n, 64), kind


def ocean() -> Fitted:
    x, kind = pictures(4000, 7)
    with seeded(7):
        net = fit(Picture(), x, kind, nn.functional.cross_entropy, 7)
        with torch.no_grad():
            right = net(torch.tensor(x, dtype=torch.float32)).argmax(dim=1).numpy() == kind
    first = int(np.flatnonzero(right & (kind == 0))[0])
    return weights(net) | {"picture": x[first]}


def approvals() -> Fitted:
    x = np.random.default_rng(8).uniform(0, 1, (8000, 5))
    score = (
        np.sin(3 * x[:, 0])
        + x[:, 1] * (1.5 - x[:, 2])
        + 1.2 * np.sqrt(x[:, 2])
        - 0.8 * x[:, 3] * x[:, 4]
        - 1.5
    )
    yes = (score > 0).astype(np.float32)[:, None]
    return weights(
        fit_mlp([5, 16, 16, 1], x, yes, 8, loss=nn.functional.binary_cross_entropy_with_logits)
    )


TRAINED: dict[str, Callable[[], Fitted]] = {
    "wine": wine,
    "city": city,
    "car": car,
    "workload": workload,
    "surface": surface,
    "ocean": ocean,
    "approvals": approvals,
}


def main(folder: Path) -> None:
    """Fit every network and write ``suite_NAME.npz``."""
    torch.set_num_threads(1)
    for name, make in TRAINED.items():
        arrays = make()
        np.savez_compressed(folder / f"suite_{name}.npz", **arrays)  # type: ignore[arg-type]
        print(f"{name}: {sum(a.size for a in arrays.values())} numbers", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

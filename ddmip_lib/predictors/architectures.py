"""Five small networks, all mapping (batch, n_in) to (batch, n_out).

Every constructor takes ``(depth, width, n_in, n_out=1, seed=0)`` and returns a float32 network in
evaluation mode, its weights drawn from `seed` alone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, nn

Network = TypeVar("Network", bound=nn.Module)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run a block under torch's CPU generator set to `seed`, and put the caller's state back
    afterwards.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(
            seed
        )  # torch.manual_seed would also reset the GPU generators
        yield


def _build(make: Callable[..., Network], sizes: tuple[int, int, int, int], seed: int) -> Network:
    for name, size in zip(("depth", "width", "n_in", "n_out"), sizes, strict=True):
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{name} = {size!r}: pass an integer of at least 1")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"seed = {seed!r}: pass a non-negative integer")
    with seeded(seed):
        return make(*sizes).eval()


def mlp(depth: int, width: int, n_in: int, n_out: int = 1, seed: int = 0) -> nn.Sequential:
    """A flat ReLU network: `depth` times ``h <- relu(W h + b)`` with `width` units, then a linear
    layer.

    >>> mlp(depth=1, width=4, n_in=3)(torch.zeros(5, 3)).shape
    torch.Size([5, 1])
    """

    def make(depth: int, width: int, n_in: int, n_out: int) -> nn.Sequential:
        layers: list[nn.Module] = []
        for layer in range(depth):
            layers += [nn.Linear(width if layer else n_in, width), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(width, n_out))

    return _build(make, (depth, width, n_in, n_out), seed)


class Conv1dNet(nn.Module):
    """Convolutions along the feature axis, then a linear layer on all channels and positions."""

    def __init__(self, depth: int, width: int, n_in: int, n_out: int) -> None:
        super().__init__()
        self.size = (depth, width)
        self.layers = nn.ModuleList(
            nn.Conv1d(width if layer else 1, width, kernel_size=3, padding=1)
            for layer in range(depth)
        )
        self.head = nn.Linear(width * n_in, n_out)

    def forward(self, x: Tensor) -> Tensor:
        hidden = x.unsqueeze(1)
        for layer in self.layers:
            hidden = layer(hidden).relu()
        return self.head(hidden.flatten(1))


def conv1d(depth: int, width: int, n_in: int, n_out: int = 1, seed: int = 0) -> nn.Module:
    """`depth` convolutions of kernel 3 with `width` channels over the row of features, ReLU between
    them.

    >>> conv1d(depth=2, width=4, n_in=9)(torch.zeros(5, 9)).shape
    torch.Size([5, 1])
    """
    return _build(Conv1dNet, (depth, width, n_in, n_out), seed)


class ResNet(nn.Module):
    """Residual blocks between a linear embedding and a linear head."""

    def __init__(self, depth: int, width: int, n_in: int, n_out: int) -> None:
        super().__init__()
        self.size = (depth, width)
        self.embed = nn.Linear(n_in, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
            for _ in range(depth)
        )
        self.head = nn.Linear(width, n_out)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.embed(x)
        for block in self.blocks:
            hidden = hidden + block(hidden)
        return self.head(hidden.relu())


def resnet(depth: int, width: int, n_in: int, n_out: int = 1, seed: int = 0) -> nn.Module:
    """`depth` residual blocks ``h <- h + W2 relu(W1 h + b1) + b2`` of `width` units.

    >>> resnet(depth=2, width=4, n_in=3)(torch.zeros(5, 3)).shape
    torch.Size([5, 1])
    """
    return _build(ResNet, (depth, width, n_in, n_out), seed)


class LSTMNet(nn.Module):
    """An LSTM that reads the features one after another; a linear layer reads its last state."""

    def __init__(self, depth: int, width: int, n_in: int, n_out: int) -> None:
        super().__init__()
        self.size = (depth, width)
        self.cells = nn.LSTM(1, width, num_layers=depth, batch_first=True)
        self.head = nn.Linear(width, n_out)

    def forward(self, x: Tensor) -> Tensor:
        if len(x) == 0:  # nn.LSTM refuses an empty batch
            return x.new_zeros(0, self.head.out_features)
        # cuDNN's LSTM gives no gradient in evaluation mode, and never a second derivative
        with torch.backends.cudnn.flags(enabled=False):
            states, _ = self.cells(x.unsqueeze(-1))
        return self.head(states[:, -1])


def lstm(depth: int, width: int, n_in: int, n_out: int = 1, seed: int = 0) -> nn.Module:
    """`depth` stacked LSTM layers of `width` units over the sequence of features.

    >>> lstm(depth=1, width=4, n_in=3)(torch.zeros(5, 3)).shape
    torch.Size([5, 1])
    """
    return _build(LSTMNet, (depth, width, n_in, n_out), seed)


class AttentionBlock(nn.Module):
    """Self-attention and a ReLU layer, each normalised before and added to its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm_tokens = nn.LayerNorm(width)
        self.norm_hidden = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.dense = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        # written out: torch's fused attention has no second derivative, which Newton steps need
        query, key, value = self.query_key_value(self.norm_tokens(tokens)).chunk(3, dim=-1)
        weights = (query @ key.transpose(1, 2) / query.shape[-1] ** 0.5).softmax(dim=-1)
        tokens = tokens + self.mix(weights @ value)
        return tokens + self.dense(self.norm_hidden(tokens))


class AttentionNet(nn.Module):
    """Every feature becomes a token ``x_j a_j + b_j``; attention blocks; a linear layer on the mean
    token.
    """

    def __init__(self, depth: int, width: int, n_in: int, n_out: int) -> None:
        super().__init__()
        self.size = (depth, width)
        self.scale = nn.Parameter(torch.randn(n_in, width))
        self.shift = nn.Parameter(torch.randn(n_in, width))
        self.blocks = nn.ModuleList(AttentionBlock(width) for _ in range(depth))
        self.head = nn.Linear(width, n_out)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.unsqueeze(-1) * self.scale + self.shift
        for block in self.blocks:
            tokens = block(tokens)
        return self.head(tokens.mean(dim=1))


def attention(depth: int, width: int, n_in: int, n_out: int = 1, seed: int = 0) -> nn.Module:
    """`depth` one-head attention blocks over the features as tokens of `width` numbers.

    >>> attention(depth=1, width=4, n_in=3)(torch.zeros(5, 3)).shape
    torch.Size([5, 1])
    """
    return _build(AttentionNet, (depth, width, n_in, n_out), seed)

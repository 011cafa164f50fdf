"""Five small architectures, all mapping (batch, n_in) to (batch, n_out).

Every constructor takes ``(depth, width, n_in, n_out=1, seed=0)`` and returns a float32 network in
evaluation mode, its weights drawn from `seed` alone. The source of the classes is part of the key
under which `train` caches networks.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, nn

Network = TypeVar("Network", bound=nn.Module)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Run a block with torch's CPU generator set to a seed, and restore its state afterwards.

    Parameters
    ----------
    seed : int
        The seed.
    """
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would also reset the generators of GPUs
        torch.default_generator.manual_seed(seed)
        yield


def _build(make: Callable[..., Network], sizes: tuple[int, int, int, int], seed: int) -> Network:
    for name, size in zip(("depth", "width", "n_in", "n_out"), sizes, strict=True):
        if not _is_integer(size) or size < 1:
            raise ValueError(f"{name} = {size!r}: pass an integer of at least 1")
    if not _is_integer(seed) or seed < 0:
        raise ValueError(f"seed = {seed!r}: pass a non-negative integer")
    with seeded(seed):
        return make(*sizes).eval()


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def mlp(depth: int, width: int, n_in: int, n_out: int = 1, seed: int = 0) -> nn.Sequential:
    """Build a flat ReLU network: layers ``h <- relu(W h + b)``, then a linear one.

    Parameters
    ----------
    depth : int
        Number of hidden layers.
    width : int
        Units of each hidden layer.
    n_in, n_out : int
        Numbers of features and of outputs.
    seed : int
        Seed of the weights.

    Returns
    -------
    nn.Sequential
        A float32 network in evaluation mode.

    Raises
    ------
    ValueError
        If a size is no positive integer, or the seed is negative.

    Examples
    --------
    >>> mlp(depth=1, width=4, n_in=3)(torch.zeros(5, 3)).shape
    torch.Size([5, 1])
    """
    return _build(_mlp, (depth, width, n_in, n_out), seed)


def _mlp(depth: int, width: int, n_in: int, n_out: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for layer in range(depth):
        layers += [nn.Linear(width if layer else n_in, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, n_out))


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
    """Build convolutions of kernel 3 along the features, with ReLU between them.

    Parameters
    ----------
    depth : int
        Number of convolutions.
    width : int
        Channels of each convolution.
    n_in, n_out : int
        Numbers of features and of outputs.
    seed : int
        Seed of the weights.

    Returns
    -------
    nn.Module
        A float32 network in evaluation mode.

    Raises
    ------
    ValueError
        If a size is no positive integer, or the seed is negative.

    Examples
    --------
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
    """Build residual blocks ``h <- h + W2 relu(W1 h + b1) + b2`` between linear layers.

    Parameters
    ----------
    depth : int
        Number of blocks.
    width : int
        Units of each block.
    n_in, n_out : int
        Numbers of features and of outputs.
    seed : int
        Seed of the weights.

    Returns
    -------
    nn.Module
        A float32 network in evaluation mode.

    Raises
    ------
    ValueError
        If a size is no positive integer, or the seed is negative.

    Examples
    --------
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
    """Build stacked LSTM layers over the sequence of features.

    Parameters
    ----------
    depth : int
        Number of layers.
    width : int
        Units of each layer.
    n_in, n_out : int
        Numbers of features and of outputs.
    seed : int
        Seed of the weights.

    Returns
    -------
    nn.Module
        A float32 network in evaluation mode.

    Raises
    ------
    ValueError
        If a size is no positive integer, or the seed is negative.

    Examples
    --------
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
    """Build one-head attention blocks over the features as tokens.

    Parameters
    ----------
    depth : int
        Number of blocks.
    width : int
        Numbers of each token.
    n_in, n_out : int
        Numbers of features and of outputs.
    seed : int
        Seed of the weights.

    Returns
    -------
    nn.Module
        A float32 network in evaluation mode.

    Raises
    ------
    ValueError
        If a size is no positive integer, or the seed is negative.

    Examples
    --------
    >>> attention(depth=1, width=4, n_in=3)(torch.zeros(5, 3)).shape
    torch.Size([5, 1])
    """
    return _build(AttentionNet, (depth, width, n_in, n_out), seed)

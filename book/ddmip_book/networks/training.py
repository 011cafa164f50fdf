"""Training by one fixed protocol, with the same bits for the same seed on the same CPU."""

import copy
import inspect
import platform
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor, nn

from ddmip_book.data import Dataset
from ddmip_lib.clock import now
from ddmip_lib.model.description import Aside
from ddmip_lib.model.gradients import take_step
from . import cache as disk
from .architectures import seeded

# Part of every cache key: raise it when what is stored under a key changes.
CACHE_FORMAT = 1
# Fraction of the training samples that decides an early stop; test samples never do.
VALIDATION_FRACTION = 0.1


@contextmanager
def one_thread() -> Iterator[None]:
    """Run a block on one thread of torch.

    Sums over several threads are not reproducible, and networks this small gain nothing from them.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True)
class _Protocol:
    """Parameters of `train` that determine the weights."""

    seed: int
    epochs: int
    learning_rate: float
    weight_decay: float
    batch_size: int
    test_share: float
    patience: int | None

    def check(self, n_samples: int) -> None:
        for name in ("epochs", "batch_size", "patience"):
            value = getattr(self, name)
            if value is not None and (value < 1 or value != int(value)):
                raise ValueError(f"{name} = {value}: pass an integer of at least 1")
        if self.learning_rate <= 0 or self.weight_decay < 0:
            raise ValueError("learning_rate must be positive and weight_decay non-negative")
        if not 0 < self.test_share < 1 or self.training_samples(n_samples) < 2:
            raise ValueError(
                f"test_share = {self.test_share}: pass a fraction in (0, 1) that leaves training"
                " samples"
            )

    def training_samples(self, n_samples: int) -> int:
        return int((1 - self.test_share) * n_samples)


class _Trainer:
    """Adam on shuffled batches, with early stopping.

    Its code is part of every cache key.
    """

    def __init__(self, net: nn.Module, task: str, protocol: _Protocol) -> None:
        self.net = net
        self.task = task
        self.protocol = protocol
        self.loss = nn.BCEWithLogitsLoss() if task == "classification" else nn.MSELoss()
        self.order = torch.Generator().manual_seed(protocol.seed)
        self.steps = 0
        self.moments = {
            weight: (torch.zeros_like(weight), torch.zeros_like(weight))
            for weight in net.parameters()
        }

    def train(self, x: Tensor, y: Tensor, progress: bool) -> dict[str, Any]:
        """Train on the first samples of a permutation, test on the others; return a report."""
        from tqdm.auto import tqdm  # here, since it takes a while to import

        start = now()
        permutation = torch.randperm(len(x), generator=self.order)
        n_training = self.protocol.training_samples(len(x))
        training = permutation[:n_training]
        test = permutation[n_training:]
        epochs = range(1, self.protocol.epochs + 1)
        with (
            one_thread(),
            seeded(self.protocol.seed),
            tqdm(epochs, "training", disable=not progress) as bar,
        ):
            _check_shape(self.net, x)
            epochs_run = self.fit(x[training], y[training], bar)
            self.net.eval()
            measure = "accuracy" if self.task == "classification" else "mse"
            return {
                f"train_{measure}": self.score(x[training], y[training]),
                f"test_{measure}": self.score(x[test], y[test]),
                "seconds": now() - start,
                "epochs": epochs_run,
            }

    def fit(self, x: Tensor, y: Tensor, epochs: Iterable[int]) -> int:
        """Return the epochs run. With `patience`, the weights are those of the best epoch."""
        patience = self.protocol.patience
        n_validation = max(1, round(VALIDATION_FRACTION * len(x))) if patience else 0
        n = len(x) - n_validation
        best_loss = float("inf")
        best_epoch = 0
        best_state = self.net.state_dict()
        epoch = 0
        for epoch in epochs:
            self.run_epoch(x[:n], y[:n])
            if not patience:
                continue
            loss = self.validation_loss(x[n:], y[n:])
            if loss < best_loss:
                best_loss = loss
                best_epoch = epoch
                best_state = copy.deepcopy(self.net.state_dict())
            if epoch - best_epoch >= patience:
                break
        if patience:
            self.net.load_state_dict(best_state)
        return epoch

    def run_epoch(self, x: Tensor, y: Tensor) -> None:
        self.net.train()
        for batch in torch.randperm(len(x), generator=self.order).split(self.protocol.batch_size):
            self.steps += 1
            self.net.zero_grad()
            self.loss(self.net(x[batch])[:, 0], y[batch]).backward()
            with torch.no_grad():
                for weight, moments in self.moments.items():
                    self.update(weight, moments)

    def update(self, weight: Tensor, moments: tuple[Tensor, Tensor]) -> None:
        if weight.grad is None:
            return
        gradient = weight.grad.add(weight, alpha=self.protocol.weight_decay)
        take_step(weight, gradient, self.protocol.learning_rate, moments, self.steps)

    @torch.no_grad()
    def validation_loss(self, x: Tensor, y: Tensor) -> float:
        self.net.eval()
        return float(self.loss(self.net(x)[:, 0], y))

    @torch.no_grad()
    def score(self, x: Tensor, y: Tensor) -> float:
        """Accuracy or mean squared error."""
        output = self.net(x)[:, 0]
        if self.task == "classification":
            return float(((output > 0) == (y > 0.5)).double().mean())
        return float(((output - y) ** 2).mean())


def _check_shape(net: nn.Module, x: Tensor) -> None:
    try:
        shape = tuple(net.eval()(x[:2]).shape)
    except RuntimeError as problem:
        raise ValueError(
            f"the network does not take samples of {x.shape[1]} features: {problem}"
        ) from problem
    if shape != (2, 1):
        raise ValueError(
            f"the network maps two samples to shape {shape}: train needs (2, 1), so use n_out=1"
        )


def train(
    net: nn.Module,
    data: Dataset,
    seed: int = 0,
    epochs: int = 60,
    learning_rate: float = 1e-3,
    weight_decay: float = 1e-4,
    batch_size: int = 64,
    test_share: float = 0.2,
    patience: int | None = None,
    progress: bool = False,
    cache: bool = True,
) -> nn.Module:
    r"""Train a copy of a network, by Adam in float32 on one thread.

    Minimises the mean of :math:`\log(1 + e^f) - y f` (classification, `f` the logit) or
    :math:`(f - y)^2` (regression) over the first `1 - test_share` of a permutation of the samples.
    The network gets ``(features - mean) / std``.

    Parameters
    ----------
    net : nn.Module
        Maps (batch, features) to (batch, 1).
    data : Dataset
        Features, labels and task.
    seed : int
        Seed of the permutation and of the order of the batches.
    epochs : int
        Passes through the training samples.
    learning_rate, weight_decay : float
        Parameters of Adam; the decay is added to the gradient.
    batch_size : int
        Samples of a batch.
    test_share : float
        Fraction of the samples that are for testing.
    patience : int, optional
        Epochs without a smaller loss on a tenth of the training samples, after which training stops
        with the weights of the best epoch.
    progress : bool
        Whether to show a progress bar.
    cache : bool
        Whether to store the result on disk and to read it from there; not for networks whose code
        or data cannot be followed (see `ddmip_lib.model.description`).

    Returns
    -------
    nn.Module
        In float64, in evaluation mode and without gradients of weights; it carries ``mean``,
        ``std`` and a ``report``.

    Raises
    ------
    TypeError
        If `net` is no module or `data` no `Dataset`.
    ValueError
        If a parameter is out of range, a feature is constant, the network has other shapes, or
        training diverges.

    Examples
    --------
    >>> from ddmip_book.data import load_water
    >>> from ddmip_book.networks import mlp
    >>> net = train(mlp(depth=1, width=4, n_in=9), load_water(), epochs=1, cache=False)
    >>> net.report["epochs"], net.mean.shape
    (1, (9,))
    """
    protocol = _Protocol(
        seed, epochs, learning_rate, weight_decay, batch_size, test_share, patience
    )
    if not isinstance(net, nn.Module):
        raise TypeError(f"net must be a torch.nn.Module, not {type(net).__name__}")
    if not isinstance(data, Dataset):
        raise TypeError(f"data must be a Dataset (see ddmip_book.data), not {type(data).__name__}")
    protocol.check(len(data.features))
    trained = copy.deepcopy(net).float().cpu().requires_grad_(True)
    for name in ("mean", "std", "report"):
        trained.__dict__.pop(name, None)
    mean, std = _standardisation(data)
    report = _train_or_load(trained, data, (mean, std), protocol, progress, cache)
    trained.double().requires_grad_(False).eval()
    trained.__dict__.update(mean=mean, std=std, report=report)
    return trained


def _standardisation(data: Dataset) -> tuple[ndarray, ndarray]:
    """Mean and standard deviation by which features are standardised."""
    width = data.features.shape[1]
    mean, std = (data.mean, data.std) if data.standardise else (np.zeros(width), np.ones(width))
    if not (std > 0).all():
        constant = data.feature_names[int(np.argmin(std))]
        raise ValueError(f"feature {constant!r} is constant: drop it")
    return mean, std


def _train_or_load(
    net: nn.Module,
    data: Dataset,
    moments: tuple[ndarray, ndarray],
    protocol: _Protocol,
    progress: bool,
    cache: bool,
) -> Aside:
    """Train in place, or load the weights of an equal training; the report."""
    key = _cache_key(net, data, moments, protocol) if cache else None
    entry = disk.load(key) if key else None
    if entry is not None:
        net.load_state_dict(entry["state"])
        return Aside({**entry["report"], "cached": True})
    mean, std = moments
    x = torch.tensor((data.features - mean) / std, dtype=torch.float32)
    y = torch.tensor(data.labels, dtype=torch.float32)
    report = _Trainer(net, data.task, protocol).train(x, y, progress)
    if not all(bool(torch.isfinite(tensor).all()) for tensor in net.state_dict().values()):
        raise ValueError("training diverged (non-finite weights): lower learning_rate")
    report["data"] = data.provenance
    if key:
        disk.store(key, {"state": net.state_dict(), "report": report})
    return Aside({**report, "cached": False})


def _cache_key(
    net: nn.Module, data: Dataset, moments: tuple[ndarray, ndarray], protocol: _Protocol
) -> str | None:
    """A hash of all that determines the weights."""
    parts = [
        CACHE_FORMAT,
        torch.__version__,
        platform.machine(),
        inspect.getsource(_Trainer),
        repr(protocol),
        data.provenance,
        data.task,
        data.features,
        data.labels,
        *moments,
    ]
    return disk.key_of(net, parts)

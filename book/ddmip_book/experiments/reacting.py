"""Deep networks whose outputs depend on their inputs: He initialisation, no decay, clipped
gradients, a slow beginning.

The recipe of `ddmip_book.networks.train` (torch's initialisation, decay inside Adam) turns every
network from 16x128 on into a constant. Here the last layer begins small, the learning rate falls
with depth times width, and the weights of the epoch are kept that are best on records kept aside
(accuracy, or mean square) among those at which the network reacts. So the score is of the records
that chose the epoch, a little better than on others.
"""

import copy
import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ddmip_book.data import Dataset
from ddmip_book.networks import cache as disk
from ddmip_book.networks.training import one_thread
from ddmip_lib.model.description import Aside

EPOCHS = 40
BATCH = 64
WARM_UP = 100
PATIENCE = 5
LAST_LAYER = 0.1
"""What the last layer's weights are multiplied by at the beginning."""
CLIP = 1.0
LARGEST_RATE = 1e-3
RATE = 2.0
"""The learning rate is `RATE` over depth times width, at most the first."""
ASIDE = 0.2  # share of the rows
LOGITS = 1.0
CLASS_SHARE = 0.1
OUTPUTS = 0.1
"""Reacting: logits that differ by 1 and each class on a tenth of the records, or outputs that
differ by a tenth of what the data's do; and no less accurate than the larger class.
"""


def he_initialised(net: nn.Module, seed: int) -> nn.Module:
    """A copy with normal weights of variance 2 over the layer's inputs, no biases, and a small last
    layer.
    """
    net = copy.deepcopy(net)
    draw = torch.Generator().manual_seed(seed)
    layers = [module for module in net.modules() if isinstance(module, nn.Linear)]
    with torch.no_grad():
        for layer in layers:
            layer.weight.normal_(0.0, math.sqrt(2 / layer.in_features), generator=draw)
            layer.bias.zero_()
        layers[-1].weight *= LAST_LAYER
    return net


class Reaction:
    """How a network answers the records of its data."""

    def __init__(self, outputs: np.ndarray, labels: np.ndarray, task: str) -> None:
        self.spread = float(np.ptp(outputs))
        self.of_data = float(np.ptp(labels))
        self.classes = task == "classification"
        self.positive = float((outputs > 0).mean())
        share = float(labels.mean())
        self.larger = max(share, 1 - share) if self.classes else 0.0
        """The share of the larger class."""

    @property
    def reacts(self) -> bool:
        """Whether it is no constant, by the thresholds above."""
        if self.classes:
            return self.spread >= LOGITS and CLASS_SHARE <= self.positive <= 1 - CLASS_SHARE
        return self.spread >= OUTPUTS * self.of_data


def train_reacting(
    net: nn.Module, data: Dataset, seed: int = 0, device: str = "cpu", keep: bool = True
) -> nn.Module:
    """A trained copy of `net` that reacts, float64 on the CPU, frozen; an error where it does not.

    Its `report` holds the score on records kept aside, the spread of its outputs over all records,
    for classes the share called 1, and the fraction of the larger class. Networks are cached on
    disk unless told not to `keep` them.

    >>> from ddmip_book.data import load_water
    >>> from ddmip_book.networks import mlp
    >>> net = train_reacting(mlp(4, 16, 9, seed=1), load_water(), seed=1, keep=False)
    >>> net.report["spread"] >= LOGITS and CLASS_SHARE <= net.report["positive"] <= 1 - CLASS_SHARE
    True
    """
    mean, std = (
        (data.mean, data.std) if data.standardise else (np.zeros(data.features.shape[1]), 1.0)
    )
    net = he_initialised(net, seed).float()
    parts = [__doc__, EPOCHS, BATCH, WARM_UP, PATIENCE, CLIP, RATE, seed, device, torch.__version__]
    parts += [data.features, data.labels]  # not the file's sha256: the four species share one file
    key = disk.key_of(net, parts) if keep else None
    entry = disk.load(key) if key else None
    if entry is None:
        with one_thread():
            entry = _train(net, data, (data.features - mean) / std, seed, torch.device(device))
        if key:
            disk.store(key, entry)
    net.load_state_dict(entry["state"])
    net.double().requires_grad_(False).eval()
    net.__dict__.update(
        mean=np.asarray(mean), std=np.broadcast_to(std, mean.shape), report=Aside(entry["report"])
    )
    return net


def _train(
    net: nn.Module, data: Dataset, features: np.ndarray, seed: int, device: torch.device
) -> dict[str, Any]:
    x = torch.tensor(features, dtype=torch.float32, device=device)
    y = torch.tensor(data.labels, dtype=torch.float32, device=device)
    order = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(x), generator=order)
    aside = round(ASIDE * len(x))
    loss = nn.BCEWithLogitsLoss() if data.task == "classification" else nn.MSELoss()
    trained = copy.deepcopy(net).to(device).requires_grad_(True)
    began = time.perf_counter()
    best = -math.inf
    found = {}
    idle = 0
    for _ in _epochs(trained, x, y, rows[aside:], loss, order):
        with torch.no_grad():
            outputs = trained(x)[:, 0]
        reaction = Reaction(outputs.double().cpu().numpy(), data.labels, data.task)
        score = _score(outputs[rows[:aside]], y[rows[:aside]], reaction.classes)
        if not math.isfinite(score):
            break
        if not reaction.reacts or (reaction.classes and score < reaction.larger):
            continue
        idle += 1
        if score > best:
            best = score
            idle = 0
            found = {"state": _copy(trained), "report": _report(score, reaction, began)}
        if idle >= PATIENCE:
            break
    if not found:
        raise ValueError(
            "the network is a constant after training: use more epochs, or another learning rate."
        )
    return found


def _score(outputs: Tensor, labels: Tensor, classes: bool) -> float:
    """The accuracy, or minus the mean squared error."""
    if classes:
        return float(((outputs > 0) == (labels > 0.5)).double().mean())
    return -float(((outputs - labels) ** 2).mean())


def _report(score: float, reaction: Reaction, began: float) -> dict[str, float]:
    named = {"test_accuracy": score} if reaction.classes else {"test_mse": -score}
    looks = {
        "spread": reaction.spread,
        "positive": reaction.positive,
        "larger_class": reaction.larger,
    }
    return named | looks | {"seconds": time.perf_counter() - began}


def _copy(net: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in net.state_dict().items()}


def _epochs(
    net: nn.Module, x: Tensor, y: Tensor, rows: Tensor, loss: nn.Module, order: torch.Generator
) -> Iterator[None]:
    """Adam on shuffled batches; the learning rate rises over the first steps."""
    layers = [module for module in net.modules() if isinstance(module, nn.Linear)]
    size = (len(layers) - 1) * max(layer.out_features for layer in layers)
    rate = min(LARGEST_RATE, RATE / size)
    optimiser = torch.optim.Adam(net.parameters(), lr=rate)
    warming = torch.optim.lr_scheduler.LinearLR(optimiser, 1 / WARM_UP, total_iters=WARM_UP)
    for _ in range(EPOCHS):
        for batch in rows[torch.randperm(len(rows), generator=order)].split(BATCH):
            optimiser.zero_grad()
            loss(net(x[batch])[:, 0], y[batch]).backward()
            nn.utils.clip_grad_norm_(net.parameters(), CLIP)
            optimiser.step()
            warming.step()
        yield

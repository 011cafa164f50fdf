"""The networks of the experiments: trained once, stored as npz where they are small, and known by
their digest.
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from ddmip_book.data import Dataset, load_trees, load_water
from ddmip_book.networks import attention, conv1d, lstm, mlp, resnet, train
from .case import Case
from .reacting import train_reacting

LARGEST_STORED = 260_000
"""Networks with more parameters are not stored with the results; they are trained again, and
compared by digest.
"""
REACTING = "-he"
"""Ends the name of a network that `train_reacting` trains."""
ARCHITECTURES: dict[str, tuple[Callable[..., nn.Module], int, int]] = {
    "fc": (mlp, 2, 64),
    "conv1d": (conv1d, 3, 16),
    "resnet": (resnet, 8, 64),
    "lstm": (lstm, 2, 32),
    "attention": (attention, 2, 16),
}
"""Of E4: the paper names the kinds, not their sizes; depth and width here are ours."""


class Source(NamedTuple):
    """Data and networks of a problem that needs neither of the two data sets."""

    data: Callable[[Case], dict[str, Any]]
    networks: Callable[[Case], list[nn.Module]]


SOURCES: dict[str, Source] = {}
"""By problem; `experiments` of the project adds the suite."""


def untrained(network: str, n_in: int, seed: int) -> nn.Module:
    """The network of that name with its initial weights.

    >>> from ddmip_book.networks import describe
    >>> describe(untrained("2x16", 9, 42))
    '2x16 ReLU MLP, 449 parameters'
    """
    if network in ARCHITECTURES:
        make, depth, width = ARCHITECTURES[network]
        return make(depth, width, n_in, seed=seed)
    depth_text, _, width_text = network.removesuffix(REACTING).partition("x")
    if not (depth_text.isdigit() and width_text.isdigit()):
        raise ValueError(
            f"network {network!r}: write LxH, such as 4x32, or one of {', '.join(ARCHITECTURES)}."
        )
    return mlp(int(depth_text), int(width_text), n_in, seed=seed)


def parameters(net: nn.Module) -> int:
    """Number of weights and biases."""
    return sum(p.numel() for p in net.parameters())


def digest(nets: list[nn.Module]) -> str:
    """sha256 over all weights, and over the means and spreads that standardise their inputs."""
    found = hashlib.sha256()
    for net in nets:
        for name, tensor in net.state_dict().items():
            found.update(name.encode() + tensor.double().cpu().numpy().tobytes())
        for name in ("mean", "std"):
            found.update(np.asarray(net.__dict__.get(name, 0.0)).tobytes())
    return found.hexdigest()


def data_sets(case: Case) -> dict[str, Any]:
    """The data that the case's networks learn from, by the name of the file that holds their
    weights.
    """
    if case.problem in SOURCES:
        return SOURCES[case.problem].data(case)
    water = case.problem.startswith("water")
    named = {"water": load_water()} if water else load_trees()
    prefix = "" if water else "tree_"
    return {
        f"{prefix}{name.replace(' ', '_').lower()}_{case.network}_seed{case.seed}.npz": data
        for name, data in named.items()
    }


def networks_of(case: Case, folder: Path | None = None) -> list[nn.Module]:
    """The trained networks of a case: from `folder` where they are stored, else trained now and, if
    small, stored.

    Weights that belong to other data than those found now are never read: the file carries the
    data's sha256.
    """
    if case.problem in SOURCES:
        return SOURCES[case.problem].networks(case)
    nets = []
    for name, data in data_sets(case).items():
        net = untrained(case.network, data.features.shape[1], case.seed)
        path = None if folder is None or parameters(net) > LARGEST_STORED else folder / name
        if path is not None and path.is_file():
            stored = load_weights(net, path)
            if stored.__dict__["data_sha256"] == data.sha256:
                nets.append(stored)
                continue
        net = _trained(case, net, data)
        if path is not None:
            save_weights(net, path, data.sha256)
        nets.append(net)
    return nets


def _trained(case: Case, net: nn.Module, data: Dataset) -> nn.Module:
    """By the usual recipe, or to react; of the latter the large ones on a GPU, where there
    is one.
    """
    if not case.network.endswith(REACTING):
        return train(net, data, seed=case.seed)
    large = parameters(net) > LARGEST_STORED and torch.cuda.is_available()
    return train_reacting(net, data, case.seed, "cuda" if large else "cpu")


def save_weights(net: nn.Module, path: Path, data_sha256: str) -> None:
    """All weights in float32 (training ends there), mean, spread, accuracy and the data's sha256,
    in one step.
    """
    arrays = {
        f"w:{name}": tensor.cpu().numpy().astype(np.float32)
        for name, tensor in net.state_dict().items()
    }
    report = net.__dict__["report"]
    score = next(value for key, value in report.items() if key.startswith("test_"))
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        np.savez_compressed(
            file,
            mean=net.__dict__["mean"],
            std=net.__dict__["std"],
            test_score=np.array(score),
            data_sha256=np.frombuffer(data_sha256.encode(), dtype=np.uint8),
            **arrays,
        )
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def load_weights(net: nn.Module, path: Path) -> nn.Module:
    """`net` with the weights that `save_weights` wrote: float64, evaluation mode, frozen."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    state = {
        name[2:]: torch.from_numpy(array) for name, array in arrays.items() if name.startswith("w:")
    }
    net.load_state_dict(state)
    net.double().requires_grad_(False).eval()
    net.__dict__.update(
        mean=arrays["mean"],
        std=arrays["std"],
        report={"test_score": float(arrays["test_score"])},
        data_sha256=arrays["data_sha256"].tobytes().decode(),
    )
    return net

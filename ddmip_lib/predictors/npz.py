"""ReLU networks as plain arrays: ``W0, b0, W1, b1, ...`` (rows of W = outputs), optionally ``mean, std``."""

import math
import os
import re
import zipfile
import zlib

import numpy as np
import torch
from torch import nn

from ..bounds.layer import linear_layer
from .describe import describe, linear_layers

LIMIT, INFLATED = 2**30, 1100
"""Bytes that all arrays of a file may have, in total and for each byte of the file (deflate packs 1032 into one)."""


def _require_small(path: str | os.PathLike[str]) -> None:
    """Refuse arrays that are larger than the file can hold, by their headers: before memory is asked for."""
    most = min(LIMIT, INFLATED * os.path.getsize(path))
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as file:
                old = np.lib.format.read_magic(file) == (1, 0)
                read = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(file)
            size = math.prod(shape) * dtype.itemsize
            most -= max(size, member.file_size)
            if size > member.file_size or most < 0:
                raise ValueError(f"{member.filename} claims {size} bytes, more than the file holds or {LIMIT} in all")


def _arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    try:
        _require_small(path)
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as problem:
        message = f"{path} is not an npz file of plain arrays ({problem}): write it with save_npz"
        raise ValueError(message) from problem
    for name, array in arrays.items():
        if np.issubdtype(array.dtype, np.floating):
            with np.errstate(over="ignore"):
                arrays[name] = array.astype(np.float64)  # what is too large for a double becomes infinite here
        if arrays[name].dtype != np.float64 or not np.isfinite(arrays[name]).all():
            raise ValueError(f"{path}: array {name!r} must hold finite floating-point numbers only")
    return arrays


def _check_shapes(path: str | os.PathLike[str], arrays: dict[str, np.ndarray], depth: int) -> None:
    layers = {f"{kind}{layer}" for kind in "Wb" for layer in range(depth)}
    missing, unknown = layers - arrays.keys(), arrays.keys() - layers - {"mean", "std"}
    if depth == 0 or missing or unknown:
        raise ValueError(
            f"{path}: expected W0, b0, W1, b1, ... without gaps (and optionally mean and std); "
            f"missing {sorted(missing) or 'W0'}, not understood {sorted(unknown)}"
        )
    for layer in range(depth):
        weight, bias = arrays[f"W{layer}"], arrays[f"b{layer}"]
        if weight.ndim != 2 or bias.shape != weight.shape[:1]:
            raise ValueError(
                f"{path}: W{layer} has shape {weight.shape} and b{layer} {bias.shape}: pass (m, k) and (m,)"
            )
        if layer and weight.shape[1] != len(arrays[f"W{layer - 1}"]):
            raise ValueError(
                f"{path}: W{layer} takes {weight.shape[1]} inputs, but layer {layer - 1} has "
                f"{len(arrays[f'W{layer - 1}'])} outputs"
            )
    if ("mean" in arrays) != ("std" in arrays):
        raise ValueError(f"{path}: mean and std come together, or not at all")
    width = arrays["W0"].shape[1]
    for name in {"mean", "std"} & arrays.keys():
        if arrays[name].shape != (width,):
            raise ValueError(f"{path}: {name} has shape {arrays[name].shape}, the network {width} inputs")
    if "std" in arrays and not (arrays["std"] > 0).all():
        raise ValueError(f"{path}: every std must be positive")


def load_npz(path: str | os.PathLike[str]) -> nn.Sequential:
    """A ReLU MLP from arrays: float64, evaluation mode, frozen; ``.mean`` and ``.std`` if the file has them.

    >>> import tempfile
    >>> from ddmip_lib.predictors import mlp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_npz(mlp(depth=1, width=4, n_in=3), folder + "/net.npz")
    ...     describe(load_npz(folder + "/net.npz"))
    '1x4 ReLU MLP, 21 parameters'
    """
    arrays = _arrays(path)
    depth = sum(bool(re.fullmatch(r"W\d+", name)) for name in arrays)
    _check_shapes(path, arrays, depth)
    layers: list[nn.Module] = []
    for layer in range(depth):
        weight, bias = (torch.from_numpy(arrays[f"{kind}{layer}"]) for kind in "Wb")
        layers += [linear_layer(weight, bias), nn.ReLU()]
    net = nn.Sequential(*layers[:-1]).requires_grad_(False).eval()
    net.__dict__.update({name: arrays[name] for name in ("mean", "std") if name in arrays})
    return net


def save_npz(net: nn.Module, path: str | os.PathLike[str]) -> None:
    """Write a flat ReLU MLP, with its ``.mean`` and ``.std`` if it has them, for `load_npz`.

    Weights that float32 holds exactly (those of `train`) are stored as float32; the round trip loses nothing.
    """
    linear = linear_layers(net)
    if linear is None:
        raise ValueError(
            "save_npz stores ReLU MLPs (an nn.Sequential of Linear, ReLU, ..., Linear), "
            f"not this {describe(net)}: use torch.save(net.state_dict(), ...) for other networks"
        )
    arrays: dict[str, np.ndarray] = {}
    for number, layer in enumerate(linear):
        arrays[f"W{number}"] = layer.weight.detach().cpu().numpy()
        arrays[f"b{number}"] = np.zeros(layer.out_features) if layer.bias is None else layer.bias.detach().cpu().numpy()
    if all((array.astype(np.float32) == array).all() for array in arrays.values()):
        arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    arrays.update({name: net.__dict__[name] for name in ("mean", "std") if name in net.__dict__})
    with open(path, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]

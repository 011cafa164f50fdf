"""ReLU networks as plain arrays: ``W0, b0, W1, b1, ...`` (rows of W = outputs), optionally ``mean,
std``.
"""

import math
import os
import re
import struct
import zipfile
import zlib
from typing import IO, Any

import numpy as np
import torch
from torch import nn

from ..bounds.layer import linear_layer
from .describe import describe, linear_layers

LIMIT = 2**30
INFLATED = 100
SMALL = 2**20
"""Bytes that all arrays of a file may take in memory: in total, and for each byte of the file.
Weights hardly shrink where they are packed, so that a file in which they take more is none of
weights; a `SMALL` one may be anything.
"""
LONGEST = 10_000  # bytes of a header, as numpy has it
HEADER = re.compile(
    r"\{'descr': '([^'\\]{1,20})', 'fortran_order': (?:True|False), 'shape': \(((?:\d{1,18},?"
    r" ?){0,32})\), ?\}\s*"
)


def _header(file: IO[bytes]) -> tuple[np.dtype[Any], int]:
    """Type and number of the entries of an array, by a header that numpy writes for plain arrays,
    and by no other.
    """
    old = np.lib.format.read_magic(file) == (1, 0)
    (length,) = struct.unpack("<H" if old else "<I", file.read(2 if old else 4))
    found = HEADER.fullmatch(file.read(length).decode("latin1")) if length <= LONGEST else None
    if found is None:
        raise ValueError("its header is none of a plain array")
    return np.dtype(found[1]), math.prod(int(size) for size in re.findall(r"\d+", found[2]))


def _require_small(path: str | os.PathLike[str]) -> None:
    """Refuse arrays that are larger than the file can hold, or than weights are: by their headers,
    before memory is asked for. As long as all are read, an array takes what is stored, and as much
    again as doubles.
    """
    room = min(LIMIT, max(SMALL, INFLATED * os.path.getsize(path)))
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as file:
                try:
                    dtype, count = _header(file)
                except (ValueError, TypeError, struct.error) as problem:
                    raise ValueError(f"{member.filename}: {problem}") from problem
            size = count * dtype.itemsize
            room -= max(size, member.file_size) + 8 * count
            if size > member.file_size or room < 0:
                raise ValueError(
                    f"{member.filename} claims {size} bytes, more than the file holds, than"
                    f" {INFLATED} times its size or {LIMIT} in all, with the doubles that arrays"
                    " become"
                )


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
                arrays[name] = array.astype(
                    np.float64, order="C"
                )  # what is too large for a double becomes infinite here
        if arrays[name].dtype != np.float64 or not np.isfinite(arrays[name]).all():
            raise ValueError(f"{path}: array {name!r} must hold finite floating-point numbers only")
    return arrays


def _check_shapes(path: str | os.PathLike[str], arrays: dict[str, np.ndarray], depth: int) -> None:
    layers = {f"{kind}{layer}" for kind in "Wb" for layer in range(depth)}
    missing = layers - arrays.keys()
    unknown = arrays.keys() - layers - {"mean", "std"}
    if depth == 0 or missing or unknown:
        raise ValueError(
            f"{path}: expected W0, b0, W1, b1, ... without gaps (and optionally mean and std); "
            f"missing {sorted(missing) or 'W0'}, not understood {sorted(unknown)}"
        )
    for layer in range(depth):
        weight = arrays[f"W{layer}"]
        bias = arrays[f"b{layer}"]
        if weight.ndim != 2 or bias.shape != weight.shape[:1]:
            raise ValueError(
                f"{path}: W{layer} has shape {weight.shape} and b{layer} {bias.shape}: pass (m, k)"
                " and (m,)"
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
            raise ValueError(
                f"{path}: {name} has shape {arrays[name].shape}, the network {width} inputs"
            )
    if "std" in arrays and not (arrays["std"] > 0).all():
        raise ValueError(f"{path}: every std must be positive")


def load_npz(path: str | os.PathLike[str]) -> nn.Sequential:
    """A ReLU MLP from arrays: float64, evaluation mode, frozen; ``.mean`` and ``.std`` if the file
    has them.

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

    Weights that float32 holds exactly (those of `train`) are stored as float32; the round trip
    loses nothing.
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
        arrays[f"b{number}"] = (
            np.zeros(layer.out_features)
            if layer.bias is None
            else layer.bias.detach().cpu().numpy()
        )
    if all((array.astype(np.float32) == array).all() for array in arrays.values()):
        arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    arrays.update({name: net.__dict__[name] for name in ("mean", "std") if name in net.__dict__})
    with open(path, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]

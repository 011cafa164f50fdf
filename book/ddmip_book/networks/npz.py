"""ReLU networks as plain arrays: ``W0, b0, W1, b1, ...``, optionally ``mean, std``.

The rows of a weight matrix W belong to the outputs of its layer.
"""

import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import torch
from numpy import ndarray
from torch import nn

from ddmip_lib.bounds.layer import linear_layer
from .describe import describe, linear_layers

# Bytes that all arrays of a file may take in memory.
MAX_ARRAY_BYTES = 2**30
# The same for each byte of the file: weights hardly shrink when they are compressed.
MAX_INFLATION = 100
# The same for a small file, whatever it holds.
SMALL_ARRAY_BYTES = 2**20
# Bytes of an array's header, as numpy limits it.
MAX_HEADER_BYTES = 10_000
HEADER = re.compile(
    r"\{'descr': '([^'\\]{1,20})', 'fortran_order': (?:True|False), 'shape': \(((?:\d{1,18},?"
    r" ?){0,32})\), ?\}\s*"
)
FilePath = str | os.PathLike[str]
Arrays = dict[str, ndarray]


def _header(file: IO[bytes]) -> tuple[np.dtype[Any], int]:
    """Type and number of the entries of an array, by a header as numpy writes it for plain arrays,
    and by no other.
    """
    if np.lib.format.read_magic(file) == (1, 0):
        (length,) = struct.unpack("<H", file.read(2))
    else:
        (length,) = struct.unpack("<I", file.read(4))
    if length > MAX_HEADER_BYTES:
        raise ValueError("its header is too long")
    found = HEADER.fullmatch(file.read(length).decode("latin1"))
    if found is None:
        raise ValueError("its header is none of a plain array")
    return np.dtype(found[1]), math.prod(int(size) for size in re.findall(r"\d+", found[2]))


def _require_small(path: FilePath) -> None:
    """Refuse arrays that are larger than the file can hold, or than weights are, by their headers.

    As long as all are read, an array takes what is stored, and as much again as doubles.
    """
    free = max(SMALL_ARRAY_BYTES, MAX_INFLATION * os.path.getsize(path))
    free = min(MAX_ARRAY_BYTES, free)
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as file:
                try:
                    dtype, count = _header(file)
                except (ValueError, TypeError, struct.error) as problem:
                    raise ValueError(f"{member.filename}: {problem}") from problem
            size = count * dtype.itemsize
            free -= max(size, member.file_size) + 8 * count
            if size > member.file_size or free < 0:
                raise ValueError(
                    f"{member.filename} claims {size} bytes, more than the file holds, than"
                    f" {MAX_INFLATION} times its size or {MAX_ARRAY_BYTES} in all, with the doubles"
                    " that arrays become"
                )


def _arrays(path: FilePath) -> Arrays:
    try:
        _require_small(path)
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as problem:
        message = f"{path} is not an npz file of plain arrays ({problem}): write it with save_npz"
        raise ValueError(message) from problem
    for name, array in arrays.items():
        if np.issubdtype(array.dtype, np.floating):
            with np.errstate(over="ignore"):  # too large for a double: infinite
                arrays[name] = array.astype(np.float64, order="C")
        if arrays[name].dtype != np.float64 or not np.isfinite(arrays[name]).all():
            raise ValueError(f"{path}: array {name!r} must hold finite floating-point numbers only")
    return arrays


def _faults(arrays: Arrays, depth: int) -> Iterator[str]:
    """What keeps arrays from being the layers of a network, most basic faults first."""
    layers = {f"{kind}{layer}" for kind in "Wb" for layer in range(depth)}
    missing = layers - arrays.keys()
    unknown = arrays.keys() - layers - {"mean", "std"}
    if depth == 0 or missing or unknown:
        yield (
            "expected W0, b0, W1, b1, ... without gaps (and optionally mean and std); missing"
            f" {sorted(missing) or 'W0'}, not understood {sorted(unknown)}"
        )
    if ("mean" in arrays) != ("std" in arrays):
        yield "mean and std come together, or not at all"
    n_outputs = None
    for layer in range(depth):
        weight = arrays[f"W{layer}"].shape
        bias = arrays[f"b{layer}"].shape
        if len(weight) != 2 or bias != weight[:1]:
            yield (f"W{layer} has shape {weight} and b{layer} {bias}: pass (m, k) and (m,)")
        if n_outputs not in (None, weight[1]):
            yield (
                f"W{layer} takes {weight[1]} inputs, but layer {layer - 1} has {n_outputs} outputs"
            )
        n_outputs = weight[0]
    n_inputs = arrays["W0"].shape[1]
    for name, array in _standardisation_of(arrays).items():
        if array.shape != (n_inputs,):
            yield f"{name} has shape {array.shape}, the network {n_inputs} inputs"
    if "std" in arrays and not (arrays["std"] > 0).all():
        yield "every std must be positive"


def load_npz(path: FilePath) -> nn.Sequential:
    """Load a ReLU MLP from a file of arrays.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    nn.Sequential
        In float64 and evaluation mode, without gradients of weights; with ``.mean`` and ``.std`` if
        the file has them.

    Raises
    ------
    ValueError
        If the file is no archive of plain arrays, or they do not belong to a ReLU MLP.

    Examples
    --------
    >>> import tempfile
    >>> from ddmip_book.networks import mlp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_npz(mlp(depth=1, width=4, n_in=3), folder + "/net.npz")
    ...     describe(load_npz(folder + "/net.npz"))
    '1x4 ReLU MLP, 21 parameters'
    """
    arrays = _arrays(path)
    depth = sum(bool(re.fullmatch(r"W\d+", name)) for name in arrays)
    for fault in _faults(arrays, depth):
        raise ValueError(f"{path}: {fault}")
    layers: list[nn.Module] = []
    for layer in range(depth):
        weight = torch.from_numpy(arrays[f"W{layer}"])
        bias = torch.from_numpy(arrays[f"b{layer}"])
        layers += [linear_layer(weight, bias), nn.ReLU()]
    net = nn.Sequential(*layers[:-1]).requires_grad_(False).eval()
    net.__dict__.update(_standardisation_of(arrays))
    return net


def save_npz(net: nn.Module, path: FilePath) -> None:
    """Write a flat ReLU MLP, with its ``.mean`` and ``.std`` if it has them, for `load_npz`.

    Weights that float32 represents exactly (those of `train`) are stored as float32, so that
    loading gives the same numbers.

    Parameters
    ----------
    net : nn.Module
        An ``nn.Sequential`` of Linear, ReLU, ..., Linear.
    path : str or path-like
        The file.

    Raises
    ------
    ValueError
        If it is another network.
    """
    linear = linear_layers(net)
    if linear is None:
        raise ValueError(
            "save_npz stores ReLU MLPs (an nn.Sequential of Linear, ReLU, ..., Linear), "
            f"not this {describe(net)}: use torch.save(net.state_dict(), ...) for other networks"
        )
    arrays: Arrays = {}
    for number, layer in enumerate(linear):
        arrays[f"W{number}"] = layer.weight.numpy(force=True)
        arrays[f"b{number}"] = np.zeros(layer.out_features)
        if layer.bias is not None:
            arrays[f"b{number}"] = layer.bias.numpy(force=True)
    single = {name: array.astype(np.float32) for name, array in arrays.items()}
    if all((single[name] == array).all() for name, array in arrays.items()):
        arrays = single
    arrays |= _standardisation_of(net.__dict__)
    with open(path, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _standardisation_of(arrays: dict[str, Any]) -> Arrays:
    return {name: arrays[name] for name in ("mean", "std") if name in arrays}

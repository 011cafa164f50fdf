"""Trained networks on disk, under a hash of everything that determines them."""

import hashlib
import io
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ddmip_book.data.files import cache_dir
from ddmip_lib.model.description import Description

DIGEST_BYTES = hashlib.sha256().digest_size


def key_of(net: nn.Module, parts: list[Any]) -> str | None:
    """Return a hash of a network before training and of all that determines the training.

    Parameters
    ----------
    net : nn.Module
        The network with its first weights.
    parts : list
        All else that determines the training.

    Returns
    -------
    str or None
        None if the network's code or data cannot be followed (see `Description`).
    """
    description = Description()
    key = description.of([net, *parts]).hex()
    return key if description.complete else None


def _path(key: str) -> Path:
    return cache_dir() / "networks" / f"{key}.pt"


def load(key: str) -> dict[str, Any] | None:
    """Read an entry.

    Parameters
    ----------
    key : str
        The hash under which it was stored.

    Returns
    -------
    dict or None
        What `store` was given; None, with a warning if the file is damaged, if there is no entry.
    """
    path = _path(key)
    if not path.exists():
        return None
    try:
        return _read(path.read_bytes())
    except Exception as problem:  # whatever torch raises for files of another version
        reason = str(problem).partition("\n")[0]
        warnings.warn(
            f"{path} is damaged ({reason}); it is ignored and the network trained again",
            stacklevel=3,
        )
        return None


def _read(content: bytes) -> dict[str, Any]:
    payload = content[DIGEST_BYTES:]
    if hashlib.sha256(payload).digest() != content[:DIGEST_BYTES]:
        raise ValueError("wrong checksum")
    entry = torch.load(io.BytesIO(payload), weights_only=True)
    if not isinstance(entry, dict) or not entry.keys() >= {"state", "report"}:
        raise ValueError("no weights and report")
    return entry


def store(key: str, entry: dict[str, Any]) -> None:
    """Write an entry and its checksum in one step: a reader gets the complete file or none.

    Parameters
    ----------
    key : str
        The hash of `key_of`.
    entry : dict
        Weights (``"state"``) and ``"report"``.
    """
    path = _path(key)
    buffer = io.BytesIO()
    torch.save(entry, buffer)
    payload = buffer.getvalue()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            file.write(hashlib.sha256(payload).digest() + payload)
        os.replace(file.name, path)
    except OSError as problem:
        warnings.warn(
            f"the trained network could not be cached ({problem}): set DDMIP_CACHE_DIR to a"
            " writable folder",
            stacklevel=3,
        )

"""Trained networks on disk, under a hash of everything that determines them."""

import hashlib
import inspect
import io
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..data.files import cache_dir

DIGEST = hashlib.sha256().digest_size
Settings = (bool, int, float, str, tuple, type(None))


def code_of(net: nn.Module) -> list[str] | None:
    """Code and plain settings of all modules that are not torch's own, or None where they cannot be
    read.
    """
    found = []
    for name, module in net.named_modules():
        for kind in type(module).__mro__:
            if kind is object or kind.__module__.partition(".")[0] == "torch":
                continue
            try:
                found.append(f"{name}: {kind.__qualname__}\n{inspect.getsource(kind)}")
            except (OSError, TypeError):
                return None
        if type(module).__module__.partition(".")[0] != "torch":
            settings = {
                key: value for key, value in vars(module).items() if not key.startswith("_")
            }
            if not all(isinstance(value, Settings) for value in settings.values()):
                return None
            found.append(f"{name}: {sorted(settings.items())!r}")
    return found


def key_of(net: nn.Module, parts: list[Any]) -> str | None:
    """sha256 over the initial network and `parts` (arrays by content, else by repr), or None."""
    code = code_of(net)
    if code is None:
        return None
    digest = hashlib.sha256()
    state = [
        item for name, tensor in net.state_dict().items() for item in (name, tensor.cpu().numpy())
    ]
    for part in [repr(net), code, *state, *parts]:
        if hasattr(part, "tobytes"):
            digest.update(f"{part.dtype}{part.shape}".encode() + part.tobytes())
        else:
            digest.update(repr(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _path(key: str) -> Path:
    return cache_dir() / "networks" / f"{key}.pt"


def load(key: str) -> dict[str, Any] | None:
    """What `store` was given under this key, or None if there is nothing sound."""
    path = _path(key)
    if not path.exists():
        return None
    try:
        content = path.read_bytes()
        digest = content[:DIGEST]
        payload = content[DIGEST:]
        if hashlib.sha256(payload).digest() != digest:
            raise ValueError("wrong checksum")
        entry = torch.load(io.BytesIO(payload), weights_only=True)
        if not isinstance(entry, dict) or not entry.keys() >= {"state", "report"}:
            raise ValueError("no weights and report")
    except Exception as problem:  # whatever torch says of files of another version
        why = str(problem).partition("\n")[0]
        warnings.warn(
            f"{path} is damaged ({why}); it is ignored and the network trained again", stacklevel=3
        )
        return None
    return entry


def store(key: str, entry: dict[str, Any]) -> None:
    """Write the entry and its digest in one step: a reader sees the whole file or none."""
    path = _path(key)
    buffer = io.BytesIO()
    torch.save(entry, buffer)
    payload = buffer.getvalue()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            file.write(hashlib.sha256(payload).digest() + payload)
        if path.is_dir():
            path.rename(tempfile.mkdtemp(dir=path.parent, prefix=f"{key}.", suffix=".aside"))
        os.replace(file.name, path)
    except OSError as problem:
        warnings.warn(
            f"the trained network could not be cached ({problem}): set DDMIP_CACHE_DIR to a"
            " writable folder",
            stacklevel=3,
        )

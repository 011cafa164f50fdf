"""What a finished run leaves behind: one flat, self-describing record, and where it came from."""

from __future__ import annotations

import base64
import json
import os
import platform
import subprocess
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pyscipopt import Model

from .case import SENSES, Case

PACKAGES = ("torch", "pyscipopt", "pyscipopt-ml", "piqp", "numpy", "scipy")
CODE = ("ddmip_lib", "book/ddmip_book/experiments", "experiments")
"""What a checkout must not have changed since its commit, for that commit to name the code."""


@dataclass(frozen=True)
class Row:
    """One run. Fields that a method has nothing to say about are None."""

    key: str
    experiment: str
    problem: str
    network: str
    size: int
    seed: int
    method: str
    time_limit: float
    device: str
    budget: float | None
    sense: str
    status: str
    """A status of `Solution`, or ``"memory_limit"`` or ``"killed"`` (then `why` holds the reason).
    """
    why: str | None = None
    objective: float | None = None
    """Verified by the true network; by `sense` larger or smaller is better."""
    objective_last: float | None = None
    untreated: float | None = None
    """Verified objective of the start."""
    bound: float | None = None
    iterations: int | None = None
    converged: bool | None = None
    r"""The paper's test: $\lVert u - x\rVert_\infty < 10^{-4}$ in the last iteration."""
    primal_residual: float | None = None
    dual_residual: float | None = None
    seconds: float | None = None
    """From the call of `solve` to its return, the model's build included."""
    cpu_seconds: float | None = None
    build_seconds: float | None = None
    solve_seconds: float | None = None
    seconds_mip: float | None = None
    seconds_nn: float | None = None
    peak_memory: float | None = None
    """MiB, of the whole process."""
    parameters: int | None = None
    test_score: float | None = None
    """The networks' accuracy (water) or mean squared error (trees) on records that training did not
    see.
    """
    incumbents: list[list[float]] = field(default_factory=list)
    """Seconds and verified objective of every improvement."""
    trace: dict[str, list[float | None]] = field(default_factory=dict)
    """Of at most 100 iterations: number, seconds, residuals, objective."""
    details: dict[str, Any] = field(default_factory=dict)
    """What only some methods report, by name: model size, nodes and the like. See
    ``data/results/README.md``.
    """
    weights: dict[str, Any] = field(default_factory=dict)
    """Names of the stored files (none for large networks) and the digest of the weights."""
    point: dict[str, Any] = field(default_factory=dict)
    """Water: record numbers and adjustments; else the values of all variables. See `decode`."""
    provenance: dict[str, Any] = field(default_factory=dict)
    """Data, code, packages, machine and date. See ``data/results/README.md``."""

    def line(self) -> str:
        """The record as one line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"), allow_nan=False) + "\n"

    @classmethod
    def parse(cls, line: str) -> Row:
        """Back from `line`; a field that is missing or unknown is an error that names it."""
        found = json.loads(line)
        names = {f.name for f in fields(cls)}
        if not isinstance(found, dict) or not isinstance(found.get("key", ""), str):
            raise ValueError("a record is an object of JSON, with a text for its key.")
        if set(found) != names:
            raise ValueError(
                f"a record lacks {sorted(names - set(found))} or has unknown"
                f" {sorted(set(found) - names)}."
            )
        return cls(**found)

    @property
    def case(self) -> Case:
        return Case(**{f.name: getattr(self, f.name) for f in fields(Case)})

    @property
    def adjustments(self) -> np.ndarray:
        """Of a water problem: what the point changes, (samples, features)."""
        changes = decode(self.point["adjustments"], self.point["dtype"])
        return changes.reshape(self.size, -1)

    @property
    def spent(self) -> np.ndarray:
        """What the adjustments add to each feature over all samples, and what they take away."""
        moved = self.adjustments
        return np.stack([np.maximum(moved, 0).sum(axis=0), np.maximum(-moved, 0).sum(axis=0)])

    @property
    def ended(self) -> bool:
        """Whether the solver called its point optimal, checked (see `proofs`) or not."""
        return self.status in ("optimal", "claimed_optimal")

    @property
    def sign(self) -> int:
        """What an objective or bound is multiplied by, for larger to be better."""
        return 1 if self.sense == SENSES[0] else -1


def encode(values: np.ndarray) -> str:
    """Numbers as text: float32 or float64 bytes, packed.

    >>> decode(encode(np.array([0.0, 1.5], dtype=np.float32)), "float32")
    array([0. , 1.5])
    """
    return base64.b64encode(zlib.compress(np.ascontiguousarray(values).tobytes(), 9)).decode()


def decode(text: str, dtype: str) -> np.ndarray:
    """Back from `encode`, in float64."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=dtype).astype(np.float64)


def rounded(value: float) -> float | None:
    """Six significant digits; None for what JSON has no word for."""
    return float(f"{value:.6g}") if np.isfinite(value) else None


@cache
def _commit() -> str | None:
    """The commit of the checkout that holds the library, with a plus where its code was changed
    since.
    """
    folder = Path(__file__).resolve().parents[3]
    if not (folder / ".git").exists():
        return os.environ.get("DDMIP_COMMIT")
    git = ["git", "-C", str(folder)]
    head = subprocess.run(
        [*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
    )
    status = [*git, "status", "--porcelain", "--", *CODE]
    changed = subprocess.run(status, capture_output=True, text=True, check=True).stdout
    return head.stdout.strip() + ("+" if changed else "")


@cache
def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def provenance(data: Sequence[Mapping[str, Any]], device: str, workers: int) -> dict[str, Any]:
    """Data, packages, machine and date of a run; `experiments` of the project enters the code's
    hash.
    """
    commit = _commit()
    machine = {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "gpu": torch.cuda.get_device_name() if device.startswith("cuda") else None,
        "load": round(os.getloadavg()[0], 2),
        "workers": workers,
        "threads": torch.get_num_threads(),
    }
    return {
        "data": [dict(each) for each in data],
        "library": version("ddmip-lib"),
        "commit": commit,
        "uncommitted": commit is not None and commit.endswith("+"),
        "code": None,
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES} | {"SCIP": f"{Model().version():g}"},
        "machine": machine,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }

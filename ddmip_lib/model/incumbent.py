"""The best point of a run, verified by the true network: what every solver keeps and returns."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np

from .instance import Compiled
from .verification import Verification


@dataclass
class Incumbent:
    """The best verified point so far, and when each one was found."""

    compiled: Compiled
    began: float
    check: Verification | None = None
    values: np.ndarray | None = None
    found: list[tuple[float, float]] = field(default_factory=list)
    """Seconds since the run began, and the verified objective, of every improvement."""
    seen: dict[bytes, Verification] = field(default_factory=dict)
    """What became of each matrix of network inputs that was completed."""
    screen: Compiled | None = None
    """The same problem with its networks on another device, in double precision too: a point that is no better there
    is not verified on the CPU."""

    @property
    def objective(self) -> float | None:
        return None if self.check is None else self.check.objective

    def consider(self, values: np.ndarray) -> Verification:
        """Replace outputs by the true network's and verify; a feasible point that is better takes the place."""
        for compiled in (self.screen, self.compiled):
            if compiled is not None:
                replaced = compiled.with_outputs(values)
                check = compiled.check(replaced)
                if not (check.feasible and compiled.snapshot.better(check.objective, self.objective)):
                    return check
        self.check, self.values = check, replaced
        self.found.append((time.perf_counter() - self.began, check.objective))
        return check

    def consider_inputs(self, values: np.ndarray, seconds: float) -> Verification:
        """Let the best point with the network inputs of `values` compete; inputs seen before are not solved again."""
        inputs = self.compiled.inputs(self.compiled.rounded(values))
        key = blake2b(b"".join(x.tobytes() for x in inputs), digest_size=16).digest()
        if key not in self.seen:
            completed = self.compiled.complete(inputs, seconds)
            self.seen[key] = self.consider(values if completed is None else completed)
        return self.seen[key]

    def consider_start(self, start: list[np.ndarray] | None, time_limit: float) -> None:
        """Let the problem's start compete, completed within a share of the time."""
        if start is None or time_limit <= 0:
            return
        values = self.compiled.complete(start, seconds=min(10.0, 0.2 * time_limit))
        if values is not None:
            self.consider(values)

    def point(self) -> dict[str, Any]:
        """The fields of a `Solution` that describe the point."""
        if self.values is None:
            return {}
        return {
            "objective": self.objective,
            "inputs": self.compiled.inputs(self.values),
            "outputs": [self.values[m.output] for m in self.compiled.maps],
            "values": self.values,
            "verification": self.check,
        }

"""One run of an experiment: what is solved, by which method, for how long."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

SEEDS = (42, 123, 456, 789, 1024)


@dataclass(frozen=True)
class Case:
    """A setting; its `key` names the row that it becomes.

    >>> Case("e1", "water", "2x16", 25, 42, "bigm", 300.0).key
    'e1/water/2x16/25/42/bigm/300s/cpu'
    """

    experiment: str
    problem: str
    """``"water"``, ``"water_repeated"`` (samples drawn with replacement), ``"trees"`` or ``"site_care"``."""
    network: str
    """``"4x32"`` (hidden layers x units), or an architecture such as ``"lstm"``."""
    size: int
    """Samples (water), or sites along each side."""
    seed: int
    """Of initialisation, split, batch order, sample draw and solver."""
    method: str
    """A name in `METHODS`."""
    time_limit: float = 300.0
    device: str = "cpu"

    @property
    def key(self) -> str:
        parts = (self.experiment, self.problem, self.network, self.size, self.seed, self.method)
        return "/".join(map(str, parts)) + f"/{self.time_limit:g}s/{self.device}"

    def setting(self) -> dict[str, Any]:
        """The fields by name, as they stand in a row."""
        return asdict(self)

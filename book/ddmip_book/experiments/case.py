"""One run of an experiment: what is solved, by which method, for how long."""

from dataclasses import asdict, dataclass
from typing import Any

SEEDS = (42, 123, 456, 789, 1024)
WATER_BUDGET = 2.0
r"""The paper's $\gamma$: what may be added to each feature, and taken away, over all samples."""
RAW = "water_raw"
"""Water with the budgets of SurrogateLIB's own test, given in the units of the data."""
RAW_BUDGETS = ((2.2, 22, 220, 1.1, 22, 22, 1.7, 5.5, 1.1), (2, 20, 200, 1, 20, 20, 1.5, 5, 1))
"""What may be added and taken away there, in the order of the features."""
SENSES = ("maximise", "minimise")
SUITE = "suite"
"""The problem of E7's cases, whose `network` names one of its models."""


@dataclass(frozen=True)
class Case:
    """A setting; its `key` names the record that it becomes.

    >>> Case("e1", "water", "2x16", 25, 42, "bigm", 300.0).key
    'e1/water/2x16/25/42/bigm/300s/cpu'
    >>> Case("e1", "water", "2x16", 25, 42, "bigm", budget=3.0).key
    'e1/water/2x16/25/42/bigm/300s/cpu/budget3'
    """

    experiment: str
    problem: str
    """``"water"``, ``"water_repeated"`` (drawn with replacement), ``"water_raw"`` (other budgets),
    ``"trees"``, ``"site_care"`` or ``"suite"``.
    """
    network: str
    """``"4x32"`` (hidden layers x units; with ``"-he"`` trained to be input-sensitive, see
    `reacting`), or an architecture such as ``"lstm"``; of the suite the model's name.
    """
    size: int
    """Samples (water), sites along each side, or free inputs of the networks (suite)."""
    seed: int
    """Of initialisation, split, batch order, sample draw and solver; in the suite of the solver
    alone.
    """
    method: str
    """A name in `METHODS`."""
    time_limit: float = 300.0
    device: str = "cpu"
    budget: float | None = None
    """Of water problems, where it is `WATER_BUDGET` unless given; None elsewhere."""
    sense: str = SENSES[0]
    """Whether the larger objective is the better one (``"maximise"``) or the smaller one
    (``"minimise"``).
    """

    def __post_init__(self) -> None:
        water = self.problem.startswith("water") and self.problem != RAW
        if self.budget is not None and not water:
            raise ValueError(
                f"budget={self.budget}: {self.problem} has none, only water problems do."
            )
        if self.sense not in SENSES:
            raise ValueError(f"sense={self.sense!r} must be one of {', '.join(SENSES)}.")
        if water and self.budget is None:
            object.__setattr__(self, "budget", WATER_BUDGET)

    @property
    def key(self) -> str:
        """The setting in words; budget and sense only where they are not the usual ones."""
        parts = (self.experiment, self.problem, self.network, self.size, self.seed, self.method)
        usual = self.budget in (None, WATER_BUDGET), self.sense == SENSES[0]
        more = "" if usual[0] else f"/budget{self.budget:g}", "" if usual[1] else f"/{self.sense}"
        return "/".join(map(str, parts)) + f"/{self.time_limit:g}s/{self.device}" + "".join(more)

    def setting(self) -> dict[str, Any]:
        """The fields by name, as they stand in a record."""
        return asdict(self)

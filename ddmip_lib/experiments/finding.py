"""What a check of one claim comes to: a sentence with its numbers, and a verdict if the numbers decide it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .grids import grid
from .results import Results

CONFIRMED, CHANGED, NOT_REPRODUCED, FALSE = "confirmed", "confirmed with changes", "not reproduced", "false"
VERDICTS = (CONFIRMED, CHANGED, NOT_REPRODUCED, FALSE)


@dataclass(frozen=True)
class Finding:
    """The evidence of one check.

    >>> Finding("900 / 8.7 = 103", "confirmed").decided
    True
    """

    text: str
    verdict: str | None
    """None while too few runs are stored to decide."""
    have: int = 0
    need: int = 0
    """Runs that the check has, and wants."""

    @property
    def decided(self) -> bool:
        return self.verdict is not None


Check = Callable[[Results], Finding]
CHECKS: dict[str, Check] = {}
"""All checks by name: those of `printed` need no run, those of `measured` read the stored rows."""


def check(function: Check) -> Check:
    """Register a check under the name of its function."""
    CHECKS[function.__name__] = function
    return function


class Runs(Results):
    """The stored rows of those cases of a full grid that have the given fields, and how many cases there are.

    >>> runs = Runs(Results([]), "e2", network="2x16", device="cpu")
    >>> len(runs), runs.need
    (0, 5)
    """

    def __init__(self, stored: Results, experiment: str, **fields: Any) -> None:
        allowed = {name: v if isinstance(v, (list, tuple)) else (v,) for name, v in fields.items()}
        wanted = {c.key for c in grid(experiment) if all(getattr(c, n) in v for n, v in allowed.items())}
        super().__init__([row for row in stored if row.key in wanted])
        self.need = len(wanted)


def concluded(verdict: str, text: str, *runs: Runs, early: bool = False) -> Finding:
    """The finding from these runs; the verdict counts when all are there, or at once if no further run can change it.

    >>> concluded("confirmed", "5 of 5 converge", Runs(Results([]), "e2", network="2x16", device="cpu")).verdict
    """
    have, need = sum(map(len, runs)), sum(part.need for part in runs)
    if have < need:
        text += f" (so far: {have} of {need} runs)"
    return Finding(text, verdict if have == need or early else None, have, need)


def waiting(*runs: Runs) -> Finding | None:
    """A finding that says so, if one of the parts has no run yet."""
    have, need = sum(map(len, runs)), sum(part.need for part in runs)
    return Finding(f"{have} of {need} runs are stored", None, have, need) if not all(map(len, runs)) else None


def listed(values: Sequence[float], digits: int = 3) -> str:
    """Numbers in a row, with so many significant digits.

    >>> listed([8.8, 7.3333, 103.448])
    '8.8, 7.33, 103'
    """
    return ", ".join(f"{value:,.0f}" if abs(value) >= 100 else f"{value:.{digits}g}" for value in values)

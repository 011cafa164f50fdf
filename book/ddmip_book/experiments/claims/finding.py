"""What a check of one claim comes to: a sentence with its numbers, and a verdict if the numbers
decide it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from ..case import Case
from ..grids import grid
from ..results import Results
from ..rows import Row

HOLDS = "holds"
CHANGED = "holds with changes"
NOT_REPRODUCED = "not reproduced"
FAILS = "fails"
NOT_SHOWN = "not shown"
UNTESTABLE = "untestable here"
VERDICTS = (HOLDS, CHANGED, NOT_REPRODUCED, NOT_SHOWN, FAILS, UNTESTABLE)
"""The words of boxes and ledger. No experiment of ours can make a claim fail: that takes a proof, a
counterexample or the paper's own figures.
"""


@cache
def _cases(experiment: str) -> list[Case]:
    return grid(experiment)


@dataclass(frozen=True)
class Finding:
    """The evidence of one check.

    >>> Finding("900 / 8.7 = 103", "holds").open
    False
    """

    text: str
    verdict: str | None
    have: int = 0
    """Runs that are stored."""
    need: int = 0
    """Runs that the check wants."""

    @property
    def open(self) -> bool:
        """Too few runs are stored to decide."""
        return self.verdict is None


EXACT_METHODS = ("bigm", "sos1")


def charged(row: Row) -> Row:
    """The record with the seconds that a comparison of times charges it.

    An exact run that ends without a proof has not done its task, whether the limit, the memory or
    an error ended it: it is charged its whole limit, and so is a run without a time. One that
    breaks down early is not fast.
    """
    unfinished = row.seconds is None or (row.method in EXACT_METHODS and not row.ended)
    return replace(row, seconds=max(row.seconds or 0.0, row.time_limit)) if unfinished else row


class Runs(Results):
    """The stored records of those cases of a full grid that have the given fields, their seconds as
    `charged`, and how many cases there are.

    >>> runs = Runs(Results([]), "e2", network="2x16", device="cpu")
    >>> len(runs), runs.need
    (0, 5)
    """

    def __init__(self, stored: Results, experiment: str, **fields: Any) -> None:
        allowed = {name: v if isinstance(v, (list, tuple)) else (v,) for name, v in fields.items()}
        wanted = {
            c.key for c in _cases(experiment) if all(getattr(c, n) in v for n, v in allowed.items())
        }
        super().__init__([charged(row) for row in stored if row.key in wanted])
        self.need = len(wanted)

    def mean(self, column: str, **fields: Any) -> float:
        """Mean over the records with these fields, NaN if there are none; a record without a value
        counts as 0.
        """
        found = self.where(**fields).values(column)
        return float(np.nan_to_num(found).mean()) if len(found) else float("nan")

    def means(self, column: str, field: str, values: Sequence[Any]) -> list[float]:
        """The mean for each value of a field."""
        return [self.mean(column, **{field: value}) for value in values]


def paired(column: str, above: Runs, below: Runs, field: str, values: Sequence[Any]) -> list[float]:
    """Ratios of two methods' means for each value of a field, over the seeds that both have; NaN
    where none is.
    """
    ratios = []
    for value in values:
        parts = [part.where(**{field: value}) for part in (above, below)]
        seeds = set(parts[0].distinct("seed")) & set(parts[1].distinct("seed"))
        top, bottom = (np.nan_to_num(part.where(seed=seeds).values(column)).sum() for part in parts)
        ratios.append(float(top / bottom) if bottom else float("nan"))
    return ratios


@dataclass(frozen=True)
class Check:
    """Selections of runs by name, and a function from them to a verdict and a sentence (see
    `check`).
    """

    function: Callable[..., tuple[str, str]]
    wanted: Mapping[str, Mapping[str, Any]]
    on_paper: bool = False
    """Whether it only compares figures and words of the paper with each other."""

    def __call__(self, stored: Results) -> Finding:
        """The finding; its verdict counts once every wanted run is stored."""
        parts = {name: Runs(stored, **fields) for name, fields in self.wanted.items()}
        have = sum(map(len, parts.values()))
        need = sum(part.need for part in parts.values())
        if not all(map(len, parts.values())):
            return Finding(f"waits for its runs: {have} of {need} are stored", None, have, need)
        verdict, text = self.function(**parts)
        if have < need:
            return Finding(f"{text} (so far, from {have} of {need} runs)", None, have, need)
        return Finding(text, verdict, have, need)


CHECKS: dict[str, Check] = {}
"""All checks by name."""


def check(
    **wanted: Mapping[str, Any],
) -> Callable[[Callable[..., tuple[str, str]]], Callable[..., tuple[str, str]]]:
    """Register a check under its function's name; each keyword selects the runs that the function
    gets by that name.

    A selection names an experiment and fields of its cases; a check without selections needs
    arithmetic alone.
    """

    def register(function: Callable[..., tuple[str, str]]) -> Callable[..., tuple[str, str]]:
        CHECKS[function.__name__] = Check(function, wanted)
        return function

    return register


def arithmetic(function: Callable[[], tuple[str, str]]) -> Callable[[], tuple[str, str]]:
    """Register a check that is arithmetic on the paper's figures: it speaks of the paper alone, and
    of no run.
    """
    CHECKS[function.__name__] = Check(function, {}, on_paper=True)
    return function


def graded(holds: bool, weaker: bool) -> str:
    """It holds; or a weaker form does; or neither.

    >>> graded(False, True)
    'holds with changes'
    """
    return HOLDS if holds else CHANGED if weaker else NOT_REPRODUCED


def time_verdict(measured: Sequence[float], printed: Sequence[float]) -> str:
    """Machines differ: a printed time is confirmed up to twice its value, with changes up to ten
    times.

    >>> (
    ...     time_verdict([12.0], [10.0]),
    ...     time_verdict([3.0, 200.0], [6.0, 50.0]),
    ...     time_verdict([101.0], [10.0]),
    ... )
    ('holds', 'holds with changes', 'not reproduced')
    """
    worst = max(ours / theirs for ours, theirs in zip(measured, printed, strict=True))
    return graded(worst <= 2, worst <= 10)


def within_factor_two(measured: Sequence[float], printed: Sequence[float]) -> bool:
    """Each within a factor of two of the other, either way.

    >>> within_factor_two([60.0, 300.0], [111.7, 200.0])
    True
    """
    return all(0.5 <= ours / theirs <= 2 for ours, theirs in zip(measured, printed, strict=True))


def comma_list(values: Sequence[float], digits: int = 3) -> str:
    """Numbers, separated by commas, with this number of significant digits; a dash for one that is
    missing.

    >>> comma_list([8.8, 7.3333, 103.448, float("nan")])
    '8.8, 7.33, 103, –'
    """

    def shown(value: float) -> str:
        return (
            "–"
            if value != value
            else f"{value:,.0f}"
            if abs(value) >= 100
            else f"{value:.{digits}g}"
        )

    return ", ".join(map(shown, values))

"""The experiments' results as columns for `ddmip_book.text.table`, and as numbers that sentences
can say.
"""

from collections.abc import Sequence

import numpy as np

Columns = dict[str, list[object]]
"""Entries by the name of their column."""
NAMES = {
    "bigm": "Big-M",
    "sos1": "SOS1",
    "dd-paper": "Algorithm 1, the paper's settings",
    "dd": "Algorithm 1, our defaults",
    "dd-graph": "Algorithm 1, graph split",
    "dd-no-multipliers": "Algorithm 1, no multipliers",
    "dd-barrier": "Algorithm 1, the paper's settings, barrier",
    "ssg-printed": "SSG as published",
    "ssg": "SSG repaired",
    "prices": "price coordination",
    "random": "random inputs",
    "enumeration": "enumeration",
    "grid-search": "grid search",
}
"""What the text calls a method."""


def columns(names: Sequence[str], rows: Sequence[Sequence[object]]) -> Columns:
    """Records turned into named columns.

    >>> columns(["network", "runs"], [["2x16", 25], ["4x32", 25]])
    {'network': ['2x16', '4x32'], 'runs': [25, 25]}
    """
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def mean(values: object, digits: int = 2) -> float | None:
    """Mean of the values that are there, rounded; None where none is.

    >>> mean([1.0, float("nan"), 2.0]), mean([])
    (1.5, None)
    """
    numbers = np.asarray(values, dtype=float)
    known = numbers[np.isfinite(numbers)]
    return round(float(known.mean()), digits) if len(known) else None


def whole(value: float | None) -> int | None:
    """A count that is stored as a float, or None."""
    return None if value is None or value != value else round(value)


def rounded(value: float | None, digits: int = 1) -> float | None:
    """A number to so many places, from a thousand on a whole one, None where there is none (a table
    shows a dash).

    >>> rounded(12.345), rounded(10174.6), rounded(None)
    (12.3, 10175, None)
    """
    if value is None or value != value:
        return None
    return round(value, digits) if abs(value) < 1000 else round(value)


def small(value: float | None) -> str | None:
    """A number as a power of ten, None where there is none.

    >>> small(0.00316)
    '3.2e-03'
    """
    return None if value is None or value != value else f"{value:.1e}"

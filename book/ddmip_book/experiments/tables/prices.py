"""Price coordination in tables: what is left of it without one of its parts, and how much the first
round brings.
"""

import numpy as np

from ..results import Results
from ..rows import Row
from . import Columns, columns, mean

FULL = "prices"
VARIANTS = {
    FULL: "all parts",
    "prices-one-round": "one round, one selection",
    "prices-no-scarcity": "no rounds after the selection",
    "prices-no-smoothing": "no smoothing",
    "prices-random": "random columns, no gradients",
}
"""What the text calls the method without a part."""


def beside_full(rows: Results, method: str) -> list[tuple[Row, Row]]:
    """Runs without a part, each with the run of the full method on the same instance, where both
    hold a point.
    """
    pairs = [(row, rows.beside(row, FULL)) for row in rows.where(method=method)]
    return [
        (row, full) for row, full in pairs if full is not None and row.objective and full.objective
    ]


def relative(pairs: list[tuple[Row, Row]]) -> list[float]:
    """Objective without the part over that of the full method."""
    return [(row.objective or 0.0) / (full.objective or 1.0) for row, full in pairs]


def without(rows: Results) -> Columns:
    """Of each variant: objective relative to the full method, instances with more, equal and
    fewer, and the work.
    """
    lines = []
    for method, name in VARIANTS.items():
        pairs = beside_full(rows, method)
        leads = [(row.objective or 0.0) - (full.objective or 0.0) for row, full in pairs]
        counted = [sum(np.sign(lead) == sign for lead in leads) for sign in (1, 0, -1)]
        mine = Results([row for row, _ in pairs])
        work = mean(mine.values("iterations"), 1), mean(mine.values("seconds"), 1)
        wins = counted if pairs and method != FULL else [None] * 3
        lines.append([name, len(pairs), mean(relative(pairs), 3), *wins, *work])
    names = [
        "variant",
        "instances",
        "objective, relative",
        "more",
        "equal",
        "fewer",
        "rounds, mean",
        "seconds, mean",
    ]
    return columns(names, lines)


def first_round(rows: Results) -> list[tuple[float, Row]]:
    """Of each run: what its best choice counts after the first round, with the run."""
    counts = [(row.trace.get("incumbent", []), row) for row in rows]
    return [(float(found[0]), row) for found, row in counts if found and found[0] is not None]

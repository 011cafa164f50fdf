"""Rows of numbers as text, for the benchmarks."""

from __future__ import annotations

from typing import Any


def text_of(value: Any, decimals: int = 2) -> str:
    """Return one entry as text; a dash for None."""
    if value is None:
        return "-"
    return f"{value:.{decimals}f}" if isinstance(value, float) else str(value)


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as text, a column for each of their entries."""
    if not rows:
        return "nothing was measured"
    names = list(rows[0])
    cells = [names]
    for row in rows:
        cells.append([text_of(row[name]) for name in names])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.rjust, line, widths)) for line in cells)

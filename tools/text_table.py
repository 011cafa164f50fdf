"""Rows of numbers as text, for the benchmarks."""

from __future__ import annotations

from typing import Any


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as text, a column for each of their entries."""
    if not rows:
        return "nothing was measured"
    cells = [list(rows[0]), *([_cell(row[name]) for name in rows[0]] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.rjust, line, widths)) for line in cells)

"""Reading stored records: chosen by their settings, brought into tables, compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .rows import Row
from .store import Store, results_folder


class Results:
    """Records that can be selected by their fields.

    >>> Results([]).where(method="dd").values("objective")
    array([], dtype=float64)
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = list(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def where(self, **fields: Any) -> Results:
        """The records with these values; a list or tuple allows any of its values."""
        allowed = {
            name: v if isinstance(v, (list, tuple, set)) else (v,) for name, v in fields.items()
        }
        return Results(
            [row for row in self.rows if all(getattr(row, n) in v for n, v in allowed.items())]
        )

    def one(self, **fields: Any) -> Row | None:
        """The only record with these values, None if there is none; several are an error."""
        found = self.where(**fields).rows
        if len(found) > 1:
            raise ValueError(f"{len(found)} records have {fields}: name more fields.")
        return found[0] if found else None

    def beside(self, row: Row, method: str) -> Row | None:
        """The run of another method on the same instance: network, size and seed; None if there is
        none.
        """
        return self.one(method=method, network=row.network, size=row.size, seed=row.seed)

    def values(self, field: str) -> np.ndarray:
        """A column as numbers, NaN where a record has none."""
        column = [getattr(row, field) for row in self.rows]
        return np.array([np.nan if value is None else value for value in column], dtype=float)

    def distinct(self, field: str) -> list[Any]:
        """The values of a field, in the order in which they first occur."""
        return list(dict.fromkeys(getattr(row, field) for row in self.rows))

    def pivot(
        self,
        rows: str,
        columns: str,
        value: str | Callable[[Results], float],
        row_values: Sequence[Any] | None = None,
        column_values: Sequence[Any] | None = None,
    ) -> np.ndarray:
        """A matrix over two fields: the mean of `value` over the records of each cell, or `value`
        of these records.
        """
        down = self.distinct(rows) if row_values is None else row_values
        across = self.distinct(columns) if column_values is None else column_values
        table = np.full((len(down), len(across)), np.nan)
        for i, one in enumerate(down):
            for j, other in enumerate(across):
                cell = self.where(**{rows: one, columns: other})
                if len(cell):
                    table[i, j] = (
                        value(cell) if callable(value) else float(np.mean(cell.values(value)))
                    )
        return table


def load(experiment: str, folder: Path | str | None = None) -> Results:
    """All stored records of an experiment."""
    return Results(Store(experiment, results_folder() if folder is None else Path(folder)).rows())


def time_to(row: Row, objective: float) -> float:
    """Seconds until the run first held a verified objective that is as good as this; infinity if it
    never did.
    """
    reached = (
        seconds for seconds, value in row.incumbents if row.sign * value >= row.sign * objective
    )
    return next(reached, float("inf"))


def same_objective_ratio(exact: Row, other: Row) -> float | None:
    """How much sooner `other` held what the exact model ended with: t_exact(v) / t_other(v), v its
    last objective.

    None where the exact model never beat the untreated point: then there is nothing to compare.
    """
    if exact.objective is None or exact.untreated is None:
        return None
    if exact.sign * (exact.objective - exact.untreated) <= 0:
        return None
    return time_to(exact, exact.objective) / time_to(other, exact.objective)


def qualifying_pairs(full: Results, method: str) -> list[tuple[Row, Row, float]]:
    """Every qualifying run: the exact record, the method's record on the same instance, and the
    ratio of their times.
    """
    found = []
    for exact in full.where(method="bigm"):
        other = full.beside(exact, method)
        ratio = None if other is None else same_objective_ratio(exact, other)
        if other is not None and ratio is not None:
            found.append((exact, other, ratio))
    return found

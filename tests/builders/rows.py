"""Rows of made-up runs, for tests of what is read from stored ones."""

from __future__ import annotations

from typing import Any

from ddmip_book.experiments import Case, Row


def finished(
    experiment: str,
    method: str,
    problem: str = "water",
    network: str = "2x16",
    size: int = 50,
    seed: int = 42,
    time_limit: float = 300.0,
    budget: float | None = None,
    **results: Any,
) -> Row:
    """The row that a run of this case would have left with these results."""
    case = Case(experiment, problem, network, size, seed, method, time_limit, budget=budget)
    return Row(key=case.key, **case.setting(), **{"status": "iteration_limit", **results})

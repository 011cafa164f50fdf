"""The decision chart says what rows say, and its words are right where rows are missing or hold no
point.
"""

from __future__ import annotations

from typing import Any

import pytest

from ddmip_book.experiments import Row, load
from ddmip_book.experiments.suite import chart
from ddmip_book.figures import own_problem as figures
from tests.builders.rows import finished

SMOOTH = {
    "points": None,
    "blocks": 0,
    "whole": 2,
    "output_rows": 2,
    "networks": 1,
    "rows": 3,
    "activations": ["Tanh"],
}
BLOCKS = {
    "points": None,
    "blocks": 12,
    "whole": 0,
    "output_rows": 0,
    "networks": 1,
    "rows": 3,
    "activations": ["ReLU"],
}


def row(
    model: str,
    method: str,
    objective: float | None,
    seconds: float,
    shape: dict[str, Any],
    **more: Any,
) -> Row:
    made = {
        "status": "converged",
        "objective": objective,
        "seconds": seconds,
        "incumbents": [[seconds, objective]] * (objective is not None),
        "details": {"features": shape},
    }
    return finished("e7", method, problem="water", network=model, **made | more)


@pytest.fixture
def rows() -> list[Row]:
    return [
        row("glue", "solve", 10.0, 2.0, SMOOTH),
        row("glue", "dd", 9.0, 1.0, SMOOTH),
        row("glue", "bigm", None, 20.0, SMOOTH, status="refused"),
        row("stores", "solve", 8.0, 4.0, BLOCKS),
        row("stores", "dd", None, 20.0, BLOCKS),
    ]


def test_the_chart_has_a_word_for_every_cell(rows: list[Row]) -> None:
    methods = ["solve", "dd", "bigm"]
    (ax,) = figures.plot_choice(chart(rows), methods).axes
    kinds = [label.get_text() for label in ax.get_yticklabels()]
    said = [text.get_text() for text in ax.texts]
    words = {kind: tuple(said[3 * at : 3 * at + 3]) for at, kind in enumerate(kinds)}
    assert words["rows on outputs (1)"] == ("1 of 1\n0 %\n2 s", "0 of 1\n10 %", "–"), (
        "what is refused is no run"
    )
    assert words["blocks (1)"] == ("1 of 1\n0 %\n4 s", "0 of 1\nno point", "–")
    assert not [kind for kind in kinds if kind.startswith("few points")], (
        "a kind without a model has no line"
    )


def test_stored_rows_fill_the_chart() -> None:
    stored = list(load("e7"))
    (ax,) = figures.plot_choice(chart(stored)).axes
    assert not stored or len(ax.texts) == len(figures.COMPARED) * len(ax.get_yticklabels()) > 40

"""The decision chart says what rows say, and its words are right where rows are missing or hold no point."""

from __future__ import annotations

from typing import Any

import pytest

from ddmip_book.experiments import Row
from ddmip_book.figures import own_problem as figures
from tests.builders.rows import finished

SMOOTH = {"points": None, "blocks": 0, "whole": 2, "output_rows": 2, "activations": ["Tanh"]}
BLOCKS = {"points": None, "blocks": 12, "whole": 0, "output_rows": 0, "activations": ["ReLU"]}


def row(model: str, method: str, objective: float | None, seconds: float, shape: dict[str, Any], **more: Any) -> Row:
    made = {"status": "converged", "objective": objective, "seconds": seconds, "details": {"features": shape}}
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


def test_distances_are_taken_from_the_best_of_all_rows_of_a_model(rows: list[Row]) -> None:
    cells = figures.choice_cells(rows)
    assert cells["rows on outputs"]["dd"] == figures.Cell(1, 1, pytest.approx(0.1), 1.0)
    assert cells["other layers"]["solve"].distance == 0
    assert cells["blocks"]["dd"].found == 0
    assert "bigm" not in cells["rows on outputs"], "what a method refuses is no run of it"
    assert "few combinations" not in cells


def test_the_chart_has_a_word_for_every_cell(rows: list[Row]) -> None:
    (ax,) = figures.plot_choice(figures.choice_cells(rows), {"dd": "Algorithm 1"}).axes
    words = [text.get_text() for text in ax.texts]
    assert {"0 %\n2.0 s", "10 %\n1.0 s", "nothing\n20 s"} <= set(words)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["solve", "Algorithm 1"]
    assert len(words) == 2 * len(ax.get_yticklabels())

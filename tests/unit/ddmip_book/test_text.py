"""Sentences and tables that a chapter computes."""

import math
from typing import Any

import numpy as np
import pytest

from ddmip_book import text


class Shell:
    """What a notebook's shell does with an output, kept."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    @property
    def display_pub(self) -> "Shell":
        return self

    def publish(self, data: dict[str, str]) -> None:
        self.shown.append(data)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Shell:
    kept = Shell()
    monkeypatch.setattr(text, "notebook", lambda: kept)
    return kept


def test_a_notebook_gets_markdown(shell: Shell) -> None:
    text.say("First.", "Second.")
    assert shell.shown == [{"text/plain": "First. Second.", "text/markdown": "First. Second."}]


def test_a_table_names_its_rows_and_columns(shell: Shell) -> None:
    text.table(
        {"a < b": ["x & y", "z"], "value": [1234, None]},
        "Both",
        best={"value": "max"},
        order=["value"],
    )
    page = shell.shown[0]["text/html"]
    assert '<th scope="col" data-sort>value</th>' in page
    assert (
        '<th scope="row">x &amp; y</th><td class="number"><strong title="best">1,234</strong></td>'
        in page
    )
    assert "<td>–</td>" in page
    assert "a &lt; b" in page


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        (None, "–"),
        (math.nan, "–"),
        (np.int64(12345), "12,345"),
        (np.float64(0.123456), "0.1235"),
        (True, "yes"),
    ],
)
def test_entries(shell: Shell, entry: Any, shown: str) -> None:
    text.table({"row": ["only"], "value": [entry]}, "One")
    assert shell.shown[0]["text/plain"].endswith(shown)


def test_missing_entries_are_not_the_best(shell: Shell) -> None:
    text.table({"row": ["a", "b"], "seconds": [math.nan, 2.5]}, "Two", best={"seconds": "min"})
    assert shell.shown[0]["text/plain"].splitlines()[-1].endswith("2.5*")


@pytest.mark.parametrize(
    ("columns", "best", "words"),
    [
        ({}, {}, "at least one column"),
        ({"a": [1], "b": []}, {}, "one length"),
        ({"a": [1]}, {"c": "max"}, "no column"),
    ],
)
def test_clear_errors(columns: dict[str, list[int]], best: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        text.table(columns, "Wrong", best=best)

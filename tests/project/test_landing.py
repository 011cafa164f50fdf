"""The landing page and the README say what the stored rows say."""

from __future__ import annotations

import re

from ddmip_book.figures.landing import LABELS, plot_result
from tools import landing


def test_numbers_are_those_of_the_stored_rows() -> None:
    for path, text in landing.texts().items():
        assert landing.BLOCK.search(text), path
        assert path.read_text(encoding="utf-8") == text, "out of date: python -m tools.landing"


def test_sentences_agree_with_the_picture() -> None:
    runs, certificate = landing.instance()
    assert set(runs) == set(LABELS)
    assert {(row.network, row.size, row.seed) for row in (*runs.values(), certificate)} == {
        ("2x16", 100, 42)
    }
    axes = plot_result(runs, certificate)
    ends = {text.get_text() for text in axes.texts}
    first = landing.sentences()[0]
    for row in runs.values():
        assert f"{row.objective:g}" in ends
        assert re.search(rf"\b{row.objective:.0f}\b", first)
    best = max(row.objective or 0.0 for row in runs.values())
    assert best <= (certificate.bound or 0.0), "a point above a proven bound"
    assert landing.PICTURE.exists()


def test_prices_are_judged_on_all_instances() -> None:
    count, better, worse = landing.compared()
    assert count >= 100
    assert better + worse <= count

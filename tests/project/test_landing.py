"""The landing page and the README say what the stored rows say."""

from __future__ import annotations

import re

from ddmip_book.figures.landing import LABELS, plot_result
from tools import landing


def test_numbers_are_those_of_the_stored_rows() -> None:
    for path, text in landing.texts().items():
        assert landing.STORED_ROWS.search(text), path
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
    assert re.search(rf"\b{runs['prices'].objective:.0f}\b", first)
    best = max(row.objective or 0.0 for row in runs.values())
    assert best <= (certificate.bound or 0.0), "a point above a proven bound"
    assert landing.PICTURE.exists()


def test_prices_are_judged_on_all_instances() -> None:
    count, better, worse = landing.compared()
    assert count >= 100
    assert better + worse <= count


def test_the_table_holds_the_means_of_all_networks() -> None:
    head, rule, *rows = landing.table()
    assert [row.split(" | ")[0].strip("| ") for row in rows] == list(landing.WATER_NETWORKS)
    assert len({line.count("|") for line in (head, rule, *rows)}) == 1
    prices = [row.objective or 0.0 for row in landing.runs_of("prices", "2x16")]
    assert len(prices) == landing.SEEDS
    assert f" {sum(prices) / len(prices):.1f} " in rows[0]


def test_each_certificate_is_the_best_stored_one() -> None:
    best = landing.certificates()
    assert {network for network, _ in best} == set(landing.WATER_NETWORKS)
    trivial = [about for about, row in best.items() if landing.is_trivial(row)]
    said = " ".join(landing.of_certificates())
    assert f"{len(trivial)} {'is' if len(trivial) == 1 else 'are'} trivial" in said

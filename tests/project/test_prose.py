"""Prose stays in the words of the field: every page is at its bar, or not worse than the table
`prose.yml` allows. The table may only shrink: `python -m tools.prose_counts --lower` takes out what
improved.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import prose_counts
from tools.prose_counts import BARS, Measured, lowered, measure, measured, raised, table, word_list
from tools.prose_sources import ROOT, Source, docstrings, sources
from tools.prose_text import numbers, read, sentences, without_exercises


@pytest.fixture(scope="module")
def every() -> list[Measured]:
    return measured()


def test_every_text_is_at_its_bar_or_not_worse_than_the_table(every: list[Measured]) -> None:
    allowed = table()
    worse = {
        f"{text.name}: {name}": f"{value:.4g} > {limit:.4g}"
        for text in every
        for name, value in text.values.items()
        if value > (limit := allowed.get(text.name, {}).get(name, BARS[text.source.group][name]))
    }
    assert not worse, "python -m tools.prose_counts NAME --words --places --sentences shows where"


def test_the_table_holds_nothing_that_is_at_its_bar(every: list[Measured]) -> None:
    kept = lowered(table(), every)
    improved = {
        name: sorted(limits.keys() - kept.get(name, {}).keys())
        for name, limits in table().items()
        if limits.keys() - kept.get(name, {}).keys()
    }
    assert not improved, "take it out: python -m tools.prose_counts --lower"


def test_all_that_is_read_is_counted() -> None:
    found = {source.name: source for source in sources()}
    assert {"README", "CHANGELOG", "preface", "split", "notation", "ledger"} <= found.keys()
    assert {"course/quizzes/part_1.yml", "course/slides/part_1.md"} <= found.keys()
    assert "Verified objective over seconds" in found["preface"].text  # alt text
    assert found["split"].labels
    assert "NUMBER" in found["e1"].text  # a computed sentence
    assert set(BARS) == {source.group for source in found.values()}


def test_the_word_list_does_not_shrink() -> None:
    assert len(word_list().private) >= 61
    assert word_list().count("The row says that it is held.").total() == 3
    assert word_list().count("A row vector, held-out data and a line search").total() == 0


def test_a_private_word_a_long_and_a_full_sentence_are_counted() -> None:
    long = "This sentence " + "goes on and on " * 12 + "until it ends."
    text = f"# What the wall tells\n\n{long} We saw 1, 2, 3 and 4. What remains? It asks a row."
    found = measure(Source("readme", "README", text))
    assert found.values["private"] > BARS["readme"]["private"]
    assert found.values["long"] == found.values["dense"] == found.values["what"] == 25
    assert found.values["bare"] == 1
    assert set(found.above()) == set(BARS["readme"])


def test_an_opening_states_its_result() -> None:
    good = "# The split\n\nThe gap is at most {prf:ref}`thm-gap`.\n\n## Questions\n\nWhy?"
    named = "# E1\n\nE1 of Chapter 3 compares both.\n\nThe gap is 3 %.\n\n## Design"
    assert measure(Source("chapters", "c", named)).values["unstated"] == 1
    riddle = "# The split\n\nHow can so little coordinate so much?\n\n## Answer\n\nIn 12 steps."
    assert measure(Source("chapters", "a", good)).values["unstated"] == 0
    assert measure(Source("chapters", "a", good)).values["question"] == 0
    assert measure(Source("chapters", "b", riddle)).values["unstated"] == 1
    assert measure(Source("chapters", "b", riddle)).values["question"] == 1


def test_exercises_are_not_counted_in_the_length() -> None:
    exercise = "```{exercise-start} Two (easy)\n:label: ex-two\n```\nAdd two and two.\n\n"
    text = f"Before it.\n\n{exercise}```{{exercise-end}}\n```\nAfter it."
    assert sentences(read(without_exercises(text)).body) == ["Before it.", "After it."]


def test_what_is_no_prose_is_left_out() -> None:
    text = (
        "## A *title*\n\n```python\nrow = 1\n```\n\n$$row$$ (eq-a)\n\n| a row | b |\n\n"
        "```{figure} a.svg\n:name: fig-a\n:alt: A curve falls.\n\nThe caption is here.\n```\n"
    )
    prose = read(text)
    assert sentences(prose.body) == ["A curve falls.", "The caption is here."]
    assert prose.headings == [("h2", "A *title*")]
    assert prose.tables == "| a row | b |"


@pytest.mark.parametrize(
    ("sentence", "count"),
    [
        ("Chapters 3, 4 and 5 and Algorithm 1 use E7.", 0),
        ("A network 4x32 takes 1,000 samples.", 2),
        ("It takes NUMBER of 12.5 seconds.", 2),
    ],
)
def test_numbers_of_a_sentence(sentence: str, count: int) -> None:
    assert numbers(sentence) == count


def test_docstrings_are_those_of_public_names(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        '"""Module."""\n\ndef _private():\n    """Hidden."""\n\n'
        'def public(x):\n    """Return it.\n\n    Parameters\n    ----------\n    x : float\n'
        '        The value.\n\n    >>> public(1)\n    1\n    """\n    return "a"\n'
    )
    assert sentences(docstrings(tmp_path)) == ["Return it.", "The value."]


def test_the_table_can_only_fall() -> None:
    text = measure(Source("readme", "README", "The row tells it. " * 50))
    assert raised("private", text.values["private"]) == 500
    assert lowered({}, [text]) == {}
    assert lowered({"README": {"private": 300}}, [text]) == {"README": {"private": 300}}
    assert lowered({"README": {"private": 900, "long": 50}}, [text]) == {"README": {"private": 500}}
    assert lowered({"gone": {"private": 900}}, [text]) == {}


def test_the_command_prints_what_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--words", "--places", "--headings", "--sentences"]
    monkeypatch.setattr("sys.argv", ["prose_counts", "README", *flags])
    prose_counts.main()
    printed = capsys.readouterr().out
    assert "README" in printed
    assert "row (constraint)" in printed


def test_entries_of_the_changelog_are_short() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    entries = re.findall(r"^- (.*?)(?=\n\S|\n\n|\Z)", text, re.MULTILINE | re.DOTALL)
    assert len(entries) > 20
    long = {entry: len(entry.split()) for entry in entries if len(entry.split()) > 25}
    assert not long
    assert "|---" not in text, "tables of old and new names stand in book/migration.md"


def test_versions_of_the_changelog_are_in_order_and_dated() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heads = re.findall(r"^## (\d+)\.(\d+)\.(\d+)(.*)$", text, re.MULTILINE)
    versions = [tuple(map(int, head[:3])) for head in heads]
    assert versions == sorted(versions, reverse=True)
    assert all(re.fullmatch(r" - \d{4}-\d\d-\d\d", head[3]) for head in heads[1:])

"""The table of contents: names lead to files and numbers, and what is doubled, unknown or out of
turn is refused.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.contents import Contents, ContentsError

TOC = """
root: book/preface
parts:
  - caption: First
    chapters: [{file: book/quickstart}]
  - caption: I
    numbered: 2
    chapters: [{file: book/01_split, sections: [{file: book/aside}]}, {file: book/02_e1}]
  - caption: II
    numbered: 2
    chapters: [{file: book/03_prices}]
"""


def read(folder: Path, toc: str = TOC) -> Contents:
    (folder / "_toc.yml").write_text(toc)
    return Contents.read(folder)


def test_numbers_run_on_through_the_parts_and_leave_sections_out(tmp_path: Path) -> None:
    contents = read(tmp_path)
    assert {page.name: page.number for page in contents.numbered} == {
        "split": 1,
        "e1": 2,
        "prices": 3,
    }
    assert contents.names == ["preface", "quickstart", "split", "aside", "e1", "prices"]
    parts = {
        "": ["preface"],
        "First": ["quickstart"],
        "I": ["split", "aside", "e1"],
        "II": ["prices"],
    }
    assert list(contents.parts) == list(parts)
    for part, names in parts.items():
        assert [page.name for page in contents.parts[part]] == names
    assert contents.notebook("e1") == tmp_path / "book" / "02_e1.ipynb"
    assert (contents["prices"].label, contents["quickstart"].label) == (
        "Chapter 3",
        "the quickstart",
    )


def test_a_contents_page_without_parts_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, "{root: book/a, chapters: [{file: book/b}]}").names == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("02_e1", "Did you mean e1"),
        ("price", "Did you mean prices"),
        ("zzz", "There are preface, quickstart"),
    ],
)
def test_an_unknown_name_is_refused_with_a_remedy(tmp_path: Path, name: str, told: str) -> None:
    contents = read(tmp_path)
    assert name not in contents
    with pytest.raises(ContentsError, match=told):
        contents[name]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "book/03_prices",
            "book/03_split",
            "two pages called 'split': book/01_split and book/03_split",
        ),
        ("book/02_e1", "book/quickstart", "two pages called 'quickstart'"),
        ("book/02_e1", "book/e1", "book/e1 where book/02_e1 is due.*tools.chapters"),
        ("book/02_e1", "book/05_e1", "book/05_e1 where book/02_e1 is due"),
        (
            "book/quickstart",
            "book/01_quickstart",
            "book/01_quickstart where book/quickstart is due",
        ),
    ],
)
def test_what_is_doubled_or_out_of_turn_is_refused(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    with pytest.raises(ContentsError, match=told):
        read(tmp_path, TOC.replace(old, new))

"""Chapters go by name: every key is one, numbers follow from the table of contents, and old
addresses lead on.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from tools import chapters, redirects
from tools.chapter_keys import fresh, keys, problems
from tools.contents import Contents
from tools.html_page import redirect
from tools.notebooks import ROOT, contents

COPIED = ("book", "course", "tests/headline.yml", "_toc.yml", "README.md", "CONTRIBUTING.md")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """What speaks of chapters, to be changed at will."""
    for name in COPIED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns(
                "stored", "_static", "__pycache__", ".ipynb_checkpoints"
            )
            shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def fits(root: Path) -> list[str]:
    found = Contents.read(root)
    redirects.targets(found)
    return problems(found, redirects.former(root))


def put_in(root: Path, name: str, before: str) -> None:
    """What an author does for a new chapter: a notebook, and a line of the table of contents."""
    cell = {
        "cell_type": "markdown",
        "id": "a",
        "metadata": {},
        "source": ["See [Chapter 4](04_split.ipynb#notions)."],
    }
    (root / "book" / f"{name}.ipynb").write_text(json.dumps({"cells": [cell]}))
    toc = (root / "_toc.yml").read_text()
    line = re.search(rf"^ *- file: book/\d+_{before}$", toc, re.MULTILINE)
    assert line is not None
    (root / "_toc.yml").write_text(toc.replace(line[0], f"      - file: book/{name}\n{line[0]}"))


def test_every_key_is_a_name_and_no_number_is_typed() -> None:
    assert problems(contents(), redirects.former(ROOT)) == []
    spoken = {file for file, _ in keys(ROOT)}
    for file in (
        "tests/headline.yml",
        "book/claims.yml",
        "book/taught.yml",
        "book/profiles.yml",
        "course/course.yml",
    ):
        assert file in spoken
    for folder in (
        "course/slides",
        "course/notes",
        "course/quizzes",
        "course/projects",
        "book/ddmip_book/checks",
    ):
        assert any(file.startswith(folder) for file in spoken)


def test_a_chapter_put_in_takes_one_command_and_no_key(copy: Path) -> None:
    before = Contents.read(copy)
    spoken = sorted(key for key in keys(copy) if key[0] != "book/redirects.yml")
    put_in(copy, "caching", before="split")
    assert chapters.main(["--check"], copy) == 1, "the new chapter has no number yet"
    assert chapters.main([], copy) == 0
    after = Contents.read(copy)
    assert after["caching"].number == before["split"].number
    for page in before.numbered:
        later = page.number >= before["split"].number  # type: ignore[operator]
        assert after[page.name].number == page.number + later  # type: ignore[operator]
        assert after.notebook(page.name).is_file()
        assert redirects.targets(after).get(page.address, page.address) == after[page.name].address
    assert fits(copy) == []
    assert sorted(key for key in keys(copy) if key[0] != "book/redirects.yml") == spoken
    links = re.findall(
        r"\[Chapter (\d+)\]\((\d+)_\w+\.ipynb", after.notebook("convergence").read_text()
    )
    assert len(links) > 5
    assert all(int(said) == int(number) for said, number in links)
    split = f"See [Chapter {after['split'].number}]({after.notebook('split').name}#notions)."
    assert split in after.notebook("caching").read_text()
    assert (copy / "book" / "redirects.yml").read_text().startswith("#")


def test_a_chapter_taken_out_again_leaves_what_was_there(copy: Path) -> None:
    texts = {
        path: path.read_text()
        for path in [*(copy / "book").glob("*.*"), copy / "_toc.yml"]
        if path.is_file()
    }
    former = set(redirects.former(copy))
    put_in(copy, "caching", before="split")
    assert chapters.main([], copy) == 0
    added = Contents.read(copy)["caching"]
    (copy / f"{added.file}.ipynb").unlink()
    toc = (copy / "_toc.yml").read_text()
    (copy / "_toc.yml").write_text(toc.replace(f"      - file: {added.file}\n", ""))
    assert chapters.main([], copy) == 0
    changed = [path.name for path, text in texts.items() if path.read_text() != text]
    assert changed == ["redirects.yml"], "pages had other addresses in between"
    assert set(redirects.former(copy)) == former | {
        f"book/{page.number + 1:02d}_{page.name}.html"  # type: ignore[operator]
        for page in Contents.read(copy).numbered
        if page.number >= added.number  # type: ignore[operator]
    }


def test_another_name_keeps_addresses_and_links_and_names_the_keys_to_change(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = Contents.read(copy)["e5"]
    assert chapters.main(["rename", "e5", "two_subsolvers"], copy) == 1
    after = Contents.read(copy)
    leading = redirects.targets(after)
    assert leading[old.address] == leading[old.lasting_address] == after["two_subsolvers"].address
    assert "e5.ipynb" not in after.notebook("setting").read_text()
    left = capsys.readouterr().err.splitlines()
    assert "tests/headline.yml: no page is called 'e5'" in left
    assert all(line.endswith("no page is called 'e5'") for line in left)
    for file in {line.split(": ")[0] for line in left}:
        text = (copy / file).read_text()
        (copy / file).write_text(
            re.sub(r"(?<![\w-])e5(?=[\]:,}]|$|\")", "two_subsolvers", text, flags=re.MULTILINE)
        )
    assert fits(copy) == []
    assert chapters.main(["rename", "two_subsolvers", "e1"], copy) == 1
    assert "'e1' is taken" in capsys.readouterr().err
    assert chapters.main(["rename", "nothing", "something"], copy) == 1


def test_what_does_not_fit_is_said(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = copy / "book" / "preface.md"
    for wrong, told in (
        ("See Chapter 3.", "'Chapter 3' is typed by hand"),
        ("See [Chapter 3](04_split.ipynb).", "stale"),
        ("See [it](03_split.ipynb).", "stale"),
    ):
        before = page.read_text()
        page.write_text(f"{before}\n{wrong}\n")
        assert [line for line in fits(copy) if told in line], wrong
        page.write_text(before)
    (copy / "book" / "profiles.yml").write_text("splitt: {n: 3}\n")
    assert chapters.main(["--check"], copy) == 1
    assert capsys.readouterr().err == "book/profiles.yml: no page is called 'splitt'\n"


def test_a_file_in_the_way_is_not_replaced(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_in(copy, "caching", before="split")
    number = Contents.read(ROOT)["split"].number
    (copy / "book" / f"{number:02d}_caching.ipynb").write_text("precious")
    assert chapters.main([], copy) == 1
    assert "exists and _toc.yml does not list it" in capsys.readouterr().err
    assert (copy / "book" / f"{number:02d}_caching.ipynb").read_text() == "precious"
    assert (copy / "book" / "caching.ipynb").exists()


def test_links_that_lead_elsewhere_are_left_alone() -> None:
    text = (
        "[Chapter 17](https://example.org/04_split.html), [3](other.ipynb),"
        " ![4](_static/split.svg), [a](api.md)"
    )
    assert fresh(text, contents(), {}) == text


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("book/split.html: e1", "hides book/split.html"),
        ("book/preface.html: e1", "hides book/preface.html"),
        ("book/04_splitt.html: splitt", "no page is called 'splitt'"),
    ],
)
def test_a_redirect_never_hides_a_page_nor_leads_nowhere(copy: Path, line: str, told: str) -> None:
    (copy / redirects.FILE).write_text(f"{line}\n")
    with pytest.raises((redirects.RedirectError, LookupError), match=told):
        redirects.targets(Contents.read(copy))


def test_a_chapter_with_the_name_of_a_page_is_refused(copy: Path) -> None:
    toc = (copy / "_toc.yml").read_text()
    (copy / "_toc.yml").write_text(toc.replace("book/notation", "book/deep/split"))
    with pytest.raises(LookupError, match="two pages called 'split'"):
        Contents.read(copy)


def test_redirects_are_written_once_and_not_over_a_page(copy: Path, tmp_path: Path) -> None:
    (copy / redirects.FILE).write_text("old/place.html: split\n")
    found = Contents.read(copy)
    html = tmp_path / "html"
    for page in found.pages:
        (html / page.address).parent.mkdir(parents=True, exist_ok=True)
        (html / page.address).write_text(
            f"<title>{page.number}. On {page.name} &amp; more — Book</title>"
        )
    written = redirects.write(found, html)
    assert len(written) == len(found.numbered) + 1
    for place in written:
        soup = BeautifulSoup(place.read_text(), "html.parser")
        (link,) = soup.select("main a")
        assert (place.parent / str(link["href"])).resolve().is_file()
        assert soup.html is not None
        assert soup.html["lang"] == "en"
        assert soup.title is not None
        assert " & more" in soup.title.text
    assert 'href="../book/' in (html / "old" / "place.html").read_text()
    with pytest.raises(redirects.RedirectError, match="has a page"):
        redirects.write(found, html)


def test_a_redirect_quotes_what_it_is_given() -> None:
    text = redirect('a"b<c.html', "T & <x>", "Open")
    assert json.loads(re.search(r"replace\((\".*?\") \+", text)[1]) == 'a"b<c.html'  # type: ignore[index]
    assert "<x>" not in text
    assert "T &amp; &lt;x&gt;" in text

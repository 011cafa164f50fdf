"""The executor: keys, parameters, failures."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from tools import build_book, notebooks


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small project of one chapter."""
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    monkeypatch.setattr(notebooks, "BUILD", tmp_path / "_build")
    monkeypatch.setattr(build_book, "CACHE", tmp_path / "_build" / ".jupyter_cache")
    for folder in ("book", "ddmip_lib", "data"):
        (tmp_path / folder).mkdir()
    (tmp_path / "_toc.yml").write_text("{format: jb-book, root: book/preface, chapters: [{file: book/one}]}")
    (tmp_path / "book" / "preface.md").write_text("# Preface")
    (tmp_path / "book" / "profiles.yml").write_text("one: {n: 7}")
    (tmp_path / "requirements.lock").write_text("numpy==2.4.6\n")
    (tmp_path / "ddmip_lib" / "solver.py").write_text("rho = 10\n")
    (tmp_path / "data" / "weights.txt").write_text("1\n")
    write_chapter(tmp_path, "print(n * n)")
    return tmp_path


def write_chapter(project: Path, code: str) -> None:
    parameters = nbformat.v4.new_code_cell("n = 3", id="a", metadata={"tags": ["parameters"]})
    cells = [parameters, nbformat.v4.new_code_cell(code, id="b")]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), project / "book" / "one.ipynb")


def printed(executed: Path) -> list[str]:
    return [output.text for cell in nbformat.read(executed, 4).cells for output in cell.get("outputs", [])]


def test_profiles_change_the_parameters(project: Path) -> None:
    (chapter,) = notebooks.chapters()
    assert printed(notebooks.execute(chapter, "quick")) == ["9\n"]
    assert printed(notebooks.execute(chapter, "full")) == ["49\n"]


def test_unknown_parameter_is_an_error(project: Path) -> None:
    (project / "book" / "profiles.yml").write_text("one: {m: 7}")
    with pytest.raises(notebooks.ChapterError, match="sets m for one, whose parameters cell holds n"):
        notebooks.execute(notebooks.chapters()[0], "full")


@pytest.mark.parametrize("changed", ["ddmip_lib/solver.py", "data/weights.txt", "requirements.lock", "book/one.ipynb"])
def test_any_change_makes_the_result_stale(project: Path, changed: str) -> None:
    (chapter,) = notebooks.chapters()
    before = notebooks.key(chapter, "quick")
    assert notebooks.key(chapter, "quick") == before
    with (project / changed).open("a") as file:
        file.write("\n")
    assert notebooks.key(chapter, "quick") != before


def test_profile_and_data_are_part_of_the_key(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (chapter,) = notebooks.chapters()
    before = notebooks.key(chapter, "quick")
    assert notebooks.key(chapter, "full") != before
    monkeypatch.setattr(notebooks, "data_identity", lambda: {"water": ["real", "0" * 64]})
    assert notebooks.key(chapter, "quick") != before


def test_failing_cell_is_shown_and_nothing_is_left(project: Path) -> None:
    (chapter,) = notebooks.chapters()
    target = notebooks.execute(chapter)
    assert notebooks.is_current(chapter, "quick")
    write_chapter(project, "answer = n / 0")
    with pytest.raises(notebooks.ChapterError, match=r"(?s)answer = n / 0.*ZeroDivisionError"):
        notebooks.execute(chapter)
    assert list(target.parent.iterdir()) == []


def test_cell_that_never_ends_is_stopped(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(notebooks.CELL_TIMEOUT, "quick", 2)
    write_chapter(project, "while True:\n    pass")
    with pytest.raises(notebooks.ChapterError, match="longer than 2 s"):
        notebooks.execute(notebooks.chapters()[0])


def test_cache_takes_the_outputs_and_refuses_foreign_ones(project: Path) -> None:
    (chapter,) = notebooks.chapters()
    notebooks.execute(chapter, "full")
    assert len(build_book.seed_cache("full")) == 1
    assert build_book.with_outputs(chapter, notebooks.executed_path(chapter, "full")).cells[1].outputs[0].text == "49\n"
    write_chapter(project, "print(n + 1)")
    with pytest.raises(notebooks.ChapterError, match="another source"):
        build_book.seed_cache("full")

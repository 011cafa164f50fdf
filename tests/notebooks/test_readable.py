"""Notebooks as JupyterLab shows them: what pages hide is folded, texts have no directives."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import nbformat
import pytest

from tools.install_cell import ID
from tools.notebooks import chapters, contents
from tools.readable import HIDDEN_IN_PAGES, LOCAL_IMAGE, copy_images, readable_copy, write
from tools.student import student_copy

CHAPTERS = chapters()
NUMBERED_PAGES = [contents().notebook(page.name) for page in contents().numbered]
RAW_MYST = re.compile(
    r"\{[\w:-]+\}`|^[`:]{3,}\{.*|^:label:.*|\$\$ \(eq-|^\([\w-]+\)=$", re.MULTILINE
)
copies = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
kinds = pytest.mark.parametrize("copy", [readable_copy, student_copy])


@cache
def copy_of(path: Path) -> list[nbformat.NotebookNode]:
    return readable_copy(path).cells


@copies
def test_a_copy_has_every_cell_of_code_and_readable_texts(path: Path) -> None:
    source = nbformat.read(path, 4).cells
    code = [cell.source for cell in copy_of(path) if cell.cell_type == "code"]
    assert code == [cell.source for cell in source if cell.cell_type == "code"]
    ids = [cell.id for cell in copy_of(path)]
    assert len(set(ids)) == len(ids)
    for cell in copy_of(path):
        if cell.cell_type == "markdown":
            assert not RAW_MYST.findall(cell.source), cell.source


@copies
def test_solutions_are_headings_that_are_folded(path: Path) -> None:
    source = [cell.source for cell in nbformat.read(path, 4).cells]
    folded = [
        cell.source.split("\n")[0]
        for cell in copy_of(path)
        if cell.metadata.get("jp-MarkdownHeadingCollapsed")
    ]
    assert (
        len(folded)
        == sum("{solution-start}" in text for text in source)
        >= (path in NUMBERED_PAGES)
    )
    assert all(re.fullmatch(r"#### Solution to Exercise [\d.]+", line) for line in folded), folded


@copies
@kinds
def test_what_pages_hide_is_folded_and_nothing_else(path: Path, copy: object) -> None:
    cells = copy_of(path) if copy is readable_copy else student_copy(path).cells
    for cell in cells:
        hidden = bool(HIDDEN_IN_PAGES & set(cell.metadata.get("tags", [])))
        folded = cell.metadata.get("jupyter", {}).get("source_hidden", False)
        assert folded == (hidden and cell.cell_type == "code"), cell.source
    (install,) = [cell for cell in cells if cell.id == ID]
    assert install.metadata["cellView"] == "form"


def test_images_travel_with_the_notebooks(tmp_path: Path) -> None:
    shown = {
        name
        for path in CHAPTERS
        for cell in copy_of(path)
        for name in LOCAL_IMAGE.findall(cell.source)
    }
    assert shown
    for path in CHAPTERS:
        copy_images(copy_of(path), tmp_path)
    assert {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.*")} == shown


def test_a_copy_that_its_reader_changed_is_kept(tmp_path: Path) -> None:
    first, second = CHAPTERS[:2]
    assert write(tmp_path, [first, second]) == []
    mine = tmp_path / first.name
    mine.write_text(mine.read_text().replace("import sys", "import sys  # mine", 1))
    changed = mine.read_text()
    (tmp_path / second.name).unlink()
    assert write(tmp_path, [first, second]) == [mine]
    assert mine.read_text() == changed
    assert (tmp_path / second.name).exists()

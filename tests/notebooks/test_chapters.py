"""Every chapter executes, and its headline numbers satisfy the rules of tests/headline.yml."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from ddmip_book.yaml_file import read_yaml
from tools import notebooks
from tools.contents import name_of
from tools.headline_rules import violations

CHAPTERS = notebooks.longest_first(notebooks.chapters())
RULES = read_yaml(notebooks.ROOT / "tests" / "headline.yml")


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_chapter(path: Path) -> None:
    executed = notebooks.execute(path)
    cells = nbformat.read(executed, 4).cells
    assert_quiet(cells)
    assert_figures_described(cells)
    numbers = notebooks.headline(executed)
    assert numbers, (
        "the chapter records no headline number. To fix this, end it with record_headline(...)"
    )
    assert violations(numbers, RULES.get(name_of(path), {}), notebooks.data_source()) == []


def assert_quiet(cells: list[nbformat.NotebookNode]) -> None:
    noise = [
        output.text
        for cell in cells
        for output in cell.get("outputs", [])
        if output.get("name") == "stderr"
    ]
    assert not noise, "a cell writes to stderr, which readers see as a red box"


def assert_figures_described(cells: list[nbformat.NotebookNode]) -> None:
    for cell in cells:
        kinds = {kind for output in cell.get("outputs", []) for kind in output.get("data", {})}
        if kinds & {"image/png", "image/svg+xml", "image/jpeg"}:
            about = cell.metadata.get("mystnb", {})
            assert about.get("figure", {}).get("caption"), (
                f"cell {cell.id} draws a figure without a caption"
            )
            assert about.get("figure", {}).get("name"), (
                f"cell {cell.id} draws a figure without a name"
            )
            assert about.get("image", {}).get("alt"), (
                f"cell {cell.id} draws a figure without alt text"
            )


def test_every_rule_belongs_to_a_chapter() -> None:
    assert set(RULES) <= {name_of(path) for path in CHAPTERS}


def test_profiles_name_chapters_and_parameters() -> None:
    assert set(notebooks.profiles()) <= {name_of(path) for path in CHAPTERS}
    for path in CHAPTERS:
        notebooks.parameters(path, "full")

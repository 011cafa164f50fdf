"""The chapters as files: clean, short-celled, built on the library, with solved exercises."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager

from tools import install_cell
from tools.notebooks import ROOT, chapters, contents

LONGEST_CELL = 30
USUAL_CELL = 15
LONGEST_LINE = 88
FOLDED = {"hide-input", "remove-input", "hide-cell", "remove-cell"}
POINTING = re.compile(
    r"printed (?:above|below|here|by the (?:cell|code))|as printed\b(?! in)|(?:is|are|was|were)"
    r" printed"
    r"|(?:the|its) (?:last|first|second|third|next) (?:two |three )?(?:line|column|row)s? "
    r"(?:of the table |above |below )?"
    r"(?:is|are|says?|shows?|tells?|has|have|sees?|compares?|repeats?|prints?|names?)\b"
    r"|in the (?:last|first) (?:line|column|row)\b|(?:factor|number|share|value|ratio)"
    r" (?:above|below)\b"
    r"|the (?:table|column|code|cell) (?:\w+ )?(?:shows|says|prints|tells)|[Rr]ead the"
    r" (?:last|columns?|table)"
    r"|the (?:line|lines|number|numbers) (?:above|below|printed)",
)
"""Phrases that point at a number instead of saying it."""
CONTENTS = contents()
NUMBERED_PAGES = [contents().notebook(page.name) for page in contents().numbered]
LOOKED_UP = {CONTENTS.notebook("claims_evidence")}
"""Pages that collect entries, and are not read from the first to the last."""
chapter = pytest.mark.parametrize("path", chapters(), ids=lambda path: path.stem)


def cells(path: Path, kind: str) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == kind]


def tree(path: Path) -> ast.Module:
    """All code cells of a notebook, magics made plain Python."""
    transform = TransformerManager().transform_cell
    return ast.parse("\n".join(transform(cell.source) for cell in cells(path, "code")))


EXPERIMENTS = ROOT / "book" / "ddmip_book" / "experiments" / "__init__.py"
LISTED = {"model", "programs", "pricing", "bounds", "proofs", "certificates", "clock.py"}


@cache
def library_names(with_experiments: bool) -> frozenset[str]:
    """Public functions and classes of every module of the library, and all that an ``__all__``
    lists.

    Of clock, model, programs, prices, bounds, proofs and certificates only what packages list, of the
    experiments too, and of these only in chapters that import them: the others are everyday words.
    """
    names: set[str] = set()
    for file in [*(ROOT / "ddmip_lib").rglob("*.py"), *[EXPERIMENTS] * with_experiments]:
        if LISTED & set(file.parts) and file.name != "__init__.py":
            continue
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names.add(node.name)
            elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                names.update(ast.literal_eval(node.value))
    return frozenset(name for name in names if not name.startswith("_") and name != "main")


def defined_names(module: ast.Module) -> set[str]:
    """What a notebook binds: functions, classes, variables, and imports that are from neither
    package.
    """
    names: set[str] = set()
    methods = {
        id(entry)
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
        for entry in node.body
    }
    for node in ast.walk(module):
        if (
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            and id(node) not in methods
        ):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("ddmip_"):
            names.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(alias.asname for alias in node.names if alias.asname)
    return names


def imported_modules(module: ast.Module) -> set[str]:
    plain = {
        alias.name
        for node in ast.walk(module)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    return plain | {
        node.module or "" for node in ast.walk(module) if isinstance(node, ast.ImportFrom)
    }


@chapter
def test_no_outputs_are_stored(path: Path) -> None:
    assert not [
        cell.id for cell in cells(path, "code") if cell.outputs or cell.execution_count is not None
    ]


@chapter
def test_cells_have_ids_of_their_own(path: Path) -> None:
    notebook = nbformat.read(path, 4)
    assert (notebook.nbformat, notebook.nbformat_minor) >= (4, 5)
    ids = [cell.get("id") for cell in notebook.cells]
    assert all(ids)
    assert len(set(ids)) == len(ids)


@chapter
def test_one_parameters_cell(path: Path) -> None:
    tagged = [
        cell.id for cell in cells(path, "code") if "parameters" in cell.metadata.get("tags", [])
    ]
    assert len(tagged) == 1


@chapter
def test_parameters_are_set_one_by_one(path: Path) -> None:
    """Papermill sees only lines of the form ``name = value``."""
    (cell,) = [
        cell for cell in cells(path, "code") if "parameters" in cell.metadata.get("tags", [])
    ]
    targets = [node.targets for node in ast.parse(cell.source).body if isinstance(node, ast.Assign)]
    assert targets
    assert all(len(group) == 1 and isinstance(group[0], ast.Name) for group in targets)


@chapter
def test_uses_the_library_and_redefines_nothing_of_it(path: Path) -> None:
    module = tree(path)
    packages = {name.split(".")[0] for name in imported_modules(module)}
    assert "ddmip_lib" in packages or (path not in NUMBERED_PAGES and "ddmip_book" in packages)
    experiments = any(
        name.startswith("ddmip_book.experiments") for name in imported_modules(module)
    )
    assert not defined_names(module) & library_names(experiments)


@chapter
def test_cells_are_short(path: Path) -> None:
    lengths = {cell.id: len(cell.source.splitlines()) for cell in cells(path, "code")}
    assert not [cell for cell, lines in lengths.items() if lines > LONGEST_CELL]
    usual = [lines <= USUAL_CELL for cell, lines in lengths.items() if cell != install_cell.ID]
    assert sum(usual) >= 0.8 * len(usual), (
        f"most cells should have at most {USUAL_CELL} lines: {lengths}"
    )


@chapter
def test_visible_lines_fit_the_column(path: Path) -> None:
    """A page at 1280 pixels shows about 90 characters of code."""
    shown = [
        cell for cell in cells(path, "code") if not FOLDED & set(cell.metadata.get("tags", []))
    ]
    long = [
        (cell.id, line)
        for cell in shown
        for line in cell.source.splitlines()
        if len(line) > LONGEST_LINE
    ]
    assert not long


@chapter
def test_the_first_screen_is_a_result_and_a_picture(path: Path) -> None:
    """No code is seen before the first figure, and no second heading.

    Guide pages and appendices may have no figure; their first section then begins without code.
    """
    for cell in nbformat.read(path, 4).cells:
        if "figure" in cell.metadata.get("mystnb", {}) or "{figure}" in cell.source:
            break
        if "\n## " in f"\n{cell.source}" and path not in NUMBERED_PAGES:
            break
        assert "\n## " not in f"\n{cell.source}", cell.id
        assert cell.cell_type == "markdown" or FOLDED & set(cell.metadata.get("tags", [])), cell.id
    imports = [cell for cell in cells(path, "code") if cell.id in ("parameters", "imports")]
    assert all(FOLDED & set(cell.metadata.tags) for cell in imports)


@chapter
def test_sentences_say_their_numbers(path: Path) -> None:
    captions = [
        cell.metadata.get("mystnb", {}).get("figure", {}).get("caption", "")
        for cell in cells(path, "code")
    ]
    texts = [*(cell.source for cell in cells(path, "markdown")), *captions]
    found = [found.group() for text in texts for found in POINTING.finditer(text)]
    assert not found, "say the number, by `say` in a cell tagged remove-input"


@chapter
def test_a_chapter_can_be_read_in_one_sitting(path: Path) -> None:
    """Solutions are folded, but count."""
    words = sum(len(cell.source.split()) for cell in cells(path, "markdown"))
    assert words <= 6500 or path in LOOKED_UP


@chapter
def test_the_summary_has_numbers(path: Path) -> None:
    """After "Summary", a cell that states the most important ones."""
    ids = [cell.id for cell in nbformat.read(path, 4).cells]
    if "summary" in ids:
        assert ids[ids.index("summary") + 1] == "summary-numbers"


@chapter
def test_figure_metadata_is_complete(path: Path) -> None:
    for cell in cells(path, "code"):
        about = cell.metadata.get("mystnb", {})
        if {"figure", "image"} & set(about):
            assert about.get("figure", {}).get("caption"), cell.id
            assert re.fullmatch(r"fig-[\w-]+", about.get("figure", {}).get("name", "")), cell.id
            assert len(about.get("image", {}).get("alt", "")) > 20, (
                f"{cell.id}: alt text that says what is seen"
            )


@chapter
def test_every_exercise_has_a_folded_solution(path: Path) -> None:
    text = "\n".join(cell.source for cell in cells(path, "markdown"))
    exercises = re.findall(r"\{exercise(?:-start)?\}[^\n]*\n(?::[^\n]*\n)*?:label: (\S+)", text)
    solutions = re.findall(r"\{solution(?:-start)?\} (\S+)\n((?::[^\n]*\n)*)", text)
    assert len(exercises) == len(re.findall(r"\{exercise(?:-start)?\}", text)), (
        "an exercise has no label"
    )
    assert len(set(exercises)) == len(exercises) >= (path in NUMBERED_PAGES)
    assert sorted(label for label, _ in solutions) == sorted(exercises)
    assert all(":class: dropdown" in options for _, options in solutions)

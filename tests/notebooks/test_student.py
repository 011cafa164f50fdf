"""Students' copies: every exercise has a self-check and a stub, no solution is left, and the copies
run as they are.
"""

from __future__ import annotations

import ast
import builtins
import re
from functools import cache
from pathlib import Path

import nbformat
import papermill
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from ddmip_book.checks.report import by_chapter, by_label
from tools.contents import name_of
from tools.notebooks import KERNEL_ENVIRONMENT, ChapterError, chapters, contents
from tools.plain_markdown import numbers, plain_markdown
from tools.run_notebook import PAPERMILL
from tools.student import (
    MARK,
    line,
    names,
    refresh_lines,
    stub,
    student_copy,
    with_lines,
    without,
    write,
)

CHAPTERS = chapters()
QUICK = ("neural_mips", "claims")
"""Executed with the other tests; `-m long` executes the rest."""
chapter = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


def exercises(path: Path) -> dict[str, str]:
    """Label and title of a chapter's exercises."""
    text = "\n".join(cell.source for cell in cells_of(path) if cell.cell_type == "markdown")
    found = re.findall(r"\{exercise-start\} ([^\n]*)\n(?::[^\n]*\n)*?:label: (\S+)", text)
    return {label: re.sub(r" \((easy|medium|hard|project)\)$", "", title) for title, label in found}


@cache
def cells_of(path: Path) -> list[nbformat.NotebookNode]:
    return nbformat.reads(path.read_text(), 4).cells


@cache
def copy_of(path: Path) -> list[nbformat.NotebookNode]:
    return student_copy(path).cells


def parts(path: Path) -> tuple[list[str], list[str]]:
    """The lines of a chapter inside and outside its solutions."""
    inside = False
    lines = ([], [])
    for cell in cells_of(path):
        inside = inside or "{solution-start}" in cell.source
        lines[not inside].extend(cell.source.split("\n"))
        inside = inside and "{solution-end}" not in cell.source
    return lines


def run(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[nbformat.NotebookNode]:
    (copy,) = write(folder, [path])
    for name, value in KERNEL_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return papermill.execute_notebook(str(copy), None, cwd=str(folder), **PAPERMILL).cells


@chapter
def test_exercises_and_checks_belong_together(path: Path) -> None:
    checks = by_chapter().get(name_of(path), [])
    assert {one.label: one.title for one in checks} == exercises(path), (
        "every exercise needs a Check in book/ddmip_book/checks, with its title, under"
        f" {name_of(path)!r}"
    )


def test_every_check_belongs_to_a_chapter() -> None:
    assert set(by_chapter()) <= {name_of(path) for path in CHAPTERS}


@chapter
def test_a_stub_for_every_exercise_and_no_solution_left(path: Path) -> None:
    cells = copy_of(path)
    ids = [cell.id for cell in cells]
    assert len(set(ids)) == len(ids)
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    assert [source for source in code if source.startswith("answer = ...")] == [
        stub(by_label()[label])[-1].source for label in exercises(path)
    ]
    assert (code[-1] == f'progress("{name_of(path)}")') == bool(exercises(path))
    everything = "\n".join(cell.source for cell in cells)
    solution, own = parts(path)
    said_twice = {text for text in solution if len(text) <= 40} | set(
        own
    )  # too short to tell, or in the chapter too
    assert [text for text in solution if text not in said_twice and text in everything] == []


@chapter
def test_no_cell_needs_what_a_solution_would_have_bound(path: Path) -> None:
    code = [cell.source for cell in copy_of(path) if cell.cell_type == "code"]
    bound = (
        set(dir(builtins))
        | {"get_ipython", "display"}
        | {name for source in code for name in names(source, ast.Store)}
    )
    assert sorted({name for source in code for name in names(source, ast.Load)} - bound) == []


@chapter
def test_texts_are_readable_without_the_book(path: Path) -> None:
    for cell in copy_of(path):
        if cell.cell_type == "markdown":
            raw = re.findall(
                r"\{[\w:-]+\}`|^[`:]{3,}\{.*|^:label:.*|\$\$ \(eq-", cell.source, re.MULTILINE
            )
            assert not raw, cell.source


@pytest.mark.parametrize(
    "name", [QUICK[0], *(pytest.param(name, marks=pytest.mark.long) for name in QUICK[1:])]
)
def test_a_copy_runs_with_its_stubs_unfilled(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = run(contents().notebook(name), tmp_path, monkeypatch)
    said = "".join(
        output.text
        for cell in cells
        for output in cell.get("outputs", [])
        if output.get("name") == "stdout"
    )
    assert f"0 of {len(by_chapter()[name])} exercises solved in {name}" in said
    assert all(
        f"{one.label}: open. Assign" in said.replace("\n", " ") for one in by_chapter()[name]
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "path", [p for p in CHAPTERS if name_of(p) not in QUICK], ids=lambda path: path.stem
)
def test_every_copy_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = run(path, tmp_path, monkeypatch)
    if exercises(path):
        assert f"exercises solved in {name_of(path)}" in cells[-1].outputs[0].text


def test_the_answer_of_a_student_is_judged_in_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stub filled in the way that its text asks for."""
    notebook = new_notebook(
        cells=[
            new_code_cell("from ddmip_book.checks import check, progress"),
            *stub(by_label()["ex-neurons"]),
        ]
    )
    notebook.cells[-1].source = notebook.cells[-1].source.replace(
        "...  # your work here", "[-2.5, 3.5, 0.5, 3.5]"
    )
    nbformat.write(notebook, tmp_path / "one.ipynb")
    done = papermill.execute_notebook(str(tmp_path / "one.ipynb"), None, **PAPERMILL)
    assert [output.text for output in done.cells[-1].outputs] == ["ex-neurons: right.\n"]


def test_later_cells_lose_only_the_entries_that_need_a_solution() -> None:
    source = 'record_headline({\n    "a": (1, "one"),\n    "b": (\n        best, "two"\n    ),\n})'
    assert without(source, {"best"}, "here") == 'record_headline({\n    "a": (1, "one"),\n})'
    assert without("x = best", {"other"}, "here") == "x = best"
    with pytest.raises(ChapterError, match="uses best of a solution"):
        without("print(best)", {"best"}, "here")


def test_lines_are_put_in_once_and_refreshed(tmp_path: Path) -> None:
    text = (
        "```{exercise-start} By hand (easy)\n:label:"
        " ex-neurons\n```\nCompute.\n\n```{exercise-end}\n```"
    )
    once = with_lines(text)
    wanted = line(by_label()["ex-neurons"])
    assert once == text.replace("Compute.", f"Compute.\n\n{wanted}")
    assert with_lines(once) == with_lines(once.replace(wanted, f"{MARK} something old.")) == once
    nbformat.write(new_notebook(cells=[new_markdown_cell(text)]), tmp_path / "one.ipynb")
    assert refresh_lines([tmp_path / "one.ipynb"], only_look=True) == ["one"]
    assert refresh_lines([tmp_path / "one.ipynb"], only_look=False) == ["one"]
    assert refresh_lines([tmp_path / "one.ipynb"], only_look=True) == []


def test_directives_and_references_become_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"eq-a": "(4.1)", "prop-a": "Proposition 4.2", "fig-a": "Fig. 4.3"}
    assert plain_markdown("See {ref}`an example <ex-a>`.") == "See an example."
    monkeypatch.setattr("tools.plain_markdown.numbers", lambda: said)
    nested = "`````{dropdown} Why\n```{prf:proof}\nBy {eq}`eq-a`.\n```\n`````"
    assert plain_markdown(nested) == "> **Why**\n>\n> > *Proof.*\n> >\n> > By (4.1)."
    display = "```{prf:proof}\nHence\n\n$$\na < b ,\n$$\n\nand so on.\n```"
    assert plain_markdown(display) == "> *Proof.*\n>\n> Hence\n>\n> $$ a < b , $$\n>\n> and so on."
    statement = (
        "```{prf:proposition} Short\n:label: prop-a\n\n$$\nx\n$$ (eq-a)\n```\nand {numref}`fig-a`"
    )
    assert (
        plain_markdown(statement)
        == "> **Proposition 4.2** (Short)\n>\n> $$ x \\tag{4.1} $$\n\nand Fig. 4.3"
    )


def test_every_reference_of_the_book_has_a_number() -> None:
    roles = {"eq", "prf:ref", "numref", "ref"}
    wanted = {
        target
        for path in CHAPTERS
        for cell in cells_of(path)
        if cell.cell_type == "markdown"
        for role, target in re.findall(r"\{([\w:]+)\}`([^`<]+)`", cell.source)
        if role in roles
    }
    assert sorted(wanted - set(numbers())) == []


def test_the_lines_of_the_book_are_fresh() -> None:
    assert refresh_lines(CHAPTERS, only_look=True) == [], (
        "To fix this: python -m tools.student --lines"
    )

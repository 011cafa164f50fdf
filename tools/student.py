"""Copies of the chapters for students: no solutions, a cell for each answer, and a self-check that
judges it.

    python -m tools.student [--output DIR] [chapter ...]   write them, by default to
    _build/course/student python -m tools.student --lines [--check]              put the lines on
    self-checks into the book's exercises

What to assign stands in `ddmip_book.checks` alone; the stubs of the copies and the lines of the
pages are made from it.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from pathlib import Path

import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from ddmip_book.checks.core import Check
from ddmip_book.checks.own import OWN
from ddmip_book.checks.report import by_chapter, check_of
from tools.contents import ContentsError, name_of
from tools.notebooks import BUILD, ChapterError, chosen
from tools.plain_markdown import plain_markdown
from tools.readable import SOLUTION_START, caption, copy_images, fold

OUTPUT = BUILD / "course" / "student"
EXERCISE = re.compile(
    r"(\{exercise-start\}[^\n]*\n(?::[^\n]*\n)*?:label:"
    r" (\S+)\n(?:.*?))\n*(```\{exercise-end\}\n```)",
    re.DOTALL,
)
MARK = "Check your answer:"
"""Every line on a self-check begins like this; it is found, and replaced, by its beginning."""

INTRODUCTION = """\
Under each exercise is a cell for your answer.
Work in as many cells as you like, assign your answer in place of `...`, and run the cell.
It says whether the answer is right, or gives a hint."""
FIRST = """\
from ddmip_book.checks import check, own_numbers, progress, student

student("")  # your name or number between the quotes: some exercises have numbers of your own"""


def line(check: Check) -> str:
    """The line at the end of an exercise in the page."""
    if check.points:
        return f'{MARK} `check("{check.label}")` lists what a good answer covers.'
    return f'{MARK} `check("{check.label}", answer)`, where `answer` is {check.asks}.'


def stub(check: Check) -> list[NotebookNode]:
    """What stands in place of a solution: what to assign, and a cell that checks it."""
    if check.points:
        text = "Your answer is a text; write it here. The cell lists what a good one covers."
        code = f'check("{check.label}")'
    else:
        text = f"**Your answer**: assign to `answer` {check.asks}."
        if check.label in OWN:
            text = "**Your answer**: the next cell says what to assign, with numbers of your own."
        code = f'answer = ...  # your work here\ncheck("{check.label}", answer)'
    parts = [(new_markdown_cell, "task", text), (new_code_cell, "check", code)]
    if check.label in OWN:
        parts.insert(1, (new_code_cell, "numbers", f'own_numbers("{check.label}")'))
    return [make(source, id=f"{check.label}-{suffix}") for make, suffix, source in parts]


def names(source: str, context: type[ast.expr_context]) -> set[str]:
    """Names that a code cell reads (`ast.Load`) or binds (`ast.Store`) in any way, as an argument
    too.
    """
    tree = ast.parse(TransformerManager().transform_cell(source))
    found = {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, context)
    }
    if context is ast.Store:
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
            elif isinstance(node, ast.arg):
                found.add(node.arg)
            elif isinstance(node, ast.ExceptHandler) and node.name:
                found.add(node.name)
    return found


def without(source: str, missing: set[str], where: str) -> str:
    """A later cell that does not need the solutions: entries of dictionaries that do are
    left out.
    """
    if not names(source, ast.Load) & missing:
        return source
    dropped: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        for key, value in (
            zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else []
        ):
            if (
                key
                and {name.id for name in ast.walk(value) if isinstance(name, ast.Name)} & missing
            ):
                dropped |= set(range(key.lineno, (value.end_lineno or key.lineno) + 1))
    shorter = "\n".join(
        text for number, text in enumerate(source.split("\n"), 1) if number not in dropped
    )
    if left := names(shorter, ast.Load) & missing - names(shorter, ast.Store):
        raise ChapterError(
            f"{where} uses {', '.join(sorted(left))} of a solution outside an exercise, which"
            " students' copies lack. To fix this, compute it before the exercises, or use it in an"
            " entry of record_headline alone."
        )
    return shorter


def student_copy(path: Path) -> NotebookNode:
    """A chapter without solutions, with stubs, readable in plain Jupyter."""
    notebook = nbformat.read(path, 4)
    cells: list[NotebookNode] = []
    bound: set[str] = set()
    solved: set[str] = set()
    inside = False
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            if (
                "{exercise-start}" in cell.source
                and not solved
                and not any(c.id == "self-check" for c in cells)
            ):
                cells += [
                    new_markdown_cell(INTRODUCTION, id="self-check-text"),
                    new_code_cell(FIRST, id="self-check"),
                ]
            if start := SOLUTION_START.search(cell.source):
                inside = True
                cells += stub(check_of(start[1]))
            elif not inside:
                cell.source = plain_markdown(
                    re.sub(rf"^{MARK}.*\n?", "", cell.source, flags=re.MULTILINE)
                )
                cells.append(cell)
            inside = inside and "{solution-end}" not in cell.source
            continue
        if inside:
            solved |= names(cell.source, ast.Store)
            continue
        cell.source = without(cell.source, solved - bound, f"{path.stem}, cell {cell.id}")
        bound |= names(cell.source, ast.Store)
        cells += [cell, *caption(cell)]
    if (name := name_of(path)) in by_chapter():
        cells.append(new_code_cell(f'progress("{name}")', id="self-check-progress"))
    fold(cells)
    notebook.cells = cells
    notebook.metadata["ddmip"] = {"chapter": name}
    return notebook


def write(output: Path, paths: list[Path]) -> list[Path]:
    """The copies, and the images that they show."""
    output.mkdir(parents=True, exist_ok=True)
    written = []
    for path in paths:
        notebook = student_copy(path)
        nbformat.validate(notebook)
        written.append(output / path.name)
        nbformat.write(notebook, written[-1])
        copy_images(notebook.cells, output)
    return written


def with_lines(text: str) -> str:
    """A text cell of the book, each exercise with the line on its self-check as it should be."""

    def refreshed(match: re.Match[str]) -> str:
        body = re.sub(rf"\n+{MARK}[^\n]*", "", match[1].rstrip())
        return f"{body}\n\n{line(check_of(match[2]))}\n\n{match[3]}"

    return EXERCISE.sub(refreshed, text)


def refresh_lines(paths: list[Path], only_look: bool) -> list[str]:
    """Put the lines into the book's notebooks (or only look); the chapters whose lines were missing
    or stale.
    """
    stale = []
    for path in paths:
        before = path.read_text()
        notebook = nbformat.reads(before, 4)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = with_lines(cell.source)
        if (after := nbformat.writes(notebook).rstrip("\n") + "\n") != before:
            stale.append(path.stem)
            if not only_look:
                path.write_text(after)
    return stale


def main() -> int:
    parser = argparse.ArgumentParser(description="Write copies of the chapters for students.")
    parser.add_argument(
        "chapters", nargs="*", help="names without number; all of them if none is given"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument(
        "--lines", action="store_true", help="put the lines on self-checks into the book itself"
    )
    parser.add_argument(
        "--check", action="store_true", help="with --lines: change nothing, fail where one is stale"
    )
    arguments = parser.parse_args()
    try:
        paths = chosen(arguments.chapters)
    except ContentsError as error:
        parser.error(str(error))
    if arguments.lines:
        stale = refresh_lines(paths, arguments.check)
        if stale and arguments.check:
            print(
                f"stale: {', '.join(stale)}. To fix this: python -m tools.student --lines",
                file=sys.stderr,
            )
            return 1
        print(f"{len(stale)} chapters changed" if stale else "all lines are up to date")
        return 0
    print(f"{len(write(arguments.output, paths))} student notebooks in {arguments.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Copies of the chapters that read well in JupyterLab: `python -m tools.readable [--output DIR]
[chapter ...]`, by default into _build/lab.

Directives and references become plain Markdown, the source of cells that pages hide is folded, and
so are solutions. `make lab` opens these copies, and the download button of a page gives one; the
chapters themselves are never changed. A copy that its reader has changed is kept.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from tools.contents import ContentsError
from tools.notebooks import BUILD, ROOT, chosen
from tools.plain_markdown import numbers, plain_markdown

LAB = BUILD / "lab"
WRITTEN = ".written.json"
HIDDEN_IN_PAGES = {"remove-input", "hide-input", "remove-cell"}
SOLUTION_START = re.compile(r"\{solution-start\} (\S+)")
LOCAL_IMAGE = re.compile(r"!\[[^\]]*\]\((_static/[^)]+)\)")


def fold(cells: list[NotebookNode]) -> None:
    """Fold the source of what pages hide; JupyterLab shows the output, and a bar to unfold it."""
    for cell in cells:
        if HIDDEN_IN_PAGES & set(cell.metadata.get("tags", [])) and cell.cell_type == "code":
            cell.metadata.setdefault("jupyter", {})["source_hidden"] = True


def copy_images(cells: list[NotebookNode], output: Path) -> None:
    """Put the images of texts beside the notebooks: JupyterLab shows no SVG inside a cell."""
    texts = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    for image in LOCAL_IMAGE.findall(texts):
        (output / image).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "book" / image, output / image)


def caption(cell: NotebookNode) -> list[NotebookNode]:
    """Return the caption of a cell's figure as a cell of its own, where there is one."""
    figure = cell.metadata.get("mystnb", {}).get("figure")
    if not figure:
        return []
    text = f"*{numbers()[figure['name']]}.* {plain_markdown(figure['caption'])}"
    return [new_markdown_cell(text, id=f"{cell.id}-caption"[-64:])]


def readable_copy(path: Path) -> NotebookNode:
    """A chapter with everything in it, readable in plain Jupyter."""
    notebook = nbformat.read(path, 4)
    cells: list[NotebookNode] = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            if SOLUTION_START.search(cell.source):  # its heading folds all up to the next heading
                cell.metadata["jp-MarkdownHeadingCollapsed"] = True
            cell.source = plain_markdown(cell.source)
            if not cell.source:  # it held the end of an exercise or of a solution alone
                continue
        cells += [cell, *caption(cell)]
    fold(cells)
    notebook.cells = cells
    return notebook


def write(output: Path, paths: list[Path]) -> list[Path]:
    """Write the copies; returns those that were kept because their reader has changed them."""
    output.mkdir(parents=True, exist_ok=True)
    record = output / WRITTEN
    written = json.loads(record.read_text()) if record.exists() else {}
    kept = []
    for path in paths:
        target = output / path.name
        if target.exists() and written.get(path.name, "") != digest(target):
            kept.append(target)
            continue
        notebook = readable_copy(path)
        nbformat.validate(notebook)
        nbformat.write(notebook, target)
        copy_images(notebook.cells, output)
        written[path.name] = digest(target)
    record.write_text(json.dumps(written, indent=1))
    return kept


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description="Write readable copies of the chapters.")
    parser.add_argument(
        "chapters", nargs="*", help="names without number; all of them if none is given"
    )
    parser.add_argument("--output", type=Path, default=LAB)
    arguments = parser.parse_args()
    try:
        paths = chosen(arguments.chapters)
    except ContentsError as error:
        print(error, file=sys.stderr)
        return 1
    kept = write(arguments.output, paths)
    print(f"{len(paths)} chapters in {arguments.output}")
    for path in kept:
        print(f"{path.name} was changed by you and is kept; delete it to get a fresh copy")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

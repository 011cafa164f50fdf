"""All tables and figures of the experiments, from the stored rows, into _build/results/: `python -m
tools.results`.

Tables come from the rows themselves, figures from the chapters that read them, executed again where
rows changed.
"""

from __future__ import annotations

import base64
import contextlib
import io
import sys
from pathlib import Path

import nbformat

from ddmip_book.experiments.grids import EXPERIMENTS
from experiments.__main__ import main as experiments
from tools.contents import name_of
from tools.notebooks import BUILD, bring_up_to_date, contents, executed_path


def write_tables(folder: Path) -> list[Path]:
    """One text file for each experiment, and one that says what is missing."""
    written = []
    for name, arguments in {"status": ["status"], **{e: ["table", e] for e in EXPERIMENTS}}.items():
        with contextlib.redirect_stdout(io.StringIO()) as text:
            experiments(arguments)
        written.append(folder / f"{name}.txt")
        written[-1].write_text(text.getvalue())
    return written


def write_figures(executed: Path, folder: Path) -> list[Path]:
    """Every picture of an executed chapter, under the name of the figure."""
    written = []
    for cell in nbformat.read(executed, 4).cells:
        pictures = [
            o.data["image/png"] for o in cell.get("outputs", []) if "image/png" in o.get("data", {})
        ]
        for picture in pictures:
            name = cell.metadata["mystnb"]["figure"]["name"]
            written.append(folder / f"{name_of(executed)}-{name}.png")
            written[-1].write_bytes(base64.b64decode(picture))
    return written


def main() -> int:
    folder = BUILD / "results"
    folder.mkdir(parents=True, exist_ok=True)
    known = contents()
    paths = [known.notebook(page.name) for page in known.parts[known["setting"].part]]
    bring_up_to_date(paths, "quick")
    written = write_tables(folder)
    for path in paths:
        written += write_figures(executed_path(path, "quick"), folder)
    print(f"{len(written)} tables and figures in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The cell that lets a chapter run on Colab: `python -m tools.install_cell [--check] [FILE ...]`
puts it into them.

Colab opens a notebook alone, without the project around it. The cell fetches the project (chapters
read stored results and weights), installs both packages from it, and goes to the chapters' folder;
anywhere else it does nothing. It is the first code cell, is hidden in the pages, and its text is
written here alone, from _config.yml and pyproject.toml; papermill puts its parameters after the
cell tagged for them, further down.

What Colab has (torch, numpy, scipy, matplotlib) stays as it is: its kernel has loaded some of these
before the first cell runs, and another torch would take minutes and lose the GPU. Only what it
lacks is installed, as the lock pins it.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import nbformat

from tools.address import branch, config, repository
from tools.notebooks import ROOT, chapters

ID = "colab"
TAG = "remove-cell"
BROUGHT_BY_COLAB = {"numpy", "scipy", "torch", "tqdm"}
EXTRAS = ("paper",)  # which chapters use and Colab lacks
FOR_DATA = {"pooch"}
TEMPLATE = """\
# On Colab this fetches the book and installs its library; anywhere else it does nothing.
import sys

if "google.colab" in sys.modules:
    import importlib.util
    import os
    import subprocess

    project, address = "/content/{name}", "{address}"
    if not os.path.isdir(project):
        {fetch}
    if importlib.util.find_spec("ddmip_lib") is None:
        packages = ["-c", f"{{project}}/requirements.lock", project, f"{{project}}/book"]
        packages += [{packages}]
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps"]
        subprocess.run([*pip, *packages], check=True)
    os.chdir(f"{{project}}/book")"""
FETCH = """\
clone = ["git", "clone", "-q", "--depth=1", "-b", "{branch}"]
        subprocess.run([*clone, address, project], check=True)"""
NO_ADDRESS = 'raise FileNotFoundError(f"upload the project to {project} and run this again")'


def package_name(requirement: str) -> str:
    """The package that a requirement asks for.

    >>> package_name("pyscipopt-ml>=1.4")
    'pyscipopt-ml'
    """
    return re.split(r"[^\w-]", requirement, maxsplit=1)[0]


def packages() -> list[str]:
    """What Colab lacks of the library's dependencies and of the extras that chapters use."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [line for name in EXTRAS for line in project["optional-dependencies"][name]]
    wanted = {package_name(line) for line in [*project["dependencies"], *extras]} | FOR_DATA
    return sorted(wanted - BROUGHT_BY_COLAB)


def source(settings: dict[str, Any]) -> str:
    """The text of the cell; without an address it says what to do instead of fetching."""
    address = repository(settings)
    fetch = FETCH.format(branch=branch(settings)) if address else NO_ADDRESS
    lacking = ", ".join(f'"{name}"' for name in packages())
    name = address.split("/")[-1] or "ddmip-book"
    return TEMPLATE.format(name=name, address=address, fetch=fetch, packages=lacking)


def with_cell(notebook: nbformat.NotebookNode, text: str) -> nbformat.NotebookNode:
    """The notebook with this cell, and no older one, before its first code cell."""
    cells = [cell for cell in notebook.cells if cell.get("id") != ID]
    first = next((i for i, cell in enumerate(cells) if cell.cell_type == "code"), len(cells))
    metadata = {"tags": [TAG], "cellView": "form"}  # Colab shows a form without its code
    cell = nbformat.v4.new_code_cell(text, id=ID, metadata=metadata)
    return nbformat.from_dict({**notebook, "cells": [*cells[:first], cell, *cells[first:]]})


def refreshed(path: Path, text: str) -> str:
    """What the file should hold."""
    return nbformat.writes(with_cell(nbformat.read(path, 4), text)) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Put the cell for Colab into the chapters.")
    parser.add_argument(
        "files", nargs="*", type=Path, help="notebooks; all chapters if none is given"
    )
    parser.add_argument(
        "--check", action="store_true", help="change nothing; fail where a cell is missing or old"
    )
    arguments = parser.parse_args()
    text = source(config())
    stale = [
        path for path in arguments.files or chapters() if path.read_text() != refreshed(path, text)
    ]
    for path in [] if arguments.check else stale:
        path.write_text(refreshed(path, text))
    if arguments.check and stale:
        names = ", ".join(path.name for path in stale)
        print(
            f"the cell for Colab is missing or old in {names}. To fix this: python -m"
            " tools.install_cell",
            file=sys.stderr,
        )
        return 1
    print(f"{len(stale)} notebooks changed")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

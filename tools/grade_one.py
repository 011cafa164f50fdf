"""One submission in a clean kernel, for tools.grade: `python -m tools.grade_one SOURCE LIMITS`.

LIMITS are those of tools.grade, as JSON. Prints as JSON how the notebook ended and how many of its
cells failed; verdicts go to the file that the environment names. Cells run on after one that fails
or is interrupted.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import DeadKernelError
from nbformat.v4 import new_code_cell

from tools.run_notebook import own_sockets

LOADING = "loading"
"""The id of a first cell that imports what takes seconds; no limit of a cell applies to it."""


def restrict(limits: dict[str, float]) -> None:
    """Limit this process and the kernel that it starts."""
    memory = int(limits["gigabytes"] * 2**30)
    seconds = int(limits["notebook_seconds"])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def failures(notebook: nbformat.NotebookNode) -> list[str]:
    """Return the name of the error of each cell that failed, in order."""
    names = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                names.append(output.ename)
    return names


def run(source: Path, limits: dict[str, float]) -> dict[str, Any]:
    notebook = nbformat.read(source, 4)
    loading = new_code_cell("import ddmip_book.checks.report as _; _.by_chapter()", id=LOADING)
    notebook.cells.insert(0, loading)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout_func=lambda cell: None if cell.id == LOADING else limits["cell_seconds"],
            interrupt_on_timeout=True,
            allow_errors=True,
            startup_timeout=24 * 3600,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            config=own_sockets(folder),
        )
        ended = "ran to its end"
        try:
            client.execute()
        except DeadKernelError:
            ended = "its kernel died"
    return {"ended": ended, "failed": failures(notebook)}


def main(source: str, limits: str) -> int:
    allowed = json.loads(limits)
    restrict(allowed)
    print(json.dumps(run(Path(source), allowed)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))

"""One notebook through papermill, in a process of its own: papermill changes the folder and
handlers of a process.

    python -m tools.run_notebook SOURCE TARGET OPTIONS

OPTIONS are papermill's, as JSON. Says on standard error what failed. It ends on SIGTERM, with its
kernel; an interrupt from the keyboard reaches every process of a terminal, and is left to the one
that started this.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
import papermill
from papermill.exceptions import PapermillExecutionError
from traitlets.config import Config

PAPERMILL: dict[str, Any] = {
    "kernel_name": "python3",
    "progress_bar": False,
    "start_timeout": 24 * 3600,
    "iopub_timeout": 24 * 3600,
}
"""For every notebook. No cell has a time limit, and a day is none: a kernel that dies is noticed
without one.
"""


def own_sockets(folder: str) -> Config:
    """Sockets that are files of this folder: two kernels that start at once may draw the same free
    port.

    A kernel that is told to end sometimes does not hear it; nobody waits for it long.
    """
    files = {"transport": "ipc", "ip": str(Path(folder) / "kernel")} if os.name == "posix" else {}
    return Config(KernelManager={"shutdown_wait_time": 1.0, **files})


def main(source: str, target: str, options: str) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.getLogger("papermill.translators").setLevel(logging.ERROR)
    settings = json.loads(options)
    try:
        with tempfile.TemporaryDirectory() as folder:
            # with a target papermill would write the whole notebook twice for every cell: some
            # seconds of a chapter
            notebook = papermill.execute_notebook(
                source, None, **PAPERMILL, **settings, config=own_sockets(folder)
            )
    except PapermillExecutionError as error:
        print(
            f"cell {error.cell_index} failed.\n\n{error.source}\n\n" + "\n".join(error.traceback),
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        return 130
    used = resource.getrusage(resource.RUSAGE_CHILDREN)  # of the kernel, which has ended
    notebook.metadata["ddmip"] = {"seconds": round(used.ru_utime + used.ru_stime, 1)}
    nbformat.write(notebook, target)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))

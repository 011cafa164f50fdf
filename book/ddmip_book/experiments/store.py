"""Rows on disk: one file of JSON lines for each experiment, to which finished rows are appended and never rewritten."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .rows import Row

INSTALLED = Path(__file__).resolve().parents[1] / "stored" / "results"
"""What an installed library brings along; in a checkout this is a link to its ``data/results``."""


def results_folder(writing: bool = False) -> Path:
    """What ``DDMIP_RESULTS_DIR`` names, else ``data/results`` of the checkout around the working directory.

    Outside a checkout the rows that came with the library are read; they cannot be added to.
    """
    named = os.environ.get("DDMIP_RESULTS_DIR")
    if named:
        return Path(named)
    here = Path.cwd().resolve()
    for folder in (here, *here.parents):
        if (folder / "data" / "results").is_dir():
            return folder / "data" / "results"
    if INSTALLED.is_dir() and not writing:
        return INSTALLED
    raise FileNotFoundError(
        "no folder data/results here or above: work inside a checkout of the book, or set DDMIP_RESULTS_DIR."
    )


class Store:
    """The rows of one experiment in `folder`."""

    def __init__(self, experiment: str, folder: Path) -> None:
        self.path = folder / f"{experiment}.jsonl"

    def rows(self) -> list[Row]:
        """All finished rows. A last line without its end was being written when its writer died: it is no row."""
        if not self.path.is_file():
            return []
        text = self.path.read_text()
        return [Row.parse(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Take the file for writing, alone; what a killed writer left half-written is cut off first."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as problem:
                raise RuntimeError(f"{self.path} is being written by another run: wait for it or stop it.") from problem
            file.seek(0)
            content = file.read()
            file.truncate(content.rfind(b"\n") + 1)
            self._file = file
            try:
                yield
            finally:
                del self._file

    def append(self, row: Row) -> None:
        """Add a row, in one write, on the disk before this returns. Only inside `writing`."""
        line = row.line().encode()
        if os.write(self._file.fileno(), line) != len(line):
            raise OSError(f"{self.path}: the disk took only a part of a row; free some space and run again.")
        os.fsync(self._file.fileno())

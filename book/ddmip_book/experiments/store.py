"""Records on disk: one file of JSON lines for each experiment, to which finished records are
appended and never rewritten.
"""

import fcntl
import os
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from .rows import Row

INSTALLED = Path(__file__).resolve().parents[1] / "stored" / "results"
"""What an installed library brings along; in a checkout this is a link to its ``data/results``."""


def results_folder(writing: bool = False) -> Path:
    """What ``DDMIP_RESULTS_DIR`` names, else ``data/results`` of the checkout around the working
    directory.

    Outside a checkout the records that came with the library are read; they cannot be added to.
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
        "no folder data/results here or above: work inside a checkout of the book, or set"
        " DDMIP_RESULTS_DIR."
    )


class DamagedRows(ValueError):
    """A file of records has lines that are no records, or two records of one case; the message
    names file and lines.
    """


@dataclass
class Content:
    """What a file holds, line by line: records, and what is wrong with other lines."""

    rows: list[Row] = field(default_factory=list)
    kept: list[bytes] = field(default_factory=list)
    """The lines of `rows`, as they are."""
    aside: list[bytes] = field(default_factory=list)
    """Lines that are no records or repeat one; without them nothing is lost but a run, which can be
    done again.
    """
    problems: list[str] = field(default_factory=list)
    at_odds: bool = False
    """Whether two records of one case differ, so that someone has to choose."""


class Store:
    """The records of one experiment in `folder`."""

    def __init__(self, experiment: str, folder: Path) -> None:
        self.path = folder / f"{experiment}.jsonl"

    def content(self) -> Content:
        """What stands in the file. A last line without its end, unless it is a whole record, was
        being written when its writer died: it is nothing.
        """
        found = Content()
        first = dict[str, tuple[int, bytes]]()
        lines = self.path.read_bytes().split(b"\n") if self.path.is_file() else []
        for number, line in enumerate(lines, start=1):
            try:
                row = Row.parse(line.decode())
            except (ValueError, RecursionError) as problem:
                if number < len(lines):
                    found.aside.append(line + b"\n")
                    found.problems.append(f"{self.path}, line {number} is no record: {problem}")
                continue
            before, same = first.setdefault(row.key, (number, line))
            if before == number:
                found.rows.append(row)
                found.kept.append(line + b"\n")
                continue
            found.problems.append(
                f"{self.path}, lines {before} and {number} are records of the same case, {row.key}"
            )
            found.at_odds |= line != same
            found.aside.append(line + b"\n")
        return found

    def rows(self) -> list[Row]:
        """All finished records; a file with lines that are none, or with two records of one case,
        is refused.
        """
        found = self.content()
        if found.problems:
            remedy = (
                "delete all but one of the records that differ"
                if found.at_odds
                else "`run` sets such lines aside"
            )
            raise DamagedRows("\n".join([*found.problems, f"To repair the file: {remedy}."]))
        return found.rows

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Take the file for writing, alone. Lines that are no records, and repeated ones, move to a
        file beside it first, and what a killed writer left half-written is cut off; a kill in
        between leaves the old file or the new.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(self._locked()) as taken:
            found = self.content()
            if found.at_odds:
                self.rows()  # which raises the reason
            if found.aside:
                beside = self.path.with_name(self.path.name + ".damaged")
                known = (
                    [line + b"\n" for line in beside.read_bytes().split(b"\n")[:-1]]
                    if beside.is_file()
                    else []
                )
                _in_place(beside, b"".join(dict.fromkeys([*known, *found.aside]))).close()
                moved = (
                    f"These lines are in {beside} now, and runs that they stood for are done again."
                )
                warnings.warn("\n".join([*found.problems, moved]), stacklevel=4)
            text = b"".join(found.kept)
            with closing(
                taken if self.path.read_bytes() == text else _in_place(self.path, text)
            ) as self._file:
                yield
            del self._file

    def _locked(self) -> BinaryIO:
        """The file, which no one else may write."""
        while True:
            file = open(self.path, "ab+")  # noqa: SIM115  # closed by `writing`
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as problem:
                file.close()
                raise RuntimeError(
                    f"{self.path} is being written by another run: wait for it or stop it."
                ) from problem
            if os.path.samestat(os.fstat(file.fileno()), os.stat(self.path)):
                return file
            file.close()  # another run has put a new file in its place meanwhile

    def append(self, row: Row) -> None:
        """Add a record, in one write, on the disk before this returns. Only inside `writing`."""
        line = row.line().encode()
        before = os.fstat(self._file.fileno()).st_size
        if os.write(self._file.fileno(), line) != len(line):
            self._file.truncate(before)  # else the next row would be glued to this part
            raise OSError(
                f"{self.path}: the disk took part of a record only; free some space and run again."
            )
        os.fsync(self._file.fileno())


def _in_place(path: Path, content: bytes) -> BinaryIO:
    """Give a file new content in one step; it is locked from the beginning."""
    part = path.with_name(path.name + ".part")
    file = open(part, "ab+")  # noqa: SIM115  # closed by the caller
    fcntl.flock(file, fcntl.LOCK_EX)
    file.truncate(0)
    file.write(content)
    file.flush()
    os.fsync(file.fileno())
    os.replace(part, path)
    return file

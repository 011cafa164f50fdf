"""Files of rows that were damaged: nothing passes unnoticed, nothing is lost, nothing stands there
twice.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ddmip_book.experiments import Case, Row, runner
from ddmip_book.experiments.results import load
from ddmip_book.experiments.store import DamagedRows, Store
from experiments.__main__ import main
from tests.builders.rows import finished

ORIGIN = {"commit": None, "uncommitted": False}
ROWS = [finished("e1", "dd-paper", size=n, provenance=ORIGIN) for n in (25, 50, 100)]
DAMAGE = {
    "garbage": b"\x00\xff not a row",
    "blank": b"",
    "glued": ROWS[1].line().strip().encode() + ROWS[2].line().strip().encode(),
    "cut": ROWS[1].line().encode()[:200],
    "a number": b"17",
    "nested": b"[" * 100_000,
    "another object": b'{"key": 3}',
}


def write(folder: Path, *lines: bytes) -> Store:
    store = Store("e1", folder)
    store.path.write_bytes(b"".join(line + b"\n" for line in lines))
    return store


def line(row: Row) -> bytes:
    return row.line().strip().encode()


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_line_is_named_by_readers(damage: bytes, tmp_path: Path) -> None:
    write(tmp_path, line(ROWS[0]), damage, line(ROWS[2]))
    with pytest.raises(DamagedRows, match=r"e1\.jsonl, line 2 is no record"):
        load("e1", tmp_path)


def test_commands_name_damaged_lines_and_status_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, line(ROWS[0]), b"garbage", line(ROWS[0]))
    assert main(["table", "e1", "--folder", str(tmp_path)]) == 1
    assert "e1.jsonl, line 2 is no record" in capsys.readouterr().err
    assert main(["status", "--folder", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "e1.jsonl, line 2 is no record" in said
    assert "lines 1 and 3 are records of the same case" in said
    assert "e5" in said


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_run_sets_a_damaged_line_aside_and_does_its_run_again(
    damage: bytes, tmp_path: Path
) -> None:
    cases = [row.case for row in ROWS]
    done: list[Case] = []

    def again(case: Case, weights: Path) -> Row:
        done.append(case)
        return next(row for row in ROWS if row.key == case.key)

    store = write(tmp_path, line(ROWS[0]), damage, line(ROWS[2]))
    with pytest.warns(UserWarning, match=r"e1\.jsonl, line 2 is no record"):
        found = runner.run_cases(cases, tmp_path, again)
    assert done == [cases[1]]
    assert {row.key for row in found} == {case.key for case in cases}
    assert store.rows() == [ROWS[0], ROWS[2], ROWS[1]]
    assert (tmp_path / "e1.jsonl.damaged").read_bytes() == damage + b"\n"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["e1.jsonl", "e1.jsonl.damaged"]


@pytest.mark.parametrize("survived", [0, 1])
def test_a_kill_between_the_two_files_loses_and_doubles_nothing(
    survived: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = write(tmp_path, line(ROWS[0]), b"garbage", b"more")
    moved = []
    replaced = os.replace

    def dies(*files: Any) -> None:
        if len(moved) == survived:
            raise SystemExit
        moved.append(files)
        replaced(*files)

    monkeypatch.setattr(os, "replace", dies)
    with pytest.raises(SystemExit), warnings.catch_warnings(action="ignore"):
        store.writing().__enter__()
    monkeypatch.undo()
    assert store.content().rows == [ROWS[0]]
    with pytest.warns(UserWarning, match="line 3"), store.writing():
        store.append(ROWS[1])
    assert store.rows() == ROWS[:2]
    assert (tmp_path / "e1.jsonl.damaged").read_bytes() == b"garbage\nmore\n"


def test_a_repeated_row_is_found_and_set_aside(tmp_path: Path) -> None:
    store = write(tmp_path, line(ROWS[0]), line(ROWS[1]), line(ROWS[0]))
    with pytest.raises(
        DamagedRows, match="lines 1 and 3 are records of the same case, e1/water/2x16/25"
    ):
        load("e1", tmp_path)
    with pytest.warns(UserWarning, match="lines 1 and 3"), store.writing():
        pass
    assert store.rows() == ROWS[:2]


def test_of_two_rows_that_differ_someone_has_to_choose(tmp_path: Path) -> None:
    store = write(tmp_path, line(ROWS[0]), line(replace(ROWS[0], objective=1.0)))
    before = store.path.read_bytes()
    for refused in (store.rows, store.writing().__enter__):
        with pytest.raises(DamagedRows, match=r"(?s)lines 1 and 2 .*delete all but one"):
            refused()
    assert store.path.read_bytes() == before


def test_a_whole_row_that_lacks_only_its_end_is_a_row(tmp_path: Path) -> None:
    store = Store("e1", tmp_path)
    store.path.write_bytes(line(ROWS[0]))
    assert store.rows() == ROWS[:1]
    with store.writing():
        store.append(ROWS[1])
    assert store.rows() == ROWS[:2]


def test_a_full_disk_leaves_no_part_of_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store("e1", tmp_path)
    write_all = os.write
    with store.writing():
        monkeypatch.setattr(os, "write", lambda to, what: write_all(to, what[:50]))
        with pytest.raises(OSError, match="part of a record only"):
            store.append(ROWS[0])
        monkeypatch.undo()
        store.append(ROWS[1])
    assert store.rows() == [ROWS[1]]


def test_who_waited_for_a_file_that_was_replaced_writes_the_new_one(tmp_path: Path) -> None:
    store = Store("e1", tmp_path)
    stat = os.stat
    store.path.touch()

    def replaced(path: Any, **more: Any) -> os.stat_result:
        if (
            path == store.path and not other.exists()
        ):  # between the opening of the file and this look at it
            other.write_bytes(b"")
            os.replace(store.path, other)
            store.path.touch()
        return stat(path, **more)

    other = tmp_path / "old"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ddmip_book.experiments.store.os.stat", replaced)
        with store.writing():
            store.append(ROWS[0])
    assert other.read_bytes() == b""
    assert store.rows() == ROWS[:1]

"""Grading a folder: good, wrong, open, failing, endless and broken submissions, side by side."""

from __future__ import annotations

import csv
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tools import grade
from tools.grade import Limits, Line

IMPORT_CHECK = "from ddmip_book.checks import check, student"
RIGHT_NEURONS = 'check("ex-neurons", [-2.5, 3.5, 0.5, 3.5])'
WRONG_NEURONS = 'check("ex-neurons", [0, 3.5, 0.5, 3.5])'
OPEN_NEURONS = 'check("ex-neurons", ...)'
RIGHT_PRICE = 'check("ex-price", (2.5, -0.5))'


def submit(folder: Path, name: str, *code: str, chapter: str = "") -> Path:
    notebook = new_notebook(cells=[new_code_cell(source) for source in (IMPORT_CHECK, *code)])
    if chapter:
        notebook.metadata["ddmip"] = {"chapter": chapter}
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, path)
    return path


def states(lines: list[Line], student: str) -> dict[str, str]:
    return {line.exercise: line.state for line in lines if line.student == student}


def test_a_folder_of_submissions_becomes_a_table(tmp_path: Path) -> None:
    submit(
        tmp_path,
        "Ada_123_assignsubmission_file/hand.ipynb",
        'student("Ada")',
        RIGHT_NEURONS,
        RIGHT_PRICE,
    )
    submit(tmp_path, "bob.ipynb", WRONG_NEURONS, OPEN_NEURONS.replace("neurons", "price"))
    submit(tmp_path, "cleo/late.ipynb", WRONG_NEURONS, RIGHT_NEURONS, chapter="neural_mips")
    submit(tmp_path, "dan.ipynb", RIGHT_NEURONS, "1 / 0", RIGHT_PRICE)
    submit(tmp_path, "eve.ipynb", RIGHT_NEURONS, "import os; os._exit(1)", RIGHT_PRICE)
    (tmp_path / "finn.ipynb").write_text("no notebook")
    lines = grade.grade(tmp_path, Limits())
    assert states(lines, "Ada") == {"ex-neurons": "passed", "ex-price": "passed"}
    assert states(lines, "bob") == {"ex-neurons": "wrong", "ex-price": "open"}
    cleo = states(lines, "cleo")
    assert cleo.pop("ex-neurons") == "passed", "the last answer counts"
    assert set(cleo) == {"ex-price", "ex-own", "ex-enumerate"}
    assert set(cleo.values()) == {"open"}, "an exercise that was deleted is open"
    assert states(lines, "dan") == {"ex-neurons": "passed", "ex-price": "passed"}
    assert states(lines, "eve") == {"ex-neurons": "passed", "ex-price": "open"}
    assert states(lines, "finn") == {"": "unreadable"}
    runs = {line.student: line.run for line in lines}
    assert "ZeroDivisionError" in runs["dan"]
    assert runs["eve"].startswith("its kernel died")
    assert {line.name_in_notebook for line in lines if line.student == "Ada"} == {"ada"}
    assert all(line.points == (line.of if line.state == "passed" else 0) for line in lines)
    check_files(lines, tmp_path / "out")


def check_files(lines: list[Line], output: Path) -> None:
    grade.write_csv(lines, output / "grades.csv")
    with (output / "grades.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["student"], row["exercise"], row["state"]) for row in rows] == [
        (line.student, line.exercise, line.state) for line in lines
    ]
    shown = grade.html(lines)
    earned = sum(line.points for line in lines if line.student == "dan")
    assert f"<td>dan</td><td>{earned} of " in shown


IGNORES_INTERRUPTS = "while True:\n    try: __import__('time').sleep(9)\n    except: pass"


@pytest.mark.parametrize(
    "endless",
    [
        pytest.param("while True: pass", id="interrupted"),
        pytest.param(IGNORES_INTERRUPTS, id="refuses", marks=pytest.mark.long),
    ],
)
def test_an_endless_submission_is_stopped_and_the_next_one_graded(
    tmp_path: Path, endless: str
) -> None:
    """The limits are those of the test; what was checked before the endless cell counts."""
    submit(tmp_path, "a.ipynb", RIGHT_NEURONS, endless, RIGHT_PRICE)
    submit(tmp_path, "b.ipynb", RIGHT_NEURONS)
    limits = Limits(cell_seconds=5)
    if "except" in endless:
        limits = Limits(cell_seconds=5, notebook_seconds=60)
    lines = grade.grade(tmp_path, limits)
    first = states(lines, "a")
    assert first["ex-neurons"] == "passed"
    assert first["ex-price"] == ("open" if "except" in endless else "passed")
    assert states(lines, "b") == {"ex-neurons": "passed"}


def test_checkpoints_are_no_submissions(tmp_path: Path) -> None:
    submit(tmp_path, ".ipynb_checkpoints/a-checkpoint.ipynb")
    mine = submit(tmp_path, "a.ipynb")
    assert grade.submissions(tmp_path) == [("a", mine)]


def test_the_page_shows_names_as_they_are_written() -> None:
    line = Line("<b>x_1</b>", "a.ipynb", "ex-neurons", "By hand", "open", 0, 1, "", "ran")
    assert "<td>&lt;b&gt;x_1&lt;/b&gt;</td>" in grade.html([line])

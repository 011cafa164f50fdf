"""Grade a folder of student notebooks: `python -m tools.grade FOLDER [--output DIR]`.

Every notebook below FOLDER runs in a clean kernel of its own, with limits on time and memory and
without need of a network; one that fails or does not end does not stop the others. The table
(grades.csv and grades.html) has a line for each exercise of each student: passed, wrong, open, or
to be read by a person. The student is the first folder below FOLDER, or the name of a notebook that
lies in FOLDER itself.

A submission is code: run this where it can do no harm. Solutions are public and the checks run in
the student's own kernel, so a verdict rewards work and proves nothing.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, astuple, dataclass, fields
from html import escape
from pathlib import Path

import nbformat

from ddmip_book.checks.report import VERDICT_FILE, by_chapter, by_label
from tools import course, notebooks
from tools.course_pages import page, write

GRADES = notebooks.BUILD / "grades"
CHECKED = re.compile(r"""\bcheck\(\s*["'](ex-[\w-]+)["']""")
MOODLE_SUFFIX = re.compile(r"_\d+_assignsubmission_file.*$")
STATE_NAMES = {"right": "passed", "not yet": "wrong", "open": "open"}
SECONDS_TO_END = 30
"""Seconds that a notebook which is told to end has for that."""


@dataclass(frozen=True)
class Limits:
    """What one submission may take."""

    cell_seconds: float = 120.0
    notebook_seconds: float = 900.0
    gigabytes: float = 16.0


@dataclass(frozen=True)
class Line:
    """One exercise of one student."""

    student: str
    notebook: str
    exercise: str
    title: str
    state: str
    points: int
    of: int
    name_in_notebook: str
    run: str


def submissions(folder: Path) -> list[tuple[str, Path]]:
    """The notebooks of a folder with their students, checkpoints of Jupyter left out."""
    found = []
    for path in sorted(folder.rglob("*.ipynb")):
        inside = path.relative_to(folder)
        if ".ipynb_checkpoints" not in inside.parts:
            student = inside.parts[0] if len(inside.parts) > 1 else inside.stem
            found.append((MOODLE_SUFFIX.sub("", student), path))
    return found


def exercises_of(path: Path) -> list[str]:
    """The exercises that a notebook should solve: those of its chapter, or those that it checks."""
    notebook = nbformat.read(path, 4)
    chapter = notebook.metadata.get("ddmip", {}).get("chapter")
    if chapter in by_chapter():
        return [check.label for check in by_chapter()[chapter]]
    labels = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            labels += CHECKED.findall(cell.source)
    known = dict.fromkeys(labels)
    return [label for label in known if label in by_label()]


def run(path: Path, limits: Limits) -> tuple[list[dict[str, str]], str]:
    """Run a submission; returns the verdicts in their order, and how the run ended."""
    with tempfile.TemporaryDirectory() as folder:
        verdicts = Path(folder) / "verdicts"
        verdicts.touch()
        command = [sys.executable, "-m", "tools.grade_one", str(path), json.dumps(asdict(limits))]
        process = subprocess.Popen(
            command,
            cwd=notebooks.ROOT,
            env={**notebooks.kernel_environment(), VERDICT_FILE: str(verdicts)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        said = output_of(process, limits.notebook_seconds)
        lines = verdicts.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines], told(said)


def output_of(process: subprocess.Popen[str], seconds: float) -> str:
    """What a process says until it ends, or is ended after so many seconds with its kernel."""
    try:
        return process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        process.terminate()
    try:
        return process.communicate(timeout=SECONDS_TO_END)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0]


def told(said: str) -> str:
    """How a run ended, in words.

    >>> told('{"ended": "ran to its end", "failed": ["NameError"]}')
    'ran to its end; cells that failed: 1 (NameError)'
    """
    if not said.strip():
        return "did not end within its limits, or is no notebook"
    about = json.loads(said)
    failed = about["failed"]
    if not failed:
        return about["ended"]
    names = ", ".join(sorted(set(failed)))
    return f"{about['ended']}; cells that failed: {len(failed)} ({names})"


def lines_of(student: str, path: Path, limits: Limits, points: dict[str, int]) -> Iterator[Line]:
    """Run one submission and yield a line for each exercise."""
    try:
        labels = exercises_of(path)
    except (ValueError, OSError) as error:  # nbformat's errors are ValueErrors
        yield Line(student, path.name, "", "", "unreadable", 0, 0, "", type(error).__name__)
        return
    verdicts, ended = run(path, limits)
    last: dict[str, dict[str, str]] = {}
    for verdict in verdicts:
        last[verdict["label"]] = verdict
    for label in labels:
        check = by_label()[label]
        state = STATE_NAMES[last[label]["state"]] if label in last else "open"
        if check.points:
            state = "to be read"
        of = points[course.exercises()[label][2]]
        yield Line(
            student,
            path.name,
            label,
            check.title,
            state,
            of if state == "passed" else 0,
            of,
            last.get(label, {}).get("student", ""),
            ended,
        )


def grade(folder: Path, limits: Limits) -> list[Line]:
    """Run all submissions, one after the other."""
    points = course.load()["exercise_points"]
    lines: list[Line] = []
    for student, path in submissions(folder):
        print(f"{student}: {path.name}", flush=True)
        lines += lines_of(student, path, limits, points)
    return lines


def write_csv(lines: list[Line], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(field.name for field in fields(Line))
        writer.writerows(astuple(line) for line in lines)


def html(lines: list[Line]) -> str:
    """The sums of all students, and every line."""
    sums: dict[str, list[int]] = {}
    for line in lines:
        have = sums.setdefault(line.student, [0, 0])
        have[0] += line.points
        have[1] += line.of
    totals = []
    for student, (have, of) in sums.items():
        totals.append([student, f"{have} of {of}"])
    header = []
    for field in fields(Line):
        header.append(field.name.replace("_", " "))
    every = []
    for line in lines:
        every.append([str(entry) for entry in astuple(line)])
    body = f"<h1>Grades</h1>\n{table(['student', 'points'], totals)}\n{table(header, every)}"
    return page("Grades", body, "body { max-width: none; }")


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = ["<tr>"]
    for word in header:
        lines.append(f'<th scope="col">{word}</th>')
    for row in rows:
        lines.append("</tr>\n<tr>")
        for cell in row:
            lines.append(f"<td>{escape(cell)}</td>")
    inside = "".join(lines)
    return f'<div class="scroll"><table>{inside}</tr></table></div>'


def main() -> int:
    parser = argparse.ArgumentParser(description="Grade a folder of student notebooks.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path, default=GRADES)
    parser.add_argument("--cell-seconds", type=float, default=Limits.cell_seconds)
    parser.add_argument("--notebook-seconds", type=float, default=Limits.notebook_seconds)
    parser.add_argument("--gigabytes", type=float, default=Limits.gigabytes)
    arguments = parser.parse_args()
    if not submissions(arguments.folder):
        parser.error(f"{arguments.folder} holds no notebook")
    limits = Limits(
        cell_seconds=arguments.cell_seconds,
        notebook_seconds=arguments.notebook_seconds,
        gigabytes=arguments.gigabytes,
    )
    lines = grade(arguments.folder, limits)
    write_csv(lines, arguments.output / "grades.csv")
    written = write(arguments.output / "grades.html", html(lines))
    print(f"{len(lines)} exercises: {written.resolve().as_uri()} and grades.csv beside it")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Everything for a course, in one command: `python -m tools.course [--weeks 6 | --weeks 12 | --day]
[--only PART ...]`.

Into _build/course go slides, student notebooks, quizzes, project sheets and syllabi: students may
have all of it. Into _build/instructors go plans, lecture notes and the examination with its
solutions: none of that may.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import yaml

from tools import notebooks
from tools.contents import name_of
from tools.course_pages import chapters, inline, markdown, page, write

COURSE = notebooks.ROOT / "course"
STUDENTS = notebooks.BUILD / "course"
INSTRUCTORS = notebooks.BUILD / "instructors"
PARTS = ("slides", "student", "quizzes", "syllabus")
BY_WEEKS = {6: "six-weeks", 12: "twelve-weeks"}
EXERCISE = re.compile(r"\{exercise-start\} ([^\n]+)\n:label: (\S+)")
GRADE = re.compile(r" \((easy|medium|hard|project)\)$")


INDEX_STYLE = """
body { max-width: 72rem; } summary h2 { display: inline; } details { margin: 1.5rem 0; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; } .timetable th[scope=row] { text-align: center; }
"""


class CourseError(ValueError):
    """course.yml names something that is not there; the message says what."""


@cache
def chapter_files() -> dict[str, Path]:
    """The notebooks of the book by name."""
    return {name_of(path): path for path in notebooks.chapters()}


def shown(name: str) -> str:
    """A chapter's number, or its name where it has none.

    >>> shown("neural_mips"), shown("quickstart")
    ('1', 'quickstart')
    """
    return str(chapters()[name].number or name.replace("_", " "))


@cache
def text(path: Path) -> str:
    return "\n\n".join(c.source for c in nbformat.read(path, 4).cells if c.cell_type == "markdown")


def title(name: str) -> str:
    """A chapter's heading, with its number.

    >>> title("neural_mips").split()[:2]
    ['1', 'Mixed-integer']
    """
    heading = text(chapter_files()[name]).split("\n", 1)[0].removeprefix("# ")
    number = chapters()[name].number
    return heading if number is None else f"{number} {heading}"


@cache
def exercises() -> dict[str, tuple[str, str, str]]:
    """Label to (chapter, title, grade); an exercise without a grade is easy."""
    found = {}
    for name, path in chapter_files().items():
        for heading, label in EXERCISE.findall(text(path)):
            grade = GRADE.search(heading)
            found[label] = (name, GRADE.sub("", heading), grade[1] if grade else "easy")
    return found


def load() -> dict[str, Any]:
    """course.yml, checked: every chapter of the book is in it, every label exists, every plan adds
    up.
    """
    course = yaml.safe_load((COURSE / "course.yml").read_text(encoding="utf-8"))
    if missing := sorted(chapter_files().keys() - course["chapters"].keys()):
        raise CourseError(
            f"course.yml has no goals for chapter {', '.join(missing)}. To fix this, add them."
        )
    needed = {name for about in course["chapters"].values() for name in about["needs"]}
    if unknown := sorted((course["chapters"].keys() | needed) - chapter_files().keys()):
        raise CourseError(
            f"course.yml: there is no chapter {', '.join(unknown)}. To fix this, use names of"
            " _toc.yml."
        )
    for name, form in course["formats"].items():
        for count, session in enumerate(form["sessions"], 1):
            where = f"course.yml, {name}, session {count}"
            check_session(session, course, form["lecture_minutes"], where)
            if not session.get("class") and not session.get("home"):
                session["class"] = exercises_of(session, "easy")
                session["home"] = exercises_of(session, "medium")
    return course


def check_session(session: Any, course: Any, lecture_minutes: int, where: str) -> None:
    """Raise an error where a session names what is not there, or its plan does not add up."""
    if unknown := [c for c in session["chapters"] if c not in course["chapters"]]:
        raise CourseError(f"{where}: there is no chapter {', '.join(unknown)}.")
    labels = [*session.get("class", []), *session.get("home", [])]
    if unknown := [label for label in labels if label not in exercises()]:
        raise CourseError(f"{where}: no chapter has the exercise {', '.join(unknown)}.")
    planned = sum(minutes for minutes, *_ in session.get("plan", []))
    if planned not in (0, lecture_minutes):
        raise CourseError(f"{where}: the plan takes {planned} of {lecture_minutes} minutes.")


def exercises_of(session: Any, wanted: str) -> list[str]:
    """Return the exercises of one grade in the chapters of a session."""
    return [
        label
        for label, (chapter, _, grade) in exercises().items()
        if chapter in session["chapters"] and grade == wanted
    ]


def minutes_of(labels: list[str], course: dict[str, Any]) -> int:
    return sum(course["exercise_minutes"][exercises()[label][2]] for label in labels)


def reading(session: dict[str, Any], course: dict[str, Any]) -> int:
    return sum(course["chapters"][c]["reading"] for c in session["chapters"])


def named(labels: list[str]) -> str:
    return "; ".join(f"*{exercises()[label][1]}* (`{label}`)" for label in labels) or "none"


def syllabus(name: str, course: dict[str, Any]) -> str:
    """What students get: what happens when, what to read and hand in, and what they will be able to
    do.
    """
    form = course["formats"][name]
    parts = [*_head(name, form, course), *_overview(form, course)]
    for count, session in enumerate(form["sessions"], 1):
        parts += [f"## {form['unit']} {count}: {session['title']}", ""]
        parts += [*_goals(session, course), *_material(session), ""]
    if form.get("further"):
        parts += ["## Further reading", "", *_goals({"chapters": form["further"]}, course)]
    return "\n".join(parts)


def _head(name: str, form: Any, course: Any) -> list[str]:
    lines = [
        f"# {course['title']}",
        "",
        f"**{form['title']}.** {form['intro']}",
        "",
        course["audience"],
        "",
    ]
    if name != "one-day":
        lines += ["## Grading criteria", ""]
        lines += [f"- {entry['share']} %: {entry['what']}" for entry in course["assessment"]] + [""]
    return lines


def _overview(form: Any, course: Any) -> list[str]:
    lines = [
        f"| {form['unit']} | Topic | Chapters | Read (minutes) | Hand in (minutes) |",
        "|---|---|---|---|---|",
    ]
    for count, session in enumerate(form["sessions"], 1):
        home = session.get("home", [])
        lines.append(
            f"| {count} | {session['title']} | {', '.join(map(shown, session['chapters'])) or '-'} "
            f"| {reading(session, course)} | {minutes_of(home, course)} |"
        )
    lines += [
        "",
        "Minutes are estimates: reading without the folded proofs, exercises by their grade.",
        "",
    ]
    return lines


def _goals(session: Any, course: Any) -> list[str]:
    lines = []
    for chapter in session["chapters"]:
        about = course["chapters"][chapter]
        notebook = f"[{title(chapter)}](../student/{chapter_files()[chapter].name})"
        needs = ", ".join(map(shown, about["needs"]))
        needs = f"; needs Chapter {needs}" if needs else ""
        lines += [f"{notebook} ({about['reading']} minutes{needs}). You learn to", ""]
        lines += [f"- {goal}" for goal in about["goals"]] + [""]
    return lines


def _material(session: Any) -> list[str]:
    deck = session.get("deck")
    quiz = session.get("quiz")
    lines = [] if deck is None else [f"* Slides: [Part {deck}](../slides/part_{deck}.html)"]
    lines.append(f"* In class: {named(session.get('class', []))}")
    if session.get("home"):
        lines.append(f"* To hand in: {named(session['home'])}")
    if quiz is not None:
        lines.append(f"* Quiz: [Part {quiz}](../quizzes/part_{quiz}.html)")
    if "project" in session:
        lines.append(f"* Project: {session['project']}")
    return lines


def plan(name: str, course: dict[str, Any]) -> str:
    """What the instructor gets: minutes of each session, and the notes that belong to them."""
    form = course["formats"][name]
    lines = [f"# Plan: {form['title'].lower()}", "", form["intro"], ""]
    for count, session in enumerate(form["sessions"], 1):
        lines += [f"## {form['unit']} {count}: {session['title']}", ""]
        if "plan" not in session:
            number = f"{session['notes']:02d}"
            lines += [
                (
                    f"The whole of [lecture {int(number)}](lecture_{number}.html),"
                    f" {form['lecture_minutes']} minutes."
                ),
                "",
            ]
            continue
        lines += ["| Minutes | What | Notes |", "|---|---|---|"]
        lines += [
            f"| {m} | {what} | [lecture {n}](lecture_{n:02d}.html) |"
            for m, what, n in session["plan"]
        ] + [""]
    return "\n".join(lines)


def page_of(source: Path) -> str:
    body = source.read_text(encoding="utf-8")
    return page(body.split("\n", 1)[0].removeprefix("# "), markdown(body))


def write_syllabi(names: list[str], course: dict[str, Any], output: Path) -> None:
    for folder in ("syllabus", "projects"):  # nothing of an earlier choice stays behind
        shutil.rmtree(output / folder, ignore_errors=True)
    for name in names:
        words = syllabus(name, course)
        write(output / "syllabus" / f"{name}.md", words)
        write(
            output / "syllabus" / f"{name}.html",
            page(f"Syllabus: {course['formats'][name]['title'].lower()}", markdown(words)),
        )
    for sheet in sorted((COURSE / "projects").glob("*.md")):
        write(output / "projects" / f"{sheet.stem}.html", page_of(sheet))


def write_instructors(names: list[str], course: dict[str, Any], output: Path) -> None:
    """Plans, notes, problems and solutions, in a folder of their own."""
    shutil.rmtree(output, ignore_errors=True)
    for name in names:
        write(output / f"{name}.html", page(f"Plan: {name}", markdown(plan(name, course))))
    sources = [*sorted((COURSE / "notes").glob("*.md")), *sorted((COURSE / "exam").glob("*.md"))]
    for source in sources:
        write(output / f"{source.stem}.html", page_of(source))
    items = [f"- [Plan: {course['formats'][name]['title'].lower()}]({name}.html)" for name in names]
    items += [
        f"- [{s.read_text(encoding='utf-8').split(chr(10), 1)[0].removeprefix('# ')}]({s.stem}.html)"
        for s in sources
    ]
    body = (
        "# For instructors\n\nDo not publish this folder: it holds the solutions of the"
        " examination.\n\nLecture notes name figures by their labels, such as `fig-pgd-rate`: those that"
        " are on no slide are shown from the chapter.\n\n" + "\n".join(items)
    )
    write(output / "index.html", page("For instructors", markdown(body)))


def title_of(file: Path) -> str:
    """The title of a page, or of the chapter of which a notebook is a copy."""
    if file.suffix == ".html":
        said = re.search(r"<title>(.*?)</title>", file.read_text(encoding="utf-8"), re.DOTALL)
        return said[1] if said else file.stem
    name = name_of(file)
    return inline(title(name)) if name in chapter_files() else file.stem


def timetable(name: str, course: dict[str, Any], output: Path) -> str:
    """A format as a table: what happens when, what to read, what to open, and how long each
    takes.
    """
    form = course["formats"][name]

    head = (
        form["unit"],
        "Lecture",
        "Reading",
        "Notebooks",
        "Slides",
        "Quiz",
        "Exercises to hand in",
    )
    rows = []
    for count, session in enumerate(form["sessions"], 1):
        lecture = f"{inline(session['title'])}<br>{form['lecture_minutes']} minutes"
        cells = [lecture, *_timetable_cells(session, course, output)]
        rest = "".join(f"<td>{cell}</td>" for cell in cells)
        rows.append(f'<tr><th scope="row">{count}</th>{rest}</tr>')
    syllabus_link = _link(output, f"syllabus/{name}.html", "syllabus")
    columns = "".join(f'<th scope="col">{inline(word)}</th>' for word in head)
    return (
        f"<p>{inline(form['intro'])} The {syllabus_link} has the goals.</p>\n"
        '<div class="scroll" tabindex="0" role="region" aria-label="timetable"><table'
        ' class="timetable">'
        f"<caption>{inline(form['title'])}</caption><thead><tr>{columns}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _timetable_cells(session: Any, course: dict[str, Any], output: Path) -> list[str]:
    """Return what to read, the notebooks, slides, quiz and exercises of one session, as HTML."""
    files = [chapter_files()[chapter] for chapter in session["chapters"]]
    titles = ", ".join(inline(title(name_of(file))) for file in files)
    notebooks = [_link(output, f"student/{file.name}", shown(name_of(file))) for file in files]
    home = session.get("home", [])
    return [
        f"{titles}<br>{reading(session, course)} minutes" if files else "",
        ", ".join(notebooks),
        _part_link(output, "slides", session.get("deck")) + _handout(output, session.get("deck")),
        _part_link(output, "quizzes", session.get("quiz")),
        _amount(home, course) if home else "",
    ]


def _handout(output: Path, part: object) -> str:
    file = f"slides/part_{part}.pdf"
    return f' (<a href="{file}">PDF</a>)' if (output / file).exists() else ""


def _amount(labels: list[str], course: dict[str, Any]) -> str:
    """Say how many exercises there are, and how long they take."""
    plural = "" if len(labels) == 1 else "s"
    return f"{len(labels)} exercise{plural}, {minutes_of(labels, course)} min"


def _part_link(output: Path, folder: str, part: object) -> str:
    return "" if part is None else _link(output, f"{folder}/part_{part}.html", f"Part {part}")


def _link(output: Path, file: str, text: str) -> str:
    """Return a link to a file of the course, or the text alone where there is no such file."""
    return f'<a href="{file}">{text}</a>' if (output / file).exists() else text


def write_index(course: dict[str, Any], output: Path) -> Path:
    """The course as a timetable for each format, and what belongs to no week."""
    body = [f"<h1>{inline(course['title'])}</h1>", f"<p>{inline(course['audience'])}</p>"]
    for count, (name, form) in enumerate(course["formats"].items()):
        shown_at_once = " open" if count == 0 else ""
        body += [f"<details{shown_at_once}><summary><h2>{inline(form['title'])}</h2></summary>"]
        body += [timetable(name, course, output), "</details>"]
    for folder, heading in (("projects", "Project sheets"), ("quizzes", "All quizzes")):
        files = sorted((output / folder).glob("*.html"))
        if files:
            rows = [f"<li>{_listed(file, folder)}</li>" for file in files]
            body += [f"<h2>{heading}</h2>", "<ul>", *rows, "</ul>"]
    return write(output / "index.html", page(course["title"], "\n".join(body), INDEX_STYLE))


def _listed(file: Path, folder: str) -> str:
    """Return a link to a page, and to its form for Moodle where there is one."""
    xml = file.with_suffix(".xml")
    moodle = f' (<a href="{folder}/{xml.name}">Moodle XML</a>)' if xml.exists() else ""
    return f'<a href="{folder}/{file.name}">{title_of(file)}</a>{moodle}'


def run_tool(module: str) -> None:
    """Another tool of this folder as its own process; its messages pass through."""
    command = [sys.executable, "-m", f"tools.{module}"]
    if subprocess.run(command, cwd=notebooks.ROOT).returncode:
        raise CourseError(f"tools.{module} failed. To see only that: {' '.join(command)}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Write slides, student notebooks, quizzes and syllabi."
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        "--weeks", type=int, choices=sorted(BY_WEEKS), help="only the syllabus of this length"
    )
    length.add_argument("--day", action="store_true", help="only the syllabus of one day")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="only these parts")
    arguments = parser.parse_args()
    try:
        course = load()
        names = list(course["formats"])
        if arguments.day or arguments.weeks:
            names = ["one-day" if arguments.day else BY_WEEKS[arguments.weeks]]
        if "slides" in arguments.only:  # decks show figures of executed chapters
            notebooks.bring_up_to_date(notebooks.chapters(), "quick")
        for part in [part for part in PARTS if part in arguments.only]:
            if part == "syllabus":
                write_syllabi(names, course, STUDENTS)
                write_instructors(names, course, INSTRUCTORS)
            else:
                run_tool(part)
        index = write_index(course, STUDENTS)
    except (CourseError, notebooks.ChapterError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"\nFor students:    {index.as_uri()}")
    print(
        f"For instructors: {(INSTRUCTORS / 'index.html').as_uri()} (with solutions: do not publish)"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

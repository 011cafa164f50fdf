"""The course: plans that add up, right numbers in quizzes and solutions, and no solution in what
students get.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Page, sync_playwright

from tests.book.visits import violations
from tests.project.course_numbers import EXAM, QUIZZES, plain
from tools import course, notebooks, quizzes
from tools.course_pages import FormulaError, markdown

NOTES = sorted((course.COURSE / "notes").glob("lecture_*.md"))
EXAM_FOLDER = course.COURSE / "exam"
CONTENTS = notebooks.contents()
CAPTIONS = list(dict.fromkeys(page.part for page in CONTENTS.numbered))
PARTS = {
    count: {page.name for page in CONTENTS.parts[caption]}
    for count, caption in enumerate(CAPTIONS, 1)
}
MOST_PAGES = 75
WORDS_A_PAGE = 280
TIMING = re.compile(r"^\| (\d+) \|", re.MULTILINE)
NUMBERED = [q for quiz in quizzes.quizzes() for q in quiz["questions"] if q["kind"] == "number"]
PLAN = course.load()
plans = pytest.mark.parametrize("name", PLAN["formats"])
notes = pytest.mark.parametrize("path", NOTES, ids=lambda path: path.stem)
quiz_files = pytest.mark.parametrize(
    "path", sorted(quizzes.SOURCES.glob("*.yml")), ids=lambda path: path.stem
)


def words(path: Path) -> int:
    """How many a reader meets: the text without the solutions."""
    return len(
        re.sub(
            r"\{solution-start\}.*?\{solution-end\}", "", course.text(path), flags=re.DOTALL
        ).split()
    )


# --- plans ---


def test_twelve_weeks_cover_the_book_in_an_order_that_can_be_followed() -> None:
    plan = PLAN
    seen = set()
    for session in plan["formats"]["twelve-weeks"]["sessions"]:
        seen |= set(session["chapters"])
        assert all(set(plan["chapters"][c]["needs"]) <= seen for c in session["chapters"]), session[
            "title"
        ]
        taught = sum(plan["chapters"][c]["lecture"] for c in session["chapters"])
        assert taught <= plan["formats"]["twelve-weeks"]["lecture_minutes"], session["title"]
    further = set(plan["formats"]["twelve-weeks"]["further"])
    assert seen.isdisjoint(further)
    assert seen | further == set(course.chapter_files())


@plans
def test_no_week_asks_for_too_much_reading(name: str) -> None:
    for session in PLAN["formats"][name]["sessions"]:
        assert len(session["chapters"]) <= 4, session["title"]
        read = sum(words(course.chapter_files()[c]) for c in session["chapters"])
        assert read <= MOST_PAGES * WORDS_A_PAGE, session["title"]


def test_e5_and_the_ledger_are_a_lecture_without_the_other_experiments() -> None:
    (last,) = (s for s in PLAN["formats"]["twelve-weeks"]["sessions"] if "e5" in s["chapters"])
    assert "claims" in last["chapters"]
    assert not {"e1", "e2", "e3", "e4"} & set(last["chapters"])


@pytest.mark.parametrize("name", course.chapter_files())
def test_reading_minutes_fit_the_length_of_the_chapter(name: str) -> None:
    about = PLAN["chapters"][name]
    assert 2 <= len(about["goals"]) <= 5
    assert 90 <= words(course.chapter_files()[name]) / about["reading"] <= 180, "words a minute"


@plans
def test_every_session_names_what_exists(name: str) -> None:
    form = PLAN["formats"][name]
    for session in form["sessions"]:
        assert ("plan" in session) != ("notes" in session)
        pages = (
            [session["notes"]] if "notes" in session else [number for *_, number in session["plan"]]
        )
        assert all((course.COURSE / "notes" / f"lecture_{page:02d}.md").exists() for page in pages)
        assert session.get("quiz", 1) in PARTS
        assert session.get("deck", 1) in PARTS


def test_what_is_misspelt_in_the_plan_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = (course.COURSE / "course.yml").read_text()
    monkeypatch.setattr(course, "COURSE", tmp_path)
    changes = {
        "ex-alm-half": "ex-alm-halves",
        "[convergence, constraints, e1, e5]": "[convergence, constraint, e1, e5]",
        "[35, 'the workshop": "[34, 'the workshop",
    }
    for old, new in changes.items():
        (tmp_path / "course.yml").write_text(good.replace(old, new))
        with pytest.raises(course.CourseError, match=r"course\.yml"):
            course.load()


@plans
def test_a_syllabus_says_what_to_do(name: str) -> None:
    text = course.syllabus(name, PLAN)
    assert len(re.findall(r"^## (?:Week|Block) \d+", text, re.MULTILINE)) == len(
        PLAN["formats"][name]["sessions"]
    )
    assert "* In class: " in text
    assert "](../student/" in text
    assert "lecture_" not in text, "notes are for instructors"
    assert "lecture_" in course.plan(name, PLAN)


# --- notes and projects ---


def test_there_are_notes_for_every_lecture() -> None:
    assert [path.stem for path in NOTES] == [f"lecture_{k:02d}" for k in range(1, 13)]


@notes
def test_notes_are_complete_and_take_ninety_minutes(path: Path) -> None:
    text = path.read_text()
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == [
        "Time table",
        "Common errors",
        "Questions with model answers",
        "Live experiment",
        "If time is short",
    ]
    assert sum(map(int, TIMING.findall(text))) == 90
    assert len(re.findall(r"Hoped for: ", text)) >= 4


def test_figures_and_exercises_that_notes_name_exist() -> None:
    book = "\n".join(path.read_text() for path in notebooks.chapters())
    for path in [*NOTES, *(course.COURSE / "projects").glob("*.md")]:
        for name in re.findall(r"`((?:fig|ex)-[\w-]+)`", path.read_text()):
            assert f'"{name}"' in book or f": {name}\\n" in book, f"{path.stem}: {name}"


@pytest.mark.parametrize("sheet", ["blocks", "subsolver"])
def test_the_points_of_a_project_add_up(sheet: str) -> None:
    text = (course.COURSE / "projects" / f"{sheet}.md").read_text()
    rubric = text.split("## Grading criteria")[1].split("\n## ")[0]
    assert sum(map(int, re.findall(r"^\| [^|]+ \| (\d+) \|", rubric, re.MULTILINE))) == 100


# --- quizzes ---


@quiz_files
def test_a_quiz_asks_about_its_part(path: Path) -> None:
    quiz = quizzes.load(path)
    assert path.stem == f"part_{quiz['part']}"
    assert 6 <= len(quiz["questions"]) <= 13
    assert {q["chapter"] for q in quiz["questions"]} <= PARTS[quiz["part"]]
    assert {q["kind"] for q in quiz["questions"]} == set(quizzes.KINDS)


def test_numbers_of_quizzes_are_right() -> None:
    assert {q["id"] for q in NUMBERED} == set(QUIZZES)
    for question in NUMBERED:
        tolerance = question.get("tolerance", 1e-6)
        assert QUIZZES[question["id"]]() == pytest.approx(question["answer"], abs=tolerance), (
            question["id"]
        )
        gaps = [abs(trap["value"] - question["answer"]) for trap in question["traps"]]
        assert min(gaps) > 2 * tolerance, f"{question['id']}: a trap is the answer"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "guess"}, "kind"),
        ({"options": [{"text": "a", "why": "b"}] * 2}, "0 options"),
        ({"options": [{"text": "a", "right": True}, {"text": "b", "why": "c"}]}, "why missing"),
    ],
)
def test_an_incomplete_quiz_is_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    quiz = yaml.safe_load((quizzes.SOURCES / "part_1.yml").read_text())
    quiz["questions"][0].update(change)
    (tmp_path / "part_1.yml").write_text(yaml.safe_dump(quiz))
    with pytest.raises(quizzes.QuizError, match=message):
        quizzes.load(tmp_path / "part_1.yml")


def test_a_formula_that_cannot_be_drawn_is_an_error() -> None:
    assert "<mfrac" in markdown(r"It is $\tfrac12$.")
    with pytest.raises(FormulaError, match="nonsense"):
        markdown(r"It is $\nonsense{2}$.")


# --- the examination ---


def sections(name: str) -> dict[int, str]:
    parts = re.split(r"^## Problem (\d+): ", (EXAM_FOLDER / name).read_text(), flags=re.MULTILINE)[
        1:
    ]
    return {int(number): text for number, text in zip(parts[::2], parts[1::2], strict=True)}


def test_points_add_up_and_every_problem_is_solved() -> None:
    problems = sections("problems.md")
    solutions = sections("solutions.md")
    assert problems.keys() == solutions.keys() == EXAM.keys()
    points = {}
    for number, text in problems.items():
        title, said, minutes = re.match(r"(.+) \((\d+) points, (\d+) minutes", text).groups()  # type: ignore[union-attr]
        assert solutions[number].startswith(title)
        parts = [int(p) for p in re.findall(r"\((\d+)\)$", text.split("\n## ")[0], re.MULTILINE)]
        assert said == minutes
        assert not parts or sum(parts) == int(said), number
        points[number] = int(said)
    assert f"{sum(points.values())} points in all" in (EXAM_FOLDER / "problems.md").read_text()
    rows = re.findall(
        r"^\| [^|]+ \| ([\d, ]+) \| (\d+) \|$",
        (EXAM_FOLDER / "problems.md").read_text(),
        re.MULTILINE,
    )
    assert len(rows) == 3
    assert all(
        sum(points[int(n)] for n in chosen.split(",")) == int(total) == 90 for chosen, total in rows
    )


@pytest.mark.parametrize("number", EXAM)
def test_numbers_of_the_solutions_are_right(number: int) -> None:
    text = plain(sections("solutions.md")[number])
    for snippet in EXAM[number]():
        assert plain(snippet) in text


def test_students_get_nothing_of_the_examination(tmp_path: Path) -> None:
    """No sentence of problems or solutions is in what students get, nor in what it is made from."""
    students = tmp_path / "students"
    course.write_syllabi(["six-weeks"], PLAN, students)
    quizzes.build(students / "quizzes")
    index = course.write_index(PLAN, students)
    assert "Project sheets" in index.read_text()
    kept = [
        p
        for p in (
            students,
            notebooks.ROOT / "book",
            course.COURSE / "slides",
            course.COURSE / "projects",
            notebooks.ROOT / "ddmip_lib",
            course.STUDENTS,
        )
        if p.exists()
    ]
    files = [
        p
        for folder in kept
        for p in folder.rglob("*")
        if p.suffix in {".html", ".md", ".ipynb", ".py", ".yml"}
    ]
    given = {path: " ".join(path.read_text().split()) for path in files}
    for name in ("problems.md", "solutions.md"):
        lines = [line.strip() for line in (EXAM_FOLDER / name).read_text().splitlines()]
        sentences = [line for line in lines if len(line) > 60 and not line.startswith("|")]
        assert len(sentences) > 25
        for path, text in given.items():
            assert "exam/solutions" not in text, path
            assert not [
                s for s in sentences if s[:60] in text or s[:60].replace("\\", "\\\\") in text
            ], path


def test_the_index_is_a_timetable(tmp_path: Path) -> None:
    course.write_syllabi(list(PLAN["formats"]), PLAN, tmp_path)
    quizzes.build(tmp_path / "quizzes")
    page = course.write_index(PLAN, tmp_path).read_text(encoding="utf-8")
    rows = page.count('<tr><th scope="row">')
    assert rows == sum(len(form["sessions"]) for form in PLAN["formats"].values())
    assert re.search(r"<td>2 exercises, \d+ min</td>", page)
    for word in ("Lecture", "Reading", "Notebooks", "Slides", "Quiz", "minutes"):
        assert word in page
    listed = re.findall(r'<a href="([^"]+)"', page)
    assert {"quizzes/part_1.html", "quizzes/part_1.xml"} <= set(listed)
    assert all((tmp_path / name).exists() for name in listed), "links only to what was written"


def test_instructors_get_all_of_it(tmp_path: Path) -> None:
    course.write_instructors(["six-weeks"], PLAN, tmp_path)
    listed = re.findall(r'<a href="([^"]+)"', (tmp_path / "index.html").read_text())
    assert {"solutions.html", "problems.html", "six-weeks.html", "lecture_12.html"} <= set(listed)
    assert all((tmp_path / name).exists() for name in listed)
    assert not [
        p
        for p in tmp_path.glob("*.html")
        if re.search(r"https?://(?!www\.w3\.org)|src=", p.read_text())
    ]


# --- a quiz in the browser ---


@pytest.fixture
def quiz_page(tmp_path: Path) -> Iterator[Page]:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip("no Chromium found. To fix this: sudo apt-get install chromium")
    page_file, *_ = quizzes.build(tmp_path)
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=["--disable-gpu", *sandbox]
        )
        page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: asked.append(str(error)))
        page.goto(page_file.as_uri())
        yield page
        assert [
            url for url in asked if url != page_file.as_uri() and not url.startswith("data:")
        ] == []
        browser.close()


def test_a_quiz_can_be_done_by_keyboard_on_a_phone(quiz_page: Page) -> None:
    page = quiz_page
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    unnamed = (
        "[...document.querySelectorAll('input')].filter(i => !i.labels.length ||"
        " !i.labels[0].textContent.trim())"
    )
    assert page.evaluate(f"{unnamed}.length") == 0
    first = page.locator("fieldset").nth(0)
    second = page.locator("fieldset").nth(1)
    right = first.locator(".option").evaluate_all(
        "all => all.findIndex(o => o.classList.contains('right'))"
    )
    page.keyboard.press("Tab")
    page.keyboard.press("Space")  # chooses the first option
    if right == 0:
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert first.locator(".verdict").inner_text().startswith("Not yet")
    assert first.locator(".why:visible").count() == 1
    page.keyboard.press("Shift+Tab")
    for key in ["ArrowDown"] * right or ["ArrowUp"]:
        page.keyboard.press(key)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert first.locator(".verdict").inner_text() == "Right."
    second.locator("input").focus()
    for answer, verdict in (("3/2", "ReLU"), ("x", "not a number"), ("4/2", "Right.")):
        page.keyboard.press("Control+A")
        page.keyboard.type(answer)
        page.keyboard.press("Enter")
        assert verdict in second.locator(".verdict").inner_text()
    assert page.locator("#score").inner_text() == "2 of 8 questions right"
    assert page.locator("[role=status]").count() == 9


def test_axe_finds_no_field_of_a_quiz_without_a_name(quiz_page: Page) -> None:
    formulas_alone = quiz_page.locator("input[aria-label]").count()
    assert formulas_alone >= 2
    assert violations(quiz_page, {"runOnly": {"type": "rule", "values": ["label"]}}) == []

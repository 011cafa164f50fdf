"""Quizzes give nothing away by position or length, name every option, and survive Moodle's XML."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bs4 import BeautifulSoup

from tools import moodle, quizzes

EVERY_QUIZ = quizzes.quizzes()
ONE_RIGHT = [q for quiz in EVERY_QUIZ for q in quiz["questions"] if q["kind"] == "single"]
LARGEST_SHARE = 0.4
each_quiz = pytest.mark.parametrize("quiz", EVERY_QUIZ, ids=lambda quiz: f"part_{quiz['part']}")


def visible(text: str) -> int:
    """About how many characters a reader sees: a TeX command counts as one."""
    return len(re.sub(r"[{}$*`]", "", re.sub(r"\\[A-Za-z]+ ?", "x", text)))


def position_of_the_right_one(question: dict[str, Any]) -> int:
    return [bool(o.get("right")) for o in quizzes.shown_order(question)].index(True)


def test_no_position_holds_most_of_the_right_answers() -> None:
    positions = Counter(map(position_of_the_right_one, ONE_RIGHT))
    assert max(positions.values()) <= LARGEST_SHARE * len(ONE_RIGHT), positions


def test_the_right_answer_is_seldom_the_longest_and_seldom_the_shortest() -> None:
    longest = shortest = 0
    for question in ONE_RIGHT:
        right = [visible(o["text"]) for o in question["options"] if o.get("right")]
        wrong = [visible(o["text"]) for o in question["options"] if not o.get("right")]
        longest += right[0] > max(wrong)
        shortest += right[0] < min(wrong)
    assert longest <= LARGEST_SHARE * len(ONE_RIGHT)
    assert shortest <= LARGEST_SHARE * len(ONE_RIGHT)


def test_the_order_depends_on_question_and_texts_alone() -> None:
    question = ONE_RIGHT[0]
    turned = {**question, "options": question["options"][::-1]}
    assert quizzes.shown_order(turned) == quizzes.shown_order(question)
    orders = set()
    for one in ONE_RIGHT:
        shown = quizzes.shown_order(one)
        orders.add(tuple(one["options"].index(option) for option in shown))
    assert len(orders) > 1


@each_quiz
def test_every_option_has_a_name_that_is_no_formula(quiz: dict[str, Any]) -> None:
    """Screen readers, and axe, take an option by the words of its label or its aria-label."""
    page = BeautifulSoup(quizzes.quiz_page(quiz), "html.parser")
    inputs = page.select("input")
    assert len(inputs) > len(quiz["questions"])
    for one in inputs:
        label = page.select_one(f"label[for='{one['id']}']")
        assert label is not None
        for formula in label.select("math"):
            formula.decompose()
        named = one.get("aria-label") or label.get_text()
        assert re.search(r"\w", str(named)), one["id"]
        assert "\\" not in str(named), named


# --- Moodle ---


def back(root: ElementTree.Element) -> list[dict[str, Any]]:
    """The questions of a file as course/quizzes has them, with HTML for text."""

    def words(element: ElementTree.Element | None) -> str:
        assert element is not None
        return element.findtext("text") or ""

    found = []
    for question in root.findall("question")[1:]:
        answers = [
            (
                words(one),
                float(one.get("fraction", "")),
                words(one.find("feedback")),
                one.findtext("tolerance"),
            )
            for one in question.findall("answer")
        ]
        kind = "number"
        if question.get("type") == "multichoice":
            kind = "single" if question.findtext("single") == "true" else "multiple"
        found.append(
            {
                "id": words(question.find("name")),
                "kind": kind,
                "ask": words(question.find("questiontext")),
                "answers": answers,
            }
        )
    return found


@each_quiz
def test_moodle_gets_what_the_page_has(quiz: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "quiz.xml").write_text(moodle.quiz_xml(quiz), encoding="utf-8")
    root = ElementTree.parse(tmp_path / "quiz.xml").getroot()
    assert root.findtext("question/category/text", "").endswith(quiz["title"])
    read = back(root)
    assert [one["id"] for one in read] == [q["id"] for q in quiz["questions"]]
    for one, question in zip(read, quiz["questions"], strict=True):
        assert one["kind"] == question["kind"]
        assert "$" not in one["ask"]
        assert "{{" not in one["ask"], "chapters by their numbers"
        if question["kind"] == "number":
            check_number(one["answers"], question)
        else:
            check_options(one["answers"], question)


def check_number(answers: list[tuple[Any, ...]], question: dict[str, Any]) -> None:
    right, *traps, rest = answers
    assert (float(right[0]), right[1]) == (question["answer"], 100)
    assert float(right[3]) == question.get("tolerance", 1e-6)
    assert [(float(value), share) for value, share, *_ in traps] == [
        (trap["value"], 0) for trap in question["traps"]
    ]
    assert (rest[0], rest[1]) == ("*", 0)
    assert rest[2]


def check_options(answers: list[tuple[Any, ...]], question: dict[str, Any]) -> None:
    assert [(text, why) for text, _, why, _ in answers] == [
        (moodle.inline(o["text"]), moodle.inline(o["why"])) for o in question["options"]
    ]
    earned = [share for _, share, *_ in answers if share > 0]
    assert [share > 0 for _, share, *_ in answers] == [
        bool(o.get("right")) for o in question["options"]
    ]
    assert sum(earned) == pytest.approx(100, abs=1e-3)
    if question["kind"] == "multiple":  # to tick everything earns nothing
        assert sum(share for _, share, *_ in answers) == pytest.approx(0, abs=1e-3)


def test_formulas_reach_moodle_unchanged() -> None:
    shown = BeautifulSoup(moodle.inline(r"At $a < \tfrac12$."), "html.parser").get_text()
    assert shown == r"At \(a < \tfrac12\)."
    assert r"\[x\]" in moodle.block("So\n\n$$\nx\n$$")

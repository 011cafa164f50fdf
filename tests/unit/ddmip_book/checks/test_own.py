"""Numbers of their own for each student: they differ, last, and have one right answer."""

from collections.abc import Iterator

import pytest

from ddmip_book.checks import check, own_numbers, report, student
from ddmip_book.checks.own import OWN, drawn
from ddmip_book.checks.report import by_chapter, by_label
from tools.notebooks import contents

FIFTY_STUDENTS = [f"student {k}" for k in range(50)]
each = pytest.mark.parametrize("label", OWN)


@pytest.fixture(autouse=True)
def nobody() -> Iterator[None]:
    report._student[0] = ""
    yield
    report._student[0] = ""


def test_every_part_has_an_exercise_with_own_numbers() -> None:
    pages = contents()
    chapter_of = {one.label: name for name, checks in by_chapter().items() for one in checks}
    parts = {pages[chapter_of[label]].part for label in OWN}
    assert parts == {page.part for page in pages.numbered}


@each
def test_two_students_get_different_numbers_and_keep_them(label: str) -> None:
    student("Ada  Lovelace")
    ada = own_numbers(label)
    student("Grace Hopper")
    grace = own_numbers(label)
    student("ada lovelace ")
    assert ada == own_numbers(label) != grace
    assert len({tuple(drawn(label, who).values()) for who in FIFTY_STUDENTS}) >= 10


@each
def test_the_reference_passes_for_fifty_students_and_slips_do_not(label: str) -> None:
    own = OWN[label]
    for who in FIFTY_STUDENTS:
        numbers = drawn(label, who)
        student(who)
        solution = own.solution(**numbers)
        assert check(label, solution), who
        for trap in own.traps(solution, **numbers):
            verdict = check(label, trap[0])
            assert (verdict.state, verdict.message) == ("not yet", trap[1]), who


@each
def test_without_a_name_the_numbers_are_those_of_the_book(label: str) -> None:
    assert own_numbers(label) == {}
    assert check(label, by_label()[label].solution())
    student(FIFTY_STUDENTS[0])
    told = [own_numbers(label), check(label, by_label()[label].solution())]
    assert told[0]
    assert not told[1], "the solution in the book is another one"

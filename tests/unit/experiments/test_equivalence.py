"""Which records come from code that gives today's results."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ddmip_book.experiments import EXPERIMENTS, Case, Row, load
from ddmip_book.experiments.store import results_folder
from experiments.code_hash import method_hash
from experiments.equivalence import account, is_todays, kind_of, made_by, read_known

CASE = Case("e3", "water", "2x16", 20, 42, "ssg")
NOW = method_hash("ssg", "water")


def row(**provenance: object) -> Row:
    given = {"commit": "abc", "uncommitted": False, **provenance}
    return Row(key=CASE.key, **CASE.setting(), status="iteration_limit", provenance=given)


def known(**steps: str | None) -> dict[str, dict[str, dict[str, str | None]]]:
    return {"ssg on water": {code: {"same_as": to} for code, to in steps.items()}}


def test_a_row_of_the_code_at_hand_is_todays() -> None:
    assert is_todays(row(code=NOW), {})
    assert not is_todays(row(code="other"), {})
    assert not is_todays(row(), {})


def test_equality_is_followed_from_step_to_step() -> None:
    assert is_todays(row(solvers="a"), known(a="b", b=NOW))
    assert not is_todays(row(solvers="a"), known(a="b", b="c"))
    assert not is_todays(row(solvers="a"), known(a="b", b="a"))


def test_equality_holds_for_its_method_and_problem_alone() -> None:
    shown = known(a=NOW)
    assert is_todays(row(solvers="a"), shown)
    assert not is_todays(replace(row(solvers="a"), method="bigm"), shown)
    assert not is_todays(replace(row(solvers="a"), problem="trees", budget=None), shown)


def test_the_account_names_older_code_and_counts_uncommitted_rows() -> None:
    rows = [row(code=NOW), row(solvers="a"), row(solvers="b", commit="def+", uncommitted=True)]
    assert account(rows, known(a=NOW)) == [
        "2 records come from code that gives today's results",
        "1 records come from code that was not shown to give today's results:",
        "  1 x ssg on water, code b of commit def+",
        "1 records come from code that was not committed as it ran",
    ]
    assert account([replace(row(), method="mine")], {}) == []


def test_nothing_is_known_without_a_file(tmp_path: Path) -> None:
    assert read_known(tmp_path) == {}


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_published_rows_say_which_code_made_them(experiment: str) -> None:
    for each in load(experiment):
        assert len(made_by(each) or "") == 16
        assert each.provenance["uncommitted"] == each.provenance["commit"].endswith("+")


def test_what_is_published_as_the_same_is_backed_by_stored_runs() -> None:
    """The file named holds runs of rows of that code, all as they are stored, up to differences
    with a known cause, or runs by that code itself, all as after.
    """
    folder = results_folder()
    rows = {each.key: each for experiment in EXPERIMENTS for each in load(experiment)}
    for kind, codes in read_known(folder).items():
        for code, entry in codes.items():
            shown = json.loads((folder / entry["shown_by"]).read_text())
            mine = [key for key in shown["stored"] if kind_of(rows[key]) == kind]
            backing = [
                key
                for key in mine
                if code in (made_by(rows[key]), shown["before"][key].get("code"))
            ]
            assert len(backing) >= entry["runs"] > 0
            for key in backing:
                assert key not in shown["differences"]["before and after"]
                assert shown["differences"]["stored and before"].get(key, {"cause": "known"})[
                    "cause"
                ]
                assert shown["after"][key]["code"] == entry["same_as"]

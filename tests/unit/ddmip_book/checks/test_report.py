"""Every self-check takes its solution, refuses three wrong answers each with its own hint, and
never raises.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from ddmip_book.checks import check, open_exercises, progress, report
from ddmip_book.checks.core import Check, FormError, agrees, calls, same_set, solution_of

CHECKS = list(report.by_label().values())
each = pytest.mark.parametrize("one", CHECKS, ids=lambda one: one.label)
JUNK = (
    "junk",
    3.75,
    [1, 2],
    {},
    object(),
    (1, 2, 3, 4, 5, 6, 7),
    True,
    np.zeros((2, 2)),
    lambda *inputs: "junk",
)


@each
def test_the_solution_is_right(one: Check) -> None:
    if one.points:
        assert one.verdict("anything").state == "open"
    else:
        assert one.verdict(solution_of(one)), one.verdict(solution_of(one))


@each
def test_three_plausible_mistakes_get_three_hints(one: Check) -> None:
    if one.points:
        return
    traps = one.traps(solution_of(one))
    hints = [trap[1] for trap in traps]
    assert len(set(hints)) == 3
    for wrong, hint, *_ in traps:
        verdict = one.verdict(wrong)
        assert (verdict.state, verdict.message) == ("not yet", hint)


@each
def test_nothing_is_open_and_junk_is_no_error(one: Check) -> None:
    assert {one.verdict(nothing).state for nothing in (None, ..., (..., ...))} == {"open"}
    for junk in JUNK if not one.points else ():
        verdict = one.verdict(junk)
        assert verdict.state == "not yet"
        assert verdict.message


@each
def test_texts_fit_into_their_sentences(one: Check) -> None:
    """`asks` continues "assign ..." and "where answer is ..."; it, like a hint, never ends a line
    of its own.
    """
    assert one.asks
    assert one.asks[0].islower() or one.asks[0] in "$`"
    assert not one.asks.endswith(".")
    assert "\n" not in one.asks
    if one.points:
        return
    assert one.judge is None or one.hint.endswith((".", "?"))
    assert all(hint.endswith((".", "?")) for _, hint, *_ in one.traps(solution_of(one)))


@each
def test_a_hint_does_not_contain_the_answer(one: Check) -> None:
    if one.points:
        return
    solution = solution_of(one)
    if isinstance(solution, (int, float)) and not isinstance(solution, bool):
        hints = [one.hint, *(trap[1] for trap in one.traps(solution))]
        assert not [hint for hint in hints if f"{solution:g}" in hint.split()]


def test_few_exercises_are_open_ended() -> None:
    assert sum(bool(one.points) for one in CHECKS) * 6 <= len(CHECKS)


def test_labels_are_unique() -> None:
    assert sum(map(len, report.by_chapter().values())) == len(CHECKS)


@pytest.mark.parametrize(
    ("answer", "right", "same"),
    [
        (0.3333, Fraction(1, 3), True),
        (np.float32(0.5), 0.5, True),
        (torch.tensor([1.0, 2.0]), [1, 2], True),
        (np.array([1.0, 2.1]), [1, 2], False),
        ([2, 1], {1, 2}, True),
        (" Cycle", "cycle", True),
        ({1.0: (1, True)}, {1: (1.0, True)}, True),
        (1e-12, 0, True),
        (float("inf"), float("inf"), True),
    ],
)
def test_answers_are_compared_by_meaning(answer: Any, right: Any, same: bool) -> None:
    assert agrees(answer, right) is same


ILL_FORMED = [
    ("1", 1),
    (1, True),
    (True, 1),
    ([1], [1, 2]),
    (1, [1]),
    ({2: 0}, {1: 0}),
    (1, "one"),
    ("ab", [1, 2]),
]


@pytest.mark.parametrize(("answer", "right"), ILL_FORMED)
def test_another_form_is_told(answer: Any, right: Any) -> None:
    with pytest.raises(FormError):
        agrees(answer, right)


def test_sets_of_another_size_are_wrong_and_functions_are_called() -> None:
    assert same_set([100], [100])
    assert not same_set([50, 100], [100])
    with pytest.raises(FormError, match="a function"):
        calls((1,))(3, lambda x: x)


def test_an_error_inside_an_answer_is_reported_as_a_hint() -> None:
    verdict = report.check_of("ex-e5-size").verdict(lambda b, c, k: 1 / 0)
    assert (verdict.state, "ZeroDivisionError" in verdict.message) == ("not yet", True)


def test_unknown_labels_name_the_near_ones() -> None:
    with pytest.raises(ValueError, match="ex-split-six"):
        check("ex-split-sixx", 1)
    with pytest.raises(ValueError, match="there is no chapter"):
        open_exercises("4")


def test_progress_follows_what_was_checked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "_verdicts", {})
    assert check("ex-ledger-grim", (True, [100]))
    assert not check("ex-ledger-middle", (13 * 24.8, 16 * 24.8))
    assert open_exercises("claims") == ["ex-ledger-middle", "ex-ledger-limits", "ex-ledger-audit"]
    progress("claims")
    out = capsys.readouterr().out
    assert "ex-ledger-grim: right." in out
    assert "1 of 4 exercises solved in claims" in out
    states = [line.split("ex-")[0].strip() for line in out.splitlines() if line.startswith("  ")]
    assert states == ["right", "not yet", "open", "open"]


def test_a_verdict_is_shown_once_in_a_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    verdict = check("ex-enumerate", 24)
    assert capsys.readouterr().out == "ex-enumerate: right.\n"
    assert repr(verdict) == "ex-enumerate: right."
    verdict._ipython_display_()
    assert capsys.readouterr().out == ""

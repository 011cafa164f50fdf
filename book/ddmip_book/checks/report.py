"""What students call: `check` an answer, ask for `progress`, list `open_exercises`, and get
`own_numbers`.
"""

import difflib
import json
import os
from dataclasses import replace
from functools import cache
from importlib import import_module
from textwrap import fill
from typing import Any

from .core import Check, Verdict
from .own import OWN, drawn

PARTS = (
    "part1",
    "part2_lagrangian",
    "part2_split",
    "part2_network",
    "part3",
    "part4_water",
    "part4_ledger",
    "part5",
    "part5_lines",
    "part5_own",
    "part5_scaling",
    "part5_suite",
)
VERDICT_FILE = "DDMIP_VERDICTS"
"""The environment variable that names a file for verdicts, one JSON object a line."""
_verdicts: dict[str, Verdict] = {}
_student = [""]


@cache
def by_chapter() -> dict[str, list[Check]]:
    """All checks, by the name of the chapter, in reading order."""
    parts = [import_module(f".{part}", __package__).CHECKS for part in PARTS]
    return {chapter: checks for part in parts for chapter, checks in part.items()}


@cache
def by_label() -> dict[str, Check]:
    return {one.label: one for checks in by_chapter().values() for one in checks}


def check_of(label: str) -> Check:
    """The check of an exercise; a label that does not exist is an error that names the nearest
    ones.
    """
    if label in by_label():
        return by_label()[label]
    near = difflib.get_close_matches(str(label), by_label(), n=3, cutoff=0.4)
    told = (
        f"Did you mean {' or '.join(near)}?" if near else "Labels begin with ex-, as in ex-neurons."
    )
    raise ValueError(f"there is no exercise {label!r}. {told}")


def check(label: str, answer: Any = None) -> Verdict:
    """Say whether `answer` solves the exercise `label`, with a hint where it does not; None or
    `...` leaves it open.

    >>> check("ex-enumerate", ...)
    ex-enumerate: open. Assign the largest m, an integer.
    ex-enumerate: open. Assign the largest m, an integer.
    >>> bool(check("ex-enumerate", 25))
    ex-enumerate: not yet. At this m the tabulation takes more than an hour: round down.
    False
    """
    verdict = _own_check(check_of(label), _student[0]).verdict(answer)
    _verdicts[label] = verdict
    if file := os.environ.get(VERDICT_FILE):
        noted = {"label": label, "state": verdict.state, "student": _student[0]}
        with open(file, "a", encoding="utf-8") as lines:
            lines.write(json.dumps(noted) + "\n")
    print(fill(repr(verdict), 100))
    return verdict


def student(name: str) -> None:
    """Say who works in this notebook: some exercises then have numbers of their own.

    >>> student("")
    No name yet: all exercises have the numbers of the book.
    """
    _student[0] = " ".join(name.casefold().split())
    if _student[0]:
        print(f"Exercises with numbers of your own: {', '.join(OWN)}.")
    else:
        print("No name yet: all exercises have the numbers of the book.")


def own_numbers(label: str) -> dict[str, float]:
    """Tell the numbers of an exercise and what to compute from them; without a name, those of the
    book.

    >>> own_numbers("ex-emb-sos")
    Assign the largest $z$ at $a = 0$ for $M^- = -3$, $M^+ = 4$: the pair (by the bounds
    alone, with the inequality).
    {}
    """
    print(fill(f"Assign {_own_check(check_of(label), _student[0]).asks}.", 90))
    return drawn(label, _student[0]) if _student[0] and label in OWN else {}


@cache
def _own_check(one: Check, who: str) -> Check:
    """The check with the numbers of a student, where it has such and the student has a name."""
    if not who or one.label not in OWN:
        return one
    numbers = drawn(one.label, who)
    own = OWN[one.label]
    return replace(
        one,
        asks=own.asks(**numbers),
        solution=lambda: own.solution(**numbers),
        traps=lambda solution: own.traps(solution, **numbers),
    )


def open_exercises(chapter: str | None = None) -> list[str]:
    """The labels of a chapter's exercises (of all chapters, without a name) that are not solved in
    this session.

    >>> open_exercises("claims")
    ['ex-ledger-grim', 'ex-ledger-middle', 'ex-ledger-limits', 'ex-ledger-audit']
    """
    return [one.label for one in _of(chapter) if not _verdicts.get(one.label)]


def progress(chapter: str | None = None) -> None:
    """Print which exercises of a chapter are right, not yet right, and open."""
    states = {
        one: _verdicts[one.label].state if one.label in _verdicts else "open"
        for one in _of(chapter)
    }
    done = sum(state == "right" for state in states.values())
    print(f"{done} of {len(states)} exercises solved{'' if chapter is None else f' in {chapter}'}")
    for one, state in states.items():
        print(f"  {state:8} {one.label:20} {one.title}")


def _of(chapter: str | None) -> list[Check]:
    if chapter is None:
        return list(by_label().values())
    if chapter not in by_chapter():
        raise ValueError(
            f"there is no chapter {chapter!r}. To fix this, use one of {', '.join(by_chapter())}."
        )
    return by_chapter()[chapter]

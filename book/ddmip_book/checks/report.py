"""What students call: `check` an answer, ask for `progress`, list `open_exercises`."""

import difflib
from functools import cache
from importlib import import_module
from textwrap import fill
from typing import Any

from .core import Check, Verdict

PARTS = (
    "part1",
    "part2_split",
    "part2_network",
    "part3",
    "part4_water",
    "part4_ledger",
    "part5",
    "part5_lines",
    "part5_own",
    "part5_scaling",
)
_verdicts: dict[str, Verdict] = {}


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
    ex-enumerate: open. Assign the largest m, a whole number.
    ex-enumerate: open. Assign the largest m, a whole number.
    >>> bool(check("ex-enumerate", 25))
    ex-enumerate: not yet. At this m the table takes over an hour: round the other way.
    False
    """
    verdict = check_of(label).verdict(answer)
    _verdicts[label] = verdict
    print(fill(repr(verdict), 100))
    return verdict


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

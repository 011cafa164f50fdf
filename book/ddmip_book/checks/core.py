"""The machinery of the self-checks: what a check is, how answers are compared, what a
verdict says.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from numbers import Real
from typing import Any

import numpy as np
import torch

Judge = Callable[[Any, Any], bool]
"""Whether an answer is as good as the solution, or the same as a wrong answer."""


class FormError(ValueError):
    """The answer is not of the form that the exercise asks for; the message says in which way."""


@dataclass(frozen=True)
class Verdict:
    """What `check` found: `state` is `right`, `not yet` or `open`; a right one counts as true.

    >>> Verdict("ex-neurons", "right", "")
    ex-neurons: right.
    """

    label: str
    state: str
    message: str

    def __bool__(self) -> bool:
        return self.state == "right"

    def __repr__(self) -> str:
        return f"{self.label}: {self.state}. {self.message}".strip()

    def _ipython_display_(self) -> None:
        """Nothing: `check` has printed the verdict, and a cell that ends with it shall not show it
        twice.
        """


def as_plain(value: Any) -> Any:
    """Arrays and tensors as lists, their scalars as numbers."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def agrees(answer: Any, right: Any, rel: float = 1e-3) -> bool:
    """Whether two answers are the same: numbers to three digits, sequences entry by entry, sets in
    any order.

    >>> (
    ...     agrees((0.333, [True, "cycle"]), (1 / 3, [True, "Cycle"])),
    ...     agrees({4, 2}, {2.0, 4.0}),
    ...     agrees(1, 2),
    ... )
    (True, True, False)
    """
    answer = as_plain(answer)
    right = as_plain(right)
    if isinstance(right, bool):
        if not isinstance(answer, bool):
            raise FormError(f"True or False is wanted where you have {answer!r}")
        return answer == right
    if isinstance(right, Real):
        if not isinstance(answer, Real) or isinstance(answer, bool):
            raise FormError(f"a number is wanted where you have {answer!r}")
        close = abs(float(answer) - float(right)) <= max(rel * abs(float(right)), 1e-9)
        return float(answer) == float(right) or bool(close)
    if isinstance(right, str):
        if not isinstance(answer, str):
            raise FormError(f"a string is wanted where you have {answer!r}")
        return answer.strip().lower() == right.lower()
    if isinstance(right, Mapping):
        if not isinstance(answer, Mapping) or set(answer) != set(right):
            raise FormError(f"a dict with the keys {', '.join(map(repr, right))} is wanted")
        found = [
            agrees(answer[key], right[key], rel) for key in right
        ]  # all of them: each may be ill-formed
        return all(found)
    if not isinstance(answer, Iterable) or isinstance(answer, (str, Mapping)):
        raise FormError(f"a sequence of {len(right)} entries is wanted where you have {answer!r}")
    answer = sorted(answer) if isinstance(right, (set, frozenset)) else list(answer)
    right = sorted(right) if isinstance(right, (set, frozenset)) else list(right)
    if len(answer) != len(right):
        raise FormError(f"{len(right)} entries are wanted, not {len(answer)}")
    found = [agrees(mine, wanted, rel) for mine, wanted in zip(answer, right, strict=True)]
    return all(found)


def same_set(answer: Any, right: Any) -> bool:
    """As `agrees` for sets of numbers, but sets of other sizes are wrong rather than ill-formed."""
    answer = sorted(as_plain(np.asarray(list(answer), dtype=float)))
    return len(answer) == len(right) and agrees(answer, sorted(right))


def calls(
    *cases: tuple[Any, ...], rel: float = 1e-3, read: Callable[[Any], Any] = lambda value: value
) -> Judge:
    """A judge for answers that are functions: they must give the same on all `cases`, tuples of
    arguments.

    >>> same = calls((1,), (2,))
    >>> same(lambda x: x + x, lambda x: 2 * x), same(lambda x: x, lambda x: 2 * x)
    (True, False)
    """

    def judge(answer: Any, right: Any) -> bool:
        if not callable(answer):
            raise FormError(f"a function is wanted where you have {answer!r}")
        return all(agrees(read(answer(*case)), read(right(*case)), rel) for case in cases)

    return judge


def to_the_digit(answer: Any, right: Any) -> bool:
    """As `agrees`, for whole numbers: nothing is rounded."""
    return agrees(answer, right, rel=0.0)


@dataclass(frozen=True)
class Check:
    """One exercise: what to assign, a right answer, and wrong ones with the hint that each
    deserves.

    `traps` lists, for a given solution, entries (wrong answer, hint) or (wrong answer, hint, when);
    an answer falls into a trap if `when(answer)`, or without that if the judge takes it for the
    wrong answer. Where `judge` is None an answer is right unless it falls into a trap. An exercise
    that no computer can judge has `points` that a good answer covers, and nothing else.
    """

    label: str
    title: str
    asks: str
    solution: Callable[[], Any] = lambda: None
    traps: Callable[[Any], Sequence[tuple[Any, ...]]] = lambda solution: ()
    hint: str = ""
    judge: Judge | None = agrees
    points: tuple[str, ...] = ()

    def falls_into(self, answer: Any, trap: tuple[Any, ...]) -> bool:
        if len(trap) > 2:
            return bool(trap[2](answer))
        return self.judge is not None and bool(self.judge(answer, trap[0]))

    def verdict(self, answer: Any) -> Verdict:
        """Judge an answer; whatever goes wrong inside the answer itself is reported as a hint."""
        if self.points:
            return Verdict(
                self.label, "open", "Compare with a good answer: " + "; ".join(self.points) + "."
            )
        if unanswered(answer):
            return Verdict(self.label, "open", f"Assign {self.asks}.")
        try:
            solution = solution_of(self)
            if self.judge is not None and self.judge(answer, solution):
                return Verdict(self.label, "right", "")
            for trap in self.traps(solution):
                if self.falls_into(answer, trap):
                    return Verdict(self.label, "not yet", trap[1])
        except FormError as error:
            return Verdict(self.label, "not yet", f"{str(error).capitalize()}. Assign {self.asks}.")
        except Exception as error:  # raised by a function or an object that the student wrote
            told = f"Your answer raised {type(error).__name__}: {error}".rstrip(". ")
            return Verdict(self.label, "not yet", f"{told}. Assign {self.asks}.")
        return Verdict(
            self.label, *(("not yet", self.hint) if self.judge is not None else ("right", ""))
        )


@cache
def solution_of(check: Check) -> Any:
    """The solution, computed once."""
    return check.solution()


def unanswered(answer: Any) -> bool:
    """Whether there is nothing to judge yet: None, `...`, or a collection with such an entry.

    >>> unanswered(...), unanswered((1, ...)), unanswered([]), unanswered(0)
    (True, True, False, False)
    """
    if isinstance(answer, (tuple, list)):
        return any(entry is ... for entry in answer)
    return answer is None or answer is ...

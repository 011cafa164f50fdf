"""The progress line of a run: seconds, what is at work, the best value, the bound and the gap; on
screen and logged.
"""

import logging
from contextvars import ContextVar
from typing import Any, Protocol, Self

import numpy as np

from ..clock import now
from .instance import Instance
from .predictor import Predictor
from .report import Nearest
from .solution import shown

logger = logging.getLogger("ddmip_lib")
logger.addHandler(logging.NullHandler())
"""Records of level INFO tell of improvements and turns, those of level WARNING of starts that are
not feasible.
"""
CLOSER = 0.9  # a bound is logged again where the gap has fallen to so much of what it was

_current: ContextVar["ProgressLine | None"] = ContextVar("current", default=None)


class Problem(Protocol):
    """What a line needs of a `NeuralMIP`."""

    predictors: list[Predictor]


class Best(Protocol):
    """What a line needs of an `Incumbent`."""

    instance: Instance
    nearest: Nearest

    @property
    def objective(self) -> float | None: ...


class ProgressLine:
    """While it is open, what `report_incumbent` and `report_progress` report is shown on one line
    and logged as INFO by "ddmip_lib".

    A line that opens inside that of another run of the same problem has no line of its own: what is
    reported to it appears on the outer one, which shows the best of all.

    >>> from ddmip_lib.problems import hand_sized
    >>> line = ProgressLine(hand_sized(), "a method", began=now(), visible=False)
    >>> line.sign, line.best, line.bound = 1.0, 50.50834, 48.0
    >>> line.text().partition(" s  ")[2]
    'a method  best 50.5083  bound 48  gap 4.97 %'
    """

    def __init__(self, problem: Problem, method: str, began: float, visible: bool) -> None:
        self.predictors = problem.predictors
        self.method = method
        self.began = began
        self.visible = visible
        self.doing = method
        self.sign: float | None = None  # of the objective as a minimisation, once it is known
        self.best: float | None = None
        self.bound: float | None = None
        self.violation = np.inf  # of the nearest point, where none is feasible
        self.logged: tuple[float | None, float] = (
            None,
            np.inf,
        )  # the best value and the distance when last logged
        self.bar: Any = None

    def __enter__(self) -> Self:
        outer = _current.get()
        self.outer = outer if outer is not None and outer.predictors is self.predictors else None
        self.open = self.outer is None and (self.visible or logger.isEnabledFor(logging.INFO))
        if self.open and self.visible:
            from tqdm.auto import (
                tqdm,
            )  # which takes a while to import, so that it is left to those who want a line

            self.bar = tqdm(bar_format="{desc}", miniters=1)
        self.token = _current.set(self if self.open else self.outer)
        if self.outer is not None:
            self.outer.doing = self.method
        return self

    def __exit__(self, *_: Any) -> None:
        _current.reset(self.token)
        if self.outer is not None:
            self.outer.doing = self.outer.method
        elif self.open:
            self.doing = self.method
            self.report(turn=True)
            if self.bar is not None:
                self.bar.close()

    def see(self, incumbent: Best) -> None:
        """Take over the best value of a run, or, where it has no point, what the nearest one
        violates.
        """
        self.sign = incumbent.instance.milp.sign
        value = incumbent.objective
        if value is None:
            self.violation = min(self.violation, incumbent.nearest.distance)
        elif self.best is None or self.sign * value < self.sign * self.best:
            self.best = value

    def raise_to(self, bound: float) -> None:
        """Take over a bound in the sense of the user's model, if it is better than the one
        known.
        """
        known = self.bound is not None and self.sign is not None
        if np.isfinite(bound) and not (known and self.sign * bound <= self.sign * self.bound):  # type: ignore[operator]
            self.bound = float(bound)

    def report(self, turn: bool) -> None:
        """Show the line; log it after a turn, a better value, or a gap that fell by a tenth."""
        if self.bar is not None:
            self.bar.set_description_str(self.text(), refresh=turn)
            self.bar.update(1)
        best, distance = self.logged
        known = self.best if self.best is not None else 0.0
        away = np.inf if self.bound is None else abs(known - self.bound)
        if turn or self.best != best or away < CLOSER * distance:
            self.logged = (self.best, away)
            logger.info("%s", self.text())

    def text(self) -> str:
        """Seconds, method, best value or violation, bound and gap."""
        label = self.method if self.doing == self.method else f"{self.method}: {self.doing}"
        parts = [f"{now() - self.began:.1f} s", label]
        bound = self.bound
        if self.best is not None:
            parts.append(f"best {shown(self.best)}")
            if (
                bound is not None and self.sign is not None
            ):  # one that is claimed may be beyond the best value
                bound = self.sign * min(self.sign * bound, self.sign * self.best)
        elif np.isfinite(self.violation):
            parts.append(f"no feasible point yet, nearest: violation {self.violation:.1e}")
        else:
            parts.append("no point yet")
        parts.append(f"bound {shown(bound)}")
        if self.best is not None and bound is not None:
            parts.append(f"gap {100 * abs(self.best - bound) / max(1.0, abs(self.best)):.3g} %")
        return "  ".join(parts)


def watched() -> bool:
    """Whether anybody sees or logs the progress of this run."""
    return _current.get() is not None


def report_incumbent(incumbent: Best) -> None:
    """Report a better point, or one that is nearer to being feasible, of the run whose line is
    open.
    """
    line = _current.get()
    if line is not None and line.predictors is incumbent.instance.predictors:
        line.see(incumbent)
        line.report(turn=False)


def report_progress(
    doing: str | None = None, bound: float | None = None, turn: bool = False
) -> None:
    """Report what the run is `doing`, a bound in the sense of the user's model, or the end of a
    `turn`.

    A "proof" begins without a bound: those that solvers claimed before it are no part of it.
    """
    line = _current.get()
    if line is None:
        return
    if doing is not None:
        line.doing = doing
        line.bound = None if doing == "proof" else line.bound
    if bound is not None:
        line.raise_to(bound)
    line.report(turn)

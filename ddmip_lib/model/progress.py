"""The progress of a run, on one line: seconds, method, best objective, bound and gap.

It is shown on the screen if the user wants it, and logged by the logger "ddmip_lib": improvements
and ends of iterations at level INFO, infeasible starts at level WARNING.
"""

import logging
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from ..clock import now
from .instance import Instance
from .predictor import Predictor
from .text import shown

logger = logging.getLogger("ddmip_lib")
logger.addHandler(logging.NullHandler())
LOGGED_GAP_RATIO = 0.9
"""A bound is logged if the gap is less than this fraction of the one logged before."""

_current: ContextVar["ProgressLine | None"] = ContextVar("current", default=None)


class Problem(Protocol):
    """The part of a `NeuralMIP` that a progress line uses."""

    predictors: list[Predictor]


@dataclass(eq=False)
class ProgressLine:
    """Context manager that shows and logs what `report_incumbent` and `report_progress` report.

    Inside the line of another run of the same problem it shows nothing of its own: reports go to
    the outer line, which shows the best objective and bound of all.

    Parameters
    ----------
    problem
        The problem.
    method
        Name of the method.
    began
        Start of the run, in seconds of the clock in force.
    visible
        Whether the line is shown on the screen.

    Attributes
    ----------
    doing
        Name of the method or proof in progress, empty for the method itself.
    sign
        1 for a minimisation, -1 for a maximisation, None before the first report.
    best, bound
        Best objective and bound, None where there is none.
    violation
        Violation of the nearest point, as long as none is feasible.

    Examples
    --------
    >>> from ddmip_lib.problems import hand_sized
    >>> line = ProgressLine(hand_sized(), "a method", began=now(), visible=False)
    >>> line.sign, line.best, line.bound = 1.0, 50.50834, 48.0
    >>> line.text().partition(" s  ")[2]
    'a method  best 50.5083  bound 48  gap 4.97 %'
    """

    problem: Problem
    method: str
    began: float
    visible: bool
    doing: str = ""
    sign: float | None = None
    best: float | None = None
    bound: float | None = None
    violation: float = np.inf
    _logged_best: float | None = None
    _logged_gap: float = np.inf
    _bar: Any = None

    def __enter__(self) -> Self:
        outer = _current.get()
        self._outer = (
            outer
            if outer is not None and outer.problem.predictors is self.problem.predictors
            else None
        )
        self._active = self._outer is None and (self.visible or logger.isEnabledFor(logging.INFO))
        if self._active and self.visible:
            from tqdm.auto import tqdm  # takes a while to import

            self._bar = tqdm(bar_format="{desc}", miniters=1)
        self._token = _current.set(self if self._active else self._outer)
        if self._outer is not None:
            self._outer.doing = self.method
        return self

    def __exit__(self, *_: Any) -> None:
        _current.reset(self._token)
        if self._outer is not None:
            self._outer.doing = ""
        elif self._active:
            self.doing = ""
            self.report(turn=True)
            if self._bar is not None:
                self._bar.close()

    def raise_to(self, bound: float) -> None:
        """Take over a finite bound in the sense of the user's model, if it is better."""
        if not np.isfinite(bound):
            return
        if self.bound is None or self.sign is None or self.sign * bound > self.sign * self.bound:
            self.bound = float(bound)

    def report(self, turn: bool) -> None:
        """Show the line; log it if the objective or the gap is clearly better.

        Parameters
        ----------
        turn
            Whether an iteration has ended, after which the line is logged in any case.
        """
        if self._bar is not None:
            self._bar.set_description_str(self.text(), refresh=turn)
            self._bar.update(1)
        best = 0.0 if self.best is None else self.best
        gap = np.inf if self.bound is None else abs(best - self.bound)
        improved = self.best != self._logged_best or gap < LOGGED_GAP_RATIO * self._logged_gap
        if turn or improved:
            self._logged_best = self.best
            self._logged_gap = gap
            logger.info("%s", self.text())

    def text(self) -> str:
        """Return seconds, method, best objective or violation, bound and gap."""
        plain = self.doing in ("", self.method)
        label = self.method if plain else f"{self.method}: {self.doing}"
        head = f"{now() - self.began:.1f} s  {label}  {self._objective_text()}"
        if self.best is None or self.bound is None:
            return f"{head}  bound {shown(self.bound)}"
        sign = self.sign or 1.0
        bound = sign * min(sign * self.bound, sign * self.best)  # a claim may be beyond it
        gap = 100 * abs(self.best - bound) / max(1.0, abs(self.best))
        return f"{head}  bound {shown(bound)}  gap {gap:.3g} %"

    def _objective_text(self) -> str:
        if self.best is not None:
            return f"best {shown(self.best)}"
        if np.isfinite(self.violation):
            return f"no feasible point yet, nearest: violation {self.violation:.1e}"
        return "no point yet"


def watched() -> bool:
    """Return whether the progress of this run is shown or logged."""
    return _current.get() is not None


def report_incumbent(instance: Instance, objective: float | None, violation: float) -> None:
    """Report a better point of the run in progress, or one that is less infeasible.

    Parameters
    ----------
    instance
        The problem.
    objective
        Objective of the incumbent, None before the first feasible point.
    violation
        Violation of the nearest point.
    """
    line = _current.get()
    if line is None or line.problem.predictors is not instance.stated.predictors:
        return
    sign = instance.milp.sign
    line.sign = sign
    if objective is None:
        line.violation = min(line.violation, violation)
    elif line.best is None or sign * objective < sign * line.best:
        line.best = objective
    line.report(turn=False)


def report_progress(
    doing: str | None = None, bound: float | None = None, turn: bool = False
) -> None:
    """Report the progress of the run.

    Parameters
    ----------
    doing
        Name of the method in progress. A "proof" begins without a bound: claims of solvers are
        not part of it.
    bound
        Bound in the sense of the user's model.
    turn
        Whether an iteration has ended.
    """
    line = _current.get()
    if line is None:
        return
    line.doing = doing or line.doing
    if doing == "proof":
        line.bound = None
    if bound is not None:
        line.raise_to(bound)
    line.report(turn)

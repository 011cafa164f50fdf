"""What a run has to reach: a gap between objective and bound, or an objective."""

from dataclasses import dataclass

import numpy as np

from .verification import CLOSED, OPTIMAL_GAP

AIM_FRACTION = 0.9
"""Fraction of the gap that a search aims at, so that rounding does not leave it open."""


@dataclass(frozen=True)
class Goal:
    """The gap up to which a bound closes a problem, and an objective that ends the run.

    Parameters
    ----------
    gap
        Relative gap that counts as closed.
    absolute_gap
        Difference of objective and bound that counts as closed too.
    aim
        Relative gap at which a search for a bound ends; `gap` if left out.
    target
        Objective, in the sense of the model, that ends the run; None for none.

    Raises
    ------
    ValueError
        If a gap is negative, or a number is NaN.

    Examples
    --------
    >>> goal = Goal(gap=1e-2)
    >>> goal.allowed(cost=50.0, unit=50.0), goal.reached(48.0, sign=1.0)
    (0.5, False)
    """

    gap: float = CLOSED
    absolute_gap: float = 0.0
    aim: float | None = None
    target: float | None = None

    def __post_init__(self) -> None:
        for name in ("gap", "absolute_gap"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name}={getattr(self, name)!r} must be a number, 0 or more.")
        if self.target is not None and np.isnan(self.target):
            raise ValueError("target=nan must be an objective, or None.")

    @classmethod
    def of(
        cls, gap: float | None, absolute_gap: float = 0.0, target: float | None = None
    ) -> "Goal":
        """Return the goal of a call; without a gap, the search aims lower than what is accepted.

        Parameters
        ----------
        gap, absolute_gap, target
            Arguments of the call.
        """
        if gap is None:
            return cls(OPTIMAL_GAP, absolute_gap, CLOSED, target)
        return cls(gap, absolute_gap, target=target)

    @property
    def gap_argument(self) -> float | None:
        """The gap as the argument of a call (see `of`): None if the search aims lower."""
        return self.gap if self.aim is None else None

    def allowed(self, cost: float, unit: float) -> float:
        """Return the difference of objective and bound that counts as closed.

        Parameters
        ----------
        cost
            The objective.
        unit
            Unit of differences of objectives, by which rounding errors are measured.
        """
        return max(min(self.gap, CLOSED) * unit, self.gap * abs(cost), self.absolute_gap)

    def aimed(self, cost: float, unit: float) -> float:
        """Return the difference of objective and bound at which a search ends.

        Parameters
        ----------
        cost, unit
            As for `allowed`.
        """
        aim = self.gap if self.aim is None else self.aim
        return AIM_FRACTION * Goal(aim, self.absolute_gap).allowed(cost, unit)

    def reached(self, objective: float | None, sign: float) -> bool:
        """Return whether an objective is at least as good as the target.

        Parameters
        ----------
        objective
            A verified objective, None where there is none.
        sign
            1 for a minimisation, -1 for a maximisation.
        """
        if self.target is None or objective is None:
            return False
        return sign * objective <= sign * self.target

"""Algorithm 1 of the paper: the split, its two blocks, multipliers, penalties, stopping."""

from .penalty import DescentTest, Fixed, IncreaseOnStagnation, Penalty, PenaltyRule, Progress, ResidualBalancing, Sweeps

__all__ = [
    "DescentTest",
    "Fixed",
    "IncreaseOnStagnation",
    "Penalty",
    "PenaltyRule",
    "Progress",
    "ResidualBalancing",
    "Sweeps",
]

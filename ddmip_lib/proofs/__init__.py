"""Bounds of problems, computed here from multipliers that solvers propose."""

from ..programs.branch_and_bound import Proved, prove
from ..programs.program import Program

__all__ = ["Program", "Proved", "prove"]

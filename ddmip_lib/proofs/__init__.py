"""Bounds of problems, computed here from multipliers that solvers propose."""

from ..programs.branch_and_bound import Proved, prove
from ..programs.program import Program
from .checking import CLOSED

__all__ = ["CLOSED", "Program", "Proved", "prove"]

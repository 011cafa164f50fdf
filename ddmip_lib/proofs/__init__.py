"""Bounds of problems whose every number is computed here: solvers only propose."""

from ..programs.branch_and_bound import Proved, prove
from ..programs.program import Program

__all__ = ["Program", "Proved", "prove"]

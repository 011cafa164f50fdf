"""Bounds of problems whose every number is computed here: solvers only propose."""

from .branching import Proved, prove
from .program import Program

__all__ = ["Program", "Proved", "prove"]

"""What all methods share: `Method`, the base class, and `Run`, one call of a method."""

from .method import Method, ReportsPoints, Solver
from .run import Callback, ProgressEvent, Run

__all__ = ["Callback", "Method", "ProgressEvent", "ReportsPoints", "Run", "Solver"]

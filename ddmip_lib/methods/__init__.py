"""Base class of all methods (`Method`), and one call of a method (`Run`)."""

from .method import Method, ReportsPoints, Solver
from .run import Callback, ProgressEvent, Run, start_run

__all__ = ["Callback", "Method", "ProgressEvent", "ReportsPoints", "Run", "Solver", "start_run"]

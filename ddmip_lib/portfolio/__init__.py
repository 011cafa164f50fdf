"""One call for any problem: `solve` plans methods, runs them, and proves a bound."""

from ..model.log import Log, LogEntry
from .choosing import PlannedMethod, methods_for
from .solving import solve

__all__ = ["Log", "LogEntry", "PlannedMethod", "methods_for", "solve"]

"""One call for any problem: `solve` looks at it, chooses, and lets the methods share their best
point.
"""

from ..model.log import Log, LogEntry
from .choosing import PlannedMethod, methods_for
from .solving import solve

__all__ = ["Log", "LogEntry", "PlannedMethod", "methods_for", "solve"]

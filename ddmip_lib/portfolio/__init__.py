"""One call for any problem: `solve` looks at it, chooses, and lets the methods share their best point."""

from .choosing import Step, methods_for
from .solving import Log, Turn, solve

__all__ = ["Log", "Step", "Turn", "methods_for", "solve"]

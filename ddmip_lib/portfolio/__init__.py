"""One call for any problem: `solve` looks at it, chooses, and lets the methods share their best point."""

from .choosing import Step, plan
from .solving import Log, Turn, solve

__all__ = ["Log", "Step", "Turn", "plan", "solve"]

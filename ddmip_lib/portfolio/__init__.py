"""One call for any problem: `solve` looks at it, chooses, and lets the methods share their best
point.
"""

from ..model.log import Log, Turn
from .choosing import Step, methods_for
from .solving import solve

__all__ = ["Log", "Step", "Turn", "methods_for", "solve"]

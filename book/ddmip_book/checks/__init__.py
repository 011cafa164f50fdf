"""Self-checks: tell whether an answer to an exercise of the book is right, and give a hint where it
is not.
"""

from .report import check, open_exercises, own_numbers, progress, student

__all__ = ["check", "open_exercises", "own_numbers", "progress", "student"]

"""Checks of the paper's claims: its printed figures against each other, its experiments against
stored records.
"""

from . import e1, e2, e3, e4, e5, printed  # noqa: F401  (importing a module registers its checks)
from .finding import CHECKS, VERDICTS, Check, Finding

__all__ = ["CHECKS", "VERDICTS", "Check", "Finding"]

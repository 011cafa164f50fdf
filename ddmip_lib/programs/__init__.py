"""Mixed-integer linear programs as arrays: presolve, branch and bound, and the solvers behind it.

Every bound is computed here; HiGHS and SCIP propose multipliers and points. Nothing in this package
has access to networks.
"""

from .branch_and_bound import Proved, prove
from .program import Program, Rows
from .scip import read_model

__all__ = ["Program", "Proved", "Rows", "prove", "read_model"]

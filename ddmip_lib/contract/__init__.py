"""Guarantees that every solver gives, as checks that users can run on a solver of their own."""

from .checking import Clause, Contract, check_solver
from .problems import Example, examples

__all__ = ["Clause", "Contract", "Example", "check_solver", "examples"]

"""One call for any problem: `solve` plans methods, runs them, and proves a bound."""

from typing import TYPE_CHECKING

from ..model.log import Log, LogEntry
from ..renamed import renamed_names
from .choosing import PlannedMethod, methods_for
from .conflicts import Conflict, ConflictMember, conflicts
from .describing import DescribedNetwork, ProblemDescription, describe
from .plans import Plans, solve_plans
from .proving import PlannedProof
from .solving import solve

__all__ = [
    "Conflict",
    "ConflictMember",
    "DescribedNetwork",
    "Log",
    "LogEntry",
    "PlannedMethod",
    "PlannedProof",
    "Plans",
    "ProblemDescription",
    "conflicts",
    "describe",
    "methods_for",
    "solve",
    "solve_plans",
]

if not TYPE_CHECKING:  # which would accept any name
    __getattr__ = renamed_names(
        __name__, Step="ddmip_lib.portfolio.PlannedMethod", Turn="ddmip_lib.portfolio.LogEntry"
    )

"""One call for any problem: `solve` plans methods, runs them, and proves a bound."""

from typing import TYPE_CHECKING

from ..model.log import Log, LogEntry
from ..renamed import renamed_names
from .choosing import PlannedMethod, methods_for
from .solving import solve

__all__ = ["Log", "LogEntry", "PlannedMethod", "methods_for", "solve"]

if not TYPE_CHECKING:  # which would accept any name
    __getattr__ = renamed_names(
        __name__, Step="ddmip_lib.portfolio.PlannedMethod", Turn="ddmip_lib.portfolio.LogEntry"
    )

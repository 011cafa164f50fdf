"""Workers: independent tasks in this process, in others, or on a Dask cluster."""

from .cluster import Executor, check_client
from .processes import work_in_processes

__all__ = ["Executor", "check_client", "work_in_processes"]

"""Independent tasks: one after another in this process, or in parallel on a Dask cluster."""

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from importlib import import_module
from typing import Any, NamedTuple

from ..errors import of_extra

TASK_OPTIONS = {"pure": False, "retries": 5}
"""Equal calls are not merged, and a task that fails is retried up to five times."""
TASK_GRAPH_SIZE_WITHOUT_WARNING = "1 TB"
"""Size of data up to which Dask does not warn: the data of the tasks are large on purpose."""


class SharedData(NamedTuple):
    """Data of one subproblem, which each of its tasks uses.

    Attributes
    ----------
    local
        The data.
    remote
        A `distributed.Future` of their copy on a worker; without a cluster the data themselves.
    """

    local: Any
    remote: Any


class Executor:
    """Executes independent tasks in this process or on a Dask cluster.

    If the connection to the cluster fails, `scatter` and `map` continue in this process.

    Data are sent once. On the cluster they are results of tasks, so that Dask can recreate them
    if their worker fails. As many are sent at a time as the workers have threads, so that Dask
    distributes them evenly; it prefers to run a task where its data are.

    Parameters
    ----------
    client
        A `distributed.Client`, None for this process alone.

    Examples
    --------
    >>> executor = Executor()
    >>> executor.map(pow, executor.scatter([2, 3]), [3, 2])
    [8, 9]
    """

    def __init__(self, client: Any = None) -> None:
        self.client = client

    def scatter(self, data: Sequence[Any]) -> list[SharedData]:
        """Send data to the workers.

        Parameters
        ----------
        data
            One entry for each subproblem.

        Returns
        -------
        list of SharedData
            In the same order.
        """
        if self.client is not None and len(data):
            try:
                return [SharedData(*pair) for pair in zip(data, self.send(data), strict=True)]
            except cluster_errors() as error:
                self.continue_locally(error)
        return [SharedData(entry, entry) for entry in data]

    def send(self, data: Sequence[Any]) -> list[Any]:
        """Send data to the cluster, which must be connected, and return their futures."""
        group_size = thread_count(self.client)
        limit = {"distributed.admin.large-graph-warning-threshold": TASK_GRAPH_SIZE_WITHOUT_WARNING}
        futures: list[Any] = []
        with import_module("dask").config.set(limit):
            for first in range(0, len(data), group_size):
                group = data[first : first + group_size]
                futures += self.client.map(_identity, group, **TASK_OPTIONS)
        return futures

    def submit(self, work: Callable[..., Any], *arguments: Any, priority: int = 0) -> Any:
        """Start ``work(*arguments)`` on the cluster, which must be connected.

        Parameters
        ----------
        work
            A function.
        arguments
            Its arguments; the function gets the result of a future instead of the future.
        priority
            A worker executes tasks of higher priority first.

        Returns
        -------
        distributed.Future
            The task.
        """
        return self.client.submit(work, *arguments, priority=priority, **TASK_OPTIONS)

    def map(
        self,
        work: Callable[[Any, Any], Any],
        data: Sequence[SharedData],
        arguments: Sequence[Any],
    ) -> list[Any]:
        """Execute ``work(data, argument)`` for each pair of the two lists.

        Parameters
        ----------
        work
            A function of two arguments.
        data
            Its first arguments, from `scatter`.
        arguments
            Its second arguments, in the same order.

        Returns
        -------
        list
            The results, in the same order.
        """
        tasks = list(zip(data, arguments, strict=True))
        if self.client is not None and len(tasks) > 1:  # a cluster does not speed up one task
            try:
                futures = [self.submit(work, shared.remote, argument) for shared, argument in tasks]
                return list(self.client.gather(futures))
            except cluster_errors() as error:
                self.continue_locally(error)
        return [work(shared.local, argument) for shared, argument in tasks]

    def continue_locally(self, error: BaseException) -> None:
        """Warn that the connection to the cluster failed, and do without it from now on."""
        self.client = None
        reason = f"{type(error).__name__}: {error}"
        warnings.warn(
            f"the connection to the cluster failed ({reason}): the work continues in this process,"
            " and all results so far are kept.",
            stacklevel=3,
        )


def thread_count(client: Any) -> int:
    """Return the number of threads of all workers, at least 1.

    Raises
    ------
    ConnectionError
        If the client is closed.
    """
    if getattr(client, "status", "") == "closed":
        raise ConnectionError("the Dask client is closed")
    return max(1, sum(client.nthreads().values()))


def cluster_errors() -> tuple[type[BaseException], ...]:
    """Return the exceptions after which a cluster counts as lost.

    `OSError` contains `ConnectionError`, which `thread_count` raises.
    """
    distributed = import_module("distributed")
    return CancelledError, OSError, distributed.KilledWorker, distributed.client.ClosedClientError


def check_client(client: Any) -> None:
    """Check that a client is None or a `distributed.Client`.

    Parameters
    ----------
    client
        The client.

    Raises
    ------
    TypeError
        If it is not.
    ImportError
        If distributed is not installed.
    """
    if client is None:
        return
    if not isinstance(client, of_extra("distributed", "cluster", "client=").Client):
        raise TypeError(
            "client must be a distributed.Client, such as Client(address), not"
            f" {type(client).__name__}."
        )


def _identity(data: Any) -> Any:
    return data

"""Independent tasks, executed in this process, one after another, or by a Dask cluster."""

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from importlib import import_module
from typing import Any, NamedTuple

from ..errors import of_extra

OPTIONS = {"pure": False, "retries": 5}
"""Every task is executed anew, and repeated up to five times if its worker dies."""
TASK_GRAPH_SIZE_WITHOUT_WARNING = "1 TB"
"""Size of data up to which Dask does not warn: the data of the tasks are large on purpose."""


class RemotePiece(NamedTuple):
    """Data that several tasks use.

    Attributes
    ----------
    piece
        The data.
    there
        Its copy on a worker (a `distributed.Future`), or the data itself without a cluster.
    """

    piece: Any
    there: Any


class Executor:
    """Executes independent tasks in this process or on a Dask cluster.

    If the cluster is lost, all further tasks run in this process.

    Data are sent once, as tasks, so that Dask can compute them again if their worker dies. They
    are sent in groups of as many as there are worker threads, which Dask distributes evenly. A task
    runs on the worker that has its data.

    Parameters
    ----------
    client
        A `distributed.Client`, None for this process alone.

    Examples
    --------
    >>> executor = Executor()
    >>> executor.each(pow, executor.keep([2, 3]), [3, 2])
    [8, 9]
    """

    def __init__(self, client: Any = None) -> None:
        self.client = client

    def keep(self, pieces: Sequence[Any]) -> list[RemotePiece]:
        """Send data to the workers, for tasks that use them.

        Parameters
        ----------
        pieces
            One entry for each worker task.

        Returns
        -------
        list of RemotePiece
            In the same order.
        """
        if self.client is not None and len(pieces):
            try:
                return list(map(RemotePiece, pieces, self._sent(pieces)))
            except lost_by() as error:
                self.lose(error)
        return [RemotePiece(piece, piece) for piece in pieces]

    def _sent(self, pieces: Sequence[Any]) -> list[Any]:
        """Futures of the data on the workers."""
        at_once = hands(self.client)
        limit = {"distributed.admin.large-graph-warning-threshold": TASK_GRAPH_SIZE_WITHOUT_WARNING}
        futures: list[Any] = []
        with import_module("dask").config.set(limit):
            for first in range(0, len(pieces), at_once):
                group = pieces[first : first + at_once]
                futures += self.client.map(_identity, group, **OPTIONS)
        return futures

    def submit(self, work: Callable[..., Any], *arguments: Any, priority: int = 0) -> Any:
        """Start ``work(*arguments)`` on the cluster.

        Parameters
        ----------
        work
            A function.
        arguments
            Its arguments; futures stand for their results.
        priority
            A worker executes tasks of higher priority first.

        Returns
        -------
        distributed.Future
            The task.
        """
        return self.client.submit(work, *arguments, priority=priority, **OPTIONS)

    def each(
        self, work: Callable[[Any, Any], Any], pieces: Sequence[RemotePiece], asks: Sequence[Any]
    ) -> list[Any]:
        """Execute ``work(piece, ask)`` for all data and their arguments.

        Parameters
        ----------
        work
            Function of the data and one more argument.
        pieces
            Data from `keep`.
        asks
            One argument for each of them.

        Returns
        -------
        list
            The results, in the same order.
        """
        tasks = list(zip(pieces, asks, strict=True))
        if self.client is not None and len(tasks) > 1:  # one task takes less time than its transfer
            try:
                futures = [self.submit(work, data.there, ask) for data, ask in tasks]
                return list(self.client.gather(futures))
            except lost_by() as error:
                self.lose(error)
        return [work(data.piece, ask) for data, ask in tasks]

    def lose(self, error: BaseException) -> None:
        """Continue without the cluster, with a warning."""
        self.client = None
        reason = f"{type(error).__name__}: {error}"
        warnings.warn(
            f"the cluster is lost ({reason}): the work goes on in this process, and nothing found"
            " is lost.",
            stacklevel=3,
        )


def hands(client: Any) -> int:
    """Return the number of tasks that a cluster executes at once, at least 1.

    Raises
    ------
    ConnectionError
        If the client is closed.
    """
    if getattr(client, "status", "") == "closed":
        raise ConnectionError("its client is closed")
    return max(1, sum(client.nthreads().values()))


def lost_by() -> tuple[type[BaseException], ...]:
    """Return the exceptions that are raised if a cluster, or every worker of a task, is lost."""
    distributed = import_module("distributed")
    return CancelledError, OSError, distributed.KilledWorker, distributed.client.ClosedClientError


def check_client(client: Any) -> None:
    """Check that a client is None or a `distributed.Client`.

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


def _identity(piece: Any) -> Any:
    return piece

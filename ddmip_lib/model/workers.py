"""Work in pieces that depend on nothing else: done here, one after the other, or by the workers of
a Dask cluster.
"""

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from importlib import import_module
from typing import Any, NamedTuple

from ..errors import of_extra

RETRIES = 5  # of a piece whose worker died
LARGE = "1 TB"  # pieces are large, and are meant to be sent: Dask need not warn


class RemotePiece(NamedTuple):
    """A piece that all rounds ask about: `there` is a worker's copy of it, or the piece itself
    where nobody else is.
    """

    piece: Any
    there: Any


class Executor:
    """Those who do the work: without a client this process alone, and always this process if the
    cluster is lost.

    `client` is a `distributed.Client`; whom it talks to, and by which certificates, is its owner's
    choice. A piece is sent once, as a task of its own, so that Dask can make it again where the
    worker that holds it dies. Work is done where its piece is; so pieces are sent by as many as
    there are workers, which Dask then shares out among them.

    >>> crew = Executor()
    >>> crew.each(pow, crew.keep([2, 3]), [3, 2])
    [8, 9]
    """

    def __init__(self, client: Any = None) -> None:
        self.client = client

    def keep(self, pieces: Sequence[Any]) -> list[RemotePiece]:
        """Pieces that stay with whom they were sent to."""
        if self.client is not None and len(pieces):
            try:
                many = hands(self.client)
                there = list[Any]()
                with import_module("dask").config.set(
                    {"distributed.admin.large-graph-warning-threshold": LARGE}
                ):
                    for first in range(0, len(pieces), many):
                        there += self.client.map(
                            _same, pieces[first : first + many], pure=False, retries=RETRIES
                        )
                return list(map(RemotePiece, pieces, there))
            except lost_by() as error:
                self.lose(error)
        return [RemotePiece(piece, piece) for piece in pieces]

    def each(
        self, work: Callable[[Any, Any], Any], pieces: Sequence[RemotePiece], asks: Sequence[Any]
    ) -> list[Any]:
        """``work(piece, ask)`` for all of them, in their order; what the work itself raises is
        raised here.
        """
        pairs = list(zip(pieces, asks, strict=True))
        if self.client is not None and len(pairs) > 1:  # one piece is done sooner than sent
            try:
                given = [
                    self.client.submit(work, kept.there, ask, pure=False, retries=RETRIES)
                    for kept, ask in pairs
                ]
                return list(self.client.gather(given))
            except lost_by() as error:
                self.lose(error)
        return [work(kept.piece, ask) for kept, ask in pairs]

    def lose(self, error: BaseException) -> None:
        """Go on without the cluster, and say so."""
        self.client = None
        said = f"the cluster is lost ({type(error).__name__}: {error})"
        warnings.warn(
            f"{said}: the work goes on in this process, and nothing found is lost.", stacklevel=3
        )


def hands(client: Any) -> int:
    """How many things the workers of a cluster can do at a time; 1 where they have not come yet."""
    if getattr(client, "status", "") == "closed":
        raise ConnectionError("its client is closed")
    return max(1, sum(client.nthreads().values()))


def lost_by() -> tuple[type[BaseException], ...]:
    """What is raised where a cluster, or every worker that took a piece, has gone."""
    distributed = import_module("distributed")
    return CancelledError, OSError, distributed.KilledWorker, distributed.client.ClosedClientError


def check_client(client: Any) -> None:
    """Refuse what is no client of Dask's, and say how to get one."""
    if client is None:
        return
    if not isinstance(client, of_extra("distributed", "cluster", "client=").Client):
        raise TypeError(
            "client must be a distributed.Client, such as Client(address), not"
            f" {type(client).__name__}."
        )


def _same(piece: Any) -> Any:
    return piece

"""The options of one call of `solve` besides its limit, its seed and its callbacks."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch

from ..workers import check_client


@dataclass(frozen=True)
class SolveOptions:
    """Which parts of a call of `solve` run, and on which workers and threads.

    Attributes
    ----------
    client
        A `distributed.Client` for price coordination and certificates, or None.
    threads
        Threads of PyTorch, and processes of a proof, at most; None leaves both as they are.
    points_only, proof_only
        Whether the run proves no bound, or searches no points.

    Raises
    ------
    TypeError
        If `client` has the wrong type.
    ValueError
        If `threads` is not positive, or both parts are left out.
    """

    client: Any = None
    threads: int | None = None
    points_only: bool = False
    proof_only: bool = False

    def __post_init__(self) -> None:
        check_client(self.client)
        if self.points_only and self.proof_only:
            raise ValueError(
                "points_only and proof_only leave nothing to do: set one of them to False."
            )
        threads = self.threads
        if threads is not None and not (isinstance(threads, Integral) and int(threads) >= 1):
            raise ValueError(f"threads={threads!r} must be a positive integer, or None.")


@contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Let PyTorch use this number of threads inside the `with`, and as many as before after it.

    Parameters
    ----------
    threads
        Number of threads; None leaves it as it is.

    Examples
    --------
    >>> before = torch.get_num_threads()
    >>> with torch_threads(1):
    ...     torch.get_num_threads()
    1
    >>> torch.get_num_threads() == before
    True
    """
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(int(threads))
    try:
        yield
    finally:
        if threads is not None:
            torch.set_num_threads(before)

"""The clock of the library: every time limit and every reported second is read from `now`, and from nowhere else."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Clock = Callable[[], float]

_clock: ContextVar[Clock] = ContextVar("clock", default=time.perf_counter)


def now() -> float:
    """Seconds since an arbitrary moment, by the clock in force: `time.perf_counter` outside `using`."""
    return _clock.get()()


@contextmanager
def using(clock: Clock) -> Iterator[None]:
    """Let calls of the library inside the `with` read another clock, so that a test decides when time is over.

    SCIP and HiGHS measure the seconds that are left to them by the processor's own clock.

    >>> with using(lambda: 5.0):
    ...     now()
    5.0
    """
    token = _clock.set(clock)
    try:
        yield
    finally:
        _clock.reset(token)

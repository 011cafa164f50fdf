"""The clock of the library, and the time limits of the calls in progress.

All times are read from `now`. A method runs inside `limited(deadline)`; where it calls another
method, both limits are in force. Long computations call `check_time` regularly, which raises
`TimeOver` once any deadline in force has passed. So limits need not be passed from function to
function. The method catches `TimeOver` and returns its best point.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType
from typing import TypeVar

Clock = Callable[[], float]
T = TypeVar("T")

SECONDS_AFTER_DEADLINE = 0.05
"""Seconds after a deadline in which a solver with a time limit of its own may still return."""


class TimeOver(Exception):
    """The time limit of a call in progress has passed."""


class Stopped(KeyboardInterrupt):
    """A callback has ended the run, which returns its best point as after Ctrl-C."""


@dataclass
class Limit:
    """The time limit of one call in progress, and whether the call was stopped before.

    Attributes
    ----------
    deadline
        End of the call, in seconds of `now`.
    stopped
        Whether the user's callback or Ctrl-C has requested its end.
    interrupted
        Whether Ctrl-C has.
    """

    deadline: float
    stopped: bool = False
    interrupted: bool = False


_clock: ContextVar[Clock] = ContextVar("clock", default=time.perf_counter)
_limits: ContextVar[tuple[Limit, ...]] = ContextVar("limits", default=())


@contextmanager
def _set(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set a context variable inside the `with`."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def now() -> float:
    """Return seconds of the current clock: `time.perf_counter`, or the one set by `using`."""
    return _clock.get()()


@contextmanager
def using(clock: Clock) -> Iterator[None]:
    """Use another clock inside the `with`, so that a test controls when time is over.

    SCIP and HiGHS continue to measure their own time limits by the system's clock.

    Parameters
    ----------
    clock
        Function that returns seconds.

    Examples
    --------
    >>> with using(lambda: 5.0):
    ...     now()
    5.0
    """
    with _set(_clock, clock):
        yield


@contextmanager
def limited(deadline: float) -> Iterator[Limit]:
    """Limit the time of a call: after the deadline `check_time` raises `TimeOver`.

    Parameters
    ----------
    deadline
        End of the call, in seconds of `now`.

    Yields
    ------
    Limit
        The limit of this call. Once its `stopped` is true, `check_time` raises `Stopped`.

    Examples
    --------
    >>> with limited(now() - 1.0):
    ...     check_time()
    Traceback (most recent call last):
        ...
    ddmip_lib.clock.TimeOver: the time limit has passed
    """
    limit = Limit(deadline)
    with _set(_limits, (*_limits.get(), limit)):
        yield limit


@contextmanager
def unlimited() -> Iterator[None]:
    """Suspend all limits, so that a result can be computed after the deadline."""
    with _set(_limits, ()):
        yield


def interrupt() -> None:
    """Mark all calls in progress as stopped by Ctrl-C.

    Code that catches `KeyboardInterrupt` to return a partial result calls it, so that the methods
    around it stop as well.
    """
    for limit in _limits.get():
        limit.stopped = limit.interrupted = True


@contextmanager
def marking_interrupts() -> Iterator[None]:
    """Let Ctrl-C inside the `with` mark all calls in progress as stopped.

    `KeyboardInterrupt` is raised as usual. Python ignores it inside a destructor or the callback of
    a weak reference; because of the mark, the next `check_time` raises `Stopped` in its place. A
    handler other than Python's own is not replaced.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        interrupt()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def check_time() -> None:
    """Raise an exception if any call in progress must end.

    Raises
    ------
    Stopped
        If a callback or Ctrl-C has requested it.
    TimeOver
        If a deadline has passed.
    """
    if any(limit.stopped for limit in _limits.get()):
        raise Stopped("a callback has ended the run")
    if seconds_to_deadline() <= 0.0:
        raise TimeOver("the time limit has passed")


def seconds_to_deadline() -> float:
    """Return the seconds until the earliest deadline in force, infinite without one."""
    deadlines = [limit.deadline for limit in _limits.get()]
    return min(deadlines) - now() if deadlines else float("inf")


def awaited(call: Callable[[], T], cancel: Callable[[], object]) -> T:
    """Run compiled code, which cannot call `check_time`, and return its result.

    It runs in a thread, so that Ctrl-C and the deadline end the wait even if the code itself
    exceeds its time limit.

    Parameters
    ----------
    call
        Function that runs the compiled code.
    cancel
        Function that asks the compiled code to stop; it is called when the wait ends early, and
        the result is discarded.

    Returns
    -------
    object
        The result of `call`.

    Raises
    ------
    TimeOver
        If there is no result shortly after the deadline.
    """
    result: Future[T] = Future()

    def work() -> None:
        try:
            result.set_result(call())
        except BaseException as error:
            result.set_exception(error)

    worker = threading.Thread(target=work)  # Python waits for it at its end, else it would abort
    seconds = max(0.0, seconds_to_deadline()) + SECONDS_AFTER_DEADLINE
    try:
        worker.start()
        wait([result], min(seconds, threading.TIMEOUT_MAX))
    except BaseException:
        cancel()
        raise
    if not result.done():
        cancel()
        raise TimeOver("the time limit has passed inside a solver")
    return result.result()

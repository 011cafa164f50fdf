"""The clock of the library, and the time limits of the calls in progress.

All times are read from `now`. A method runs inside `limited(deadline)`. Long computations call
`check_time` regularly, which raises `TimeOver` once the deadline of any call in progress has
passed, so that no computation has to be given the limits of the calls around it. The method catches
`TimeOver` and returns its best point.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
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
    """The limit of one call in progress.

    Attributes
    ----------
    deadline
        Its end, in seconds of the clock in force.
    stopped
        Whether its callback or Ctrl-C has ended it.
    interrupted
        Whether Ctrl-C has ended it.
    """

    deadline: float
    stopped: bool = False
    interrupted: bool = False


_clock: ContextVar[Clock] = ContextVar("clock", default=time.perf_counter)
_limits: ContextVar[tuple[Limit, ...]] = ContextVar("limits", default=())


def now() -> float:
    """Return seconds by the clock in force: `time.perf_counter`, or that of `using`."""
    return _clock.get()()


@contextmanager
def using(clock: Clock) -> Iterator[None]:
    """Use another clock inside the `with`, so that a test controls when the time is over.

    SCIP and HiGHS measure their own time limits by the clock of the system.

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
    token = _clock.set(clock)
    try:
        yield
    finally:
        _clock.reset(token)


@contextmanager
def limited(deadline: float) -> Iterator[Limit]:
    """Limit the time of a call: `check_time` raises `TimeOver` from the deadline on.

    Parameters
    ----------
    deadline
        In seconds of the clock in force.

    Yields
    ------
    Limit
        Once it is marked as stopped, `check_time` raises `Stopped`.

    Examples
    --------
    >>> with limited(now() - 1.0):
    ...     check_time()
    Traceback (most recent call last):
        ...
    ddmip_lib.clock.TimeOver: the time limit has passed
    """
    limit = Limit(deadline)
    token = _limits.set((*_limits.get(), limit))
    try:
        yield limit
    finally:
        _limits.reset(token)


@contextmanager
def unlimited() -> Iterator[None]:
    """Suspend all limits, for the computation of a result from what was found."""
    token = _limits.set(())
    try:
        yield
    finally:
        _limits.reset(token)


def interrupt() -> None:
    """Mark all calls in progress as ended by Ctrl-C, after code that kept a partial result."""
    for limit in _limits.get():
        limit.stopped = limit.interrupted = True


@contextmanager
def marking_interrupts() -> Iterator[None]:
    """Mark all calls in progress as ended at Ctrl-C, and raise `KeyboardInterrupt`.

    Python drops an exception that is raised inside a destructor or a weak reference's callback;
    `check_time` then raises one instead. Signal handlers other than Python's own are not replaced.
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
    """Raise an exception if a call in progress must end.

    Raises
    ------
    Stopped
        If a callback or Ctrl-C has ended one.
    TimeOver
        If the deadline of one has passed.
    """
    limits = _limits.get()
    if not limits:
        return
    if any(limit.stopped for limit in limits):
        raise Stopped("a callback has ended the run")
    if now() >= min(limit.deadline for limit in limits):
        raise TimeOver("the time limit has passed")


def seconds_to_deadline() -> float:
    """Return seconds until the first deadline of the calls in progress, infinite without one."""
    deadlines = [limit.deadline for limit in _limits.get()]
    return min(deadlines) - now() if deadlines else float("inf")


def awaited(call: Callable[[], T], cancel: Callable[[], object]) -> T:
    """Return the result of compiled code that may exceed its time limit.

    It runs in a thread of its own, so that Ctrl-C and the deadline of `limited` end the wait.

    Parameters
    ----------
    call
        Function that runs the compiled code.
    cancel
        Function that requests its end; its result is not used then.

    Returns
    -------
    object
        The result of `call`.

    Raises
    ------
    TimeOver
        If there is no result shortly after the deadline.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    worker = threading.Thread(target=work, daemon=True)
    seconds = max(0.0, seconds_to_deadline()) + SECONDS_AFTER_DEADLINE
    try:
        worker.start()
        worker.join(min(seconds, threading.TIMEOUT_MAX))
    except BaseException:
        cancel()
        raise
    if errors:
        raise errors[0]
    if not results:
        cancel()
        raise TimeOver("the time limit has passed inside a solver")
    return results[0]

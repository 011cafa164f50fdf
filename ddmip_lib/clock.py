"""The clock of the library, and the time limits of the calls in progress.

Every second is read from `now`. A method works inside `limited(deadline)`; long computations call
`check_time` between two pieces of work, which raises `TimeOver` once the deadline of any call in
progress has passed, so that no loop has to know how it is nested. The method catches it and returns
the best that it has.
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

# seconds after a deadline for which the result of a solver with a limit of its own is awaited
GRACE = 0.05


class TimeOver(Exception):
    """The time limit of a call in progress has passed."""


class Stopped(KeyboardInterrupt):
    """A callback has ended the run: it returns what it has, as after Ctrl-C."""


@dataclass
class Limit:
    """The deadline of one call in progress, and whether its callback or Ctrl-C has ended it."""

    deadline: float
    stopped: bool = False
    interrupted: bool = False  # by Ctrl-C


_clock: ContextVar[Clock] = ContextVar("clock", default=time.perf_counter)
_limits: ContextVar[tuple[Limit, ...]] = ContextVar("limits", default=())


def now() -> float:
    """Seconds since an arbitrary moment, by the clock in force: `time.perf_counter` outside
    `using`.
    """
    return _clock.get()()


@contextmanager
def using(clock: Clock) -> Iterator[None]:
    """Let calls of the library inside the `with` read another clock, so that a test decides when
    time is over.

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


@contextmanager
def limited(deadline: float) -> Iterator[Limit]:
    """Let `check_time` raise `TimeOver` from this moment of the clock on, or `Stopped` once the
    limit is marked so.

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
    """Let no limit interrupt what makes a result of what was found."""
    token = _limits.set(())
    try:
        yield
    finally:
        _limits.reset(token)


def interrupt() -> None:
    """Mark all calls in progress as ended by Ctrl-C: for code that catches it to keep a partial
    result.
    """
    for limit in _limits.get():
        limit.stopped = limit.interrupted = True


@contextmanager
def heard_interrupts() -> Iterator[None]:
    """Let Ctrl-C mark all calls in progress as ended, besides raising `KeyboardInterrupt`.

    Python drops an exception that is raised inside a destructor or a weak reference's callback;
    `check_time` then raises instead. Handlers other than Python's own are left alone.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
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
    """Raise `TimeOver` or `Stopped` where a call in progress must end."""
    limits = _limits.get()
    if not limits:
        return
    if any(limit.stopped for limit in limits):
        raise Stopped("a callback has ended the run")
    if now() >= min(limit.deadline for limit in limits):
        raise TimeOver("the time limit has passed")


def seconds_to_deadline() -> float:
    """Seconds until the first deadline of the calls in progress; infinite where there is none."""
    deadlines = [limit.deadline for limit in _limits.get()]
    return min(deadlines) - now() if deadlines else float("inf")


def awaited(call: Callable[[], T], cancel: Callable[[], object]) -> T:
    """The result of a `call` of compiled code that may miss its time limit, made in a thread of its
    own.

    Ctrl-C is heard while it runs, and a deadline of `limited` ends the wait: `cancel` then tells
    the compiled code to end, and nobody uses its result.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    worker = threading.Thread(target=work, daemon=True)
    seconds = max(0.0, seconds_to_deadline()) + GRACE
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

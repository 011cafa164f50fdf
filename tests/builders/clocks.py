"""Time in tests: limits that nobody reaches, and clocks that a test drives."""

from __future__ import annotations

import time

LONG = 36_000.0
"""Seconds that no test takes on any machine: what ends a run under this limit is counted, not timed."""


class Ticking:
    """A clock that goes on by `step` seconds whenever it is read, and by nothing else; it counts how often.

    Under `ddmip_lib.clock.using(Ticking())` a limit of five seconds is over at the fifth look at the clock,
    however fast the machine is.
    """

    def __init__(self, step: float = 1.0) -> None:
        self.step, self.looks = step, 0

    def __call__(self) -> float:
        self.looks += 1
        return self.step * self.looks


class Stopping:
    """The machine's clock, but an hour later as soon as `stop` was called: a limit is over at a moment of the run."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.perf_counter() + self.ahead

    def stop(self) -> None:
        self.ahead = 10 * LONG

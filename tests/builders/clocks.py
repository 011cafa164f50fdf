"""Time in tests: limits that nobody reaches, clocks that a test drives, and what is computed
between two readings.
"""

from __future__ import annotations

import time
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

LONG = 36_000.0
"""Seconds that no test takes on any machine: what ends a run under this limit is counted, not
timed.
"""


class Ticking:
    """A clock that goes on by `step` seconds whenever it is read, and by nothing else; it counts
    how often.

    Under `ddmip_lib.clock.using(Ticking())` a limit of five seconds is over at the fifth look at
    the clock, however fast the machine is.
    """

    def __init__(self, step: float = 1.0) -> None:
        self.step = step
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.step * self.looks


class Stopping:
    """The machine's clock, but an hour later as soon as `stop` was called: a limit is over at a
    moment of the run.
    """

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.perf_counter() + self.ahead

    def stop(self) -> None:
        self.ahead = 10 * LONG


class Counting(Ticking):
    """The same, with the most operations of torch between two readings: flops of products, entries
    of all else.
    """

    def __init__(self, step: float = 1.0) -> None:
        super().__init__(step)
        self.operations = Operations()
        self.before = 0
        self.most = 0

    def __call__(self) -> float:
        self.most = max(self.most, self.operations.total - self.before)
        self.before = self.operations.total
        return super().__call__()


class Operations(TorchDispatchMode):
    """Counts the operations of torch while it is in force."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        packet = func._overloadpacket
        if packet in flop_registry:
            self.total += flop_registry[packet](*args, **(kwargs or {}), out_val=result)
        else:
            parts = result if isinstance(result, (tuple, list)) else (result,)
            self.total += sum(part.numel() for part in parts if isinstance(part, torch.Tensor))
        return result

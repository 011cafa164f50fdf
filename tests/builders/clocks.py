"""Clocks that tests drive, and what is computed between two readings of them."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


class Ticking:
    """A clock that advances by `step` seconds at every reading."""

    def __init__(self, step: float = 1.0) -> None:
        self.step, self.readings = step, 0

    def __call__(self) -> float:
        self.readings += 1
        return self.step * self.readings


class Counting(Ticking):
    """The same, with the most operations of torch between two readings: flops of products, entries of all else."""

    def __init__(self, step: float = 1.0) -> None:
        super().__init__(step)
        self.operations, self.before, self.most = Operations(), 0, 0

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

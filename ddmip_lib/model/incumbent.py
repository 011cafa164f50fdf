"""The best point of a run, verified by the true network: what every solver keeps and returns."""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import torch

from ..clock import now
from .completion import Completer
from .instance import Instance
from .onoff import OnOff
from .progress import report_incumbent
from .repair import Repair, submit_start
from .report import Nearest
from .scaling import Units
from .verification import Verification, Verifier

PointCallback = Callable[[list[np.ndarray]], Any]
"""Hears the network inputs, one matrix for each predictor, of every point that a solver visits."""


class Incumbent:
    """The best verified point so far, and when each one was found."""

    def __init__(
        self,
        instance: Instance,
        began: float,
        onoff: Sequence[OnOff] = (),
        screen_on: torch.device | None = None,
        on_point: PointCallback | None = None,
    ) -> None:
        """`onoff` makes completions faster. With `screen_on`, a device, networks judge there, in
        double precision too, as long as the run lasts; `settle` asks those on the CPU, once, about
        what is left.
        """
        self.instance = instance
        self.began = began
        self.on_point = on_point
        self.completer = Completer(instance, onoff)
        self._last = Verifier(instance)
        self._judge = self._last if screen_on is None else Verifier(instance.elsewhere(screen_on))
        self._waiting: list[tuple[np.ndarray, Verification]] = []
        self.check: Verification | None = None
        self.values: np.ndarray | None = None
        self.nearest = Nearest(self._last)
        """What the best of all points that failed violates, kept as long as none is feasible."""
        self.found: list[tuple[float, float]] = []
        """Seconds since the run began, and the verified objective, of every improvement."""
        self.start = ""
        """What the start violates and what became of it; empty where it violates nothing."""
        self.seen: dict[bytes, Verification] = {}
        """What became of each matrix of network inputs that was completed."""

    @property
    def objective(self) -> float | None:
        return None if self.check is None else self.check.objective

    @property
    def there(self) -> Instance:
        """The problem with its networks where they judge as long as the run lasts."""
        return self._judge.instance

    @property
    def units(self) -> Units:
        """What tolerances are multiplied by."""
        return self._last.units

    def missed(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By how much rows and bounds are violated, in their units."""
        return self._last.missed(values)

    def better(self, objective: float) -> bool:
        """Whether an objective would be an improvement."""
        return self._last.better(objective, self.objective)

    def consider(self, values: np.ndarray) -> Verification:
        """Replace outputs by the true network's and verify; a feasible point that is better takes
        the place.
        """
        if self.on_point is not None:
            self.on_point(self.instance.inputs(values))
        replaced = self._judge.instance.with_outputs(values)
        check = self._judge.check(replaced)
        if not check.feasible and self.check is None:
            self.nearest.consider(replaced, check)
            report_incumbent(self)
        if check.feasible and self.better(check.objective):
            self.check = check
            self.values = replaced
            self.found.append((now() - self.began, check.objective))
            report_incumbent(self)
            if self._judge is not self._last:
                self._waiting.append((replaced, check))
        return check

    def settle(self) -> None:
        """Verify on the CPU what another device called best, the last one first; what fails is no
        longer known.
        """
        if not self._waiting:
            return
        self.check = self.values = None
        for values, said in reversed(self._waiting):
            if not self.better(said.objective):  # nor is any before it
                break
            replaced = self.instance.with_outputs(values)
            check = self._last.check(replaced)
            if check.feasible and self.better(check.objective):
                self.check = check
                self.values = replaced
            elif self.check is None:
                self.nearest.consider(replaced, check)
        self._waiting.clear()
        self.found = [
            (t, value) for t, value in self.found if self.check and not self.better(value)
        ]
        if self.check and not (
            self.found and not self._last.better(self.check.objective, self.found[-1][1])
        ):
            self.found.append((now() - self.began, self.check.objective))

    def consider_inputs(self, values: np.ndarray, seconds: float) -> Verification:
        """Let the best point with the network inputs of `values` compete; inputs seen before are
        not solved again.
        """
        inputs = self.instance.inputs(self.instance.rounded(values))
        key = blake2b(b"".join(x.tobytes() for x in inputs), digest_size=16).digest()
        if key not in self.seen:
            completed = self.completer.complete(inputs, seconds)
            self.seen[key] = self.consider(values if completed is None else completed)
        return self.seen[key]

    def consider_start(
        self, start: list[np.ndarray] | None, time_limit: float, repair: Repair | None = None
    ) -> None:
        """Let the problem's start compete, or what it is `submit_start` to; what it violates is
        kept as `start`.
        """
        if (
            start is not None and time_limit > 0 and not self.start
        ):  # one that fails is reported once
            self.start = submit_start(self, self._last, start, min(10.0, 0.2 * time_limit), repair)

    def point(self) -> dict[str, Any]:
        """The fields of a `Solution` that describe the point, or the nearest one where none is
        feasible.
        """
        self.settle()
        start = {"start": self.start} if self.start else {}
        if self.values is None:
            return {"variables": self.instance.variables, "nearest": self.nearest.report(), **start}
        return {
            **start,
            "variables": self.instance.variables,
            "objective": self.objective,
            "inputs": self.instance.inputs(self.values),
            "outputs": [self.values[m.output] for m in self.instance.maps],
            "values": self.values,
            "verification": self.check,
        }

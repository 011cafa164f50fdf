"""The best point of a run, verified by the true networks."""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import torch
from numpy import ndarray

from ..clock import now
from .completion import Completer
from .instance import Instance
from .onoff import OnOff
from .progress import report_incumbent
from .repair import Repair, submit_start
from .report import Nearest
from .scaling import Units
from .verification import Verification, Verifier

PointCallback = Callable[[list[ndarray]], Any]
"""A function that is called with the network inputs of every evaluated point, one matrix for each
predictor.
"""
MAX_SECONDS_FOR_START = 10.0
"""Seconds for the completion of the problem's start, at most."""
START_TIME_FRACTION = 0.2
"""Fraction of the time limit for the completion of the problem's start, at most."""


class Incumbent:
    """The best verified point of a run, and when each one was found.

    Parameters
    ----------
    instance
        The problem.
    began
        Start of the run, in seconds of the clock in force.
    onoff
        On/off variables, which make completions faster.
    screen_on
        Device whose networks screen points in double precision during the run; `confirm_on_cpu`
        verifies the best ones by the networks on the CPU.
    on_point
        Function that is called with the network inputs of every evaluated point.

    Attributes
    ----------
    values, check
        The point and its verification, None before the first one.
    nearest
        The least infeasible point, as long as none is feasible.
    found
        Seconds since the start of the run, and verified objective, of every improvement.
    start
        What the problem's start violates and whether it was repaired; empty if it is feasible.
    completed
        Verification by network inputs that were completed.
    """

    def __init__(
        self,
        instance: Instance,
        began: float,
        onoff: Sequence[OnOff] = (),
        screen_on: torch.device | None = None,
        on_point: PointCallback | None = None,
    ) -> None:
        self.instance = instance
        self.began = began
        self.on_point = on_point
        self.completer = Completer(instance, onoff)
        self._verifier = Verifier(instance)
        self._screen = self._verifier
        if screen_on is not None:
            self._screen = Verifier(instance.on_device(screen_on))
        self._screened: list[tuple[ndarray, Verification]] = []
        self.check: Verification | None = None
        self.values: ndarray | None = None
        self.nearest = Nearest(self._verifier)
        self.found: list[tuple[float, float]] = []
        self.start = ""
        self.completed: dict[bytes, Verification] = {}

    @property
    def objective(self) -> float | None:
        """Verified objective, None before the first feasible point."""
        return None if self.check is None else self.check.objective

    @property
    def screening_instance(self) -> Instance:
        """The problem with its networks on the device that screens points."""
        return self._screen.instance

    @property
    def units(self) -> Units:
        """Units of constraints, bounds and objective."""
        return self._verifier.units

    def missed(self, values: ndarray) -> tuple[ndarray, ndarray]:
        """Return the violations of constraints and of bounds, in their units."""
        return self._verifier.missed(values)

    def better(self, objective: float) -> bool:
        """Return whether an objective would be an improvement."""
        return self._verifier.better(objective, self.objective)

    def consider(self, values: ndarray) -> Verification:
        """Verify a point, its outputs replaced by those of the networks, and keep the better one.

        Parameters
        ----------
        values
            A full assignment.

        Returns
        -------
        Verification
            That of the point with its replaced outputs.
        """
        if self.on_point is not None:
            self.on_point(self.instance.inputs(values))
        replaced = self._screen.instance.with_outputs(values)
        check = self._screen.check(replaced)
        if check.feasible and self.better(check.objective):
            self._keep(replaced, check)
            self.found.append((now() - self.began, check.objective))
            report_incumbent(self)
            if self._screen is not self._verifier:
                self._screened.append((replaced, check))
        elif self.check is None:
            self.nearest.consider(replaced, check)
            report_incumbent(self)
        return check

    def _keep(self, values: ndarray, check: Verification) -> None:
        self.check = check
        self.values = values

    def confirm_on_cpu(self) -> None:
        """Verify on the CPU what another device screened: the last point first, until one holds."""
        if not self._screened:
            return
        self.check = self.values = None
        for values, screened in reversed(self._screened):
            if not self.better(screened.objective):  # nor is any before it
                break
            replaced = self.instance.with_outputs(values)
            check = self._verifier.check(replaced)
            if check.feasible and self.better(check.objective):
                self._keep(replaced, check)
            elif self.check is None:
                self.nearest.consider(replaced, check)
        self._screened.clear()
        self._settle_history()

    def _settle_history(self) -> None:
        """Remove improvements that were not confirmed; add the confirmed point if it is missing."""
        if self.check is None:
            self.found = []
            return
        self.found = [(t, value) for t, value in self.found if not self.better(value)]
        objective = self.check.objective
        if not self.found or self._verifier.better(objective, self.found[-1][1]):
            self.found.append((now() - self.began, objective))

    def consider_inputs(self, values: ndarray, seconds: float) -> Verification:
        """Complete the network inputs of a point and consider the result.

        Parameters
        ----------
        values
            A full assignment.
        seconds
            Time limit of the completion.

        Returns
        -------
        Verification
            That of the completed point, or of `values` if there is no completion; from a table for
            inputs that were completed before.
        """
        inputs = self.instance.inputs(self.instance.rounded(values))
        key = blake2b(b"".join(x.tobytes() for x in inputs), digest_size=16).digest()
        if key not in self.completed:
            completed = self.completer.complete(inputs, seconds)
            self.completed[key] = self.consider(values if completed is None else completed)
        return self.completed[key]

    def consider_start(
        self, start: list[ndarray] | None, time_limit: float, repair: Repair | None = None
    ) -> None:
        """Submit the problem's start; `self.start` states what it violates.

        Parameters
        ----------
        start
            Network inputs, one matrix for each predictor.
        time_limit
            Time limit of the run, in seconds.
        repair
            Function that searches for a feasible point near an infeasible start.
        """
        if start is None or time_limit <= 0 or self.start:  # an infeasible one is reported once
            return
        seconds = min(MAX_SECONDS_FOR_START, START_TIME_FRACTION * time_limit)
        self.start = submit_start(self, self._verifier, start, seconds, repair)

    def point(self) -> dict[str, Any]:
        """Return the fields of a `Solution` that describe the incumbent or the nearest point."""
        self.confirm_on_cpu()
        fields: dict[str, Any] = {"variables": self.instance.variables}
        if self.start:
            fields["start"] = self.start
        if self.values is None:
            return {**fields, "nearest": self.nearest.report()}
        return {
            **fields,
            "objective": self.objective,
            "inputs": self.instance.inputs(self.values),
            "outputs": [self.values[mapping.output] for mapping in self.instance.maps],
            "values": self.values,
            "verification": self.check,
        }

"""The best point of a run, verified by the true networks; and starts as candidates for it."""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from numpy import ndarray

from ..clock import now
from .completion import Completer
from .goal import Goal
from .instance import Instance
from .onoff import OnOff
from .progress import logger, report_incumbent
from .report import Nearest, violations
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
INPUT_CHANGE_TOLERANCE = 1e-9
"""Largest change of a network input, in its unit, at which the inputs count as unchanged."""

Start = list[ndarray]
"""Network inputs, one matrix for each predictor."""
Repair = Callable[["Incumbent", Start, float], bool]
"""Called with the incumbent, a start and a number of seconds: submits points close to the start
for at most that time, and returns whether one of them is feasible.
"""


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
    goal
        Gap and objective at which the run may end.
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
        self.verifier = Verifier(instance)
        self._screen = Verifier(instance.on_device(screen_on)) if screen_on else self.verifier
        self._screened: list[tuple[ndarray, Verification]] = []
        self._confirmed: tuple[Verification | None, ndarray | None] = (None, None)
        self.check: Verification | None = None
        self.values: ndarray | None = None
        self.nearest = Nearest(self.verifier.stated)
        self.found: list[tuple[float, float]] = []
        self.start = ""
        self.completed: dict[bytes, Verification] = {}
        self.goal = Goal()

    @property
    def objective(self) -> float | None:
        """Verified objective, None before the first feasible point."""
        return None if self.check is None else self.check.objective

    @property
    def reached_target(self) -> bool:
        """Whether the objective is at least as good as the target of the run."""
        return self.goal.reached(self.objective, self.instance.milp.sign)

    @property
    def screening_instance(self) -> Instance:
        """The problem with its networks on the device that screens points."""
        return self._screen.instance

    @property
    def units(self) -> Units:
        """Units of constraints, bounds and objective."""
        return self.verifier.units

    def better(self, objective: float) -> bool:
        """Return whether an objective would be an improvement."""
        return self.verifier.better(objective, self.objective)

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
        values = self.instance.extend(values)
        if self.on_point is not None:
            self.on_point(self.instance.stated.inputs(self.instance.restrict(values)))
        before = self.check
        confirmed = self.check, self.values
        check = self._submit(values, self._screen)
        if self.check is not before:
            self.found.append((now() - self.began, check.objective))
            if self._screen is not self.verifier:
                if not self._screened:
                    self._confirmed = confirmed
                self._screened.append((values, check))
        if self.check is not before or self.check is None:
            report_incumbent(self.instance, self.objective, self.nearest.distance)
        return check

    def _submit(self, values: ndarray, verifier: Verifier) -> Verification:
        """Verify a point with the outputs of the verifier's networks; keep the better one."""
        replaced = verifier.instance.with_outputs(values)
        check = verifier.check(replaced)
        if check.feasible and self.better(check.objective):
            self.check = check
            self.values = replaced
        elif self.check is None:
            self.nearest.consider(self.instance.restrict(replaced), check)
        return check

    def confirm_on_cpu(self) -> None:
        """Verify on the CPU what another device screened: the last point first, until one holds.

        Improvements that were not confirmed are removed from the history.
        """
        if not self._screened:
            return
        self.check = self._confirmed[0]
        self.values = self._confirmed[1]
        for values, screened in reversed(self._screened):
            if not self.better(screened.objective):  # nor is any before it
                break
            self._submit(values, self.verifier)
        self._screened.clear()
        objective = self.objective
        if objective is None:
            self.found = []
            return
        self.found = [(t, value) for t, value in self.found if not self.better(value)]
        if not self.found or self.verifier.better(objective, self.found[-1][1]):
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
        key = blake2b(np.concatenate(inputs, axis=None).tobytes(), digest_size=16).digest()
        if key not in self.completed:
            completed = self.completer.complete(inputs, seconds)
            self.completed[key] = self.consider(values if completed is None else completed)
        return self.completed[key]

    def consider_start(
        self, start: Start | None, time_limit: float, repair: Repair | None = None
    ) -> None:
        """Submit the problem's start, and restore its feasibility if it violates a constraint.

        Candidates are the whole point if it is given, then its inputs with the other variables
        solved for, then, where neither is feasible, points close to it by `repair`. The attribute
        `start` states what the start violates and whether it was repaired.

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
        values, decided = _assignment(self.instance, start)
        checks = []
        if self.instance.known and decided.all():
            checks.append(self.consider(values))
        completed = self.completer.complete(start, seconds)
        if completed is not None:
            checks.append(self.consider(completed))
        feasible = any(check.feasible for check in checks)
        found = []
        if np.isfinite(values).all():
            values, decided = map(self.instance.restrict, (values, decided))
            found = violations(self.verifier.stated, values, known=decided)
        if feasible and not found:
            return
        text = str(found[0]) if found else _unlisted_violation(self.instance, checks)
        if len(found) > 1:
            text += f" ({len(found) - 1} more)"
        if not feasible and repair is not None:
            feasible = repair(self, start, seconds)
        self.start = f"{text}; {_outcome(self, start, feasible, repair is not None)}"
        logger.warning("The start fails: %s.", self.start)

    def point(self) -> dict[str, Any]:
        """Return the fields of a `Solution` that describe the incumbent or the nearest point."""
        self.confirm_on_cpu()
        fields: dict[str, Any] = {"variables": self.instance.variables}
        if self.start:
            fields["start"] = self.start
        if self.values is None:
            return {**fields, "nearest": self.nearest.report()}
        values = self.instance.restrict(self.values)
        return {
            **fields,
            "objective": self.objective,
            "inputs": self.instance.stated.inputs(values),
            "outputs": [values[mapping.output] for mapping in self.instance.stated.maps],
            "values": values,
            "verification": self.check,
        }


def _assignment(instance: Instance, start: Start) -> tuple[ndarray, ndarray]:
    """The start as a full assignment, outputs by the networks, and which variables it decides.

    A variable that is not decided has the feasible value closest to 0.
    """
    milp = instance.milp
    values = np.where(milp.lower == milp.upper, milp.lower, np.nan)
    if instance.known:
        values[:] = np.nan
        for address, at in milp.position.items():
            values[at] = instance.known.get(address, np.nan)
    values = instance.assignment(start, rest=values)
    given = np.isfinite(values)
    values = np.where(given, values, np.clip(0.0, milp.lower, milp.upper))
    determined = instance.determined
    values[determined] = instance.with_outputs(values)[determined]
    return values, given | determined


def _unlisted_violation(instance: Instance, checks: list[Verification]) -> str:
    """What is violated where no linear constraint, bound or integrality is."""
    others = tuple(f"{c.kind} {c.name}" for c in instance.stated.milp.others)
    if checks:
        others = checks[-1].other_violations
        if not others:
            return checks[-1].worst
    because = f", perhaps because of {', '.join(others[:3])}" if others else ""
    return f"no values of the other variables fit its network inputs{because}"


def _outcome(incumbent: Incumbent, start: Start, feasible: bool, inputs_may_move: bool) -> str:
    """What became of a start that violates a constraint."""
    if not feasible or incumbent.values is None:
        close = " or close to them" if inputs_may_move else ""
        return f"not repaired: no feasible point was found with its network inputs{close}"
    pairs = zip(incumbent.instance.inputs(incumbent.values), start, strict=True)
    moved = max(float(np.abs(new - old).max(initial=0.0)) for new, old in pairs)
    how = "kept" if moved <= INPUT_CHANGE_TOLERANCE else f"moved by up to {moved:.2g}"
    return f"repaired, its network inputs {how}, objective {incumbent.objective:.6g}"

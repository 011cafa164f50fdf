"""Starts as candidates for the incumbent: reports of violations, and restoration of feasibility."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy import ndarray

from .completion import Completer
from .instance import Instance
from .progress import logger
from .report import violations
from .verification import Verification, Verifier

Start = list[ndarray]
"""Network inputs, one matrix for each predictor."""
Repair = Callable[[Any, Start, float], bool]
"""Called with an `Incumbent`, a start and a number of seconds: submits points close to the start
for at most that time, and returns whether one of them is feasible.
"""
INPUT_CHANGE_TOLERANCE = 1e-9
"""Largest change of a network input, in its unit, at which the inputs count as unchanged."""


class Competition(Protocol):
    """The part of an `Incumbent` that a start is submitted to."""

    instance: Instance
    completer: Completer
    values: ndarray | None

    @property
    def objective(self) -> float | None: ...
    def consider(self, values: ndarray) -> Verification: ...


def submit_start(
    incumbent: Competition, verifier: Verifier, start: Start, seconds: float, repair: Repair | None
) -> str:
    """Submit a start to the incumbent, and restore its feasibility if it violates a constraint.

    Candidates are the whole point if it is given, then its inputs with the other variables solved
    for, then, where neither is feasible, points close to it by `repair`.

    Parameters
    ----------
    incumbent : Competition
        The incumbent.
    verifier : Verifier
        Checks full assignments.
    start : list of numpy.ndarray
        Network inputs, one matrix for each predictor.
    seconds : float
        Time limit of each search.
    repair : callable or None
        Searches for feasible points close to the start.

    Returns
    -------
    str
        What the start violates and whether it was repaired; empty for a feasible start.
    """
    values, decided = _assignment(incumbent.instance, start)
    checks = _submit_itself(incumbent, start, values, decided, seconds)
    found = []
    if np.isfinite(values).all():
        found = violations(verifier, values, known=decided)
    feasible = any(check.feasible for check in checks)
    if feasible and not found:
        return ""
    if not found:
        text = _unlisted_violation(incumbent.instance, checks)
    elif len(found) == 1:
        text = f"{found[0]}"
    else:
        text = f"{found[0]} ({len(found) - 1} more)"
    if not feasible and repair is not None:
        feasible = repair(incumbent, start, seconds)
    text = f"{text}; {_outcome(incumbent, start, feasible, repair is not None)}"
    logger.warning("The start fails: %s.", text)
    return text


def _submit_itself(
    incumbent: Competition, start: Start, values: ndarray, decided: ndarray, seconds: float
) -> list[Verification]:
    """Submit the start as a point and as inputs; the checks of both."""
    checks = []
    if incumbent.instance.known and decided.all():
        checks.append(incumbent.consider(values))
    completed = incumbent.completer.complete(start, seconds)
    if completed is not None:
        checks.append(incumbent.consider(completed))
    return checks


def _assignment(instance: Instance, start: Start) -> tuple[ndarray, ndarray]:
    """The start as a full assignment, outputs by the networks, and which variables it decides.

    A variable that is not decided has the feasible value closest to 0.
    """
    milp = instance.milp
    if instance.known:
        values = np.array([instance.known.get(address, np.nan) for address in milp.position])
    else:
        values = np.where(milp.lower == milp.upper, milp.lower, np.nan)
    for mapping, x in zip(instance.maps, start, strict=True):
        mapping.put(values, x)
    given = np.isfinite(values)
    values = np.where(given, values, np.clip(0.0, milp.lower, milp.upper))
    values[instance.is_output] = instance.with_outputs(values)[instance.is_output]
    return values, given | instance.is_output


def _unlisted_violation(instance: Instance, checks: list[Verification]) -> str:
    """What is violated where no linear constraint, bound or integrality is."""
    if not checks:
        others = tuple(f"{c.kind} {c.name}" for c in instance.milp.others)
    elif checks[-1].other_violations:
        others = checks[-1].other_violations
    else:
        return checks[-1].worst
    text = "no values of the other variables fit its network inputs"
    if not others:
        return text
    return f"{text}, perhaps because of {', '.join(others[:3])}"


def _outcome(incumbent: Competition, start: Start, feasible: bool, inputs_may_move: bool) -> str:
    """What became of a start that violates a constraint."""
    if not feasible or incumbent.values is None:
        where = "with its network inputs"
        if inputs_may_move:
            where += " or close to them"
        return f"not repaired: no feasible point was found {where}"
    inputs = incumbent.instance.inputs(incumbent.values)
    pairs = zip(inputs, start, strict=True)
    moved = max(float(np.abs(new - old).max(initial=0.0)) for new, old in pairs)
    if moved <= INPUT_CHANGE_TOLERANCE:
        how = "its network inputs kept"
    else:
        how = f"its network inputs moved by up to {moved:.2g}"
    return f"repaired, {how}, objective {incumbent.objective:.6g}"

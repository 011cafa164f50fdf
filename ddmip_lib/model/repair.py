"""What becomes of a start: it competes as it is; one that fails a constraint is reported, and
repaired if possible.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .completion import Completer
from .instance import Instance
from .progress import logger
from .report import violations
from .verification import Verification, Verifier

Start = list[np.ndarray]
"""Network inputs, one matrix for each predictor."""
Repair = Callable[[Any, Start, float], bool]
"""Gets an `Incumbent`; lets points close to a start compete, for so many seconds; whether one of
them is feasible.
"""
KEPT = 1e-9  # inputs that moved by no more are those of the start


class Competition(Protocol):
    """What a start needs of an `Incumbent`."""

    instance: Instance
    completer: Completer
    values: np.ndarray | None

    @property
    def objective(self) -> float | None: ...
    def consider(self, values: np.ndarray) -> Verification: ...


def submit_start(
    incumbent: Competition, verifier: Verifier, start: Start, seconds: float, repair: Repair | None
) -> str:
    """Let a start compete: the whole point if one is known, then its inputs, the rest solved for,
    then, where neither is feasible, points close to it by `repair`.

    The answer says what the start violates and what became of it; it is empty for one that violates
    nothing.
    """
    given, known = _given(incumbent.instance, start)
    checks: list[Verification] = []
    if incumbent.instance.known and known.all():
        checks.append(incumbent.consider(given))
    completed = incumbent.completer.complete(start, seconds)
    if completed is not None:
        checks.append(incumbent.consider(completed))
    found = violations(verifier, given, known=known) if np.isfinite(given).all() else []
    feasible = any(check.feasible for check in checks)
    if feasible and not found:
        return ""
    if found:
        what = f"{found[0]}" + f" ({len(found) - 1} more)" * (len(found) > 1)
    else:
        what = _unlisted(incumbent.instance, checks)
    feasible = feasible or (repair is not None and repair(incumbent, start, seconds))
    text = f"{what}; {_outcome(incumbent, start, feasible, repair is not None)}"
    logger.warning("The start fails: %s.", text)
    return text


def _given(instance: Instance, start: Start) -> tuple[np.ndarray, np.ndarray]:
    """The start as a full assignment, outputs by the networks, and which variables it decides; 0 is
    for the others.
    """
    s = instance.milp
    given = np.where(s.lower == s.upper, s.lower, np.nan)
    if instance.known:
        given = np.array([instance.known.get(address, np.nan) for address in s.position])
    for m, x in zip(instance.maps, start, strict=True):
        m.put(given, x)
    known = np.isfinite(given) | instance.is_output
    given = np.where(np.isfinite(given), given, np.clip(0.0, s.lower, s.upper))
    given[instance.is_output] = instance.with_outputs(given)[instance.is_output]
    return given, known


def _unlisted(instance: Instance, checks: list[Verification]) -> str:
    """What fails where no row, bound or integer does: other kinds of constraints, or all that is
    left to decide.
    """
    if checks and not checks[-1].other_violations:
        return checks[-1].worst
    others = (
        checks[-1].other_violations
        if checks
        else tuple(f"{c.kind} {c.name}" for c in instance.milp.others)
    )
    named = f", perhaps because of {', '.join(others[:3])}" if others else ""
    return f"no values of the other variables fit its network inputs{named}"


def _outcome(incumbent: Competition, start: Start, feasible: bool, moving: bool) -> str:
    if not feasible or incumbent.values is None:
        where = "with its network inputs or close to them" if moving else "with its network inputs"
        return f"not repaired: no feasible point was found {where}"
    inputs = incumbent.instance.inputs(incumbent.values)
    moved = max(
        float(np.abs(new - old).max(initial=0.0)) for new, old in zip(inputs, start, strict=True)
    )
    how = (
        "its network inputs kept"
        if moved <= KEPT
        else f"its network inputs moved by up to {moved:.2g}"
    )
    return f"repaired, {how}, objective {incumbent.objective:.6g}"

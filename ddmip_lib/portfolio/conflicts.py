"""Conflicts: which constraints leave no feasible point, and by how much each would have to give.

The search works on copies of the problem. First, all linear constraints have penalised slack; those
that are violated at the best point become hard, until no point is left (the elastic filter of
Chinneck and Dravnieks, 1991). Then each of these has slack alone, and those whose slack alone is
not enough are left out one by one where the rest remains infeasible (a deletion filter). Networks,
integrality, bounds of network inputs and of integers, and nonlinear constraints always stay hard.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy import ndarray
from pyscipopt import quicksum

from ..clock import now
from ..model.changes import add_between, rewrite
from ..model.problem import NeuralMIP
from ..model.solution import Solution
from ..model.text import shown
from ..model.verification import TOLERANCE
from ..programs.scip import MILP, ROW_HANDLERS
from .solving import solve

FILTER_TIME_FRACTION = 0.3
"""Fraction of the time left for each solve of the elastic filter."""


@dataclass(frozen=True)
class ConflictMember:
    """A constraint of a conflict.

    Attributes
    ----------
    name
        Name of the constraint, or "bounds of" a variable.
    amount
        By how much it must give if all other constraints hold, as far as was found; None if no
        amount was found to be enough.
    side
        Its side after that, for `NeuralMIP.changed`; None without an amount.
    smallest
        Whether it was proved that no smaller amount is enough, or that none is.
    solution
        The verified point that needs this amount, None where there is none.
    """

    name: str
    amount: float | None
    side: float | None
    smallest: bool
    solution: Solution | None

    def __str__(self) -> str:
        if self.amount is None:
            proved = "is proved not to be enough" if self.smallest else "was not found to be enough"
            return f"{self.name}: relaxing it alone {proved}"
        proved = "the smallest amount" if self.smallest else "the smallest amount that was found"
        return f"{self.name}: enough alone if relaxed by {shown(self.amount)}, {proved}"


@dataclass(frozen=True)
class Conflict:
    """Constraints that no point satisfies together.

    Attributes
    ----------
    members
        The constraints.
    proved
        Whether it was proved that no point satisfies them and what always stays hard.
    irreducible
        Whether each of them is needed for that: without it, a verified point exists.
    always_hard
        Kinds and names of constraints that are not linear, none of which was relaxed.
    solution
        A feasible point if one was found: then nothing conflicts.
    """

    members: tuple[ConflictMember, ...]
    proved: bool
    irreducible: bool
    always_hard: tuple[str, ...]
    solution: Solution | None = None

    def __str__(self) -> str:
        if self.solution is not None:
            return f"Nothing conflicts: a feasible point has objective {self.solution.objective:g}."
        lines = ["These constraints conflict:", *map(str, self.members)]
        if not self.members:
            lines = ["No relaxation of linear constraints alone was found to be enough."]
        lines.append("proved infeasible" if self.proved else "a heuristic: no proof in the time")
        if self.members and self.irreducible:
            lines[-1] += "; without any of them there is a feasible point"
        if self.always_hard:
            lines.append(f"never relaxed, and perhaps part of it: {', '.join(self.always_hard)}")
        return "\n  ".join(lines)


def conflicts(problem: NeuralMIP, time_limit: float = 60.0, seed: int = 0) -> Conflict:
    """Find constraints that conflict, and by how much each of them alone would have to give.

    The linear constraints and the bounds of continuous variables that are no network inputs can be
    relaxed. Each claim that is called proved rests on a proof of `solve`, or on a verified point.

    Parameters
    ----------
    problem : NeuralMIP
        A problem without a feasible point; it is not changed.
    time_limit : float, default: 60.0
        Seconds for all of it.
    seed : int, default: 0
        Seed of all random numbers.

    Returns
    -------
    Conflict
        The constraints; or a feasible point, if there is one.

    Examples
    --------
    >>> from ddmip_lib.problems import hand_sized
    >>> problem = hand_sized()
    >>> x1, x2, y = problem.model.getVars()
    >>> _ = problem.model.addCons(x1 + x2 <= 1, name="budget")
    >>> _ = problem.model.addCons(y <= -2, name="quality")
    >>> _ = problem.model.addCons(x1 + 2 * x2 <= 9, name="loose")
    >>> print(conflicts(problem))
    These constraints conflict:
      budget: enough alone if relaxed by 1, the smallest amount
      quality: enough alone if relaxed by 2, the smallest amount
      proved infeasible; without any of them there is a feasible point
    """
    search = _ConflictSearch(problem, now() + time_limit, seed)
    search.filter()
    if search.solution is None:
        search.relax_each()
        search.delete()
    hard = problem.stated_instance().milp.others
    return Conflict(
        tuple(search.members.values()),
        search.proved,
        search.proved and search.irreducible,
        tuple(f"{c.kind} {c.name}" for c in hard),
        search.solution,
    )


class _ConflictSearch:
    """The constraints that may conflict, by their numbers in a copy of the problem.

    Attributes
    ----------
    violated
        Constraints that were violated where others had slack.
    members
        What was found about each of them that is left as a member of the conflict.
    proved, irreducible, solution
        As in `Conflict`.
    """

    def __init__(self, problem: NeuralMIP, deadline: float, seed: int) -> None:
        self.deadline = deadline
        self.seed = seed
        self.base = problem.copied()
        _write_bounds_as_constraints(self.base)
        self.milp = self.base.stated_instance().milp
        sides = np.nan_to_num(np.abs(self.milp.sides), posinf=0.0)
        self.unit = sides.max(axis=0, initial=1.0)
        self.room = _largest_violations(self.milp, self.base.model.infinity())
        self.violated: list[int] = []
        self.members: dict[int, ConflictMember] = {}
        self.proved = False
        self.irreducible = True
        self.solution: Solution | None = None

    def filter(self) -> None:
        """Collect constraints that are violated where all others have slack, until none is left."""
        soft = np.arange(self.milp.n_rows)
        while True:
            found, slack = self._solve(soft, FILTER_TIME_FRACTION)
            if not found.found:
                self.proved = found.status == "infeasible"
                return
            violated = np.abs(slack) > TOLERANCE * self.unit[soft]
            if not violated.any():
                self.solution = found
                return
            self.violated += soft[violated].tolist()
            soft = soft[~violated]

    def relax_each(self) -> None:
        """Relax each of the constraints alone, as little as possible."""
        for done, i in enumerate(self.violated):
            found, slack = self._solve([i], 1 / (2 + len(self.violated) - done))
            smallest = found.status in ("optimal", "infeasible")
            member = ConflictMember(self.milp.row_names[i], None, None, smallest, None)
            if found.found:
                change = float(slack[0])
                side = float(self.milp.sides[int(change > 0)][i]) + change
                member = replace(member, amount=abs(change), side=side, solution=found)
            self.members[i] = member

    def delete(self) -> None:
        """Leave out constraints without which the others still conflict."""
        for i in self.violated:
            if self.members[i].amount is not None:
                continue
            dropped = set(range(self.milp.n_rows)) - set(self.members) | {i}
            found, _ = self._solve((), FILTER_TIME_FRACTION, dropped)
            if found.status == "infeasible":
                del self.members[i]
                self.proved = True
            elif not found.found:
                self.irreducible = False

    def _solve(
        self, soft: Iterable[int], fraction: float, dropped: Iterable[int] = ()
    ) -> tuple[Solution, ndarray]:
        """Minimise the slack of some constraints, without others, in a fraction of the time left;
        the slack, positive above.
        """
        work = self.base.copied()
        model = work.model
        rows = [c for c in model.getConss() if c.getConshdlrName() in ROW_HANDLERS]
        lower, upper = self.milp.sides
        cost = []
        slack = []
        for i in soft:
            below = model.addVar(f"below{i}", ub=float(self.room[0, i]))
            above = model.addVar(f"above{i}", ub=float(self.room[1, i]))
            rewrite(model, rows[i], (lower[i], upper[i]), below - above)
            cost.append((below + above) / float(self.unit[i]))
            slack.append(above - below)
        for i in dropped:
            model.delCons(rows[i])
        model.setObjective(quicksum(cost))
        seconds = fraction * (self.deadline - now())
        found = solve(work, seconds, self.seed, callback=None if cost else _any_point)
        return found, found[slack] if found.found and slack else np.zeros(0)


def _largest_violations(milp: MILP, infinity: float) -> ndarray:
    """By how much points of the box may be below or above each constraint, at most."""
    lower, upper = np.clip([milp.lower, milp.upper], -infinity, infinity)
    positive = milp.rows.maximum(0)
    negative = milp.rows.minimum(0)
    below = milp.row_lower - (positive @ lower + negative @ upper)
    above = positive @ upper + negative @ lower - milp.row_upper
    return np.clip([below, above], 0.0, infinity)  # 0 where there is no such side


def _any_point(event: Any) -> bool:
    """End a run without an objective at its first point."""
    return event.objective is not None


def _write_bounds_as_constraints(problem: NeuralMIP) -> None:
    """Replace bounds of continuous variables that are no network inputs by constraints."""
    instance = problem.stated_instance()
    milp = instance.milp
    model = problem.model
    movable = ~milp.integer
    for mapping in instance.maps:
        movable[mapping.index[mapping.index >= 0]] = False
    for other in milp.others:
        if other.kind == "indicator":
            movable[other.variables[1]] = False  # the slack of SCIP is no variable of the user's
    columns = model.getVars()
    for at in np.flatnonzero(movable & (np.isfinite(milp.lower) | np.isfinite(milp.upper))):
        variable = columns[at]
        add_between(
            model, 1.0 * variable, (milp.lower[at], milp.upper[at]), f"bounds of {variable.name}"
        )
        model.chgVarLb(variable, -model.infinity())
        model.chgVarUb(variable, model.infinity())

"""Problems whose networks and constraints are independent in parts: each is solved by itself."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy import ndarray

from ..clock import now
from ..linearisation.first_points import submit_first_points
from ..methods import ProgressEvent
from ..methods.run import start_run
from ..model.arrays import ArrayMIP
from ..model.instance import Instance
from ..model.problem import NeuralMIP
from ..model.solution import Solution
from ..model.structure import independent_components
from ..model.text import counted
from ..numerics import gamma
from ..programs.scip import MILP

FIRST_POINT_FRACTION = 0.1
"""Fraction of the time limit for the first points of all components together."""


@dataclass(frozen=True)
class Component:
    """A part of a problem that has no constraint and no network sample in common with the others.

    Attributes
    ----------
    problem
        The part as a problem.
    at
        Positions of its variables in the whole problem, where numbers among the network inputs are
        further variables at the end.
    """

    problem: ArrayMIP
    at: ndarray

    def start_at(self, values: ndarray) -> None:
        """Start from the values of its variables."""
        self.problem.start = [values[predictor.inputs] for predictor in self.problem.predictors]


def components_of(problem: NeuralMIP, instance: Instance) -> list[Component]:
    """Return the independent parts of a problem, in the order of their network samples.

    Parameters
    ----------
    problem
        The problem.
    instance
        The same problem as arrays and maps.

    Returns
    -------
    list of Component
        Empty if the problem has one part, blocks that the user described, or constraints that are
        not linear.
    """
    if problem.blocks is not None or instance.milp.others:
        return []
    component = independent_components(instance)
    count = int(component.max(initial=-1)) + 1
    if count < 2:
        return []
    cut = _Cut(instance, component)
    return [cut.component(number) for number in range(count)]


class _Cut:
    """A problem that is cut; what has no free variable belongs to its first component."""

    def __init__(self, instance: Instance, component: ndarray) -> None:
        self.predictors = instance.predictors
        self.outputs = [mapping.output for mapping in instance.maps]
        self.inputs = []
        numbers = np.zeros(0)
        for mapping in instance.maps:
            index = mapping.index.copy()
            own = mapping.constant[index < 0]
            index[index < 0] = len(component) + len(numbers) + np.arange(len(own))
            numbers = np.append(numbers, own)
            self.inputs.append(index)
        self.milp = _extended(instance.milp, numbers)
        self.owner = np.append(component, np.full(len(numbers), -1))
        entries = self.milp.rows.tocoo()
        self.row_owner = np.zeros(self.milp.n_rows, dtype=int)
        np.maximum.at(self.row_owner, entries.row, self.owner[entries.col])

    def component(self, number: int) -> Component:
        """Return one part as a problem by arrays."""
        milp = self.milp
        rows = self.row_owner == number
        needed = self.owner == number
        needed[milp.rows[rows].indices] = True
        found = []
        for inputs, outputs in zip(self.inputs, self.outputs, strict=True):
            index = np.hstack([inputs, outputs])
            samples = np.maximum(self.owner[index].max(axis=1), 0) == number
            needed[index[samples]] = True
            found.append((inputs[samples], outputs[samples]))
        at = np.flatnonzero(needed)
        at = at[np.argsort(milp.kind[at], kind="stable")]
        problem = ArrayMIP(_part(milp, rows, at))
        place = np.full(len(needed), -1)
        place[at] = np.arange(len(at))
        problem.predictors = [
            replace(predictor, inputs=place[inputs], outputs=place[outputs])
            for predictor, (inputs, outputs) in zip(self.predictors, found, strict=True)
            if len(inputs)
        ]
        return Component(problem, at)


def _extended(milp: MILP, numbers: ndarray) -> MILP:
    """Return a model with fixed variables for numbers, in which no fixed variable has a cost."""
    none = np.zeros(len(numbers))
    return replace(
        milp,
        cost=np.append(np.where(milp.lower < milp.upper, milp.cost, 0.0), none),
        offset=0.0,
        lower=np.append(milp.lower, numbers),
        upper=np.append(milp.upper, numbers),
        integer=np.append(milp.integer, none > 0),
        names=[*milp.names, *map(str, numbers)],
        position={},
        rows=sp.hstack([milp.rows, sp.csr_matrix((milp.n_rows, len(none)))]).tocsr(),
    )


def _part(milp: MILP, rows: ndarray, at: ndarray) -> MILP:
    """Return some constraints and variables of a model."""
    return replace(
        milp,
        cost=milp.cost[at],
        lower=milp.lower[at],
        upper=milp.upper[at],
        integer=milp.integer[at],
        names=[milp.names[k] for k in at],
        rows=milp.rows[rows][:, at],
        row_lower=milp.row_lower[rows],
        row_upper=milp.row_upper[rows],
        row_names=[milp.row_names[k] for k in np.flatnonzero(rows)],
    )


class ComponentSearch:
    """Solves the components of a problem one after another; their points and bounds add up.

    Each has the same share of the time that is left, so that later ones inherit what earlier ones
    do not need; those that reached their limit are solved again with another seed.

    Parameters
    ----------
    portfolio
        The `Portfolio` of the whole problem.
    parts
        Its components.
    solve
        Function that solves one.
    """

    def __init__(
        self, portfolio: Any, parts: list[Component], solve: Callable[..., Solution]
    ) -> None:
        self.portfolio = portfolio
        self.run = portfolio.run
        self.parts = parts
        self.solve = solve
        self.points: dict[int, ndarray] = {}
        self.bounds = np.full(len(parts), -np.inf)
        self.run.details["components"] = {}

    def search(self) -> None:
        """Solve all components."""
        self.first_points()
        left = list(range(len(self.parts)))
        seed = self.run.seed
        while left:
            limited = []
            for done, number in enumerate(left):
                if self.portfolio.over:
                    return
                seconds = self.run.seconds_left / (len(left) - done)
                if self.solve_part(number, seconds, seed) == "time_limit":
                    limited.append(number)
            left = limited
            seed += 1

    def first_points(self) -> None:
        """Let all components start from the best point, or from first points of their own."""
        values = self.portfolio.incumbent.values
        seconds = FIRST_POINT_FRACTION * self.run.time_limit / len(self.parts)
        for number, part in enumerate(self.parts):
            if values is not None:
                own = part.problem.milp.lower.copy()  # numbers have their values
                inside = part.at < len(values)
                own[inside] = values[part.at[inside]]
                self._take_point(number, own)
                continue
            run = start_run(part.problem, seconds, self.run.seed)
            incumbent = run.incumbent()
            submit_first_points(run, incumbent)
            self._take_point(number, incumbent.values)

    def solve_part(self, number: int, seconds: float, seed: int) -> str:
        """Solve one component, take over its point and its bound, and return its status."""
        portfolio = self.portfolio
        portfolio.in_progress = f"component {number + 1} of {len(self.parts)}", now()
        problem = self.parts[number].problem
        found = self.solve(problem, seconds, seed, **self._options())
        self.run.details["components"][number] = found
        self._take_point(number, found.values)
        self._take_bound(number, found)
        if found.status == "stopped":
            portfolio.status = "stopped"
        methods = ", ".join(entry.method for entry in found.details.get("log", []))
        size = counted(problem.milp.n_variables, "variable")
        portfolio.record(found.status, f"{size}; {methods}")
        return found.status

    def _options(self) -> dict[str, Any]:
        """Arguments for each component; only their sum has a target."""
        options = self.portfolio.options
        return {
            "callback": None if self.run.callback is None else self._notify,
            "client": self.portfolio.client,
            "gap": options.goal.gap_argument,
            "absolute_gap": options.goal.absolute_gap / len(self.parts),
            "threads": options.threads,
            "points_only": options.points_only,
            "proof_only": options.proof_only,
        }

    def _take_point(self, number: int, point: ndarray | None) -> None:
        """Keep the point of a component, its next start; submit those of all as one."""
        if point is None:
            return
        self.points[number] = point
        self.parts[number].start_at(point)
        if len(self.points) < len(self.parts):
            return
        values = self.run.instance.milp.lower.copy()
        for k, part in enumerate(self.parts):
            own = part.at < len(values)
            values[part.at[own]] = self.points[k][own]
        self.portfolio.incumbent.consider(values)

    def _take_bound(self, number: int, found: Solution) -> None:
        """Add up the bounds of all components, rounded down."""
        incumbent = self.portfolio.incumbent
        milp = self.run.instance.milp
        if found.status == "infeasible" and incumbent.values is None:
            self.portfolio.status = "infeasible"
        bound = found.details.get("checked_bound", found.bound)
        checked = found.proof is not None and found.proof.checked
        if bound is None or not (checked or "checked_bound" in found.details):
            return
        self.bounds[number] = max(self.bounds[number], milp.sign * bound)
        fixed = milp.objective(np.where(milp.lower == milp.upper, milp.lower, 0.0))
        terms = [milp.sign * fixed, *self.bounds]
        if np.isfinite(terms).all():
            rounding = gamma(4 * milp.n_variables) * float(np.abs(terms).sum())
            self.run.raise_bound(math.fsum(terms) - rounding)
        if self.run.gap_closed:
            self.portfolio.status = self.run.closed_status

    def _notify(self, event: ProgressEvent) -> bool:
        """Pass on the event of a component with objective and bound of the whole problem."""
        return self.run.notify(self.run.bound)

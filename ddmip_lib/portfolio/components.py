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
from ..methods.run import Run, start_run
from ..model.arrays import ArrayMIP
from ..model.instance import Instance
from ..model.predictor import Predictor
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
        The part as a problem; numbers among the network inputs are further variables at its end.
    at
        Positions of its other variables in the whole problem.
    """

    problem: ArrayMIP
    at: ndarray


def components_of(run: Run) -> list[Component]:
    """Return the independent parts of the problem of a run, in the order of its network samples.

    What has no free variable belongs to the first part.

    Parameters
    ----------
    run
        The run.

    Returns
    -------
    list of Component
        Empty if the problem has one part, blocks that the user described, or constraints that are
        not linear.
    """
    instance = run.instance
    if run.problem.blocks is not None or instance.milp.others:
        return []
    component = independent_components(instance)
    count = int(component.max(initial=-1)) + 1
    if count < 2:
        return []
    owner = np.append(component, -1)  # its last entry, at index -1, is that of numbers
    entries = instance.milp.rows.tocoo()
    row_owner = np.zeros(instance.milp.n_rows, dtype=int)
    np.maximum.at(row_owner, entries.row, owner[entries.col])
    return [_part(instance, owner, row_owner, number) for number in range(count)]


def _part(instance: Instance, owner: ndarray, row_owner: ndarray, number: int) -> Component:
    """The component with a number; what has no free variable belongs to the first one."""
    milp = instance.milp
    rows = row_owner == number
    needed = owner == number
    needed[milp.rows[rows].indices] = True
    samples = []
    for mapping in instance.maps:
        index = np.hstack([mapping.index, mapping.output])
        samples.append(np.maximum(owner[index].max(axis=1), 0) == number)
        needed[index[samples[-1]]] = True
    at = np.flatnonzero(needed[:-1])
    at = at[np.argsort(milp.kind[at], kind="stable")]
    predictors, numbers = _networks(instance, at, samples)
    problem = ArrayMIP(_model(milp, rows, at, numbers))
    problem.predictors = predictors
    return Component(problem, at)


def _networks(
    instance: Instance, at: ndarray, samples: list[ndarray]
) -> tuple[list[Predictor], ndarray]:
    """The networks at some samples, with variables for the numbers among their inputs; and these
    numbers.
    """
    place = np.full(instance.milp.n_variables + 1, -1)
    place[at] = np.arange(len(at))
    predictors = []
    numbers = np.zeros(0)
    for (predictor, mapping), own in zip(instance.networks, samples, strict=True):
        inputs = place[mapping.index[own]]
        given = mapping.constant[own][inputs < 0]
        inputs[inputs < 0] = len(at) + len(numbers) + np.arange(len(given))
        numbers = np.append(numbers, given)
        if own.any():
            outputs = place[mapping.output[own]]
            predictors.append(replace(predictor, inputs=inputs, outputs=outputs))
    return predictors, numbers


def _model(milp: MILP, rows: ndarray, at: ndarray, numbers: ndarray) -> MILP:
    """Some constraints and variables of a model, with fixed variables for numbers at the end; no
    fixed variable has a cost.
    """
    none = np.zeros(len(numbers))
    own_rows = milp.rows[rows]
    return replace(
        milp,
        cost=np.append(np.where(milp.lower < milp.upper, milp.cost, 0.0)[at], none),
        offset=0.0,
        lower=np.append(milp.lower[at], numbers),
        upper=np.append(milp.upper[at], numbers),
        integer=np.append(milp.integer[at], none > 0),
        names=[*(milp.names[k] for k in at), *map(str, numbers)],
        position={},
        rows=sp.hstack([own_rows[:, at], sp.csr_matrix((own_rows.shape[0], len(none)))]).tocsr(),
        row_lower=milp.row_lower[rows],
        row_upper=milp.row_upper[rows],
        row_names=[milp.row_names[k] for k in np.flatnonzero(rows)],
    )


def checked_bound(found: Solution) -> float | None:
    """Return the checked bound of a solution, or the one beside a claim; None without one."""
    if "checked_bound" in found.details or found.proof is None or not found.proof.checked:
        bound: float | None = found.details.get("checked_bound")
        return bound
    return found.bound


@dataclass(eq=False)
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

    portfolio: Any
    parts: list[Component]
    solve: Callable[..., Solution]

    def __post_init__(self) -> None:
        self.run: Run = self.portfolio.run
        run = self.run  # what the callback refers to, so that no cycle keeps this search
        self.values = run.instance.milp.lower.copy()
        self.without_point = set(range(len(self.parts)))
        self.bounds = np.full(len(self.parts), -np.inf)
        run.details["components"] = {}
        self.arguments = {  # only the sum of all components has a target
            **vars(self.portfolio.options),
            "callback": None if run.callback is None else lambda _: run.notify(run.bound),
            "gap": run.goal.gap_argument,
            "absolute_gap": run.goal.absolute_gap / len(self.parts),
        }

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
                numbers = part.problem.milp.lower[len(part.at) :]
                self._take_point(number, np.append(values[part.at], numbers))
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
        found = self.solve(problem, seconds, seed, **self.arguments)
        self.run.details["components"][number] = found
        self._take_point(number, found.values)
        self._take_bound(number, found)
        if found.status == "stopped":
            portfolio.ended = "stopped"
        methods = ", ".join(entry.method for entry in found.details.get("log", []))
        size = counted(problem.milp.n_variables, "variable")
        portfolio.record(found.status, f"{size}; {methods}")
        return found.status

    def _take_point(self, number: int, point: ndarray | None) -> None:
        """Keep the point of a component, its next start; submit those of all as one."""
        if point is None:
            return
        part = self.parts[number]
        part.problem.start = [point[predictor.inputs] for predictor in part.problem.predictors]
        self.values[part.at] = point[: len(part.at)]
        self.without_point.discard(number)
        if not self.without_point:
            self.portfolio.incumbent.consider(self.values)

    def _take_bound(self, number: int, found: Solution) -> None:
        """Add up the bounds of all components, rounded down; infinite if one is infeasible."""
        milp = self.run.instance.milp
        if found.status == "infeasible" and self.portfolio.incumbent.values is None:
            self.run.raise_bound(np.inf)
        bound = checked_bound(found)
        if bound is None:
            return
        self.bounds[number] = max(self.bounds[number], milp.sign * bound)
        fixed = milp.objective(np.where(milp.lower == milp.upper, milp.lower, 0.0))
        terms = [milp.sign * fixed, *self.bounds]
        if np.isfinite(terms).all():
            rounding = gamma(4 * milp.n_variables) * float(np.abs(terms).sum())
            self.run.raise_bound(math.fsum(terms) - rounding)

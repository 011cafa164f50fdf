r"""The elastic model: a MIP with linearised networks and penalised slack on their outputs.

It has a point wherever the user's constraints have one. At a point $v$ with network values $f$ and
Jacobian $J$ the constraint $y = f(x)$ becomes $y = f + J(x - x_v) + \tau (p - q)$ with $p, q \ge 0$
at a penalty each, in units $\tau$ of the output. A class becomes
$\ell + \tau p \ge \epsilon - M(1 - y)$, $\ell - \tau q \le My$ for the linearisation $\ell$ of its
logit. Inputs stay near $x_v$: continuous ones within $\Delta$ of their range, integers within
$\max(1, \Delta)$ of it, and together these make at most $\max(2, 2\Delta \cdot \text{count})$ unit
moves. See Nocedal and Wright, *Numerical Optimization* (2006), 18.5, for the elastic mode.
"""

from copy import copy
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy import ndarray

from ..clock import seconds_to_deadline
from ..model.instance import Instance
from ..programs import Program
from ..programs.mip import MIPResult, solve_program, solve_with_scip
from ..programs.program import Rows
from ..proofs.encoding import Ends
from ..renamed import renamed_names
from .tangent import Tangent

# Distance from 0 that a step gives to the logit of a class, as a fraction of the logit's size.
LOGIT_STEP_MARGIN = 1e-6
# Penalty in `fit` of an output off its linearisation, in units of a whole range of one input.
LINEARISATION_PENALTY = 1e4
# Random points at which the sizes of the outputs are measured.
OUTPUT_SAMPLES = 8
# Spread of an output, as a fraction of its largest value, below which it counts as constant.
MIN_RELATIVE_SPREAD = 1e-9


class TrialPoint(NamedTuple):
    """A full assignment with its objective and its infeasibility.

    Attributes
    ----------
    values : np.ndarray
        One value for each variable of the model.
    cost : float
        The objective as a minimisation, without its constant.
    infeasibility : float
        Sum of the output slacks, each in units of its output.
    """

    values: ndarray
    cost: float
    infeasibility: float

    def merit(self, price: float) -> float:
        """Return the l1 merit function: cost plus penalty times infeasibility.

        Examples
        --------
        >>> TrialPoint(np.zeros(2), cost=1.0, infeasibility=0.5).merit(price=10.0)
        6.0
        """
        return self.cost + price * self.infeasibility


Term = tuple[ndarray, ndarray, ndarray | float]
"""Entries of a matrix: rows, columns, and one coefficient for each or for all."""


class Constraints(NamedTuple):
    """Linear constraints as the entries of their matrix, with their two sides.

    Attributes
    ----------
    row, column, weight : np.ndarray
        The entries of the matrix.
    lower, upper : np.ndarray
        The sides, infinite where there is none.
    """

    row: ndarray
    column: ndarray
    weight: ndarray
    lower: ndarray
    upper: ndarray

    @classmethod
    def of(cls, matrix: sp.csr_matrix, lower: ndarray, upper: ndarray) -> Self:
        """Return the constraints ``lower <= matrix @ v <= upper``."""
        entries = matrix.tocoo()
        return cls(entries.row, entries.col, entries.data, lower, upper)

    @classmethod
    def terms(cls, lower: ndarray, upper: ndarray, *terms: Term) -> Self:
        """Return constraints whose entries are given as triplets of row, column, coefficient."""
        row = np.concatenate([rows for rows, _, _ in terms])
        column = np.concatenate([columns for _, columns, _ in terms])
        weights = [np.broadcast_to(weight, rows.shape) for rows, _, weight in terms]
        return cls(row, column, np.concatenate(weights), lower, upper)

    @classmethod
    def stack(cls, parts: list["Constraints"]) -> Self:
        """Return several sets of constraints as one, in their order."""
        counts = [len(part.lower) for part in parts]
        first = np.cumsum([0, *counts[:-1]])
        shifted = [part.row + start for part, start in zip(parts, first, strict=True)]
        return cls(
            np.concatenate(shifted),
            np.concatenate([part.column for part in parts]),
            np.concatenate([part.weight for part in parts]),
            np.concatenate([part.lower for part in parts]),
            np.concatenate([part.upper for part in parts]),
        )


class ElasticModel:
    """The elastic model of one instance: steps, completions, and points near a target.

    A time limit of a call is one besides those of the calls in progress (`ddmip_lib.clock`).

    Parameters
    ----------
    instance : Instance
        The model with its networks.
    seed : int
        Seed of the solvers and of the points at which outputs are measured.

    Attributes
    ----------
    inputs, outputs : np.ndarray
        Free network inputs and all network outputs, as indices of variables.
    range : np.ndarray
        Width of the box of each input.
    integer, binary : np.ndarray
        Which inputs are integer, and which of them take two values.
    classes : np.ndarray
        Which outputs are classes.
    units : np.ndarray
        The unit of each network value: how much it changes over the box.
    objective_unit : float
        Unit of the objective: its largest change where one variable crosses its range.
    work : float
        Work of all solves so far, in simplex iterations.
    """

    def __init__(self, instance: Instance, seed: int = 0) -> None:
        s = instance.milp
        self.milp = s
        self.instance = instance
        self.seed = seed
        self.work = 0.0
        self.cost = s.sign * s.cost
        self.lower = s.lower.copy()
        self.upper = s.upper.copy()
        self.constraints = Constraints.of(s.rows, s.row_lower, s.row_upper)
        self.inputs = instance.free_inputs
        self.range = s.upper[self.inputs] - s.lower[self.inputs]
        self.integer = s.integer[self.inputs]
        self.binary = self.integer & (self.range == 1)
        self.outputs = instance.outputs
        self.classes = instance.classes
        self.units = self._sizes()
        self.output_units = np.where(self.classes, 1.0, self.units)
        self.objective_unit = self._objective_unit()

    def _sizes(self) -> ndarray:
        """Return by how much each network value changes between some points of the box, never 0."""
        s = self.milp
        rng = np.random.default_rng(self.seed)
        low = np.where(np.isfinite(s.lower), s.lower, 0.0)
        high = np.where(np.isfinite(s.upper), s.upper, 0.0)
        drawn = low + (high - low) * rng.random((OUTPUT_SAMPLES, len(low)))
        values = np.array([self._raw_values(v) for v in (low, high, *drawn)])
        values = values[np.isfinite(values).all(axis=1)]
        largest = np.abs(values).max(axis=0, initial=0.0)
        spread = np.ptp(values, axis=0) if len(values) else largest
        constant = np.where(largest > 0, largest, 1.0)
        return np.where(spread > MIN_RELATIVE_SPREAD * largest, spread, constant)

    def _raw_values(self, values: ndarray) -> ndarray:
        raws = self.instance.raw_outputs(self.instance.rounded(values))
        return np.concatenate([raw.ravel() for raw in raws])

    def _objective_unit(self) -> float:
        s = self.milp
        span = s.upper - s.lower
        span = np.where(np.isfinite(span), span, 0.0)
        span[self.outputs] = self.output_units
        largest = float((np.abs(s.cost) * span).max(initial=0.0))
        return largest if largest > 0 else 1.0

    def with_cost(self, cost: ndarray) -> Self:
        """Return the same model with another cost vector, to be minimised."""
        other = copy(self)
        other.cost = cost
        return other

    def box(self, point: ndarray, radius: float | ndarray) -> Ends:
        """Return bounds of all variables, with the network inputs within a radius of a point.

        Parameters
        ----------
        point : np.ndarray
            A full assignment.
        radius : float or np.ndarray
            Fraction of each input's range; integers may move by 1 at least.

        Returns
        -------
        tuple of np.ndarray
            Lower and upper bounds.
        """
        at = self.inputs
        width = radius * self.range
        width = np.where(self.integer, np.maximum(1.0, np.round(width)), width)
        lower = self.lower.copy()
        upper = self.upper.copy()
        lower[at] = np.maximum(lower[at], point[at] - width)
        upper[at] = np.minimum(upper[at], point[at] + width)
        return lower, upper

    def step(
        self,
        point: ndarray,
        tangent: Tangent,
        radius: float | ndarray,
        price: float,
        seconds: float = np.inf,
    ) -> TrialPoint | None:
        """Return the best point of the linearised model in a trust region.

        Parameters
        ----------
        point : np.ndarray
            A full assignment, the middle of the trust region.
        tangent : Tangent
            Linearisation of the networks there.
        radius : float or np.ndarray
            Radius as a fraction of each input's range.
        price : float
            Penalty of a unit of output slack.
        seconds : float
            Time limit.

        Returns
        -------
        TrialPoint or None
            None if the solver finds no point.
        """
        bounds = self.box(point, radius)
        parts = [*self._linearisation(tangent, bounds), *self._moves(point, radius)]
        return self._trial_point(parts, bounds, price, seconds)

    def complete(self, values: ndarray, price: float, seconds: float = np.inf) -> TrialPoint | None:
        """Fix the network inputs and their true outputs, up to slack, and solve for the rest.

        Parameters
        ----------
        values : np.ndarray
            A full assignment, of which the network inputs count.
        price : float
            Penalty of a unit of output slack.
        seconds : float
            Time limit.

        Returns
        -------
        TrialPoint or None
            None if a network is not finite there or the solver finds no point.
        """
        s = self.milp
        values = np.clip(self.instance.rounded(values), s.lower, s.upper)
        predicted = self._predictions(values)
        if not np.isfinite(predicted).all():
            return None
        bounds = fixed_bounds((self.lower, self.upper), self.inputs, values)
        row = np.arange(len(predicted))
        terms = (row, self.outputs, 1.0), *self._slack(row, self.output_units)
        tied = Constraints.terms(predicted, predicted, *terms)
        return self._trial_point([tied], bounds, price, seconds)

    def _predictions(self, values: ndarray) -> ndarray:
        raws = zip(self.instance.predictors, self.instance.raw_outputs(values), strict=True)
        return np.concatenate([predictor.outputs_of(raw).ravel() for predictor, raw in raws])

    def nearest(self, target: ndarray, seconds: float = np.inf) -> ndarray | None:
        """Return the point whose network inputs are nearest to a target's, outputs free.

        Parameters
        ----------
        target : np.ndarray
            A full assignment.
        seconds : float
            Time limit.

        Returns
        -------
        np.ndarray or None
            A point of the user's constraints; None if the solver finds none.
        """
        n = self.milp.n_variables
        parts = [self.constraints, self._distance(self.inputs, target, n)]
        cost = np.concatenate([np.zeros(n), 1.0 / self.range])
        return self._solve(cost, parts, (self.lower, self.upper), seconds)

    def fit(
        self, target: ndarray, tangent: Tangent, bounds: Ends, seconds: float = np.inf
    ) -> ndarray | None:
        """Return the point nearest to a target, with outputs on their linearisation if possible.

        Parameters
        ----------
        target : np.ndarray
            A full assignment.
        tangent : Tangent
            Linearisation of the networks.
        bounds : tuple of np.ndarray
            Lower and upper bounds of all variables.
        seconds : float
            Time limit.

        Returns
        -------
        np.ndarray or None
            A point of the user's constraints; None if the solver finds none.
        """
        first = self.milp.n_variables + 2 * len(self.outputs)
        distance = self._distance(self.inputs, target, first)
        parts = [self.constraints, *self._linearisation(tangent, bounds), distance]
        slack = np.full(2 * len(self.outputs), LINEARISATION_PENALTY)
        cost = np.concatenate([np.zeros(self.milp.n_variables), slack, 1.0 / self.range])
        return self._solve(cost, parts, bounds, seconds)

    def choose(self, parts: list[Constraints], start: ndarray) -> ndarray | None:
        """Return the best point of the user's constraints and further ones with binaries.

        Parameters
        ----------
        parts : list of Constraints
            Constraints on the user's variables and the binaries behind them.
        start : np.ndarray
            A feasible point of this model.

        Returns
        -------
        np.ndarray or None
            Values of all variables and binaries; None if the solver finds none.
        """
        s = self.milp
        parts = [self.constraints, *parts]
        program = self._program(s.sign * s.cost, parts, (s.lower, s.upper), binary=True)
        return self._run_solver(program, start=start).point

    def _linearisation(self, tangent: Tangent, bounds: Ends) -> list[Constraints]:
        """Tie the outputs to the linearisation of their networks, up to slack."""
        return [self._regression(tangent), *self._classification(tangent, bounds)]

    def _regression(self, tangent: Tangent) -> Constraints:
        regression = np.flatnonzero(~self.classes)
        jacobian = tangent.jacobian[regression].tocoo()
        offset = tangent.offset[regression]
        return Constraints.terms(
            offset,
            offset,
            (jacobian.row, jacobian.col, -jacobian.data),
            (np.arange(len(regression)), self.outputs[regression], 1.0),
            *self._slack(regression, self.units[regression]),
        )

    def _slack(self, outputs: ndarray, unit: ndarray) -> tuple[Term, Term]:
        """The terms -unit p + unit q of the slacks of some outputs."""
        row = np.arange(len(outputs))
        above = self.milp.n_variables + outputs
        below = above + len(self.outputs)
        return (row, above, -unit), (row, below, unit)

    def _classification(self, tangent: Tangent, bounds: Ends) -> list[Constraints]:
        """Big-M constraints that tie a class to the sign of its logit, up to slack."""
        classes = np.flatnonzero(self.classes)
        offset = tangent.offset[classes]
        lowest, highest = _range_of_linearisation(tangent.jacobian[classes], offset, bounds)
        margin = LOGIT_STEP_MARGIN * self.units[classes]
        missing = np.full(len(classes), np.inf)
        big_m_on = np.maximum(0.0, margin - lowest)
        big_m_off = np.maximum(0.0, highest)
        above, below = self._slack(classes, -self.units[classes])
        terms_on = *self._logits(tangent, classes, big_m_on), above
        terms_off = *self._logits(tangent, classes, big_m_off), below
        return [
            Constraints.terms(margin - big_m_on - offset, missing, *terms_on),
            Constraints.terms(-missing, -offset, *terms_off),
        ]

    def _logits(self, tangent: Tangent, classes: ndarray, big_m: ndarray) -> tuple[Term, Term]:
        """The terms J v - M y of some classes."""
        jacobian = tangent.jacobian[classes].tocoo()
        switches = np.arange(len(classes)), self.outputs[classes], -big_m
        return (jacobian.row, jacobian.col, jacobian.data), switches

    def _moves(self, point: ndarray, radius: float | ndarray) -> list[Constraints]:
        """Limit the sum of the unit moves of integer inputs in proportion to the radius."""
        if not self.integer.any():
            return []
        most_moves = max(2.0, 2.0 * float((radius * self.integer).sum()))
        general = self.inputs[self.integer & ~self.binary]
        first = self.milp.n_variables + 2 * len(self.outputs)
        switch = self.inputs[self.binary]
        direction = 1.0 - 2.0 * (point[switch] - self.milp.lower[switch])
        column = np.concatenate([switch, first + np.arange(len(general))])
        weight = np.concatenate([direction, np.ones(len(general))])
        entries = np.zeros(len(column), dtype=int), column, weight
        upper = np.array([most_moves + direction @ point[switch]])
        total = Constraints.terms(np.array([-np.inf]), upper, entries)
        return [self._distance(general, point, first), total]

    def _distance(self, variables: ndarray, target: ndarray, first: int) -> Constraints:
        """Constraints t >= |v - target| for some variables, with t from column `first` on."""
        count = len(variables)
        row = np.arange(count)
        distance = first + row
        missing = np.full(count, np.inf)
        goal = target[variables]
        return Constraints.terms(
            np.concatenate([-missing, goal]),
            np.concatenate([goal, missing]),
            (row, variables, 1.0),
            (row, distance, -1.0),
            (count + row, variables, 1.0),
            (count + row, distance, 1.0),
        )

    def _trial_point(
        self, parts: list[Constraints], bounds: Ends, price: float, seconds: float
    ) -> TrialPoint | None:
        """Minimise cost and penalised slack."""
        n = self.milp.n_variables
        n_slacks = 2 * len(self.outputs)
        cost = np.concatenate([self.cost, np.full(n_slacks, price)])
        program = self._program(cost, [self.constraints, *parts], bounds)
        found = self._run_solver(program, seconds).point
        if found is None:
            return None
        values = found[:n]
        slack = np.maximum(found[n : n + n_slacks], 0.0)
        return TrialPoint(values, float(self.cost @ values), float(slack.sum()))

    def _solve(
        self, cost: ndarray, parts: list[Constraints], bounds: Ends, seconds: float
    ) -> ndarray | None:
        """Solve, and return the values of the user's variables."""
        found = self._run_solver(self._program(cost, parts, bounds), seconds).point
        return None if found is None else found[: self.milp.n_variables]

    def _program(
        self, cost: ndarray, parts: list[Constraints], bounds: Ends, binary: bool = False
    ) -> Program:
        """A program whose columns behind the user's variables are nonnegative or binary.

        Columns behind the end of `cost` have no cost.
        """
        stacked = Constraints.stack(parts)
        width = max(len(cost), int(stacked.column.max(initial=-1)) + 1)
        n_added = width - self.milp.n_variables
        added_upper = np.full(n_added, 1.0 if binary else np.inf)
        entries = stacked.weight, (stacked.row, stacked.column)
        return Program(
            np.pad(cost, (0, width - len(cost))),
            Rows.of(sp.csr_matrix(entries, shape=(len(stacked.lower), width))),
            stacked.lower,
            stacked.upper,
            np.pad(bounds[0], (0, n_added)),
            np.concatenate([bounds[1], added_upper]),
            np.pad(self.milp.integer, (0, n_added), constant_values=binary),
        )

    def _run_solver(
        self, program: Program, seconds: float = np.inf, start: ndarray | None = None
    ) -> MIPResult:
        seconds = min(seconds, seconds_to_deadline())
        if self.milp.others:
            result = solve_with_scip(self.instance.model, program, seconds, self.seed)
        else:
            result = solve_program(program, seconds, seed=self.seed, start=start)
        self.work += result.work
        return result


def fixed_bounds(bounds: Ends, variables: ndarray, values: ndarray) -> Ends:
    """Return bounds in which some variables are fixed to their values in a full assignment.

    Parameters
    ----------
    bounds : tuple of np.ndarray
        Lower and upper bounds of all variables.
    variables : np.ndarray
        Indices or a mask.
    values : np.ndarray
        A full assignment.

    Returns
    -------
    tuple of np.ndarray
        Lower and upper bounds.
    """
    lower = bounds[0].copy()
    upper = bounds[1].copy()
    lower[variables] = values[variables]
    upper[variables] = values[variables]
    return lower, upper


def _range_of_linearisation(jacobian: sp.csr_matrix, offset: ndarray, bounds: Ends) -> Ends:
    """Smallest and largest values of linear functions in a box; infinite bounds count as 0."""
    low = np.where(np.isfinite(bounds[0]), bounds[0], 0.0)
    high = np.where(np.isfinite(bounds[1]), bounds[1], 0.0)
    positive = jacobian.maximum(0)
    negative = jacobian.minimum(0)
    lowest = offset + positive @ low + negative @ high
    highest = offset + positive @ high + negative @ low
    return lowest, highest


if not TYPE_CHECKING:  # which would accept any name
    __getattr__ = renamed_names(
        __name__,
        Elastic="ddmip_lib.linearisation.elastic.ElasticModel",
        Point="ddmip_lib.linearisation.elastic.TrialPoint",
    )

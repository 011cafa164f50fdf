r"""The elastic model: a MIP with linearised networks and penalised slack on their outputs.

It is feasible whenever the user's constraints are. At a point $v$ with inputs $x_v$, network
values $f$ and Jacobian $J$ the constraint $y = f(x)$ becomes $y = f + J(x - x_v) + \tau (p - q)$
with slacks $p, q \ge 0$ that are penalised; $\tau$ is the unit of the output.

The output $y \in \{0, 1\}$ of a classifier is 1 where the logit is positive. For the linearisation
$\ell$ of the logit and a margin $\epsilon$ it is tied by the Big-M constraints
$\ell + \tau p \ge \epsilon - M(1 - y)$ and $\ell - \tau q \le My$.

The trust region of radius $\Delta$ bounds the change of each input by $\Delta$ times its range; an
integer may always change by 1. In addition the changes of all $n$ integer inputs sum to at most
$\max(2, 2 n \Delta)$. See Nocedal and Wright, *Numerical Optimization* (2006), 18.5, for the
elastic mode.
"""

from copy import copy
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy import ndarray

from ..clock import check_time, seconds_to_deadline
from ..model.instance import Instance
from ..programs import Program
from ..programs.mip import MIPResult, solve_program, solve_with_scip
from ..programs.program import Rows
from ..proofs.encoding import Ends, tighten_at
from ..renamed import renamed_names
from .tangent import Tangent

# Margin of the linearised logit of class 1 from 0, in units of the logit.
LOGIT_STEP_MARGIN = 1e-6
# Penalty in `fit` of a unit of output slack; crossing the range of one input costs 1.
LINEARISATION_PENALTY = 1e4
# Random points at which outputs are evaluated to find their units.
OUTPUT_SAMPLES = 8
# An output whose values differ by less than this fraction of the largest one counts as constant.
MIN_RELATIVE_SPREAD = 1e-9


class TrialPoint(NamedTuple):
    """A full assignment with its objective and its infeasibility, as steps return it.

    Attributes
    ----------
    values : np.ndarray
        One value for each variable of the model.
    cost : float
        The objective of the minimisation, without its constant term.
    infeasibility : float
        Sum of the output slacks, each in units of its output.
    """

    values: ndarray
    cost: float
    infeasibility: float

    def merit(self, price: float) -> float:
        """Return the l1 merit function: cost plus `price`, the penalty parameter, times
        infeasibility.

        Examples
        --------
        >>> TrialPoint(np.zeros(2), cost=1.0, infeasibility=0.5).merit(price=10.0)
        6.0
        """
        return self.cost + price * self.infeasibility


class Constraints(NamedTuple):
    """Linear constraints ``lower <= matrix @ v <= upper`` on the first variables v of a program.

    Attributes
    ----------
    matrix : sp.csr_matrix
        Coefficients, with a column for each of these variables.
    lower, upper : np.ndarray
        Left- and right-hand sides, infinite where there is none.
    """

    matrix: sp.csr_matrix
    lower: ndarray
    upper: ndarray


class ElasticModel:
    """The elastic model of one instance, and the MIPs that are derived from it.

    The columns of each MIP are the user's variables, followed by auxiliary ones (slacks, distances
    or binaries). A solver stops at the time limit `seconds`, or before where the call of the method
    has less time left (`ddmip_lib.clock`).

    Parameters
    ----------
    instance : Instance
        The model with its networks.
    seed : int
        Seed of the solvers and of the random points that determine units.

    Attributes
    ----------
    inputs, outputs : np.ndarray
        Indices of the variables that are network inputs (without fixed ones), and of those that
        are network outputs.
    range : np.ndarray
        Upper minus lower bound of each input.
    integer, binary : np.ndarray
        Masks of the inputs that are integer, and of those among them with two values.
    classes : np.ndarray
        Mask of the outputs that are classes (0 or 1).
    units : np.ndarray
        Unit of each network value (of a class: its logit), the range of its values in the box.
    output_units : np.ndarray
        The same for the outputs, of which classes have the unit 1.
    objective_unit : float
        Unit of the objective: its largest change when one variable crosses its range.
    work : float
        Simplex iterations of all solves so far.
    """

    def __init__(self, instance: Instance, seed: int = 0) -> None:
        s = instance.milp
        self.milp = s
        self.instance = instance
        self.seed = seed
        self.work = 0.0
        self.cost = s.sign * s.cost
        self.bounds: Ends = s.lower.copy(), s.upper.copy()
        self.constraints = Constraints(s.rows, *s.sides)
        self.inputs = instance.free_inputs
        self.range = s.upper[self.inputs] - s.lower[self.inputs]
        self.integer = s.integer[self.inputs]
        self.binary = self.integer & (self.range == 1)
        self.outputs = instance.outputs
        self.n_columns = s.n_variables + 2 * len(self.outputs)  # without distances
        self.selected_outputs = sp.eye(s.n_variables, format="csr")[self.outputs]
        self.classes = instance.classes
        self.units = self._sizes()
        self.output_units = np.where(self.classes, 1.0, self.units)
        unit = sp.diags(self.output_units)
        self.outputs_and_slack = sp.hstack([self.selected_outputs, -unit, unit], format="csr")
        span = _finite(s.upper - s.lower)
        span[self.outputs] = self.output_units
        self.objective_unit = float((np.abs(s.cost) * span).max(initial=0.0)) or 1.0

    def _sizes(self) -> ndarray:
        """Range of each network value over sampled points; for constants their size, or 1."""
        s = self.milp
        rng = np.random.default_rng(self.seed)
        low = _finite(s.lower)
        high = _finite(s.upper)
        drawn = low + (high - low) * rng.random((OUTPUT_SAMPLES, len(low)))
        points = map(self.instance.rounded, (low, high, *drawn))
        raws = map(self.instance.raw_outputs, points)
        values = np.array([np.concatenate(raw, axis=None) for raw in raws])
        values = values[np.isfinite(values).all(axis=1)]
        largest = np.abs(values).max(axis=0, initial=0.0)
        spread = np.ptp(values, axis=0) if len(values) else largest
        constant = np.where(largest > 0, largest, 1.0)
        return np.where(spread > MIN_RELATIVE_SPREAD * largest, spread, constant)

    def with_cost(self, cost: ndarray) -> Self:
        """Return a copy of the model that minimises another cost vector."""
        other = copy(self)
        other.cost = cost
        return other

    def inputs_at(self, fraction: ndarray | float) -> ndarray:
        """Return values of the network inputs, given as fractions of their ranges."""
        return self.milp.lower[self.inputs] + self.range * fraction

    def box(self, point: ndarray, radius: float | ndarray) -> Ends:
        """Return bounds of all variables, with the network inputs within a radius of a point.

        Parameters
        ----------
        point : np.ndarray
            A full assignment.
        radius : float or np.ndarray
            Radius as a fraction of each input's range; integers may always change by 1.

        Returns
        -------
        tuple of np.ndarray
            Lower and upper bounds.
        """
        at = self.inputs
        width = radius * self.range
        width = np.where(self.integer, np.maximum(1.0, np.round(width)), width)
        bounds = self.bounds[0].copy(), self.bounds[1].copy()
        tighten_at(bounds, at, point[at] - width, point[at] + width)
        return bounds

    def step(
        self,
        point: ndarray,
        tangent: Tangent,
        radius: float | ndarray,
        price: float,
        seconds: float = np.inf,
    ) -> TrialPoint | None:
        """Minimise cost plus penalised slack over the trust region: a step of the method.

        Parameters
        ----------
        point : np.ndarray
            A full assignment, the centre of the trust region.
        tangent : Tangent
            Linearisation of the networks there.
        radius : float or np.ndarray
            Radius as a fraction of each input's range.
        price : float
            Penalty parameter: cost of a unit of output slack.
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
        """Optimise the other variables for fixed network inputs.

        Outputs are tied to the values of the networks at these inputs, up to penalised slack.

        Parameters
        ----------
        values : np.ndarray
            A full assignment, of which only the network inputs are used.
        price : float
            Penalty parameter: cost of a unit of output slack.
        seconds : float
            Time limit.

        Returns
        -------
        TrialPoint or None
            None if a network is not finite there or the solver finds no point.
        """
        s = self.milp
        values = np.clip(self.instance.rounded(values), s.lower, s.upper)
        predicted = self.instance.with_outputs(values)[self.outputs]
        if not np.isfinite(predicted).all():
            return None
        bounds = fixed_bounds(self.bounds, self.inputs, values)
        tied = Constraints(self.outputs_and_slack, predicted, predicted)
        return self._trial_point([tied], bounds, price, seconds)

    def nearest(self, target: ndarray, seconds: float = np.inf) -> ndarray | None:
        """Return the point of the user's constraints with network inputs nearest to a target's.

        The distance is the l1 norm in units of the inputs' ranges. Outputs are not tied to the
        networks.

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
        return self.fit(target, None, self.bounds, seconds)

    def fit(
        self, target: ndarray, tangent: Tangent | None, bounds: Ends, seconds: float = np.inf
    ) -> ndarray | None:
        """Return the point nearest to a target, with outputs on their linearisation if possible.

        The distance is that of `nearest`; a high penalty keeps outputs on the linearisation.

        Parameters
        ----------
        target : np.ndarray
            A full assignment.
        tangent : Tangent or None
            Linearisation of the networks; without one the outputs are free.
        bounds : tuple of np.ndarray
            Lower and upper bounds of all variables.
        seconds : float
            Time limit.

        Returns
        -------
        np.ndarray or None
            A point of the user's constraints; None if the solver finds none.
        """
        n = self.milp.n_variables
        cost = np.zeros(n)
        parts = []
        if tangent is not None:
            parts = self._linearisation(tangent, bounds)
            cost = np.pad(cost, (0, self.n_columns - n), constant_values=LINEARISATION_PENALTY)
        parts.append(self._distance(self.inputs, target, len(cost)))
        program = self._program(np.append(cost, 1.0 / self.range), parts, bounds)
        found = self._run_solver(program, seconds).point
        return None if found is None else found[:n]

    def minimise(self, cost: ndarray, seconds: float = np.inf) -> ndarray | None:
        """Minimise a cost subject to the user's constraints, with the outputs free.

        Parameters
        ----------
        cost : np.ndarray
            Cost of each variable.
        seconds : float
            Time limit.

        Returns
        -------
        np.ndarray or None
            A point of the user's constraints; None if the solver finds none.
        """
        return self._run_solver(self._program(cost, [], self.bounds), seconds).point

    def merits(self, points: ndarray, price: float, unit: ndarray) -> tuple[ndarray, ndarray]:
        """Return the l1 merits of points as they are, and their signed constraint violations.

        Parameters
        ----------
        points : np.ndarray
            One full assignment in each row.
        price : float
            Penalty of a unit of violation.
        unit : np.ndarray
            Unit of each constraint.

        Returns
        -------
        tuple of np.ndarray
            Merits, infinite where they are not finite; and violations, positive above a constraint.
        """
        s = self.milp
        activity = points @ s.rows.T
        excess = activity - np.clip(activity, *s.sides)
        merits = points @ self.cost + price * (np.abs(excess) / unit).sum(axis=1)
        return np.where(np.isfinite(merits), merits, np.inf), excess

    def choose(self, parts: list[Constraints], start: ndarray) -> ndarray | None:
        """Minimise the objective subject to the user's and further constraints.

        Parameters
        ----------
        parts : list of Constraints
            Constraints on the user's variables and auxiliary binaries, whose columns follow them.
        start : np.ndarray
            A feasible point of this model.

        Returns
        -------
        np.ndarray or None
            Values of all variables and binaries; None if the solver finds none.
        """
        program = self._program(self.cost, parts, self.bounds, binary=True)
        return self._run_solver(program, start=start).point

    def _linearisation(self, tangent: Tangent, bounds: Ends) -> list[Constraints]:
        """Constraints that tie the outputs to the linearisation of their networks, up to slack.

        Those of the outputs that are not classes are y - J v - slack = offset.
        """
        regression = ~self.classes
        error = self.outputs_and_slack - _widened(tangent.jacobian, self.n_columns)
        offset = tangent.offset[regression]
        parts = [Constraints(error[regression], offset, offset)]
        if self.classes.any():
            parts.append(self._classification(tangent, bounds))
        return parts

    def _classification(self, tangent: Tangent, bounds: Ends) -> Constraints:
        """Big-M constraints that tie a class to the sign of its logit, up to slack."""
        offset = tangent.offset
        margin = LOGIT_STEP_MARGIN * self.units
        big_m_on, big_m_off = _big_m(tangent, bounds, margin)
        on = tangent.jacobian - sp.diags(big_m_on) @ self.selected_outputs
        off = tangent.jacobian - sp.diags(big_m_off) @ self.selected_outputs
        unit = sp.diags(self.units)
        matrix = sp.bmat([[on, unit, None], [off, None, -unit]], format="csr")
        missing = np.full(len(margin), np.inf)
        lower = np.concatenate([margin - big_m_on - offset, -missing])
        upper = np.concatenate([missing, -offset])
        classes = np.tile(self.classes, 2)
        return Constraints(matrix[classes], lower[classes], upper[classes])

    def _moves(self, point: ndarray, radius: float | ndarray) -> list[Constraints]:
        """Constraints of the trust region on the sum of the changes of all integer inputs."""
        if not self.integer.any():
            return []
        most_moves = max(2.0, 2.0 * float((radius * self.integer).sum()))
        general = self.inputs[self.integer & ~self.binary]
        switch = self.inputs[self.binary]
        direction = 1.0 - 2.0 * (point[switch] - self.milp.lower[switch])
        moves = np.repeat([[0.0, 1.0]], [self.n_columns, len(general)], axis=1)
        moves[:, switch] = direction
        upper = np.array([most_moves + direction @ point[switch]])
        total = Constraints(sp.csr_matrix(moves), np.array([-np.inf]), upper)
        return [self._distance(general, point, self.n_columns), total]

    def _distance(self, variables: ndarray, target: ndarray, first: int) -> Constraints:
        """Constraints t >= |v - target| for some variables; the columns of t begin at `first`."""
        selected = sp.eye(first, format="csr")[variables]
        distance = sp.eye(len(variables))
        matrix = sp.bmat([[selected, -distance], [selected, distance]], format="csr")
        goal = target[variables]
        missing = np.full(len(variables), np.inf)
        lower = np.concatenate([-missing, goal])
        return Constraints(matrix, lower, np.concatenate([goal, missing]))

    def _trial_point(
        self, parts: list[Constraints], bounds: Ends, price: float, seconds: float
    ) -> TrialPoint | None:
        """Minimise cost plus penalised slack."""
        n = self.milp.n_variables
        cost = np.pad(self.cost, (0, self.n_columns - n), constant_values=price)
        found = self._run_solver(self._program(cost, parts, bounds), seconds).point
        if found is None:
            return None
        values = found[:n]
        slack = np.maximum(found[n : len(cost)], 0.0)
        return TrialPoint(values, float(self.cost @ values), float(slack.sum()))

    def _program(
        self, cost: ndarray, parts: list[Constraints], bounds: Ends, binary: bool = False
    ) -> Program:
        """The user's and further constraints; columns after the user's variables are nonnegative
        or binary, those after the end of `cost` have cost zero.
        """
        matrices, lower, upper = zip(self.constraints, *parts, strict=True)
        width = max(len(cost), *(matrix.shape[1] for matrix in matrices))
        n_added = width - self.milp.n_variables
        wide = [_widened(matrix, width) for matrix in matrices]
        return Program(
            np.pad(cost, (0, width - len(cost))),
            Rows.of(sp.vstack(wide, format="csr")),
            np.concatenate(lower),
            np.concatenate(upper),
            np.pad(bounds[0], (0, n_added)),
            np.pad(bounds[1], (0, n_added), constant_values=1.0 if binary else np.inf),
            np.pad(self.milp.integer, (0, n_added), constant_values=binary),
        )

    def _run_solver(
        self, program: Program, seconds: float = np.inf, start: ndarray | None = None
    ) -> MIPResult:
        seconds = min(seconds, seconds_to_deadline())
        if self.milp.others:  # constraints that are not linear, which only SCIP handles
            result = solve_with_scip(self.instance.model, program, seconds, self.seed)
        else:
            result = solve_program(program, seconds, seed=self.seed, start=start)
        self.work += result.work
        return result


def set_outputs(instance: Instance, points: ndarray) -> None:
    """Evaluate each network at several points together, and write its outputs into them.

    Parameters
    ----------
    instance : Instance
        The model with its networks.
    points : np.ndarray
        One full assignment in each row.
    """
    for predictor, mapping in instance.networks:
        check_time()
        inputs = np.where(mapping.index >= 0, points[:, mapping.index], mapping.constant)
        raw = predictor.raw(inputs.reshape(-1, mapping.index.shape[1]))
        values = predictor.outputs_of(raw).reshape(len(points), -1)
        points[:, mapping.output.ravel()] = values


def fixed_bounds(bounds: Ends, variables: ndarray, values: ndarray) -> Ends:
    """Return bounds in which some variables are fixed to their values in a full assignment.

    Parameters
    ----------
    bounds : tuple of np.ndarray
        Lower and upper bounds of all variables.
    variables : np.ndarray
        Indices of the variables to be fixed, or a mask.
    values : np.ndarray
        A full assignment.

    Returns
    -------
    tuple of np.ndarray
        Lower and upper bounds.
    """
    fixed = bounds[0].copy(), bounds[1].copy()
    for end in fixed:
        end[variables] = values[variables]
    return fixed


def _widened(matrix: sp.csr_matrix, width: int) -> sp.csr_matrix:
    """Append columns of zeros."""
    entries = matrix.data, matrix.indices, matrix.indptr
    return sp.csr_matrix(entries, (matrix.shape[0], width))


def _finite(values: ndarray) -> ndarray:
    return np.where(np.isfinite(values), values, 0.0)


def _big_m(tangent: Tangent, bounds: Ends, margin: ndarray) -> Ends:
    """How far logits in a box may be below a margin, and above 0.

    Infinite bounds are replaced by 0: inputs of networks have finite ones.
    """
    low = _finite(bounds[0])
    high = _finite(bounds[1])
    positive = tangent.jacobian.maximum(0)
    negative = tangent.jacobian.minimum(0)
    lowest = tangent.offset + positive @ low + negative @ high
    highest = tangent.offset + positive @ high + negative @ low
    return np.maximum(0.0, margin - lowest), np.maximum(0.0, highest)


if not TYPE_CHECKING:  # which would accept any name
    __getattr__ = renamed_names(
        __name__,
        Elastic="ddmip_lib.linearisation.elastic.ElasticModel",
        Point="ddmip_lib.linearisation.elastic.TrialPoint",
    )

r"""Column generation for blocks of any form: own constraints, integers, several outputs.

At prices $\pi$ of the coupling constraints every block minimises
$c_b^\top v_b + \pi^\top L_b v_b$ by sequential MIP in a trust region: its networks are linearised
at its point, a small MILP is solved, the true outputs are evaluated and completed to a point, and
the decrease is tested. All blocks make their steps in one model (`SeparableElasticModel`) and by
one pass through the networks; the point that each attains is a column (`general_columns`). The best
choice of columns is refined by the same steps with the coupling constraints in place.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from ..linearisation.elastic import Constraints, ElasticModel, fixed_bounds
from ..linearisation.tangent import linearise
from ..linearisation.trust_region import MAX_RADIUS, MIN_RADIUS, SHRINKING_FACTOR
from ..methods.run import Run
from ..model.incumbent import Incumbent
from ..model.instance import Instance
from ..model.progress import report_progress
from ..model.structure import Structure
from .general_columns import GeneralColumns
from .state import ColumnGeneration

MAX_BLOCK_STEPS = 8
"""Number of steps of one path of single blocks."""
MAX_JOINT_STEPS = 24
"""Number of steps of one path of all blocks, which satisfies equalities only after many."""
RANDOM_POINTS_PER_ROUND = 4
"""Number of random points of a round, since networks with integer inputs have many local minima."""
OUTPUT_PENALTY = 100.0
"""Penalty of one unit of output error, in units of the largest cost."""
STEP_SECONDS = 3.0
"""Time limit of one step."""
CHOICE_SECONDS = 3.0
"""Time limit of one choice of columns."""


class JointElasticModel(ElasticModel):
    """The elastic model of all blocks together.

    Output errors have the same unit for all outputs, and integers are not limited to small moves.

    Attributes
    ----------
    part, n_parts
        Part of each variable, from 0 on, and their number: steps of different parts are accepted or
        rejected separately. All blocks together are one part.
    max_steps
        Number of steps of one path.
    """

    n_parts = 1
    max_steps = MAX_JOINT_STEPS

    @property
    def part(self) -> ndarray:
        return np.zeros(self.milp.n_variables, dtype=int)

    @property
    def penalty(self) -> float:
        """Penalty of one unit of output error."""
        return OUTPUT_PENALTY * max(float(np.abs(self.cost).max()), 1e-9)

    def _sizes(self) -> ndarray:
        return np.ones(len(self.outputs))

    def _moves(self, point: ndarray, radius: float | ndarray) -> list[Constraints]:
        return []


class SeparableElasticModel(JointElasticModel):
    """The elastic model without coupling constraints, whose solution is optimal for every block.

    Parameters
    ----------
    instance
        The problem.
    structure
        Its blocks, which are the parts.
    """

    max_steps = MAX_BLOCK_STEPS

    def __init__(self, instance: Instance, structure: Structure) -> None:
        super().__init__(instance)
        s = instance.milp
        own = ~structure.coupling
        self.block = structure.block
        self.n_parts = structure.n
        self.constraints = Constraints(s.rows[own], s.row_lower[own], s.row_upper[own])
        nearest_to_zero = np.clip(0.0, s.lower, s.upper)
        self.bounds = fixed_bounds(self.bounds, structure.block < 0, nearest_to_zero)

    @property
    def part(self) -> ndarray:
        return self.block


class GeneralColumnGeneration(ColumnGeneration):
    """Column generation for the blocks of one problem.

    Parameters
    ----------
    incumbent
        The best verified point, which is improved.
    structure
        The blocks.
    deadline
        End of the run, by the clock in force.
    seed
        Seed of all random numbers.

    Attributes
    ----------
    pool
        The columns found so far.
    lp
        Solution of the linear program over them, None before the first.
    """

    def __init__(
        self, incumbent: Incumbent, structure: Structure, deadline: float, seed: int
    ) -> None:
        self.incumbent = incumbent
        self.structure = structure
        self.deadline = deadline
        self.pool: GeneralColumns = GeneralColumns(incumbent, structure)
        self.draw = np.random.default_rng(seed)
        self.instance = incumbent.instance
        self.separable = SeparableElasticModel(self.instance, structure)
        self.joint = JointElasticModel(self.instance)

    @property
    def step_seconds(self) -> float:
        """Time limit of the next step."""
        return min(STEP_SECONDS, 0.05 * self.seconds_left + 0.05)

    def run(self, run: Run, max_rounds: int, max_failed_rounds: int) -> str:
        """Run rounds until nothing new is found.

        They start from the problem's start, then from the best known columns and from random points
        alternately.

        Parameters
        ----------
        run
            The call of the method.
        max_rounds
            Largest number of rounds.
        max_failed_rounds
            Number of pairs of rounds in a row without progress after which the rounds end.

        Returns
        -------
        str
            The status.
        """
        failed = 0
        before = None
        for k in range(max_rounds):
            if self.seconds_left <= 0:
                return "time_limit"
            if failed >= 2 * max_failed_rounds:
                return "converged"
            if k == 0 and run.start is not None:
                start = self.instance.assignment(run.start, rest=0.0)
            elif k % 2 == 1 and self.lp is not None:
                reduced = self.pool.reduced(self.lp)
                start = self.pool.assembled(np.argsort(reduced, kind="stable"))
            else:
                start = self._random_point()
            self.round(start)
            report_progress(turn=True)
            if run.notify():
                return "stopped"
            lp_value = None if self.lp is None else round(self.lp.value, 9)
            found = self.incumbent.objective, lp_value
            failed = failed + 1 if found == before else 0
            before = found
        return "iteration_limit"

    def details(self) -> dict[str, Any]:
        """Return the details of a solution; prices are those of a minimisation."""
        found: dict[str, Any] = {"options": len(self.pool), "structure": self.structure}
        found |= super().details()
        if "prices" in found:
            found["prices"] = -found["prices"]
        return found

    def round(self, start: ndarray) -> None:
        """Generate columns, solve the linear program, choose columns and refine a choice.

        Parameters
        ----------
        start
            Start of the path of single blocks.
        """
        before = self.incumbent.objective
        for _ in range(RANDOM_POINTS_PER_ROUND):
            if self.seconds_left > 0:
                self._add_columns(self._random_point())
        self._follow_path(start, self.separable.with_cost(self._reduced_cost()))
        self.choose()
        if self.incumbent.values is not None and self.incumbent.objective != before:
            self._follow_path(self.incumbent.values, self.joint)
        elif self.lp is not None:
            drawn = self.lp.weights * self.draw.random(len(self.pool))
            columns = np.argsort(drawn, kind="stable")
            self._follow_path(self.pool.assembled(columns), self.joint)

    def _reduced_cost(self) -> ndarray:
        """Return the cost of each variable less its price; no resource has one at first."""
        s = self.instance.milp
        if self.lp is None:
            return s.sign * s.cost
        return self.lp.phase_factor * s.sign * s.cost + self.pool.coupling.T @ self.lp.prices

    def _random_point(self) -> ndarray:
        """Return a point with uniformly distributed network inputs."""
        s = self.instance.milp
        inputs = self.instance.free_inputs
        integer = s.integer[inputs]
        upper = s.upper[inputs]
        values = np.clip(0.0, s.lower, s.upper)
        drawn = self.draw.uniform(s.lower[inputs], upper + integer)
        values[inputs] = np.where(integer, np.minimum(np.floor(drawn), upper), drawn)
        return values

    def _follow_path(self, start: ndarray, model: JointElasticModel) -> None:
        """Make steps from near a start until all radii are too small or the time is over."""
        values = model.nearest(start, self.step_seconds)
        if values is None or self.seconds_left <= 0:
            return
        radius = np.full(model.n_parts, MAX_RADIUS)
        values, cost = self._completed(model, values)
        for _ in range(model.max_steps):
            if self.seconds_left <= 0 or (radius < MIN_RADIUS).all():
                break
            tangent = linearise(self.instance, values)
            radii = radius[model.part[model.inputs]]
            step = model.step(values, tangent, radii, model.penalty, self.step_seconds)
            if step is None:
                radius = SHRINKING_FACTOR * radius
                continue
            trial, trial_cost = self._completed(model, step.values)
            # infinite costs are no improvement over infinite ones
            tolerance = 1e-9 * np.abs(trial_cost).clip(1.0, 1e300)
            accepted = trial_cost < cost - tolerance
            values = np.where(accepted[model.part], trial, values)
            cost = np.where(accepted, trial_cost, cost)
            radius = np.where(accepted, radius, SHRINKING_FACTOR * radius)

    def _completed(self, model: JointElasticModel, values: ndarray) -> tuple[ndarray, ndarray]:
        """Return the completed point and the cost of its parts, infinite if there is none."""
        found = model.complete(values, model.penalty, self.step_seconds)
        if found is None:
            return values, np.full(model.n_parts, np.inf)
        error = np.abs(found.values - self.evaluate(found.values))
        cost = model.cost * found.values + model.penalty * error
        owned = model.part >= 0
        return found.values, np.bincount(model.part[owned], cost[owned], model.n_parts)

    def _add_columns(self, values: ndarray) -> None:
        """Complete a point near the inputs of `values` at the prices; its parts become columns."""
        point = self.separable.nearest(values, self.step_seconds)
        if point is not None:
            self._completed(self.separable.with_cost(self._reduced_cost()), point)

    def evaluate(self, values: ndarray) -> ndarray:
        """Return the point with true outputs; its parts become columns, and it is verified."""
        s = self.instance.milp
        evaluated = self.instance.with_outputs(np.clip(values, s.lower, s.upper))
        if np.isfinite(evaluated).all():
            self.pool.add(evaluated)
            self.incumbent.consider(evaluated)
        return evaluated

    def choose(self) -> None:
        """Solve the linear program and select the best columns.

        The choice is verified, and so is the best completion of its inputs.
        """
        if not len(self.pool):
            return
        lp = self.pool.prices()
        self.lp = lp
        if not lp.phase_factor or self.seconds_left <= 0:
            return
        s = self.instance.milp
        loss = np.inf  # reduced costs of the columns of a better choice lose less
        if self.incumbent.objective is not None:
            loss = s.sign * (self.incumbent.objective - s.offset) + lp.value + 1e-9
        among = np.flatnonzero(-self.pool.reduced(lp) <= loss)
        chosen = self.pool.choose(among, min(CHOICE_SECONDS, self.seconds_left))
        if chosen is not None and self.incumbent.consider(chosen).feasible:
            self.incumbent.consider_inputs(chosen, self.step_seconds)

    def gather(self, points: Sequence[Sequence[ndarray]]) -> None:
        """Add columns near evaluated points for at most half of the time, then choose.

        Parameters
        ----------
        points
            The points, each a list of input matrices.
        """
        seconds = self.seconds_left
        for point in points:
            if self.seconds_left < 0.5 * seconds:
                break
            self._add_columns(self.instance.assignment(list(point), rest=0.0))
        self.choose()

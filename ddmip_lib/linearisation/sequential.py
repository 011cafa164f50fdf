"""Sequential linearisation: MIPs with linearised networks, whose points the networks evaluate."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy import ndarray

from ..device import check_place
from ..methods import Callback, Method, Run
from ..model.incumbent import Incumbent
from ..model.progress import report_progress
from ..model.solution import Solution
from ..programs import prove
from ..proofs.encoding import relax_bounds, relaxed_program
from ..proofs.exact import has_exact_model
from ..renamed import renamed_fields
from .elastic import ElasticModel, TrialPoint
from .first_points import submit_first_points
from .local_search import UnitMoves
from .multistart import GradientMultistart
from .neighbourhood import TOO_LARGE, search_box
from .recombination import Crossover
from .repair import near_start
from .tangent import linearise
from .trust_region import TrustRegion

# Sum of the output slacks, in units of the outputs, up to which a point is verified.
MAX_OUTPUT_SLACK = 1e-6
# First penalty of a unit of output slack, in units of the objective.
INITIAL_PENALTY = 10.0
# Factor of the penalty after a descent whose end point is infeasible.
PENALTY_FACTOR = 20.0
# Increases of the penalty from one start.
MAX_PENALTY_INCREASES = 2
# Predicted decrease of the merit, relative to the objective, at which a descent ends.
MIN_PREDICTED_DECREASE = 1e-7
# Improvement of the incumbent, in units of the objective, that counts as progress.
MIN_IMPROVEMENT = 1e-6
# Fraction of the first radius below which a descent may be abandoned.
SMALL_RADIUS = 0.1
# Excess of the merit over the incumbent, in units of the objective, that abandons a descent.
ABANDONED_EXCESS = 0.05
# Starts in the whole box, before some are close to the incumbent.
GLOBAL_STARTS = 5
# Fractions of the incumbent's inputs that a start close to it draws again.
REDRAWN_FRACTIONS = (0.1, 0.25, 0.5)
# Branch-and-bound nodes of an exact model in a box.
EXACT_MODEL_NODES = 100
# Factor of these nodes where the box is that of the problem.
WHOLE_BOX_FACTOR = 20
# Time limit of an exact model in seconds, unless the run has taken longer so far.
EXACT_MODEL_SECONDS = 5.0
# First radius of an exact model's box, as a fraction of each input's range.
INITIAL_BOX_RADIUS = 0.1
# Smallest radius of an exact model's box.
MIN_BOX_RADIUS = 0.02
# Factor of this radius after an exact model that was not solved to tolerance.
BOX_SHRINKING_FACTOR = 0.6
# Simplex iterations of descents that one of an exact model is weighed with.
MIN_EXACT_COST_FACTOR = 2.0
# Growth of this factor after an exact model without progress.
EXACT_COST_GROWTH = 1.5
# Largest value of this factor.
MAX_EXACT_COST_FACTOR = 8.0


@renamed_fields(idle_starts="max_failed_starts")
@dataclass(frozen=True)
class SequentialMIP(Method):
    r"""Trust-region linearisation for differentiable networks, with integers handled by a MIP.

    In each step the networks are replaced by their linearisation (`ElasticModel`). The best point
    of this MIP in a trust region is completed by the true networks, and accepted if the l1 merit
    function, objective plus penalised infeasibility, decreases by at least 5 % of what was
    predicted (`TrustRegion`). At the end of a descent, integer inputs are changed by a unit, one or
    two at a time, and evaluated by the networks (`UnitMoves`).

    Without a feasible start, the first point is one of cheap candidates (`submit_first_points`).
    Starts are that of the problem, the middle of the box, end points of gradient runs
    (`GradientMultistart`), random points, and then also points close to the incumbent. For ReLU
    networks, *exact neighbourhoods* alternate with them: the exact model in a box around the
    incumbent, which grows as long as it is solved to tolerance. If networks have several samples, a
    MIP combines the (input, output) pairs evaluated for each (`Crossover`).

    Parameters
    ----------
    radius : float
        First radius of a trust region, as a fraction of each input's range.
    max_failed_starts : int
        The run ends after this number of starts in a row without a better point or a larger box
        solved to tolerance.
    neighbourhoods : bool
        Whether exact models are used.
    callback : callable, optional
        Is called with a `ProgressEvent` after each step.
    device : torch.device or str
        Where networks and derivatives are computed, in double precision; points are verified on
        the CPU.

    Raises
    ------
    ValueError
        If `radius` or `max_failed_starts` is out of range.

    Notes
    -----
    ``details["explored_radius"]`` is the radius of the largest box around the incumbent in which
    the exact model has no better point, by more than 1e-4 of it and by HiGHS's claim (1.0 is the
    whole problem); `local_bound` proves it.

    Examples
    --------
    >>> from ddmip_lib.problems import hand_sized
    >>> solution = SequentialMIP().solve(hand_sized())
    >>> solution.status, round(solution.objective, 6)
    ('converged', 0.5)
    """

    radius: float = 0.25
    max_failed_starts: int = 40
    neighbourhoods: bool = True
    callback: Callback | None = None
    device: torch.device | str = "cpu"
    method: ClassVar[str] = "sequential MIP"

    def __post_init__(self) -> None:
        if not 0 < self.radius <= 1:
            raise ValueError(
                f"radius={self.radius} must lie in (0, 1]: it is a fraction of each input's range."
            )
        if int(self.max_failed_starts) != self.max_failed_starts or self.max_failed_starts < 1:
            raise ValueError(
                f"max_failed_starts={self.max_failed_starts} must be a positive integer."
            )
        check_place(self.device, torch.float64)

    def run(self, run: Run) -> Solution:
        """Descend from one start after the other.

        Parameters
        ----------
        run : Run
            Problem, time limit and seed.

        Returns
        -------
        Solution
            The best verified point.
        """
        device = torch.device(self.device)
        screen_on = None if device.type == "cpu" else device
        incumbent = run.incumbent(screen_on=screen_on, repair=near_start)
        submit_first_points(run, incumbent)
        state = MultistartState(self, run, incumbent)
        status = state.search()
        run.details = state.details
        return run.solution(status)


class MultistartState:
    """State of one run: its elastic model, its incumbent, and its counts.

    Parameters
    ----------
    settings : SequentialMIP
        The method's parameters.
    run : Run
        Problem, time limit and seed.
    incumbent : Incumbent
        The best point so far.

    Attributes
    ----------
    starts, failed_starts, completed_starts : int
        Starts; the last of them in a row without progress; those that had a completion.
    box_radius, explored_radius : float
        Radius of the next exact model's box, and of the largest one solved to tolerance.
    exact : bool
        Whether exact models are solved.
    work : float
        Work of exact models so far, weighed by `exact_cost_factor`.
    """

    def __init__(self, settings: SequentialMIP, run: Run, incumbent: Incumbent) -> None:
        self.settings = settings
        self.run = run
        self.incumbent = incumbent
        self.elastic = ElasticModel(incumbent.screening_instance, run.seed)
        self.penalty = INITIAL_PENALTY * self.elastic.objective_unit
        self.rng = np.random.default_rng(run.seed)
        self.crossover = Crossover(self.elastic)
        self.moves = UnitMoves(self.elastic, self.rng)
        self.gradient_runs = GradientMultistart(self.elastic, self.moves.norm, self.rng)
        self.exact = settings.neighbourhoods and has_exact_model(run.instance)
        self.box_radius = INITIAL_BOX_RADIUS
        self.explored_radius = 0.0
        self.work = 0.0
        self.exact_cost_factor = MIN_EXACT_COST_FACTOR
        self.starts = 0
        self.failed_starts = 0
        self.completed_starts = 0
        self.steps = 0
        self.exact_models = 0
        self.stopped = False  # by the callback

    @property
    def over(self) -> bool:
        """Whether the callback or the time limit ends the run."""
        return self.stopped or self.run.seconds_left <= 0

    @property
    def finished(self) -> bool:
        """Whether nothing is left to try."""
        if self.explored_radius >= 1.0 or self.failed_starts >= self.settings.max_failed_starts:
            return True
        return not self.completed_starts and self.starts >= GLOBAL_STARTS

    @property
    def details(self) -> dict[str, Any]:
        """Counts of the run."""
        names = ["starts", "steps", "exact_models"]
        if self.exact:
            names.append("explored_radius")
        return {name: getattr(self, name) for name in names}

    def search(self) -> str:
        """Make starts and exact models until nothing is left to try.

        Returns
        -------
        str
            The status.
        """
        while not self.finished:
            if self.run.seconds_left <= 0:
                return "time_limit"
            self.iterate()
            report_progress(turn=True)
            if self.stopped:
                return "stopped"
        if self.incumbent.objective is not None:
            return "converged"
        if not self.completed_starts and self._constraints_are_infeasible():
            return "infeasible"
        return "no_solution_found"

    def _constraints_are_infeasible(self) -> bool:
        """Prove that the linear constraints have no point, whatever the networks predict."""
        instance = self.run.instance
        units = self.incumbent.units
        relaxed = relaxed_program(instance, units, *relax_bounds(instance, units))
        proved = prove(relaxed, deadline=self.run.deadline, max_nodes=EXACT_MODEL_NODES)
        return proved.bound == np.inf

    def iterate(self) -> None:
        """Descend from one start, or solve one exact model around the incumbent."""
        before = self.incumbent.objective
        explored = self.explored_radius
        # exact models alternate with descents, so that neither takes more work
        due = self.starts >= GLOBAL_STARTS and self.work <= self.elastic.work
        if due and self.exact and before is not None:
            self.explore_neighbourhood()
        else:
            self.descend_from(self.start())
            while self.recombine():
                self.descend_from(self.incumbent.values)
        self.stopped = self.stopped or self.run.notify()
        improved = self._improved_on(before)
        if improved or self.explored_radius > explored:
            self.failed_starts = 0
        else:
            self.failed_starts += 1
        if improved:
            self.explored_radius = 0.0  # which belongs to another point

    def _improved_on(self, before: float | None) -> bool:
        objective = self.incumbent.objective
        if objective is None or before is None:
            return objective is not None
        change = self.run.instance.milp.sign * (objective - before)
        return change < -MIN_IMPROVEMENT * self.incumbent.units.objective(before)

    def start(self) -> ndarray | None:
        """Return the point at which the next descent begins, or None."""
        self.starts += 1
        given = self.run.start
        if self.starts > 1 or given is None:
            return self.elastic.nearest(self._target())
        values = self.run.instance.assignment(given, rest=0.0)
        if self.incumbent.values is None:  # neither the start nor its repair is feasible
            return self.elastic.nearest(values)
        return values

    def _target(self) -> ndarray:
        """A point of the box, or one close to the incumbent."""
        inputs = self.elastic.inputs
        near = None
        if self.starts > GLOBAL_STARTS and self.starts % 3:
            near = self.incumbent.values
        fraction = self._fraction(by_gradient=near is None and self.starts % 2 == 0)
        drawn = self.elastic.inputs_at(fraction)
        if near is not None:
            kept = self.rng.random(len(inputs)) >= self.rng.choice(REDRAWN_FRACTIONS)
            drawn = np.where(kept, near[inputs], drawn)
        target = np.zeros(self.elastic.milp.n_variables)
        target[inputs] = drawn
        return target

    def _fraction(self, by_gradient: bool) -> ndarray | float:
        """A point of the box as fractions of its ranges: the middle first, then end points of
        gradient runs or random points.
        """
        if self.starts == 1:
            return 0.5
        end = None
        if by_gradient and self.incumbent.values is not None:
            end = self.gradient_runs.end(self.incumbent.values, self.penalty)
        return self.rng.random(len(self.elastic.inputs)) if end is None else end

    def complete(self, values: ndarray, price: float) -> TrialPoint | None:
        """Complete a point by the true networks, and submit it if it is feasible.

        Parameters
        ----------
        values : np.ndarray
            A full assignment, of which the network inputs count.
        price : float
            Penalty of a unit of output slack.

        Returns
        -------
        TrialPoint or None
            None if there is no completion.
        """
        point = self.elastic.complete(values, price)
        if point is not None:
            self._submit(point)
        return point

    def _submit(self, point: TrialPoint) -> None:
        if point.infeasibility <= MAX_OUTPUT_SLACK:
            self.incumbent.consider(point.values)
            self.crossover.add(point.values)

    def descend_from(self, start: ndarray | None) -> None:
        """Descend from a start, with a larger penalty again where the end point is infeasible.

        Parameters
        ----------
        start : np.ndarray or None
            A full assignment; nothing is done without one.
        """
        price = self.penalty
        point = None if start is None else self.complete(start, price)
        if point is None:
            return
        self.completed_starts += 1
        for _ in range(MAX_PENALTY_INCREASES + 1):
            if self.over:
                return
            better: TrialPoint | None = point
            while better is not None:
                point = self.descend(better, price)
                better = self.move(point, price)
            if point.infeasibility <= MAX_OUTPUT_SLACK:
                return
            if self.incumbent.objective is None:
                # it may be the nearest one to feasibility, which the report shows
                self.incumbent.consider(point.values)
            price *= PENALTY_FACTOR

    def descend(self, point: TrialPoint, price: float) -> TrialPoint:
        """Make trust-region steps of decreasing merit.

        Parameters
        ----------
        point : TrialPoint
            The first point.
        price : float
            Penalty of a unit of output slack.

        Returns
        -------
        TrialPoint
            The last accepted point.
        """
        region = TrustRegion(self.settings.radius)
        elastic = self.elastic
        while not region.exhausted and not self.over:
            small = region.radius < SMALL_RADIUS * self.settings.radius
            if small and self._hopeless(point.merit(price)):
                break
            self.steps += 1
            tangent = linearise(elastic.instance, point.values)
            goal = elastic.step(point.values, tangent, region.radius, price)
            if goal is None:
                break
            predicted = point.merit(price) - goal.merit(price)
            if predicted <= MIN_PREDICTED_DECREASE * max(elastic.objective_unit, abs(point.cost)):
                break
            new = self.complete(goal.values, price)
            self.stopped = self.run.notify()
            if new is None:
                region.shrink()
            elif region.update(point.merit(price) - new.merit(price), predicted):
                point = new
        return point

    def move(self, point: TrialPoint, price: float) -> TrialPoint | None:
        """Return a point of lower merit whose integer inputs differ by a unit or two, or None.

        Parameters
        ----------
        point : TrialPoint
            The current point.
        price : float
            Penalty of a unit of output slack.

        Returns
        -------
        TrialPoint or None
            None if none is found.
        """
        if self.over or self._hopeless(point.merit(price)):
            return None
        better = self.moves.better(point, price)
        if better is not None:
            self._submit(better)
        return better

    def _hopeless(self, merit: float) -> bool:
        """Whether a merit is much worse than the incumbent's."""
        if self.incumbent.objective is None:
            return False
        s = self.elastic.milp
        best = s.sign * (self.incumbent.objective - s.offset)
        return merit > best + ABANDONED_EXCESS * self.elastic.objective_unit

    def recombine(self) -> bool:
        """Combine the pairs evaluated for each sample.

        Returns
        -------
        bool
            Whether the combination is a better point.
        """
        values = self.incumbent.values
        if values is None or not self.crossover.useful or self.over:
            return False
        before = self.incumbent.objective
        found = self.crossover.best(values)
        if found is not None:
            self.complete(found, self.penalty)
        return self._improved_on(before)

    def explore_neighbourhood(self) -> None:
        """Solve the exact model in a box around the incumbent, and adapt the radius of the box."""
        assert self.incumbent.values is not None
        self.exact_models += 1
        before = self.incumbent.objective
        radius = self.box_radius
        box = self.elastic.box(self.incumbent.values, radius)
        nodes = EXACT_MODEL_NODES if radius < 1 else WHOLE_BOX_FACTOR * EXACT_MODEL_NODES
        seconds = min(self.run.seconds_left, max(EXACT_MODEL_SECONDS, self.run.seconds))
        result = search_box(self.incumbent, box, seconds, nodes, self.run.seed)
        self.work += self.exact_cost_factor * result.work
        if result.point is not None:
            self.complete(result.point, self.penalty)
        improved = self._improved_on(before)
        raised = min(MAX_EXACT_COST_FACTOR, EXACT_COST_GROWTH * self.exact_cost_factor)
        progress = improved or result.solved_to_gap
        self.exact_cost_factor = MIN_EXACT_COST_FACTOR if progress else raised
        if improved:
            self.explored_radius = 0.0
        elif result.solved_to_gap:
            self.explored_radius = max(self.explored_radius, radius)
            self.box_radius = min(1.0, 2 * radius)
        elif result is TOO_LARGE and radius <= MIN_BOX_RADIUS:
            self.exact = False
        else:
            self.box_radius = max(MIN_BOX_RADIUS, BOX_SHRINKING_FACTOR * radius)

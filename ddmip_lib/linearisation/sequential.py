"""Sequential linearisation: networks become lines, a MIP decides, and the true networks judge."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from ..clock import now
from ..device import check_place
from ..methods import Callback, Method, Run
from ..model.incumbent import Incumbent
from ..model.progress import report_progress
from ..model.solution import Solution
from ..programs import prove
from ..proofs.encoding import relax_bounds, relaxed_program
from ..renamed import renamed_fields
from .elastic import ElasticModel, TrialPoint
from .local_search import UnitMoves
from .multistart import GradientMultistart
from .neighbourhood import TOO_LARGE, exact_graphs, search_box
from .recombination import Crossover
from .repair import near_start
from .tangent import linearise

SMALLEST = 1e-5  # radius at which a descent ends
ACCEPTED = 0.05
GOOD = 0.7  # shares of the predicted decrease from which on a step is taken, and the radius grows
CRAWL = 8  # steps in a row that are taken but fall short of good, after which the radius shrinks
FITS = 1e-6  # outputs that are off by less, in their units, are tried as they are
PRICE = 10.0
RAISE = 20.0
RAISES = 2  # first price of what does not fit, in units of the objective; what follows
HOPELESS = (
    0.05  # of the objective's units: a descent whose radius is small and merit so much worse ends
)
FIRST = 5  # starts before points near the best one are tried
NODES = 100  # of an exact neighbourhood
SMALLEST_BOX = 0.02  # of an exact neighbourhood, as a share of each input's range
LONGEST = 5.0  # seconds of an exact neighbourhood, or as long as the run has taken so far
DEAR = 2.0
DEARER = 1.5
DEAREST = 8.0  # pivots of descents that one of an exact model counts: more after one in vain


@renamed_fields(idle_starts="max_failed_starts")
@dataclass(frozen=True)
class SequentialMIP(Method):
    r"""Trust-region linearisation for any differentiable network and any rows, with integers in
    charge of a MIP.

    At a point the networks become lines (`ElasticModel`); the MIP's best point within a radius is
    completed by the true networks, and taken if the merit, objective plus price times what does not
    fit, falls by at least 5 % of what was predicted. The radius doubles after good predictions,
    shrinks after bad ones and after eight that fell short. Where a descent ends, whole inputs are
    moved by a unit, one or two at a time, and the networks judge (`UnitMoves`). Starts: the
    problem's own, the middle of the box, ends of gradient walks (`GradientMultistart`), random
    points, then points near the best one too. For networks of ReLUs *exact neighbourhoods* take
    turns with them: the exact model in a box around the best point, which grows while it closes. Of
    several network rows, parts of points seen so far are put together anew by a MILP (`Crossover`).

    Parameters: the first `radius`, as a share of each input's range; `max_failed_starts` in a row
    without
    a better point or a larger box that closes around it end the run; `neighbourhoods` False leaves
    the exact models out; `callback` hears a `Moment` after each step; on `device` the networks and
    their slopes are computed, in double precision: points are verified on the CPU.

    ``details["explored_radius"]`` is the largest box around the point in which the exact model has
    nothing better, by more than 1e-4 of it and by HiGHS's word (1.0 is the whole problem);
    `local_bound` proves it.

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
                f"radius={self.radius} must lie in (0, 1]: it is a share of each input's range."
            )
        if int(self.max_failed_starts) != self.max_failed_starts or self.max_failed_starts < 1:
            raise ValueError(
                f"max_failed_starts={self.max_failed_starts} must be a positive integer."
            )
        check_place(self.device, torch.float64)

    def run(self, run: Run) -> Solution:
        """Descend from one start after the other."""
        device = torch.device(self.device)
        state = MultistartState(
            self,
            run,
            run.incumbent(screen_on=None if device.type == "cpu" else device, repair=near_start),
        )
        status = "converged"
        while (
            state.idle < self.max_failed_starts
            and not state.finished
            and (state.reached or state.starts < FIRST)
        ):
            if run.seconds_left <= 0:
                status = "time_limit"
                break
            state.turn()
            report_progress(turn=True)
            if state.stopped:
                status = "stopped"
                break
        if state.incumbent.objective is None and status == "converged":
            status = "infeasible" if state.rows_are_empty() else "no_solution_found"
        details = state.details | {"incumbents": state.incumbent.found}
        point = state.incumbent.point()
        seconds = now() - run.began
        return Solution(status, self.method, **point, seconds=seconds, details=details)


class MultistartState:
    """One run: its elastic model, its incumbent, and what it did."""

    def __init__(self, settings: SequentialMIP, run: Run, incumbent: Incumbent) -> None:
        self.settings = settings
        self.run = run
        self.incumbent = incumbent
        self.elastic = ElasticModel(incumbent.there, run.seed)
        self.rng = np.random.default_rng(run.seed)
        self.options = Crossover(self.elastic)
        self.moves = UnitMoves(self.elastic, self.rng)
        self.walks = GradientMultistart(self.elastic, self.moves.norm, self.rng)
        self.graphs = exact_graphs(run.instance) if settings.neighbourhoods else None
        self.around = 0.1
        self.closed = 0.0
        self.work = 0.0
        self.dear = DEAR
        self.starts = self.idle = self.steps = self.exact = self.reached = 0
        self.stopped = False  # by the callback

    @property
    def finished(self) -> bool:
        """Whether the exact model of the whole problem found nothing better."""
        return self.closed >= 1.0

    @property
    def details(self) -> dict[str, Any]:
        found = {"starts": self.starts, "steps": self.steps, "exact_models": self.exact}
        return found | ({"explored_radius": self.closed} if self.graphs else {})

    def rows_are_empty(self) -> bool:
        """Whether it is proved that not even the rows, whatever the networks say, have a point."""
        if self.reached:
            return False
        instance = self.run.instance
        units = self.incumbent.units
        rows = relaxed_program(instance, units, *relax_bounds(instance, units))
        return prove(rows, deadline=self.run.deadline, most_nodes=NODES).bound == np.inf

    def turn(self) -> None:
        """One start, or one exact neighbourhood of the best point."""
        before = self.incumbent.objective
        closed = self.closed
        if (
            self.graphs
            and before is not None
            and self.starts >= FIRST
            and self.work <= self.elastic.work
        ):
            self.look_around()
        else:
            self.descend_from(self.start())
            while not self.stopped and self.recombine():
                self.descend_from(self.incumbent.values)
        self.stopped = self.stopped or self.run.notify()
        improved = self.incumbent.objective is not None and self._improves(before)
        self.idle = 0 if improved or self.closed > closed else self.idle + 1
        self.closed = 0.0 if improved else self.closed  # which was of another point

    def _improves(self, before: float | None) -> bool:
        if before is None:
            return True
        sign = self.run.instance.milp.sign
        gain = self.incumbent.objective - before  # type: ignore[operator]
        return bool(sign * gain < -1e-6 * self.incumbent.units.objective(before))

    def start(self) -> np.ndarray | None:
        """Where the next descent begins."""
        self.starts += 1
        s = self.elastic.milp
        at = self.elastic.inputs
        given = self.run.problem.start
        if self.starts == 1 and given is not None:
            known = self.run.instance.assignment(given, rest=0.0)
            failed = (
                self.incumbent.values is None
            )  # also a repair of it: then from the nearest point of the rows
            return self.elastic.nearest(known, self.run.seconds_left) if failed else known
        low = s.lower[at]
        high = s.upper[at]
        target = np.zeros(s.n_variables)
        near = self.incumbent.values if self.starts > FIRST and self.starts % 3 else None
        target[at] = low + (high - low) * self._place(walk=near is None and self.starts % 2 == 0)
        if near is not None:
            kept = self.rng.random(len(at)) >= self.rng.choice([0.1, 0.25, 0.5])
            target[at] = np.where(kept, near[at], target[at])
        return self.elastic.nearest(target, self.run.seconds_left)

    def _place(self, walk: bool) -> np.ndarray | float:
        """Where in the box, as shares of its ranges: the middle first, then ends of walks or random
        points.
        """
        if self.starts == 1:
            return 0.5
        base = self.incumbent.values
        end = (
            self.walks.end(base, PRICE * self.elastic.worth) if walk and base is not None else None
        )
        return self.rng.random(len(self.elastic.inputs)) if end is None else end

    def complete(self, values: np.ndarray, price: float) -> TrialPoint | None:
        """A point with these network inputs; one that fits competes to be the best."""
        point = self.elastic.complete(values, price, self.run.seconds_left)
        if point is not None and point.off <= FITS:
            self._remember(point)
        return point

    def _remember(self, point: TrialPoint) -> None:
        self.incumbent.consider(point.values)
        self.options.add(point.values)

    def descend_from(self, start: np.ndarray | None) -> None:
        """Steps from a start until the radius is small; where outputs still do not fit, at a higher
        price again.
        """
        price = PRICE * self.elastic.worth
        point = None if start is None else self.complete(start, price)
        self.reached += point is not None
        for _ in range(RAISES + 1):
            if point is None or self.stopped or self.run.seconds_left <= 0:
                return
            point = self.descend(point, price)
            while (better := self.move(point, price)) is not None:
                point = self.descend(better, price)
            if point.off <= FITS:
                return
            if self.incumbent.objective is None:
                self.incumbent.consider(
                    point.values
                )  # it may be the nearest one, which the report shows
            price *= RAISE

    def descend(self, point: TrialPoint, price: float) -> TrialPoint:
        """Steps of falling merit."""
        radius = self.settings.radius
        elastic = self.elastic
        short = 0
        while radius > SMALLEST and not self.stopped and self.run.seconds_left > 0:
            if radius < 0.1 * self.settings.radius and self._hopeless(point.merit(price)):
                break
            self.steps += 1
            line = linearise(elastic.instance, point.values)
            aim = elastic.step(point.values, line, radius, price, self.run.seconds_left)
            predicted = -np.inf if aim is None else point.merit(price) - aim.merit(price)
            if predicted <= 1e-7 * max(elastic.worth, abs(point.cost)):
                break
            new = self.complete(aim.values, price)  # type: ignore[union-attr]  # without an aim nothing is predicted
            self.stopped = self.run.notify()
            decrease = -np.inf if new is None else point.merit(price) - new.merit(price)
            taken = new is not None and decrease >= ACCEPTED * predicted
            point = new if taken else point  # type: ignore[assignment]  # where it is taken there is one
            short = short + 1 if taken and decrease < GOOD * predicted else 0
            if not taken or short == CRAWL:
                radius = 0.35 * radius
                short = 0
            elif short == 0:
                radius = min(1.0, 2 * radius)
        return point

    def move(self, point: TrialPoint, price: float) -> TrialPoint | None:
        """A point of lower merit whose whole inputs are a unit or two away."""
        if self.stopped or self.run.seconds_left <= 0 or self._hopeless(point.merit(price)):
            return None
        better = self.moves.better(point, price, self.run.seconds_left)
        if better is not None and better.off <= FITS:
            self._remember(better)
        return better

    def _hopeless(self, merit: float) -> bool:
        best = self.incumbent.objective
        s = self.elastic.milp
        return (
            best is not None and merit > s.sign * (best - s.offset) + HOPELESS * self.elastic.worth
        )

    def recombine(self) -> bool:
        """Whether a better point takes each network row from one of the points seen so far."""
        before = self.incumbent.objective
        if self.incumbent.values is None or not self.options.useful or self.run.seconds_left <= 0:
            return False
        found = self.options.best(self.incumbent.values, self.run.seconds_left)
        if found is not None:
            self.complete(found, PRICE * self.elastic.worth)
        return self._improves(before)

    def look_around(self) -> None:
        """The exact model in a box around the best point: a better one, a larger box, or a smaller
        one.
        """
        assert self.graphs is not None
        assert self.incumbent.values is not None
        self.exact += 1
        before = self.incumbent.objective
        radius = self.around
        box = self.elastic.box(self.incumbent.values, radius)
        nodes = NODES if radius < 1 else 20 * NODES
        seconds = min(self.run.seconds_left, max(LONGEST, now() - self.run.began))
        answer = search_box(self.incumbent, self.graphs, box, seconds, nodes, self.run.seed)
        self.work += self.dear * answer.work
        if answer.point is not None:
            self.complete(answer.point, PRICE * self.elastic.worth)
        gained = answer.closed or self._improves(before)
        self.dear = DEAR if gained else min(DEAREST, DEARER * self.dear)
        if self._improves(before):
            self.closed = 0.0
        elif answer.closed:
            self.closed = max(self.closed, radius)
            self.around = min(1.0, 2 * radius)
        elif answer is TOO_LARGE and radius <= SMALLEST_BOX:
            self.graphs = None
        else:
            self.around = max(SMALLEST_BOX, 0.6 * radius)

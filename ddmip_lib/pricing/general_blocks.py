r"""Price coordination for blocks of any form: rows and whole numbers of their own, several outputs,
classes or numbers.

At prices $\pi$ of the linking rows every block minimises $c_b^\top v_b - \pi^\top L_b v_b$ by steps
in a trust region: its networks linear around its point, a small MILP; then the true outputs, a
completion, and a test of what was gained. Blocks take their steps in one model
(`SeparableElasticModel`) and by one pass through the networks; what each reaches is an option
(`options`). The best choice among options is refined by the same steps with the linking rows in
place.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..clock import now
from ..linearisation.elastic import Constraints, ElasticModel
from ..linearisation.tangent import linearise
from ..methods.run import Run
from ..model.incumbent import Incumbent
from ..model.instance import Instance
from ..model.progress import report_progress
from ..model.solution import Solution
from ..model.structure import Structure
from .general_columns import GeneralColumns, GeneralMasterSolution

STEPS = 8
JOINED_STEPS = 24  # of one path: an equality between blocks is met to six digits after many
SAMPLES = 4  # random points of a round: networks of whole numbers have many valleys
RADIUS = 1.0
SHRINK = 0.35
SMALLEST = 1e-5  # of trust regions, as shares of the boxes
PENALTY = 100.0  # of a unit of wrong output, in units of the largest cost
STEP_SECONDS = 3.0
CHOICE_SECONDS = 3.0  # at most, for one model


def coordinate(
    run: Run, structure: Structure, method: str, rounds: int, max_failed_rounds: int
) -> Solution:
    """Rounds from the problem's start, from the best options known and from random points in turn;
    the best verified point is returned.
    """
    search = GeneralColumnGeneration(run.incumbent(), structure, run.deadline, run.seed)
    return run.finish(
        lambda: _result(search, structure, method, _rounds(search, run, rounds, max_failed_rounds)),
        lambda status: _result(search, structure, method, status),
    )


def _rounds(
    search: "GeneralColumnGeneration", run: Run, rounds: int, max_failed_rounds: int
) -> str:
    """Rounds until nothing new is found; the status."""
    incumbent = search.incumbent
    idle = 0
    seen = None
    start = (
        None
        if run.problem.start is None
        else search.instance.assignment(run.problem.start, rest=0.0)
    )
    for k in range(rounds):
        if search.seconds_left <= 0:
            return "time_limit"
        if idle >= 2 * max_failed_rounds:
            return "converged"
        search.round(start if k == 0 else None if k % 2 else search.random())
        report_progress(turn=True)
        if run.notify():
            return "stopped"
        found = (
            incumbent.objective,
            None if search.prices is None else round(search.prices.value, 9),
        )
        idle = idle + 1 if found == seen else 0
        seen = found
    return "iteration_limit"


def _result(
    search: "GeneralColumnGeneration", structure: Structure, method: str, status: str
) -> Solution:
    incumbent = search.incumbent
    details: dict[str, Any] = {
        "incumbents": incumbent.found,
        "options": len(search.options),
        "structure": structure,
    }
    if status == "stopped":
        details["interrupted"] = True
    if search.prices is not None and search.prices.counts:
        s = search.instance.milp
        details |= {
            "lp_value": s.offset + s.sign * search.prices.value,
            "prices": search.prices.linking,
        }
    if incumbent.values is None and status not in ("time_limit", "stopped"):
        status = "no_solution_found"
    seconds = now() - incumbent.began
    return Solution(status, method, **incumbent.point(), seconds=seconds, details=details)


class JointElasticModel(ElasticModel):
    """The elastic model of all blocks together; a unit of any output counts alike, and whole
    numbers move freely.
    """

    def _sizes(self) -> np.ndarray:
        return np.ones(len(self.outputs))

    def _moves(self, point: np.ndarray, radius: float | np.ndarray) -> list[Constraints]:
        return []


class SeparableElasticModel(JointElasticModel):
    """The same without linking rows: it falls apart, and one solve serves every block."""

    def __init__(self, instance: Instance, structure: Structure) -> None:
        super().__init__(instance)
        s = instance.milp
        own = ~structure.linking
        self.rows = Constraints.of(s.rows[own], s.row_lower[own], s.row_upper[own])
        idle = structure.block < 0  # the master's variables are no block's business
        self.lower[idle] = self.upper[idle] = np.clip(0.0, s.lower, s.upper)[idle]


class GeneralColumnGeneration:
    """The state of the search: options, prices, the incumbent."""

    def __init__(
        self, incumbent: Incumbent, structure: Structure, deadline: float, seed: int
    ) -> None:
        self.incumbent = incumbent
        self.structure = structure
        self.deadline = deadline
        self.options = GeneralColumns(incumbent, structure)
        self.draw = np.random.default_rng(seed)
        instance = self.instance = incumbent.instance
        self.apart = SeparableElasticModel(instance, structure)
        self.joined = JointElasticModel(instance)
        self.prices: GeneralMasterSolution | None = None

    @property
    def seconds_left(self) -> float:
        return self.deadline - now()

    def cost(self) -> np.ndarray:
        """What each variable costs its block at the prices; without prices nothing is scarce."""
        s = self.instance.milp
        if self.prices is None:
            return s.sign * s.cost
        return self.prices.counts * s.sign * s.cost - self.options.linking.T @ self.prices.linking

    def path(self, values: np.ndarray, model: ElasticModel) -> None:
        """Steps from a point, each block by itself, or all as one where the model joins them."""
        one = not isinstance(model, SeparableElasticModel)
        label, count = (
            (0 * self.structure.block, 1) if one else (self.structure.block, self.structure.n)
        )
        price = _price(model.cost)
        owned = label >= 0
        reach = np.full(count, RADIUS)
        merit = np.full(count, np.inf)

        def completed(trial: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            found = model.complete(trial, price, self._limit)
            if found is None:
                return values, np.full(count, np.inf)
            wrong = np.abs(found.values - self._visited(found.values))
            return found.values, np.bincount(
                label[owned], (model.cost * found.values + price * wrong)[owned], count
            )

        values, merit = completed(values)
        for _ in range(JOINED_STEPS if one else STEPS):
            if self.seconds_left <= 0 or (reach < SMALLEST).all():
                break
            line = linearise(self.instance, values)
            aim = model.step(values, line, reach[label[model.inputs]], price, self._limit)
            trial, reached = (
                (values, np.full(count, np.inf)) if aim is None else completed(aim.values)
            )
            gained = reached < merit - 1e-9 * np.abs(reached).clip(
                1.0, 1e300
            )  # inf is no gain over inf
            values = np.where(gained[label], trial, values)
            merit = np.where(gained, reached, merit)
            reach = np.where(gained, reach, SHRINK * reach)

    @property
    def _limit(self) -> float:
        return min(STEP_SECONDS, 0.05 * self.seconds_left + 0.05)

    def _visited(self, values: np.ndarray) -> np.ndarray:
        """The point with true outputs: its parts become options, and it competes as a whole."""
        s = self.instance.milp
        true = self.instance.with_outputs(np.clip(values, s.lower, s.upper))
        if np.isfinite(true).all():
            self.options.add(true)
            self.incumbent.consider(true)
        return true

    def random(self) -> np.ndarray:
        """Inputs anywhere in their boxes."""
        s = self.instance.milp
        at = self.instance.free_inputs
        values = np.clip(0.0, s.lower, s.upper)
        drawn = self.draw.uniform(
            s.lower[at], s.upper[at] + s.integer[at]
        )  # every whole number alike
        values[at] = np.where(s.integer[at], np.minimum(np.floor(drawn), s.upper[at]), drawn)
        return values

    def round(self, start: np.ndarray | None) -> None:
        """Options by a path from a start, or from the best options known, at the prices; new
        prices; a choice; and steps of all blocks together, from a choice that is better or else
        from options drawn by their shares.
        """
        before = self.incumbent.objective
        if start is None and self.prices is not None:
            start = self.options.assembled(
                np.argsort(-self.options.reduced(self.prices), kind="stable")
            )
        start = self.random() if start is None else start
        for _ in range(SAMPLES):
            if self.seconds_left > 0:
                self._offer(self.random())
        self._from(start, self.apart.costing(self.cost()))
        if len(self.options):
            self.prices = self.options.prices()
            self.choose()
        if self.incumbent.values is not None and self.incumbent.objective != before:
            self._from(self.incumbent.values, self.joined)
        elif self.prices is not None:
            drawn = np.argsort(
                self.prices.shares * self.draw.random(len(self.options)), kind="stable"
            )
            self._from(self.options.assembled(drawn), self.joined)

    def _from(self, start: np.ndarray, model: ElasticModel) -> None:
        near = model.nearest(start, self._limit)
        if near is not None and self.seconds_left > 0:
            self.path(near, model)

    def _offer(self, values: np.ndarray) -> None:
        """Options at the inputs of a point, moved as little as blocks demand and completed at the
        prices.
        """
        near = self.apart.nearest(values, self._limit)
        model = self.apart.costing(self.cost())
        done = None if near is None else model.complete(near, _price(model.cost), self._limit)
        if done is not None:
            self._visited(done.values)

    def choose(self) -> None:
        """Choose among the options that a better choice can hold; the choice competes, and its best
        completion.
        """
        prices = self.prices
        best = self.incumbent.objective
        if prices is None or not prices.counts or self.seconds_left <= 0:
            return
        s = self.instance.milp
        short = np.inf if best is None else s.sign * (best - s.offset) - prices.value + 1e-9
        among = np.flatnonzero(self.options.reduced(prices) <= short)
        chosen = self.options.choose(among, min(CHOICE_SECONDS, self.seconds_left))
        if chosen is not None and self.incumbent.consider(chosen).feasible:
            self.incumbent.consider_inputs(chosen, self._limit)

    def gather(self, points: Sequence[Sequence[np.ndarray]]) -> None:
        """Options from points that others visited, each a list of input matrices; then a choice."""
        began = self.seconds_left
        for point in points:
            if self.seconds_left < 0.5 * began:
                break
            self._offer(self.instance.assignment(list(point), rest=0.0))
        if len(self.options):
            self.prices = self.options.prices()
            self.choose()


def _price(cost: np.ndarray) -> float:
    """What a unit of wrong output costs."""
    return PENALTY * max(float(np.abs(cost).max()), 1e-9)

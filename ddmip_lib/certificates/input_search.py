"""Branch and bound on the boxes of the network inputs and on whole numbers, bounded by relaxations
with forms.
"""

import heapq
import itertools
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..bounds import Box, crown, intervals, optimised_crown
from ..clock import now
from ..errors import ProblemError
from ..model.incumbent import Incumbent
from ..model.problem import NeuralMIP
from ..model.progress import report_progress
from ..programs.branch_and_bound import WHOLE
from ..proofs.checking import cutoff, submit_point
from ..proofs.encoding import relax_bounds
from .relaxation import (
    LinearRelaxation,
    OutputBounds,
    Place,
    best_multipliers,
    entire_box,
    read_problem,
    rows_of,
    tighten_outputs,
)

BATCH = 8  # nodes that are split at a time, so that their networks are bounded together
ROUNDS = 8
HELPS = (
    1e-3  # rounds of new forms at the root, and what a round must gain, relatively, for another one
)
STEPS = 5
STEPS_AT_ROOT = 20  # gradient steps for the slopes of a form
NARROW = 1e-7  # relative width below which a continuous input is not split


@dataclass(eq=False)
class BoxNode:
    """A box of the inputs (bounds of all variables, of which those of inputs count) and what is
    known on it.
    """

    lower: np.ndarray
    upper: np.ndarray
    bound: float
    rows: dict[Place, OutputBounds]
    values: np.ndarray | None = None  # the point at which the relaxation ended


@dataclass(eq=False)
class _At(Box):
    """A box whose forms are compared at one point: optimised slopes are then the best for that
    point.

    The forms hold on the whole box; the ranges of a pass over such a region mean nothing.
    """

    point: Tensor

    def box(self) -> Box:
        return Box(self.lower, self.upper)

    def argsmallest(self, coef: Tensor) -> Tensor:
        return self.point[:, None].expand_as(coef)


class SpatialBranchAndBound:
    """Branch and bound on the boxes of the inputs and on whole numbers, in the sense of a
    minimisation.
    """

    def __init__(
        self, problem: NeuralMIP, point: np.ndarray | None, began: float, deadline: float
    ) -> None:
        self.instance, self.graphs = read_problem(problem)
        self.began = began
        self.deadline = deadline
        s = self.instance.milp
        self.cost = s.sign * s.cost
        self.inputs = self.instance.free_inputs
        self.incumbent = Incumbent(self.instance, began)
        if point is not None and not self.incumbent.consider(point).feasible:
            raise ProblemError(
                "the solution is not feasible for this problem: pass the problem that was solved."
            )
        lower, upper = relax_bounds(self.instance, self.incumbent.units)
        self.root = BoxNode(lower, upper, -np.inf, {})
        self.touched: dict[int, list[Place]] = {int(at): [] for at in self.inputs}
        for t, m in enumerate(self.instance.maps):
            for r, at in sorted(
                {(r, int(at)) for (r, _), at in np.ndenumerate(m.index) if int(at) in self.touched}
            ):
                self.touched[at].append((t, r))
        self.importance = np.abs(self.cost)
        if s.rows.shape[0]:
            self.importance = self.importance + abs(s.rows).max(axis=0).toarray().ravel()
        self.multipliers = np.zeros(self.inputs.size)
        self.heap: list[tuple[float, int, BoxNode]] = []
        self.working: list[BoxNode] = [
            self.root
        ]  # whose children are on their way: they count until these are there
        self.settled = np.inf  # weakest bound among the nodes that are split no further
        self.number = itertools.count()
        self.nodes = 0
        self.history: list[tuple[float, float]] = []
        self.root.rows = entire_box(self.instance, self.graphs, intervals, lower, upper)
        tighten_outputs(self.instance, self.root.rows, lower, upper)
        self.relaxation = LinearRelaxation(self.instance, self.incumbent.units, lower, upper)
        self._cheapest()

    def _cheapest(self) -> None:
        """What costs nothing: every variable at its better bound, outputs by interval
        arithmetic.
        """
        base = self.relaxation.base
        root = self.root
        empty = (root.lower > root.upper).any()
        root.bound = (
            np.inf if empty else base.value(np.zeros(len(base.row_lower)), base.lower, base.upper)
        )
        self._push(root)

    @property
    def cutoff(self) -> float:
        """A node with such a bound need not be split."""
        return min(cutoff(self.incumbent), self.settled)

    def bound(self) -> float:
        """What is proved: the weakest bound of all nodes."""
        return min(
            [
                self.settled,
                *(node.bound for node in self.working),
                *(self.heap[0][:1] if self.heap else ()),
            ]
        )

    def run(self) -> str:
        """Branch until the bound is good enough or the time is up; the status."""
        if self.bound() < np.inf:
            self._start(heapq.heappop(self.heap)[2])
        while self.heap and self.heap[0][0] < self.cutoff:
            if now() >= self.deadline:
                return "time_limit"
            self._expand()
            report_progress(bound=self.instance.milp.sign * self.bound())
        return "infeasible" if self.bound() == np.inf else "closed"

    def _start(self, root: BoxNode) -> None:
        """Bound the whole problem, with new forms at the point where the relaxation ended as long
        as they help.
        """
        self.working = [root]
        jobs = [(root, place) for place in root.rows]
        self._bound_networks(jobs, steps=0)
        self.multipliers = best_multipliers(self.instance, root.rows, root.lower, root.upper)
        self._solve(root)
        for _ in range(ROUNDS):
            before = root.bound
            if root.values is None or before >= self.cutoff or now() >= self.deadline:
                break
            kept = {place: row.forms for place, row in root.rows.items()}
            self._bound_networks(jobs, STEPS_AT_ROOT)
            for place, forms in kept.items():
                root.rows[place] = root.rows[place]._replace(
                    forms=forms + root.rows[place].forms[1:]
                )
            self._solve(root)
            if root.bound - before <= HELPS * max(1.0, abs(before)):
                break
        self._push(root)

    def _expand(self) -> None:
        """Split the nodes with the weakest bounds; their children's networks are bounded
        together.
        """
        children: list[tuple[BoxNode, int]] = []
        while self.heap and self.heap[0][0] < self.cutoff and len(self.working) < BATCH:
            node = heapq.heappop(self.heap)[2]
            self.working.append(node)
            at = self._branching_variable(node)
            if at is None:
                self.settled = min(self.settled, node.bound)
            else:
                children += [(child, at) for child in self._halves(node, at)]
        jobs = [(child, place) for child, at in children for place in self.touched.get(at, ())]
        self._bound_networks(jobs, STEPS)
        for child, _ in children:
            self._solve(child)
        self._push(*(child for child, _ in children))

    def _push(self, *nodes: BoxNode) -> None:
        for node in nodes:
            heapq.heappush(self.heap, (node.bound, next(self.number), node))
        self.working = []
        bound = self.bound()
        if np.isfinite(bound) and (not self.history or bound > self.history[-1][1]):
            self.history.append((now() - self.began, bound))

    def _bound_networks(self, jobs: list[tuple[BoxNode, Place]], steps: int) -> None:
        """Ranges and forms of network rows on the boxes of their nodes: CROWN's and, after some
        gradient steps, those with the best slopes at the point where the last relaxation ended.
        """
        for t, graph in enumerate(self.graphs):
            own = [(node, place) for node, place in jobs if place[0] == t]
            if not own:
                continue
            lower = torch.tensor(np.array([self._inputs(place, node.lower) for node, place in own]))
            upper = torch.tensor(np.array([self._inputs(place, node.upper) for node, place in own]))
            found = crown(graph, Box(lower, upper))
            for (node, place), row in zip(own, rows_of(found), strict=True):
                node.rows[place] = row
            points = {
                i: self._inputs(at, node.values)
                for i, (node, at) in enumerate(own)
                if node.values is not None
            }
            wide = [i for i in points if (lower[i] < upper[i]).any()]
            if not (steps and wide):
                continue
            point = torch.tensor(np.array([points[i] for i in wide])).clamp(
                lower[wide], upper[wide]
            )
            region = _At(lower[wide], upper[wide], point)
            better = optimised_crown(
                graph, region, steps=steps, known=found[wide].nodes, tighten=False
            )
            for i, row in zip(wide, rows_of(better), strict=True):
                node, place = own[i]
                node.rows[place] = node.rows[place]._replace(
                    forms=node.rows[place].forms + row.forms
                )

    def _inputs(self, place: Place, values: np.ndarray) -> np.ndarray:
        """The inputs of one network row at a full assignment."""
        where = self.instance.maps[place[0]]
        index = where.index[place[1]]
        return np.where(index >= 0, values[index], where.constant[place[1]])

    def _solve(self, node: BoxNode) -> None:
        """Improve the bound of a node by its relaxation, whose point may also be a solution."""
        left = self.deadline - now()
        if left <= 0:
            return
        solved = self.relaxation.solve(node.rows, node.lower, node.upper, left)
        self.nodes += 1
        node.bound = max(node.bound, solved.bound)
        node.values = solved.values
        if solved.values is not None and self._fraction(node)[1] <= WHOLE:
            submit_point(self.incumbent, solved.values)

    def _fraction(self, node: BoxNode) -> tuple[int, float]:
        """The whole number that the proposed point leaves farthest from one, and how far."""
        if node.values is None:
            return 0, 0.0
        open_ = self.instance.milp.integer & (node.lower < node.upper)
        away = np.where(open_, np.abs(node.values - np.round(node.values)), 0.0)
        return int(away.argmax()), float(away.max(initial=0.0))

    def _branching_variable(self, node: BoxNode) -> int | None:
        """A whole number that is none, or the input with the widest effect: what it moves its form
        by over its range, times how wrong the output is.
        """
        at, away = self._fraction(node)
        if away > WHOLE:
            return at
        low = node.lower[self.inputs]
        high = node.upper[self.inputs]
        width = high - low
        size = np.maximum(self.incumbent.units.sizes[self.inputs], np.maximum(abs(low), abs(high)))
        divisible = width > np.where(self.instance.milp.integer[self.inputs], 0.0, NARROW * size)
        missed = (
            None
            if node.values is None
            else np.abs(self.instance.with_outputs(node.values) - node.values)
        )
        effect, possible = np.zeros((2, len(node.lower)))
        for (t, r), row in node.rows.items():
            outputs = self.instance.maps[t].output[r]
            index = self.instance.maps[t].index[r]
            slopes = np.maximum(np.abs(row.forms[-1].below), np.abs(row.forms[-1].above))
            weights = self.importance[outputs]
            for score, error in (
                (effect, None if missed is None else missed[outputs]),
                (possible, row.high - row.low),
            ):
                if error is not None:
                    np.add.at(score, index[index >= 0], ((weights * error) @ slopes)[index >= 0])
        for score in (effect, possible, np.ones(len(node.lower))):
            gain = np.where(divisible, score[self.inputs] * width, 0.0)
            if gain.max(initial=0.0) > 0:
                return int(self.inputs[gain.argmax()])
        bounded = (
            self.instance.milp.integer & np.isfinite(node.lower) & np.isfinite(node.upper)
        )  # one without has
        open_ = np.subtract(
            node.upper, node.lower, out=np.zeros(len(node.lower)), where=bounded
        )  # no middle
        return int(open_.argmax()) if open_.max(initial=0.0) >= 1 else None

    def _halves(self, node: BoxNode, at: int) -> list[BoxNode]:
        """The two halves of a node's box: whole numbers around the point, other inputs in the
        middle.
        """
        middle = below = above = 0.5 * (node.lower[at] + node.upper[at])
        if self.instance.milp.integer[at]:
            around = (
                middle
                if node.values is None or self._fraction(node)[1] <= WHOLE
                else node.values[at]
            )
            below = np.clip(np.floor(around), node.lower[at], node.upper[at] - 1)
            above = below + 1
        left = BoxNode(node.lower, node.upper.copy(), node.bound, dict(node.rows), node.values)
        right = BoxNode(node.lower.copy(), node.upper, node.bound, dict(node.rows), node.values)
        left.upper[at], right.lower[at] = below, above
        return [left, right]

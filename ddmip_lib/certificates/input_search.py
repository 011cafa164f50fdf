"""Spatial branch and bound on network inputs and integer variables, with linear relaxations."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from ..bounds import Box, crown, intervals, optimised_crown
from ..clock import now
from ..model.incumbent import Incumbent
from ..model.progress import report_progress
from ..programs.branching import (
    BestFirst,
    branches,
    fractionality,
    integer_branches,
    solve_relaxation,
)
from ..programs.lp import LPSolver
from ..proofs.checking import cutoff, submit_point
from ..proofs.encoding import relax_bounds, relaxed_program
from .relaxation import (
    BoundedBox,
    NetworkBatch,
    Place,
    bound_networks,
    bounds_by_sample,
    linear_relaxation,
)

RELAXATION_ROUNDS = 3  # rounds of bounds that the constraints of a relaxation imply
NODES_PER_BATCH = 8  # nodes that are split at a time, so that their networks are bounded together
MAX_ROOT_ROUNDS = 8  # rounds of new linear bounds at the root
MIN_ROOT_GAIN = 1e-3  # relative gain of the bound by which a round is followed by another one
STEPS_PER_BOX = 5  # gradient steps for the linear bounds of a node
STEPS_AT_ROOT = 20  # gradient steps for the linear bounds of the root
MIN_RELATIVE_WIDTH = (
    1e-7  # width, relative to its size, up to which a continuous input is not split
)


@dataclass(eq=False)
class BoxNode(BoundedBox):
    """A node of the search: a box, and what is known on it.

    Attributes
    ----------
    bound
        Proven bound of the objective, as a minimisation.
    point
        Solution of the linear relaxation, None where there is none.
    """

    bound: float = -np.inf
    point: ndarray | None = None

    def child(self, lower: ndarray, upper: ndarray) -> "BoxNode":
        """Return a node with a smaller box."""
        return replace(self, lower=lower, upper=upper, output_bounds=dict(self.output_bounds))


@dataclass(eq=False)
class _BoxAroundPoint(Box):
    """A box on which linear bounds are optimised for one point.

    The linear bounds hold on the entire box; ranges computed with this region are meaningless.
    """

    point: Tensor

    def argsmallest(self, coef: Tensor) -> Tensor:
        return self.point[:, None].expand_as(coef)


@dataclass(eq=False)
class SpatialBranchAndBound:
    """Branch and bound on the boxes of network inputs and on integer variables, as a minimisation.

    Parameters
    ----------
    incumbent
        Best verified point of the problem.
    deadline
        End of the search, in seconds of `ddmip_lib.clock.now`.

    Attributes
    ----------
    multipliers
        Best multipliers of the entire domain (see `BoundedBox`).
    nodes
        Number of linear relaxations that were solved.
    history
        Seconds and bound at every improvement.
    """

    incumbent: Incumbent
    deadline: float

    def __post_init__(self) -> None:
        self.instance = self.incumbent.instance
        milp = self.instance.milp
        self.inputs = self.instance.free_inputs
        self.importance = np.abs(milp.cost)
        if milp.rows.shape[0]:
            self.importance = self.importance + abs(milp.rows).max(axis=0).toarray().ravel()
        self.multipliers = np.zeros(self.inputs.size)
        bounds = relax_bounds(self.instance, self.incumbent.units)
        self.open = BestFirst(BoxNode(self.instance, *bounds))
        self.solver = LPSolver()
        self.nodes = 0
        self.history: list[tuple[float, float]] = []

    def _samples_with(self, variable: int) -> list[Place]:
        """The samples of networks that a variable enters."""
        places: list[Place] = []
        for predictor, mapping in enumerate(self.instance.maps):
            samples = np.flatnonzero((mapping.index == variable).any(axis=1))
            places += [(predictor, sample) for sample in samples.tolist()]
        return places

    def bound_by_ranges(self) -> None:
        """Bound the entire domain by the better bound of every variable, with outputs in the ranges
        of their networks.
        """
        (root,) = self.open.working
        root.bound_networks(intervals)
        root.tighten_outputs()
        units = self.incumbent.units
        self.base = relaxed_program(self.instance, units, root.lower, root.upper)
        if (root.lower > root.upper).any():
            root.bound = np.inf
        else:
            root.bound = self.base.lower_bound(np.zeros(len(self.base.row_lower)))
        self._push([root])

    def run(self) -> str:
        """Search until the cutoff or the deadline, after `bound_by_ranges`.

        Returns
        -------
        str
            "closed", "infeasible" or "time_limit".
        """
        if self.open.bound < np.inf:
            self._bound_root(self.open.pop())
        while self.open.below(cutoff(self.incumbent)):
            if now() >= self.deadline:
                return "time_limit"
            self._expand()
            report_progress(bound=self.instance.milp.sign * self.open.bound)
        return "infeasible" if self.open.bound == np.inf else "closed"

    def _bound_root(self, root: BoxNode) -> None:
        """Bound the entire domain, with more linear bounds, optimised for the solution of the
        relaxation, as long as they improve the bound.
        """
        batches = root.bound_networks(crown)
        self.multipliers = root.best_multipliers()
        self._solve(root)
        for _ in range(MAX_ROOT_ROUNDS):
            before = root.bound
            if root.point is None or before >= cutoff(self.incumbent) or now() >= self.deadline:
                break
            for batch in batches:
                optimise_bounds(batch, STEPS_AT_ROOT)
            self._solve(root)
            if root.bound - before <= MIN_ROOT_GAIN * max(1.0, abs(before)):
                break
        self._push([root])

    def _expand(self) -> None:
        """Split the nodes with the weakest bounds; the networks of their children are bounded
        together.
        """
        children: list[BoxNode] = []
        samples: list[tuple[BoxNode, Place]] = []
        limit = cutoff(self.incumbent)
        while self.open.below(limit) and len(self.open.working) < NODES_PER_BATCH:
            node = self.open.pop()
            variable = self._branching_variable(node)
            if variable is None:
                self.open.fathom(node)
                continue
            places = self._samples_with(variable)
            for child in self._split(node, variable):
                children.append(child)
                samples += [(child, place) for place in places]
        for batch in bound_networks(self.instance, samples, crown):
            optimise_bounds(batch, STEPS_PER_BOX)
        for child in children:
            self._solve(child)
        self._push(children)

    def _push(self, nodes: list[BoxNode]) -> None:
        self.open.replace(nodes)
        bound = self.open.bound
        if np.isfinite(bound) and (not self.history or bound > self.history[-1][1]):
            self.history.append((now() - self.incumbent.began, bound))

    def _solve(self, node: BoxNode) -> None:
        """Improve the bound of a node by its linear relaxation, whose solution may be feasible."""
        left = self.deadline - now()
        if left <= 0:
            return
        program = linear_relaxation(self.base, node)
        self.nodes += 1
        solved = None
        if program is not None:
            solved = solve_relaxation(program, self.solver, RELAXATION_ROUNDS, left)
        node.bound = np.inf if solved is None else max(node.bound, solved.bound)
        node.point = None if solved is None else solved.proposal.point
        if node.point is not None and not self._fractionality(node).any():
            submit_point(self.incumbent, node.point)

    def _fractionality(self, node: BoxNode) -> ndarray:
        """How far each integer variable is from an integer in the relaxation."""
        return fractionality(node.point, self.instance.milp.integer, node.lower, node.upper)

    def _branching_variable(self, node: BoxNode) -> int | None:
        """The variable of the largest score; None where no variable can be split."""
        for score in self._scores(node):
            if score.max(initial=0.0) > 0:
                return int(score.argmax())
        return None

    def _scores(self, node: BoxNode) -> Iterator[ndarray]:
        """Scores of splitting each variable, the most important ones first: how far an integer
        variable is from an integer, the effect of a network's input on the outputs, the range of an
        integer variable.
        """
        yield self._fractionality(node)
        integer = self.instance.milp.integer
        width = node.upper - node.lower
        size = np.maximum(self.incumbent.units.sizes, np.maximum(abs(node.lower), abs(node.upper)))
        divisible = width > np.where(integer, 0.0, MIN_RELATIVE_WIDTH * size)
        divisible &= np.isin(np.arange(len(width)), self.inputs)
        width_of_input = np.where(divisible, width, 0.0)
        for effect in self._effects(node):
            yield effect * width_of_input
        yield np.where(integer & np.isfinite(width) & (width >= 1), width, 0.0)

    def _effects(self, node: BoxNode) -> list[ndarray]:
        """Three scores of all variables, the better one first: the effect of a unit on the linear
        bounds times the error of the outputs in the relaxation, or times their range, or 1.
        """
        error = np.zeros(len(node.lower))
        if node.point is not None:
            error = np.abs(self.instance.with_outputs(node.point) - node.point)
        totals = np.zeros((2, len(node.lower) + 1))  # the last column is that of constant inputs
        for (predictor, sample), bounds in node.output_bounds.items():
            outputs = self.instance.maps[predictor].output[sample]
            weights = np.abs(bounds.linear[-1].weights)
            largest = np.maximum(weights[::2], weights[1::2])
            changes = (error[outputs], bounds.upper - bounds.lower)
            for total, change in zip(totals, changes, strict=True):
                effect = (self.importance[outputs] * change) @ largest
                np.add.at(total, self.instance.maps[predictor].index[sample], effect)
        return [*totals[:, :-1], np.ones(len(node.lower))]

    def _split(self, node: BoxNode, variable: int) -> list[BoxNode]:
        """The two halves of a node's box: an integer variable is split at its value in the
        relaxation, another one in the middle of its range.
        """
        value = 0.5 * (node.lower[variable] + node.upper[variable])
        if not self.instance.milp.integer[variable]:
            boxes = branches(node.lower, node.upper, variable, value, value)
        else:
            if node.point is not None and self._fractionality(node).any():
                value = node.point[variable]
            boxes = integer_branches(node.lower, node.upper, variable, value)
        return [node.child(*box) for box in boxes]


def optimise_bounds(batch: NetworkBatch, steps: int) -> None:
    """Add linear bounds optimised for the solutions of the relaxations.

    Parameters
    ----------
    batch
        Samples on the boxes of nodes.
    steps
        Gradient steps.
    """
    moving = (batch.region.lower < batch.region.upper).any(1)
    known = torch.tensor([node.point is not None for node, _ in batch.samples])
    selected = (moving & known).nonzero()[:, 0]
    if not len(selected):
        return
    samples = [batch.samples[i] for i in selected]
    region = batch.region[selected]
    points = [
        replace(node, lower=node.point, upper=node.point).inputs(place).lower
        for node, place in samples
    ]
    point = torch.tensor(np.array(points)).clamp(region.lower, region.upper)
    better = optimised_crown(
        batch.graph,
        _BoxAroundPoint(region.lower, region.upper, point),
        steps=steps,
        known=batch.bounds[selected].nodes,
        tighten=False,
    )
    for (node, place), bounds in zip(samples, bounds_by_sample(better), strict=True):
        first = node.output_bounds[place]
        node.output_bounds[place] = first._replace(linear=first.linear + bounds.linear)

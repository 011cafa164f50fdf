"""Branch and bound on the units of a network, for many losses at once, in balls that grow."""

from copy import deepcopy
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..bounds.graph import Graph
from ..bounds.result import concatenate
from ..clock import now
from ..pricing.pricing_problem import MIN_LOGIT
from .bounding import STEPS_PER_NODE, Evaluated, evaluate, ranges_in_balls
from .leaf import solve_leaves
from .losses import Losses, search_points
from .nodes import Nodes, halved, roots, switched, switches

# Fractions of the target: the radius of the first ball, and by how much balls grow.
FIRST_RADIUS = 0.4
RADIUS_GROWTH = 0.1
FAST_RADIUS_GROWTH = 0.2

FAST_GROWTH_NODES = 64  # nodes of a ball below which the next one grows faster
MAX_BATCH_NODES = {"cpu": 512, "cuda": 8192}
MAX_BATCH_MULTIPLICATIONS = {"cpu": 2**26, "cuda": 2**31}
"""In one backward pass of a batch, so that time limits are checked in between."""
BATCHES_AHEAD = 8  # batches of nodes that are selected at a time
DEPTH_FIRST_BYTES = 2**30  # memory of open nodes from which those nearly proved come first
REFINED_RANGES_NODES = 16
"""Nodes of a loss in one ball after which the ranges of its units in the ball are optimised."""
MORE_STEPS_NODES = 8192
"""Nodes of a loss in one ball after which further nodes may take more gradient steps."""
MORE_STEPS_FACTOR = 2  # by which the number of steps grows then
POINT_SEARCH_STEPS = 12  # gradient steps of pricing from points at which bounds are attained
MAX_POINT_SEARCHES = 64  # such points of one batch
MIN_BISECTED_WIDTH = 1e-6  # input units: boxes of this width or less are not bisected


class LossBounds(NamedTuple):
    """The results of a search, one entry for each loss.

    Attributes
    ----------
    loss_bound : Tensor
        Proved lower bounds of the loss over all points.
    loss_known : Tensor
        The smallest losses known.
    nodes : Tensor
        Numbers of evaluated nodes.
    """

    loss_bound: Tensor
    loss_known: Tensor
    nodes: Tensor


SearchArguments = tuple[Graph, Losses, Tensor, float, int]
"""Arguments of `ReLUBranchAndBound`."""


@dataclass(eq=False)
class ReLUBranchAndBound:
    r"""Prove lower bounds (floors) of losses and raise them until the search is stopped.

    Above `loss_known - tolerance` nothing needs to be proved. A search within a radius $r$ ends
    when the loss is shown to be at least $r$ on every node; the search in the next, larger ball
    starts from its leaves. One node covers the entire ball first, which proves the easiest losses;
    then balls grow, since in small ones few units can switch and the first floors come fast; after
    balls with few nodes they grow faster. In balls with more than a few nodes the ranges of the
    units are computed again, with slopes of their own; with very many, nodes may take more steps.
    Nodes of losses with little work so far come first, so that easy losses are finished before hard
    ones.

    Parameters
    ----------
    graph : Graph
        The network.
    losses : Losses
        The losses, k entries.
    possible : Tensor
        The smallest losses known, (k,).
    tolerance : float
        The difference from `possible` at which a loss is solved.
    steps : int, optional
        Gradient steps of a node.

    Examples
    --------
    >>> from ddmip_lib.bounds import network_graph
    >>> from ddmip_lib.problems import hand_sized_net
    >>> one = torch.ones(1, 2, dtype=torch.float64)
    >>> class_1 = Losses(
    ...     0 * one, one, 0 * one, one, one, one[:, 0] * torch.inf, 0 * one[:, 0], one[:, 0]
    ... )
    >>> search = ReLUBranchAndBound(
    ...     network_graph(hand_sized_net(), 2), class_1, possible=one[:, 0], tolerance=1e-6
    ... )
    >>> search.run(now() + 60), round(search.progress().loss_bound.item(), 4)
    (True, 0.0)
    """

    graph: Graph
    losses: Losses
    possible: Tensor
    tolerance: float
    steps: int = STEPS_PER_NODE

    def __post_init__(self) -> None:
        self.possible = self.possible.clone()
        self.floor = torch.zeros_like(self.possible)
        self.radius = torch.zeros_like(self.floor)
        # the smallest bound of nodes that cannot be split any more
        self.unsplittable = torch.full_like(self.floor, torch.inf)
        # numbers of nodes: so far, at the last search for points, in the ball
        self.work = torch.zeros_like(self.floor, dtype=torch.long)
        self.work_at_search = torch.zeros_like(self.work)
        self.work_in_ball = torch.zeros_like(self.work)
        self.active = torch.zeros_like(self.floor, dtype=torch.bool)
        first = roots(self.graph, self.losses)
        # ranges of the units in the ball, infinite before they are optimised
        self.low = first.low.clone()
        self.high = first.high.clone()

        self.batch = _batch_size(self.graph, self.floor.device)
        self.open: list[Nodes] = []
        self.selected = (
            0  # the first entries of `open`, which are batches in the order of the search
        )
        self.leaves: list[Nodes] = [first]
        self._next_ball(torch.ones_like(self.active))

    @property
    def target(self) -> Tensor:
        """The floors at which the losses are solved to the tolerance."""
        return (self.possible - self.tolerance).clamp(min=0.0)

    @property
    def closed(self) -> Tensor:
        """Whether each loss is solved to the tolerance."""
        return self.floor >= self.target

    @property
    def finished(self) -> bool:
        """Whether no node is open."""
        return not self.open

    def unfathomed(self) -> Tensor:
        """Return the number of open nodes of each loss."""
        total = torch.zeros_like(self.work)
        for nodes in self.open:
            total = total + nodes.row.bincount(minlength=len(self.work))
        return total

    def progress(self) -> LossBounds:
        """Return what is proved so far, also within unfinished balls."""
        least = self._reached()
        for nodes in self.open:
            least = least.scatter_reduce(0, nodes.row, nodes.least, "amin")
        found = torch.maximum(self.floor, least), self.possible, self.work
        return LossBounds(*(part.cpu().clone() for part in found))

    def run(self, deadline: float, batches: float = inf) -> bool:
        """Search until the deadline or the end.

        Parameters
        ----------
        deadline : float
            The time, by `clock.now`, at which no further batch starts.
        batches : float
            The largest number of batches of nodes.

        Returns
        -------
        bool
            Whether the search is finished.
        """
        while not self.finished and now() < deadline and batches > 0:
            self.step()
            batches -= 1
        return self.finished

    def part(self, k: int, count: int) -> "ReLUBranchAndBound":
        """Return one of several searches that share the open nodes; this one remains unchanged.

        Nodes of one loss stay together where possible; its leaves are those of the first search
        with nodes of it. A loss is at least the smallest of the bounds that the searches prove;
        that of a search without nodes of it is infinite.

        Parameters
        ----------
        k
            Number of the search.
        count : int
            The number of searches.
        """
        pool = concatenate(self.open)
        pool = pool[pool.row.argsort(stable=True)]
        leaves = concatenate(self.leaves)
        number = torch.arange(len(pool), device=pool.row.device) * count // len(pool)
        first = torch.full_like(self.work, count).scatter_reduce(0, pool.row, number, "amin")
        part = deepcopy(self)
        part.open = [pool[number == k]]
        part.selected = 0
        part.leaves = [leaves[first[leaves.row] == k]]
        part.active = part.unfathomed() > 0
        part.floor[~part.active] = torch.inf
        return part

    def step(self) -> None:
        """Evaluate one batch of nodes and branch on those that are not proved."""
        nodes = self._refined(self._take())
        long = self.work_in_ball[nodes.row] >= MORE_STEPS_NODES
        steps = torch.where(long, MORE_STEPS_FACTOR * self.steps, self.steps)
        found = evaluate(self.graph, self.losses[nodes.row], nodes, self._reach()[nodes.row], steps)
        for count in (self.work, self.work_in_ball):
            count.index_add_(0, nodes.row, torch.ones_like(nodes.row))
        self._search_points(found)
        self._branch(found)
        del self.open[0]  # it counts as open until its children exist
        self.selected -= 1
        self._finish_balls()

    def _reach(self) -> Tensor:
        return torch.minimum(self.radius, self.target)

    def _reached(self) -> Tensor:
        return torch.minimum(self._reach(), self.unsplittable)

    def _take(self) -> Nodes:
        """Nodes of the losses with the least work, those with the smallest bound first."""
        if not self.selected:
            pool: Nodes = concatenate(self.open)
            depth_first = 32 * (pool.splits.numel() + pool.lower.numel()) > DEPTH_FIRST_BYTES
            order = pool.least.argsort(stable=True, descending=depth_first)
            order = order[self.work[pool.row[order]].argsort(stable=True)]
            count = BATCHES_AHEAD * self.batch
            batches = [*order[:count].split(self.batch), order[count:]]
            self.open = [pool[batch] for batch in batches if len(batch)]
            self.selected = min(len(self.open), BATCHES_AHEAD)
        return self.open[0]

    def _refined(self, nodes: Nodes) -> Nodes:
        """The nodes with the ranges of their balls, which are computed first for hard losses."""
        rows = nodes.row.unique()
        unknown = self.low[rows].isinf().all(1)
        hard = rows[unknown & (self.work_in_ball[rows] >= REFINED_RANGES_NODES)]
        if len(hard):
            low, high = ranges_in_balls(self.graph, self.losses[hard], self._reach()[hard])
            self.low[hard] = low
            self.high[hard] = high
        low = nodes.low.maximum(self.low[nodes.row])
        return replace(nodes, low=low, high=nodes.high.minimum(self.high[nodes.row]))

    def _search_points(self, found: Evaluated) -> None:
        """Search for points with smaller losses from those at which bounds are attained, whenever
        the work on a loss has doubled.
        """
        row = found.nodes.row
        due = (self.work[row] >= 2 * self.work_at_search[row]).nonzero()[:, 0]
        if not len(due):
            return
        relative = (found.nodes.least / self.possible[row].clamp(min=1e-300))[due]
        promising = due[relative.argsort()[:MAX_POINT_SEARCHES]]
        self.work_at_search[row[promising]] = self.work[row[promising]]
        losses = self.losses[row[promising]].to("cpu")
        graph = self.graph.to("cpu")
        start = found.point[promising].cpu()
        points = search_points(graph, losses, start, steps=POINT_SEARCH_STEPS, radius=0.05)
        self._submit(row[promising], points)

    def _submit(self, row: Tensor, points: Tensor) -> None:
        """Lower the smallest known losses by those of points."""
        points = points.cpu()
        output = self.graph.to("cpu")(points)[:, 0]
        loss = self.losses[row].to("cpu").at(points, output, MIN_LOGIT)
        self.possible.scatter_reduce_(0, row, loss.to(row.device), "amin")

    def _branch(self, found: Evaluated) -> None:
        """Split a unit of each node that is not proved; without one, solve or bisect the node."""
        nodes = found.nodes
        first = self.work[nodes.row] == 1
        row = nodes.row[first]  # the first node of a loss proves the ball of its bound
        self.radius[row] = self.radius[row].minimum(nodes.least[first])
        unproved = self._without_leaves(nodes)
        best, unit = found.scores.max(1)
        split = unproved & (best >= 0)
        linear = unproved & ~split
        if split.any():
            self.open += [switched(nodes[split], unit[split], sign) for sign in (1, -1)]
        if not linear.any():
            return
        if switches(self.graph).all():
            self._solve_leaves(nodes[linear])
        else:
            self._bisect(nodes[linear], found.pull[linear].argmax(1))

    def _without_leaves(self, nodes: Nodes) -> Tensor:
        """Keep the nodes that are proved as leaves; return which nodes are not."""
        proved = nodes.least >= self._reach()[nodes.row]
        self.leaves.append(nodes[proved].kept())
        return ~proved

    def _solve_leaves(self, nodes: Nodes) -> None:
        """Bound nodes in which no unit can switch by linear programs."""
        reach = self._reach()[nodes.row]
        nodes.least, points = solve_leaves(self.graph, self.losses[nodes.row], nodes, reach)
        self._submit(nodes.row, points)
        self._set_aside(nodes[self._without_leaves(nodes)])

    def _bisect(self, nodes: Nodes, coordinate: Tensor) -> None:
        """Halve the boxes of nodes on which the network is not linear."""
        width = (nodes.upper - nodes.lower).gather(1, coordinate[:, None])[:, 0]
        wide = width > MIN_BISECTED_WIDTH
        if wide.any():
            self.open += [halved(nodes[wide], coordinate[wide], sign) for sign in (1, -1)]
        self._set_aside(nodes[~wide])

    def _set_aside(self, nodes: Nodes) -> None:
        """Count the bounds of nodes that cannot be split any more."""
        self.unsplittable.scatter_reduce_(0, nodes.row, nodes.least, "amin")

    def _finish_balls(self) -> None:
        """Raise floors of losses without open nodes to their radius, and enlarge their balls."""
        finished = self.active & (self.unfathomed() == 0)
        if finished.any():
            raised = torch.maximum(self.floor, self._reached())
            self.floor = torch.where(finished, raised, self.floor)
            self._next_ball(finished)

    def _next_ball(self, rows: Tensor) -> None:
        """Start the next ball of some losses from the leaves of the last one."""
        going = rows & ~self.closed & self.unsplittable.isinf()
        self.active = torch.where(rows, going, self.active)
        fast = self.work_in_ball < FAST_GROWTH_NODES
        growth = torch.where(fast, FAST_RADIUS_GROWTH, RADIUS_GROWTH)
        fraction = (self.floor / self.target + growth).clamp(min=FIRST_RADIUS)
        grows = (self.work > 0) & (fraction < 1 - RADIUS_GROWTH / 2)
        fraction = torch.where(grows, fraction, 1.0)
        self.radius = torch.where(going, fraction * self.target, self.radius)
        self.work_in_ball[rows] = 0
        self.low[rows] = -torch.inf
        self.high[rows] = torch.inf
        leaves: Nodes = concatenate(self.leaves)
        self.leaves = [leaves[~rows[leaves.row]]]
        restarted = going[leaves.row]
        if restarted.any():
            self.open.append(leaves[restarted])


def _batch_size(graph: Graph, device: torch.device) -> int:
    """Nodes that are bounded together."""
    place = "cpu" if device.type == "cpu" else "cuda"
    units = np.array([graph.nodes[index].units for index in graph.hidden])
    pairs = (units.sum() ** 2 - (units**2).sum()) // 2
    # roughly the multiplications in a backward pass of one node from every unit
    affordable = MAX_BATCH_MULTIPLICATIONS[place] // max(1, 8 * int(pairs))
    return max(16, min(MAX_BATCH_NODES[place], affordable))

"""Branch and bound on the units of a network, for many rows at once, in balls that grow."""

from copy import copy, deepcopy
from dataclasses import replace
from math import inf
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..bounds.graph import Graph
from ..bounds.result import concatenate, select
from ..clock import now
from ..pricing.pricing_problem import MARGIN, ascend, reduce_to_boundary
from .bounding import STEPS_PER_NODE, Evaluated, evaluate, ranges_in_balls
from .leaf import solve_leaves
from .losses import Losses
from .nodes import Nodes, halved, roots, switched, switches

FIRST = 0.4
GROWTH = 0.1
FASTER = 0.2
"""The first ball of a row, and by how much balls grow, as shares of the loss that is known to be
possible.
"""
CHEAP = 64  # nodes of a ball below which the next one grows faster
BATCH = {"cpu": 512, "cuda": 8192}
WORK = {"cpu": 2**26, "cuda": 2**31}
"""Multiplications of a pass back through the network that a batch may take at most, so that clocks
are looked at.
"""
AHEAD = 8  # batches that are chosen at a time
LARGE = 2**30  # bytes of open nodes from which on those come first that are nearly done
# nodes of a row in one ball after which the ranges of its units in the whole ball are found with
# more care
HARD = 16
LONG = 8192
MORE = 2  # nodes of a row in one ball after which its nodes may take so many times the steps
LOOK = 12
# NN block steps from points where bounds are attained; such points tried in a batch, at most
LOOKED = 64
EACH = (
    "possible",
    "floor",
    "stuck",
    "work",
    "active",
    "looked",
    "radius",
    "entered",
    "asked",
    "refined",
    "ranges",
)
NARROW = 1e-6  # width below which the box of a node is not halved any more


class LossBounds(NamedTuple):
    """What a search has found, one entry for each row."""

    least: Tensor  #: No point of the row loses less: proven.
    possible: Tensor  #: The smallest loss known.
    nodes: Tensor


class ReLUBranchAndBound:
    r"""Proves for every row that no point loses less than some `floor`, and raises the floors as
    long as it is let.

    `possible[i]` is the smallest loss known for row i; above `possible - tolerance` there is
    nothing to prove. A search within a radius $r$ ends when every node is shown to lose at least
    $r$; its leaves are where the search in the next, larger ball begins. One node asks about the
    whole ball first, which closes the easiest rows; then balls grow, since in small ones few units
    can switch and the first floors come fast; after balls that took few nodes they grow faster.
    Where a ball takes more than a few nodes, the ranges of the units in it are found anew, with
    slopes of their own; where it takes very many, nodes may take twice the `steps`. Nodes of rows
    with little work so far come first, so that easy rows are closed before hard ones take the time.

    >>> from ddmip_lib.bounds import network_graph
    >>> from ddmip_lib.problems import hand_sized_net
    >>> one = torch.ones(1, 2, dtype=torch.float64)
    >>> class_1 = Losses(
    ...     0 * one, one, 0 * one, one, one, one[:, 0] * torch.inf, 0 * one[:, 0], one[:, 0]
    ... )
    >>> search = ReLUBranchAndBound(
    ...     network_graph(hand_sized_net(), 2), class_1, possible=one[:, 0], tolerance=1e-6
    ... )
    >>> search.run(now() + 60), round(search.progress().least.item(), 4)
    (True, 0.0)
    """

    def __init__(
        self,
        graph: Graph,
        losses: Losses,
        possible: Tensor,
        tolerance: float,
        steps: int | None = None,
    ) -> None:
        self.graph = graph
        self.losses = losses
        self.tolerance = tolerance
        self.steps = STEPS_PER_NODE if steps is None else steps
        self.here = graph.to("cpu")
        self.here_losses = losses.to("cpu")
        device = losses.lower.device
        k = len(possible)
        self.possible = possible.clone()
        self.floor = torch.zeros(k, dtype=torch.float64, device=device)
        self.stuck = torch.full((k,), torch.inf, dtype=torch.float64, device=device)
        """The least loss of nodes that can be split no further."""
        self.work = torch.zeros(k, dtype=torch.long, device=device)
        self.active = torch.zeros(k, dtype=torch.bool, device=device)
        self.radius = torch.zeros(k, dtype=torch.float64, device=device)
        self.looked = torch.zeros_like(
            self.work
        )  # the work at which points of a row were last looked for
        self.entered = torch.zeros_like(self.work)  # the work at which a row came to its ball
        self.asked = torch.zeros(
            k, dtype=torch.bool, device=device
        )  # whether its whole ball had its one node
        self.refined = torch.zeros(k, dtype=torch.bool, device=device)
        sizes = [(k, graph.nodes[index].units) for index in graph.hidden]
        self.ranges = [
            (self.stuck.new_full(size, -torch.inf), self.stuck.new_full(size, torch.inf))
            for size in sizes
        ]
        """Of the units, for every row in its ball."""
        self.whole = all(switches(graph))  # whether nodes without free units are linear
        place = "cpu" if device.type == "cpu" else "cuda"
        self.batch = max(16, min(BATCH[place], WORK[place] // _multiplications(graph)))
        self.next: Nodes | None = None
        self.current: Nodes | None = None  # the batch in progress
        self.open: list[Nodes] = []
        self.done: list[Nodes] = [roots(graph, losses)]
        self._next_ball(torch.ones(k, dtype=torch.bool, device=device))

    @property
    def target(self) -> Tensor:
        """The floor at which a row is closed."""
        return (self.possible - self.tolerance).clamp(min=0.0)

    @property
    def closed(self) -> Tensor:
        return self.floor >= self.target

    @property
    def finished(self) -> bool:
        return not self.open and self.next is None and self.current is None

    def waiting(self) -> Tensor:
        """How many nodes of each row are open."""
        return sum(
            (part.row.bincount(minlength=len(self.work)) for part in self._waiting()), 0 * self.work
        )

    def progress(self) -> LossBounds:
        """What is proven, that of unfinished searches included."""
        least = self._reached()
        for nodes in self._waiting():
            least = least.scatter_reduce(0, nodes.row, nodes.least, "amin")
        found = torch.maximum(self.floor, least), self.possible, self.work
        return LossBounds(*(part.cpu().clone() for part in found))

    def run(self, deadline: float, batches: float = inf) -> bool:
        """Work until the deadline, the end, or for so many batches of nodes; whether all is
        done.
        """
        while not self.finished and now() < deadline and batches > 0:
            self.step()
            batches -= 1
        return self.finished

    def parts(self, count: int) -> list[tuple[Tensor, "ReLUBranchAndBound"]]:
        """So many searches that share the open nodes, and which rows each of them has.

        Nodes of one row stay together as far as that goes. A row loses at least what all who have
        it prove.
        """
        pool = concatenate(self._waiting())
        leaves = concatenate(self.done)
        pool = pool[pool.row.argsort(stable=True)]
        place = torch.arange(len(pool), device=pool.row.device) * count // len(pool)
        first = torch.full_like(self.work, count).scatter_reduce(0, pool.row, place, "amin")
        last = torch.zeros_like(self.work).scatter_reduce(0, pool.row, place, "amax")
        turns = (
            torch.arange(len(leaves), device=pool.row.device)
            % (last - first + 1).clamp(min=1)[leaves.row]
        )
        leaf_place = first[leaves.row] + turns
        return [self._part(pool[place == k], leaves[leaf_place == k]) for k in range(count)]

    def _part(self, nodes: Nodes, leaves: Nodes) -> tuple[Tensor, "ReLUBranchAndBound"]:
        rows = nodes.row.unique()
        part = copy(self)
        part.losses = self.losses[rows]
        part.here_losses = self.here_losses[rows.cpu()]
        for name in EACH:
            setattr(part, name, select(getattr(self, name), rows))
        mine = [replace(each, row=torch.searchsorted(rows, each.row)) for each in (nodes, leaves)]
        part.next = part.current = None
        part.open = mine[:1]
        part.done = mine[1:]
        return rows, part

    def state(self) -> dict[str, Any]:
        """Everything but the network, which those who go on with the search have already."""
        return {name: value for name, value in vars(self).items() if name not in ("graph", "here")}

    @classmethod
    def resumed(cls, graph: Graph, state: dict[str, Any]) -> "ReLUBranchAndBound":
        """A search that goes on from a state, and leaves the state as it is."""
        search = cls.__new__(cls)
        vars(search).update(deepcopy(state), graph=graph, here=graph.to("cpu"))
        return search

    def step(self) -> None:
        """Evaluate one batch of nodes and split those that are not done."""
        self.current = self._take()  # counted as open until their children are there
        nodes = self._refined(self.current)
        steps = torch.where(
            (self.work - self.entered)[nodes.row] >= LONG, MORE * self.steps, self.steps
        )
        found = evaluate(self.graph, self.losses[nodes.row], nodes, self._reach()[nodes.row], steps)
        self.work.index_add_(0, nodes.row, torch.ones_like(nodes.row))
        self._look(found)
        self._sort(found)
        self.current = None
        self._finish()

    def _reach(self) -> Tensor:
        return torch.minimum(self.radius, self.target)

    def _reached(self) -> Tensor:
        return torch.minimum(self._reach(), self.stuck)

    def _waiting(self) -> list[Nodes]:
        return [*self.open, *(nodes for nodes in (self.next, self.current) if nodes is not None)]

    def _take(self) -> Nodes:
        """Nodes of the rows with the least work, those with the smallest loss first."""
        if self.current is not None:  # the batch before was interrupted
            self.open = [*self.open, self.current]
            self.current = None
        if self.next is None:
            pool: Nodes = concatenate(self.open)
            order = pool.least.argsort(stable=True, descending=pool.bytes() > LARGE)
            order = order[self.work[pool.row[order]].argsort(stable=True)]
            taken = AHEAD * self.batch
            self.next = pool[order[:taken]]
            self.open = [pool[order[taken:]]] if len(pool) > taken else []
        nodes = self.next
        self.next = nodes[self.batch :] if len(nodes) > self.batch else None
        return nodes[: self.batch]

    def _refined(self, nodes: Nodes) -> Nodes:
        """The nodes with what is known of their rows; hard rows get better ranges first."""
        rows = nodes.row.unique()
        hard = rows[~self.refined[rows] & (self.work[rows] - self.entered[rows] >= HARD)]
        if len(hard):
            found = ranges_in_balls(self.graph, self.losses[hard], self._reach()[hard])
            for (low, high), (new_low, new_high) in zip(self.ranges, found, strict=True):
                low[hard], high[hard] = new_low, new_high
            self.refined[hard] = True
        if not self.refined[rows].any():
            return nodes
        tight = [
            (torch.maximum(a, low[nodes.row]), torch.minimum(b, high[nodes.row]))
            for (a, b), (low, high) in zip(nodes.ranges, self.ranges, strict=True)
        ]
        return replace(nodes, ranges=tight)

    def _look(self, found: Evaluated) -> None:
        """Search for points that lose less than is known, from where bounds are attained, as often
        as work doubles.
        """
        row = found.nodes.row
        due = (self.work[row] >= 2 * self.looked[row]).nonzero()[:, 0]
        if not len(due):
            return
        promising = due[
            (found.nodes.least / self.possible[row].clamp(min=1e-300))[due].argsort()[:LOOKED]
        ]
        self.looked[row[promising]] = self.work[row[promising]]
        row = row[promising].cpu()
        points = found.point[promising].cpu()
        losses = self.here_losses[row]
        task = losses.task()
        points, _ = ascend(self.here, task, points, LOOK, radius=0.05)
        if bool(losses.gain.isinf().all()):
            points = reduce_to_boundary(self.here, task, points)
        self._learn(row, points)

    def _learn(self, row: Tensor, points: Tensor) -> None:
        """Points that lose less than was known to be possible."""
        loss = (
            self.here_losses[row]
            .at(points, self.here(points)[:, 0], MARGIN)
            .to(self.possible.device)
        )
        self.possible.scatter_reduce_(0, row.to(self.possible.device), loss, "amin")

    def _sort(self, found: Evaluated) -> None:
        """Split what is not done: a unit, or an input where no unit can switch but the network
        still bends.
        """
        nodes = found.nodes
        fine = nodes.least >= self._reach()[nodes.row]
        first = ~fine & ~self.asked[nodes.row]
        self.radius[nodes.row[first]] = nodes.least[first]  # the ball that the one node did prove
        self.asked[nodes.row] = True
        fine |= first
        self._keep(nodes, fine)
        best, unit = found.scores.max(1)
        bends = ~fine & (best >= 0)
        rest = ~fine & ~(best >= 0)
        if bends.any():
            self.open += [switched(nodes[bends], unit[bends], sign) for sign in (1, -1)]
        if not rest.any():
            return
        nodes = nodes[rest]
        pull = found.pull[rest]
        if self.whole:
            nodes.least, points = solve_leaves(
                self.graph, self.losses[nodes.row], nodes, self._reach()[nodes.row]
            )
            self._learn(nodes.row.cpu(), points.cpu())
            fine = nodes.least >= self._reach()[nodes.row]
            self._keep(nodes, fine)
            nodes = nodes[~fine]
        else:
            wide = ((nodes.upper - nodes.lower) > NARROW).gather(1, pull.argmax(1, keepdim=True))[
                :, 0
            ]
            if wide.any():
                self.open += [halved(nodes[wide], pull[wide].argmax(1), sign) for sign in (1, -1)]
            nodes = nodes[~wide]
        if len(nodes):
            self.stuck.scatter_reduce_(0, nodes.row, nodes.least, "amin")

    def _keep(self, nodes: Nodes, which: Tensor) -> None:
        if which.any():
            self.done.append(nodes[which].kept())

    def _finish(self) -> None:
        """Rows without open nodes have reached their radius: the next ball, from the leaves of this
        one.
        """
        busy = torch.zeros_like(self.closed)
        for nodes in self._waiting():
            busy[nodes.row] = True
        finished = ~busy & self.active
        if finished.any():
            self.floor = torch.where(
                finished, torch.maximum(self.floor, self._reached()), self.floor
            )
            self._next_ball(finished)

    def _next_ball(self, rows: Tensor) -> None:
        going = rows & ~self.closed & self.stuck.isinf()
        self.active = going | (self.active & ~rows)
        growth = torch.where(self.work - self.entered < CHEAP, FASTER, GROWTH)
        share = (self.floor / self.target + growth).clamp(min=FIRST)
        share = torch.where(self.asked & (share < 1 - GROWTH / 2), share, 1.0)
        self.radius = torch.where(going, share * self.target, self.radius)
        self.entered = torch.where(rows, self.work, self.entered)
        self.refined = self.refined & ~rows
        for low, high in self.ranges:
            low[rows], high[rows] = -torch.inf, torch.inf
        leaves: Nodes = concatenate(self.done)
        again = going[leaves.row]
        other = (self.active & ~going)[leaves.row]
        self.done = [leaves[other]]
        if again.any():
            self.open.append(leaves[again].kept())


def _multiplications(graph: Graph) -> int:
    """Of one node in one pass back from every unit, roughly."""
    units = [graph.nodes[index].units for index in graph.hidden]
    return max(1, sum(2 * a * sum(units[:k]) for k, a in enumerate(units)) * 4)

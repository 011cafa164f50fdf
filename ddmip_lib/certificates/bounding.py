r"""Lower bounds of the loss on nodes: CROWN over the ball, then slopes and multipliers by gradient
steps.

Where every point has a loss below the radius $r$, its cost is below $r$, and so the network need
only be bounded on a ball. With $q^\top u + \kappa \le -f(u)$ there, weak duality gives for every $0
\le \mu \le g$

$$\text{loss}(u) \ge \min_u \text{cost}(u) + \mu\,(h + q^\top u + \kappa)
= \mu\,(h + q^\top w + \kappa) - \sum_j \omega_j \, (\mu |q_j| - \pi_j)_+ ,$$

with room $\omega_j$ and price $\pi_j$ in the direction in which $q_j$ falls. The best $\mu$ is a
breakpoint $\pi_j / |q_j|$ (a fractional knapsack), and the form is improved by gradient steps on
its lower slopes and on the multipliers of the splits, which are all sound. The same form is a plane
that no interesting point lies behind: $-q^\top u - \kappa \ge h - r/g$; what the children of a node
find out about the network, they find out in front of it.

Forms come with their rounding (`bounds.rounding`); what is added here is pushed in the same way.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..bounds import Ball
from ..bounds.graph import Graph
from ..bounds.optimise import optimised_crown
from ..bounds.propagation import BoundPropagation
from ..bounds.result import Range
from .ascent import Ascent, climb, concatenated
from .cut_ball import CutBall
from .losses import Least, Losses, least_loss
from .nodes import Nodes, switches

STEPS = 30  # gradient steps of a node, unless other numbers are asked for
# relative distance beyond the radius at which steps end: the bound that counts is rounded, theirs
# is not
ROOM = 1e-9
HINT = 1e-3  # weight of a unit's range in its score, against what its line costs
INNER = 15  # gradient steps on the slopes of each unit's own range


class Evaluated(NamedTuple):
    """What was found out about nodes; `scores` of units (k, units) are negative where there is
    nothing to split.
    """

    nodes: Nodes
    point: Tensor
    scores: Tensor
    pull: Tensor  # how much each input moves the bounding form across the node, (k, p)


def ranges_in_balls(graph: Graph, losses: Losses, radius: Tensor) -> list[Range]:
    """Ranges of what enters the activations, over the whole ball of each row, with slopes for every
    unit and side.

    They cost as much as many nodes, and hold in all nodes of the row.
    """
    centre = torch.minimum(torch.maximum(losses.base, losses.lower), losses.upper)
    left = (radius - losses.cost(centre)).clamp(min=0.0)
    ball = Ball(losses.lower, losses.upper, centre, losses.up, losses.down, left)
    found = optimised_crown(graph, ball, steps=0, inner=INNER).nodes
    return [found[index] for index in graph.hidden]


def sweep_of(
    graph: Graph, losses: Losses, nodes: Nodes, radius: Tensor
) -> tuple[BoundPropagation, CutBall, Tensor]:
    """The ranges of the network on nodes, their regions, and what already the way to their boxes
    costs.
    """
    centre = torch.minimum(torch.maximum(losses.base, nodes.lower), nodes.upper)
    way = losses.cost(centre)
    left = (radius - way).clamp(min=0.0)
    region = CutBall(nodes.lower, nodes.upper, centre, losses.up, losses.down, left, *nodes.cut)
    known: list[Range] = [
        (nodes.least.new_tensor(-torch.inf), nodes.least.new_tensor(torch.inf))
    ] * len(graph.nodes)
    for place, index in enumerate(graph.hidden):
        known[index] = nodes.ranges[place]
    return BoundPropagation(graph, region, None, nodes.splits, frugal=True).run(known), region, way


def bound_by(
    sweep: BoundPropagation,
    losses: Losses,
    region: Ball,
    slopes: Sequence[Tensor],
    duals: Sequence[Tensor],
) -> tuple[Least, Tensor, Tensor]:
    """The bound with these slopes and multipliers of splits, and its form, rounding included."""
    minus = -region.lower.new_ones(1, 1, 1)
    coef, const = sweep.follow_back(len(sweep.graph.nodes) - 1, minus, slopes, duals)
    return least_loss(losses, region, coef[:, 0], const[:, 0]), coef[:, 0], const[:, 0]


@torch.no_grad()
def evaluate(
    graph: Graph, losses: Losses, nodes: Nodes, radius: Tensor, steps: int | Tensor | None = None
) -> Evaluated:
    """Bound the loss on nodes within a radius; `losses` holds one row for each node.

    `steps` is how many gradient steps a node may take (one number for all, or one each; by default
    `STEPS`). A node takes none where its first bound already reaches the radius, or where it holds
    no point at all.
    """
    sweep, region, way = sweep_of(graph, losses, nodes, radius)
    lines = [sweep.lines[index] for index in graph.activations]
    slopes = [
        torch.where(start.isnan() | ~line.free, line.below, start)
        for start, line in zip(nodes.slopes, lines, strict=True)
    ]
    first = bound_by(sweep, losses, region, slopes, nodes.duals)[0]
    done = sweep.empty | (torch.maximum(way, nodes.least) >= radius)
    goal = torch.where(done, -torch.inf, (radius - way) * (1 + ROOM))
    most = torch.as_tensor(STEPS if steps is None else steps).to(radius.device)
    ascent = Ascent.of(sweep, losses, region)
    start = concatenated(slopes, region.centre)
    best = climb(ascent, start, concatenated(nodes.duals, region.centre), first.value, most, goal)
    slopes, duals = (
        list(parts.split([line.above.shape[1] for line in lines], 1)) if lines else []
        for parts in best
    )
    least, coef, const = bound_by(sweep, losses, region, slopes, duals)
    value = torch.where(sweep.empty, torch.inf, way + least.value)
    value = torch.maximum(value, torch.maximum(way, nodes.least))
    cut = (
        -coef,
        -const - losses.level + torch.where(losses.gain.isinf(), 0.0, radius / losses.gain),
    )
    ranges = [sweep.ranges[index] for index in graph.hidden]
    new = Nodes(
        nodes.row, nodes.lower, nodes.upper, nodes.splits, value, ranges, cut, slopes, duals
    )
    box = region.box()
    pull = coef.abs() * (box.upper - box.lower)
    scores = _scores(graph, ascent, ranges, least.multiplier[:, None] * ascent.coefs(*best))
    return Evaluated(new, least.point, scores, pull)


def _scores(graph: Graph, ascent: Ascent, ranges: Sequence[Range], pull: Tensor) -> Tensor:
    """What splitting a unit may win: what its line above costs, and a little for its range; `pull`
    on all units.
    """
    if not ranges:
        return pull.new_full((len(pull), 1), -1.0)
    low, high = (torch.cat(ends, 1) for ends in zip(*ranges, strict=True))
    scores = (-pull).clamp(min=0.0) * ascent.above_shift + HINT * pull.abs() * torch.minimum(
        -low, high
    )
    relu = torch.cat(
        [
            torch.full_like(low[0], kind, dtype=torch.bool)
            for kind, (low, _) in zip(switches(graph), ranges, strict=True)
        ]
    )
    return torch.where(ascent.free & relu, scores, -1.0)

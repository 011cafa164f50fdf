r"""Lower bounds of the loss on nodes: CROWN over the ball, then gradient steps on the slopes of the
activations and on the multipliers of the splits.

A point with a loss below the radius $r$ has a cost below $r$, so the network need only be bounded
on a ball. With a linear bound $q^\top u + \kappa \le -f(u)$ there, weak duality gives for every $0
\le \mu \le g$

$$\text{loss}(u) \ge \min_u \text{cost}(u) + \mu\,(h + q^\top u + \kappa)
= \mu\,(h + q^\top w + \kappa) - \sum_j \omega_j \, (\mu |q_j| - \pi_j)_+ ,$$

with room $\omega_j$ and price $\pi_j$ in the direction in which $q_j$ falls. The best $\mu$ is a
breakpoint $\pi_j / |q_j|$ (a fractional knapsack), and the linear bound is improved by gradient
steps on the slopes of its activations and on the multipliers of the splits, which are all sound.
The same linear bound is a cut that every point with a loss below the radius satisfies: $-q^\top u -
\kappa \ge h - r/g$; the children of a node are bounded over the ball with this cut.

Linear bounds include their rounding (`bounds.rounding`); rounding of the terms that are added here
is bounded likewise.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..bounds import Ball
from ..bounds.graph import Graph
from ..bounds.optimise import optimised_crown
from ..bounds.propagation import BoundPropagation
from ..bounds.result import Range
from .ascent import Ascent, climb
from .cut_ball import CutBall
from .losses import Least, Losses, least_loss
from .nodes import Nodes, by_activation, concatenated, switches

STEPS_PER_NODE = 30  # gradient steps of a node, by default
GOAL_EXCESS = 1e-9
"""Relative distance beyond the radius at which steps end: the final bound is lowered by rounding,
theirs are not.
"""
RANGE_WEIGHT = 1e-3
"""Weight of a unit's range in its score, relative to the loss that its upper bound may cost."""
STEPS_PER_RANGE = 15  # gradient steps on the slopes for each unit's own range


class Evaluated(NamedTuple):
    """Bounds of nodes, and how to split them.

    Attributes
    ----------
    nodes : Nodes
        The same nodes with their bounds, ranges, cuts, slopes and multipliers.
    point : Tensor
        Points at which the bounds are attained, (k, p).
    scores : Tensor
        Scores of splitting each unit, (k, units + 1); negative where a unit cannot be split, and in
        the last column.
    pull : Tensor
        The change of the linear bound by each input across the node, (k, p).
    """

    nodes: Nodes
    point: Tensor
    scores: Tensor
    pull: Tensor


def ranges_in_balls(graph: Graph, losses: Losses, radius: Tensor) -> Range:
    """Bound the inputs of the activations over whole balls, with slopes for every unit and side.

    They take the time of many nodes, and hold in all nodes of the ball.

    Parameters
    ----------
    graph : Graph
        The network.
    losses : Losses
        The losses, one for each ball.
    radius : Tensor
        The radii, (k,).

    Returns
    -------
    pair of Tensor
        Lower and upper bounds, (k, units).
    """
    centre = losses.base.clamp(losses.lower, losses.upper)
    left = (radius - losses.cost(centre)).clamp(min=0.0)
    ball = Ball(losses.lower, losses.upper, centre, losses.up, losses.down, left)
    bounds = optimised_crown(graph, ball, steps=0, inner=STEPS_PER_RANGE)
    return _ranges(bounds.nodes, graph, centre)


@dataclass(eq=False)
class NodePropagation(BoundPropagation):
    """Bound propagation over the regions of nodes.

    Attributes
    ----------
    region : CutBall
        The regions.
    losses : Losses
        The losses, one for each node.
    """

    region: CutBall
    losses: Losses = field(kw_only=True)

    @property
    def cost(self) -> Tensor:
        """The costs of the points of the nodes that are nearest to the base points, (k,)."""
        return self.losses.cost(self.region.centre)

    def bound_loss(self, slopes: Tensor | None, duals: Tensor) -> tuple[Least, Tensor, Tensor]:
        """Bound the loss with given slopes of lower bounds and multipliers of splits.

        Parameters
        ----------
        slopes : Tensor, optional
            Slopes below the activations, (k, units); by default those with the smaller area.
        duals : Tensor
            Multipliers of the splits, (k, units).

        Returns
        -------
        least : Least
            The bounds.
        coef, const : Tensor
            The linear bounds of the negative output, (k, p) and (k,), rounding included.
        """
        minus = -self.region.lower.new_ones(1, 1, 1)
        below = None if slopes is None else by_activation(self.graph, slopes)
        last = len(self.graph.nodes) - 1
        found = self.follow_back(last, minus, below, by_activation(self.graph, duals))
        coef, const = (part[:, 0] for part in found)
        return least_loss(self.losses, self.region, coef, const), coef, const


def propagated(graph: Graph, losses: Losses, nodes: Nodes, radius: Tensor) -> NodePropagation:
    """Propagate bounds through the network on nodes.

    Parameters
    ----------
    graph : Graph
        The network.
    losses : Losses
        The losses, one for each node.
    nodes : Nodes
        The nodes.
    radius : Tensor
        The radii within which the bounds hold, (k,).

    Returns
    -------
    NodePropagation
        The ranges of all units.
    """
    centre = losses.base.clamp(nodes.lower, nodes.upper)
    prices = losses.up, losses.down, (radius - losses.cost(centre)).clamp(min=0.0)
    region = CutBall(nodes.lower, nodes.upper, centre, *prices, nodes.cut, nodes.level)
    infinite = radius.new_tensor(torch.inf)
    known: list[Range] = [(-infinite, infinite)] * len(graph.nodes)
    ends = by_activation(graph, nodes.low), by_activation(graph, nodes.high)
    for index, low, high in zip(graph.hidden, *ends, strict=True):
        known[index] = (low, high)
    splits = by_activation(graph, nodes.splits)
    sweep = NodePropagation(graph, region, splits=splits, frugal=True, losses=losses)
    sweep.run(known)
    return sweep


@torch.no_grad()
def evaluate(
    graph: Graph,
    losses: Losses,
    nodes: Nodes,
    radius: Tensor,
    steps: int | Tensor = STEPS_PER_NODE,
) -> Evaluated:
    """Bound the loss on nodes within a radius.

    Parameters
    ----------
    graph : Graph
        The network.
    losses : Losses
        The losses, one for each node.
    nodes : Nodes
        The nodes.
    radius : Tensor
        The radii, (k,).
    steps : int or Tensor
        The largest number of gradient steps, of all nodes or of each. A node takes none where its
        first bound reaches the radius, or where it contains no point.

    Returns
    -------
    Evaluated
        The bounds, and what the children of the nodes can start from.
    """
    sweep = propagated(graph, losses, nodes, radius)
    ascent = Ascent.of(sweep, losses, sweep.region, nodes.splits)
    done = sweep.empty | (torch.maximum(sweep.cost, nodes.least) >= radius)
    goal = torch.where(done, -torch.inf, radius - sweep.cost) * (1 + GOAL_EXCESS)
    slopes = torch.where(nodes.slopes.isnan() | ~ascent.free, ascent.below, nodes.slopes)
    first = sweep.bound_loss(slopes, nodes.duals)[0].value
    most = torch.as_tensor(steps, device=goal.device)
    return _evaluated(
        ascent, sweep, nodes, climb(ascent, slopes, nodes.duals, first, most, goal), radius
    )


def _evaluated(
    ascent: Ascent,
    sweep: NodePropagation,
    nodes: Nodes,
    best: tuple[Tensor, Tensor],
    radius: Tensor,
) -> Evaluated:
    """The bounds with the best slopes and multipliers, rounding included.

    The score of splitting a unit is the loss that the constant of its upper bound costs, and a
    small term for its range.
    """
    least, coef, const = sweep.bound_loss(*best)
    value = torch.where(sweep.empty, torch.inf, sweep.cost + least.value)
    low, high = _ranges(sweep.ranges, sweep.graph, coef)
    bounded = replace(
        nodes,
        least=value.maximum(sweep.cost).maximum(nodes.least),
        low=low,
        high=high,
        cut=-coef,
        level=-const - sweep.losses.level + radius / sweep.losses.gain,
        slopes=best[0],
        duals=best[1],
    )
    pull = least.multiplier[:, None] * ascent.coefs(*best)
    scores = (-pull).clamp(min=0.0) * ascent.above_shift
    scores = scores + RANGE_WEIGHT * pull.abs() * torch.minimum(-low, high)
    can_split = ascent.free & switches(sweep.graph).to(pull.device)
    scores = pad(torch.where(can_split, scores, -1.0), (0, 1), value=-1.0)
    box = sweep.region.box()
    return Evaluated(bounded, least.point, scores, coef.abs() * (box.upper - box.lower))


def _ranges(ranges: list[Range], graph: Graph, like: Tensor) -> Range:
    """The ranges of the inputs of all activations, side by side."""
    low = concatenated((ranges[index][0] for index in graph.hidden), like)
    return low, concatenated((ranges[index][1] for index in graph.hidden), like)

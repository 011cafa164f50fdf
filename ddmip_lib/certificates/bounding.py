r"""Lower bounds of the loss on nodes: CROWN over the ball, then slopes and multipliers by gradient steps.

Where every point has a loss below the radius $r$, its cost is below $r$, and so the network need only be bounded on a
ball. With $q^\top u + \kappa \le -f(u)$ there, weak duality gives for every $0 \le \mu \le g$

$$\text{loss}(u) \ge \min_u \text{cost}(u) + \mu\,(h + q^\top u + \kappa)
= \mu\,(h + q^\top w + \kappa) - \sum_j \omega_j \, (\mu |q_j| - \pi_j)_+ ,$$

with room $\omega_j$ and price $\pi_j$ in the direction in which $q_j$ falls. The best $\mu$ is a breakpoint
$\pi_j / |q_j|$ (a fractional knapsack), and the form is improved by gradient steps on its lower slopes and on the
multipliers of the splits, which are all sound. The same form is a plane that no interesting point lies behind:
$-q^\top u - \kappa \ge h - r/g$; what the children of a node find out about the network, they find out in front of it.

Forms come with their rounding (`bounds.rounding`); what is added here is pushed in the same way.
"""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..bounds import Ball
from ..bounds.activations import Lines
from ..bounds.graph import Graph
from ..bounds.optimise import optimised_crown
from ..bounds.result import Range, pick
from ..bounds.rounding import gamma
from ..bounds.sweep import Sweep
from .cut_ball import CutBall
from .losses import Losses
from .nodes import Nodes, switches

STEPS = 30  # gradient steps of a node, unless other numbers are asked for
RATE, FADE = 0.1, 0.97
ROOM = 1e-9  # relative distance beyond the radius at which steps end: the bound that counts is rounded, theirs is not
DROP = 0.9  # share of the nodes in a step that must still need it; else the others are taken out
HINT = 1e-3  # weight of a unit's range in its score, against what its line costs
INNER = 15  # gradient steps on the slopes of each unit's own range


class Least(NamedTuple):
    """A lower bound of the loss (k,), the multiplier that gives it, and the point where it is attained (k, p)."""

    value: Tensor
    multiplier: Tensor
    point: Tensor


def least_loss(losses: Losses, region: Ball, coef: Tensor, const: Tensor, multiplier: Tensor | None = None) -> Least:
    """The largest bound that one form `coef` u + `const` <= -f(u) gives over each ball; differentiable in the form."""
    falls = coef > 0
    price = torch.where(falls, region.down, region.up)
    room = torch.where(falls, region.centre - region.lower, region.upper - region.centre)
    need = losses.level + (coef * region.centre).sum(-1) + const
    with torch.no_grad():
        ratio = torch.where(coef != 0, price / coef.abs(), torch.inf)
        ratio, order = ratio.sort(-1)
        got = (coef.abs() * room).gather(-1, order).cumsum(-1)
        enough = got >= need[:, None]
        first = enough.to(torch.int8).argmax(-1, keepdim=True)
        missing = (need - got[:, -1]).clamp(min=1e-300)
        beyond = torch.where(ratio.isfinite(), ratio, 0.0).amax(-1) + 2 * region.radius / missing
        best = torch.where(enough.any(-1), ratio.gather(-1, first)[:, 0], beyond.clamp(max=1e12))
        least = torch.where(ratio > 0, ratio, torch.inf).amin(-1)  # where 0 is best, gradients need another one
        best = torch.where(need > 0, best, torch.where(least.isfinite(), least, 1.0)).minimum(losses.gain)
        reached = got.gather(-1, first)[:, 0]
        last = torch.zeros_like(coef).scatter(-1, order.gather(-1, first), 1.0) > 0
        part = ((reached - need) / (coef.abs() * room).gather(-1, order.gather(-1, first))[:, 0]).clamp(0.0, 1.0)
        moved = torch.where(price < best[:, None] * coef.abs(), 1.0, 0.0)
        moved = torch.where(last & enough.any(-1)[:, None], 1.0 - part.nan_to_num(0.0)[:, None], moved)
        moved = torch.where((need > 0)[:, None], moved, 0.0) * room
        point = region.centre + torch.where(falls, -moved, moved)
    if multiplier is not None:
        best = multiplier.minimum(losses.gain)
    back = (room * (best[:, None] * coef.abs() - price).clamp(min=0.0)).sum(-1)
    size = best * (losses.level.abs() + (coef * region.centre).abs().sum(-1) + const.abs()) + back
    value = best * need - back - gamma(4 * coef.shape[-1] + 32) * size.detach()
    return Least(value, best, point)


class Evaluated(NamedTuple):
    """What was found out about nodes; `scores` of units (k, units) are negative where there is nothing to split."""

    nodes: Nodes
    point: Tensor
    scores: Tensor
    pull: Tensor  # how much each input moves the bounding form across the node, (k, p)


def ranges_in_balls(graph: Graph, losses: Losses, radius: Tensor) -> list[Range]:
    """Ranges of what enters the activations, over the whole ball of each row, with slopes for every unit and side.

    They cost as much as many nodes, and hold in all nodes of the row.
    """
    centre = torch.minimum(torch.maximum(losses.base, losses.lower), losses.upper)
    left = (radius - losses.cost(centre)).clamp(min=0.0)
    ball = Ball(losses.lower, losses.upper, centre, losses.up, losses.down, left)
    found = optimised_crown(graph, ball, steps=0, inner=INNER).nodes
    return [found[index] for index in graph.hidden]


def sweep_of(graph: Graph, losses: Losses, nodes: Nodes, radius: Tensor) -> tuple[Sweep, CutBall, Tensor]:
    """The ranges of the network on nodes, their regions, and what already the way to their boxes costs."""
    centre = torch.minimum(torch.maximum(losses.base, nodes.lower), nodes.upper)
    way = losses.cost(centre)
    left = (radius - way).clamp(min=0.0)
    region = CutBall(nodes.lower, nodes.upper, centre, losses.up, losses.down, left, *nodes.cut)
    known: list[Range] = [(nodes.least.new_tensor(-torch.inf), nodes.least.new_tensor(torch.inf))] * len(graph.nodes)
    for place, index in enumerate(graph.hidden):
        known[index] = nodes.ranges[place]
    return Sweep(graph, region, None, nodes.splits, frugal=True).run(known), region, way


@torch.no_grad()
def evaluate(
    graph: Graph, losses: Losses, nodes: Nodes, radius: Tensor, steps: int | Tensor | None = None
) -> Evaluated:
    """Bound the loss on nodes within a radius; `losses` holds one row for each node.

    `steps` is how many gradient steps a node may take (one number for all, or one each; by default `STEPS`). A node
    takes none where its first bound already reaches the radius, or where it holds no point at all.
    """
    sweep, region, way = sweep_of(graph, losses, nodes, radius)
    lines = [sweep.lines[index] for index in graph.activations]
    slopes = [torch.where(start.isnan(), line.below, start) for start, line in zip(nodes.slopes, lines, strict=True)]
    now = [*slopes, *(dual.clone() for dual in nodes.duals)]
    climb = Climb(sweep, losses, region)
    done = sweep.empty | (torch.maximum(way, nodes.least) >= radius)
    goal = torch.where(done, -torch.inf, (radius - way) * (1 + ROOM))
    best = climb.run(now, torch.as_tensor(STEPS if steps is None else steps).to(radius.device), goal)
    for line in lines:
        line.above_shift.requires_grad_()
        line.below_shift.requires_grad_()
    with torch.enable_grad():
        least, coef, const = climb.bound(best)
        shifts = [shift for line in lines for shift in (line.above_shift, line.below_shift)]
        found: tuple[Tensor, ...] = ()
        if shifts:
            found = torch.autograd.grad(least.value.sum(), shifts, allow_unused=True, materialize_grads=True)
    value = torch.where(sweep.empty, torch.inf, way + least.value.detach())
    value = torch.maximum(value, torch.maximum(way, nodes.least))
    coef, const = coef.detach(), const.detach()
    cut = (-coef, -const - losses.level + torch.where(losses.gain.isinf(), 0.0, radius / losses.gain))
    scores = []
    for place, (line, relu) in enumerate(zip(lines, switches(graph), strict=True)):
        above, below = found[2 * place].abs(), found[2 * place + 1].abs()
        low, high = sweep.ranges[graph.hidden[place]]
        score = above * line.above_shift.detach() + HINT * (above + below) * torch.minimum(-low, high)
        scores.append(torch.where(line.free, score, -1.0) if relu else torch.full_like(score, -1.0))
    ranges = [sweep.ranges[index] for index in graph.hidden]
    count = len(lines)
    new = Nodes(nodes.row, nodes.lower, nodes.upper, nodes.splits, value, ranges, cut, best[:count], best[count:])
    box = region.box()
    pull = coef.abs() * (box.upper - box.lower)
    flat = torch.cat(scores, 1) if scores else value.new_full((len(nodes), 1), -1.0)
    return Evaluated(new, least.point, flat, pull)


class Climb:
    """Gradient steps on the slopes, on the multipliers of the splits and on that of the last form."""

    def __init__(self, sweep: Sweep, losses: Losses, region: Ball) -> None:
        self.sweep, self.losses, self.region = sweep, losses, region
        self.free = [sweep.lines[index].free for index in sweep.graph.activations]
        self.split = [split != 0 for split in sweep.splits or [] if split is not None]

    def bound(self, parts: list[Tensor], multiplier: Tensor | None = None) -> tuple[Least, Tensor, Tensor]:
        """The bound with these slopes and multipliers, and its form; with a multiplier given it is not rounded."""
        count, rounded = len(self.free), multiplier is None
        last = len(self.sweep.graph.nodes) - 1
        minus = -self.region.lower.new_ones(1, 1, 1)
        coef, const = self.sweep.follow_back(last, minus, parts[:count], parts[count : 2 * count], rounded)
        return least_loss(self.losses, self.region, coef[:, 0], const[:, 0], multiplier), coef[:, 0], const[:, 0]

    def run(self, start: list[Tensor], steps: Tensor, goal: Tensor) -> list[Tensor]:
        """The best slopes and multipliers of so many steps of Adam; nodes whose bound is at their goal take no more."""
        best, first = start, self.bound(start)[0]
        able = torch.zeros_like(goal, dtype=torch.bool)
        for mask in (*self.free, *self.split):
            able |= mask.any(1)
        record, steps = first.value, torch.where(able, steps, 0)
        now = [*start, first.multiplier.clamp(1e-9, 1e9).log()]
        means, squares = ([torch.zeros_like(part) for part in now] for _ in range(2))
        ends = [(0.0, 1.0)] * len(self.free) + [(0.0, None)] * len(self.free) + [(-20.0, 20.0)]
        at, climb, taken = torch.arange(len(goal), device=goal.device), self, 0
        while True:
            going = (record[at] < goal[at]) & (taken < steps[at])
            if not going.any():
                return best
            if taken == 0 or int(going.sum()) < DROP * len(at):  # those that go on are put together
                at, climb = at[going], climb.part(going)
                now, means, squares = (pick(parts, going) for parts in (now, means, squares))
            with torch.enable_grad():
                moving = [part.requires_grad_() for part in now]
                value = climb.bound(moving[:-1], moving[-1].exp())[0].value
                total = value.sum()
            better = value.detach() > record[at]
            rows = at[better]
            record[rows] = value.detach()[better]
            for old, new in zip(best, now, strict=False):
                old[rows] = new.detach()[better]
            gradients = torch.autograd.grad(total, moving, allow_unused=True, materialize_grads=True)
            taken += 1
            for i, gradient in enumerate(gradients):
                means[i] = 0.9 * means[i] + 0.1 * gradient
                squares[i] = 0.999 * squares[i] + 0.001 * gradient**2
                move = means[i] / (1 - 0.9**taken) / ((squares[i] / (1 - 0.999**taken)).sqrt() + 1e-12)
                now[i] = (now[i].detach() + RATE * FADE ** (taken - 1) * move).clamp(*ends[i])

    def part(self, rows: Tensor) -> "Climb":
        """The same for some nodes; only bounds that are not rounded can be asked of it."""
        lines = {index: Lines(*(part[rows] for part in line)) for index, line in self.sweep.lines.items()}
        region: Ball = self.region[rows]
        sweep = replace(self.sweep, region=region, splits=pick(self.sweep.splits, rows), lines=lines)
        return Climb(sweep, self.losses[rows], region)

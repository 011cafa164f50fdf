r"""Certificates taken apart: one block by a single linear form, by SCIP, and by branching on inputs
or on units.

Everything is about the smallest loss of the rows of `Losses` (of a class: its cheapest point)
within a radius.
"""

import time
from typing import Any, NamedTuple

import torch
from pyscipopt import Model, quicksum
from torch import Tensor, nn

from ddmip_lib.bounds import Ball, Bounds, Graph, network_graph
from ddmip_lib.bounds.result import concatenate
from ddmip_lib.certificates import CutBall, Losses
from ddmip_lib.certificates.bounding import evaluate
from ddmip_lib.certificates.leaf import solve_leaves
from ddmip_lib.certificates.losses import least_loss
from ddmip_lib.certificates.nodes import Nodes, halved, roots, switched
from .embed import embed

NODES_AT_ONCE = 256


def ball_of(losses: Losses, radius: Tensor) -> Ball:
    """The points of each box that cost at most `radius`.

    >>> ball_of(plane_losses(), torch.ones(1)).box().lower
    tensor([[-1.5000, -0.8000]], dtype=torch.float64)
    """
    return Ball(losses.lower, losses.upper, losses.base, losses.up, losses.down, radius)


def line_bound(losses: Losses, bounds: Bounds, radius: Tensor) -> Tensor:
    r"""The bound of the smallest loss by the linear upper bound of the output: at most `radius`,
    and at least 0.

    >>> from ddmip_lib.bounds import crown
    >>> graph, losses, radius = plane_graph(), plane_losses(), torch.ones(1).double()
    >>> bool(line_bound(losses, crown(graph, ball_of(losses, radius)), radius) <= 1)
    True
    """
    slope, constant = bounds.upper_linear
    found = least_loss(losses, ball_of(losses, radius), -slope[:, 0], -constant[:, 0]).value
    return found.clamp(min=0.0).minimum(radius)


def cut_behind(losses: Losses, bounds: Bounds, radius: Tensor) -> CutBall:
    """The ball without the points at which the linear upper bound of the output is negative."""
    slope, constant = bounds.upper_linear
    ball = ball_of(losses, radius)
    ends = ball.lower, ball.upper, ball.centre, ball.up, ball.down, ball.radius
    return CutBall(*ends, cut=slope[:, 0], level=constant[:, 0] - losses.level)


class Exact(NamedTuple):
    """The result of SCIP for one block: the cost of its point (nan if none), its bound, and the
    effort.
    """

    value: float
    bound: float
    point: list[float]
    binaries: int
    nodes: int
    seconds: float


def cheapest(
    graph: Graph, losses: Losses, row: int, bounds: Bounds, radius: float, time_limit: float = 20.0
) -> Exact:
    r"""$\min \pi^\top a(u)$ s.t. $f(u) \ge 0$ and $\pi^\top a(u) \le$ `radius`, by the Big-M model
    of one sample.

    >>> from ddmip_lib.bounds import crown
    >>> graph, losses = plane_graph(), plane_losses()
    >>> found = cheapest(graph, losses, 0, crown(graph, ball_of(losses, torch.ones(1))), 1.0)
    >>> found.bound <= found.value + 1e-6 <= 1.0
    True
    """
    model = Model()
    began = time.perf_counter()
    model.hideOutput()
    model.setParam("limits/time", time_limit)
    base = losses.base[row].tolist()
    more = [model.addVar(ub=room) for room in (losses.upper - losses.base)[row].tolist()]
    less = [model.addVar(ub=room) for room in (losses.base - losses.lower)[row].tolist()]
    u = [w + a - b for w, a, b in zip(base, more, less, strict=True)]
    costs = losses.up[row].tolist() + losses.down[row].tolist()
    cost = quicksum(c * a for c, a in zip(costs, more + less, strict=True))
    model.addCons(cost <= radius)
    model.addCons(embed(model, u, graph, bounds, row)[0] >= 0.0)
    binaries = model.getNBinVars()
    model.setObjective(cost, "minimize")
    model.optimize()
    value = float("nan")
    point = base
    if model.getNSols():
        value = float(model.getObjVal())
        moves = zip(base, map(model.getVal, more), map(model.getVal, less), strict=True)
        point = [w + a - b for w, a, b in moves]
    infeasible = model.getStatus() == "infeasible"
    bound = radius if infeasible else min(float(model.getDualbound()), radius)
    return Exact(value, bound, point, binaries, model.getNTotalNodes(), time.perf_counter() - began)


def branch(
    graph: Graph, losses: Losses, radius: Tensor, on: str, most: int = 1000
) -> tuple[Tensor, Tensor]:
    """Split nodes, oldest first, until every row is shown to lose at least `radius`, or has had
    `most` nodes.

    `on` "units" splits the ReLU that costs the bound most, "inputs" the input that moves it most.
    The nodes that each row took, and what is proven for it.

    >>> nodes, proven = branch(plane_graph(), plane_losses(), torch.tensor([0.3]).double(), "units")
    >>> bool(nodes[0] > 0), bool(proven[0] < 0.301)
    (True, True)
    """
    if on not in ("units", "inputs"):
        raise ValueError(f"on={on!r}: branch on 'units' or on 'inputs'.")
    taken = torch.zeros(len(radius), dtype=torch.long)
    proven = radius.clone()
    waiting: Nodes = roots(graph, losses)
    while len(waiting):
        late = taken[waiting.row] >= most
        proven.scatter_reduce_(0, waiting.row[late], waiting.least[late], "amin")
        waiting = waiting[~late]
        now = waiting[:NODES_AT_ONCE]
        waiting = waiting[NODES_AT_ONCE:]
        if not len(now):
            break
        found = evaluate(graph, losses[now.row], now, radius[now.row])
        taken.index_add_(0, now.row, torch.ones_like(now.row))
        missing = found.nodes.least < radius[now.row]
        nodes = found.nodes[missing]
        (score, unit) = found.scores[missing].max(1)
        children: list[Any] = [waiting]
        if on == "inputs":
            children += [halved(nodes, found.pull[missing].argmax(1), sign) for sign in (1, -1)]
        else:
            children += [switched(nodes[score >= 0], unit[score >= 0], sign) for sign in (1, -1)]
            leaves = nodes[score < 0]
            if len(leaves):
                least, _ = solve_leaves(graph, losses[leaves.row], leaves, radius[leaves.row])
                proven.scatter_reduce_(0, leaves.row, least, "amin")
        waiting = concatenate(children)
    return taken, proven


def plane_graph(seed: int = 5, width: int = 6) -> Graph:
    """A network of two inputs and two hidden layers, as a graph."""
    generator = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = []
    for i, (a, b) in enumerate(((2, width), (width, width), (width, 1))):
        layer = nn.Linear(a, b).double()
        layer.weight.data = torch.randn(b, a, generator=generator, dtype=torch.float64) * a**-0.5
        layer.bias.data = 0.5 * torch.randn(b, generator=generator, dtype=torch.float64)
        layers += [layer] if i == 2 else [layer, nn.ReLU()]
    return network_graph(nn.Sequential(*layers).requires_grad_(False), 2)


def plane_losses() -> Losses:
    """One sample at the origin of the plane, whose steps up and down have different prices."""
    one = torch.ones(1, 2, dtype=torch.float64)
    up = torch.tensor([[0.8, 0.6]]).double()
    down = torch.tensor([[0.5, 1.25]]).double()
    return Losses(
        -1.5 * one, 1.5 * one, 0 * one, up, down, one[:, 0] * torch.inf, 0 * one[:, 0], one[:, 0]
    )

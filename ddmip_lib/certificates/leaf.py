r"""Nodes in which no unit can switch: the network is linear there, and a linear program gives the
best multipliers of the splits.

$$\min_{u, t} \ \text{cost}(u) - g\,t \quad\text{s.t.}\quad t \le f(u), \quad s_k a_k(u) \ge 0,
\quad t \le h$$

(of a class: $f(u)$ at least a margin). Its solution is only a proposal: the bound is computed from
the multipliers by weak duality, so the tolerances of the LP solver do not matter. Units that cannot
switch in the node count as split: their sign is given there.
"""

from dataclasses import replace

import numpy as np
import torch
from numpy import ndarray
from scipy.sparse import csr_matrix
from torch import Tensor

from ..bounds.graph import Graph
from ..pricing.pricing_problem import MIN_LOGIT
from ..programs.lp import LPSolver
from ..programs.program import Program, Rows
from .bounding import NodePropagation, propagated
from .losses import Losses
from .nodes import Nodes, by_activation

VIOLATION_COST_PER_RADIUS = 1e4
"""Cost of violating a split by one unit, in radii: finite, so that contradicting splits have
multipliers too.
"""
MIN_COST_RADIUS = 1e-6  # cost units: smallest radius in the cost of a violation
MIN_OUTPUT_DUAL = 1e-9  # smallest multiplier of the output by which the others are divided


@torch.no_grad()
def solve_leaves(
    graph: Graph, losses: Losses, nodes: Nodes, radius: Tensor
) -> tuple[Tensor, Tensor]:
    """Bound the loss on nodes without free units by linear programs.

    Parameters
    ----------
    graph : Graph
        The network; its activations are ReLUs.
    losses : Losses
        The losses, one for each node.
    nodes : Nodes
        Nodes in which no unit can switch.
    radius : Tensor
        The radii of the balls in which the bounds hold, (k,).

    Returns
    -------
    least : Tensor
        Lower bounds of the losses, (k,).
    points : Tensor
        Points at which the bounds are nearly attained, (k, p).
    """
    nodes = replace(nodes, splits=torch.where(nodes.low >= 0, 1, -1).to(torch.int8))
    sweep = propagated(graph, losses, nodes, radius)
    region = sweep.region
    programs = _leaf_programs(sweep, nodes.splits, radius)
    proposed, steps = (torch.from_numpy(part).to(radius.device) for part in _solved(programs))
    bounds = [sweep.bound_loss(None, duals)[0].value for duals in (proposed, nodes.duals)]
    value = torch.where(sweep.empty, torch.inf, sweep.cost + torch.maximum(*bounds))
    points = region.centre + steps[:, 0] - steps[:, 1]
    return value.maximum(nodes.least), points.clamp(region.lower, region.upper)


def _solved(programs: list[Program]) -> tuple[ndarray, ndarray]:
    """Multipliers of the splits, and steps up and down; zeros where the solver fails."""
    solver = LPSolver()
    duals = np.zeros((len(programs), len(programs[0].row_upper) - 1))
    steps = np.zeros((len(programs), 2, len(programs[0].cost) // 2 - 1))
    for k, program in enumerate(programs):
        proposal = solver.solve(program)
        if proposal.point is not None:
            multipliers = np.maximum(-proposal.multipliers, 0.0)
            duals[k] = multipliers[:-1] / max(multipliers[-1], MIN_OUTPUT_DUAL)
            steps[k] = proposal.point[:-2].reshape(2, -1)
    return duals, steps


def _leaf_programs(sweep: NodePropagation, splits: Tensor, radius: Tensor) -> list[Program]:
    """The linear programs of leaves, with the columns: steps up, steps down, output that counts,
    violation of the splits. The last constraint is the linear bound of the output that counts.
    """
    losses = sweep.losses
    is_class = losses.gain.isinf()[:, None]
    gain = torch.where(is_class, 0.0, losses.gain[:, None])
    violation_cost = VIOLATION_COST_PER_RADIUS * radius.clamp(min=MIN_COST_RADIUS)
    cost = torch.cat([losses.up, losses.down, -gain, violation_cost[:, None]], 1)
    most = torch.where(is_class, 2 * MIN_LOGIT, losses.level[:, None])
    lower = torch.zeros_like(cost)
    lower[:, -2:-1] = torch.where(is_class, most, -torch.inf)
    upper = torch.cat([*sweep.region.rooms, most, torch.full_like(most, torch.inf)], 1)
    parts = cost, *_constraints(sweep, splits), lower, upper
    arrays = [part.cpu().numpy() for part in parts]
    continuous = np.zeros(cost.shape[1], dtype=bool)
    return [
        Program(c, Rows.of(csr_matrix(rows)), b - np.inf, b, low, high, continuous)
        for c, rows, b, low, high in zip(*arrays, strict=True)
    ]


def _constraints(sweep: NodePropagation, splits: Tensor) -> tuple[Tensor, Tensor]:
    """Coefficients and limits of the splits, and of the output that counts: at most the output."""
    graph = sweep.graph
    centre = sweep.region.centre
    signs = [*by_activation(graph, splits), torch.ones_like(splits[:, :1])]
    ends = [*graph.hidden, len(graph.nodes) - 1]
    forms = [
        sweep.follow_back(index, sign.to(centre).diag_embed(), None, None)
        for index, sign in zip(ends, signs, strict=True)
    ]
    coef, const = (torch.cat(parts, 1) for parts in zip(*forms, strict=True))
    limits = const + (coef @ centre[..., None])[..., 0]
    others = coef.new_zeros(*const.shape, 2)
    others[:, -1, 0] = 1.0
    others[..., 1] = -1.0
    return torch.cat([-coef, coef, others], 2), limits

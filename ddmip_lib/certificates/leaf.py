r"""Nodes in which no unit can switch: the network is linear, and a linear program gives the splits'
best multipliers.

$$\min_{u, t} \ \text{cost}(u) - g\,t \quad\text{s.t.}\quad t \le f(u), \quad s_k a_k(u) \ge 0,
\quad t \le h$$

(of a class: $f(u)$ at least a margin). Its solution is only a proposal: the bound is computed from
the multipliers as everywhere else, so the tolerances of the solver of linear programs do not
matter. Units that cannot switch in the node count as split: their sign is known there.
"""

from dataclasses import replace

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from ..bounds.graph import Graph
from ..pricing.pricing_problem import MARGIN
from ..programs.lp import LPSolver
from ..programs.program import Program, Rows
from .bounding import bound_by, sweep_of
from .losses import Losses
from .nodes import Nodes

# price of violating a split, in radii: finite, so that contradicting splits have multipliers too
ELASTIC = 1e4


@torch.no_grad()
def solve_leaves(
    graph: Graph, losses: Losses, nodes: Nodes, radius: Tensor
) -> tuple[Tensor, Tensor]:
    """Bounds of the loss on nodes without free units, and points where they are nearly attained."""
    if not nodes.splits:
        return nodes.least, torch.minimum(torch.maximum(losses.base, nodes.lower), nodes.upper)
    signs = [torch.where(low >= 0, 1, -1).to(torch.int8) for low, _ in nodes.ranges]
    nodes = replace(nodes, splits=signs)
    sweep, region, way = sweep_of(graph, losses, nodes, radius)
    forms = [tuple(part.cpu().numpy() for part in sweep.forms(index)) for index in graph.hidden]
    output = tuple(part.cpu().numpy() for part in sweep.forms(len(graph.nodes) - 1))
    splits = [split.cpu().numpy() for split in nodes.splits]
    duals = [np.zeros(split.shape) for split in splits]
    points = region.centre.cpu().numpy().copy()
    proposer = LPSolver()
    for k in range(len(nodes)):
        which = [np.flatnonzero(split[k]) for split in splits]
        rows = []
        levels = []
        for (coef, const), split, on in zip(forms, splits, which, strict=True):
            sign = split[k, on].astype(float)
            rows.append(-sign[:, None] * coef[k, on])
            levels.append(sign * const[k, on])
        answer = _program(
            losses,
            k,
            points[k],
            np.concatenate(rows),
            np.concatenate(levels),
            -output[0][k, 1],
            -output[1][k, 1],
            float(radius[k]),
            region,
            proposer,
        )
        if answer is None:
            continue
        points[k], multipliers = answer
        parts = np.split(multipliers, np.cumsum([len(on) for on in which])[:-1])
        for dual, on, part in zip(duals, which, parts, strict=True):
            dual[k, on] = part
    proposed = [torch.from_numpy(dual).to(radius.device) for dual in duals]
    slopes = [sweep.lines[index].below for index in graph.activations]
    values = [
        bound_by(sweep, losses, region, slopes, start)[0].value for start in (proposed, nodes.duals)
    ]
    value = torch.where(sweep.empty, torch.inf, way + torch.maximum(*values))
    return torch.maximum(value, nodes.least), torch.from_numpy(points).to(radius.device)


def _program(
    losses: Losses,
    k: int,
    centre: np.ndarray,
    rows: np.ndarray,
    levels: np.ndarray,
    coef: np.ndarray,
    const: float,
    radius: float,
    region: object,
    proposer: LPSolver,
) -> tuple[np.ndarray, np.ndarray] | None:
    """The point and the multipliers of one node, these for a form with multiplier 1; None where the
    solver fails.
    """
    p = len(centre)
    classes = bool(losses.gain[k].isinf())
    up = losses.up[k].cpu().numpy()
    down = losses.down[k].cpu().numpy()
    low, high = (getattr(region, name)[k].cpu().numpy() for name in ("lower", "upper"))
    gain = 0.0 if classes else float(losses.gain[k])
    # columns: ways up, ways down, output counted, violation of the rows
    cost = np.concatenate([up, down, [-gain, ELASTIC * max(radius, 1e-6)]])
    matrix = np.hstack([rows, -rows, np.zeros((len(rows), 1)), -np.ones((len(rows), 1))])
    counted = np.concatenate([-coef, coef, [1.0, -1.0]])
    limits = np.concatenate([levels - rows @ centre, [const + coef @ centre]])
    least = np.concatenate([np.zeros(2 * p), [2 * MARGIN if classes else -np.inf, 0.0]])
    most = np.concatenate(
        [high - centre, centre - low, [2 * MARGIN if classes else float(losses.level[k]), np.inf]]
    )
    entries = Rows.of(csr_matrix(np.vstack([matrix, counted])))
    integer = np.zeros(len(cost), dtype=bool)
    multipliers, point, *_ = proposer.ask(
        Program(cost, entries, limits - np.inf, limits, least, most, integer)
    )
    if point is None:
        return None
    beta = np.maximum(-multipliers, 0.0)
    return np.clip(centre + point[:p] - point[p : 2 * p], low, high), beta[:-1] / max(
        beta[-1], 1e-9
    )

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
from scipy.sparse import csr_matrix
from torch import Tensor

from ..bounds.graph import Graph
from ..bounds.propagation import BoundPropagation
from ..bounds.regions import Ball
from ..pricing.pricing_problem import MARGIN
from ..programs.lp import LPSolver
from ..programs.program import Program, Rows
from .bounding import bound_by, sweep_of
from .losses import Losses
from .nodes import Nodes

VIOLATION_COST_PER_RADIUS = 1e4
"""Cost of violating a split by one unit, in radii: finite, so that contradicting splits have
multipliers too.
"""
MIN_RADIUS = 1e-6  # cost units: smallest radius in the cost of a violation
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
    if not nodes.splits:
        return nodes.least, torch.minimum(torch.maximum(losses.base, nodes.lower), nodes.upper)
    nodes = _with_all_splits(nodes)
    sweep, region, cost = sweep_of(graph, losses, nodes, radius)
    programs = _LeafPrograms(sweep, nodes.splits, losses, region, radius)
    proposed, points = programs.solve(radius.device)
    best = bound_by(sweep, losses, region, None, proposed)[0].value
    best = best.maximum(bound_by(sweep, losses, region, None, nodes.duals)[0].value)
    value = torch.where(sweep.empty, torch.inf, cost + best)
    return value.maximum(nodes.least), points


def _with_all_splits(nodes: Nodes) -> Nodes:
    """The same nodes with every unit on its side as a split."""
    signs = [torch.where(low >= 0, 1, -1).to(torch.int8) for low, _ in nodes.ranges]
    return replace(nodes, splits=signs)


class _LeafPrograms:
    """The linear programs of leaves, one each, with the columns: steps up, steps down, output that
    counts, violation of the splits.
    """

    def __init__(
        self,
        sweep: BoundPropagation,
        splits: list[Tensor],
        losses: Losses,
        region: Ball,
        radius: Tensor,
    ) -> None:
        graph = sweep.graph
        self.sizes = [graph.nodes[index].units for index in graph.hidden]
        bounds = [sweep.linear_bounds(index) for index in graph.hidden]
        self.coef = _lower_bounds([coef for coef, _ in bounds])
        self.const = _lower_bounds([const for _, const in bounds])
        self.sign = torch.cat(splits, 1).cpu().numpy()
        coef, const = sweep.linear_bounds(len(graph.nodes) - 1)
        self.output_coef = coef[:, 1].cpu().numpy()
        self.output_const = const[:, 1].cpu().numpy()
        self.losses = losses.to("cpu")
        self.radius = radius.cpu().numpy()
        self.lower = region.lower.cpu().numpy()
        self.upper = region.upper.cpu().numpy()
        self.centre = region.centre.cpu().numpy()

    def solve(self, device: torch.device) -> tuple[tuple[Tensor, ...], Tensor]:
        """Return multipliers for each activation, and points; zeros and centres where the solver
        fails.
        """
        solver = LPSolver()
        points = self.centre.copy()
        duals = np.zeros(self.sign.shape)
        for k, centre in enumerate(self.centre):
            multipliers, solution, *_ = solver.solve(self._program(k))
            if solution is None:
                continue
            multipliers = np.maximum(-multipliers, 0.0)
            steps = solution[:-2].reshape(2, -1)
            points[k] = np.clip(centre + steps[0] - steps[1], self.lower[k], self.upper[k])
            split = self.sign[k] != 0
            duals[k, split] = multipliers[:-1] / max(multipliers[-1], MIN_OUTPUT_DUAL)
        by_activation = torch.from_numpy(duals).to(device).split(self.sizes, 1)
        return by_activation, torch.from_numpy(points).to(device)

    def _program(self, k: int) -> Program:
        """The linear program of one leaf."""
        matrix, limits = self._constraints(k)
        losses = self.losses
        gain = float(losses.gain[k])
        counted = [-np.inf, float(losses.level[k])]
        if np.isinf(gain):
            gain = 0.0
            counted = [2 * MARGIN, 2 * MARGIN]
        violation_cost = VIOLATION_COST_PER_RADIUS * max(float(self.radius[k]), MIN_RADIUS)
        cost = np.concatenate([losses.up[k], losses.down[k], [-gain, violation_cost]])
        lower = np.zeros(len(cost))
        lower[-2] = counted[0]
        steps = [self.upper[k] - self.centre[k], self.centre[k] - self.lower[k]]
        upper = np.concatenate([*steps, [counted[1], np.inf]])
        integer = np.zeros(len(cost), dtype=bool)
        return Program(cost, matrix, limits - np.inf, limits, lower, upper, integer)

    def _constraints(self, k: int) -> tuple[Rows, np.ndarray]:
        """The splits, and the linear bound of the output that counts, of one leaf."""
        centre = self.centre[k]
        split = self.sign[k] != 0
        sign = self.sign[k, split].astype(float)
        splits = -sign[:, None] * self.coef[k, split]
        output = self.output_coef[k]
        limits = sign * self.const[k, split] - splits @ centre
        output_limit = -self.output_const[k] - output @ centre
        coefficients = np.vstack([splits, output])
        last_columns = np.zeros((len(coefficients), 2))
        last_columns[-1, 0] = 1.0
        last_columns[:, 1] = -1.0
        matrix = np.hstack([coefficients, -coefficients, last_columns])
        return Rows.of(csr_matrix(matrix)), np.append(limits, output_limit)


def _lower_bounds(parts: list[Tensor]) -> np.ndarray:
    """The bounds below the units of all activations, without those below their negatives."""
    return torch.cat([part.tensor_split(2, 1)[0] for part in parts], 1).cpu().numpy()

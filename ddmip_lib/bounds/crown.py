"""CROWN and interval arithmetic: bounds of every node, and linear forms below and above the
outputs.
"""

from typing import Any

import torch

from .graph import Graph
from .propagation import BoundPropagation, PerUnit
from .regions import Box
from .result import Bounds, constant_bounds, in_chunks

CHUNK = 2**22  # numbers in a tensor of coefficients


@torch.no_grad()
def crown(
    graph: Graph, region: Box, slopes: PerUnit | None = None, splits: PerUnit | None = None
) -> Bounds:
    r"""Bounds of the nodes that enter activations, each the better of one interval step and CROWN,
    and of the outputs.

    `slopes`: lower slopes in [0, 1] for every pass, (n, units) for each activation; by default of
    the smaller area. `splits`: -1 (off), 0 or 1 (on), (n, units) for each activation: the bounds
    hold where these units are so.

    >>> from ddmip_lib.problems import hand_sized_net
    >>> from .reader import network_graph
    >>> bounds = crown(network_graph(hand_sized_net(), 2), Box(torch.zeros(1, 2), torch.ones(1, 2)))
    >>> round(bounds.lower.item(), 9), round(bounds.upper.item(), 9)
    (-3.0, 4.25)
    """

    require_slopes(slopes)

    def solve(region: Box, slopes: Any, splits: Any) -> Bounds:
        return BoundPropagation(graph, region, slopes, splits).run().result(slopes)

    return in_chunks(batch_size(graph), region, solve, slopes, splits)


@torch.no_grad()
def intervals(graph: Graph, region: Box) -> Bounds:
    """Bounds of every node by interval arithmetic over the box of the region; the forms are
    constants.

    >>> from ddmip_lib.problems import hand_sized_net
    >>> from .reader import network_graph
    >>> bounds = intervals(
    ...     network_graph(hand_sized_net(), 2), Box(torch.zeros(1, 2), torch.ones(1, 2))
    ... )
    >>> round(bounds.lower.item(), 9), round(bounds.upper.item(), 9)
    (-4.5, 5.0)
    """
    return constant_bounds(BoundPropagation(graph, region).run(tighten=False).ranges, graph.n_in)


def require_slopes(slopes: PerUnit | None) -> None:
    """An error where a lower slope is none: the bounds would not hold."""
    if not all(
        bool(((part >= 0) & (part <= 1)).all()) for part in slopes or () if part is not None
    ):
        raise ValueError("lower slopes lie in [0, 1]: clamp them.")


def batch_size(graph: Graph, copies: int = 1) -> int:
    """How many regions fit into memory comfortably, with so many tensors of coefficients at
    a time.
    """
    widest = max(node.units for node in graph.nodes)
    followed = max([graph.n_out, *(graph.nodes[node].units for node in graph.hidden)])
    return max(1, CHUNK // (2 * followed * widest * copies))

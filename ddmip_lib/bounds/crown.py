"""CROWN and interval arithmetic: bounds of every node, and linear bounds of the outputs."""

from typing import Any

import torch

from .graph import Graph
from .propagation import BoundPropagation, PerUnit
from .regions import Box
from .result import Bounds, constant_bounds, in_chunks

CHUNK_ENTRIES = 2**22  # entries of all tensors of coefficients of the regions treated at a time


@torch.no_grad()
def crown(
    graph: Graph, region: Box, slopes: PerUnit | None = None, splits: PerUnit | None = None
) -> Bounds:
    r"""Bound a network by CROWN.

    Nodes that enter activations are bounded by the better of an interval step and CROWN.

    Parameters
    ----------
    graph : Graph
        The network.
    region : Box
        The n regions.
    slopes : sequence of Tensor or None, optional
        Slopes in [0, 1] of the lower bounds of each activation, (n, units), for every backward
        pass; by default those with the smaller area.
    splits : sequence of Tensor or None, optional
        For each activation -1 (off), 0 or 1 (on), (n, units): the bounds hold where these units are
        on these sides.

    Returns
    -------
    Bounds
        The bounds.

    Raises
    ------
    ValueError
        If a slope is not in [0, 1].

    Examples
    --------
    >>> from ddmip_lib.problems import hand_sized_net
    >>> from .reader import network_graph
    >>> bounds = crown(network_graph(hand_sized_net(), 2), Box(torch.zeros(1, 2), torch.ones(1, 2)))
    >>> round(bounds.lower.item(), 9), round(bounds.upper.item(), 9)
    (-3.0, 4.25)
    """
    require_slopes(slopes)

    def solve(region: Box, slopes: Any, splits: Any) -> Bounds:
        return BoundPropagation(graph, region, slopes, splits).run().result(slopes)

    rows = batch_size(graph)
    return in_chunks(rows, region, solve, slopes, splits)


@torch.no_grad()
def intervals(graph: Graph, region: Box) -> Bounds:
    """Bound a network by interval arithmetic over the boxes around the regions.

    Parameters
    ----------
    graph : Graph
        The network.
    region : Box
        The n regions.

    Returns
    -------
    Bounds
        The bounds; the linear bounds of the outputs are constants.

    Examples
    --------
    >>> from ddmip_lib.problems import hand_sized_net
    >>> from .reader import network_graph
    >>> graph, box = network_graph(hand_sized_net(), 2), Box(torch.zeros(1, 2), torch.ones(1, 2))
    >>> bounds = intervals(graph, box)
    >>> round(bounds.lower.item(), 9), round(bounds.upper.item(), 9)
    (-4.5, 5.0)
    """
    return constant_bounds(BoundPropagation(graph, region).run(tighten=False).ranges, graph.n_in)


def require_slopes(slopes: PerUnit | None) -> None:
    """Raise a `ValueError` where a slope is not in [0, 1]: the bounds would not hold."""
    for part in slopes or ():
        if part is not None and not ((part >= 0) & (part <= 1)).all():
            raise ValueError("lower slopes lie in [0, 1]: clamp them.")


def batch_size(graph: Graph, copies: int = 1) -> int:
    """Return how many regions are treated at a time.

    Parameters
    ----------
    graph : Graph
        The network.
    copies : int
        The number of tensors of coefficients that exist at the same time.
    """
    sizes = [node.units for node in graph.nodes]
    bounded = max([graph.n_out, *(sizes[node] for node in graph.hidden)])
    return max(1, CHUNK_ENTRIES // (2 * bounded * max(sizes) * copies))

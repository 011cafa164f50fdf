"""Thousands of random networks, boxes and balls: no value leaves its bounds, with no tolerance at
all.
"""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ddmip_book.networks import conv1d, mlp, resnet
from ddmip_lib.bounds import (
    Ball,
    Bounds,
    Box,
    Graph,
    crown,
    intervals,
    network_graph,
    optimised_crown,
)
from ddmip_lib.bounds.graph import Affine, GraphBuilder

SEEDS = st.integers(0, 2**32 - 1)


def normal(rng: np.random.Generator, *shape: int) -> Tensor:
    return torch.tensor(rng.standard_normal(shape))


def random_graph(rng: np.random.Generator) -> Graph:
    """Affine maps, activations and sums in any order, some weights zero, in scales from small to
    large.
    """
    builder = GraphBuilder(int(rng.integers(1, 5)))
    scale = 10.0 ** rng.uniform(-2, 1)
    node = 0
    for _ in range(rng.integers(1, 5)):
        units = int(rng.integers(1, 7))
        wide = builder.nodes[node].units
        weight = scale * normal(rng, units, wide) * torch.tensor(rng.random((units, wide)) < 0.9)
        before = node
        node = builder.affine(node, weight, scale * normal(rng, units))
        if rng.random() < 0.9:
            node = builder.activation(
                node, str(rng.choice(["relu", "relu", "relu", "tanh", "sigmoid"]))
            )
        if rng.random() < 0.5:
            extra = builder.affine(before, scale * normal(rng, units, wide), normal(rng, units))
            node = builder.sum((node, extra))
    return builder.graph(node)


def random_region(rng: np.random.Generator, n: int, p: int) -> Box:
    """A box, some sides without width, or a ball in it, some prices zero, some radii zero."""
    centre = 10.0 ** rng.uniform(-2, 1) * normal(rng, n, p)
    room = [
        10.0 ** rng.uniform(-3, 1) * torch.tensor(rng.random((n, p)) * (rng.random((n, p)) < 0.9))
        for _ in "lu"
    ]
    lower = centre - room[0]
    upper = centre + room[1]
    if rng.random() < 0.4:
        return Box(lower, upper)
    prices = [torch.tensor(rng.random((n, p)) * (rng.random((n, p)) < 0.8)) for _ in "ud"]
    most = (prices[0] * room[1]).sum(1) + (prices[1] * room[0]).sum(1)
    return Ball(
        lower, upper, centre, *prices, most * torch.tensor(rng.random(n) * (rng.random(n) < 0.9))
    )


def points_of(region: Box, rng: np.random.Generator, count: int, also: Tensor) -> Tensor:
    """Points (n, count + k, p) of the regions: inside, on the boundary, and where the forms `also`
    are smallest.
    """
    n, p = region.lower.shape
    points = (
        region.lower[:, None]
        + torch.tensor(rng.random((n, count, p))) * (region.upper - region.lower)[:, None]
    )
    points = torch.minimum(points, region.upper[:, None])
    if isinstance(region, Ball):
        move = points - region.centre[:, None]
        spent = (
            region.up[:, None] * move.clamp(min=0) + region.down[:, None] * (-move).clamp(min=0)
        ).sum(-1)
        share = (region.radius[:, None] / spent.clamp(min=1e-300)).clamp(max=1.0)
        points = region.centre[:, None] + move * (share * (1 - 1e-12))[..., None]
        points = torch.minimum(torch.maximum(points, region.lower[:, None]), region.upper[:, None])
    corners = region.argsmallest(torch.cat([normal(rng, n, 20, p), also], 1))
    return torch.cat([points, corners], 1)


def assert_encloses(bounds: Bounds, values: list[Tensor], points: Tensor) -> None:
    """Of `values` (n, points, units) of every node."""
    for (low, high), value in zip(bounds.nodes, values, strict=True):
        assert (low[:, None] <= value).all()
        assert (value <= high[:, None]).all()
    for (coef, const), sign in ((bounds.lower_linear, 1.0), (bounds.upper_linear, -1.0)):
        form = points @ coef.transpose(1, 2) + const[:, None]
        assert (sign * form <= sign * values[-1]).all()


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_no_value_of_any_graph_leaves_its_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(25):
        graph = random_graph(rng)
        region = random_region(rng, 3, graph.n_in)
        slopes = [torch.tensor(rng.random((3, graph.nodes[i].units))) for i in graph.activations]
        found = crown(graph, region, slopes if rng.random() < 0.3 else None)
        points = points_of(
            region, rng, 40, torch.cat([found.lower_linear[0], -found.upper_linear[0]], 1)
        )
        assert_encloses(found, graph.values(points), points)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_crown_lies_within_intervals_and_optimised_slopes_within_crown(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(2):
        graph = random_graph(rng)
        region = random_region(rng, 3, graph.n_in)
        wide = intervals(graph, region)
        found = crown(graph, region)
        best = optimised_crown(graph, region, steps=3, inner=0)
        inner = optimised_crown(graph, region, steps=2, inner=2)
        points = points_of(
            region, rng, 40, torch.cat([inner.lower_linear[0], -inner.upper_linear[0]], 1)
        )
        for bounds in (wide, best, inner):
            assert_encloses(bounds, graph.values(points), points)
        for outer, tight in ((wide, found), (found, best)):
            slack = 1e-9 * (1e-9 + outer.lower.abs() + outer.upper.abs())
            assert (tight.lower >= outer.lower - slack).all()
            assert (tight.upper <= outer.upper + slack).all()


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_values_on_the_side_of_their_splits_stay_within(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(2):
        graph = random_graph(rng)
        region = random_region(rng, 3, graph.n_in)
        points = points_of(region, rng, 1, torch.zeros(3, 0, graph.n_in))[:, :1]
        signs = [torch.where(graph.values(points)[i][:, 0] >= 0, 1, -1) for i in graph.hidden]
        splits = [sign * torch.tensor(rng.integers(0, 2, tuple(sign.shape))) for sign in signs]
        for bounds in (
            crown(graph, region, splits=splits),
            optimised_crown(graph, region, 2, 2, splits=splits),
        ):
            assert not bounds.empty.any()
            assert_encloses(bounds, graph.values(points), points)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_the_network_as_written_stays_within_too(seed: int) -> None:
    """Not only its graph, in which affine maps are merged and convolutions are matrices."""
    rng = np.random.default_rng(seed)
    make = [mlp, conv1d, resnet][seed % 3]
    p = int(rng.integers(1, 5))
    seed = int(rng.integers(1000))
    net = make(int(rng.integers(1, 4)), int(rng.integers(1, 6)), p, n_out=2, seed=seed)
    graph = network_graph(net, p)
    exact = net.double()
    region = random_region(rng, 4, p)
    bounds = crown(graph, region)
    points = points_of(region, rng, 100, bounds.lower_linear[0])
    with torch.no_grad():
        values = exact(points.reshape(-1, p)).reshape(4, -1, 2)
    assert (bounds.lower[:, None] <= values).all()
    assert (values <= bounds.upper[:, None]).all()
    assert all(
        node.weight.dtype == torch.float64 for node in graph.nodes if isinstance(node, Affine)
    )


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_no_point_of_a_ball_beats_the_smallest_value(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 7))
    region = random_region(rng, 5, p)
    coef = normal(rng, 5, 4, p) * torch.tensor(rng.random((5, 4, p)) < 0.8)
    points = points_of(region, rng, 200, coef)
    slack = 1e-12 * (coef.abs() * region.size[:, None]).sum(-1)
    assert (points @ coef.transpose(1, 2) >= (region.smallest(coef) - slack)[:, None]).all()
    around = region.box()
    assert ((points >= around.lower[:, None]) & (points <= around.upper[:, None])).all()

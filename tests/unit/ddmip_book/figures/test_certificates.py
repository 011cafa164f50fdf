"""The figures of certificates show what rows and searches say, and the pieces of the chapter prove
what they claim.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ddmip_book.examples.certificates import (
    ball_of,
    branch,
    cheapest,
    cut_behind,
    line_bound,
    plane_graph,
    plane_losses,
)
from ddmip_book.examples.prices import random_market
from ddmip_book.experiments import Results, Row
from ddmip_book.figures import certificates as figures
from ddmip_lib.bounds import Ball, Box, crown, intervals
from ddmip_lib.certificates import CutBall, Losses
from tests.builders.rows import finished


def row(
    method: str, objective: float | None, bound: float | None, network: str = "2x16", **more: object
) -> Row:
    experiment, limit = ("e6", 600.0) if method == "certificate" else ("e1", 300.0)
    results = {"status": "time_limit", "objective": objective, "bound": bound}
    return finished(experiment, method, network=network, time_limit=limit, **results, **more)


def told(bound: float, closed: int = 50) -> dict[str, object]:
    history = [[0.5, 50.0], [20.0, bound]]
    return {
        "lp_value": 39.5,
        "certificate": {
            "bound": bound,
            "blocks": 50,
            "closed": closed,
            "seconds": 30.0,
            "history": history,
        },
    }


@pytest.fixture
def certified() -> Results:
    return Results(
        [
            row("certificate", 38.0, 39.0, details=told(39.58)),
            row("certificate", 45.0, 49.0, "4x32", details=told(49.9, 28)),
        ]
    )


@pytest.fixture
def e1() -> Results:
    return Results([row("bigm", 12.0, 50.0), row("bigm", None, None, "4x32")])


def plane_points() -> torch.Tensor:
    """A fine grid of points of the plane."""
    side = torch.linspace(-1.5, 1.5, 201, dtype=torch.float64)
    return torch.stack(torch.meshgrid(side, side, indexing="xy"), -1).reshape(-1, 2)


def truth(seed: int) -> tuple[Losses, torch.Tensor, torch.Tensor]:
    """Cost and output of a fine grid of points of the plane."""
    losses = plane_losses()
    points = plane_points()
    return losses, losses.cost(points), plane_graph(seed)(points)[:, 0]


def nearest(seed: int) -> torch.Tensor:
    """The cheapest point of class 1 on the grid, as a radius; 1 where there is none."""
    _, cost, output = truth(seed)
    return (
        cost[output > 0].min().reshape(1)
        if bool((output > 0).any())
        else torch.ones(1, dtype=torch.float64)
    )


def test_whole_bounds_and_gaps(certified: Results, e1: Results) -> None:
    small, deep = certified.rows
    assert (figures.whole_bound(small), figures.whole_bound(deep)) == (39.0, 49.0)
    assert figures.gap(small) == pytest.approx(1 / 38)
    trees = row("certificate", 27.25, 27.36, problem="trees", details=told(27.36))
    assert figures.whole_bound(trees) == 27.36
    assert [figures.exact_bound(e1, each) for each in (small, deep)] == [50.0, 50.0]
    assert figures.exact_bound(Results([]), small) is None


def test_the_grid_shows_objective_program_and_bounds(certified: Results, e1: Results) -> None:
    (axes,) = figures.plot_certified(e1, certified).axes
    shown = {line.get_label(): np.transpose(line.get_data()).tolist() for line in axes.lines}
    assert shown["objective"] == [[38 / 50, 1], [45 / 50, 6]]
    assert shown["linear program, no bound"] == [[39.5 / 50, 1], [39.5 / 50, 6]]
    assert shown["certified bound"] == [[39 / 50, 1], [49 / 50, 6]]
    assert shown["Big-M's bound, 300 s"] == [[1.0, 1], [1.0, 6]]


def test_histories_end_at_the_bound_beside_the_objective(certified: Results) -> None:
    (axes,) = figures.plot_histories(certified).axes
    line, mark = axes.lines[:2]
    assert np.asarray(line.get_ydata()).tolist() == [1.0, 39.58 / 50, 39.58 / 50]
    assert np.asarray(mark.get_ydata()).tolist() == [38 / 50]
    assert len(figures.plot_histories(certified, size=25).axes[0].lines) == 0


def test_blocks_are_ordered_by_known_cost() -> None:
    (axes,) = figures.plot_blocks({"CROWN": np.array([0.2, 0.1])}, np.array([0.9, 0.4])).axes
    assert [bar.get_height() for bar in axes.patches] == [0.4, 0.9]
    assert np.asarray(axes.lines[0].get_ydata()).tolist() == [0.1, 0.2]


def test_a_plane_shows_a_panel_for_each_region() -> None:
    graph = plane_graph()
    losses = plane_losses()
    over_box = crown(graph, Box(losses.lower, losses.upper))
    panels = {"box": (over_box, 0.0), "ball": (crown(graph, ball_of(losses, torch.ones(1))), 0.3)}
    titles = [axes.get_title() for axes in figures.plot_plane(graph, losses, 1.0, panels).axes]
    assert titles == ["box\nproven 0.00 of 1.00", "ball\nproven 0.30 of 1.00"]


def test_every_price_list_and_every_block_bound_from_above_bounds_the_optimum() -> None:
    draw = np.random.default_rng(0)
    for seed in range(30):
        market = random_market(n=4, m=2, each=3, seed=seed)
        prices = draw.exponential(size=2) * draw.choice([0.0, 0.5, 2.0])
        profits = np.maximum(market.profits(prices).reshape(4, 3).max(axis=1), 0.0)
        assert (
            prices @ market.capacities + (profits + draw.exponential(size=4) * 0.1).sum()
            >= market.best() - 1e-9
        )


@pytest.mark.parametrize("seed", range(8))
def test_no_form_proves_more_than_is_true_and_the_cut_keeps_every_point_of_class_1(
    seed: int,
) -> None:
    graph = plane_graph(seed)
    radius = nearest(seed)
    losses, cost, output = truth(seed)
    by_crown = crown(graph, ball_of(losses, 1.2 * radius))
    forms = [intervals(graph, Box(losses.lower, losses.upper)), by_crown]
    cut = cut_behind(losses, by_crown, 1.2 * radius)
    true = radius if bool((output > 0).any()) else 1.2 * radius
    for bounds in (*forms, crown(graph, cut)):
        assert line_bound(losses, bounds, 1.2 * radius) <= true + 1e-12
    inside = (cost <= 1.2 * radius) & (output > 0)
    assert ((plane_points() @ cut.cut[0])[inside] + cut.level[0] >= 0).all()


@pytest.mark.parametrize("on", ["units", "inputs"])
def test_both_ways_of_branching_prove_what_is_true_and_not_what_is_false(on: str) -> None:
    graph = plane_graph()
    losses = plane_losses()
    radius = nearest(5)
    nodes, proven = branch(graph, losses, 0.95 * radius, on, most=500)
    assert proven >= 0.95 * radius - 1e-12
    assert 0 < nodes <= 500
    _, beyond = branch(graph, losses, 1.1 * radius, on, most=60)
    assert beyond <= radius + 1e-9


def test_the_exact_model_of_one_block_agrees_with_the_grid() -> None:
    graph = plane_graph()
    losses = plane_losses()
    radius = nearest(5)
    for bounds in (
        crown(graph, ball_of(losses, radius)),
        intervals(graph, Box(losses.lower, losses.upper)),
    ):
        found = cheapest(graph, losses, 0, bounds, radius.item())
        assert found.bound <= found.value + 1e-6
        assert found.value == pytest.approx(radius.item(), abs=0.03)
        assert losses.cost(torch.tensor([found.point])).item() == pytest.approx(
            found.value, abs=1e-5
        )
    empty = cheapest(graph, losses, 0, bounds, 0.5 * radius.item())
    assert np.isnan(empty.value)
    assert empty.bound == 0.5 * radius.item()


def test_the_cut_is_between_the_ball_and_the_truth() -> None:
    draw = torch.Generator().manual_seed(0)
    one = torch.ones(1, 3, dtype=torch.float64)
    for _ in range(20):
        cut, form = (torch.randn(1, 3, generator=draw, dtype=torch.float64) for _ in range(2))
        region = CutBall(-one, one, 0 * one, one, 2 * one, one[:, 0], cut, -0.3 * cut.abs().amax(1))
        points = 2 * torch.rand(4000, 3, generator=draw, dtype=torch.float64) - 1
        cost = (points.clamp(min=0) + 2 * (-points).clamp(min=0)).sum(1)
        inside = (cost <= 1) & (points @ cut[0] + region.level >= 0)
        bound = region.smallest(form[:, None]).item()
        assert bound >= Ball.smallest(region, form[:, None]).item() - 1e-12
        assert not inside.any() or bound <= (points[inside] @ form[0]).min() + 1e-9

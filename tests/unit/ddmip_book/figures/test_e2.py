"""Figures and helpers of the second experiment, on made-up rows; and the slope of untrained
networks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from ddmip_book.examples.costs import as_frozen, input_gradient
from ddmip_book.examples.dead_networks import he_start, response, solve_to_the_digit
from ddmip_book.experiments import Results, Row
from ddmip_book.experiments.grids import E2_NETWORKS
from ddmip_book.experiments.networks import parameters, untrained
from ddmip_book.figures import e2 as figures
from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import DualDecomposition
from tests.builders.networks import linear


def made_up(network: str, device: str = "cpu", seed: int = 42, **fields) -> Row:
    """A run of ten iterations whose NN block takes a microsecond for each parameter."""
    size = figures.sizes_of(network)[2]
    method = "dd-paper" if device == "cpu" else "dd-paper-float32"
    given = {
        "objective": 30.0,
        "untreated": 10.0,
        "primal_residual": 0.01,
        "converged": False,
        "iterations": 10,
        "seconds": 1e-5 * size,
        "seconds_nn": 1e-5 * size,
        "seconds_mip": 0.05,
        "parameters": size,
    }
    return Row(
        f"{network}/{seed}/{device}",
        "e2",
        "water",
        network,
        100,
        seed,
        method,
        300.0,
        device,
        2.0,
        "maximise",
        "iteration_limit",
        **(given | fields),
    )


def marks(ax, colour: str, marker: str) -> np.ndarray:
    """The points that an axes shows in this colour with this marker."""
    chosen = [
        line for line in ax.lines if line.get_color() == colour and line.get_marker() == marker
    ]
    return np.concatenate([line.get_xydata() for line in chosen])


@pytest.mark.parametrize("network", E2_NETWORKS[:4])
def test_parameters_by_formula_are_those_of_the_network(network: str) -> None:
    assert figures.sizes_of(network)[2] == parameters(untrained(network, 9, 0))


def test_slope_is_that_of_the_rows() -> None:
    cost = figures.by_network(Results([made_up(network) for network in E2_NETWORKS]), "seconds")
    assert list(cost) == list(E2_NETWORKS)
    assert figures.slope_in_parameters(cost).slope == pytest.approx(1.0)
    rounding = 4 * np.sqrt(
        np.finfo(float).eps
    )  # the error is the root of a difference, 1 - r^2, that cancels
    assert figures.slope_in_parameters(cost, 3).error == pytest.approx(0.0, abs=rounding)
    assert figures.slope_in_parameters({"2x16": 1.0, "4x32": 2.0}) is None


def test_calls_alone_grow_like_a_third_of_the_parameters() -> None:
    calls = {network: float(figures.sizes_of(network)[0]) for network in E2_NETWORKS}
    assert figures.slope_in_parameters(calls).slope == pytest.approx(1 / 3, abs=0.005)


def test_costs_are_means_over_runs_for_one_iteration() -> None:
    rows = Results(
        [
            made_up("2x16", seconds=10.0, iterations=10),
            made_up("2x16", seed=1, seconds=30.0, iterations=10),
        ]
    )
    assert figures.by_network(rows, "seconds") == {"2x16": 2.0}


def test_panels_show_shares_seconds_and_the_printed_figures() -> None:
    rows = [
        made_up("2x16"),
        made_up("2x16", seed=1, converged=True),
        made_up("64x512", "cuda", seconds=3.0),
    ]
    left, middle, right = figures.plot_paper_panels(Results(rows)).axes
    assert marks(left, figures.BLUE, "o")[:, 1].tolist() == [0.5]
    assert marks(left, figures.GREEN, "^")[:, 1].tolist() == [0.0]
    assert marks(left, figures.RED, "D")[:, 1].tolist() == [0.4, 1.0, 1.0, 1.0]
    assert marks(middle, figures.GREEN, "^")[-1, 1] == 3.0
    assert marks(right, figures.GREEN, "^")[:, 1].tolist() == [0.3]


def test_blocks_are_drawn_apart() -> None:
    one_core, gpu = figures.plot_blocks(Results([made_up("2x16"), made_up("4x32")])).axes
    inner, outer = (line.get_ydata() for line in one_core.lines)
    assert inner == pytest.approx([1e-6 * 449, 1e-6 * 3521])
    assert outer == pytest.approx([0.005, 0.005])
    assert all(len(line.get_ydata()) == 0 for line in gpu.lines)


def test_gains_and_residuals_of_every_run() -> None:
    rows = [made_up("2x16"), made_up("16x128", objective=0.0, untreated=0.0, primal_residual=2e-5)]
    left, right = figures.plot_what_moves(Results(rows)).axes
    assert sorted(marks(right, figures.BLUE, "o")[:, 1]) == [0.0, 20.0]
    assert sorted(y for y in marks(left, figures.BLUE, "o")[:, 1] if np.isfinite(y)) == [2e-5, 0.01]


def test_a_network_that_reacts_goes_by_the_name_of_its_shape() -> None:
    assert figures.sizes_of("2x16-he") == figures.sizes_of("2x16")
    assert figures.plain_names(Results([made_up("2x16-he"), made_up("4x32")])).distinct(
        "network"
    ) == ["2x16", "4x32"]


def test_both_recipes_are_drawn_with_the_gains_of_prices() -> None:
    react = [
        made_up("16x128", objective=40.0),
        replace(made_up("16x128", objective=60.0), method="prices"),
    ]
    left, right = figures.plot_recipes(
        Results([made_up("16x128", objective=10.0)]), Results(react)
    ).axes
    assert marks(right, figures.GREY, "x")[:, 1].tolist() == [0.0]
    assert marks(right, figures.BLUE, "o")[:, 1].tolist() == [30.0]
    assert sorted(y for line in right.lines for y in line.get_ydata()) == [0.0, 30.0, 50.0]
    assert marks(left, figures.BLUE, "o")[:, 1].tolist() == [0.01]


@pytest.mark.parametrize(
    ("normal", "expected"), [(False, lambda depth: 6.0**-depth / 3), (True, lambda depth: 2.0)]
)
@pytest.mark.parametrize("depth", [1, 3, 6])
def test_slopes_of_untrained_networks_follow_the_formula(
    normal: bool, expected, depth: int
) -> None:
    """The mean of the squared norm over many draws, at one point."""
    u = torch.randn(1, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(depth))
    squares = []
    for seed in range(150):
        net = mlp(depth, 48, 9, seed=seed)
        net = as_frozen(he_start(net, seed) if normal else net)
        squares.append(float(input_gradient(net, u).square().sum()))
    error = np.std(squares) / np.sqrt(len(squares))
    assert abs(np.mean(squares) - expected(depth)) < 4 * error
    assert error < 0.25 * expected(depth)


def test_response_sees_a_line_and_a_constant() -> None:
    x = torch.stack([torch.zeros(9, dtype=torch.float64), torch.ones(9, dtype=torch.float64)])
    assert response(linear(*[2.0] * 9), x) == pytest.approx((18.0, 6.0))
    assert response(linear(*[0.0] * 9), x) == (0.0, 0.0)


def test_adam_on_a_constant_network_stops_at_once_if_x_is_exact() -> None:
    net = mlp(2, 4, 9).double().requires_grad_(False)
    net[-1].weight.zero_()
    problem = water_potability(n=3, net=net)
    solver = DualDecomposition.paper()
    exact = solve_to_the_digit(solver, problem)
    rounded = solver.solve(problem)
    assert (exact.stopped, len(exact.history), exact.history[-1].primal_residual) == (
        "converged",
        1,
        0.0,
    )
    assert rounded.history[0].primal_residual > 1e-4, (
        "the x-step's last digits have become Adam steps"
    )

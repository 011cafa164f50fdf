"""The figures of price coordination show what rows and markets say."""

from __future__ import annotations

import numpy as np
import pytest

from ddmip_book.examples.prices import hand_market
from ddmip_book.experiments import Results, Row
from ddmip_book.figures import prices as figures
from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import PriceCoordination
from tests.builders.rows import finished


def row(
    method: str, objective: float, incumbents: list[list[float]], size: int = 50, **more: object
) -> Row:
    experiment, limit = ("e6", 60.0) if method == "prices" else ("e1", 300.0)
    results = {
        "status": "converged",
        "objective": objective,
        "untreated": 5.0,
        "incumbents": incumbents,
    }
    return finished(experiment, method, size=size, time_limit=limit, **results, **more)


@pytest.fixture
def e1() -> Results:
    return Results([row("dd", 20.0, [[0.1, 5.0], [4.0, 20.0]]), row("bigm", 10.0, [[1.0, 10.0]])])


@pytest.fixture
def e6() -> Results:
    rows = [row("prices", 30.0, [[0.1, 5.0], [2.0, 22.0], [9.0, 30.0]], details={"lp_value": 31.5})]
    for n in (100, 1000, 5000):
        rows.append(
            row(
                "prices",
                n / 2,
                [],
                n,
                problem="water_repeated",
                seconds=0.1 * n,
                seconds_nn=0.05 * n,
                peak_memory=500.0,
            )
        )
    return Results(rows)


def test_pairs_are_the_same_instance_and_its_ratio_counts_both_clocks(
    e1: Results, e6: Results
) -> None:
    ((other, mine),) = figures.pairs(e1, e6)
    assert (other.method, mine.method, mine.size) == ("dd", "prices", 50)
    assert figures.sooner(other, mine) == pytest.approx(2.0)
    assert figures.pairs(e1, e6, "dd-paper") == []


def test_the_grid_holds_choice_and_linear_program(e1: Results, e6: Results) -> None:
    texts = {}
    for axes in figures.plot_grid(e1, e6).axes:
        texts[axes.get_title()] = [t.get_text() for t in axes.texts if t.get_text() != "–"]
    assert texts == {
        "Big-M, 300 s": ["0.20"],
        "Algorithm 1, our defaults": ["0.40"],
        "price coordination": ["0.60"],
        "its linear program, no bound": ["0.63"],
    }


def test_ratios_are_drawn_where_there_are_pairs(e1: Results, e6: Results) -> None:
    (axes,) = figures.plot_sooner(e1, e6).axes
    heights = [line.get_ydata() for line in axes.lines]
    assert [len(h) for h in heights] == [0, 1, 2]
    assert heights[1] == pytest.approx([2.0])


def test_the_exponent_of_a_straight_line_is_one(e6: Results) -> None:
    many = e6.where(problem="water_repeated")
    assert figures.slope(many) == pytest.approx(1.0)
    assert figures.slope(many, "peak_memory") == pytest.approx(0.0, abs=1e-9)
    assert np.isnan(figures.slope(Results(many.rows[:2])))
    left, right = figures.plot_scaling(many).axes
    assert left.lines[0].get_ydata() == pytest.approx([10.0, 100.0, 500.0])
    assert right.get_ylim()[0] == 0.0


def test_a_market_shows_every_step_and_every_price() -> None:
    problem = water_potability(n=4, net=mlp(2, 16, 9, seed=1))
    assert problem.blocks is not None
    moved = problem.blocks.base.copy()
    moved[0, 2] += 0.5
    moved[1, [0, 3]] -= 0.25
    left, right = figures.plot_market(problem.blocks, np.arange(18.0), moved).axes
    up, down = (np.asarray(c.get_offsets()) for c in left.collections)
    assert up.tolist() == [[2.0, 2.0]]  # samples with more features come first
    assert sorted(down.tolist()) == [[1.0, 0.0], [1.0, 3.0]]
    assert [bar.get_width() for bar in right.patches] == list(range(18))


def test_rounds_and_prices_are_those_of_the_run() -> None:
    solution = PriceCoordination(max_rounds=3).solve(
        water_potability(n=3, net=mlp(2, 16, 9, seed=1))
    )
    top, _ = figures.plot_rounds(solution.history).axes
    assert top.lines[0].get_ydata() == pytest.approx(solution.history["lp_value"])
    paths = {"run": solution.history.prices, "again": solution.history.prices}
    one, other = figures.plot_price_paths(paths, [str(r) for r in range(18)], most=3).axes
    assert len(one.lines) == len(other.lines) == 3


def test_the_lowest_point_of_the_dual_is_marked() -> None:
    (axes,) = figures.plot_dual(hand_market(), {"walk": np.array([[0, 0], [0.5, 0.0]])}).axes
    star = axes.lines[-1]
    assert np.array([star.get_xdata(), star.get_ydata()]).ravel() == pytest.approx([0.5, 0.25])

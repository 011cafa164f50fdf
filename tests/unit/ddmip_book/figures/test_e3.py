"""E3's figures: what is drawn, from a few made-up rows and from the stored ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ddmip_book.experiments import Results, Row, load
from ddmip_book.experiments.claims.printed import DD_ITERATIONS, E3_SIZES_PRINTED, SSG_QUALITY
from ddmip_book.experiments.grids import E3_SIZES
from ddmip_book.figures import e3 as figures
from tests.builders.rows import finished


def row(
    method: str, size: int = 20, seed: int = 42, objective: float | None = 10.0, **more: Any
) -> Row:
    results = {"objective": objective, "untreated": 4.0, "seconds": 1.0, "iterations": 50}
    return finished("e3", method, **{"size": size, "seed": seed, **results, **more})


@pytest.fixture
def rows() -> Results:
    trace = {"primal_residual": [0.1, 0.01, 0.001]}
    return Results(
        [
            row("bigm", seconds=300.0, iterations=None),
            row("ssg-printed", objective=None, iterations=100, seconds=0.5),
            row("dd-paper", objective=12.0, seconds=2.0, trace=trace),
            row("dd-no-multipliers", objective=11.0, trace={"primal_residual": [0.1, 0.1, 0.1]}),
            row("dd", objective=16.0, seconds=3.0),
            row("dd-paper", seed=123, objective=14.0),
            row("dd-paper", size=40, objective=20.0),
        ]
    )


def drawn(axes: Any, label: str) -> np.ndarray:
    """The marks of the series with that label."""
    found = [box[0] for box in axes.containers if box.get_label() == label]
    found += [line for line in axes.lines if line.get_label() == label]
    assert len(found) == 1, label
    return np.column_stack([found[0].get_xdata(), found[0].get_ydata()])


def test_the_best_known_value_is_the_best_of_all_methods_on_the_same_instance(
    rows: Results,
) -> None:
    best = figures.best_by_instance(rows)
    assert best["water", "2x16", 20, 42, 2.0] == 16.0
    assert best["water", "2x16", 20, 123, 2.0] == 14.0
    assert len(best) == 3


def test_twins_share_an_instance(rows: Results) -> None:
    ((with_, without),) = figures.twins(rows)
    assert (with_.method, without.method) == ("dd-paper", "dd-no-multipliers")
    assert figures.instance_of(with_) == figures.instance_of(without)


def test_quality_counts_a_run_without_a_point_as_zero_and_skips_instances_without_a_reference(
    rows: Results,
) -> None:
    exact = {figures.instance_of(r): 10.0 for r in rows.where(method="bigm")}
    assert figures.relative_quality(rows, "ssg-printed", exact) == {20: [0.0]}
    assert figures.relative_quality(rows, "dd-paper", exact) == {20: [1.2]}
    assert figures.speedups_of(rows, "dd-paper") == {20: [150.0]}


def test_panels_show_our_rows_and_the_printed_figures(rows: Results) -> None:
    quality, iterations, speed = figures.plot_panels(rows).axes
    assert drawn(quality, "paper's settings")[:, 1] == pytest.approx([1.2])
    assert drawn(quality, "SSG as published")[:, 1] == pytest.approx([0.0])
    assert drawn(quality, "SSG, in the paper")[:, 1] == pytest.approx(SSG_QUALITY)
    assert drawn(iterations, "Algorithm 1, in the paper")[:, 1] == pytest.approx(DD_ITERATIONS)
    assert drawn(iterations, "paper's settings")[:, 1] == pytest.approx([50, 50])
    assert drawn(speed, "our defaults")[:, 1] == pytest.approx([100.0])
    assert [tick.get_text() for tick in speed.get_xticklabels()] == [
        str(n) for n in E3_SIZES_PRINTED
    ]
    assert quality.get_ylim()[1] > 1.1


def test_shares_average_over_the_seeds(rows: Results) -> None:
    (axes,) = figures.plot_shares(rows, sorted(E3_SIZES), figures.best_by_instance(rows)).axes
    marks = drawn(axes, "paper's settings")
    assert marks[:, 1] == pytest.approx([(12 / 16 + 1) / 2, 1.0])
    assert marks[1, 0] - marks[0, 0] == pytest.approx(sorted(E3_SIZES).index(40))


def test_twins_are_drawn_as_pairs_and_as_residuals(rows: Results) -> None:
    counts, residuals = figures.plot_twins(figures.twins(rows)).axes
    assert counts.lines[1].get_xydata().tolist() == [[12.0, 11.0]]
    assert drawn(residuals, "with")[:, 1] == pytest.approx([0.1, 0.01, 0.001])
    assert drawn(residuals, "without")[:, 1] == pytest.approx([0.1] * 3)


def under(
    budget: float, method: str, size: int, objective: float, iterations: int, seed: int = 42
) -> Row:
    return finished(
        "budgets",
        method,
        size=size,
        seed=seed,
        budget=budget,
        objective=objective,
        iterations=iterations,
    )


def test_budgets_are_lines_over_the_sizes_with_the_printed_profile_beside() -> None:
    rows = Results(
        [
            under(4.0, "dd-paper", 20, 10, 50),
            under(4.0, "prices", 20, 20, 4),
            under(4.0, "prices", 40, 40, 6),
            under(4.0, "prices", 40, 20, 8, seed=123),
            under(0.5, "prices", 20, 5, 30),
            finished(
                "budgets", "prices", problem="water_raw", size=20, objective=1.0, iterations=99
            ),
        ]
    )
    figure = figures.plot_budgets(rows)
    paper, prices, rounds = figure.axes
    assert drawn(paper, "γ = 4").tolist() == [[20, 0.5]]
    assert drawn(prices, "γ = 4").tolist() == [[20, 1.0], [40, 0.75]]
    assert drawn(prices, "γ = 0.5").tolist() == [[20, 0.25]]
    assert drawn(rounds, "γ = 4").tolist() == [[20, 4], [40, 7]]
    assert drawn(rounds, "in the paper")[:, 1] == pytest.approx(DD_ITERATIONS)
    assert len(figure.legends[0].get_texts()) == 3


def test_figures_can_be_drawn_before_any_run_is_stored() -> None:
    quality, _, speed = figures.plot_panels(Results([])).axes
    assert len(drawn(quality, "our defaults")) == 0
    assert speed.get_yscale() == "log"
    assert len(figures.plot_twins([]).axes) == 2
    assert len(drawn(figures.plot_budgets(Results([])).axes[2], "in the paper")) == len(
        E3_SIZES_PRINTED
    )


def test_stored_pairs_agree_in_objective_and_differ_in_residual() -> None:
    pairs = figures.twins(load("e3"))
    assert pairs, "the committed rows of E3 hold both variants"
    with_, without = map(Results, zip(*pairs, strict=True))
    share = without.values("objective").sum() / with_.values("objective").sum()
    assert 0.95 < share < 1.05
    assert np.median(without.values("primal_residual") / with_.values("primal_residual")) > 2

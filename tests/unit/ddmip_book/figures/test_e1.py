"""The figures of E1 show what the rows say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ddmip_book.experiments import Results, Row, load
from ddmip_book.experiments.grids import E1_NETWORKS, E1_SIZES
from ddmip_book.experiments.results import qualifying_pairs
from ddmip_book.figures import e1 as figures
from tests.builders.rows import finished


def row(method: str, objective: float | None, incumbents: list[list[float]], **more: object) -> Row:
    results = {
        "status": "time_limit",
        "objective": objective,
        "untreated": 5.0,
        "incumbents": incumbents,
    }
    return finished("e1", method, **results, **more)


@pytest.fixture
def rows() -> Results:
    return Results(
        [
            row(
                "bigm",
                10.0,
                [[0.1, 5.0], [200.0, 10.0]],
                seconds=300.0,
                cpu_seconds=250.0,
                bound=50.0,
                build_seconds=2.0,
                peak_memory=400.0,
                details={"model_variables": 6250},
            ),
            row("dd", 30.0, [[0.1, 5.0], [0.5, 20.0], [2.0, 30.0]], seconds=4.0, cpu_seconds=3.0),
            row(
                "dd-paper",
                20.0,
                [[0.1, 5.0], [1.0, 9.0], [2.0, 20.0]],
                objective_last=15.0,
                seconds=3.0,
                cpu_seconds=2.0,
            ),
            row("bigm", 5.0, [[0.1, 5.0]], seed=123, seconds=300.0, cpu_seconds=250.0),
            row("dd", 40.0, [[0.1, 5.0], [0.5, 40.0]], seed=123, seconds=4.0, cpu_seconds=3.0),
            row("bigm", None, [], network="4x32", seconds=310.0),
        ]
    )


def test_means_are_over_the_runs_of_a_cell(rows: Results) -> None:
    best = figures.by_cell(rows, "dd", figures.mean_share)
    assert best[0, E1_SIZES.index(50)] == pytest.approx(0.7)
    assert np.isnan(best).sum() == best.size - 1
    assert figures.mean_seconds(rows.where(method="bigm", network="2x16")) == 250.0


def test_a_run_without_a_point_or_a_clock_is_not_a_zero(rows: Results) -> None:
    killed = rows.where(network="4x32")
    assert np.isnan(figures.mean_share(killed))
    assert figures.mean_seconds(killed) == 310.0
    assert np.isnan(
        figures.mean_seconds(Results([replace(r, status="memory_limit") for r in killed]))
    )


def test_only_runs_in_which_the_exact_model_improved_are_compared(rows: Results) -> None:
    (pair,) = qualifying_pairs(rows, "dd")
    assert (pair[0].seed, pair[2]) == (42, pytest.approx(200.0 / 0.5))
    ((_, _, ratio),) = qualifying_pairs(rows, "dd-paper")
    assert ratio == pytest.approx(100.0)


def test_the_maps_print_every_cell(rows: Results) -> None:
    exact, last, best, ours = figures.plot_rates(rows).axes
    for axes, word in ((exact, "0.15"), (last, "0.30"), (best, "0.40"), (ours, "0.70")):
        words = [text.get_text() for text in axes.texts]
        assert len(words) == len(E1_SIZES) * len(E1_NETWORKS)
        assert words[E1_SIZES.index(50)] == word
        assert words.count("–") == len(words) - 1
    paper, ours, ratio = figures.plot_times(rows).axes
    mean = figures.mean_seconds(rows.where(method="dd", network="2x16", size=50))
    for axes, word in ((paper, "2.0"), (ours, f"{mean:.0f}"), (ratio, "≥125")):
        assert axes.texts[E1_SIZES.index(50)].get_text() == word


def test_only_a_time_that_the_limit_cut_off_is_at_least_what_it_says(rows: Results) -> None:
    ended = Results([replace(r, status="converged") if r.method != "bigm" else r for r in rows])
    paper, _, ratio = figures.plot_times(ended).axes
    place = E1_SIZES.index(50)
    assert ratio.texts[place].get_text() == "≥125"
    assert paper.texts[place].get_text() == "2.0"
    mixed = Results([replace(r, status="optimal") if r.seed == 123 else r for r in rows])
    assert figures.plot_times(mixed).axes[2].texts[place].get_text() == "125"


def test_profiles_are_steps_from_the_incumbents(rows: Results) -> None:
    (axes,) = figures.plot_profiles(rows, [("2x16", 50)], 42).axes
    drawn = {str(line.get_label()): np.asarray(line.get_xydata()) for line in axes.lines}
    assert set(drawn) == {"Big-M", "paper's settings", "our defaults"}
    np.testing.assert_allclose(
        drawn["our defaults"], [[0.1, 0.1], [0.5, 0.4], [2.0, 0.6], [4.0, 0.6]]
    )
    ends = np.concatenate([np.asarray(marks.get_offsets()) for marks in axes.collections])
    np.testing.assert_allclose(ends[np.argsort(ends[:, 0])], [[3.0, 0.4], [4.0, 0.6], [300.0, 0.2]])


def test_a_run_that_never_gets_there_is_marked_so() -> None:
    slow = [row("bigm", 10.0, [[0.1, 5.0], [2.0, 10.0]]), row("dd", 9.0, [[0.1, 9.0]])]
    axes = figures.plot_ratios(Results(slow), ["dd"]).axes[0]
    filled, open_ = axes.lines
    assert len(np.asarray(filled.get_ydata())) == 0
    assert (list(np.asarray(open_.get_ydata())), open_.get_markerfacecolor()) == (
        [figures.NEVER],
        "white",
    )
    assert not axes.texts
    twice = [replace(r, seed=seed) for r in slow for seed in (42, 123)]
    assert [
        text.get_text() for text in figures.plot_ratios(Results(twice), ["dd"]).axes[0].texts
    ] == ["2"]
    assert (
        axes.get_yticklabels()[list(axes.get_yticks()).index(figures.NEVER)].get_text() == "never"
    )


def test_growth_shows_the_formula_and_the_models_built(rows: Results) -> None:
    variables, build, memory = figures.plot_growth(rows).axes
    np.testing.assert_allclose(
        np.asarray(variables.lines[0].get_ydata()), np.array(E1_SIZES) * (29 + 3 * 32)
    )
    assert [
        np.asarray(line.get_ydata()).tolist()
        for line in (variables.lines[1], build.lines[0], memory.lines[0])
    ] == [
        [6250],
        [2.0],
        [400.0],
    ]


def test_stored_rows_fit_the_grid() -> None:
    stored = load("e1").where(method="dd-paper", seed=42, time_limit=300.0)
    filled = np.isfinite(figures.by_cell(stored, "dd-paper", figures.mean_share))
    assert filled.sum() == len(stored) > 0

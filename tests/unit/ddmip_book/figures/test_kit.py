"""The kit of the figures: looks, legends, ticks and heat maps; and every figure of stored rows
without any row.
"""

from __future__ import annotations

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ddmip_book.experiments import Results
from ddmip_book.experiments import methods as solvers
from ddmip_book.experiments.grids import E1_NETWORKS, E1_SIZES
from ddmip_book.experiments.results import qualifying_pairs
from ddmip_book.figures import certificates, e1, e2, e3, e4, e5, kit, prices, recovery, setting
from ddmip_lib.plots import use_style

NOTHING = Results([])
EMPTY: dict[str, Callable[[], object]] = {
    "pairs that qualify": lambda: qualifying_pairs(NOTHING, "dd"),
    "cost by network": lambda: e2.by_network(NOTHING, "seconds"),
    "twins": lambda: e3.twins(NOTHING),
    "best by instance": lambda: e3.best_by_instance(NOTHING),
    "gains": lambda: e4.gains(NOTHING),
    "measures of networks": lambda: e4.of_stored(NOTHING, e4.logit_size),
    "best known": lambda: e5.best_known(NOTHING),
    "shares closed": lambda: e5.closed_runs(NOTHING, "trees", "dd"),
    "reactions": lambda: e5.reactions(NOTHING),
    "timed runs": lambda: e5.timed(NOTHING, "8x32", "bigm"),
    "recovered pairs": lambda: recovery.recovery_pairs(NOTHING, NOTHING, "dd"),
    "pairs with prices": lambda: prices.pairs(NOTHING, NOTHING),
    "scores": lambda: setting.trained(NOTHING),
}


@pytest.fixture(autouse=True)
def _style() -> None:
    use_style()


def test_methods_that_are_drawn_are_methods_that_are_run() -> None:
    assert set(kit.METHOD_LOOKS) <= set(solvers.METHODS)


@pytest.mark.parametrize(
    "shown",
    [
        e1.SHOWN,
        (*e1.SHOWN, "random"),
        e5.E5_METHODS,
        ("ssg-printed", "ssg", e3.WITH, e3.WITHOUT, "dd"),
    ],
)
def test_methods_of_one_figure_differ_in_mark_and_in_label(shown: tuple[str, ...]) -> None:
    looks = [kit.METHOD_LOOKS[method] for method in shown]
    assert len({look.marker for look in looks}) == len({look.label for look in looks}) == len(looks)


def test_lines_are_numbered_from_one_and_told_apart() -> None:
    ax = plt.subplots()[1]
    kit.draw_lines(ax, {"a": [3.0, 4.0], "b": [5.0]}, markersize=2)
    assert [line.get_xdata().tolist() for line in ax.lines] == [[1, 2], [1]]
    assert len({(line.get_color(), line.get_marker()) for line in ax.lines}) == 2
    assert kit.look(7) == kit.look(1)


@pytest.mark.parametrize(("log", "below"), [("", 0), ("x", 2), ("y", 2), ("xy", 0)])
def test_lines_carry_labels_scales_and_a_legend_beside_the_data(log: str, below: int) -> None:
    ax = kit.plot_lines({"a": [1.0, 2.0], "b": [3.0, 4.0]}, "x", "y", [1, 10], log, below)
    assert (ax.get_xscale(), ax.get_yscale()) == tuple(
        "log" if axis in log else "linear" for axis in "xy"
    )
    assert {line.get_label(): list(line.get_ydata()) for line in ax.lines}["b"] == [3.0, 4.0]
    ax.figure.canvas.draw()
    legend = ax.get_legend()
    assert legend is not None
    assert (legend.get_window_extent().y1 < ax.get_window_extent().y0) == bool(below)


@pytest.mark.parametrize(("mark", "line"), [("o", "None"), ("--", "--")])
def test_a_format_string_drops_the_other_half_of_the_style(mark: str, line: str) -> None:
    (drawn,) = plt.subplots()[1].plot([1, 2], [1, 2], mark, color=kit.RED)
    assert drawn.get_linestyle() == line
    assert drawn.get_marker() == ("o" if mark == "o" else "None")


def test_a_legend_outside_names_every_label_once() -> None:
    figure, (left, right) = kit.draw_panels(2)
    kit.legend_outside(figure, 2)
    assert not figure.legends
    left.plot([1], [1], label="a")
    right.plot([1], [1], label="a")
    right.plot([1], [1], label="b")
    kit.legend_outside(figure, 2, "lower")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]


def test_a_narrow_logarithmic_axis_has_several_written_ticks() -> None:
    ax = plt.subplots()[1]
    ax.loglog([300, 900], [20, 90], "o")  # no power of ten lies between them
    kit.plain_log(ax.xaxis)
    ax.figure.canvas.draw()
    inside = [
        text.get_text() for text in ax.get_xticklabels() if 300 <= text.get_position()[0] <= 900
    ]
    assert len(inside) > 2
    assert set(inside) <= {str(number) for number in range(300, 901)}


def test_steps_are_held_until_the_end_but_not_back_in_time() -> None:
    times, values = kit.hold([[0.1, 5.0], [9.0, 7.0]], 4.0)
    assert (times.tolist(), values.tolist()) == ([0.1, 9.0, 9.0], [5.0, 7.0, 7.0])


def test_heat_maps_show_numbers_dashes_and_no_negative_zero() -> None:
    cells = np.full((len(E1_NETWORKS), len(E1_SIZES)), np.nan)
    cells[0, :2] = -0.04, 1.26
    figure = kit.heat_maps([kit.HeatMap("map", cells, -0.5, 2.8, ".1f")] * 4)
    words = [text.get_text() for text in figure.axes[0].texts]
    assert words[:3] == ["0.0", "1.3", "–"]
    assert [ax.get_xlabel() != "" for ax in figure.axes] == [False, False, True, True]


@pytest.mark.parametrize("ask", EMPTY.values(), ids=EMPTY)
def test_nothing_stored_means_nothing_found(ask: Callable[[], object]) -> None:
    assert not ask()


def test_a_cell_without_runs_has_no_mean() -> None:
    cells = [
        e1.by_cell(NOTHING, "dd", of)
        for of in (e1.mean_share, e1.mean_seconds, prices.promised_share)
    ]
    assert np.isnan(cells).all()
    assert np.isnan([e1.mean_share(NOTHING), e1.mean_seconds(NOTHING), prices.slope(NOTHING)]).all()


@pytest.mark.parametrize(
    ("draw", "panels"),
    [
        (lambda: e1.plot_rates(NOTHING), 4),
        (lambda: e1.plot_times(NOTHING), 3),
        (lambda: e1.plot_profiles(NOTHING, [("2x16", 25), ("4x32", 50), ("6x64", 50)], 42), 3),
        (lambda: e1.plot_ratios(NOTHING), 1),
        (lambda: e1.plot_growth(NOTHING), 3),
        (lambda: e2.plot_paper_panels(NOTHING), 3),
        (lambda: e2.plot_blocks(NOTHING), 2),
        (lambda: e2.plot_what_moves(NOTHING), 2),
        (lambda: e4.plot_paper_panels(NOTHING, 0.6), 3),
        (lambda: e4.plot_potable(NOTHING), 3),
        (lambda: e4.plot_two_causes(NOTHING, {}, {}), 10),
        (lambda: e4.plot_iteration_cost(NOTHING, {}), 2),
        (lambda: e5.plot_seconds(NOTHING).figure, 1),
        (lambda: e5.plot_closed(NOTHING), 2),
        (lambda: recovery.plot_gains(NOTHING, NOTHING), 4),
        (lambda: prices.plot_grid(NOTHING, NOTHING), 4),
        (lambda: prices.plot_sooner(NOTHING, NOTHING), 1),
        (lambda: prices.plot_scaling(NOTHING), 2),
        (lambda: certificates.plot_certified(NOTHING, NOTHING), 1),
        (lambda: certificates.plot_histories(NOTHING), 1),
    ],
)
def test_figures_of_stored_rows_can_be_drawn_before_any_run(
    draw: Callable[[], Figure], panels: int
) -> None:
    figure = draw()
    figure.canvas.draw()
    assert len(figure.axes) == panels
    assert all(
        isinstance(ax, Axes) and (ax.get_xlabel() or ax.get_title() or ax.get_ylabel())
        for ax in figure.axes
    )

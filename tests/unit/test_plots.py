"""Figures show the numbers they claim to show, and their parts can be told apart without colour."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import nn

from ddmip_lib import BigM, DualDecomposition, NeuralMIP, Solution, plots
from ddmip_lib.problems import hand_sized, water_potability


@pytest.fixture(autouse=True)
def _own_canvas() -> Iterator[None]:
    with mpl.rc_context({"backend": "agg"}):
        plots.use_style()
        yield
        plt.close("all")


@pytest.fixture(scope="module")
def water() -> tuple[NeuralMIP, Solution]:
    net = nn.Linear(9, 1).eval()
    with torch.no_grad():  # features 0, 2, ... help and the others harm, so both directions are used
        net.weight.copy_(torch.tensor([[(-1.0) ** j for j in range(9)]]))
        net.bias.fill_(-1.0)
    problem = water_potability(n=6, net=net, seed=42)
    return problem, DualDecomposition(max_iterations=15).solve(problem, time_limit=20)


@pytest.fixture(scope="module")
def exact() -> Solution:
    return BigM().solve(hand_sized(), time_limit=30)


def looks(ax: Axes) -> list[tuple[str, str]]:
    return [(str(line.get_linestyle()), str(line.get_marker())) for line in ax.get_lines()]


def test_history_shows_objective_residuals_and_penalty(water: tuple[NeuralMIP, Solution]) -> None:
    history = water[1].history
    above, below = plots.plot_history(water[1])
    iterates, incumbent = above.get_lines()
    np.testing.assert_array_equal(iterates.get_ydata(), history["objective"])
    np.testing.assert_array_equal(incumbent.get_ydata(), history["incumbent"])
    shown = {line.get_label(): np.asarray(line.get_ydata()) for line in below.get_lines()}
    for label, column in (("primal residual", "primal_residual"), ("penalty ρ", "rho")):
        positive = history[column] > 0
        np.testing.assert_array_equal(shown[label][positive], history[column][positive])
        assert np.isnan(shown[label][~positive]).all()
    assert len(set(looks(below))) == len(below.get_lines()) == 3


def test_history_of_a_run_without_iterations_is_refused(exact: Solution) -> None:
    with pytest.raises(ValueError, match="plot_incumbents"):
        plots.plot_history(exact)


def test_incumbents_end_at_the_objective_and_look_different(exact: Solution) -> None:
    weak = DualDecomposition(penalty=1.0).solve(hand_sized(), time_limit=20)
    nothing = Solution("time_limit", "a method without luck")
    ax = plots.plot_incumbents({"exact": exact, "weak": weak, "none": nothing})
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["exact", "weak", "none (no solution)"]
    steps = {line.get_label(): line for line in ax.get_lines() if line.get_label() in labels}
    for label, solution in (("exact", exact), ("weak", weak)):
        assert steps[label].get_ydata()[-1] == solution.objective
        assert steps[label].get_xdata()[-1] == solution.seconds
    assert len({str(line.get_linestyle()) for line in steps.values()}) == 3
    assert [note.get_text() for note in ax.texts] == ["bound of exact"]


def test_treatment_bars_add_up_to_what_was_moved(water: tuple[NeuralMIP, Solution]) -> None:
    problem, solution = water
    assert problem.start is not None
    moved = solution.inputs[0] - problem.start[0]
    assert moved.min() < -0.01 < 0.01 < moved.max()
    ax = plots.plot_treatment(problem, solution)
    bars = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    for sign in (1, -1):
        drawn = np.zeros(9)
        for bar in bars:
            if sign * bar.get_width() > 0:
                drawn[round(bar.get_y() + bar.get_height() / 2)] += bar.get_width()
                assert (bar.get_hatch() is not None) == (sign < 0)
        expected = np.where(sign * moved > 1e-6, moved, 0).sum(axis=0)
        np.testing.assert_allclose(drawn, expected, atol=1e-9)
    limits = sorted({float(line.get_xdata()[0]) for line in ax.get_lines()})
    assert limits == pytest.approx([-2.0, 0.0, 2.0])


def test_treatment_needs_a_point(water: tuple[NeuralMIP, Solution]) -> None:
    with pytest.raises(ValueError, match="start point"):
        plots.plot_treatment(water[0], Solution("time_limit", "no luck"))


def test_landscape_writes_the_cost_at_every_corner() -> None:
    ax = plots.plot_landscape(hand_sized(), {"a": (0.25, 1), "b": (0, 1)})
    corners = {tuple(note.xy): note.get_text() for note in ax.texts if hasattr(note, "xy")}
    assert corners == {(0, 0): "1.5", (1, 0): "3.5", (0, 1): "2", (1, 1): "0.5"}
    marked = [line for line in ax.get_lines() if line.get_label() in ("a", "b")]
    assert len({line.get_marker() for line in marked}) == 2


@pytest.mark.parametrize("draw", [plots.draw_workflow, plots.draw_split], ids=lambda draw: draw.__name__)
def test_words_of_a_drawing_stay_inside_and_apart(draw: Callable[[], Axes]) -> None:
    ax = draw()
    figure = ax.get_figure()
    assert figure is not None
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in ax.texts if text.get_text()]
    assert len(boxes) > 8
    page = figure.bbox
    for number, box in enumerate(boxes):
        assert page.x0 <= box.x0 < box.x1 <= page.x1
        assert page.y0 <= box.y0 < box.y1 <= page.y1
        assert not [other for other in boxes[:number] if box.overlaps(other)]


def test_figures_are_drawn_on_white() -> None:
    ax = plots.draw_split()
    figure = ax.get_figure()
    assert figure is not None
    assert mpl.colors.to_hex(figure.get_facecolor()) == "#ffffff"


def test_style_tells_lines_apart_without_colour() -> None:
    styles = list(mpl.rcParams["axes.prop_cycle"])
    for key in ("color", "linestyle", "marker"):
        assert len({str(style[key]) for style in styles}) == len(styles)

"""Figures show the numbers they claim to show, and their parts can be told apart without colour."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Rectangle

from ddmip_book.figures import diagrams, neural_mips, quickstart
from ddmip_lib import BigM, DualDecomposition, NeuralMIP, Solution, Trace, plots
from ddmip_lib.model import History
from ddmip_lib.problems import hand_sized
from tests.builders.clocks import LONG
from tests.builders.instances import linear_water


@pytest.fixture(autouse=True)
def _own_canvas() -> Iterator[None]:
    with mpl.rc_context({"backend": "agg"}):
        plots.use_style()
        yield
        plt.close("all")


@pytest.fixture(scope="module")
def water() -> tuple[NeuralMIP, Solution]:
    problem = linear_water()
    return problem, DualDecomposition(max_iterations=15).solve(problem, time_limit=LONG)


@pytest.fixture(scope="module")
def exact() -> Solution:
    return BigM().solve(hand_sized(), time_limit=LONG)


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


PIECES = {
    plots.plot_objective: ("objective", "incumbent"),
    plots.plot_residuals: ("primal_residual", "dual_residual"),
    plots.plot_penalty: ("rho",),
}


@pytest.mark.parametrize("draw", PIECES, ids=lambda draw: draw.__name__)
def test_pieces_show_their_columns(
    draw: Callable[..., Axes], water: tuple[NeuralMIP, Solution]
) -> None:
    """Of a solution or of its history, in new axes or in those handed in, with the legend below the
    data.
    """
    history = water[1].history
    _, given = plt.subplots()
    for ax in (draw(water[1]), draw(history, given)):
        assert len(ax.get_lines()) == len(PIECES[draw]) == len(set(looks(ax)))
        for line, column in zip(ax.get_lines(), PIECES[draw], strict=True):
            expected = history[column]
            if ax.get_yscale() == "log":
                expected = np.where(expected > 0, expected, np.nan)
            np.testing.assert_array_equal(line.get_xdata(), history["k"])
            np.testing.assert_array_equal(line.get_ydata(), expected)
        figure = ax.get_figure()
        assert figure is not None
        figure.canvas.draw()
        assert ax.get_legend().get_window_extent().y1 < ax.get_window_extent().y0
    assert ax is given


class TwoPenalties(History):
    """A history with the penalty of coupled outputs beside the other."""

    columns = (*(c for c in History.columns if c != "rho_outputs"), "rho_outputs")
    second: float

    def __getitem__(self, key: int | str) -> object:
        if key == "rho_outputs":
            return np.full(len(self), self.second)
        return super().__getitem__(key)


@pytest.mark.parametrize(("second", "lines"), [(0.5, 2), (np.nan, 1)])
def test_penalty_of_outputs_only_where_there_is_one(
    second: float, lines: int, water: tuple[NeuralMIP, Solution]
) -> None:
    history = TwoPenalties(water[1].history.iterations)
    history.second = second
    ax = plots.plot_penalty(history)
    assert len(ax.get_lines()) == lines == len(set(looks(ax)))
    if lines == 2:
        assert set(ax.get_lines()[1].get_ydata()) == {0.5}


def test_history_of_a_run_without_iterations_is_refused(exact: Solution) -> None:
    for draw in (plots.plot_history, *PIECES):
        with pytest.raises(ValueError, match="plot_incumbents"):
            draw(exact)


def test_largest_multipliers_as_lines_the_rest_as_a_band() -> None:
    lams = np.random.default_rng(0).normal(size=(12, 9))
    lams[-1] = [0.1, -5, 0.2, 4, 0.3, -3, 0, 2, 0.5]
    ax = plots.plot_multipliers(lams)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == [
        "the other 5",
        "$\\lambda_{2}$",
        "$\\lambda_{4}$",
        "$\\lambda_{6}$",
        "$\\lambda_{8}$",
    ]
    lines = [line for line in ax.get_lines() if line.get_label() in labels]
    np.testing.assert_array_equal([line.get_ydata() for line in lines], lams[:, [1, 3, 5, 7]].T)
    assert len({look[0] for look in looks(ax)}) >= 4
    rest = lams[:, [0, 2, 4, 6, 8]]
    (band,) = (c for c in ax.collections if isinstance(c, PolyCollection))
    corners = band.get_paths()[0].vertices
    for k in range(12):
        heights = corners[corners[:, 0] == k + 1, 1]
        assert (heights.min(), heights.max()) == (rest[k].min(), rest[k].max())


def test_few_multipliers_need_no_band() -> None:
    assert not plots.plot_multipliers([[1.0, 2.0], [2.0, 3.0]]).collections
    with pytest.raises(ValueError, match="Trace"):
        plots.plot_multipliers([1.0, 2.0])


def test_iterates_in_the_plane_over_a_landscape() -> None:
    trace = Trace()
    solution = DualDecomposition(penalty=1.0, callback=trace).solve(hand_sized(), time_limit=LONG)
    assert len(trace.x) == len(trace.u) == len(trace.lam) == len(solution.history) > 3
    ground = neural_mips.plot_landscape(hand_sized())
    assert plots.plot_iterates(trace.x, trace.u, ax=ground) is ground
    shown = {line.get_label(): np.asarray(line.get_xydata()) for line in ground.get_lines()}
    np.testing.assert_array_equal(shown["$u^k$"], trace.u)
    np.testing.assert_array_equal(shown["last $u$"], [trace.u[-1]])
    np.testing.assert_array_equal(shown["$x^k$"], np.unique(trace.x, axis=0))
    counts = [note.get_text() for note in ground.texts][-len(shown["$x^k$"]) :]
    assert sum(map(int, counts)) == len(trace.x)


def test_iterates_on_a_line_over_the_iterations() -> None:
    ax = plots.plot_iterates([[0], [1], [1]], [[0.2], [0.6], [0.9]])
    squares, path = ax.get_lines()
    np.testing.assert_array_equal(squares.get_xydata(), [[1, 0], [2, 1], [3, 1]])
    np.testing.assert_array_equal(path.get_xydata(), [[1, 0.2], [2, 0.6], [3, 0.9]])
    assert squares.get_marker() != path.get_marker()


@pytest.mark.parametrize(
    ("xs", "us"),
    [([[0, 0, 0]], [[0, 0, 0]]), ([[0]], [[0, 1]]), ([0, 1], [0, 1]), ([], [])],
    ids=str,
)
def test_iterates_of_other_shapes_are_refused(xs: list[object], us: list[object]) -> None:
    with pytest.raises(ValueError, match="1 or 2"):
        plots.plot_iterates(xs, us)


def test_incumbents_end_at_the_objective_and_look_different(exact: Solution) -> None:
    weak = DualDecomposition(penalty=1.0).solve(hand_sized(), time_limit=LONG)
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
    ax = quickstart.plot_treatment(problem, solution)
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
        quickstart.plot_treatment(water[0], Solution("time_limit", "no luck"))


def test_landscape_writes_the_cost_at_every_corner() -> None:
    ax = neural_mips.plot_landscape(hand_sized(), {"a": (0.25, 1), "b": (0, 1)})
    corners = {tuple(note.xy): note.get_text() for note in ax.texts if hasattr(note, "xy")}
    assert corners == {(0, 0): "1.5", (1, 0): "3.5", (0, 1): "2", (1, 1): "0.5"}
    marked = [line for line in ax.get_lines() if line.get_label() in ("a", "b")]
    assert len({line.get_marker() for line in marked}) == 2


@pytest.mark.parametrize(
    "draw", [diagrams.draw_workflow, diagrams.draw_split], ids=lambda draw: draw.__name__
)
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
    ax = diagrams.draw_split()
    figure = ax.get_figure()
    assert figure is not None
    assert mpl.colors.to_hex(figure.get_facecolor()) == "#ffffff"


def test_style_tells_lines_apart_without_colour() -> None:
    styles = list(mpl.rcParams["axes.prop_cycle"])
    for key in ("color", "linestyle", "marker"):
        assert len({str(style[key]) for style in styles}) == len(styles)

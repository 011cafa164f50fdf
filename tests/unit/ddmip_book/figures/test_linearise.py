"""The figures of linearisation show the tries, prices and counts that they are given."""

from __future__ import annotations

import numpy as np
import pytest

from ddmip_book.examples.linearise import descend, flat_row, ridge, wave
from ddmip_book.figures import linearise as figures


def test_a_step_shows_the_choice_on_the_line_and_the_truth_on_the_curve() -> None:
    run = descend(wave(), [0.05])
    axes = figures.plot_steps(wave(), run, [0, 1]).axes
    assert [ax.get_title() for ax in axes] == ["trial 1: accepted", "trial 2: rejected"]
    marks = {line.get_label(): line.get_ydata()[0] for line in axes[0].lines}
    assert marks["minimiser of the model"] == pytest.approx(run.tried[0].aim.cost)
    assert marks["network at that point"] == pytest.approx(run.tried[0].new.cost)
    low, high = axes[0].get_ylim()
    assert all(low < y < high for y in marks.values())


def test_a_descent_shows_every_try_and_tells_failures_apart() -> None:
    run = descend(wave(), [0.05])
    above, below = figures.plot_descent({"left": run}).axes
    shown = [line for line in below.lines if line.get_linestyle() == "None"]
    taken, failed = (len(np.atleast_1d(line.get_xdata())) for line in shown)
    assert (taken, failed) == (sum(s.taken for s in run.tried), sum(not s.taken for s in run.tried))
    assert below.get_yscale() == "log"
    assert above.get_ylabel() == "merit after the trial"


def test_prices_mark_their_lowest_points() -> None:
    ax = figures.plot_prices(flat_row(), [10.0, 200.0], 0.999).axes[0]
    ends = [line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 1]
    assert ends == pytest.approx([0.456, 0.633], abs=2e-3)


def test_a_ridge_has_its_best_point_and_its_end() -> None:
    run = descend(ridge(), [0.9, 0.65])
    left, right = figures.plot_ridge(ridge(), run, np.zeros(2)).axes
    stars = [line for line in left.lines if line.get_label() == "the optimum"]
    assert stars[0].get_xdata()[0] == 0.0
    assert right.get_xlim()[0] < run.inputs[0] < right.get_xlim()[1]


def test_boxes_have_a_line_for_each_count() -> None:
    ax = figures.plot_boxes([0.1, 0.2, 1.0], {"a": [1, 2, 3], "b": [0, 1, 2]}, 4, 0.2).axes[0]
    assert [line.get_label() for line in ax.lines] == ["a", "b", "all units"]
    assert ax.get_ylim()[1] > 4

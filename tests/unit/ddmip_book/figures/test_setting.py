"""The figures of the chapter on the set-up draw what the rows say."""

from __future__ import annotations

import numpy as np
import pytest

from ddmip_book.experiments import Results, Row, load
from ddmip_book.figures import setting as figures
from tests.builders.rows import finished


def row(
    network: str,
    seed: int,
    score: float | None,
    parameters: int = 1,
    method: str = "dd",
    **more: object,
) -> Row:
    results = {"status": "optimal", "parameters": parameters, "test_score": score}
    return finished("e1", method, network=network, size=4, seed=seed, **results, **more)


SOME = Results(
    [
        row("4x32", 42, 0.64, 3500),
        row("2x16", 42, 0.60, 449),
        row("2x16", 42, 0.60, 449, "dd-paper"),
        row("2x16", 123, 0.62, 449),
        row("2x16", 456, None),
    ]
)


def test_a_network_counts_once_and_small_ones_come_first() -> None:
    assert figures.trained(SOME) == {"2x16": {42: 0.60, 123: 0.62}, "4x32": {42: 0.64}}


@pytest.mark.parametrize("share", [0.1, 0.5, 0.6])
def test_noise_is_that_of_repeated_draws(share: float) -> None:
    seen = np.random.default_rng(0).binomial(400, share, size=20000) / 400
    inside = np.mean(np.abs(seen - share) <= figures.noise(share, 400))
    assert inside == pytest.approx(0.95, abs=0.01)
    assert figures.noise(share, 1600) == pytest.approx(figures.noise(share, 400) / 2)


def test_accuracy_shows_every_network_and_the_larger_class() -> None:
    axes = figures.plot_accuracy(SOME, 0.597, 403)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2x16", "4x32"]
    heights = [list(np.atleast_1d(line.get_ydata())) for line in axes.lines]
    assert heights[0] == [0.597, 0.597]
    assert [sorted(h) for h in heights[1::2]] == [[0.60, 0.62], [0.64]]
    assert [h[0] for h in heights[2::2]] == pytest.approx([0.61, 0.64])


def test_the_window_holds_every_stored_accuracy() -> None:
    stored = Results(
        [r for name in ("e1", "e2", "e3", "e4") for r in load(name) if r.problem == "water"]
    )
    scores = [score for by_seed in figures.trained(stored).values() for score in by_seed.values()]
    low, high = figures.plot_accuracy(stored, 0.597, 403).get_ylim()
    assert scores
    assert low < min(scores) <= max(scores) < high


def test_logits_rise_to_one_and_cross_zero_at_the_share_that_is_not_potable() -> None:
    axes = figures.plot_logits({"a": np.array([3.0, -1.0, -2.0, 1.0]), "b": np.array([-1.0])})
    x, y = axes.lines[0].get_data()
    assert list(x) == [-2.0, -1.0, 1.0, 3.0]
    assert float(np.asarray(y)[np.asarray(x) < 0].max()) == 0.5
    assert [line.get_label() for line in axes.lines[:2]] == ["a", "b"]


def test_training_has_one_curve_for_each_series() -> None:
    left, right = figures.plot_training(
        [5, 15, 60],
        {"train": [0.6, 0.7, 0.9], "test": [0.6, 0.6, 0.6]},
        0.6,
        {"treated": [8, 15, 21]},
        25,
    )
    assert [list(line.get_ydata()) for line in left.lines[:2]] == [[0.6, 0.7, 0.9], [0.6, 0.6, 0.6]]
    assert list(right.lines[0].get_xdata()) == [5, 15, 60]
    assert right.get_ylim() == (0, 25)


def test_time_to_marks_only_what_was_reached() -> None:
    exact = row(
        "2x16",
        42,
        0.6,
        method="bigm",
        objective=4.0,
        untreated=1.0,
        incumbents=[[0.1, 1.0], [3.0, 4.0]],
    )
    never = row("2x16", 42, 0.6, objective=3.0, untreated=1.0, incumbents=[[0.1, 1.0], [0.5, 3.0]])
    axes = figures.plot_time_to(exact, never, "ours")
    assert [text.get_text() for text in axes.texts] == ["3.00 s"]
    assert figures.time_to(never, 4.0) == float("inf")
    assert list(axes.lines[0].get_ydata()) == [1.0, 4.0, 4.0]

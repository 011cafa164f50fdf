"""What the figures of the fourth experiment draw, from rows made here and from the stored ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from torch import nn

from ddmip_book.experiments import Results, Row, load
from ddmip_book.experiments.claims.printed import ACCURACY
from ddmip_book.experiments.networks import save_weights
from ddmip_book.figures import e4 as figures
from ddmip_book.networks import conv1d, lstm
from tests.builders.networks import linear
from tests.builders.rows import finished


def row(network: str, method: str, size: int = 60, seed: int = 42, **more: object) -> Row:
    given: dict[str, object] = {
        "objective": 30.0,
        "objective_last": 27.0,
        "untreated": 6.0,
        "converged": False,
        "iterations": 50,
        "seconds": 4.0,
        "cpu_seconds": 2.0,
        "seconds_nn": 3.0,
        "parameters": 1000,
        "test_score": 0.63,
        "weights": {"files": []},
    }
    return finished("e4", method, network=network, size=size, seed=seed, **{**given, **more})


def points(ax: Axes, mark: str) -> list[tuple[float, float]]:
    """What is drawn with a mark, the legend's empty samples left out."""
    lines = [line for line in ax.lines if line.get_marker() == mark]
    return [
        (float(x), float(y))
        for line in lines
        for x, y in np.array(line.get_xydata()).reshape(-1, 2)
    ]


@pytest.mark.parametrize("network", figures.E4_NETWORKS)
def test_every_feature_can_reach_the_logit(network: str) -> None:
    units, read = figures.caricature(network)
    reached = {(len(units) - 1, 0)}
    for _ in range(12):
        reached |= {(a, i) for a, i, b, j in read if (b, j) in reached}
    assert {(0, feature) for feature in range(9)} <= reached


def test_a_convolution_sees_neighbours_and_an_lstm_is_a_chain() -> None:
    assert all(abs(i - j) <= 1 for a, i, _, j in figures.caricature("conv1d")[1] if a < 2)
    _, read = figures.caricature("lstm")
    assert [(i, j) for a, i, b, j in read if a == b] == [(i, i + 1) for i in range(8)]
    assert [i for a, i, b, _ in read if b == 2] == [8]


def test_the_paper_panels_show_its_figures_and_ours() -> None:
    facts = ((42, True, 1.0), (123, False, 4.0))
    runs = [row("conv1d", "dd-paper", seed=s, converged=c, cpu_seconds=t) for s, c, t in facts]
    accuracy, converged, seconds = figures.plot_paper_panels(Results(runs), 0.6).axes
    assert points(accuracy, "D") == list(enumerate(ACCURACY.values()))
    assert points(accuracy, "o") == [(1.0, 0.63)]
    assert points(converged, "o") == [(1.0, 0.5)]
    assert points(seconds, "o") == [(1.0, pytest.approx(2.0))], "the geometric mean"


def test_potable_shares_are_divided_by_the_size() -> None:
    runs = Results([row("fc", "dd-paper"), row("fc", "dd", objective=45.0)])
    first, second, _ = figures.plot_potable(runs).axes
    assert [y for mark in "xvso" for _, y in points(first, mark)] == [0.1, 0.45, 0.5, 0.75]
    assert not [p for mark in "xvso" for p in points(second, mark)], "no run of that size"


def test_gains_compare_the_two_methods_on_the_same_instance() -> None:
    runs = [
        row("lstm", "dd-paper", objective=12.0),
        row("lstm", "dd", objective=36.0),
        row("fc", "dd"),
    ]
    runs += [row("resnet", "dd-paper"), row("resnet", "dd", objective=6.0)]
    assert figures.gains(Results(runs)) == [
        ("lstm", 42, 60, pytest.approx(0.5), pytest.approx(0.2))
    ]
    figure = figures.plot_two_causes(Results(runs), {("lstm", 42): 1.5}, {("lstm", 42): 0.5})
    above = dict(zip(figures.E4_NETWORKS, figure.axes, strict=False))
    below = dict(zip(figures.E4_NETWORKS, figure.axes[len(above) :], strict=True))
    assert points(above["lstm"], "D") == [(1.5, pytest.approx(0.5))]
    assert points(below["lstm"], "D") == [(0.5, pytest.approx(0.2))]
    assert points(above["fc"], ".") == [(1.5, pytest.approx(0.5))]  # of another architecture
    assert not points(above["lstm"], ".")


def test_the_cost_of_an_iteration_counts_the_nn_block_alone() -> None:
    figure = figures.plot_iteration_cost(
        Results([row("resnet", "dd-paper", 200)]), {"resnet": 5000.0}
    )
    by_size, by_work = figure.axes
    assert points(by_size, "^") == [(1000.0, pytest.approx(1e3 * 2.0 * 0.75 / 50))]
    assert points(by_work, "^")[0][0] == 5000.0


def test_a_factor_on_the_logits_changes_their_size_and_not_the_distance() -> None:
    net = conv1d(1, 4, 9, seed=3).double().requires_grad_(False)
    before = figures.logit_size(net)
    distance = figures.boundary_distance(net)
    net.head.weight.mul_(8.0)  # type: ignore[union-attr, operator]
    net.head.bias.mul_(8.0)  # type: ignore[union-attr, operator]
    assert figures.logit_size(net) == pytest.approx(8 * before, rel=1e-12)
    assert figures.boundary_distance(net) == pytest.approx(distance, rel=1e-12)


def test_the_distance_of_a_linear_classifier_is_exact() -> None:
    net = linear(0, -4, 1, 0, 0, 0, 0, 0, 0, bias=-1e3)  # far from every input: f / 4 is about 250
    assert figures.boundary_distance(net) == pytest.approx(250, rel=0.01)


def test_measures_are_taken_of_the_weights_that_the_rows_name(tmp_path: Path) -> None:
    net: nn.Module = lstm(2, 32, 9, seed=42).double().requires_grad_(False)
    net.__dict__.update(mean=np.zeros(9), std=np.ones(9), report={"test_accuracy": 0.6})
    save_weights(net, tmp_path / "networks" / "net.npz", "no data")
    runs = Results([row("lstm", "dd-paper", weights={"files": ["net.npz"]}), row("fc", "dd")])
    found = figures.of_stored(runs, figures.logit_size, tmp_path)
    assert found == {("lstm", 42): pytest.approx(figures.logit_size(net), rel=1e-6)}


def test_stored_runs_are_drawn() -> None:
    full = load("e4").where(method="dd-paper")
    if not len(full):
        pytest.skip("no run of E4 is stored yet")
    accuracy = figures.plot_paper_panels(full, 0.6).axes[0]
    drawn = {round(y, 6) for _, y in points(accuracy, "o")}
    assert drawn == {round(float(score), 6) for score in full.values("test_score")}

"""What the figures of the fifth experiment draw, from rows made here and from the stored ones."""

from __future__ import annotations

import numpy as np
import pytest

from ddmip_book.experiments import Results, Row, load
from ddmip_book.experiments.rows import encode
from ddmip_book.figures import e5 as figures
from tests.builders.rows import finished


def row(
    method: str,
    objective: float | None,
    problem: str = "trees",
    network: str = "8x32",
    **more: object,
) -> Row:
    given: dict[str, object] = {
        "untreated": 8.0,
        "seconds": 3.0,
        "status": "optimal",
        "objective": objective,
    }
    return finished("e5", method, problem, network, size=2, **{**given, **more})


RUNS = Results([row("enumeration", 10.0), row("dd-paper", 8.0), row("dd", 9.5), row("bigm", None)])


def test_the_start_closes_nothing_and_the_optimum_everything() -> None:
    shares = {
        method: figures.closed_runs(RUNS, "trees", method)
        for method in ("dd-paper", "dd", "enumeration")
    }
    assert shares == {
        "dd-paper": [("8x32", 0.0)],
        "dd": [("8x32", 0.75)],
        "enumeration": [("8x32", 1.0)],
    }


def test_a_run_without_a_point_has_no_share() -> None:
    assert figures.closed_runs(RUNS, "trees", "bigm") == []


def test_without_a_proof_tree_planting_has_no_best_value_but_site_care_has() -> None:
    rows = Results(
        [row("dd", 9.0), row("dd", 9.0, "site_care"), row("grid-search", 12.0, "site_care")]
    )
    assert figures.best_known(rows) == {("site_care", "8x32", 42): 12.0}
    assert figures.closed_runs(rows, "site_care", "dd") == [("8x32", 0.25)]


def test_where_nothing_can_be_gained_nothing_is_reported() -> None:
    flat = Results([row("enumeration", 8.0), row("dd", 8.0)])
    assert figures.best_known(flat)
    assert figures.closed_runs(flat, "trees", "dd") == []


def test_survivals_stand_behind_sterilising_and_planting() -> None:
    expected = np.arange(16.0).reshape(4, 4)
    values = np.concatenate(
        [np.full(4, -1.0), np.full(16, -2.0), expected.ravel(), np.full(16, -3.0)]
    )
    run = row("enumeration", 10.0, point={"values": encode(values), "dtype": "float64"})
    assert (figures.survivals(run) == expected).all()
    assert figures.reactions(Results([run]))["8x32", 42].tolist() == [12.0] * 4


def test_the_first_move_is_the_first_verified_gain() -> None:
    objectives = [None, 8.0, 8.00005, 9.0, 8.5]
    trace = {"k": [1.0, 2.0, 3.0, 4.0, 5.0], "objective": objectives}
    assert figures.first_move(row("dd-paper", 9.0, trace=trace)) == 4
    assert (
        figures.first_move(
            row("dd-paper", 9.0, trace={key: part[:3] for key, part in trace.items()})
        )
        is None
    )
    assert figures.first_move(row("random", 9.0)) is None


def test_seconds_are_drawn_filled_and_the_printed_ones_hollow() -> None:
    ax = figures.plot_seconds(RUNS)
    drawn = [
        (line.get_markerfacecolor() == "none", float(y))
        for line in ax.lines
        for y in line.get_ydata()
    ]
    assert sorted(y for hollow, y in drawn if hollow) == [
        0.4,
        1.4,
        6.5,
        8.5,
        24.8,
        63.1,
        111.0,
        860.0,
    ]
    assert [y for hollow, y in drawn if not hollow] == [3.0, 3.0]


def test_a_big_m_run_that_ended_without_a_meaning_has_no_time() -> None:
    ax = figures.plot_seconds(
        Results([row("bigm", 8.0, status="stopped"), row("dd-paper", 8.0, status="stopped")])
    )
    assert [
        float(y)
        for line in ax.lines
        for y in line.get_ydata()
        if line.get_markerfacecolor() != "none"
    ] == [3.0]


def test_both_panels_show_every_run_with_a_share() -> None:
    left, right = figures.plot_closed(RUNS).axes
    assert sorted(float(x) for line in left.lines for x in line.get_xdata()) == [0.0, 0.75, 1.0]
    assert not [x for line in right.lines for x in line.get_xdata()]
    assert "grid search" in [tick.get_text() for tick in right.get_yticklabels()]


def test_the_threshold_lies_at_twice_the_gain() -> None:
    ax = figures.plot_penalties({10.0: 0.0, 0.1: 1.0}, 0.4)
    assert [float(x) for x in ax.lines[1].get_xdata()] == [0.8, 0.8]


def test_stored_points_agree_with_their_objectives() -> None:
    rows = [r for r in load("e5").where(problem="trees", method="enumeration") if r.point]
    if not rows:
        pytest.skip("no stored run of E5")
    for run in rows:
        values = figures.decode(run.point["values"], run.point["dtype"])
        n = run.size**2
        counted = values[9 * n :].reshape(n, 4)
        assert counted.sum() == pytest.approx(run.objective)
        assert (counted <= figures.survivals(run) + 1e-6).all()


def test_a_run_on_networks_of_other_weights_is_not_compared() -> None:
    ours = {"weights": {"sha256": "a"}}
    other = {"weights": {"sha256": "b"}}
    rows = Results(
        [row("dd", 12.0, **other), row("dd-paper", 9.0, **ours), row("enumeration", 10.0, **ours)]
    )
    assert figures.best_known(rows) == {("trees", "8x32", 42): 10.0}
    assert figures.closed_runs(rows, "trees", "dd") == []
    assert figures.closed_runs(rows, "trees", "dd-paper") == [("8x32", 0.5)]


def test_shares_of_each_size_have_marks_of_their_own() -> None:
    ax = figures.plot_closed_by_network(
        Results([*RUNS, row("enumeration", 10.0, network="24x128")])
    )
    drawn = {line.get_label(): sorted(map(float, line.get_xdata())) for line in ax.lines}
    assert drawn == {"8x32": [0.0, 0.75, 1.0], "16x64": [], "24x128": [1.0]}
    assert not figures.plot_closed_by_network(Results([])).get_yticklabels()

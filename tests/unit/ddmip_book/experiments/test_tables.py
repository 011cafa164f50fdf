"""The experiments' tables: what the stored rows say, in columns of one length, by hand where it can
be counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from ddmip_book.experiments import Results, Row, load
from ddmip_book.experiments.grids import E1_NETWORKS, E1_SIZES, E2_NETWORKS
from ddmip_book.experiments.rows import encode
from ddmip_book.experiments.tables import Columns, budgets, e1, e2, e3, e4, e5, prices
from ddmip_book.figures import e2 as e2_figures
from ddmip_book.figures import e3 as e3_figures
from ddmip_book.figures import e5 as e5_figures
from ddmip_book.text import table
from tests.builders.rows import finished


@cache
def rows(name: str) -> Results:
    return load(name)


def market() -> Results:
    return rows("e6").where(problem="water", method="prices", network=E1_NETWORKS, size=E1_SIZES)


def e2_costs() -> Columns:
    runs = {device: e2_figures.decompositions(rows("e2"), device) for device in e2.DEVICE_NAMES}
    mip = {device: e2_figures.by_network(found, "seconds_mip") for device, found in runs.items()}
    nn = {device: e2_figures.by_network(found, "seconds_nn") for device, found in runs.items()}
    return e2.costs(mip, nn)


def twin_seconds() -> Columns:
    one, other = zip(*e3_figures.twins(rows("e3")), strict=True)
    return e3.twin_seconds(Results(one), Results(other))


def e5_moves() -> Columns:
    enumerated = rows("e5").where(problem="trees", method="enumeration", network="8x32")
    keys = [(row.network, row.seed) for row in enumerated]
    both = rows("e5").where(problem="trees", method=("dd-paper", "dd-barrier"))
    pairs = {key: list(both.where(network=key[0], seed=key[1])) for key in keys}
    gains = {
        (row.network, row.seed): (row.objective or 0) - (row.untreated or 0) for row in enumerated
    }
    first = {row.key: e5_figures.first_move(row) for two in pairs.values() for row in two}
    return e5.moves(pairs, dict.fromkeys(keys, 0.5), gains, first)


TABLES: dict[str, Callable[[], Columns]] = {
    "endings": lambda: e1.endings(rows("e1")),
    "against the exact model": lambda: e1.against_exact(rows("e1")),
    "shares": lambda: e1.shares(rows("e1")),
    "near": lambda: e1.near(e1.of_best(rows("e1"), market())),
    "ratios": lambda: e1.ratios(rows("e1"), "dd"),
    "exact models": lambda: e1.exact_models(rows("e1").where(method="bigm", seed=42)),
    "forms": lambda: e1.forms(rows("e1")),
    "splits": lambda: e1.splits(rows("e1")),
    "prices": lambda: e1.with_prices(rows("e1"), market()),
    "tools": lambda: e1.tools(rows("peers")),
    "at best": lambda: e1.at_best(
        rows("rivals"), rows("e1"), market(), [("2x16", 25), ("4x32", 400)]
    ),
    "live": lambda: e1.live(rows("e1").where(size=25, network="2x16", seed=42)),
    "largest": lambda: e1.largest(rows("e1").where(size=500)),
    "stored": lambda: e1.stored([(row.method, row.key) for row in rows("e1")], rows("e1")),
    "met": lambda: e2.met(rows("e2")),
    "costs of E2": e2_costs,
    "kernels": lambda: e2.kernels(
        rows("e2"), {name: int(name.split("x")[0]) for name in E2_NETWORKS}
    ),
    "exact models of E2": lambda: e2.exact(list(rows("e2").where(method="bigm"))),
    "recipes": lambda: e2.recipes(
        rows("e2"), e2_figures.plain_names(rows("reacting").where(problem="water"))
    ),
    "sizes": lambda: e2.sizes(
        e2_figures.plain_names(rows("reacting").where(problem="water")),
        {"64x512": 16_552_961, "64x4096": 1_057_267_713},
    ),
    "reactions of E2": lambda: e2.reactions(
        rows("e2").where(device="cpu"), {("2x16", 42): (8.0, 3.0)}
    ),
    "methods of E3": lambda: e3.stored(rows("e3")),
    "one instance": lambda: e3.one_instance(rows("e3").where(size=20, seed=42)),
    "beside the exact model": lambda: e3.beside_exact(rows("e3").where(seed=42)),
    "twins": twin_seconds,
    "shares of E3": lambda: e3.shares({"dd": {20: [0.5, 0.7]}}, [20, 40]),
    "budgets": lambda: budgets.by_budget(rows("budgets"), (20, 128)),
    "budgets in raw units": lambda: budgets.in_deviations(
        list("abcdefghi"), [1.0, 20, 200, 1, 20, 20, 1, 5, 1]
    ),
    "accuracies": lambda: e4.accuracies(rows("e4"), 0.597, 0.024),
    "seconds of E4": lambda: e4.seconds(rows("e4").where(method="dd-paper", size=200)),
    "potable": lambda: e4.potable(rows("e4")),
    "live of E4": lambda: e4.live(
        list(rows("e4").where(network="fc", method="dd-paper", size=60)), {"fc": 0.7}
    ),
    "causes": lambda: e4.causes([("fc", 42, 60, 0.3, 0.8)], {("fc", 42): 0.7}, {("fc", 42): 1.0}),
    "costs of E5": lambda: e5.costs(rows("e5")),
    "moves": e5_moves,
    "care": lambda: e5.care(rows("e5").where(problem="site_care"), ("random", "dd", "bigm")),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_stored_rows_can_be_shown(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = TABLES[name]()
    assert len({len(column) for column in found.values()}) == 1
    assert all(len(column) for column in found.values())
    table(found, name)
    assert name in capsys.readouterr().out


def test_pairs_and_ratios_are_counted() -> None:
    exact = finished(
        "e1", "bigm", objective=10.0, untreated=5.0, incumbents=[[0.1, 5.0], [200.0, 10.0]]
    )
    ours = finished("e1", "dd", objective=12.0, untreated=5.0, incumbents=[[0.1, 5.0], [1.0, 11.0]])
    both = Results([exact, ours])
    assert e1.signs(both, "dd") == [1]
    assert e1.reached(both, "dd", exact.network) == "1 of 1"
    assert e1.reached_by_size(both, "dd", exact.network) == f"1 of 1 at $n = {exact.size}$"
    counted = e1.ratios(both, "dd")
    assert counted["median ratio"] == [200, 200]
    assert counted["never"] == [0, 0]


def test_a_run_without_a_point_counts_as_what_it_was_given() -> None:
    exact = finished("e1", "bigm", objective=None, untreated=None)
    ours = finished("e1", "dd", objective=5.0, untreated=5.0)
    assert e1.signs(Results([exact, ours]), "dd") == [0]


def test_an_exact_model_that_was_not_run_is_named_so() -> None:
    plain, crown = (
        finished("rivals", m, objective=14.0, bound=b)
        for m, b in (("bigm", 25.0), ("bigm-crown", 24.0))
    )
    ours = finished("e1", "dd", objective=21.0, untreated=7.0)
    cells = [(plain.network, plain.size)] * 3
    found = e1.at_best(Results([plain, crown]), Results([ours]), Results([]), cells)
    assert [column[0] for column in found.values()][1:] == [7, 14, 14, "not run", 24, 21, None]
    assert all(len(column) == 1 for column in found.values())


def test_recorded_passes_are_compared_with_single_kernels() -> None:
    rows_of = [
        {
            "network": "2x16",
            "device": device,
            "recorded": recorded,
            "nn_seconds": seconds,
            "dtype": "float32",
        }
        for device, recorded, seconds in (
            ("cuda", True, 0.01),
            ("cuda", False, 0.04),
            ("cpu", False, 0.02),
        )
    ]
    assert e2.recorded(rows_of)["recording gains, times"] == [4.0]


def test_seconds_of_a_size_are_split_and_one_core_may_be_missing() -> None:
    run = finished(
        "reacting",
        "dd-paper-float32",
        network="64x4096",
        seconds=10.0,
        seconds_nn=6.0,
        seconds_mip=1.0,
    )
    found = e2.sizes(Results([replace(run, device="cuda")]), {"64x4096": 5})
    assert [column[0] for column in found.values()] == ["64x4096", 5, None, 10.0, 6.0, 1.0, 3.0]


def test_recipes_stand_side_by_side() -> None:
    ours = finished(
        "e2", "dd-paper", objective=10.0, untreated=10.0, primal_residual=0.004, converged=False
    )
    react = replace(ours, objective=40.0, primal_residual=0.01)
    found = e2.recipes(
        Results([ours]), Results([react, replace(react, objective=60.0, method="prices")])
    )
    first = [column[0] for column in found.values()]
    assert first == ["2x16", "0 of 1", "4.0e-03", 0.0, "0 of 1", "1.0e-02", 30.0, 50.0]
    assert [column[1] for column in found.values()] == [
        "4x32",
        "0 of 0",
        None,
        None,
        "0 of 0",
        None,
        None,
        None,
    ]


def test_the_last_line_of_a_plot_has_seconds_of_the_clock_or_of_the_processor() -> None:
    runs = Results(
        [finished("e5", "dd", "trees", objective=2.0, untreated=1.0, seconds=9.0, cpu_seconds=3.0)]
    )
    clock, processor = (e5.care(runs, ["dd"], *taken) for taken in ((), ("cpu_seconds",)))
    assert [clock["instance"][-1], processor["instance"][-1]] == [
        "mean seconds",
        "mean processor, s",
    ]
    assert [column["Algorithm 1, our defaults"] for column in (clock, processor)] == [
        [2.0, 9.0],
        [2.0, 3.0],
    ]


def test_tables_of_trees_leave_out_networks_without_runs() -> None:
    run = finished(
        "e5", "dd", "trees", "16x64", seconds=4.0, seconds_mip=1.0, cpu_seconds=4.0, iterations=3
    )
    assert e5.costs(Results([run]))["in the MIP block"] == ["25%"]
    assert e5.reactions({("16x64", 42): np.array([0.5])}, {("16x64", 42): 2.0})["network"] == [
        "16x64"
    ]


def test_shares_are_of_the_best_run_of_any_method() -> None:
    ours = finished("e1", "dd-paper", objective=5.0, time_limit=300.0)
    best = finished("e1", "dd", objective=10.0, time_limit=300.0)
    ((share, known),) = e1.of_best(Results([ours, best]), Results([]))[ours.network]
    assert share == pytest.approx(0.5)
    assert known == (ours.size == 10)
    assert np.isfinite(share)


def test_what_a_point_spends_is_counted_for_each_feature_and_direction() -> None:
    moved = np.array([[0.5, -1.0], [0.5, 0.25]], dtype=np.float32)
    point = {"adjustments": encode(moved), "dtype": "float32"}
    row = finished("budgets", "prices", size=2, budget=2.0, objective=2.0, point=point)
    assert budgets.spent(row).tolist() == [0.5, 0.125, 0.0, 0.5]
    assert budgets.spent(row, np.array([[1.0, 1.0], [1.0, 4.0]])).tolist() == [1.0, 0.25, 0.0, 0.25]
    assert budgets.spent_mean(Results([row])) == pytest.approx(0.28)
    assert budgets.spent_mean(Results([finished("budgets", "ssg", objective=None)])) is None


def test_a_budget_binds_from_the_first_size_with_a_sample_left() -> None:
    def run(budget: float, size: int, objective: float, seed: int = 42) -> Row:
        return finished(
            "budgets",
            "prices",
            size=size,
            seed=seed,
            budget=budget,
            objective=objective,
            iterations=size,
        )

    stored = Results(
        [
            run(4.0, 20, 20),
            run(4.0, 40, 40),
            run(4.0, 40, 38, 123),
            run(8.0, 20, 20),
            run(8.0, 40, 40),
            finished(
                "budgets", "prices", problem="water_raw", size=20, objective=3.0, untreated=1.0
            ),
            finished("budgets", "dd", problem="water_raw", size=20, objective=2.0, untreated=1.0),
        ]
    )
    assert budgets.levels(stored) == [4.0, 8.0]
    assert budgets.binds_from(stored) == {4.0: 40, 8.0: None}
    assert budgets.rounds(stored, 4.0, (20, 40, 60)) == [20.0, 40.0, None]
    shown = budgets.by_budget(stored, (20, 40))
    assert shown["n = 40"] == [None, None, None, 0.97, None, None, None, 1.0]
    counts = budgets.raw_counts(stored)
    assert (counts["price coordination"], counts["untreated"], counts["SSG repaired"]) == (
        [3.0],
        [1.0],
        [None],
    )
    assert budgets.held_at(counts, 20)["price coordination"] == 3.0
    assert budgets.held_at(counts, 50) == {}


def test_a_variant_of_prices_is_compared_with_the_full_method_on_its_instance() -> None:
    def run(method: str, objective: float | None, seed: int = 42, rounds: int = 4) -> Row:
        return finished(
            "ablation",
            method,
            seed=seed,
            time_limit=60.0,
            objective=objective,
            iterations=rounds,
            seconds=2.0,
            trace={"incumbent": [10.0, objective]},
        )

    stored = Results(
        [
            run("prices", 20.0),
            run("prices-random", 10.0),
            run("prices-random", 30.0, 123),
            run("prices", 20.0, 456),
            run("prices-random", 20.0, 456, 8),
            run("prices-one-round", None, 456),
        ]
    )
    shown = prices.without(stored)
    place = shown["variant"].index(prices.VARIANTS["prices-random"])
    line = {name: column[place] for name, column in shown.items()}
    assert (line["instances"], line["objective, relative"], line["rounds, mean"]) == (2, 0.75, 6.0)
    assert (line["more"], line["equal"], line["fewer"]) == (0, 1, 1)
    assert shown["more"][:2] == [None, None], "nothing to compare with itself, nor without a point"
    assert shown["objective, relative"][1] is None
    ((count, row),) = prices.first_round(
        Results([run("prices", 20.0), finished("ablation", "prices")])
    )
    assert (count, row.objective) == (10.0, 20.0)

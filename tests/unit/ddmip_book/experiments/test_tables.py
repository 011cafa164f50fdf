"""The experiments' tables: what the stored rows say, in columns of one length, by hand where it can be counted."""

from __future__ import annotations

from collections.abc import Callable
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
    parts = [
        {d: e2_figures.by_network(e2_figures.decompositions(rows("e2"), d), f) for d in e2.DEVICES}
        for f in ("seconds_mip", "seconds_nn")
    ]
    return e2.costs(*parts)


def e5_moves() -> Columns:
    enumerated = rows("e5").where(problem="trees", method="enumeration", network="8x32")
    keys = [(row.network, row.seed) for row in enumerated]
    both = rows("e5").where(problem="trees", method=("dd-paper", "dd-barrier"))
    pairs = {key: list(both.where(network=key[0], seed=key[1])) for key in keys}
    gains = {(row.network, row.seed): (row.objective or 0) - (row.untreated or 0) for row in enumerated}
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
    "live": lambda: e1.live(rows("e1").where(size=25, network="2x16", seed=42)),
    "largest": lambda: e1.largest(rows("e1").where(size=500)),
    "stored": lambda: e1.stored([(row.method, row.key) for row in rows("e1")], rows("e1")),
    "met": lambda: e2.met(rows("e2")),
    "costs of E2": e2_costs,
    "kernels": lambda: e2.kernels(rows("e2"), {name: int(name.split("x")[0]) for name in E2_NETWORKS}),
    "exact models of E2": lambda: e2.exact(list(rows("e2").where(method="bigm"))),
    "reactions of E2": lambda: e2.reactions(rows("e2").where(device="cpu"), {("2x16", 42): (8.0, 3.0)}),
    "methods of E3": lambda: e3.stored(rows("e3")),
    "one instance": lambda: e3.one_instance(rows("e3").where(size=20, seed=42)),
    "beside the exact model": lambda: e3.beside_exact(rows("e3").where(seed=42)),
    "twins": lambda: e3.twin_seconds(*(Results([p[k] for p in e3_figures.twins(rows("e3"))]) for k in (0, 1))),
    "shares of E3": lambda: e3.shares({"dd": {20: [0.5, 0.7]}}, [20, 40]),
    "budgets": lambda: budgets.by_budget(rows("budgets"), (20, 128)),
    "budgets in raw units": lambda: budgets.in_deviations(list("abcdefghi"), [1.0, 20, 200, 1, 20, 20, 1, 5, 1]),
    "accuracies": lambda: e4.accuracies(rows("e4"), 0.597, 0.024),
    "seconds of E4": lambda: e4.seconds(rows("e4").where(method="dd-paper", size=200)),
    "potable": lambda: e4.potable(rows("e4")),
    "live of E4": lambda: e4.live(list(rows("e4").where(network="fc", method="dd-paper", size=60)), {"fc": 0.7}),
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
    exact = finished("e1", "bigm", objective=10.0, untreated=5.0, incumbents=[[0.1, 5.0], [200.0, 10.0]])
    ours = finished("e1", "dd", objective=12.0, untreated=5.0, incumbents=[[0.1, 5.0], [1.0, 11.0]])
    both = Results([exact, ours])
    assert e1.signs(both, "dd") == [1]
    assert e1.reached(both, "dd", exact.network) == "1 of 1"
    counted = e1.ratios(both, "dd")
    assert counted["median ratio"] == [200, 200]
    assert counted["never"] == [0, 0]


def test_a_run_without_a_point_counts_as_what_it_was_given() -> None:
    exact = finished("e1", "bigm", objective=None, untreated=None)
    ours = finished("e1", "dd", objective=5.0, untreated=5.0)
    assert e1.signs(Results([exact, ours]), "dd") == [0]


def test_recorded_passes_are_compared_with_single_kernels() -> None:
    rows_of = [
        {"network": "2x16", "device": device, "recorded": recorded, "nn_seconds": seconds, "dtype": "float32"}
        for device, recorded, seconds in (("cuda", True, 0.01), ("cuda", False, 0.04), ("cpu", False, 0.02))
    ]
    assert e2.recorded(rows_of)["recording gains, times"] == [4.0]


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
        return finished("budgets", "prices", size=size, seed=seed, budget=budget, objective=objective, iterations=size)

    stored = Results(
        [run(4.0, 20, 20), run(4.0, 40, 40), run(4.0, 40, 38, 123), run(8.0, 20, 20), run(8.0, 40, 40),
         finished("budgets", "prices", problem="water_raw", size=20, objective=3.0, untreated=1.0),
         finished("budgets", "dd", problem="water_raw", size=20, objective=2.0, untreated=1.0)]
    )  # fmt: skip
    assert budgets.levels(stored) == [4.0, 8.0]
    assert budgets.binds_from(stored) == {4.0: 40, 8.0: None}
    assert budgets.rounds(stored, 4.0, (20, 40, 60)) == [20.0, 40.0, None]
    shown = budgets.by_budget(stored, (20, 40))
    assert shown["n = 40"] == [None, None, None, 0.97, None, None, None, 1.0]
    counts = budgets.raw_counts(stored)
    assert (counts["price coordination"], counts["untreated"], counts["SSG repaired"]) == ([3.0], [1.0], [None])
    assert budgets.held_at(counts, 20)["price coordination"] == 3.0
    assert budgets.held_at(counts, 50) == {}


def test_a_variant_of_prices_is_compared_with_the_full_method_on_its_instance() -> None:
    def run(method: str, objective: float | None, seed: int = 42, rounds: int = 4) -> Row:
        return finished("ablation", method, seed=seed, time_limit=60.0, objective=objective, iterations=rounds,
                        seconds=2.0, trace={"incumbent": [10.0, objective]})  # fmt: skip

    stored = Results(
        [run("prices", 20.0), run("prices-random", 10.0), run("prices-random", 30.0, 123), run("prices", 20.0, 456),
         run("prices-random", 20.0, 456, 8), run("prices-one-round", None, 456)]
    )  # fmt: skip
    shown = prices.without(stored)
    place = shown["variant"].index(prices.PARTS["prices-random"])
    line = {name: column[place] for name, column in shown.items()}
    assert (line["instances"], line["objective, relative"], line["rounds, mean"]) == (2, 0.75, 6.0)
    assert (line["more"], line["as many"], line["fewer"]) == (0, 1, 1)
    assert shown["more"][:2] == [None, None], "nothing to compare with itself, nor without a point"
    assert shown["objective, relative"][1] is None
    ((count, row),) = prices.first_round(Results([run("prices", 20.0), finished("ablation", "prices")]))
    assert (count, row.objective) == (10.0, 20.0)

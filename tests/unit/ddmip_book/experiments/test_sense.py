"""Budget and sense of a row: in its key, in the problem that it is built into, and wherever two
values are compared.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ddmip_book.experiments import Case, Row, same_objective_ratio, time_to
from ddmip_book.experiments.execute import build, run_case
from ddmip_book.experiments.verify import beaten_bounds, verify_row
from ddmip_book.figures.e3 import best_by_instance
from ddmip_book.networks import load_npz
from tests.builders.places import NETWORKS

WATER = Case("tiny", "water", "2x16", 4, 42, "dd-paper", 20.0)
COSTS = replace(Case("tiny", "trees", "2x16", 3, 42, "dd", 20.0), sense="minimise")


def row(case: Case, **fields: object) -> Row:
    return Row(key=case.key, **case.setting(), status="converged", **fields)  # type: ignore[arg-type]


def test_usual_values_are_not_in_the_key_and_others_are() -> None:
    assert WATER.budget == 2.0
    assert WATER.key == replace(WATER, budget=2.0).key == "tiny/water/2x16/4/42/dd-paper/20s/cpu"
    assert replace(WATER, budget=0.5).key == WATER.key + "/budget0.5"
    assert replace(WATER, budget=0.5, sense="minimise").key == WATER.key + "/budget0.5/minimise"
    assert COSTS.budget is None
    assert COSTS.key == "tiny/trees/2x16/3/42/dd/20s/cpu/minimise"


def test_a_budget_without_use_and_an_unknown_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="trees has none"):
        replace(COSTS, budget=1.0)
    with pytest.raises(ValueError, match="maximise, minimise"):
        replace(WATER, sense="max")


def test_budget_and_sense_survive_the_file() -> None:
    for case in (WATER, replace(WATER, budget=3.0), COSTS):
        found = Row.parse(row(case).line())
        assert (found.case, found.budget, found.sense) == (case, case.budget, case.sense)


def test_the_problem_has_the_budget_of_its_case() -> None:
    net = load_npz(NETWORKS / "water_2x16.npz")
    for budget in (2.0, 0.5):
        problem = build(replace(WATER, budget=budget), [net])
        assert {
            v.getUbOriginal() for v in problem.model.getVars() if v.name.startswith(("a", "b"))
        } == {budget}


def test_a_case_with_the_wrong_sense_is_not_built() -> None:
    with pytest.raises(ValueError, match="does the opposite"):
        build(replace(WATER, sense="minimise"), [load_npz(NETWORKS / "water_2x16.npz")])


def test_a_point_is_checked_against_its_own_budget(tmp_path: Path) -> None:
    rich = run_case(replace(WATER, budget=3.0), tmp_path)
    assert verify_row(rich, tmp_path) is None
    assert "of a budget of 0.5" in str(verify_row(replace(rich, budget=0.5), tmp_path))


def test_the_smaller_objective_is_reached_later_when_minimising() -> None:
    falling = row(
        COSTS, objective=1.0, untreated=5.0, incumbents=[[1.0, 5.0], [2.0, 3.0], [8.0, 1.0]]
    )
    assert [time_to(falling, value) for value in (6.0, 3.0, 1.0, 0.5)] == [
        1.0,
        2.0,
        8.0,
        float("inf"),
    ]
    faster = replace(falling, incumbents=[[0.5, 5.0], [2.0, 0.0]])
    assert same_objective_ratio(falling, faster) == 4.0
    assert same_objective_ratio(replace(falling, objective=5.0), faster) is None


def test_a_bound_is_beaten_from_its_own_side() -> None:
    held = row(COSTS, objective=1.0)
    bounds = {"fits": 0.5, "equal": 1.0, "too high": 1.5}
    rows = [replace(held, key=name, objective=None, bound=bound) for name, bound in bounds.items()]
    assert set(beaten_bounds([held, *rows])) == {"too high"}
    assert "above" in beaten_bounds([held, *rows])["too high"]
    assert "above" in str(verify_row(replace(held, bound=1.5), Path()))
    larger = [replace(each, sense="maximise") for each in (held, *rows)]
    assert set(beaten_bounds(larger)) == {"fits"}


def test_other_budgets_are_other_instances() -> None:
    poor, rich = (
        row(replace(WATER, budget=budget), objective=value)
        for budget, value in ((1.0, 2.0), (3.0, 4.0))
    )
    assert beaten_bounds([rich, replace(poor, bound=2.0)]) == {}
    assert sorted(best_by_instance([rich, poor]).values()) == [2.0, 4.0]


def test_the_best_objective_follows_the_sense() -> None:
    values = [row(COSTS, objective=value) for value in (3.0, 1.0, 2.0)]
    assert list(best_by_instance(values).values()) == [1.0]
    assert list(
        best_by_instance([replace(each, sense="maximise") for each in values]).values()
    ) == [3.0]

"""An exact model that starts from our point, and price coordination by chance."""

from __future__ import annotations

import numpy as np
import pytest

from ddmip_book.experiments.methods import METHODS, solver_of
from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import BigM, NeuralMIP, PriceCoordination
from ddmip_lib.model.predictor import LOGIT_MARGIN
from experiments.ablation import RandomOptions
from experiments.started import Started
from tests.builders.clocks import LONG


def problem(n: int) -> NeuralMIP:
    return water_potability(n=n, net=mlp(2, 16, 9, seed=1), budget=0.5)


@pytest.mark.long
def test_a_started_model_is_never_below_its_start_and_counts_all_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = list[np.ndarray]()
    solve = BigM.solve
    monkeypatch.setattr(
        BigM, "solve", lambda solver, *rest: given.extend(solver.start) or solve(solver, *rest)
    )
    solution = Started(BigM(check=False)).solve(problem(6), time_limit=LONG, seed=1)
    logits = problem(6).predictors[0].raw(given[0])
    assert int((logits > LOGIT_MARGIN).sum()) == solution.details["start_objective"] > 0, (
        "the model counts all of them"
    )
    assert solution.objective >= solution.details["start_objective"]
    assert problem(6).verify(solution).feasible
    assert solution.seconds >= solution.details["start_seconds"] > 0
    assert all(
        seconds >= solution.details["start_seconds"]
        for seconds, _ in solution.details["incumbents"]
    )
    assert solution.method.endswith("started")


def test_random_options_are_feasible_and_the_slopes_find_more() -> None:
    by_chance, by_slopes = (
        solver.solve(problem(20), seed=1) for solver in (RandomOptions(), PriceCoordination())
    )
    assert problem(20).verify(by_chance).feasible
    assert by_chance.objective < by_slopes.objective
    again = RandomOptions().solve(problem(20), seed=1)
    assert np.array_equal(by_chance.values, again.values)


def test_each_variant_lacks_what_its_name_says() -> None:
    made = {name: solver_of(name) for name in METHODS if name.startswith("prices")}
    assert {name: (s.max_rounds, s.smoothing, s.choices) for name, s in made.items()} == {
        "prices": (30, 0.5, 4),
        "prices-one-round": (1, 0.5, 1),
        "prices-no-smoothing": (30, 0.0, 4),
        "prices-no-scarcity": (30, 0.5, 1),
        "prices-random": (30, 0.5, 4),
    }
    assert len(made["prices-one-round"].solve(problem(20)).history) == 1

"""Descents by tangents: what is proved of them holds in every try, and the examples end where the
chapter says.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from ddmip_book.examples.linearise import (
    NOTHING,
    Descent,
    Formula,
    blocked,
    descend,
    flat_row,
    folds,
    minimise,
    ridge,
    switching,
    tempting,
    undecided,
    wave,
)
from ddmip_book.examples.linearise_models import best_of_grid, dials, drawn, models, target
from ddmip_lib import BigM, Enumeration
from ddmip_lib.linearisation import ElasticModel, linearise
from tests.builders.clocks import LONG

torch.set_num_threads(1)


def descents() -> list[tuple[Descent, float]]:
    """On smooth and kinked networks, with and without whole inputs and rows on outputs; with their
    prices.
    """
    found = []
    for seed, (activation, whole, least) in enumerate(
        itertools.product((nn.Tanh(), nn.ReLU()), ((), (0, 1)), (None, 0.3))
    ):
        net = drawn(3, 6, activation, seed=seed)
        problem = minimise(net, [-2] * 3, [2] * 3, whole=whole, cost=[0.2, -0.1, 0.3], least=least)
        run = descend(problem, [1.0, -1.0, 0.5])
        found.append((run, 10.0 * run.elastic.objective_unit))
    return found


def test_the_merit_is_as_far_from_the_model_as_a_network_from_its_line() -> None:
    for run, price in descents():
        for step in run.tried:
            line = linearise(run.elastic.instance, step.point.values)
            said = np.concatenate(
                [raw.ravel() for raw in run.elastic.instance.raw_outputs(step.new.values)]
            )
            error = np.abs(said - line.offset - line.jacobian @ step.new.values) / run.elastic.units
            assert (
                abs(step.new.merit(price) - step.aim.merit(price))
                <= price * error.sum() + 1e-6 * price
            )


def test_steps_keep_their_promise_and_failures_are_few() -> None:
    for run, price in descents():
        merits = [step.point.merit(price) for step in run.tried] + [run.point.merit(price)]
        assert all(later <= earlier for earlier, later in itertools.pairwise(merits))
        assert all(step.decrease >= 0.05 * step.predicted for step in run.tried if step.taken)
        taken = [step.taken for step in run.tried]
        failures = [len(list(group)) for kind, group in itertools.groupby(taken) if not kind]
        assert max(failures, default=0) <= 11


@pytest.mark.parametrize("seed", range(4))
def test_the_end_of_a_smooth_descent_is_nearly_stationary(seed: int) -> None:
    problem = minimise(drawn(3, 6, nn.Tanh(), seed=seed), [-1] * 3, [1] * 3, cost=0.1)
    run = descend(problem, [0.3, -0.2, 0.5])
    line = linearise(run.elastic.instance, run.point.values)
    price = 10.0 * run.elastic.objective_unit
    everywhere = run.elastic.step(run.point.values, line, 1.0, price, 60.0)
    promised = run.point.merit(price) - everywhere.merit(price)
    worth = max(run.elastic.objective_unit, abs(run.point.cost))
    assert (
        promised
        <= (NOTHING * worth / run.radius if run.ended == "nothing predicted" else 1e-3 * price)
        + 1e-6
    )


def test_whole_inputs_keep_two_moves_at_the_smallest_radius() -> None:
    elastic = ElasticModel(
        minimise(Formula(lambda *x: sum(x)), [0] * 3, [4] * 3, whole=range(3)).instance()
    )
    here = np.full(4, 2.0)
    aim = elastic.step(here, linearise(elastic.instance, here), 2e-5, 100.0, 10.0)
    assert np.abs(aim.values - here)[elastic.inputs].tolist().count(1.0) == 2
    assert aim.values[elastic.inputs].sum() == 4.0


def test_above_a_threshold_the_merit_of_whole_inputs_is_exact() -> None:
    """Listing all points: the best merit at a high price is the best feasible value, at a low one
    it need not be.
    """
    net = drawn(2, 6, nn.Tanh(), seed=1)
    grid = torch.tensor(list(itertools.product(range(6), repeat=2)), dtype=torch.float64)
    least = float(net(grid[grid.sum(1) >= 3]).detach().max()) - 1e-3  # far from the origin
    problem = minimise(net, [0, 0], [5, 5], whole=(0, 1), cost=1.0, least=least)
    elastic = ElasticModel(problem.instance())
    points = [elastic.instance.assignment([x.numpy()[None]], 0.0) for x in grid]
    best = best_of_grid(problem)

    def least_merit(price: float) -> float:
        return min(elastic.complete(v, price, 10.0).merit(price) for v in points)

    high = least_merit(1e6)
    low = least_merit(1e-3)
    assert best is not None
    assert high == pytest.approx(best)
    assert low < best - 0.1


def test_a_kink_ends_a_descent_where_nothing_is_stationary() -> None:
    run = descend(ridge(), [0.9, 0.65])
    assert run.ended == "small radius"
    np.testing.assert_allclose(run.path.sum(axis=1), 1.55, atol=1e-7)
    assert run.point.cost == pytest.approx(1.55, abs=1e-3)


def test_only_the_first_choice_is_tried() -> None:
    run = descend(tempting(), [0, 0])
    assert run.inputs.tolist() == [0, 0]
    assert all(step.aim.values[run.elastic.inputs].tolist() == [1, 1] for step in run.tried)
    assert best_of_grid(tempting()) == pytest.approx(-1.0)


def test_a_whole_number_blocks_until_it_is_held() -> None:
    plain, held = (descend(blocked(3), np.zeros(4), held=held) for held in (False, True))
    assert not any(step.taken for step in plain.tried)
    assert plain.point.cost == 0.0
    assert held.point.cost == pytest.approx(-3.0)


def test_a_price_below_the_threshold_leaves_a_misfit() -> None:
    threshold = 1 / (6 * (1 - 0.99**2))
    below, above = (
        descend(flat_row(0.99), [0.5], price=share * threshold).point.infeasibility
        for share in (0.8, 1.25)
    )
    assert below > 1e-4
    assert above == pytest.approx(0.0, abs=1e-7)


def test_two_valleys() -> None:
    assert descend(wave(), [0.05]).point.cost > descend(wave(), [0.5]).point.cost + 0.4


def test_a_start_outside_the_rows_is_refused() -> None:
    problem = minimise(Formula(lambda x: x), [0.0], [1.0])
    problem.model.addCons(problem.predictors[0].inputs[0, 0] >= 0.5)
    with pytest.raises(ValueError, match="no completion"):
        descend(problem, [0.2])


@pytest.mark.parametrize("radius", [0.02, 0.2, 1.0])
def test_no_unit_switches_that_is_called_stable(radius: float) -> None:
    problem = dials(2, 16, 5)
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 5)
    values = problem.instance().assignment([x[None]], rest=0.0)
    draws = np.clip(x + 2 * radius * rng.uniform(-1, 1, (500, 5)), -1, 1)
    assert switching(problem.predictors[0].net, draws) <= undecided(problem, values, radius)
    with pytest.raises(ValueError, match="ReLU"):
        undecided(target(), np.zeros(4), 0.1)


def test_models_and_their_best_values() -> None:
    assert list(models()) == ["greenhouses", "recipe", "target", "folds", "blocked"]
    assert BigM().solve(folds(), time_limit=LONG).objective == pytest.approx(0.5, abs=1e-6)
    whole = minimise(drawn(3, 8, nn.ReLU(), seed=4), [-2] * 3, [2] * 3, whole=range(3))
    assert Enumeration(max_values=125).solve(whole, time_limit=LONG).objective == pytest.approx(
        best_of_grid(whole)
    )
    assert best_of_grid(target(), 5) is None

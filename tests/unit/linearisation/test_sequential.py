"""Sequential linearisation: answers against enumeration, networks of every kind, boxes in which
nothing is better.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import SequentialMIP
from ddmip_lib.errors import ProblemError
from ddmip_lib.linearisation import local_bound, sequential
from ddmip_lib.linearisation.sequential import (
    EXACT_COST_GROWTH,
    MAX_EXACT_COST_FACTOR,
    MIN_EXACT_COST_FACTOR,
    MultistartState,
)
from ddmip_lib.methods import start_run
from ddmip_lib.predictors import black_box
from experiments.suite.members import build_model
from tests.builders.clocks import LONG
from tests.builders.instances import build, lattice, relu_net, tiny

torch.set_num_threads(1)


def distance(instance, solution):
    best = instance.optimum()
    return abs(solution.objective - best) / max(1.0, abs(best))


@pytest.mark.parametrize("neighbourhoods", [True, False])
def test_random_problems_come_close_to_enumeration(neighbourhoods):
    near = 0
    for seed in range(8):
        instance = tiny(seed)
        solution = SequentialMIP(max_failed_starts=20, neighbourhoods=neighbourhoods).solve(
            instance.problem, time_limit=LONG, seed=seed
        )
        if instance.optimum() is None:
            assert not solution.found
            continue
        assert instance.problem.verify(solution).feasible
        assert instance.sign * solution.objective >= instance.sign * instance.optimum() - 1e-6
        near += distance(instance, solution) < 1e-6
    assert near >= (7 if neighbourhoods else 5)


@pytest.mark.parametrize("act", [nn.Tanh, nn.GELU, nn.SiLU, nn.ReLU, nn.Softplus])
def test_any_network_with_slopes(act):
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(2, 6), act(), nn.LayerNorm(6), nn.Linear(6, 1)).double().eval()
    built = build(net, 2, low=-2.0, high=2.0)
    solution = SequentialMIP(max_failed_starts=8).solve(built.problem, time_limit=LONG)
    grid = np.stack(np.meshgrid(*2 * [np.linspace(-2, 2, 81)]), -1).reshape(-1, 2)
    assert built.problem.verify(solution).feasible
    assert solution.objective <= built.problem.predictors[0].raw(grid).min() + 1e-3


def test_black_boxes_have_sampled_slopes():
    bowl = black_box(lambda x: ((x - 0.3) ** 2).sum(axis=1, keepdims=True), n_outputs=1)
    built = build(nn.Sequential(bowl, nn.Linear(1, 1)).double().eval(), 2, sense="maximize")
    solution = SequentialMIP(max_failed_starts=4).solve(built.problem, time_limit=LONG)
    corners = built.problem.predictors[0].raw(lattice(0, 1, 2))
    inside = built.problem.predictors[0].raw(np.full((1, 2), 0.3))
    assert solution.objective >= max(corners.max(), inside.max()) - 1e-3


def test_rows_on_outputs_are_met():
    """An equation on an output: no point of the linear models fits at once."""
    torch.manual_seed(1)
    built = build(
        nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)).double().eval(),
        3,
        cost=np.ones(3),
    )
    said = built.problem.predictors[0].raw(np.array([[0.5, 0.2, 0.7]])).item()
    built.model.addCons(built.y[0, 0] == said)
    solution = SequentialMIP(max_failed_starts=5).solve(built.problem, time_limit=LONG)
    assert solution.objective <= said + 1.4 + 1e-6


def test_the_same_seed_gives_the_same_answer_and_another_may_not():
    problem = build(relu_net(4, width=12, seed=5), 4, vtype="I", low=-3, high=3).problem
    first, again = (
        SequentialMIP(max_failed_starts=3).solve(problem, LONG, seed=1) for _ in range(2)
    )
    np.testing.assert_array_equal(first.values, again.values)
    assert {k: v for k, v in first.details.items() if k != "incumbents"} == {
        k: v for k, v in again.details.items() if k != "incumbents"
    }


def test_water_without_a_word_about_blocks():
    problem = water_potability(n=10, net=mlp(2, 16, 9, seed=1), seed=42)
    problem.blocks = None
    solution = SequentialMIP(max_failed_starts=2, neighbourhoods=False).solve(
        problem, time_limit=LONG, seed=42
    )
    untreated = problem.predictors[0].predict(problem.start[0]).sum()
    assert problem.verify(solution).feasible
    assert solution.objective > untreated


def test_a_box_that_closes_is_no_idle_turn():
    """Six idle turns are over before boxes have grown to the whole one; each of them that closes is
    progress.
    """
    solution = SequentialMIP(max_failed_starts=6).solve(tiny(0).problem, time_limit=LONG)
    assert solution.details["explored_radius"] == 1.0
    assert (
        solution.details["starts"]
        < 6
        < solution.details["starts"] + solution.details["exact_models"]
    )


def looking(problem, around: float) -> MultistartState:
    """A run that begins at the best point of another one, with a box of this radius."""
    problem.set_start(SequentialMIP(max_failed_starts=3).solve(problem, time_limit=LONG))
    begun = start_run(problem, 300, 0)
    run = MultistartState(SequentialMIP(), begun, begun.incumbent())
    run.box_radius = around
    return run


def test_exact_models_in_vain_become_rarer(monkeypatch):
    monkeypatch.setattr(sequential, "EXACT_MODEL_NODES", 1)  # too few for this box
    run = looking(build(relu_net(8, width=24, seed=1), 8, low=-1.0, high=1.0).problem, around=0.5)
    best = run.incumbent.objective
    paid = []
    for _ in range(5):
        before = run.work
        run.box_radius = 0.5  # the same box again
        run.explore_neighbourhood()
        paid.append(run.work - before)
    assert run.incumbent.objective == pytest.approx(best, rel=1e-6)
    assert run.explored_radius == 0.0
    assert paid[2] == pytest.approx(EXACT_COST_GROWTH * paid[1])
    assert run.exact_cost_factor == MAX_EXACT_COST_FACTOR


def test_a_box_that_closes_or_finds_a_better_point_makes_the_next_no_dearer():
    run = looking(build(relu_net(3, width=10, seed=2), 3, low=-1.0, high=1.0).problem, around=0.1)
    while run.explored_radius < 1.0 and run.exact_models < 20:
        run.exact_cost_factor = MAX_EXACT_COST_FACTOR
        best = run.incumbent.objective
        closed = run.explored_radius
        run.explore_neighbourhood()
        assert run.incumbent.objective < best or run.explored_radius > closed
        assert run.exact_cost_factor == MIN_EXACT_COST_FACTOR
    assert run.explored_radius == 1.0


def test_a_bound_for_a_box():
    built = build(relu_net(3, width=10, seed=2), 3, low=-1.0, high=1.0)
    solution = SequentialMIP().solve(built.problem, time_limit=LONG)
    local = local_bound(built.problem, solution, radius=0.2, time_limit=LONG)
    assert local.closed
    assert local.gap <= 1e-4
    draws = local.lower + (local.upper - local.lower) * np.random.default_rng(0).random((20_000, 3))
    assert built.problem.predictors[0].raw(draws).min() >= local.bound - 1e-9
    assert built.problem.verify(local.point).objective == pytest.approx(local.objective)


def test_a_box_has_no_bound_without_an_exact_model():
    tanh = build(
        nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double().eval(), 3
    ).problem
    solution = SequentialMIP(max_failed_starts=1).solve(tanh)
    with pytest.raises(ProblemError, match="ReLU"):
        local_bound(tanh, solution, 0.1)


def test_settings_that_make_no_sense():
    with pytest.raises(ValueError, match="radius"):
        SequentialMIP(radius=0.0)
    with pytest.raises(ValueError, match="max_failed_starts"):
        SequentialMIP(max_failed_starts=0)


def test_a_descent_does_not_crawl_along_a_kink():
    """With the radius kept where steps fall short, one descent here took thousands of tiny
    steps.
    """
    sites = build_model("sites")
    patient = SequentialMIP(
        neighbourhoods=False, max_failed_starts=3, callback=lambda moment: moment.iteration > 1_000
    )
    assert patient.solve(sites, time_limit=LONG, seed=42).status == "converged"

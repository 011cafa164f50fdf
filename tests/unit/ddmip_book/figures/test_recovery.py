"""Recovery: pulled-back options, the choice among them, and the figures, say what the points and
rows say.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from ddmip_book.examples.recovery import (
    best_choice,
    plane_network,
    plane_problem,
    visit_spread,
    visited_options,
)
from ddmip_book.experiments import Results, Row
from ddmip_book.experiments.grids import E1_SIZES
from ddmip_book.figures import recovery as figures
from ddmip_book.networks import mlp
from ddmip_lib import NeuralMIP
from tests.builders.networks import linear
from tests.builders.rows import finished

torch.set_num_threads(1)


def scene(seed: int, n: int = 5, visits: int = 4, p: int = 3) -> tuple[NeuralMIP, list[np.ndarray]]:
    """A random network, random samples below its median logit, random visited points."""
    random = np.random.default_rng(seed)
    net = mlp(2, 8, p, seed=seed).double()
    w = random.normal(size=(n, p))
    with torch.no_grad():
        net[-1].bias -= net(torch.from_numpy(w)).quantile(0.8)
    problem = plane_problem(net.eval(), w, budget=2.0)
    return problem, [w + random.uniform(-1, 1, size=w.shape) for _ in range(visits)]


def logits(problem: NeuralMIP, u: np.ndarray) -> np.ndarray:
    return problem.predictors[0].raw(u)[:, 0]


@pytest.mark.parametrize("seed", range(12))
def test_pulling_back_keeps_the_class_and_raises_no_use(seed: int) -> None:
    """The lemma: f stays positive, use grows in no component, and f is as small as the halvings
    make it.
    """
    problem, points = scene(seed)
    plain, short = (visited_options(problem, points, pulled) for pulled in (False, True))
    np.testing.assert_array_equal(plain.origin, short.origin)
    if not len(plain.pool):
        return
    assert (logits(problem, short.pool.u) > 0).all()
    assert (short.pool.use <= plain.pool.use + 1e-12).all()
    w = short.pool.blocks.base[short.pool.at]
    below = logits(problem, w) < 1e-6
    box = 2.0 * np.sqrt(w.shape[1])
    layers = [
        layer for layer in problem.predictors[0].net.modules() if isinstance(layer, nn.Linear)
    ]
    lipschitz = np.prod([torch.linalg.matrix_norm(layer.weight, 2).item() for layer in layers])
    assert (logits(problem, short.pool.u)[below] <= 1e-6 + 2.0**-14 * lipschitz * box).all()


def test_some_of_these_scenes_have_something_to_pull() -> None:
    found = [visited_options(*scene(seed)).pool.use.sum() for seed in range(12)]
    plain = [visited_options(*scene(seed), pulled=False).pool.use.sum() for seed in range(12)]
    assert sum(found) < 0.8 * sum(plain)


@pytest.mark.parametrize("seed", range(6))
def test_the_choice_is_at_least_every_feasible_visit_and_at_most_its_limits(seed: int) -> None:
    problem, points = scene(seed)
    pools = {pulled: visited_options(problem, points, pulled).pool for pulled in (False, True)}
    w = pools[True].blocks.base
    capacities = pools[True].blocks.capacities
    values = {pulled: len(best_choice(problem, pool)) for pulled, pool in pools.items()}
    for point in points:
        use = np.concatenate(
            [np.maximum(point - w, 0).sum(axis=0), np.maximum(w - point, 0).sum(axis=0)]
        )
        if (use <= capacities).all():
            assert values[True] >= values[False] >= (logits(problem, point) > 0).sum()
    assert values[True] >= values[False]
    assert values[True] <= len(np.unique(pools[True].block))
    assert values[True] <= pools[True].prices().value + 1e-6
    picks = best_choice(problem, pools[True])
    assert (pools[True].use[picks].sum(axis=0) <= capacities + 1e-6).all()
    assert len(np.unique(pools[True].block[picks])) == len(picks)


def test_options_know_where_they_come_from_and_the_first_of_equals_is_taken() -> None:
    problem = plane_problem(plane_network(), np.zeros((2, 2)), budget=2.0)
    far = np.array([[1.5, 1.5], [0.0, 0.0]])
    near = np.zeros((2, 2))
    visits = visited_options(problem, [near, far, far])
    assert visits.origin.tolist() == [1, 2]
    assert visits.pool.block.tolist() == [0, 0]
    assert best_choice(problem, visits.pool).tolist() == [0]
    assert best_choice(problem, visited_options(problem, [near]).pool).tolist() == []


def test_options_that_differ_by_rounding_are_chosen_once() -> None:
    problem = plane_problem(plane_network(), np.zeros((4, 2)), budget=3.0)
    random = np.random.default_rng(0)
    points = [1.2 + 1e-7 * random.random((4, 2)) for _ in range(6)] + [
        random.random((4, 2)) + 0.4 for _ in range(6)
    ]
    visits = visited_options(problem, points)
    picks = best_choice(problem, visits.pool)
    assert len(picks) >= 3
    assert len(np.unique(visits.pool.block[picks])) == len(picks)
    assert (visits.pool.use[picks].sum(axis=0) <= visits.pool.blocks.capacities + 1e-6).all()


def test_spread_counts_all_coordinates() -> None:
    assert visit_spread([np.zeros((3, 2)), np.full((3, 2), 4.0)]) == 4.0
    assert visit_spread([np.ones((3, 2))] * 5) == 0.0


def test_the_plane_shows_paths_options_and_choice() -> None:
    problem = plane_problem(plane_network(), np.zeros((2, 2)), budget=2.0)
    path = [np.full((2, 2), 0.5), np.full((2, 2), 1.5)]
    visits = visited_options(problem, path)
    (axes,) = figures.plot_plane(problem, {"one": (path, visits, np.array([0]))}).axes
    drawn = {str(line.get_label()): np.asarray(line.get_xydata()) for line in axes.lines}
    np.testing.assert_allclose(drawn["path of $u$"], [[0.0, 0.0], [0.5, 0.5], [1.5, 1.5]])
    assert len(drawn["after boundary search"]) == len(visits.pool)
    assert len(drawn["selected"]) == 1


def test_origins_are_counted_in_the_title() -> None:
    axes = figures.plot_origins({"weak": (np.array([0, 3, 4]), np.array([2, 2, 7]))}, 8, 5).axes[0]
    assert axes.get_title() == "weak: 3 selected, from 2 iterations"


def row(method: str, objective: float, seconds: float = 4.0, seed: int = 42) -> Row:
    experiment = "e6" if "recover" in method else "e1"
    trace = {"k": [1.0, 2.0], "seconds": [1.0, 3.0]}
    return finished(
        experiment, method, seed=seed, objective=objective, seconds=seconds, trace=trace
    )


def test_gains_are_over_pairs_on_the_same_instance() -> None:
    e1 = Results([row("dd", 20.0), row("dd", 30.0, seed=123), row("dd-paper", 18.0)])
    e6 = Results(
        [row("dd-recover", 27.0), row("dd-recover", 31.0, seed=456), row("dd-paper-recover", 18.0)]
    )
    ((plain, recovered),) = figures.recovery_pairs(e1, e6, "dd")
    assert (plain.objective, recovered.objective) == (20.0, 27.0)
    assert figures.recovery_share(recovered) == pytest.approx(0.25)
    words = []
    for axes in figures.plot_gains(e1, e6).axes:
        words.append([text.get_text() for text in axes.texts])
    assert [panel[E1_SIZES.index(50)] for panel in words] == ["0.36", "0.54", "0", "7"]
    assert [panel.count("–") for panel in words] == [19] * 4


def test_penalties_draw_every_column() -> None:
    above, below = figures.plot_penalties(
        [0.1, 1.0], {"last": [1, 2], "best": [2, 3]}, [0.5, 0.1]
    ).axes
    assert [line.get_label() for line in above.lines] == ["last", "best"]
    np.testing.assert_allclose(np.asarray(below.lines[0].get_ydata()), [0.5, 0.1])


def test_a_linear_logit_in_one_dimension_is_pulled_to_its_root() -> None:
    problem = plane_problem(linear(2.0, bias=-1.0), np.zeros((1, 1)), budget=2.0)
    assert visited_options(problem, [np.array([[1.7]])]).pool.u[0, 0] == pytest.approx(
        0.5, abs=2e-4
    )

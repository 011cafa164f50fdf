"""The suite: its models, the check beside the library's, its rivals, and what its rows are
read as.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ddmip_book.experiments import Case, Row, grid, load
from ddmip_book.experiments import suite as analysis
from ddmip_book.experiments.case import SUITE as PROBLEM
from ddmip_book.experiments.grids import BOXES, E7_FIXED, E7_RANDOM, E7_WALKS, MINIMISED
from ddmip_book.experiments.grids import MODELS as SIZES
from ddmip_book.experiments.verify import verify_row
from ddmip_book.figures import e7 as figures
from ddmip_lib import BigM
from ddmip_lib.clock import using
from ddmip_lib.errors import ProblemError
from ddmip_lib.problems import hand_sized
from experiments.suite.families import box, knapsack
from experiments.suite.looks import features, forward, own_check
from experiments.suite.members import MODELS
from experiments.suite.regions import Regions
from experiments.suite.rivals import GradientWalk, RandomPoints, RelaxAndWalk
from experiments.worker import run_case
from tests.builders.clocks import LONG, Ticking
from tests.builders.rows import finished

# models


def test_there_are_enough_models_and_every_method_meets_each() -> None:
    cases = grid("e7")
    assert list(MODELS) == list(SIZES)
    for method in (*E7_RANDOM, *E7_FIXED):
        own = [case for case in cases if case.method == method]
        assert {case.network for case in own} == set(MODELS)
        assert len(own) == len(MODELS) * (3 if method in E7_RANDOM else 1)
    assert {case.network for case in cases if case.method in E7_WALKS} == set(BOXES)
    assert {case.time_limit for case in cases} == {20.0}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_what_the_table_says_and_its_networks_react(name: str) -> None:
    problem = MODELS[name]()
    found = features(problem)
    assert found["inputs"] == SIZES[name]
    sense = "minimize" if name in MINIMISED else "maximize"
    assert problem.model.getObjectiveSense() == sense
    assert (name in BOXES) == (found["rows"] == 0 and found["activations"] == ["ReLU"])
    assert found["activations"]
    instance = problem.instance()
    rng = np.random.default_rng(0)
    s = instance.milp
    for predictor, where in zip(problem.predictors, instance.maps, strict=True):
        low = where.at(s.lower)
        high = where.at(s.upper)
        draws = np.concatenate([low + (high - low) * rng.random(low.shape) for _ in range(40)])
        said = predictor.raw(draws)
        assert said.std(axis=0).min() > 0.02 * max(1.0, np.abs(said).mean()), (
            "the network is nearly constant"
        )
        np.testing.assert_allclose(
            forward(predictor.net, draws), said, atol=1e-9 * max(1.0, np.abs(said).max())
        )


@pytest.mark.parametrize("name", ["blend", "city", "approvals", "units", "sequence"])
def test_points_pass_both_checks_and_changed_ones_fail(name: str) -> None:
    problem = MODELS[name]()
    solution = RandomPoints(most=40).solve(problem, time_limit=LONG)
    assert solution.values is not None
    own = own_check(problem, solution.values)
    assert own == pytest.approx(solution.objective, rel=1e-9)
    output = problem.instance().outputs[0]
    wrong = solution.values.copy()
    wrong[output] = (
        1 - wrong[output]
        if name == "approvals"
        else wrong[output] + 0.01 * max(1.0, abs(wrong[output]))
    )
    assert isinstance(own_check(problem, wrong), str)
    beyond = solution.values.copy()
    beyond[problem.instance().free_inputs[0]] = 1e6
    assert isinstance(own_check(problem, beyond), str)


def test_another_seed_draws_another_instance() -> None:
    first = knapsack(0).instance()
    second = knapsack(1).instance()
    assert first.digest == knapsack(0).instance().digest
    assert first.digest != second.digest


# rivals


def test_a_region_is_affine_and_its_border_is_where_it_ends() -> None:
    regions = Regions.read(box(n=3, widths=(8, 8)).instance(), "test")
    rng = np.random.default_rng(1)
    x = regions.lower + regions.width * rng.random(3)
    rows, offsets, slope = regions.affine(regions.pattern(x))
    np.testing.assert_allclose(rows @ x + offsets, np.concatenate(regions.hidden(x)[:-1]))
    np.testing.assert_allclose(slope, regions.gradient(x))
    direction = rng.normal(size=3)
    far = regions.to_border(x, direction)
    same = x + 0.999 * far * direction
    other = x + 1.001 * far * direction
    before = np.concatenate(regions.pattern(x))
    assert (np.concatenate(regions.pattern(same)) == before).all()
    assert (np.concatenate(regions.pattern(other)) != before).any()
    assert regions.value(same) == pytest.approx(regions.value(x) + slope @ (same - x))


@pytest.mark.parametrize("walk", [RelaxAndWalk(), GradientWalk()])
def test_walks_find_the_optimum_of_a_small_box_and_refuse_rows(
    walk: RelaxAndWalk | GradientWalk,
) -> None:
    problem = box(n=2, widths=(8,))
    best = BigM().solve(problem, time_limit=LONG)
    with using(Ticking()):  # a walk ends with its time, of which every step takes a second here
        found = walk.solve(problem, time_limit=200.0, seed=1)
    assert found.objective == pytest.approx(best.objective, rel=1e-3)
    for other in (knapsack(), hand_sized()):
        with pytest.raises(ProblemError, match="one network in a box"):
            walk.solve(other, time_limit=LONG)


# rows


def test_a_refusal_is_a_row_that_says_why(tmp_path: Path) -> None:
    case = Case("e7", PROBLEM, "blend", 8, 42, "enumeration", 2.0, sense="minimise")
    row = run_case(case)
    assert row.status == analysis.REFUSED
    assert "continuous" in str(row.why)
    assert row.details["features"]["inputs"] == 8
    assert verify_row(row, tmp_path) is None


def test_a_row_of_the_suite_is_verified_by_another_way(tmp_path: Path) -> None:
    row = run_case(Case("e7", PROBLEM, "tiny", 4, 42, "solve", 20.0, sense="minimise"))
    assert row.status == "optimal"
    assert "enumeration" in [method for method, *_ in row.details["plan"]]
    assert verify_row(row, tmp_path) is None
    assert row.objective is not None
    assert "recomputed" in str(
        verify_row(replace(row, objective=row.objective + 0.1, bound=None), tmp_path)
    )


def rows() -> list[Row]:
    """Two models, three methods: one always at the best, one near it or without a point, one that
    refuses a model.
    """
    found = []
    for name, value in (("knapsack", 10.0), ("box", 4.0)):
        for seed in (42, 123):
            far = value if name == "box" else 0.8 * value
            for method, objective in (("solve", value), ("dd", None if name == "box" else far)):
                status = "optimal" if method == "solve" and name == "box" else "time_limit"
                times = [] if objective is None else [[1.0 + seed / 1000, objective]]
                looks = {"features": features(MODELS[name]())}
                found.append(
                    finished(
                        "e7",
                        method,
                        PROBLEM,
                        name,
                        SIZES[name],
                        seed,
                        20.0,
                        objective=objective,
                        status=status,
                        incumbents=times,
                        details=looks,
                        bound=value + 1.0,
                    )
                )
    why = {"status": analysis.REFUSED, "why": "has rows"}
    return [*found, finished("e7", "relax-walk", PROBLEM, "knapsack", 12, 42, 20.0, **why)]


def test_distances_and_profiles() -> None:
    best = analysis.best_known(rows())
    assert best == {"knapsack": analysis.Best(10.0, False), "box": analysis.Best(4.0, True)}
    gaps = analysis.distances(rows())
    assert gaps["dd"]["knapsack"] == pytest.approx([0.2, 0.2])
    assert gaps["dd"]["box"] == [np.inf, np.inf]
    assert gaps["relax-walk"] == {}
    shares = analysis.profile(rows(), [0.0, 0.1, 0.5])
    assert {method: share.tolist() for method, share in shares.items()} == {
        "solve": [1, 1, 1],
        "dd": [0, 0, 0.5],
        "relax-walk": [0, 0, 0],
    }


def test_an_exact_model_stands_beside_solve() -> None:
    near = {"objective": 8.0, "status": "claimed_optimal"}
    without = {"status": analysis.REFUSED, "why": "curved"}
    peer = [
        finished("e7", "gurobi-ml", PROBLEM, name, SIZES[name], 42, 20.0, **said)
        for name, said in (("knapsack", near), ("box", without))
    ]
    far = rows()
    closed = [replace(row, bound=10.0005) if row.network == "knapsack" else row for row in rows()]
    assert analysis.exact_peer([*far, *peer], "gurobi-ml") == (1, 0, 1, 1, 0, 0)
    assert analysis.exact_peer([*closed, *peer], "gurobi-ml").met == 1
    assert (
        analysis.exact_peer([*(replace(row, bound=None) for row in far), *peer], "gurobi-ml").met
        == 0
    )


def test_the_chart_names_who_comes_near_and_when() -> None:
    knap, boxed = analysis.chart(rows())
    assert knap.seconds == pytest.approx({"solve": 1.0825})
    assert boxed.distance == {"solve": 0.0, "dd": np.inf}
    kinds = analysis.by_kind([knap, boxed])
    assert kinds["box alone"]["solve"][:2] == (1.0, 0.0)
    assert kinds["blocks"] == {}


def test_a_beaten_bound_is_found() -> None:
    assert analysis.beaten(rows()) == {}
    wrong = [
        replace(row, bound=9.0) if row.method == "dd" and row.network == "knapsack" else row
        for row in rows()
    ]
    assert len(analysis.beaten(wrong)) == 2


def test_figures_draw_what_there_is() -> None:
    ax = figures.plot_profile(rows())
    assert len(ax.lines) == 4
    stored = load("e7").rows
    assert not stored or figures.plot_profile(stored).lines

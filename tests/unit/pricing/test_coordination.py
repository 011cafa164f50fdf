"""Price coordination: never better than brute force, verified, and what every solver promises."""

from __future__ import annotations

import copy
import itertools
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from pyscipopt import Model
from torch import Tensor, nn

from ddmip_book.networks import attention, lstm, mlp
from ddmip_book.problems import water_potability
from ddmip_lib import Enumeration, NeuralMIP, PriceCoordination, Solution
from ddmip_lib.clock import using
from ddmip_lib.errors import ProblemError
from ddmip_lib.pricing import Blocks, Mode
from tests.builders.blocks import Own, own, trees
from tests.builders.clocks import LONG, Ticking
from tests.builders.instances import relu_net
from tests.builders.networks import linear, relu_layers


def judged(instance: Own, **keywords: object) -> tuple[float, float]:
    """What price coordination misses of the optimum, and by how much its linear program is below
    its objective.
    """
    problem = instance.problem()
    solution = PriceCoordination(**keywords).solve(problem, time_limit=LONG, seed=1)  # type: ignore[arg-type]
    assert solution.objective is not None
    assert problem.verify(solution).objective == pytest.approx(solution.objective, abs=1e-9)
    sign = 1.0 if instance.minimise else -1.0
    return sign * (solution.objective - instance.optimum()), sign * (
        solution.details["lp_value"] - solution.objective
    )


@pytest.mark.parametrize("seed", range(10))
def test_a_class_is_bought_as_brute_force_would(seed):
    missed, below = judged(
        own(seed, "classification", minimise=seed % 2 == 0, optional=seed % 3 > 0)
    )
    assert missed == pytest.approx(0.0, abs=1e-6)
    assert below <= 1e-6


@pytest.mark.parametrize("seed", range(10))
def test_outputs_are_never_better_than_brute_force_and_seldom_worse(seed):
    missed, below = judged(own(seed, "regression", minimise=seed % 2 == 0, optional=seed % 3 > 0))
    assert -1e-6 <= missed <= 0.005
    assert below <= 1e-6


@pytest.mark.parametrize("seed", [1, 5])
def test_the_best_choice_may_lie_between_the_best_options(seed):
    """The linear program mixes corners of the boxes here; a choice of corners alone misses 0.23 and
    0.08.
    """
    missed, _ = judged(own(seed, "regression", minimise=True, optional=False))
    assert -1e-6 <= missed <= 0.02


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))]
)
@pytest.mark.parametrize("grid", [2, 3])
def test_tree_planting_equals_enumeration(grid, seed):
    problem = trees(grid, seed)
    exact, solution = (
        method.solve(problem, time_limit=LONG) for method in (Enumeration(), PriceCoordination())
    )
    assert exact.status == "optimal"
    assert solution.objective == pytest.approx(exact.objective, abs=1e-6)
    assert solution.details["lp_value"] >= exact.objective - 1e-6


def two_ways(minimise: bool = False, target: float = 0.6, start: bool = False) -> NeuralMIP:
    """Three blocks that must choose between two networks with inputs of their own, one of them of
    worth 2; what the second one earns must reach a target.
    """
    n = 3
    nets = [relu_net(1, 3, seed=4), relu_net(1, 3, seed=7)]
    model = Model()
    model.hideOutput()
    on = model.addMatrixVar((n, 2), vtype="B", name="on")
    x = [model.addMatrixVar((n, 1), lb=-1.0, ub=1.0, name=f"x{t}") for t in range(2)]
    y = [model.addMatrixVar((n, 1), lb=None, name=f"y{t}") for t in range(2)]
    v = [model.addMatrixVar((n, 1), lb=None, name=f"v{t}") for t in range(2)]
    size = [model.addMatrixVar((n, 1), ub=1.0) for _ in range(2)]
    model.addMatrixCons(on.sum(axis=1) == 1)
    for t in range(2):
        model.addMatrixCons(size[t] >= x[t])
        model.addMatrixCons(size[t] >= -x[t])
        model.addMatrixCons(v[t] - 50 * (1 - on[:, [t]]) <= y[t])
        model.addMatrixCons(v[t] <= 50 * on[:, [t]])
    model.addCons(size[0].sum() + size[1].sum() <= 1.0, name="budget")
    model.addCons(2 * v[1].sum() >= target, name="target")
    sign = -1 if minimise else 1
    model.setObjective(
        sign * (v[0].sum() + 2 * v[1].sum()) + 5, "minimize" if minimise else "maximize"
    )
    problem = NeuralMIP(model)
    each = np.arange(n)
    one = np.ones((n, 1))
    for t in range(2):
        problem.add_predictor(nets[t], x[t], y[t])
    if start:
        problem.set_start(0 * one, 0 * one)
    rate = np.array([[1.0, 0.0]])
    modes = [
        Mode(
            each,
            each,
            -one,
            one,
            0 * one,
            rate,
            rate,
            np.zeros((n, 2)),
            np.array([0.0, -float(t)]),
            predictor=t,
            worth=1.0 + t,
        )
        for t in range(2)
    ]
    problem.set_blocks(Blocks(modes, [1.0, -target], optional=False))
    return problem


def best_of_two_ways(problem: NeuralMIP, target: float) -> float:
    """By brute force on a grid of a twentieth: below the optimum by little, never above."""
    grid = np.linspace(-1, 1, 41)
    table = [
        (t, abs(u), (1 + t) * f)
        for t, p in enumerate(problem.predictors)
        for u, f in zip(grid, p.raw(grid[:, None])[:, 0], strict=True)
    ]

    def dominated(o: tuple[int, float, float]) -> bool:
        return any(p[0] == o[0] and p[1] <= o[1] and p[2] > o[2] for p in table)

    kept = [o for o in table if not dominated(o)]
    best = -np.inf
    for pick in itertools.product(kept, repeat=3):
        if sum(o[1] for o in pick) <= 1 + 1e-9 and sum(o[2] for o in pick if o[0] == 1) >= target:
            best = max(best, sum(o[2] for o in pick))
    return best


@pytest.mark.parametrize(
    ("minimise", "target"), [(False, 0.6), (True, 0.6), (False, 2.0), (False, -5.0)]
)
def test_two_networks_with_inputs_of_their_own_and_a_target(minimise, target):
    problem = two_ways(minimise, target)
    best = best_of_two_ways(problem, target)
    solution = PriceCoordination().solve(problem, time_limit=LONG, seed=3)
    assert solution.objective is not None
    value = (5 - solution.objective) if minimise else solution.objective - 5
    assert problem.verify(solution)
    assert value >= 0.97 * best
    assert abs(solution.details["lp_value"] - 5) >= value - 1e-6
    assert (
        2 * solution.values[[v.name.startswith("v1") for v in problem.model.getVars()]].sum()
        >= target - 1e-6
    )


@pytest.mark.parametrize(("target", "status"), [(30.0, "no_solution_found"), (1e4, "infeasible")])
def test_a_target_out_of_reach_gives_a_status(target: float, status: str):
    """Beyond the ranges of the rows it is proved; within them no round finds a point."""
    solution = PriceCoordination(max_rounds=8).solve(two_ways(target=target), time_limit=LONG)
    assert solution.status == status
    assert not solution.found
    assert "lp_value" not in solution.details


def optional_with_target(target: float) -> NeuralMIP:
    """One block that may choose nothing, of class 1 from 0.5 on; its class must be reached for the
    target.
    """
    model = Model()
    model.hideOutput()
    x = model.addMatrixVar((1, 1), lb=-1.0, ub=1.0)
    y = model.addMatrixVar((1, 1), vtype="B")
    model.addCons(y.sum() >= target)
    model.setObjective(y.sum(), "maximize")
    problem = NeuralMIP(model)
    one = np.ones((1, 1))
    each = np.zeros(1, int)
    problem.add_predictor(linear(1.0, bias=-0.5), x, y, output="classification")
    mode = Mode(each, each, -one, one, 0 * one, 0 * one, 0 * one, 0 * one, np.array([-1.0]))
    problem.set_blocks(Blocks([mode], [-target]))
    return problem


@pytest.mark.parametrize(("target", "objective"), [(1.0, 1.0), (2.0, None)])
def test_optional_blocks_can_have_targets(target, objective):
    solution = PriceCoordination(max_rounds=5).solve(optional_with_target(target), time_limit=LONG)
    assert solution.objective == objective


def small_water(net: nn.Module | None = None, n: int = 5, **keywords: object) -> NeuralMIP:
    return water_potability(n=n, net=mlp(2, 8, 9, seed=1) if net is None else net, **keywords)  # type: ignore[arg-type]


def test_same_seed_same_answer():
    first, second = (PriceCoordination().solve(small_water(), seed=5) for _ in range(2))
    np.testing.assert_array_equal(first.values, second.values)
    assert first.status == second.status == "converged"
    np.testing.assert_array_equal(first.history["lp_value"], second.history["lp_value"])
    for a, b in zip(first.history.prices, second.history.prices, strict=True):
        np.testing.assert_array_equal(a, b)


def test_nothing_of_the_users_is_changed():
    net = mlp(2, 8, 9, seed=1)
    weights = [p.clone() for p in net.parameters()]
    problem = small_water(net)
    model = problem.model
    blocks = problem.blocks

    def state():
        variables = [
            (v.name, v.vtype(), v.getLbOriginal(), v.getUbOriginal(), v.getObj())
            for v in model.getVars()
        ]
        return (
            model.getStageName(),
            model.getObjectiveSense(),
            variables,
            [c.name for c in model.getConss()],
        )

    arrays = [
        a.copy()
        for a in (blocks.base, blocks.lower, blocks.capacities, blocks.fixed, problem.start[0])
    ]
    before = state()
    PriceCoordination(max_rounds=3).solve(problem)
    assert state() == before
    assert all(torch.equal(a, b) for a, b in zip(weights, net.parameters(), strict=True))
    assert all(p.requires_grad and p.grad is None for p in net.parameters())
    for a, b in zip(
        arrays,
        (blocks.base, blocks.lower, blocks.capacities, blocks.fixed, problem.start[0]),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("limit", [0.0, -1.0, 1e-3])
def test_little_or_no_time_gives_a_status_not_an_error(limit):
    solution = PriceCoordination().solve(small_water(), time_limit=limit)
    assert solution.status == "time_limit"
    assert solution.found or limit < 1e-2
    if limit <= 0:
        assert (solution.objective, solution.inputs, len(solution.history)) == (None, [], 0)


def test_a_time_limit_in_the_middle_still_chooses():
    """Trees: rounding cannot know what SCIP would choose, so some of the time must be left
    for it.
    """
    problem = trees(3, seed=1)
    exact = Enumeration().solve(problem)
    assert exact.status == "optimal"
    with using(
        Ticking(step=10.0)
    ):  # time is over after six hundred looks at the clock; SCIP has enough in any case
        solution = PriceCoordination(max_rounds=10**6, max_failed_rounds=10**6).solve(
            problem, time_limit=6000.0
        )
    assert solution.status == "time_limit"
    assert solution.objective == pytest.approx(exact.objective, abs=1e-6)


def test_a_misspelt_keyword_is_a_type_error():
    with pytest.raises(TypeError, match="timelimit"):
        PriceCoordination().solve(small_water(), timelimit=3)
    with pytest.raises(TypeError, match="round"):
        PriceCoordination(rounds=3)


def test_progress_bar_shows_the_incumbent_and_the_history_its_columns(capsys):
    solution = PriceCoordination(max_rounds=3).solve(small_water(), progress=True)
    assert "best " in capsys.readouterr().err
    history = solution.history
    assert {"k", "lp_value", "incumbent", "options", "new", "smoothing", "seconds"} <= set(
        history.columns
    )
    assert history["k"].tolist() == [1.0, 2.0, 3.0][: len(history)]
    assert (np.diff(history["options"]) >= 0).all()
    assert (np.diff(history["lp_value"]) >= -1e-7).all()
    assert (np.diff(history["incumbent"]) >= 0).all()
    assert len(history.prices) == len(history)
    assert all((prices >= 0).all() and prices.shape == (18,) for prices in history.prices)
    assert history[-1].options == solution.details["options"] == len(solution.details["pool"])
    np.testing.assert_array_equal(history.prices[-1], solution.details["prices"])
    assert f"{len(history)}" in repr(history)


@pytest.mark.parametrize(
    "make", [lambda: lstm(1, 6, 9, seed=2), lambda: attention(1, 8, 9, seed=2)]
)
def test_other_architectures_work_unchanged(make):
    problem = small_water(make())
    solution = PriceCoordination(max_rounds=4, steps=8).solve(problem, time_limit=LONG)
    assert problem.verify(solution)
    untreated = problem.predictors[0].predict(problem.start[0]).sum()
    assert untreated <= solution.objective <= solution.details["lp_value"] + 1e-6


class Grainy(nn.Module):
    """A logit that single precision cannot see clearly: at 1e8 its numbers are eight apart."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([[1.0] + [0.0] * 8], dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return (1e8 + 2.0 * (x @ self.weight.to(x.dtype).T)) - 1e8 - 2.0


def test_single_precision_searches_and_double_precision_judges():
    plain = PriceCoordination(dtype=torch.float32).solve(small_water(), time_limit=LONG)
    double = PriceCoordination().solve(small_water(), time_limit=LONG)
    assert plain.objective == double.objective
    problem = small_water(Grainy().eval(), n=4)
    solution = PriceCoordination(dtype=torch.float32, max_rounds=4).solve(problem, time_limit=LONG)
    pool = solution.details["pool"]
    raw = problem.predictors[0].raw(pool.u)[:, 0]
    assert (raw > 0).all()
    assert problem.verify(solution)
    single = copy.deepcopy(problem.predictors[0].net).float()
    at = problem.start[0] + 1.0
    with torch.no_grad():  # the two precisions do disagree here
        assert (
            (single(torch.tensor(at).float())[:, 0] > 0).numpy()
            != (problem.predictors[0].raw(at)[:, 0] > 0)
        ).any()


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"starts": 1}, "starts"),
        ({"steps": 0}, "steps"),
        ({"max_rounds": 2.5}, "max_rounds"),
        ({"smoothing": 1.0}, "smoothing"),
        ({"smoothing": -0.1}, "smoothing"),
        ({"smoothing": np.nan}, "smoothing"),
        ({"gap": -1e-3}, "gap"),
        ({"nodes": 0}, "nodes"),
        ({"max_failed_rounds": 0}, "max_failed_rounds"),
        ({"dtype": torch.int64}, "dtype"),
        pytest.param(
            {"device": "cuda"},
            "cpu",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA"),
        ),
    ],
)
def test_arguments_out_of_range_are_refused_with_their_name(keywords, said):
    with pytest.raises(ValueError, match=said):
        PriceCoordination(**keywords)


@pytest.mark.parametrize("keywords", [{"time_limit": np.nan}, {"seed": -1}])
def test_calls_out_of_range_are_refused(keywords):
    with pytest.raises(ValueError, match=next(iter(keywords))):
        PriceCoordination().solve(small_water(), **keywords)


def test_whole_numbers_may_be_floats():
    solution = PriceCoordination(starts=2.0, steps=4.0, max_rounds=2.0, nodes=50.0).solve(
        small_water(n=2)
    )
    assert solution.found


def test_a_problem_without_blocks_is_refused_with_what_links_it():
    problem = small_water(n=1)
    problem.blocks = None
    with pytest.raises(ProblemError, match=r"only one sample of a network.*set_blocks"):
        PriceCoordination().solve(problem)


def test_blocks_that_contradict_the_model_are_caught():
    instance = own(0, "classification")
    instance = replace(
        instance, w=np.zeros(2), capacity=0.3, net=_threshold(0.25), offset=0.0, worth=1.0
    )
    problem = instance.problem()
    assert PriceCoordination().solve(problem).objective == 1.0
    mode = problem.blocks.modes[0]
    for wrong in (Blocks([mode], [5.0]), Blocks([replace(mode, worth=2.0)], [0.3])):
        problem.set_blocks(wrong)
        with pytest.raises(ProblemError, match="do not describe the model"):
            PriceCoordination().solve(problem)


def _threshold(at: float) -> nn.Sequential:
    """f(x) = x - at, for x >= -10."""
    return relu_layers(([[1.0]], [10.0]), ([[1.0]], [-10.0 - at]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"up": np.ones((2, 1))}, "up has shape"),
        ({"fixed": np.zeros((2, 2))}, "fixed has shape"),
        ({"block": np.arange(3)}, "block has shape"),
        ({"per_value": np.zeros(2)}, "per_value has shape"),
        ({"base": np.full((2, 1), 3.0)}, "base point"),
        ({"base": np.full((2, 1), np.nan)}, "base|finite"),
        ({"up": -np.ones((1, 1))}, "give resources back"),
        ({"down": np.full((1, 1), np.nan)}, "down|finite"),
        ({"upper": np.full((2, 1), np.inf)}, "finite"),
        ({"per_value": np.ones(1)}, "per_value"),
        ({"per_value": np.full(1, np.nan)}, "per_value|finite"),
        ({"worth": 0.0}, "worth"),
        ({"worth": -1.0}, "worth"),
        ({"block": np.array([0, 2])}, "block 1 has no mode"),
        ({"block": np.array([-1, 0])}, "block"),
        ({"block": np.array([0.0, 1.0])}, "integers"),
        ({"base": np.zeros(2)}, "base has shape"),
        ({"cap": np.nan}, "cap"),
        ({"worth": np.inf}, "worth"),
    ],
)
def test_blocks_that_make_no_sense_are_refused(changes, said):
    one = np.ones((2, 1))
    each = np.arange(2)
    good = Mode(each, each, -one, one, 0 * one, np.eye(1), np.eye(1), 0 * one, np.zeros(1))
    Blocks([good], [1.0])
    with pytest.raises(ProblemError, match=said):
        Blocks([replace(good, **changes)], [1.0])


def test_lists_do_for_arrays():
    one = np.ones((2, 1))
    each = np.arange(2)
    mode = Mode(each, each, -one, one, 0 * one, np.eye(1), np.eye(1), 0 * one, np.zeros(1))
    parts = {f.name: getattr(mode, f.name) for f in fields(mode)}
    lists = Mode(**{k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in parts.items()})
    np.testing.assert_array_equal(Blocks([lists], [1.0]).base, Blocks([mode], [1.0]).base)


def test_blocks_need_modes_capacities_and_as_many_names():
    one = np.ones((2, 1))
    each = np.arange(2)
    good = Mode(each, each, -one, one, 0 * one, np.eye(1), np.eye(1), 0 * one, np.zeros(1))
    with pytest.raises(ProblemError, match="at least one mode"):
        Blocks([], [1.0])
    with pytest.raises(ProblemError, match="finite"):
        Blocks([good], [np.inf])
    with pytest.raises(ProblemError, match="names"):
        Blocks([good], [1.0], resources=["a", "b"])
    wide = replace(
        good,
        lower=-np.ones((2, 2)),
        upper=np.ones((2, 2)),
        base=np.zeros((2, 2)),
        up=np.ones((2, 1)),
        down=np.ones((2, 1)),
    )
    with pytest.raises(ProblemError, match="inputs"):
        Blocks([good, wide], [1.0])


def test_set_blocks_refuses_what_does_not_fit_the_predictors():
    problem = own(0, "regression").problem()
    n = problem.blocks.n
    mode = problem.blocks.modes[0]
    with pytest.raises(TypeError, match="Blocks"):
        problem.set_blocks([mode])
    for changes, said in [
        ({"predictor": 1}, "predictor 1"),
        ({"row": np.arange(n) + 5}, "rows and inputs"),
    ]:
        with pytest.raises(ProblemError, match=said):
            problem.set_blocks(Blocks([replace(mode, **changes)], [1.0]))
    model = Model()
    x = model.addMatrixVar((1, 1), lb=-1.5, ub=1.5)
    y = model.addMatrixVar((1, 2), lb=None)
    two = NeuralMIP(model)
    two.add_predictor(relu_net(1, q=2), x, y)
    one = np.ones((1, 1))
    mode = Mode(
        np.zeros(1, int), np.zeros(1, int), -one, one, 0 * one, one, one, 0 * one, np.zeros(1)
    )
    with pytest.raises(ProblemError, match="2 outputs"):
        two.set_blocks(Blocks([mode], [1.0]))


@pytest.mark.parametrize(("logit", "share"), [(-1.0, 0), (0.0, 0), (1e-9, 1), (1.0, 1)])
def test_class_1_nowhere_or_everywhere(logit, share):
    solution = PriceCoordination().solve(small_water(linear(*[0.0] * 9, bias=logit), n=3))
    assert solution.status == "converged"
    assert solution.objective == solution.details["lp_value"] == 3 * share


def shared(net: nn.Module, n: int, capacity: float, scale: float = 1.0) -> NeuralMIP:
    """n blocks with two inputs in [-scale, scale] and one budget for all movement; every block
    counts its output.
    """
    model = Model()
    w = np.zeros((n, 2))
    model.hideOutput()
    x = model.addMatrixVar((n, 2), lb=-scale, ub=scale)
    a, b = (model.addMatrixVar((n, 2), ub=scale) for _ in range(2))
    y = model.addMatrixVar((n, 1), lb=None)
    model.addMatrixCons(x - a + b == w)
    model.addCons((a + b).sum() <= capacity)
    model.setObjective(y.sum(), "maximize")
    problem = NeuralMIP(model)
    each = np.arange(n)
    ones = np.ones((n, 2))
    problem.add_predictor(net, x, y)
    rate = np.ones((2, 1))
    mode = Mode(
        each, each, -scale * ones, scale * ones, w, rate, rate, np.zeros((n, 1)), np.zeros(1)
    )
    problem.set_blocks(Blocks([mode], [capacity], optional=False))
    return problem


@pytest.mark.parametrize(
    ("slope", "bias", "capacity", "scale"),
    [
        (2.0, 0.0, 1.0, 1.0),  # a box larger than the capacity
        (2e-3, 0.0, 1.0, 1.0),
        (2e3, 0.0, 0.5, 1.0),
        (1.0, -50.0, 1.0, 1.0),
        (1.0, 1.0, 0.0, 1.0),
        (2e-4, 0.0, 1e4, 1e4),
        (2e6, 0.0, 1e-6, 1e-6),
    ],
)
def test_scales_boxes_and_signs(slope, bias, capacity, scale):
    solution = PriceCoordination().solve(
        shared(linear(0.5 * slope, slope, bias=bias), 2, capacity, scale), time_limit=LONG
    )
    expected = 2 * bias + slope * capacity
    assert solution.status == "converged"
    assert solution.objective == pytest.approx(
        expected, abs=1e-5 * max(abs(expected), slope * scale)
    )


@pytest.mark.parametrize("capacities", [(0.5, 1.1), (0.99, 0.05), (0.0, 2.1), (1e3, 1e-3)])
def test_options_between_options(capacities):
    """Class 1 where 2 x1 + x2 > 1: with scarce capacities both blocks must mix the two ways to get
    there.
    """
    model = Model()
    n = 2
    model.hideOutput()
    x = model.addMatrixVar((n, 2), lb=-5.0, ub=5.0)
    size = model.addMatrixVar((n, 2), ub=5.0)
    y = model.addMatrixVar((n, 1), vtype="B")
    model.addMatrixCons(size >= x)
    model.addMatrixCons(size >= -x)
    for j, capacity in enumerate(capacities):
        model.addCons(size[:, j].sum() <= capacity)
    model.setObjective(y.sum(), "maximize")
    problem = NeuralMIP(model)
    each = np.arange(n)
    ones = np.ones((n, 2))
    problem.add_predictor(linear(2.0, 1.0, bias=-1.0), x, y, output="classification")
    mode = Mode(
        each, each, -5 * ones, 5 * ones, 0 * ones, np.eye(2), np.eye(2), 0 * ones, np.zeros(2)
    )
    problem.set_blocks(Blocks([mode], capacities))
    assert PriceCoordination().solve(problem, time_limit=LONG).objective == 2.0


class Root(nn.Module):
    """No number below 0.2 in its first input."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sqrt(x[:, :1] + 0.3) + 0.1 * x[:, 1:]


def test_where_the_network_has_no_value_there_is_no_option():
    solution = PriceCoordination().solve(shared(Root().eval(), 2, 1.0), time_limit=LONG)
    best = 2 * np.sqrt(0.3 + 0.5)  # concave: half of the budget for each
    assert 0.97 * best <= solution.objective <= best + 1e-6


def test_a_network_without_a_gradient_is_refused():
    class Ignores(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.new_ones(len(x), 1)

    with pytest.raises(ProblemError, match="gradient"):
        PriceCoordination().solve(shared(Ignores().eval(), 2, 1.0), time_limit=LONG)


@pytest.mark.parametrize(("n", "budget"), [(1, 2.0), (3, 1e-9), (3, 1e4)])
def test_water_of_any_size_and_budget(n, budget):
    problem = small_water(n=n, budget=budget)
    untreated = problem.predictors[0].predict(problem.start[0]).sum()
    solution = PriceCoordination(max_rounds=6).solve(problem, time_limit=LONG)
    assert problem.verify(solution)
    assert untreated <= solution.objective <= solution.details["lp_value"] + 1e-6
    if budget == 1e4:
        assert solution.objective == n


def test_nothing_may_be_shared():
    """Without a shared resource every block takes its best point."""
    problem = shared(linear(1.0, 2.0), 2, capacity=10.0)
    mode = problem.blocks.modes[0]
    none = np.zeros((2, 0))
    free = replace(mode, up=none, down=none, fixed=none, per_value=np.zeros(0))
    problem.set_blocks(Blocks([free], [], optional=False))
    assert PriceCoordination().solve(problem, time_limit=LONG).objective == pytest.approx(6.0)


def test_samples_drawn_twice_and_no_start():
    problem = small_water(n=4)
    problem.start = None
    assert PriceCoordination(max_rounds=4).solve(problem).found
    repeated = water_potability(n=6, net=mlp(2, 8, 9, seed=1), repeat=True)
    assert isinstance(PriceCoordination(max_rounds=4).solve(repeated), Solution)

"""Bounds for problems without blocks: valid on everything that enumeration or a fine grid can
answer.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from pyscipopt import Model
from torch import nn

from ddmip_book.networks import lstm
from ddmip_lib import DualDecomposition, NeuralMIP, Trace
from ddmip_lib.bounds import crown, intervals, optimised_crown
from ddmip_lib.certificates import input_search, relaxation
from ddmip_lib.certificates.lagrangian import crown_multipliers, dual_value, lagrangian_bound
from ddmip_lib.clock import using
from ddmip_lib.decomposition import Split
from ddmip_lib.errors import ProblemError, UnsupportedNetworkError
from ddmip_lib.methods import start_run
from ddmip_lib.problems import hand_sized
from tests.builders.clocks import LONG, Ticking
from tests.builders.instances import build, lattice, relu_net, tiny
from tests.builders.networks import relu_layers

# an objective of about 1 is a sum of some numbers: alone and in a batch it may end in other digits
ROUNDING = 1e-12


def knapsack(
    seed: int = 11, p: int = 8, h: int = 16, cap: int = 5, offset: float = 0.0
) -> tuple[NeuralMIP, float]:
    """min c'x + f(x) + offset over at most `cap` of p binaries, with a 2 x h ReLU network; and its
    optimum.
    """
    rng = np.random.default_rng(seed)
    shapes = ((h, p), h), ((h, h), h), ((1, h), None)
    weights = [
        (rng.standard_normal(w) / np.sqrt(w[1]), 0.3 * rng.standard_normal(b) if b else np.zeros(1))
        for w, b in shapes
    ]
    c = 0.1 * rng.standard_normal(p)
    built = build(relu_layers(*weights), p, vtype="B", cost=c)
    built.model.addCons(built.x.sum() <= cap)
    built.model.addObjoffset(offset)
    x = np.array([z for z in itertools.product((0.0, 1.0), repeat=p) if sum(z) <= cap])
    value = x
    for w, b in weights[:2]:
        value = np.maximum(value @ w.T + b, 0.0)
    return built.problem, float((x @ c + (value @ weights[2][0].T).ravel()).min()) + offset


def test_the_order_of_the_bounds_on_the_theory_example() -> None:
    problem, optimum = knapsack()
    zero = np.zeros(8)
    best = crown_multipliers(problem)
    result = lagrangian_bound(problem)
    values = [
        dual_value(problem, zero, intervals),
        dual_value(problem, zero),
        dual_value(problem, best),
        result.history[1][1],
        optimum,
    ]
    assert values[:3] == pytest.approx([-5.1965, -2.9256, -2.6542], abs=1e-4)
    assert all(np.diff(values) > 0.1)
    assert result.status == "closed"
    assert result.bound == pytest.approx(optimum, abs=3e-6)
    assert result.objective == pytest.approx(optimum, abs=1e-9)
    assert result.bound <= optimum
    assert result.nodes < 60
    assert np.array_equal(result.multipliers, best)
    assert [b for _, b in result.history] == sorted(b for _, b in result.history)


def test_the_best_multipliers_beat_all_others_of_the_same_form() -> None:
    problem, optimum = knapsack(offset=7.0)
    rng = np.random.default_rng(0)
    best = crown_multipliers(problem)
    top = dual_value(problem, best)
    for scale in (0.01, 0.1, 1.0, 10.0):
        assert dual_value(problem, best + scale * rng.standard_normal(8)) <= top + 1e-5
        assert dual_value(problem, scale * rng.standard_normal(8)) <= top + 1e-5
    assert top < optimum
    assert (
        dual_value(problem, np.zeros(8), optimised_crown) >= dual_value(problem, np.zeros(8)) - 1e-5
    )


def test_multipliers_of_algorithm_1_give_bounds_in_both_splits() -> None:
    problem, optimum = knapsack(seed=2, p=5, h=6, cap=3)
    for split in ("paper", "graph"):
        trace = Trace()
        DualDecomposition(split=split, max_iterations=4, callback=trace).solve(
            problem, time_limit=LONG
        )
        assert len(trace.lam) > 1
        assert all(-1e6 < dual_value(problem, lam) <= optimum for lam in trace.lam)
    assert np.array_equal((instance := problem.instance()).free_inputs, Split(instance).inputs)


@pytest.mark.parametrize(
    "seed", [*range(15), *(pytest.param(n, marks=pytest.mark.long) for n in range(15, 30))]
)
def test_no_bound_crosses_the_optimum_of_a_tiny_instance(seed: int) -> None:
    instance = tiny(seed)
    optimum = instance.optimum()
    sign = instance.sign
    rng = np.random.default_rng(seed)
    lam = rng.standard_normal(instance.points.shape[1])
    result = lagrangian_bound(instance.problem, time_limit=LONG)
    if optimum is None:
        assert (result.status, result.bound) == ("infeasible", sign * np.inf)
        return
    assert result.status == "closed"
    assert result.bound is not None
    assert sign * result.bound <= sign * optimum + 1e-9
    assert result.bound == pytest.approx(optimum, rel=1e-5, abs=1e-5)
    assert all(sign * bound <= sign * optimum + 1e-9 for _, bound in result.history)
    for multipliers in (lam, crown_multipliers(instance.problem)):
        assert sign * dual_value(instance.problem, multipliers) <= sign * optimum + 1e-9


@pytest.mark.parametrize("kind", ["regression", "classification"])
@pytest.mark.parametrize("sense", ["minimize", "maximize"])
def test_rows_on_outputs_and_several_networks(kind: str, sense: str) -> None:
    """Two networks share inputs, some of them constants; a row ties their outputs."""
    solved = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        one = relu_net(3, seed=seed)
        two = relu_net(4, q=2, seed=100 + seed)
        model = Model()
        x = model.addMatrixVar((1, 4), vtype="I", lb=-1, ub=0)
        y = model.addMatrixVar((2, 1), lb=None)
        z = model.addMatrixVar((1, 2), vtype="B" if kind == "classification" else "C", lb=None)
        d = rng.standard_normal(3)
        limit = float(rng.normal())
        model.addCons(y[0, 0] - y[1, 0] + z[0, 0] >= limit)
        model.setObjective(
            d[0] * y[1, 0] + d[1] * z[0, 0] + d[2] * z[0, 1] + 0.5 * x[0, 3] + 3.0, sense
        )
        problem = NeuralMIP(model)
        inputs = [[x[0, 0], 0.7, x[0, 1]], [x[0, 2], x[0, 1], x[0, 1]]]
        problem.add_predictor(one, np.array(inputs, dtype=object), y)
        problem.add_predictor(two, x, z, output=kind)
        points = lattice(-1, 0, 4)
        with torch.no_grad():
            rows = [np.c_[points[:, 0], np.full(16, 0.7), points[:, 1]], points[:, [2, 1, 1]]]
            first, second = (one(torch.tensor(r)).numpy()[:, 0] for r in rows)
            out = two(torch.tensor(points)).numpy()
        out = (out > 0).astype(float) if kind == "classification" else out
        values = d[0] * second + out @ d[1:] + 0.5 * points[:, 3] + 3.0
        feasible = first - second + out[:, 0] >= limit
        result = lagrangian_bound(problem, time_limit=LONG)
        if not feasible.any():
            assert result.status == "infeasible"
            continue
        sign = 1.0 if sense == "minimize" else -1.0
        optimum = sign * (sign * values[feasible]).min()
        assert result.status == "closed"
        assert sign * result.bound <= sign * optimum + 1e-9
        assert result.bound == pytest.approx(optimum, abs=1e-5)
        solved += 1
    assert solved >= 2


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_continuous_inputs_against_a_fine_grid(p: int, kind: str) -> None:
    for seed in range(3):
        net = relu_net(p, width=8, seed=seed)
        cost = 0.3 * np.random.default_rng(seed).standard_normal(p)
        built = build(net, p, low=-1.0, high=2.0, output=kind, sense="maximize", cost=cost)
        built.model.addCons(built.x.sum() <= 1.0)
        axis = np.linspace(-1.0, 2.0, 601)
        grid = np.array(list(itertools.product(axis, repeat=p)))
        grid = grid[grid.sum(axis=1) <= 1.0]
        with torch.no_grad():
            raw = net(torch.tensor(grid)).numpy()[:, 0]
        best = (grid @ cost + (raw > 0 if kind == "classification" else raw)).max()
        result = lagrangian_bound(built.problem, time_limit=LONG)
        assert result.bound >= best - 1e-9
        assert result.objective <= result.bound
        if kind == "regression":
            assert result.status == "closed"
            assert result.bound == pytest.approx(best, abs=0.05)
            assert result.bound >= result.objective >= best - 1e-5


def test_a_smooth_network_is_bounded_too() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 4), nn.Sigmoid(), nn.Linear(4, 1)
    ).double()
    built = build(net, 2, vtype="I", low=-2, high=2)
    with torch.no_grad():
        optimum = float(net(torch.tensor(lattice(-2, 2, 2))).min())
    result = lagrangian_bound(built.problem, time_limit=LONG)
    assert result.status == "closed"
    assert optimum - 1e-5 <= result.bound <= optimum


def test_a_model_that_dual_presolving_got_wrong() -> None:
    """With row tolerance 1e-9, SCIP 10.0.2 cut the optimum off in a node of this search."""
    problem, optimum = knapsack(seed=5, p=12, cap=6)
    result = lagrangian_bound(problem, time_limit=LONG)
    assert result.status == "closed"
    assert optimum - 1e-5 <= result.bound <= optimum


def test_forms_aimed_at_a_point_hold_on_the_whole_box() -> None:
    for seed in range(5):
        problem, _ = knapsack(seed=seed, p=4, h=8, cap=3)
        incumbent = start_run(problem, np.inf, 0).verified(None)
        search = input_search.SpatialBranchAndBound(incumbent, np.inf)
        search.bound_by_ranges()
        root = search.open.heap[0][2]
        root.point = np.random.default_rng(seed).random(5)
        (batch,) = relaxation.bound_networks(search.instance, [(root, (0, 0))], crown)
        input_search.optimise_bounds(batch, steps=10)
        plain, aimed = root.output_bounds[0, 0].linear
        u = np.random.default_rng(1).random((2000, 4))
        f = problem.predictors[0].raw(u)
        for form in (plain, aimed):
            assert (u @ form.weights.T + form.constant <= f * form.sign).all()
        at = search.instance.maps[0].at(root.point)[0]
        assert aimed.weights[0] @ at + aimed.constant[0] >= (
            plain.weights[0] @ at + plain.constant[0]
        )


def test_a_good_solution_ends_the_search_early_and_a_false_one_is_judged_anew() -> None:
    problem, optimum = knapsack()
    whole = lagrangian_bound(problem, time_limit=LONG)
    solution = DualDecomposition(max_iterations=10).solve(problem, time_limit=LONG)
    known = lagrangian_bound(problem, solution, time_limit=LONG)
    assert known.bound <= optimum <= known.objective + ROUNDING
    assert known.objective <= solution.objective
    assert known.nodes <= whole.nodes
    cheaper = DualDecomposition(max_iterations=10).solve(knapsack(offset=-1.0)[0], time_limit=LONG)
    judged = lagrangian_bound(problem, cheaper, time_limit=LONG)
    assert judged.bound <= optimum <= judged.objective + ROUNDING
    assert judged.objective == problem.verify(judged.point).objective


PAST = 50  # looks at the clock after the last one within a limit


def test_any_time_limit_gives_a_valid_bound_and_the_model_is_untouched() -> None:
    problem, optimum = knapsack(seed=5, p=12, cap=6)
    before = [
        (v.name, v.getLbOriginal(), v.getUbOriginal(), v.getObj()) for v in problem.model.getVars()
    ]
    bounds = []
    for limit in (
        -1.0,
        0.0,
        1.0,
        100.0,
        1000.0,
    ):  # looks at the clock, which goes on by a second with each
        with using(clock := Ticking()):
            bounds.append(lagrangian_bound(problem, time_limit=limit))
        assert bounds[-1].status == "time_limit"
        assert clock.looks <= max(limit, 0) + PAST
    assert bounds[2].nodes <= bounds[3].nodes < bounds[4].nodes
    assert [b.status for b in bounds[:2]] == ["time_limit"] * 2
    assert [b.nodes for b in bounds[:2]] == [0, 0]
    assert all(b.bound <= optimum for b in bounds)
    assert bounds[0].bound > -100
    assert before == [
        (v.name, v.getLbOriginal(), v.getUbOriginal(), v.getObj()) for v in problem.model.getVars()
    ]
    assert problem.model.getNConss() == 1
    assert problem.model.getStageName() == "PROBLEM"


def test_an_interrupt_leaves_a_valid_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, optimum = knapsack(seed=5, p=12, cap=6)
    solve = input_search.SpatialBranchAndBound._solve
    calls = itertools.count()

    def interrupted(self: input_search.SpatialBranchAndBound, node: input_search.BoxNode) -> None:
        if next(calls) == 30:
            raise KeyboardInterrupt
        solve(self, node)

    monkeypatch.setattr(input_search.SpatialBranchAndBound, "_solve", interrupted)
    result = lagrangian_bound(problem)
    assert result.status == "interrupted"
    assert result.nodes == 30
    assert result.bound == result.history[-1][1] < optimum


def test_what_cannot_be_bounded_says_so() -> None:
    model = Model()
    x = model.addMatrixVar((1, 2), vtype="B")
    y = model.addMatrixVar((1, 1), lb=None)
    t = model.addVar(lb=None, ub=None)
    model.setObjective(y[0, 0] + t)
    problem = NeuralMIP(model)
    problem.add_predictor(relu_net(2), x, y)
    result = lagrangian_bound(problem)
    assert (result.status, result.bound, result.gap) == ("unbounded", None, None)
    assert "bound       none" in repr(result)
    assert dual_value(problem, np.zeros(2)) == -np.inf


def test_refusals() -> None:
    problem = hand_sized()
    with pytest.raises(ProblemError, match="got 5 multipliers, but 2"):
        dual_value(problem, np.zeros(5))
    with pytest.raises(ProblemError, match="NaN"):
        dual_value(problem, [np.nan, 0.0])
    with pytest.raises(TypeError, match="NeuralMIP"):
        dual_value(problem.model, [0.0, 0.0])
    model = Model()
    x = model.addMatrixVar((1, 4), lb=0, ub=1)
    y = model.addMatrixVar((1, 1), lb=None)
    recurrent = NeuralMIP(model)
    recurrent.add_predictor(lstm(depth=1, width=2, n_in=4).eval(), x, y)
    for bound in (lagrangian_bound, crown_multipliers):
        with pytest.raises(UnsupportedNetworkError, match="LSTM"):
            bound(recurrent)


def test_every_input_fixed_is_one_relaxation() -> None:
    built = build(relu_net(2), 2, low=0.5, high=0.5)
    result = lagrangian_bound(built.problem)
    value = float(built.problem.predictors[0].raw(np.full((1, 2), 0.5))[0, 0])
    assert (result.status, result.multipliers.size) == ("closed", 0)
    assert value - 1e-5 <= result.bound <= value


def test_the_hand_sized_problem_and_its_repr() -> None:
    result = lagrangian_bound(hand_sized())
    assert result.bound == pytest.approx(0.5, abs=2e-6)
    assert result.gap < 2e-6
    assert repr(result).startswith("Lagrangian bound: CROWN, branching")
    assert "status      closed" in repr(result)

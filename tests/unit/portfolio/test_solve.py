"""One call for any problem: what it chooses, what it proves, what it says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import NeuralMIP, solve
from ddmip_lib.clock import using
from ddmip_lib.portfolio import choosing
from ddmip_lib.portfolio.solving import MAX_ROUNDS_WITHOUT_IMPROVEMENT, Portfolio
from tests.builders.clocks import LONG, Ticking
from tests.builders.instances import build, relu_net, tiny

torch.set_num_threads(1)


@pytest.mark.parametrize("tabulate", [True, False])
def test_random_problems_equal_enumeration(tabulate, monkeypatch):
    if not tabulate:
        monkeypatch.setattr(choosing, "combinations", lambda instance: None)
        monkeypatch.setattr(choosing, "max_values", lambda instance: np.inf)
    right = 0
    for seed in range(10):
        instance = tiny(seed)
        solution = solve(instance.problem, time_limit=LONG, seed=seed)
        best = instance.optimum()
        if best is None:
            assert solution.status == "infeasible"
            right += 1
            continue
        assert instance.problem.verify(solution).feasible
        right += abs(solution.objective - best) <= 1e-6 * max(1.0, abs(best))
        if solution.bound is not None:
            assert instance.sign * solution.bound <= instance.sign * best + 1e-9
    assert right == 10 if tabulate else right >= 8


def test_the_log_says_what_was_chosen_and_why():
    problem = build(relu_net(3, width=10, seed=2), 3, low=-1.0, high=1.0).problem
    solution = solve(problem, time_limit=LONG)
    log = solution.details["log"]
    assert [turn.method for turn in log] == [
        "first points",
        "sequential MIP",
        "proof",
    ]  # an exact model had nothing better
    assert solution.status == "optimal"
    assert solution.bound == pytest.approx(solution.objective, abs=1e-4)
    assert "3 free inputs (0 integer); ReLU" in repr(log)
    assert max(map(len, repr(log).splitlines())) <= 100


def test_the_best_point_is_handed_on():
    problem = build(relu_net(3, width=10, seed=2), 3, low=-1.0, high=1.0).problem
    start = problem.start
    solution = solve(problem, time_limit=LONG)
    objectives = [turn.objective for turn in solution.details["log"]]
    assert objectives == sorted(objectives, reverse=True)
    assert problem.start is start  # the user's own is what it was


def test_improvements_are_dated_when_they_were_found():
    problem = build(relu_net(4, width=12, seed=2), 4, low=-1.0, high=1.0).problem
    solution = solve(problem, time_limit=LONG)
    moments, objectives = zip(*solution.details["incumbents"], strict=True)
    first = solution.details["log"][1]
    assert (
        len(moments) > 1
    )  # most of them by the first method, which goes on when the best is known
    assert first.method == "sequential MIP"
    assert first.objective == objectives[-1] == solution.objective
    assert list(moments) == sorted(moments)
    assert moments[-1] <= solution.seconds  # which the same clock told later
    assert list(objectives) == sorted(objectives, reverse=True)


def test_blocks_are_found_and_priced():
    problem = water_potability(n=4, net=mlp(1, 4, 9, seed=1), seed=42)
    problem.blocks = None
    solution = solve(problem, time_limit=LONG)
    assert solution.details["log"][0].method == "price coordination"
    assert solution.details["log"][0].reason.startswith("4 blocks")
    assert problem.verify(solution).feasible


def test_networks_that_nobody_can_bound_still_get_a_point():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 6), nn.GELU(), nn.Linear(6, 1)).double().eval()
    solution = solve(build(net, 2, low=-1.0, high=1.0).problem, time_limit=LONG)
    assert solution.found
    assert solution.bound is None
    assert [turn.status for turn in solution.details["log"] if turn.method == "proof"] == [
        "not possible"
    ]


def test_methods_have_turns_with_other_seeds_until_three_rounds_find_nothing_better(monkeypatch):
    seeds = []
    take = Portfolio.take

    def noted(self, solver, seconds, why, seed):
        seeds.append((solver.method, seed))
        take(self, solver, seconds, why, seed)

    monkeypatch.setattr(Portfolio, "take", noted)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 6), nn.GELU(), nn.Linear(6, 1)).double().eval()
    solution = solve(build(net, 2, low=-1.0, high=1.0).problem, time_limit=LONG, seed=5)
    others = ("first points", "proof")
    log = [turn for turn in solution.details["log"] if turn.method not in others]
    assert solution.status == "converged"
    assert seeds == [
        (turn.method, 5 + k // 2) for k, turn in enumerate(log)
    ]  # two methods take turns
    last = [turn.objective for turn in log][-2 * MAX_ROUNDS_WITHOUT_IMPROVEMENT - 1 :]
    assert len(last) == 2 * MAX_ROUNDS_WITHOUT_IMPROVEMENT + 1
    assert set(last) == {solution.objective}


def test_a_proof_that_would_not_close_in_time_leaves_it_to_the_methods(monkeypatch):
    """A network that no search of so few nodes closes; the run is stopped when the methods have had
    a turn after it. Time passes with looks at the clock, so the shares of methods and proof are
    counted in looks.
    """
    turns = []
    take = Portfolio.take

    def counted(self, solver, seconds, why, seed):
        turns.append(solver.method)
        take(self, solver, min(seconds, 2.0), why, seed)
        self.ended = "stopped" if len(turns) == 3 else self.ended

    monkeypatch.setattr(Portfolio, "take", counted)
    problem = build(relu_net(40, width=150, seed=1), 40, low=-1.0, high=1.0).problem
    with using(Ticking(step=0.1)):
        log = solve(problem, time_limit=1000.0).details["log"]
    assert [turn.method for turn in log] == [
        "first points",
        "sequential MIP",
        "dual decomposition",
        "proof",
        "sequential MIP",
    ]
    assert log[3].status == "given up"
    assert log[3].bound <= log[3].objective


def test_a_problem_without_networks_is_refused():
    built = build(relu_net(2), 2)
    with pytest.raises(ValueError, match="no predictor"):
        solve(NeuralMIP(built.model))


def test_networks_without_an_exact_model_are_bounded_by_lines():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 1)).double().eval()
    solution = solve(build(net, 2, low=-1.0, high=1.0).problem, time_limit=LONG)
    assert solution.details["log"][-1].reason.startswith("linear bounds")
    assert solution.status == "optimal"
    assert solution.bound == pytest.approx(solution.objective, abs=1e-4)


def test_the_report_names_what_the_nearest_point_of_any_method_violates():
    built = build(
        nn.Sequential(nn.Linear(2, 4), nn.GELU(), nn.Linear(4, 1)).double().eval(),
        2,
        low=-1.0,
        high=1.0,
    )
    built.model.addCons(built.problem.predictors[0].outputs[0, 0] >= 50, name="out of reach")
    solution = solve(built.problem, time_limit=LONG)
    assert solution.status == "no_solution_found"
    assert "constraint out of reach is" in solution.report()

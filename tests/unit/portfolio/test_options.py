"""What a call of `solve` or `certify` may ask for: a gap, a target, threads, points or a proof."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from ddmip_lib import Solution, certify, solve
from ddmip_lib.methods import start_run
from ddmip_lib.model.goal import Goal
from ddmip_lib.model.solution import Proof
from ddmip_lib.model.verification import OPTIMAL_GAP
from ddmip_lib.problems import hand_sized
from ddmip_lib.proofs import CLOSED
from tests.builders.clocks import LONG
from tests.builders.instances import Built, build, relu_net

costs = st.floats(-1e6, 1e6)
gaps = st.floats(0.0, 1.0)


def wavy(inputs: int = 2) -> Built:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, 1)).double()
    return build(net, inputs, low=-1.0, high=1.0)


@given(costs, gaps, gaps)
def test_a_larger_gap_allows_more_and_a_search_aims_at_less_than_is_allowed(
    cost: float, first: float, second: float
) -> None:
    small, large = sorted([first, second])
    unit = max(1.0, abs(cost))
    assert Goal(small).allowed(cost, unit) <= Goal(large).allowed(cost, unit)
    assert Goal(large).aimed(cost, unit) <= Goal(large).allowed(cost, unit)
    assert Goal.of(None).aimed(cost, unit) <= Goal.of(OPTIMAL_GAP).aimed(cost, unit)
    assert Goal(small, absolute_gap=second).allowed(cost, unit) >= second
    assert Goal(0.0).allowed(cost, unit) == 0.0


@given(costs, costs, st.sampled_from([-1.0, 1.0]))
def test_a_target_is_reached_by_objectives_at_least_as_good(
    target: float, objective: float, sign: float
) -> None:
    goal = Goal(target=target)
    assert goal.reached(objective, sign) == (sign * (target - objective) >= 0)
    assert not goal.reached(None, sign)
    assert not Goal().reached(objective, sign)


@pytest.mark.parametrize(
    ("difference", "asked", "status"),
    [
        (4e-5, None, "optimal"),
        (6e-5, None, ""),
        (1.9e-5, 1e-5, "optimal"),
        (2.1e-5, 1e-5, ""),
        (6e-5, 1e-3, "gap_limit"),
    ],
)
def test_the_status_follows_from_the_gap_and_what_was_asked(
    difference: float, asked: float | None, status: str
) -> None:
    """The optimum is 0.5. Its unit is 2, so that 2e-5 is within the tolerances of a bound."""
    run = start_run(hand_sized(), 1.0, 0)
    run.goal = Goal.of(asked)
    incumbent = run.incumbent(with_start=False)
    assert incumbent.consider(np.array([1.0, 1.0, 0.0])).objective == 0.5
    assert incumbent.units.objective(0.5) * CLOSED == 2e-5
    run.raise_bound(0.5 - difference)
    assert run.gap_closed == bool(status)
    if status:
        assert run.closed_status == status


def test_a_solution_is_called_optimal_up_to_the_gap_of_the_usual_solvers() -> None:
    best = solve(hand_sized(), time_limit=LONG)
    fields: dict[str, Any] = {"verification": best.verification, "values": best.values}
    proof = Proof("", "a proof", checked=True)
    close = Solution("optimal", "by hand", 0.5, 0.5 - 1e-5, proof, **fields)
    assert close.gap == pytest.approx(1e-5)
    for bound, status in ((0.4, "optimal"), (None, "gap_limit")):
        with pytest.raises(ValueError, match=status):
            Solution(status, "by hand", 0.5, bound, proof, **fields)
    with pytest.raises(ValueError, match="gap_limit"):
        Solution("gap_limit", "by hand", 0.5, 0.4, None, **fields)


def test_a_proof_stops_at_the_gap_that_was_asked_for() -> None:
    problem = wavy().problem
    exact = solve(problem, time_limit=LONG)
    assert exact.status == "optimal"
    problem.set_start(exact)
    rough = solve(problem, time_limit=LONG, proof_only=True, gap=0.3)
    assert rough.status == "gap_limit"
    assert rough.gap_tolerance == 0.3
    assert OPTIMAL_GAP < abs(rough.objective - rough.bound) / abs(rough.objective) <= 0.3
    assert rough.objective == pytest.approx(exact.objective, abs=1e-6)
    assert "tolerance 0.3" in repr(rough)
    absolute = certify(problem, exact_point(exact), time_limit=LONG, absolute_gap=0.1)
    assert absolute.status in ("gap_limit", "optimal")
    assert abs(absolute.objective - absolute.bound) <= 0.1
    assert rough.bound <= exact.objective
    assert absolute.bound <= exact.objective


def exact_point(solution: Solution) -> Solution:
    """The point of a solution without its bound."""
    fields = {name: getattr(solution, name) for name in ("objective", "values", "verification")}
    return Solution("stopped", "a point", **fields)


@pytest.mark.parametrize("sense", ["minimize", "maximize"])
def test_a_run_ends_at_its_target(sense: str) -> None:
    built = build(relu_net(3, width=8, seed=2), 3, low=-1.0, high=1.0, sense=sense)
    problem = built.problem
    best = solve(problem, time_limit=LONG)
    assert best.status == "optimal"
    slack = 0.5 if sense == "minimize" else -0.5
    found = solve(problem, time_limit=LONG, target=best.objective + slack)
    assert found.status == "target_reached"
    sign = 1.0 if sense == "minimize" else -1.0
    assert sign * found.objective <= sign * (best.objective + slack)
    methods = {entry.method for entry in found.details["log"]}
    assert methods <= {"first points", "sequential MIP"}
    assert "interrupted" not in found.details
    problem.set_start(best)
    assert solve(problem, time_limit=LONG, target=best.objective).details["log"] == []


def test_points_without_a_proof_and_a_proof_without_a_search() -> None:
    problem = build(relu_net(2, width=6, seed=2), 2, low=-1.0, high=1.0).problem
    points = solve(problem, time_limit=LONG, points_only=True)
    assert points.status == "converged"
    assert points.bound is None
    assert "proof" not in [entry.method for entry in points.details["log"]]
    problem.set_start(points)
    proof = solve(problem, time_limit=LONG, proof_only=True)
    assert [entry.method for entry in proof.details["log"]] == ["proof"]
    assert proof.status == "optimal"
    assert proof.objective == pytest.approx(points.objective, abs=1e-9)


def test_threads_are_those_of_the_call_and_restored_after_it() -> None:
    before = torch.get_num_threads()
    wanted = before + 1
    seen = []
    solve(
        wavy().problem,
        time_limit=LONG,
        threads=wanted,
        target=np.inf,
        on_point=lambda inputs: seen.append(torch.get_num_threads()),
    )
    assert set(seen) == {wanted}
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gap": -1e-3}, "gap=-0.001"),
        ({"gap": float("nan")}, "gap=nan"),
        ({"absolute_gap": -1.0}, "absolute_gap=-1.0"),
        ({"target": float("nan")}, "target=nan"),
        ({"threads": 0}, "threads=0"),
        ({"threads": 1.5}, "threads=1.5"),
        ({"points_only": True, "proof_only": True}, "nothing to do"),
    ],
)
def test_wrong_options_are_refused_before_any_work(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        solve(hand_sized(), **arguments)


def test_what_proofs_leave_out_is_named_in_solution_and_log(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 4), nn.Softplus(), nn.Softmax(1), nn.Linear(4, 1)).double()
    built = build(net, 2, low=-1.0, high=1.0)
    built.model.addCons(built.x[0, 0] ** 3 + built.x[0, 1] ** 3 <= 0.5, name="cubic")
    with caplog.at_level(logging.INFO, "ddmip_lib"):
        solution = solve(built.problem, time_limit=LONG, target=np.inf)
    parts = solution.details["left_out"]
    assert [part.what for part in parts] == ["nonlinear cubic", "network 0 (Sequential)"]
    assert "left out    nonlinear cubic; network 0" in repr(solution)
    assert all(part.reason and part.remedy for part in parts)
    assert str(parts[0]) in caplog.messages
    assert capfd.readouterr() == ("", "")  # silent on the screen, also where it logs


def test_methods_are_logged_as_they_begin_and_end(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "ddmip_lib"):
        solve(hand_sized(), time_limit=LONG)
    assert any(message.startswith("enumeration begins") for message in caplog.messages)
    assert any("enumeration ends: optimal, objective 0.5" in text for text in caplog.messages)

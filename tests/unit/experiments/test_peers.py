"""The peers keep the promises of the library's own solvers; only what names the remedy runs without
them.
"""

import sys

import numpy as np
import pyscipopt
import pytest
import torch

from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import BigM, NeuralMIP
from ddmip_lib.clock import using
from ddmip_lib.errors import ProblemError, UnsupportedNetworkError
from ddmip_lib.model import Incumbent
from ddmip_lib.problems import hand_sized
from experiments.peers import GurobiML, OmltHighs
from tests.builders.clocks import LONG, Ticking
from tests.builders.instances import build, relu_net, tiny
from tests.builders.networks import linear

PEERS = [GurobiML, OmltHighs]
PRESENT = [
    pytest.param(p, marks=pytest.mark.skipif(not p.available(), reason="needs the extra [peers]"))
    for p in PEERS
]
needs_gurobi = pytest.mark.skipif(not GurobiML.available(), reason="needs the extra [peers]")


@pytest.fixture(params=PRESENT)
def peer(request):
    return request.param()


@pytest.mark.parametrize("kind", PEERS)
def test_a_missing_package_is_an_import_error_that_names_the_extra(kind, monkeypatch):
    for module in kind.packages:
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            assert not kind.available()
            with pytest.raises(
                ImportError, match=rf"not installed: .*{kind.packages[module]}.*book\[peers\]"
            ):
                kind().solve(hand_sized())


@pytest.mark.parametrize("kind", PEERS)
@pytest.mark.parametrize(
    ("arguments", "text"), [({"margin": -1.0}, "margin"), ({"threads": 0}, "threads")]
)
def test_bad_arguments(kind, arguments, text):
    with pytest.raises(ValueError, match=text):
        kind(**arguments)


@pytest.mark.parametrize("seed", range(8))
def test_optimum_and_bound_agree_with_enumeration(peer, seed):
    instance = tiny(seed)
    solution = peer.solve(instance.problem, time_limit=LONG, seed=seed)
    best = instance.optimum()
    assert best is not None
    assert solution.status == "claimed_optimal"  # nobody checks what a peer says
    assert solution.objective == pytest.approx(best, abs=1e-5)
    assert solution.bound == pytest.approx(best, abs=1e-4)
    assert solution.details["claimed"] == pytest.approx(best, abs=1e-4)
    assert instance.problem.verify(solution).feasible


def test_same_seed_same_answer_and_nothing_of_the_users_is_changed(peer):
    problem = tiny(2).problem
    model = problem.model
    net = problem.predictors[0].net
    weights = [p.clone() for p in net.parameters()]
    before = [(v.name, v.getLbOriginal(), v.getUbOriginal(), v.getObj()) for v in model.getVars()]
    first, second = (peer.solve(problem, time_limit=LONG, seed=5) for _ in range(2))
    np.testing.assert_array_equal(first.values, second.values)
    assert [
        (v.name, v.getLbOriginal(), v.getUbOriginal(), v.getObj()) for v in model.getVars()
    ] == before
    assert all(torch.equal(a, b) for a, b in zip(weights, net.parameters(), strict=True))


@pytest.mark.parametrize("limit", [0.0, -1.0])
def test_no_time_gives_a_status(peer, limit):
    solution = peer.solve(tiny(0).problem, time_limit=limit)
    assert (solution.status, solution.objective, solution.bound) == ("time_limit", None, None)


@pytest.mark.parametrize("vtype", ["B", "C"])
def test_of_infeasible_rows_it_is_said_that_nothing_was_found(peer, vtype):
    built = build(relu_net(2), 2, vtype=vtype)
    built.model.addCons(built.x.sum() >= 3)
    solution = peer.solve(built.problem, time_limit=LONG)
    assert solution.status == "no_solution_found"
    assert not solution.found


def test_contradictory_rows_on_outputs_give_a_status(peer):
    built = build(relu_net(2), 2, vtype="B")
    built.model.addCons(built.y[0, 0] >= 1e3)
    assert peer.solve(built.problem, time_limit=LONG).status == "no_solution_found"


def test_an_unbounded_objective_is_an_error(peer):
    built = build(relu_net(2), 2)
    free = built.model.addVar(lb=None)
    built.model.setObjective(free)
    with pytest.raises(ProblemError, match="unbounded"):
        peer.solve(built.problem, time_limit=LONG)


def test_infeasible_with_an_unbounded_objective_is_no_error(peer):
    built = build(relu_net(2), 2)
    free = built.model.addVar(lb=None)
    built.model.addCons(built.x.sum() >= 3)
    built.model.setObjective(free)
    assert peer.solve(built.problem, time_limit=LONG).status == "no_solution_found"


def test_a_linear_network_without_integers_is_an_lp(peer):
    net = torch.nn.Linear(3, 1).double().eval()
    solution = peer.solve(build(net, 3, sense="maximize").problem, time_limit=LONG)
    best = net.weight.clamp(min=0).sum().item() + net.bias.item()
    assert (solution.status, solution.objective) == (
        "claimed_optimal",
        pytest.approx(best, abs=1e-6),
    )
    assert solution.bound == pytest.approx(best, abs=1e-6)


def test_plain_numbers_fixed_variables_idle_variables_and_an_offset(peer):
    net = relu_net(3, seed=11)
    model = pyscipopt.Model()
    free = model.addVar(vtype="B")
    fixed = model.addVar(lb=0.5, ub=0.5)
    model.addVar("idle", lb=2.0, ub=3.0)
    y = model.addMatrixVar((1, 1), lb=None)
    model.setObjective(y[0, 0] + 7.0, "maximize")
    problem = NeuralMIP(model)
    problem.add_predictor(net, [[free, fixed, -0.25]], y)
    solution = peer.solve(problem, time_limit=LONG)
    with torch.no_grad():
        values = net(
            torch.tensor([[0.0, 0.5, -0.25], [1.0, 0.5, -0.25]], dtype=torch.float64)
        ).numpy()
    assert solution.objective == pytest.approx(values.max() + 7.0, abs=1e-6)
    assert solution.bound == pytest.approx(values.max() + 7.0, abs=1e-5)


def test_a_minimised_class_must_follow_the_network(peer):
    built = build(linear(1.0, bias=5.0), 1, low=-1.0, output="classification")
    solution = peer.solve(built.problem, time_limit=LONG)
    assert (solution.objective, solution.bound) == (1.0, pytest.approx(1.0))


def test_water_starts_untreated_and_agrees_with_the_exact_model(peer):
    problem = water_potability(n=2, net=relu_net(9, width=3, seed=3), seed=1)
    solution, ours = (solver.solve(problem, time_limit=LONG, seed=1) for solver in (peer, BigM()))
    assert (solution.status, ours.status) == ("claimed_optimal", "optimal")
    assert solution.objective == ours.objective == solution.bound
    untreated = problem.predictors[0].predict(problem.start[0]).sum()
    assert solution.details["incumbents"][0][1] == untreated
    assert solution.verification.smallest_logit > 1e-4
    assert min(solution.details["build_seconds"], solution.details["solve_seconds"]) > 0


def test_the_solver_itself_holds_the_start(peer):
    problem = water_potability(n=4, net=relu_net(9, width=8, seed=6), seed=42)
    untreated = problem.predictors[0].predict(problem.start[0]).sum()
    assert untreated > 0
    solution = peer.solve(problem, time_limit=LONG)
    assert solution.details["claimed"] >= untreated
    assert solution.bound >= solution.objective >= untreated


def test_time_limit_covers_the_build(peer):
    problem = water_potability(n=40, net=mlp(6, 64, 9), seed=42)
    with using(Ticking()):  # each look at the clock takes a second
        solution = peer.solve(problem, time_limit=10.0)
    assert solution.status == "time_limit"
    assert solution.objective is not None  # the start point
    assert "solve_seconds" not in solution.details


def test_a_failure_while_an_incumbent_is_verified_is_not_lost(peer, monkeypatch):
    problem = water_potability(n=2, net=relu_net(9, width=3, seed=3), seed=1)
    consider = Incumbent.consider
    calls = []

    def fail_once(self, values):
        calls.append(values)
        if len(calls) == 2:
            raise RuntimeError("verification broke")
        return consider(self, values)

    monkeypatch.setattr(Incumbent, "consider", fail_once)
    with pytest.raises(RuntimeError, match="verification broke"):
        peer.solve(problem, time_limit=LONG)


def test_progress_bar_shows_the_incumbent(peer, capsys):
    peer.solve(tiny(1).problem, time_limit=LONG, progress=True)
    assert "best " in capsys.readouterr().err


def test_what_a_peer_cannot_read_is_refused_before_any_work(peer):
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1)).eval()
    with pytest.raises(UnsupportedNetworkError, match="Tanh"):
        peer.solve(build(net, 2).problem)
    built = build(relu_net(2), 2)
    built.model.addCons(built.x[0, 0] * built.x[0, 1] <= 0.5)
    with pytest.raises(ProblemError, match="BigM"):
        peer.solve(built.problem)


@needs_gurobi
def test_a_model_beyond_the_free_licence_is_a_result_with_its_size():
    problem = water_potability(n=40, net=relu_net(9, width=20), seed=42)
    solution = GurobiML().solve(problem, time_limit=LONG)
    if solution.found:
        pytest.skip("a full Gurobi licence is installed")
    assert (solution.status, solution.bound) == ("no_solution_found", None)
    size = solution.details["model_variables"]
    assert size == 40 * (9 * 3 + 2 + 2 * 20)
    assert f"{size} variables" in solution.details["message"]
    assert "licence" in repr(solution)

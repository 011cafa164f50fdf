"""The exact model against brute force, and what it refuses."""

import itertools

import numpy as np
import pyscipopt
import pytest
import torch

from ddmip_book.experiments.networks import load_weights, untrained
from ddmip_book.experiments.store import results_folder
from ddmip_book.networks import lstm, mlp
from ddmip_book.problems import water_potability
from ddmip_lib import BigM, NeuralMIP
from ddmip_lib.baselines.scip_run import contradicts_incumbents
from ddmip_lib.clock import using
from ddmip_lib.errors import UnsupportedNetworkError
from ddmip_lib.methods import start_run
from ddmip_lib.model import Incumbent
from tests.builders.clocks import LONG, Ticking
from tests.builders.instances import build
from tests.builders.networks import linear


def random_net(seed, n_in, n_out=1):
    """A 2x5 ReLU network whose outputs vary over the integers of a small box."""
    net = mlp(2, 5, n_in, n_out=n_out, seed=seed)
    torch.manual_seed(seed)
    with torch.no_grad():
        for weight in net.parameters():
            weight.copy_(torch.randn_like(weight))
    return net


def tiny(seed, kind):
    """Two rows of three integer inputs in {0,1,2} tied by a budget row: 3^6 points."""
    rng = np.random.default_rng(seed)
    net = random_net(seed, 3)
    m = pyscipopt.Model()
    x = m.addMatrixVar((2, 3), vtype="I", lb=0, ub=2)
    y = (
        m.addMatrixVar((2, 1), vtype="B")
        if kind == "classification"
        else m.addMatrixVar((2, 1), lb=None)
    )
    cost = rng.normal(size=(2, 3))
    weights = rng.uniform(0.5, 2.0, size=2) * (
        1 if kind == "classification" else rng.choice([-1, 1])
    )
    m.addCons(x.sum() <= 6)
    if kind == "classification" and seed % 2:
        m.addCons(y[0, 0] + y[1, 0] <= 1)  # now a larger y may hurt
    m.setObjective((x * (0.2 * cost)).sum() + (y[:, 0] * weights).sum() + 3.0, "maximize")
    problem = NeuralMIP(m)
    problem.add_predictor(net, x, y, output=kind)
    most = 1 if kind == "classification" and seed % 2 else np.inf
    return problem, best_of_all(net.double(), kind, most, cost, weights)


def best_of_all(net, kind, most, cost, weights):
    """The largest objective of `tiny` over all points, None without a feasible one; at most `most`
    rows have class 1.
    """
    best = None
    for point in itertools.product(range(3), repeat=6):
        grid = np.array(point, dtype=float).reshape(2, 3)
        with torch.no_grad():
            f = net(torch.tensor(grid)).numpy()[:, 0]
        out = (f > 0).astype(float) if kind == "classification" else f
        if grid.sum() > 6 or out.sum() > most:
            continue
        value = (grid * 0.2 * cost).sum() + weights @ out + 3.0
        best = value if best is None else max(best, value)
    return best


@pytest.mark.parametrize("formulation", ["bigm", "sos"])
@pytest.mark.parametrize("kind", ["regression", "classification"])
@pytest.mark.parametrize("seed", range(4))
def test_optimum_bound_and_brute_force_agree(seed, kind, formulation):
    problem, best = tiny(seed, kind)
    solution = BigM(formulation).solve(problem, time_limit=LONG)
    if best is None:
        assert solution.objective is None
        assert solution.status == "no_solution_found"
        return
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(best, abs=1e-5)
    assert (
        best - 1e-6 <= solution.bound <= best + 1e-3
    )  # above the optimum: SCIP proves within its tolerances
    assert problem.verify(solution).feasible


def test_without_a_free_class_the_reverse_implication_is_built():
    problem, _ = tiny(1, "classification")
    instance = problem.instance()
    assert not instance.milp.is_monotone(int(instance.maps[0].output[0, 0]))
    problem, _ = tiny(0, "classification")
    instance = problem.instance()
    assert instance.milp.is_monotone(int(instance.maps[0].output[0, 0]))


def test_a_minimised_class_must_follow_the_network():
    """Minimising y, the model must not set y = 0 where the network says 1."""
    built = build(linear(1.0, bias=5.0).float(), 1, low=-1.0, output="classification")
    for solver in (BigM(), BigM(check=False)):  # a check would mend the bound of a wrong model
        solution = solver.solve(built.problem, time_limit=LONG)
        assert solution.objective == 1.0
        assert solution.bound == pytest.approx(1.0)


def test_margin_makes_classes_survive_verification():
    problem = water_potability(n=4, net=random_net(3, 9), seed=1)
    solution = BigM(margin=1e-3).solve(problem, time_limit=LONG)
    assert solution.verification.smallest_logit > 1e-4
    assert solution.objective == np.sum(solution.outputs[0])


def test_start_point_is_held_from_the_first_moment():
    """Every look at the clock is a second later: what the parts took is counted in looks."""
    problem = water_potability(n=3, net=random_net(5, 9), seed=42)
    untreated = problem.predictors[0].predict(problem.start[0]).sum()
    with using(Ticking()):
        solution = BigM().solve(problem, time_limit=LONG)
    assert solution.objective >= untreated
    assert solution.details["incumbents"][0][1] == untreated
    parts = solution.details["build_seconds"], solution.details["solve_seconds"]
    assert min(parts) > 0
    assert sum(parts) < solution.seconds
    assert solution.bound >= solution.objective


def test_time_limit_covers_the_build(monkeypatch):
    """Each look at the clock takes a second, and the clock is looked at before each sample is
    written.
    """
    monkeypatch.setattr("ddmip_lib.baselines.bigm.UNITS_PER_CHUNK", 1)
    problem = water_potability(n=40, net=mlp(2, 8, 9), seed=42)
    with using(clock := Ticking()):
        solution = BigM().solve(problem, time_limit=20.0)
    assert solution.status == "time_limit"
    assert clock.looks < 30
    assert solution.objective is not None  # the start point
    assert "solve_seconds" not in solution.details  # it stopped before the whole model was built


def test_networks_without_an_exact_model_are_refused_before_any_work():
    problem = water_potability(n=3, net=lstm(1, 4, 9), seed=42)
    with pytest.raises(UnsupportedNetworkError, match="DualDecomposition"):
        BigM().solve(problem)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"formulation": "big-m"}, "bigm"),
        ({"margin": -1.0}, "margin"),
        ({"epsilon": 1e-5}, "feastol"),
    ],
)
def test_bad_arguments(arguments, text):
    with pytest.raises(ValueError, match=text):
        BigM(**arguments)


def test_plain_numbers_and_fixed_variables_enter_the_exact_model():
    net = random_net(11, 3)
    m = pyscipopt.Model()
    free = m.addVar(vtype="B")
    fixed = m.addVar(lb=0.5, ub=0.5)
    y = m.addMatrixVar((1, 1), lb=None)
    m.setObjective(y[0, 0], "maximize")
    problem = NeuralMIP(m)
    problem.add_predictor(net, [[free, fixed, -0.25]], y)
    solution = BigM().solve(problem, time_limit=LONG)
    with torch.no_grad():
        values = net.double()(
            torch.tensor([[0.0, 0.5, -0.25], [1.0, 0.5, -0.25]], dtype=torch.float64)
        ).numpy()
    assert solution.objective == pytest.approx(values.max(), abs=1e-6)


def stored_survival(seed: int = 42, species: str = "quercus_alba"):
    """The 8x32 network of one species, as experiment E5 stores it."""
    path = results_folder() / "networks" / f"tree_{species}_8x32_seed{seed}.npz"
    return load_weights(untrained("8x32", 7, seed), path)


def one_site(net, features):
    """Sterilise one site or not, for the larger survival: two points, written as an exact model of
    256 units.
    """
    model = pyscipopt.Model()
    z = model.addVar(vtype="B")
    y = model.addMatrixVar((1, 1), lb=None)
    inputs = np.array([[*features, z]], dtype=object)
    model.setObjective(y[0, 0], "maximize")
    problem = NeuralMIP(model)
    problem.add_predictor(net, inputs, y)
    return problem


def test_networks_with_small_weights_are_not_called_infeasible():
    net = stored_survival()
    rng = np.random.RandomState(0)
    for _ in range(
        20
    ):  # with SCIP's own epsilon several are infeasible, one is optimal at the worse point
        features = rng.uniform(size=6).round(2)
        solution = BigM().solve(one_site(net, features), time_limit=LONG)
        best = (
            net(torch.tensor([[*features, 0.0], [*features, 1.0]], dtype=torch.float64))
            .max()
            .item()
        )
        assert solution.status == "optimal"
        assert solution.objective == pytest.approx(best, abs=1e-5)
        assert solution.bound >= best - 1e-5


def test_deep_networks_at_several_sites_are_not_optimal_at_a_wrong_point():
    """With aggregation SCIP has called a worse point of this model optimal, also with epsilon
    1e-13.
    """
    net = stored_survival(species="prunus_serotina")
    sites = np.random.RandomState(0).uniform(size=(4, 6)).round(2)
    model = pyscipopt.Model()
    z = model.addMatrixVar((4, 1), vtype="B")
    y = model.addMatrixVar((4, 1), lb=None)
    model.setObjective(y.sum(), "maximize")
    problem = NeuralMIP(model)
    problem.add_predictor(net, np.hstack([sites.astype(object), z]), y)
    best = sum(
        net(torch.tensor([[*site, 0.0], [*site, 1.0]], dtype=torch.float64)).max().item()
        for site in sites
    )
    solution = BigM().solve(problem, time_limit=LONG, seed=42)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(best, abs=1e-4)
    assert solution.details["aggregate"] is False


def test_an_answer_that_a_verified_point_contradicts_is_asked_again():
    net = stored_survival()
    coarse = []
    fine = []
    for seed in range(5):  # rounding decides on which of them a coarse epsilon fails
        features = np.random.RandomState(seed).uniform(size=6).round(2)
        problem = one_site(net, features)
        problem.set_start(np.array([[*features, 0.0]]))
        for found, epsilon in ((coarse, 1e-6), (fine, 1e-13)):
            solver = BigM(epsilon=epsilon, aggregate=epsilon > 1e-9, scale=False, check=False)
            solution = solver.solve(problem, time_limit=LONG)
            assert solution.bound is None or solution.bound >= solution.objective - 1e-5
            found.append(solution.details["resolved_without_presolve"])
        if sum(coarse) > sum(fine):
            break
    assert sum(coarse) > sum(fine)


def infeasible_by_the_network():
    """y = net(x) for a bit x, and a row that no bit meets."""
    model = pyscipopt.Model()
    x = model.addMatrixVar((1, 1), vtype="B")
    y = model.addMatrixVar((1, 1), lb=None)
    net = random_net(0, 1)
    highest = net.double()(torch.tensor([[0.0], [1.0]], dtype=torch.float64)).max().item()
    model.addCons(y[0, 0] >= highest + 1.0)
    problem = NeuralMIP(model)
    problem.add_predictor(net, x, y)
    return problem


def test_infeasible_is_believed_the_second_time():
    run = start_run(infeasible_by_the_network(), 60.0, 0)
    solution = BigM().run(run)  # without the look at ranges, which prove it too
    assert (solution.status, solution.details["resolved_without_presolve"]) == ("infeasible", True)


@pytest.mark.parametrize(
    ("scip_status", "best", "bound", "restricted", "expected"),
    [
        ("timelimit", 1.0, 9.0, False, False),
        ("infeasible", None, 1e20, False, True),
        ("infeasible", 1.0, 1e20, False, True),
        ("optimal", None, 1.0, False, True),  # SCIP's point does not survive verification
        ("optimal", 1.0, 1.0, False, False),
        ("optimal", 1.0, 1.5, False, True),  # neither does its value
        ("optimal", 1.5, 1.0, False, True),  # a verified point is better than the optimum
        ("optimal", 1.5, 1.0, True, False),  # which a margin allows
    ],
)
@pytest.mark.parametrize("sense", ["maximize", "minimize"])
def test_which_answers_are_asked_again(scip_status, best, bound, restricted, expected, sense):
    """At most 2 can be had, and at least -2."""
    built = build(linear(2.0), 1, low=-1, high=1, sense=sense)
    sign = 1.0 if sense == "maximize" else -1.0
    incumbent = Incumbent(built.problem.instance(), 0.0)
    if best is not None:
        incumbent.consider(np.array([sign * best / 2, 0.0]))
        assert incumbent.objective == sign * best
    assert contradicts_incumbents(scip_status, sign * bound, incumbent, restricted) is expected

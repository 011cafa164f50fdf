"""Price coordination on blocks of any form, against enumeration: whole numbers, rows inside of
blocks, two outputs.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from pyscipopt import Model, quicksum
from torch import nn

from ddmip_lib import DualDecomposition, NeuralMIP, PriceCoordination
from ddmip_lib.errors import ProblemError
from ddmip_lib.linearisation import linearise
from ddmip_lib.methods import start_run
from ddmip_lib.model import Structure, find_structure
from ddmip_lib.pricing import Recovering, recover
from ddmip_lib.pricing.general_blocks import SeparableElasticModel
from ddmip_lib.pricing.general_columns import GeneralColumns
from ddmip_lib.pricing.recognition import find_blocks
from ddmip_lib.programs.lp import LPSolver
from tests.builders.clocks import LONG
from tests.builders.instances import relu_net

torch.set_num_threads(1)


@dataclass
class Family:
    r"""Blocks i with whole inputs $x_i \in \{0..3\}^2$, $x_{i1} + x_{i2} \le 4$, and a switch $z_i$
    for $x_{i1} > 0$:

    $$\max \sum_i (g_i s_i + y_{i2}) - h \sum_i z_i - o\,t \quad\text{s.t.}\quad s_i \le y_{i1}, \ s_i \le 2, \quad
    \sum_i a_i^\top x_i \le R + t, \quad \sum_i z_i \le Z, \quad t \in \{0, 1, 2\},$$

    or the same as a minimisation. The extra $t$ is the master's.
    """

    seed: int
    n: int = 3
    minimise: bool = False

    def __post_init__(self) -> None:
        draw = np.random.default_rng(self.seed)
        self.net: nn.Module = relu_net(2, width=8, q=2, seed=self.seed)
        self.gain = draw.uniform(0.5, 2.0, self.n)
        self.take = draw.uniform(0.5, 1.5, (self.n, 2))
        self.most = 2.0 * self.n
        self.open = max(1, self.n - 1)
        self.over = 0.2
        self.extra = 0.3
        self.sign = -1.0 if self.minimise else 1.0

    def problem(self) -> NeuralMIP:
        n = self.n
        model = Model()
        model.hideOutput()
        x = model.addMatrixVar((n, 2), vtype="I", ub=3, name="x")
        z = model.addMatrixVar((n,), vtype="B", name="z")
        s = model.addMatrixVar((n,), lb=-50, ub=2.0, name="s")
        y = model.addMatrixVar((n, 2), lb=None, name="y")
        t = model.addVar(vtype="I", ub=2, name="t")
        for i in range(n):
            model.addCons(x[i, 0] + x[i, 1] <= 4)
            model.addCons(x[i, 0] <= 3 * z[i])
            model.addCons(s[i] <= y[i, 0])
        model.addCons((x * self.take).sum() <= self.most + t, name="shared")
        model.addCons(z.sum() <= self.open, name="open")
        value = (
            quicksum(float(self.gain[i]) * s[i] + y[i, 1] - self.over * z[i] for i in range(n))
            - self.extra * t
        )
        model.setObjective(self.sign * value, "minimize" if self.minimise else "maximize")
        problem = NeuralMIP(model)
        problem.add_predictor(self.net, x, y)
        return problem

    def brute(self) -> float:
        grid = np.array(
            [p for p in itertools.product(range(4), repeat=2) if sum(p) <= 4], dtype=float
        )
        with torch.no_grad():
            y = self.net.double()(torch.tensor(grid)).numpy()
        opened = (grid[:, 0] > 0).astype(float)
        value = self.gain[:, None] * np.minimum(y[:, 0], 2.0) + y[:, 1] - self.over * opened
        best = -np.inf
        for choice in itertools.product(range(len(grid)), repeat=self.n):
            extra = max(
                0.0,
                np.ceil(
                    sum(grid[c] @ self.take[i] for i, c in enumerate(choice)) - self.most - 1e-9
                ),
            )
            if extra <= 2 and sum(opened[c] for c in choice) <= self.open:
                best = max(
                    best, sum(value[i, c] for i, c in enumerate(choice)) - self.extra * extra
                )
        return self.sign * best


def test_the_family_has_blocks_that_blocks_cannot_describe():
    problem = Family(0).problem()
    found = find_blocks(problem, problem.instance())
    assert isinstance(found, Structure)
    assert (found.n, found.master, found.names) == (3, 1, ("shared", "open"))


@pytest.mark.long
def test_most_optima_of_the_family_are_hit_and_no_point_is_too_good():
    hits = 0
    cases = [Family(seed, minimise=seed % 2 == 1) for seed in range(4)]
    for case in cases:
        problem = case.problem()
        exact = case.brute()
        solution = PriceCoordination(max_rounds=12).solve(problem, LONG, seed=case.seed)
        assert problem.verify(solution)
        assert case.sign * (solution.objective - exact) <= 1e-6
        hits += case.sign * (solution.objective - exact) >= -1e-6
    assert hits >= 3


def classes(capacity: float = 1.0) -> NeuralMIP:
    """Classes in blocks with a row of their own; each of three costs 0.6 of what is shared."""
    model = Model()
    x = model.addMatrixVar((3, 2), ub=1.0, name="x")
    y = model.addMatrixVar((3, 1), vtype="B", name="y")
    for i in range(3):
        model.addCons(x[i, 0] + x[i, 1] <= 1.2)
    model.addCons(x.sum() <= capacity, name="shared")
    model.setObjective(y.sum(), "maximize")
    net = nn.Linear(2, 1).double().eval()
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[1.0, 0.5]]))
        net.bias.fill_(-0.6)
    problem = NeuralMIP(model)
    problem.add_predictor(net, x, y, output="classification")
    return problem


@pytest.mark.parametrize(("capacity", "best"), [(0.5, 0), (1.0, 1), (1.3, 2), (2.0, 3)])
def test_classes_are_bought_as_far_as_the_capacity_goes(capacity, best):
    problem = classes(capacity)
    assert isinstance(find_blocks(problem, problem.instance()), Structure)
    assert PriceCoordination(max_rounds=6).solve(problem, LONG).objective == best


def test_an_equality_between_blocks_is_met_by_joined_steps():
    model = Model()
    x = model.addMatrixVar((3, 2), ub=2.0, name="x")
    y = model.addMatrixVar((3, 1), lb=None, name="y")
    for i in range(3):
        model.addCons(x[i, 0] + x[i, 1] >= 0.5)
    model.addCons(y.sum() == 8.0, name="demand")
    model.setObjective(x.sum(), "minimize")
    problem = NeuralMIP(model)
    net = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)).double().eval()
    with torch.no_grad():
        for weight in net.parameters():
            weight.copy_(torch.linspace(-1.0, 1.0, weight.numel()).reshape(weight.shape).sin())
        net[2].bias.fill_(0.1)
    problem.add_predictor(net, x, y)
    solution = PriceCoordination(max_rounds=6).solve(problem, LONG)
    assert problem.verify(solution)
    assert solution.outputs[0].sum() == pytest.approx(8.0, abs=1e-5)


def test_linear_networks_are_their_own_linearisation():
    problem = classes()
    instance = problem.instance()
    model = SeparableElasticModel(instance, find_structure(instance))
    values = np.zeros(instance.milp.n_variables)
    found = model.step(values, linearise(instance, values), 1.0, 100.0, 10.0)
    assert found is not None
    np.testing.assert_array_equal(
        instance.with_outputs(found.values), found.values
    )  # all three classes, at once
    assert found.values[instance.outputs].sum() == 3


def test_prices_of_options_are_multipliers():
    """Blocks that take 0.6 each of 1.0: the linear program values one unit more at 1 / 0.6."""
    problem = classes()
    instance = problem.instance()
    options = GeneralColumns(start_run(problem, 10, 0).incumbent(), find_structure(instance))
    for amount in (0.0, 0.6 + 1e-6):
        values = np.zeros(instance.milp.n_variables)
        values[instance.maps[0].index[:, 0]] = amount
        options.add(instance.with_outputs(values))
    assert len(options) == 6
    prices = options.prices()
    assert prices.phase_factor == 1
    assert prices.prices == pytest.approx([1 / 0.6], rel=1e-5)
    assert prices.value == pytest.approx(1 / 0.6, rel=1e-5)
    assert (options.reduced(prices) <= 1e-9).all()


def test_without_a_feasible_mixture_prices_are_those_of_what_is_lacking():
    problem = classes(0.5)
    instance = problem.instance()
    options = GeneralColumns(
        start_run(problem, 10, 0).incumbent(with_start=False), find_structure(instance)
    )
    values = np.zeros(instance.milp.n_variables)
    values[instance.maps[0].index[:, 0]] = 0.7
    options.add(instance.with_outputs(values))
    prices = options.prices()
    assert (prices.phase_factor, prices.value) == (0.0, -np.inf)
    assert prices.prices[0] > 0
    assert options.choose(np.arange(len(options)), 5.0) is None


def test_slack_of_phase_one_comes_in_the_order_that_decides_between_optimal_bases(monkeypatch):
    """First what is added to the constraints, then what is taken off: other orders lead HiGHS to
    other prices, and so the rounds to other points.
    """
    solved = []
    solve = LPSolver.solve
    monkeypatch.setattr(
        LPSolver, "solve", lambda self, program: solved.append(program) or solve(self, program)
    )
    problem = classes(0.5)
    instance = problem.instance()
    incumbent = start_run(problem, 10, 0).incumbent(with_start=False)
    columns = GeneralColumns(incumbent, find_structure(instance))
    values = np.zeros(instance.milp.n_variables)
    values[instance.maps[0].index[:, 0]] = 0.7
    columns.add(instance.with_outputs(values))
    columns.prices()
    _, phase_one = solved
    m = len(phase_one.row_lower)
    k = len(columns)
    matrix = phase_one.rows.matrix(len(phase_one.cost)).toarray()
    np.testing.assert_array_equal(matrix[:, k:], np.hstack([np.eye(m), -np.eye(m)]))
    np.testing.assert_array_equal(phase_one.cost, np.repeat([0.0, 1.0], [k, 2 * m]))


def test_visited_points_are_options_of_their_blocks():
    """Each point has the class in one block alone; the choice takes it from both."""
    problem = classes(1.3)
    points = [[np.zeros((3, 2))], [np.zeros((3, 2))]]
    points[0][0][0, 0] = points[1][0][1, 0] = 0.61
    solution = recover(problem, points, LONG)
    assert solution.objective == 2
    plain = DualDecomposition(max_iterations=3)
    assert Recovering(plain).solve(problem, LONG).objective >= (
        plain.solve(problem, LONG).objective or 0
    )


def test_the_answer_says_what_was_found_and_repeats_itself():
    problem = Family(1).problem()
    one, two = (PriceCoordination(max_rounds=4).solve(problem, LONG, seed=3) for _ in range(2))
    assert one.details["structure"].n == 3
    assert one.objective <= one.details["lp_value"] + 1e-6
    assert one.objective == two.objective
    np.testing.assert_array_equal(one.values, two.values)


def test_no_time_and_no_point_are_statuses():
    problem = classes()
    assert PriceCoordination().solve(problem, 0.0).status == "time_limit"
    problem.model.addCons(quicksum(problem.model.getVars()[:6]) >= 5, name="too much")
    assert PriceCoordination(max_rounds=2).solve(problem, LONG).status == "no_solution_found"


def test_rounds_one_by_one_are_for_blocks_of_the_plain_form():
    with pytest.raises(ProblemError, match="call solve"):
        PriceCoordination().start(classes())

"""Quadratic constraints: exact where a factor of each product is integer, else within bounds."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyscipopt import Model
from torch import nn

from ddmip_lib import BigM, NeuralMIP, SequentialMIP, solve
from ddmip_lib.model.scaling import Units
from ddmip_lib.programs import prove
from ddmip_lib.programs.products import ProductWriter
from ddmip_lib.proofs.exact import exact_program, has_exact_model


def relu(n_in: int, seed: int, hidden: int = 4) -> nn.Module:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(n_in, hidden), nn.ReLU(), nn.Linear(hidden, 1))
    return net.double().eval().requires_grad_(False)


def random_integers(seed: int) -> tuple[NeuralMIP, np.ndarray, float]:
    """A problem with products and squares of integers, its feasible points, and its optimum.

    Minimise f(x) + (1, -1, 0.5)'x over integers of both signs with x'Qx + (1, -2, 0)'x <= 2.
    """
    rng = np.random.default_rng(seed)
    q = np.round(rng.normal(size=(3, 3)), 2)
    lower = rng.integers(-3, 1, 3)
    upper = lower + rng.integers(1, 5, 3)
    model = Model()
    model.hideOutput()
    x = [model.addVar(f"x{k}", "I", float(lower[k]), float(upper[k])) for k in range(3)]
    y = model.addVar("y", lb=None)
    terms = [q[i, j] * x[i] * x[j] for i, j in itertools.product(range(3), repeat=2)]
    model.addCons(sum(terms) + x[0] - 2 * x[1] <= 2, name="quadratic")
    model.setObjective(y + x[0] - x[1] + 0.5 * x[2])
    problem = NeuralMIP(model)
    problem.add_predictor(relu(3, seed), [x], [[y]])
    points = np.stack(np.meshgrid(*map(np.arange, lower, upper + 1)), -1).reshape(-1, 3) * 1.0
    allowed = np.einsum("ni,ij,nj->n", points, q, points) + points @ [1, -2, 0] <= 2 + 1e-9
    points = points[allowed]
    values = relu(3, seed)(torch.tensor(points)).numpy().ravel() + points @ [1, -1, 0.5]
    return problem, points, float(values.min(initial=np.inf))


@pytest.mark.parametrize("seed", range(12))
def test_products_of_integers_are_exact(seed: int) -> None:
    problem, points, best = random_integers(seed)
    instance = problem.instance()
    assert not instance.milp.others
    assert not instance.left_out
    assert has_exact_model(instance)
    for point in points[:: max(1, len(points) // 10)]:
        names = {f"x{k}": value for k, value in enumerate(point)}
        given = np.array([names.get(name, 0.0) for name in instance.stated.milp.names])
        values = instance.with_outputs(instance.stated.with_outputs(given))
        activity = instance.milp.rows @ values
        assert (activity >= instance.milp.row_lower - 1e-9).all()
        assert (activity <= instance.milp.row_upper + 1e-9).all()
    found = solve(problem)
    if np.isinf(best):
        assert found.status == "infeasible"
    else:
        assert found.status == "optimal"
        assert found.objective == pytest.approx(best, abs=1e-6)
        assert problem.verify(found).feasible


@pytest.mark.parametrize("method", [BigM(), SequentialMIP(max_failed_starts=3)])
def test_methods_agree_on_products_of_integers(method) -> None:
    problem, _, best = random_integers(1)
    found = method.solve(problem)
    assert found.objective == pytest.approx(best, abs=1e-6)


def price_times_demand(n: int = 2) -> tuple[NeuralMIP, nn.Module]:
    """Maximise the revenue of n shops: price times units sold, which a network predicts."""
    net = relu(1, 5, 6)
    model = Model()
    model.hideOutput()
    price = [model.addVar(f"price{k}", lb=0.5, ub=2) for k in range(n)]
    sold = [model.addVar(f"sold{k}", lb=0, ub=10) for k in range(n)]
    demand = [model.addVar(f"demand{k}", lb=None) for k in range(n)]
    revenue = [model.addVar(f"revenue{k}", lb=0, ub=20) for k in range(n)]
    for k in range(n):
        model.addCons(sold[k] <= 4 + demand[k] - price[k])
        model.addCons(revenue[k] <= price[k] * sold[k], name=f"product{k}")
    model.addCons(sum(sold) <= 2.5 * n)
    model.setObjective(sum(revenue), "maximize")
    problem = NeuralMIP(model)
    problem.add_predictor(net, [[p] for p in price], [[d] for d in demand])
    return problem, net


def test_products_of_continuous_variables_are_bounded_closely() -> None:
    problem, net = price_times_demand()
    prices = torch.linspace(0.5, 2, 20_001, dtype=torch.float64)[:, None]
    capacity = (4 + net(prices) - prices).clamp(0, 10).ravel()
    prices = prices.ravel()
    # the best revenue of a shop that sells at most s, and the best division of the supply
    supply = np.linspace(0, 5, 501)
    one = np.array([(prices * capacity.clamp(max=s)).max().item() for s in supply])
    best = max(float(one[k] + one[-1 - k]) for k in range(len(supply)))
    found = solve(problem)
    assert found.objective >= best * (1 - 2e-3)
    assert found.bound is not None
    assert found.objective <= found.bound + 1e-9
    assert found.bound <= best * 1.005, "the digits leave less than half a per cent"
    named = [part.what for part in found.details["left_out"]]
    assert named == ["nonlinear product0", "nonlinear product1"]
    assert found.status in ("converged", "optimal")


@settings(max_examples=25)
@given(st.integers(0, 60), st.integers(0, 40))
def test_every_feasible_point_remains_in_the_exact_model(level: int, part: int) -> None:
    """With the factors fixed, the exact model allows the product, and hardly more."""
    price = 0.5 + level / 40
    problem, net = price_times_demand(1)
    demand = float(net(torch.tensor([[price]], dtype=torch.float64)).item())
    sold = part / 40 * min(2.5, max(0.0, 4 + demand - price))
    fixed = {"price0": price, "sold0": sold, "demand0": demand}
    instance = problem.instance()
    program = exact_program(instance, Units(instance, 1e-6))
    at = [instance.milp.names.index(name) for name in fixed]
    lower = program.lower.copy()
    upper = program.upper.copy()
    lower[at] = upper[at] = list(fixed.values())
    bound = -prove(program.within(lower, upper)).bound
    assert price * sold - 1e-9 <= bound <= price * sold + 1.5 * 10 / 2**14 + 1e-4


class TestWriter:
    def rows(self) -> list[tuple[list[int], list[float], float, float]]:
        return self._rows

    def writer(self, lower, upper, integer) -> ProductWriter:
        self._rows: list[tuple[list[int], list[float], float, float]] = []
        self.lower = list(lower)
        self.upper = list(upper)
        self.kinds = list(integer)

        def add_variable(low: float, high: float, whole: bool) -> int:
            self.lower.append(low)
            self.upper.append(high)
            self.kinds.append(whole)
            return len(self.lower) - 1

        def add_constraint(at, weights, low, high) -> None:
            self._rows.append((list(at), list(weights), low, high))

        return ProductWriter(add_variable, add_constraint, self.lower, self.upper, integer)

    def test_a_binary_factor_needs_no_digits(self) -> None:
        writer = self.writer([0, -2], [1, 3], [True, False])
        assert writer.product(0, 1) == [(1, 0.0), (2, 1.0)]
        assert writer.product(1, 0) == writer.product(0, 1)
        assert len(self.rows()) == 4
        assert self.kinds == [True, False, False]

    def test_the_square_of_a_binary_is_itself(self) -> None:
        writer = self.writer([0], [1], [True])
        terms = writer.product(0, 0)
        assert {at for at, _ in terms} == {0}
        assert sum(weight for _, weight in terms) == 1.0

    def test_digits_are_shared_by_products(self) -> None:
        writer = self.writer([-3, 0, 0], [4, 1, 5], [True, False, False])
        writer.product(0, 1)
        writer.product(0, 2)
        assert len(writer.digits) == 1
        assert writer.digits[0].binaries == [3, 4, 5]

    @pytest.mark.parametrize("x", range(-3, 5))
    @pytest.mark.parametrize("y", [-1.5, 0.0, 2.0])
    def test_completed_values_satisfy_the_constraints(self, x: int, y: float) -> None:
        writer = self.writer([-3, -1.5], [4, 2], [True, False])
        terms = writer.product(0, 1)
        square = writer.product(0, 0)
        values = np.zeros(len(self.lower))
        values[:2] = x, y
        writer.complete(values)
        assert sum(weight * values[at] for at, weight in terms) == pytest.approx(x * y)
        assert sum(weight * values[at] for at, weight in square) == pytest.approx(x * x)
        for at, weights, low, high in self.rows():
            assert low - 1e-9 <= np.dot(weights, values[at]) <= high + 1e-9


def test_what_has_no_finite_range_is_named() -> None:
    problem, _ = price_times_demand(1)
    variables = {v.name: v for v in problem.model.getVars()}
    free = problem.model.addVar("free", lb=None)
    problem.model.addCons(free * variables["sold0"] <= 3, name="unbounded")
    named = {part.what: part for part in problem.instance().left_out}
    assert "free has no finite range" in named["nonlinear unbounded"].reason
    assert "free" in named["nonlinear unbounded"].remedy


def test_outputs_without_bounds_may_be_factors() -> None:
    """The ranges of networks bound the products in exact models."""
    problem, net = price_times_demand(1)
    variables = {v.name: v for v in problem.model.getVars()}
    price, demand, revenue = (variables[name] for name in ("price0", "demand0", "revenue0"))
    problem.model.addCons(revenue <= 0.9 * price * demand + 3, name="of_output")
    prices = torch.linspace(0.5, 2, 20_001, dtype=torch.float64)[:, None]
    demands = net(prices)
    capacity = (4 + demands - prices).clamp(0, 2.5)
    best = torch.minimum(prices * capacity, 0.9 * prices * demands + 3).max().item()
    found = solve(problem)
    assert found.objective == pytest.approx(best, rel=1e-3)
    assert found.bound == pytest.approx(best, rel=3e-3)
    assert found.bound >= best * (1 - 1e-9)

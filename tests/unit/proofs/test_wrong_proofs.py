"""Answers that were called proved and were wrong: each is now right, or no proof."""

import numpy as np
import pytest
import torch
from pyscipopt import Model
from torch import Tensor, nn

from ddmip_lib import BigM, Enumeration, NeuralMIP, Solution
from ddmip_lib.certificates import certify, dual_value, lagrangian_bound
from tests.builders.networks import linear, relu_layers


def problem_of(
    net: nn.Module, ub: float, *, vtype: str = "C", classes: bool = False, lb: float = 0.0
) -> NeuralMIP:
    """Maximise the output, or the class, of a network of one input."""
    model = Model()
    model.hideOutput()
    x = model.addVar("x", vtype=vtype, lb=lb, ub=ub)
    y = model.addVar("y", vtype="B") if classes else model.addVar("y", lb=None)
    model.setObjective(y, "maximize")
    problem = NeuralMIP(model)
    problem.add_predictor(net, [[x]], [[y]], "classification" if classes else "regression")
    return problem


class TestABoundBelongsToItsProblem:
    def test_a_margin_proves_nothing_without_it(self) -> None:
        problem = problem_of(
            linear(1.0, bias=-1.0), 1.0005, classes=True
        )  # 1 from x > 1 on: inside the margin
        found = BigM().solve(problem)
        assert (found.status, found.objective) != ("optimal", 0.0)
        certified = certify(problem, found)
        assert certified.bound == 1.0
        assert not (certified.status == "optimal" and certified.objective == 0.0)

    def test_a_claimed_bound_with_a_margin_is_not_taken_over(self) -> None:
        problem = problem_of(linear(1.0, bias=-1.0), 1.0005, classes=True)
        found = BigM(check=False).solve(problem)
        assert found.status == "claimed_optimal"
        assert found.proof is not None
        assert (found.proof.checked, found.proof.margin) == (False, 1e-3)
        assert certify(problem, found).bound == 1.0

    def test_a_bound_of_another_problem_is_not_taken_over(self) -> None:
        low = problem_of(linear(1.0), 1.0)
        high = problem_of(linear(3.0), 1.0)
        proved = Enumeration().solve(problem_of(linear(1.0), 1, vtype="I"))
        assert proved.status == "optimal"
        assert certify(high, BigM().solve(low)).bound == pytest.approx(3.0, rel=1e-5)
        point = high.verify(np.array([0.5, 1.5]))
        foreign = Solution(
            "optimal",
            "x",
            objective=1.5,
            bound=1.5,
            proof=proved.proof,
            values=np.array([0.5, 1.5]),
            verification=point,
        )
        certified = certify(high, foreign)
        assert certified.bound == pytest.approx(3.0, rel=1e-5)
        assert certified.objective == pytest.approx(
            3.0, rel=1e-5
        )  # and the point that was met on the way
        at_once = certify(high, foreign, time_limit=0.0)  # no time to find out: nothing is said
        assert at_once.status != "optimal"
        assert at_once.bound is None or at_once.bound >= 3.0 - 1e-5

    def test_the_objective_is_recomputed(self) -> None:
        problem = problem_of(linear(1.0), 1.0)
        forged = Solution(
            "stopped",
            "x",
            objective=7.0,
            values=np.array([0.5, 0.5]),
            verification=problem.verify(np.array([0.5, 0.5])),
        )
        for found in (certify(problem, forged), lagrangian_bound(problem, forged)):
            assert found.objective == pytest.approx(1.0, rel=1e-5)
            assert found.bound == pytest.approx(1.0, rel=1e-5)

    def test_equal_problems_have_equal_digests(self) -> None:
        one, same = (problem_of(linear(1.0), 1.0).instance().digest for _ in range(2))
        assert one == same
        others = [
            problem_of(linear(1.0), 2.0),
            problem_of(linear(1.1), 1.0),
            problem_of(linear(1.0), 1.0, vtype="I"),
        ]
        assert one not in {problem.instance().digest for problem in others}


class Table(nn.Module):
    """Any values at 0, 1, 2, ..."""

    def __init__(self, *values: float) -> None:
        super().__init__()
        self.register_buffer("values", torch.tensor(values, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([v * (x[:, 0] == k) for k, v in enumerate(self.values)]).sum(0)[:, None]


@pytest.mark.parametrize("scale", [1e-8, 1e-4, 1.0, 1e4, 1e8])
def test_enumeration_compares_large_and_small_values(scale: float) -> None:
    values = [10531157.5, 17764913.0, -25532918.4, -1379650.6]
    problem = problem_of(Table(*(scale * v for v in values)).eval(), 3, vtype="I")
    solution = Enumeration().solve(problem)
    assert (solution.status, solution.objective) == ("optimal", scale * 17764913.0)


@pytest.mark.parametrize("scale", [1e-8, 1e-6, 1e-4, 1e4, 1e8])
def test_enumeration_with_a_free_variable_is_checked(scale: float) -> None:
    problem = problem_of(Table(*(scale * v for v in (1.05, 1.77, -2.5, -0.1))).eval(), 3, vtype="I")
    model = problem.model
    spare = model.addVar("spare", ub=1.0)
    model.addCons(spare <= 0.5)
    named = {v.name: v for v in model.getVars()}
    x = named["x"]
    y = named["y"]
    model.addCons(x + spare <= 3.2)
    model.setObjective(y + scale * spare, "maximize")
    solution = Enumeration().solve(problem)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(scale * 2.27, rel=1e-5)


@pytest.mark.parametrize("scale", [1e-8, 1e-6, 1e-4, 1e4, 1e8])
def test_big_m_in_all_units(scale: float) -> None:
    net = relu_layers(([[1.0], [-1.0]], [-0.3, 0.6]), ([[scale, 2 * scale]], [0.0]))
    problem = problem_of(net, 1.0)
    solution = BigM().solve(problem)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(1.2 * scale, rel=1e-5)  # at 0; at 1 it is 0.7
    assert solution.bound == pytest.approx(1.2 * scale, rel=1e-5)


class TestTinyCoefficients:
    """relu(9e-10 x - 0.2) on 0 <= x <= 1e9: SCIP drops a coefficient of 9e-10 when a row is
    made.
    """

    net = relu_layers(([[9e-10]], [-0.2]), ([[1.0]], [0.0]))

    def test_big_m(self) -> None:
        solution = BigM().solve(problem_of(self.net, 1e9))
        assert solution.status == "optimal"
        assert solution.objective == pytest.approx(0.7, rel=1e-5)

    def test_bounds(self) -> None:
        problem = problem_of(self.net, 1e9)
        assert lagrangian_bound(problem).bound == pytest.approx(0.7, rel=1e-5)
        for lam in (0.0, 1e-9, -1e-9):
            assert dual_value(problem, [lam]) >= 0.7

    def test_a_class(self) -> None:
        problem = problem_of(relu_layers(([[9e-10]], [-0.2]), ([[1.0]], [-0.1])), 1e9, classes=True)
        found = lagrangian_bound(problem)
        assert found.bound == 1.0
        assert BigM().solve(problem).objective == 1.0

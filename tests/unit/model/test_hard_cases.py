"""Cases in which a plausible implementation gives a wrong answer or a wrong status."""

import numpy as np
import pyscipopt
import pytest
import torch
from torch import nn

from ddmip_lib import BigM, DualDecomposition, NeuralMIP
from ddmip_lib.decomposition import NNBlock, Penalty
from ddmip_lib.decomposition.mip_block import require_bounded
from ddmip_lib.decomposition.nn_block import NNSubproblem
from ddmip_lib.decomposition.paper_split import PaperSplit
from ddmip_lib.errors import ProblemError
from ddmip_lib.programs.scip import optimise
from tests.builders.clocks import LONG
from tests.builders.networks import linear


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def one_input(
    net, low=-1.0, high=1.0, output="regression", y_upper=None, sense="minimize", on_x=0.0
):
    m = pyscipopt.Model()
    x = m.addMatrixVar((1, 1), lb=low, ub=high)
    binary = output == "classification"
    y = m.addMatrixVar((1, 1), vtype="B" if binary else "C", lb=0 if binary else None, ub=y_upper)
    m.setObjective(on_x * x[0, 0] + (0.0 if on_x else 1.0) * y[0, 0], sense)
    problem = NeuralMIP(m)
    problem.add_predictor(net.eval(), x, y, output=output)
    return problem


@pytest.mark.parametrize("penalty", [0.1, 1.0])
def test_curvature_far_above_the_penalty_does_not_pass_for_a_kink(penalty):
    problem = one_input(Function(lambda x: 50 * (x - 3) ** 2), low=-10, high=10)
    solution = DualDecomposition(penalty=penalty).solve(problem)
    assert solution.objective < 1e-6
    assert solution.status == "converged"


def test_an_nn_block_that_cannot_move_is_no_convergence():
    class Stuck(NNBlock):
        def minimise(self, sub, u):
            return u

    problem = one_input(Function(lambda x: (x - 0.7) ** 2))
    problem.set_start([[0.0]])
    solution = DualDecomposition(nn_block=Stuck(), penalty=1.0, max_iterations=5).solve(problem)
    assert solution.status != "converged"


def test_slow_progress_is_no_cycle():
    problem = one_input(Function(lambda x: 0.5 * (x - 3) ** 2), low=-10, high=10)
    problem.set_start([[0.0]])
    solution = DualDecomposition(penalty=100.0, max_iterations=900).solve(problem)
    assert solution.status in ("iteration_limit", "converged")


def test_a_point_where_the_network_has_no_value_is_not_feasible():
    problem = one_input(Function(torch.log))
    order = [v.getLbOriginal() > -2 for v in problem.model.getVars()]  # x first?
    point = np.where(order, -0.5, 123.0)
    check = problem.verify(point)
    assert not check.feasible
    assert "NaN" in repr(check)


def test_status_optimal_needs_objective_and_bound_to_meet():
    problem = one_input(
        linear(1.0).float(), low=-1, high=0, output="classification", sense="maximize"
    )
    solution = BigM(margin=0.0).solve(
        problem, time_limit=LONG
    )  # logit 0 passes for class 1 in the model
    assert solution.objective == 0
    assert solution.status != "optimal"


def test_a_class_fixed_at_zero_keeps_the_logit_down():
    problem = one_input(
        linear(1.0, bias=-0.5).float(),
        output="classification",
        y_upper=0,
        sense="maximize",
        on_x=1.0,
    )
    solution = BigM().solve(problem, time_limit=LONG)
    assert solution.objective == pytest.approx(0.5, abs=1e-5)
    assert solution.status == "optimal"


def test_checking_boundedness_does_not_solve_the_block(monkeypatch):
    """A free epigraph variable over a hard knapsack: the check looks at the relaxation only."""
    rng = np.random.default_rng(0)
    m = pyscipopt.Model()
    x = m.addMatrixVar((1, 40), vtype="B")
    y = m.addMatrixVar((1, 1), lb=None)
    t = m.addVar("t", lb=None)
    for _ in range(5):
        weight = rng.integers(0, 100, 40)
        m.addCons((x[0] * weight).sum() - t <= weight.sum() // 2)
        m.addCons((x[0] * weight).sum() + t >= weight.sum() // 2)
    m.setObjective(y[0, 0] + t)
    problem = NeuralMIP(m)
    problem.add_predictor(nn.Linear(40, 1).eval(), x, y)
    solved = []
    monkeypatch.setattr(
        "ddmip_lib.decomposition.mip_block.optimise",
        lambda model, *rest: solved.append(model) or optimise(model, *rest),
    )
    require_bounded(PaperSplit(problem.instance()), seconds=LONG)
    assert [model.getNTotalNodes() for model in solved] == [
        1
    ]  # the block itself takes SCIP a great many
    assert DualDecomposition(max_iterations=2).solve(problem).found


def test_negated_binaries_in_indicators_are_understood():
    m = pyscipopt.Model()
    b = m.addVar("b", vtype="B")
    x = m.addMatrixVar((1, 1), lb=0, ub=1)
    y = m.addMatrixVar((1, 1), lb=None)
    m.addConsIndicator(x[0, 0] <= 0.3, binvar=b, activeone=False)  # b = 0 limits x
    m.setObjective(y[0, 0] - 0.1 * b, "maximize")
    problem = NeuralMIP(m)
    problem.add_predictor(linear(1.0).float(), x, y)
    split, exact = (
        solver.solve(problem, time_limit=LONG) for solver in (DualDecomposition(restarts=0), BigM())
    )
    assert exact.objective == pytest.approx(0.9, abs=1e-5)
    assert 0.3 - 1e-3 <= split.objective <= exact.objective + 1e-5
    assert problem.verify(split).feasible


def test_a_classifier_that_returns_probabilities_is_refused():
    with pytest.raises(ProblemError, match="without its last layer"):
        one_input(nn.Sequential(linear(1.0).float(), nn.Sigmoid()), output="classification")


def test_gradients_are_taken_inside_no_grad_and_through_in_place_layers():
    net = nn.Sequential(nn.ReLU(inplace=True), linear(-1.0).float())
    with torch.no_grad():
        solution = DualDecomposition(restarts=0).solve(one_input(net, y_upper=0.5), time_limit=LONG)
    assert solution.objective == pytest.approx(-1.0, abs=1e-3)


def test_a_network_without_gradient_is_named():
    with pytest.raises(ProblemError, match="no gradient flows"):
        DualDecomposition(restarts=0).solve(one_input(Function(lambda x: x.detach() * 2)))


def test_the_callback_sees_each_iteration_once_and_keeps_the_status():
    seen = []

    def callback(run):
        seen.append(run.k)
        return run.stopped is not None

    solution = DualDecomposition(penalty=1.0, callback=callback).solve(
        one_input(Function(lambda x: (x - 0.7) ** 2))
    )
    assert seen == list(range(1, len(solution.history) + 1))
    assert solution.status == "converged"


def test_a_row_on_two_outputs_of_one_sample_belongs_to_that_sample():
    """y0 - y1 <= b: the coefficients cancel in a sum, the row still ties both outputs to the
    sample's inputs.
    """
    m = pyscipopt.Model()
    x = m.addMatrixVar((2, 3), lb=-1, ub=1)
    y = m.addMatrixVar((2, 2), lb=None)
    m.addCons(y[0, 0] - y[0, 1] <= 0.1)
    m.setObjective(y.sum())
    problem = NeuralMIP(m)
    problem.add_predictor(nn.Linear(3, 2).eval(), x, y)
    split = DualDecomposition(restarts=0).start(problem).split
    assert split.n_groups == 2
    u = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    sub = NNSubproblem(split, np.zeros(6), np.zeros(6), Penalty.both(1.0))
    before = sub.values_and_gradient(u)[0]
    split.tightening = split.tightening + 100.0  # the row of the first sample now costs
    changed = sub.values_and_gradient(u)[0] != before
    assert changed.tolist() == [bool(g == split.group[0]) for g in range(2)]


def test_two_runs_of_one_solver_do_not_share_state():
    solver = DualDecomposition(restarts=0)
    problem = one_input(Function(lambda x: (x - 0.7) ** 2))
    first = solver.start(problem)
    second = solver.start(problem)
    for _ in range(5):
        solver.step(first)
    solver.step(second)
    assert second.rho.inputs == pytest.approx(first.history["rho"][1])
    np.testing.assert_allclose(second.history["lagrangian"], first.history["lagrangian"][:1])

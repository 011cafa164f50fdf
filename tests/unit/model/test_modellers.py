"""Models of Pyomo and gurobipy become problems with the same constraints, names and optimum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ddmip_lib import NeuralMIP, solve
from ddmip_lib.errors import ProblemError
from ddmip_lib.model.modellers import from_gurobi, from_pyomo


def network() -> nn.Module:
    """relu(a - b) - a, for which exact arithmetic is easy."""
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1, bias=False)).eval()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, -1.0], [1.0, 0.0]]))
        net[0].bias.zero_()
        net[2].weight.copy_(torch.tensor([[1.0, -1.0]]))
    return net


def best() -> float:
    """max 3 a + b + 2 f(a, b) + 5 over integers 0 <= a, b <= 2 with a + b <= 3."""
    points = [(a, b) for a in range(3) for b in range(3) if a + b <= 3]
    return max(3 * a + b + 2 * (max(a - b, 0) - a) + 5 for a, b in points)


def pyomo_model() -> Any:
    pyo = pytest.importorskip("pyomo.environ")
    m = pyo.ConcreteModel("plan")
    m.a = pyo.Var(domain=pyo.NonNegativeIntegers, bounds=(0, 2))
    m.b = pyo.Var(["u", "v"], domain=pyo.Integers, bounds=(0, 2))
    m.y = pyo.Var()
    m.budget = pyo.Constraint(expr=m.a + m.b["u"] + m.b["v"] <= 3)
    m.range = pyo.Constraint(expr=(-1, m.a - m.b["v"], 2))
    m.off = pyo.Constraint(expr=m.a >= 7)
    m.off.deactivate()
    m.b["v"].fix(0)
    m.value = pyo.Objective(expr=3 * m.a + m.b["u"] + 2 * m.y + 5, sense=pyo.maximize)
    return m


def test_a_model_of_pyomo_is_solved_and_read_by_its_own_variables() -> None:
    m = pyomo_model()
    problem = from_pyomo(m)
    problem.add_predictor(network(), [m.a, m.b["u"]], [m.y])
    milp = problem.instance().milp
    assert sorted(milp.names) == ["a", "b[u]", "b[v]", "y"]
    assert (milp.sign, milp.offset) == (-1.0, 5.0)
    assert sorted(milp.row_names) == ["budget", "range"]
    solution = solve(problem, 20.0)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(best())
    values = {name: solution[name] for name in milp.names}
    assert solution[problem[m.b["u"]]] == values["b[u]"]
    np.testing.assert_array_equal(solution[problem[[m.a, m.y]]], [values["a"], values["y"]])
    assert solution[problem["a"]] == values["a"]


def test_quadratic_expressions_of_pyomo() -> None:
    m = pyomo_model()
    m.product = __import__("pyomo.environ").environ.Constraint(expr=m.a * m.b["u"] <= 1)
    problem = from_pyomo(m)
    problem.add_predictor(network(), [m.a, m.b["u"]], [m.y])
    point = {"a": 2.0, "b[u]": 1.0, "b[v]": 0.0, "y": -1.0}
    values = np.array([point[v.name] for v in problem.model.getVars()])
    assert not problem.verify(values).feasible
    m.product.deactivate()
    problem = from_pyomo(m)
    problem.add_predictor(network(), [m.a, m.b["u"]], [m.y])
    assert problem.verify(values).feasible


def test_what_pyomo_models_cannot_hold_is_named() -> None:
    m = pyomo_model()
    pyo = pytest.importorskip("pyomo.environ")
    m.second = pyo.Objective(expr=m.a)
    with pytest.raises(ProblemError, match="has 2 active objectives"):
        from_pyomo(m)
    m.second.deactivate()
    m.curved = pyo.Constraint(expr=pyo.exp(m.a) <= 3)
    with pytest.raises(
        ProblemError, match="constraint curved of the Pyomo model is neither linear"
    ):
        from_pyomo(m)
    m.curved.deactivate()
    m.sets = pyo.SOSConstraint(var=m.b, sos=1)
    with pytest.raises(ProblemError, match="has components SOSConstraint"):
        from_pyomo(m)
    m.sets.deactivate()
    other = pyomo_model()
    m.foreign = pyo.Constraint(expr=m.a + other.a <= 3)
    with pytest.raises(ProblemError, match="has the variable a, which is on no active block"):
        from_pyomo(m)


def gurobi_model() -> Any:
    gp = pytest.importorskip("gurobipy")
    environment = gp.Env(params={"OutputFlag": 0})
    m = gp.Model("plan", env=environment)
    a = m.addVar(ub=2, vtype="I", name="a")
    b = m.addVar(ub=2, vtype="I", name="b[u]")
    y = m.addVar(lb=-gp.GRB.INFINITY, name="y")
    m.addConstr(a + b <= 3, name="budget")
    m.setObjective(3 * a + b + 2 * y + 5, gp.GRB.MAXIMIZE)
    m.update()
    return m


def test_a_model_of_gurobi_is_solved_and_read_by_its_own_variables() -> None:
    m = gurobi_model()
    a, b, y = m.getVars()
    problem: NeuralMIP = from_gurobi(m)
    problem.add_predictor(network(), [a, b], [y])
    solution = solve(problem, 20.0)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(best())
    assert solution[problem[a]] == solution["a"]
    assert solution[problem[m.getVars()[1]]] == solution["b[u]"]


def test_what_files_of_gurobi_lose_is_named() -> None:
    m = gurobi_model()
    m.addVar(name="two words")
    with pytest.raises(ProblemError, match="has 1 variables named 'two words'"):
        from_gurobi(m)
    m = gurobi_model()
    m.addGenConstrMax(m.getVars()[2], m.getVars()[:2], name="largest")
    with pytest.raises(ProblemError, match="has general constraint largest, which SCIP"):
        from_gurobi(m)

"""Mistakes that once passed in silence: what copies lose, bounds and kinds of outputs left at their
defaults.
"""

import warnings

import numpy as np
import pyscipopt
import pytest
from pyscipopt import SCIP_RESULT
from torch import nn

from ddmip_book.networks import mlp
from ddmip_lib import DualDecomposition, NeuralMIP
from ddmip_lib.errors import ProblemError
from tests.builders.networks import linear


class Forbids(pyscipopt.Conshdlr):
    """A rule that no point obeys."""

    def conscheck(
        self, constraints, solution, checkintegrality, checklprows, printreason, completely
    ):
        return {"result": SCIP_RESULT.INFEASIBLE}

    def consenfolp(self, constraints, nusefulconss, solinfeasible):
        return {"result": SCIP_RESULT.CUTOFF}

    def consenfops(self, constraints, nusefulconss, solinfeasible, objinfeasible):
        return {"result": SCIP_RESULT.CUTOFF}

    def conslock(self, constraint, locktype, nlockspos, nlocksneg):
        pass


def built(net=None, **output):
    m = pyscipopt.Model()
    m.hideOutput()
    x = m.addMatrixVar((1, 1), lb=-1, ub=1, name="x")
    y = m.addMatrixVar((1, 1), name="y", **output)
    problem = NeuralMIP(m)
    problem.add_predictor(linear(1.0) if net is None else net, x, y)
    return problem


@pytest.mark.parametrize("needscons", [False, True])
def test_a_constraint_handler_of_the_users_is_refused_before_and_after(needscons):
    problem = built(lb=None)
    handler = Forbids()
    assert problem.verify(np.zeros(2)).feasible
    problem.model.includeConshdlr(handler, "lazy", "of the user's own", needscons=needscons)
    if needscons:
        problem.model.addPyCons(problem.model.createCons(handler, "rule"))
    for refused in (
        lambda: problem.verify(np.zeros(2)),
        lambda: DualDecomposition(restarts=0).solve(problem),
        lambda: NeuralMIP(problem.model),
    ):
        with pytest.raises(
            ProblemError, match=r"constraint handler 'lazy'.*copies lose.*as constraints"
        ):
            refused()


def test_a_pricer_is_refused_too():
    model = pyscipopt.Model()
    model.includePricer(pyscipopt.Pricer(), "columns", "of the user's own")
    with pytest.raises(ProblemError, match="pricer 'columns'"):
        NeuralMIP(model)


def test_the_default_lower_bound_is_pointed_out_where_it_cuts_the_network_off():
    with pytest.warns(UserWarning, match=r"output y_0_0 has the default lower bound 0.*lb=None"):
        problem = built()
    assert repr(problem).endswith("-> 1 x 1 in [0, inf)")


@pytest.mark.parametrize(
    ("net", "output", "said"),
    [
        (None, {"lb": None}, "1 x 1"),
        (None, {"lb": None, "ub": 2}, "1 x 1 in (-inf, 2]"),
        (None, {"lb": 0, "ub": 2}, "1 x 1 in [0, 2]"),  # both bounds: someone thought of them
        (nn.Sequential(linear(1.0), nn.ReLU()).eval(), {}, "1 x 1 in [0, inf)"),
        (nn.Sequential(linear(1.0), nn.Sigmoid()).eval(), {}, "1 x 1 in [0, inf)"),
        (nn.Sequential(linear(1.0), nn.Softplus()).eval(), {}, "1 x 1 in [0, inf)"),
    ],
)
def test_bounds_that_are_meant_are_shown_without_a_word(net, output, said):
    with warnings.catch_warnings(action="error"):
        assert repr(built(net, **output)).endswith(f"-> {said}")


def test_a_binary_output_of_a_regression_is_pointed_out():
    with pytest.warns(UserWarning, match='y_0_0 is binary.*output="classification"'):
        built(mlp(1, 4, 1, seed=1), vtype="B")
    with warnings.catch_warnings(action="error"):
        built(nn.Sequential(linear(0.0), nn.ReLU()).eval(), vtype="B")  # which says 0 everywhere

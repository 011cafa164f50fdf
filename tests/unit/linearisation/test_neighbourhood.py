"""Points that just fail `verify`, as searches of bounds propose them, and those that pass close to
them.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from ddmip_lib.linearisation.neighbourhood import FeasibilityRepair
from ddmip_lib.methods import start_run
from ddmip_lib.proofs.checking import incumbent_cost
from ddmip_lib.proofs.exact import exact_program
from tests.builders.instances import build


def sizes() -> nn.Sequential:
    """|x_0| + |x_1|."""
    net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
        net[0].bias.zero_()
        net[2].weight.fill_(1.0)
        net[2].bias.zero_()
    return net


def wide_box(whole: bool = False):
    """min |x_0| + |x_1| - 1.5 x_0 with x_0 + x_1 <= 0.5 (1 for whole numbers), from the point 0:
    the optimum is (0.5, 0), -0.25. In a wide box a bound lets the row out by much more than
    `verify` forgives at that point.
    """
    built = build(
        sizes(), 2, low=-500.0, high=500.0, vtype="I" if whole else "C", cost=np.array([-1.5, 0.0])
    )
    built.model.addCons(built.x[0, 0] + built.x[0, 1] <= (1.0 if whole else 0.5))
    run = start_run(built.problem, 300, 0)
    incumbent = run.incumbent()
    incumbent.consider(np.zeros(run.instance.milp.n_variables))
    return built, run


@pytest.mark.parametrize("mends", [True, False])
def test_a_proof_finds_the_point_that_it_proves_to_be_the_best(mends):
    _, run = wide_box()
    incumbent = run.best
    mend = FeasibilityRepair(incumbent, np.inf) if mends else None
    proved = run.prove(exact_program(run.instance, incumbent.units), repair=mend)
    assert proved.complete
    assert incumbent_cost(incumbent) == (pytest.approx(-0.25, abs=1e-5) if mends else 0.0)
    assert (
        -0.25 - 1e-2 <= proved.bound < -0.25
    )  # let out by a millionth of a box that is a thousand wide, and no more


def test_a_point_is_mended_once_at_each_place():
    built, run = wide_box()
    incumbent = run.best
    mend = FeasibilityRepair(incumbent, np.inf)
    off = built.problem.instance().with_outputs(np.array([0.6, 0.0, 0.0]))
    assert not incumbent.consider(off).feasible
    mend(off)
    assert incumbent.objective == pytest.approx(-0.25, abs=1e-6)
    assert built.problem.verify(incumbent.values).feasible
    mend(off + 1e-3)
    assert len(mend.places) == 1
    mend(built.problem.instance().with_outputs(np.array([-400.0, 3.0, 0.0])))
    assert len(mend.places) == 2
    assert incumbent.objective == pytest.approx(-0.25, abs=1e-6)  # there is nothing better there


def test_whole_numbers_are_kept():
    built, run = wide_box(whole=True)
    incumbent = run.best
    mend = FeasibilityRepair(incumbent, np.inf)
    mend(built.problem.instance().with_outputs(np.array([3.0, 0.0, 0.0])))
    assert incumbent.objective == 0.0  # x_0 = 3 breaks the row, and 1 is no mending of it
    mend(built.problem.instance().with_outputs(np.array([1.0 + 1e-5, 0.0, 0.0])))
    assert incumbent.objective == pytest.approx(-0.5, abs=1e-6)

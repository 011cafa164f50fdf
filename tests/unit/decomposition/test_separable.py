"""The MIP block by sorting, against PIQP on the same block, and where the form is another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyscipopt import Model

from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import NeuralMIP
from ddmip_lib.decomposition.mip_block import QPBlock, mip_block
from ddmip_lib.decomposition.paper_split import PaperSplit
from ddmip_lib.programs.scip import relative_violation
from tests.builders.instances import relu_net


def budgeted(draw: np.random.Generator, lower: float = 0.0) -> NeuralMIP:
    """Inputs w + r a - q b, the steps bounded, budgets with weights for some of them; not every
    input may move.
    """
    n = int(draw.integers(1, 5))
    p = int(draw.integers(1, 4))
    model = Model()
    w = draw.normal(size=(n, p))
    x = model.addMatrixVar((n, p), lb=w - draw.random((n, p)), ub=w + draw.random((n, p)))
    a, b = (model.addMatrixVar((n, p), lb=lower, ub=draw.uniform(0.2, 2.0)) for _ in range(2))
    y = model.addMatrixVar((n, 1), lb=None)
    rates = draw.uniform(0.5, 2.0, (2, n, p))
    scale = draw.choice([-2.0, 1.0], (n, p))
    for i, j in np.ndindex(n, p):
        moved = rates[0, i, j] * a[i, j] - rates[1, i, j] * b[i, j] * (draw.random() < 0.8)
        if draw.random() < 0.9:
            model.addCons(float(scale[i, j]) * (x[i, j] - moved) == float(scale[i, j] * w[i, j]))
        else:
            model.addCons(x[i, j] - a[i, j] + b[i, j] == float(w[i, j]))
    for j in range(p):
        for steps in (a, b)[: draw.integers(1, 3)]:
            weights = draw.uniform(0.5, 2.0, n)
            model.addCons(
                sum(float(c) * s for c, s in zip(weights, steps[:, j], strict=True))
                <= draw.uniform(0, 1.5)
            )
    model.setObjective(y.sum() + (draw.normal(size=(n, p)) * x).sum(), "minimize")
    problem = NeuralMIP(model)
    problem.add_predictor(relu_net(p), x, y)
    return problem


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_sorting_finds_the_optimum_that_piqp_finds(seed: int) -> None:
    draw = np.random.default_rng(seed)
    split = PaperSplit(budgeted(draw).instance())
    block = QPBlock(split)
    plain = QPBlock(split)
    if block.knapsacks is None:  # steps that no row ties to an input
        assert (np.diff(plain.equalities[0].indptr) == 0).any()
        return
    plain.knapsacks = None
    k = split.coupled.size
    lam = draw.normal(size=k)
    copies = draw.normal(size=k) * 2
    rho = draw.uniform(0.1, 3.0, k)
    sorted_, by_piqp = (each.solve(lam, copies, rho).values for each in (block, plain))
    assert sorted_ is not None
    assert by_piqp is not None
    assert (relative_violation(block.rows @ sorted_[block.kept], *block.sides) <= 1e-12).all()
    assert (sorted_[block.kept] >= block.bounds[0] - 1e-12).all()
    assert (sorted_[block.kept] <= block.bounds[1] + 1e-12).all()

    def value(v: np.ndarray) -> float:
        w = v[split.coupled]
        return float(split.cost @ v - lam @ w + 0.5 * rho @ (w - copies) ** 2)

    assert value(sorted_) <= value(by_piqp) + 1e-6 * max(1.0, abs(value(by_piqp)))
    np.testing.assert_allclose(sorted_[split.coupled], by_piqp[split.coupled], atol=1e-4)


def test_water_has_the_form_and_steps_that_must_be_taken_have_not() -> None:
    split = PaperSplit(water_potability(n=3, net=mlp(1, 4, 9)).instance())
    block = mip_block(split)
    assert isinstance(block, QPBlock)
    assert block.knapsacks is not None
    assert (block.knapsacks.capacity == 2.0).all()
    assert (
        QPBlock(PaperSplit(budgeted(np.random.default_rng(0), lower=0.01).instance())).knapsacks
        is None
    )


@pytest.mark.parametrize("extra", ["cost", "target", "between inputs"])
def test_other_blocks_are_left_to_piqp(extra: str) -> None:
    problem = water_potability(n=3, net=mlp(1, 4, 9))
    names = {v.name: v for v in problem.model.getVars()}
    if extra == "cost":
        problem.model.setObjective(problem.model.getObjective() - names["a_0_0"])
    elif extra == "target":
        problem.model.addCons(names["a_0_0"] + names["a_1_0"] >= 0.1)
    else:
        problem.model.addCons(names["x_0_0"] + names["x_1_0"] <= 10)
    assert QPBlock(PaperSplit(problem.instance())).knapsacks is None

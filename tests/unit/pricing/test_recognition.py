"""The form of `Blocks` read off models, against what the models' authors describe."""

import numpy as np
import pytest
import torch
from pyscipopt import Model

from ddmip_book.networks import mlp
from ddmip_book.problems import site_care, tree_planting, water_potability
from ddmip_lib import NeuralMIP, PriceCoordination, Solution, certify
from ddmip_lib.model import Structure
from ddmip_lib.pricing import Blocks, recover
from ddmip_lib.pricing.recognition import find_blocks
from tests.builders.clocks import LONG

NETS = [mlp(1, 6, 7, seed=k) for k in range(4)]


def found(problem: NeuralMIP) -> Blocks | Structure:
    problem.blocks = None
    return find_blocks(problem, problem.instance())


def ordered(blocks: Blocks) -> np.ndarray:
    return np.lexsort(
        np.column_stack([blocks.block, blocks.predictor, blocks.base, blocks.lower]).round(9).T
    )


@pytest.mark.parametrize(
    "problem",
    [
        water_potability(n=5, net=mlp(2, 8, 9)),
        tree_planting(3, NETS),
        site_care(2, NETS),
        site_care(2, NETS, light=0.0),
    ],
    ids=["water", "trees", "care", "dark"],
)
def test_what_is_found_is_what_was_described(problem):
    described = problem.blocks
    read = found(problem)
    assert isinstance(read, Blocks)
    assert (read.n, read.optional, len(read.modes)) == (
        described.n,
        described.optional,
        len(described.modes),
    )
    np.testing.assert_allclose(np.sort(read.capacities), np.sort(described.capacities))
    a = ordered(read)
    b = ordered(described)
    for name in ("block", "row", "predictor", "cap", "worth", "lower", "upper", "base"):
        np.testing.assert_allclose(
            getattr(read, name)[a], getattr(described, name)[b], atol=1e-12, err_msg=name
        )
    u = np.random.default_rng(0).uniform(read.lower, read.upper)[a]
    uses = [
        np.sort(blocks.use(at, u, np.ones(len(at))), axis=1)
        for blocks, at in ((read, a), (described, b))
    ]
    np.testing.assert_allclose(*uses, atol=1e-9)


def moved(n: int = 3, absolute: bool = True, **keywords) -> NeuralMIP:
    """Rows x with |x - w| from a budget, by one variable for both directions; or x itself from a
    budget.
    """
    model = Model()
    w = np.linspace(-0.5, 0.5, n)
    x = model.addMatrixVar((n, 1), lb=-1.0, ub=1.0, name="x")
    d = model.addMatrixVar((n,), name="d", **keywords)
    y = model.addMatrixVar((n, 1), vtype="B", name="y")
    for i in range(n):
        if absolute:
            model.addCons(d[i] >= 2 * (x[i, 0] - w[i]))
            model.addCons(d[i] >= w[i] - x[i, 0])
    model.addCons((d.sum() if absolute else x.sum()) <= 1.0, name="budget")
    model.setObjective(3 * y.sum(), "maximize")
    problem = NeuralMIP(model)
    net = torch.nn.Sequential(torch.nn.Linear(1, 1)).eval()
    problem.add_predictor(net, x, y, output="classification")
    return problem


def test_one_variable_for_both_directions_is_a_step():
    read = found(moved(ub=0.5))
    assert isinstance(read, Blocks)
    assert read.modes[0].worth == 3.0
    assert (read.modes[0].up.item(), read.modes[0].down.item()) == (2.0, 1.0)
    np.testing.assert_allclose(read.upper - read.base, 0.25)
    np.testing.assert_allclose(read.base - read.lower, 0.5)


def test_an_input_in_a_linking_row_counts_from_the_end_that_uses_least():
    read = found(moved(absolute=False))
    assert isinstance(read, Blocks)
    np.testing.assert_allclose(read.base, -1.0)
    assert read.capacities.item() == 4.0  # one, and three blocks that can give one


def cost_on_steps() -> NeuralMIP:
    problem = moved()
    problem.model.setObjective(problem.model.getObjective() - problem.model.getVars()[3])
    return problem


@pytest.mark.parametrize(
    "problem",
    [site_care(2, NETS, doses=True), moved(lb=0.1), cost_on_steps()],
    ids=["two inputs in a row", "a step that never ends", "steps that cost"],
)
def test_other_blocks_are_left_to_the_general_method(problem):
    assert isinstance(found(problem), Structure)


def test_an_output_that_must_not_be_negative_needs_a_network_that_never_is():
    model = Model()
    x = model.addMatrixVar((2, 1), ub=1.0)
    y = model.addMatrixVar((2, 1), name="y")
    model.addCons(x.sum() <= 1)
    model.setObjective(y.sum(), "maximize")
    problem = NeuralMIP(model)
    net = torch.nn.Linear(1, 1).eval()
    with torch.no_grad():
        net.weight.fill_(1.0), net.bias.fill_(-0.5)
    with pytest.warns(UserWarning, match="lower bound 0"):
        problem.add_predictor(net, x, y)
    assert isinstance(found(problem), Structure)


def test_water_without_a_description_gives_the_same_choice_and_certificate():
    problem = water_potability(n=5, net=mlp(1, 6, 9, seed=3))
    described = PriceCoordination().solve(problem, LONG)
    problem.blocks = None
    read = PriceCoordination().solve(problem, LONG)
    assert abs(read.objective - described.objective) <= 1
    proved = certify(problem, read, time_limit=LONG, workers=1)
    assert "certificate" in proved.details
    assert described.objective <= proved.bound <= 5


def test_a_problem_that_changes_is_read_again():
    problem = water_potability(n=3, net=mlp(1, 4, 9))
    first = found(problem)
    assert found(problem) is first
    problem.model.chgRhs(problem.model.getConss()[-1], 1.0)
    again = found(problem)
    assert isinstance(again, Blocks)
    assert again.capacities.min() == 1.0


def test_the_description_stays_in_charge():
    problem = water_potability(n=3, net=mlp(1, 4, 9))
    assert find_blocks(problem, problem.instance()) is problem.blocks


def test_the_blocks_found_serve_recovery():
    problem = water_potability(n=3, net=mlp(2, 16, 9, seed=1))
    problem.blocks = None
    solution: Solution = recover(problem, [problem.start, [problem.start[0] + 1.0]])
    assert problem.verify(solution)

"""Blocks found in models: cells, rows that stay inside, rows that link, variables of nobody."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyscipopt import Model

from ddmip_book.networks import mlp
from ddmip_book.problems import site_care, tree_planting, water_potability
from ddmip_lib import NeuralMIP
from ddmip_lib.errors import ProblemError
from ddmip_lib.model.structure import find_structure


def rows_of(n: int, link, p: int = 2) -> NeuralMIP:
    """n rows of one network; `link(model, x, y)` adds what joins them."""
    model = Model()
    x = model.addMatrixVar((n, p), ub=1.0, name="x")
    y = model.addMatrixVar((n, 1), lb=None, name="y")
    link(model, x, y)
    model.setObjective(y.sum(), "maximize")
    problem = NeuralMIP(model)
    problem.add_predictor(mlp(1, 4, p), x, y)
    return problem


def structure(problem: NeuralMIP):
    return find_structure(problem.instance())


@pytest.mark.parametrize("n", [2, 3, 30])
def test_samples_of_water_are_blocks(n):
    found = structure(water_potability(n=n, net=mlp(2, 16, 9)))
    assert (found.n, found.master, len(found.names)) == (n, 0, 18)
    assert all(name.startswith("budget") for name in found.names)


def test_sites_of_trees_are_blocks_though_they_have_four_networks():
    nets = [mlp(1, 4, 7, seed=k) for k in range(4)]
    for problem, linking in ((tree_planting(2, nets), 6), (site_care(2, nets, doses=True), 8)):
        found = structure(problem)
        assert (found.n, len(found.names)) == (4, linking)


def test_a_total_belongs_to_nobody():
    def link(model, x, y):
        total = model.addVar(ub=9.0, name="total")
        model.addCons(x.sum() == total, name="sum")
        model.addCons(total <= 2, name="limit")

    found = structure(rows_of(3, link))
    assert (found.n, found.master, found.names) == (3, 1, ("sum", "limit"))


def test_a_makespan_belongs_to_nobody():
    def link(model, x, y):
        last = model.addVar(ub=9.0, name="last")
        for i in range(3):
            model.addCons(last >= y[i, 0], name=f"ends {i}")

    assert structure(rows_of(3, link)).master == 1


def test_pairs_that_a_row_joins_become_blocks():
    def link(model, x, y):
        for i in range(0, 8, 2):
            model.addCons(x[i, 0] + x[i + 1, 0] <= 1, name=f"pair {i}")
        model.addCons(x.sum() <= 3, name="all")

    found = structure(rows_of(8, link))
    assert (found.n, found.names) == (4, ("all",))
    assert [set(found.block[2 * i : 2 * i + 2]) for i in range(8)] == [{i // 2} for i in range(8)]


def test_a_fixed_variable_joins_nothing():
    def link(model, x, y):
        one = model.addVar(lb=1, ub=1, name="one")
        for i in range(3):
            model.addCons(x[i, 0] <= one, name=f"at most {i}")

    found = structure(rows_of(3, link))
    assert (found.n, found.names) == (3, ())


def shared_input() -> NeuralMIP:
    model = Model()
    x = model.addMatrixVar((3,), ub=1.0, name="x")
    z = model.addVar(ub=1.0, name="weather")
    y = model.addMatrixVar((3, 1), lb=None, name="y")
    problem = NeuralMIP(model)
    problem.add_predictor(mlp(1, 4, 2), np.array([[v, z] for v in x], dtype=object), y)
    return problem


def cubic(model, x, y) -> None:
    model.addCons(x[0, 0] * x[0, 0] * x[0, 0] <= 0.5, name="if cold")


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (shared_input(), "variable weather joins"),
        (rows_of(1, lambda *_: None), "only one sample of a network"),
        (rows_of(2, cubic), "if cold"),
    ],
)
def test_what_keeps_a_model_in_one_piece_is_said(problem, words):
    found = structure(problem)
    assert words in repr(found)
    with pytest.raises(ProblemError, match=f"{words}.*set_blocks"):
        found.require("price coordination")


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 6), st.integers(0, 3), st.integers(0, 10_000))
def test_without_linking_rows_no_row_meets_two_blocks(n, extra, seed):
    draw = np.random.default_rng(seed)

    def link(model, x, y):
        for _ in range(extra):
            chosen = [v for v in (*x.flat, *y.flat) if draw.random() < 0.4]
            if chosen:
                model.addCons(sum(chosen) <= 1)

    problem = rows_of(n, link)
    found = structure(problem)
    s = problem.instance().milp
    assert found.n >= 2
    for r in range(s.n_rows):
        blocks = set(found.block[s.rows[r].indices])
        assert bool(found.coupling[r]) == (len(blocks) > 1)

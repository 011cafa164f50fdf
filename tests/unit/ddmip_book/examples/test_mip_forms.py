"""The MIP block in teaching: price regions, epigraphs against the library's own forms, figures that
tell the truth.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ddmip_book.examples.mip_forms import EpigraphBlock, x_step_value
from ddmip_book.figures.mip_block import (
    nearest_site,
    plot_perspective,
    plot_regions,
    plot_square_cuts,
)
from ddmip_book.networks import mlp
from ddmip_book.problems import tree_planting, water_potability
from ddmip_lib import DualDecomposition
from ddmip_lib.decomposition import ADMMState, MILPBlock
from ddmip_lib.problems import hand_sized

pairs = arrays(float, 2, elements=st.floats(-4, 4))
LATTICE = np.array(list(itertools.product((-1, 0, 2), repeat=2)), dtype=float)


@given(pairs, pairs, pairs, st.floats(0.1, 10))
def test_the_x_step_takes_the_decision_with_the_nearest_site(
    lam: np.ndarray, u: np.ndarray, cost: np.ndarray, rho: float
) -> None:
    values = LATTICE @ (cost - lam) + rho / 2 * ((LATTICE - u) ** 2).sum(axis=1)
    chosen = nearest_site(cost + rho * (LATTICE - u), lam)
    assert values[chosen] <= values.min() + 1e-9 * (1 + abs(values).max())


@given(pairs, pairs)
def test_without_a_penalty_the_middle_is_never_the_only_choice(
    lam: np.ndarray, cost: np.ndarray
) -> None:
    values = LATTICE @ (cost - lam)
    middle = np.flatnonzero((LATTICE == 0).any(axis=1))
    assert values[middle].min() >= np.delete(values, middle).min() - 1e-12


@given(st.floats(-3, 3), st.floats(0.01, 1), st.floats(-3, 3))
def test_tangents_stay_below_the_perspective(v: float, b: float, a: float) -> None:
    sigma = b * v
    assert sigma**2 / b - (2 * a * sigma - a**2 * b) == pytest.approx(b * (v - a) ** 2, abs=1e-9)


def _after(problem: object, steps: int, **options: object) -> ADMMState:
    solver = DualDecomposition(**options)  # type: ignore[arg-type]
    run = solver.start(problem, seed=0)  # type: ignore[arg-type]
    for _ in range(steps):
        solver.step(run)
    return run


def test_epigraphs_agree_with_the_quadratic_program() -> None:
    run = _after(water_potability(n=3, net=mlp(2, 8, 9, seed=1)), 2, penalty=1.0)
    state = run.lam, run.copies, run.split.weights(run.rho)
    values = [
        x_step_value(run.split, block.solve(*state).values, *state)
        for block in (run.mip_block, EpigraphBlock(run.split))
    ]
    assert values[1] == pytest.approx(values[0], abs=1e-3)
    assert values[1] >= values[0] - 1e-6


def test_epigraphs_agree_with_the_on_off_form_and_stop_on_time() -> None:
    nets = [mlp(1, 6, 7, seed=k) for k in range(4)]
    run = _after(tree_planting(grid=2, nets=nets, seed=42), 2)
    state = run.lam, run.copies, run.split.weights(run.rho)
    own = MILPBlock(run.split)
    other = EpigraphBlock(run.split)
    assert len(own.onoff) == other.squares.size == 16
    for _ in range(2):  # the model is solved again
        ours, theirs = (
            x_step_value(run.split, b.solve(*state).values, *state) for b in (own, other)
        )
        assert ours == pytest.approx(theirs, abs=1e-3 * max(1.0, abs(theirs)))
    late = EpigraphBlock(run.split).solve(*state, deadline=0.0)
    assert late.values is None
    assert late.status == "timelimit"


def test_binaries_need_no_epigraph() -> None:
    run = _after(hand_sized(), 0)
    block = EpigraphBlock(run.split)
    assert block.squares.size == 0
    for decision in ([0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]):
        site = np.array([1.5, 2.0]) + np.array(decision)  # its own price at u = 0, rho = 1
        values = block.solve(site, np.zeros(2), np.ones(2)).values
        assert values is not None
        assert values[:2].tolist() == decision


def test_regions_carry_the_names_of_their_decisions() -> None:
    both = {"all": (LATTICE, LATTICE), "one": (LATTICE[:2], LATTICE[:2])}
    left, right = plot_regions(both, (-2, 3), ("a", "b"))
    assert (left.get_title(), right.get_title()) == ("all", "one")
    assert (len(left.texts), len(right.texts)) == (len(LATTICE), 2)


def test_curves_are_those_of_the_text() -> None:
    left, right = plot_square_cuts(-2, 3)
    x, top = left.lines[5].get_data()
    assert np.all(np.asarray(top) >= np.asarray(x) ** 2)
    assert right.lines[0].get_ydata().max() == pytest.approx(0.25)  # type: ignore[union-attr]
    _, section = plot_perspective(0.8, 0.5, tangents=5)
    curve, *tangents = (
        np.asarray(line.get_ydata()) for line in [section.lines[0], *section.lines[2:]]
    )
    assert len(tangents) == 5
    assert all(np.all(t <= curve + 1e-12) for t in tangents)

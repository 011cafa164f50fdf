"""The hand-sized example keeps the properties that the chapters rely on."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ddmip_book.figures.neural_mips import landscape
from ddmip_lib import BigM, DualDecomposition
from ddmip_lib.problems import hand_sized
from tests.builders.clocks import LONG

CORNERS = np.array(list(itertools.product((0, 1), repeat=2)), dtype=float)


def by_hand(x1: float, x2: float) -> float:
    """The formula of the chapter, written out once more."""
    neurons = max(0.0, -2 * x1 + x2 - 0.5), max(0.0, 2 * x1 - 2 * x2 + 1.5), max(0.0, x1 + x2 - 0.5)
    return 1.5 * x1 + 2 * x2 + 3 * neurons[0] + neurons[1] - 3 * neurons[2]


def test_values_are_those_of_the_formula() -> None:
    points = np.random.default_rng(0).random((50, 2))
    assert landscape(hand_sized(), points) == pytest.approx([by_hand(*p) for p in points])
    assert landscape(hand_sized(), CORNERS).tolist() == [1.5, 2.0, 3.5, 0.5]


def test_no_neuron_sits_on_its_kink_at_a_corner() -> None:
    hidden = hand_sized().predictors[0].net[0]
    weight = hidden.weight.numpy()
    bias = hidden.bias.numpy()
    assert np.abs(CORNERS @ weight.T + bias).min() >= 0.5


def test_relaxing_and_rounding_misses_the_optimum() -> None:
    grid = np.array(list(itertools.product(np.linspace(0, 1, 81), repeat=2)))
    heights = landscape(hand_sized(), grid)
    best = grid[heights.argmin()]
    assert best.tolist() == [0.25, 1.0]
    assert heights.min() == pytest.approx(0.125)
    assert by_hand(*np.round(best)) > by_hand(0, 0) > by_hand(1, 1)


@pytest.mark.parametrize("formulation", ["bigm", "sos"])
def test_exact_model_finds_and_proves_the_optimum(formulation: str) -> None:
    solution = BigM(formulation=formulation).solve(hand_sized(), time_limit=LONG)
    assert solution.status == "optimal"
    assert solution.objective == pytest.approx(min(by_hand(*p) for p in CORNERS))
    assert solution.bound == pytest.approx(solution.objective, abs=1e-4)
    assert solution.inputs[0].tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("rho", [4.1, 10.0])
def test_strong_penalty_freezes_at_the_start(rho: float) -> None:
    solution = DualDecomposition(penalty=rho).solve(hand_sized(), time_limit=LONG)
    assert (solution.status, solution.objective) == ("converged", 1.5)
    assert set(solution.history["objective"]) == {1.5}
    assert solution.history["primal_residual"][0] == pytest.approx(2 / rho)


def test_weak_penalty_cycles_through_the_optimum() -> None:
    solution = DualDecomposition(penalty=1.0).solve(hand_sized(), time_limit=LONG)
    assert (solution.status, solution.objective) == ("cycle", 0.5)
    assert set(solution.history["objective"][-4:]) == {
        0.5,
        2.0,
    }  # it comes by again and again, and leaves
    assert hand_sized().verify(solution)


def test_defaults_find_the_optimum() -> None:
    assert DualDecomposition(restarts=0).solve(hand_sized(), time_limit=LONG).objective == 0.5

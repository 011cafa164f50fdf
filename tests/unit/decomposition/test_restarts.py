"""Runs that begin again: when they do, what they share, and what ends them."""

import numpy as np
import pyscipopt
import pytest
from torch import nn

from ddmip_book.networks import mlp
from ddmip_lib import DualDecomposition, NeuralMIP
from ddmip_lib.problems import hand_sized
from tests.builders.clocks import LONG


def wavy(units: float = 1.0) -> NeuralMIP:
    """min f(x) over a box in two dimensions with a row on the output, the first input counted in
    other units.
    """
    net = mlp(2, 8, 2, seed=3).double()
    first = next(layer for layer in net if isinstance(layer, nn.Linear))
    first.weight.data[:, 0] /= units
    m = pyscipopt.Model()
    high = np.array([[2.0 * units, 2.0]])
    x = m.addMatrixVar((1, 2), lb=-high, ub=high)
    y = m.addMatrixVar((1, 1), lb=None)
    m.addCons(x[0, 0] / units + x[0, 1] <= 1.5)
    m.setObjective(y[0, 0])
    problem = NeuralMIP(m)
    problem.add_predictor(net, x, y)
    return problem


def test_a_problem_without_start_is_tried_again_and_the_best_point_is_kept() -> None:
    once = DualDecomposition(restarts=0).solve(wavy(), time_limit=LONG)
    again = DualDecomposition(restarts=2).solve(wavy(), time_limit=LONG)
    assert again.details["runs"] >= 3
    assert "runs" not in once.details
    assert again.objective <= once.objective + 1e-9
    assert [iteration.k for iteration in again.history] == list(range(1, len(again.history) + 1))


@pytest.mark.parametrize("settings", [{"penalty": 1.0}, {"max_iterations": 5}])
def test_what_somebody_chose_is_run_once(settings: dict[str, float]) -> None:
    assert "runs" not in DualDecomposition(**settings).solve(wavy(), time_limit=LONG).details


def test_a_given_start_is_run_once() -> None:
    assert "runs" not in DualDecomposition().solve(hand_sized(), time_limit=LONG).details


def test_units_of_an_input_do_not_matter() -> None:
    plain, coarse = (
        DualDecomposition(restarts=0).solve(wavy(units), time_limit=LONG) for units in (1.0, 1000.0)
    )
    assert coarse.objective == pytest.approx(
        plain.objective, abs=1e-3 * max(1.0, abs(plain.objective))
    )


def test_a_callback_ends_all_runs() -> None:
    heard: list[int] = []

    def stop(run: object) -> bool:
        heard.append(1)
        return len(heard) == 3

    solution = DualDecomposition(callback=stop, restarts=5).solve(wavy(), time_limit=LONG)
    assert solution.status == "stopped"
    assert len(heard) == 3


def test_restarts_are_a_count() -> None:
    with pytest.raises(ValueError, match="restarts=-1"):
        DualDecomposition(restarts=-1)

"""Functions and networks that do not take an empty batch never get one, whoever calls them."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import (
    DualDecomposition,
    NeuralMIP,
    PriceCoordination,
    SequentialMIP,
    Solution,
    certify,
    solve,
)
from ddmip_lib.errors import UnsupportedNetworkError
from ddmip_lib.predictors import black_box
from tests.builders.clocks import LONG

NET = mlp(1, 6, 9, seed=3).double()


def strict(rows: np.ndarray) -> np.ndarray:
    """As scikit-learn's `predict` does."""
    if len(rows) == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    with torch.no_grad():
        return np.asarray(NET(torch.from_numpy(rows)).numpy())


class Strict(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = NET

    def forward(self, x: Tensor) -> Tensor:
        if len(x) == 0:
            raise ValueError("no rows")
        out: Tensor = self.net(x)
        return out


METHODS: dict[str, Callable[[NeuralMIP], Solution]] = {
    "solve": lambda problem: solve(problem, 6.0),
    "prices": lambda problem: PriceCoordination(max_rounds=3).solve(problem, np.inf),
    "Algorithm 1": lambda problem: DualDecomposition(max_iterations=3).solve(problem, np.inf),
    "linearisation": lambda problem: SequentialMIP(max_failed_starts=3).solve(problem, LONG),
    "certificate": lambda problem: certify(
        problem, PriceCoordination(max_rounds=3).solve(problem, np.inf), time_limit=LONG
    ),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "make", [lambda: black_box(strict, width=0.1), Strict], ids=["function", "network"]
)
def test_no_method_passes_on_an_empty_batch(make: Callable[[], nn.Module], method: str) -> None:
    problem = water_potability(n=3, net=make().eval())
    if method == "certificate" and not isinstance(problem.predictors[0].net, Strict):
        with pytest.raises(UnsupportedNetworkError, match="a Python function"):
            METHODS[method](problem)
    else:
        found = METHODS[method](problem)
        assert not found.found or problem.verify(found).feasible


def test_no_rows_have_no_values() -> None:
    problem = water_potability(n=3, net=Strict().eval())
    nothing = np.zeros((0, 9))
    assert problem.predictors[0].raw(nothing).shape == (0, 1)
    assert problem.predictors[0].predict(nothing).shape == (0, 1)
    for rows in (torch.zeros(0, 9), torch.zeros(0, 9, requires_grad=True)):
        assert black_box(strict)(rows).shape == (0, 1)

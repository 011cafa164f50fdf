"""The methods by the names that records carry; `experiments` of the project adds those that only
its grids use.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from ddmip_lib import (
    BigM,
    DualDecomposition,
    Enumeration,
    NeuralMIP,
    PriceCoordination,
    Recovering,
    SequentialMIP,
    SingleStepGradient,
    Solution,
    solve,
)
from ddmip_lib.methods import Solver
from ..examples.care_grid import grid_search
from .random_inputs import RandomInputs

NO_MULTIPLIER = 1e-12
"""A multiplier clipped to this size does nothing; exactly zero is no bound that the solver takes.
"""


class Method(NamedTuple):
    """How a method is made, whether it is an exact model (run in a process of its own), and its
    name in figures.
    """

    make: Callable[[Any], Solver]
    """From the device."""
    exact: bool
    label: str


def _paper(device: str, block: str = "pgd", **changes: Any) -> DualDecomposition:
    return replace(DualDecomposition.paper(block), device=device, **changes)


class GridSearch:
    """`grid_search` of a `SiteCare` problem as a method like the others; nothing in it is
    random.
    """

    method = "grid search"

    def solve(
        self, problem: NeuralMIP, time_limit: float = 60.0, seed: int = 0, progress: bool = False
    ) -> Solution:
        """Tabulate the networks on nine levels of each continuous input, and choose exactly."""
        return grid_search(problem, levels=9, time_limit=time_limit)


class OneCall:
    """The function `solve` as a method like the others."""

    method = "solve"

    def solve(
        self, problem: NeuralMIP, time_limit: float = 60.0, seed: int = 0, progress: bool = False
    ) -> Solution:
        """Call the function."""
        return solve(problem, time_limit, seed, progress)


METHODS: dict[str, Method] = {
    "solve": Method(lambda device: OneCall(), False, "solve"),
    "sequential": Method(lambda device: SequentialMIP(), False, "sequential MIP"),
    "dd-paper": Method(_paper, False, "Algorithm 1, the paper's settings"),
    "dd-paper-float32": Method(
        lambda device: _paper(device, dtype=torch.float32),
        False,
        "Algorithm 1, the paper's settings, float32",
    ),
    "dd-barrier": Method(
        lambda device: _paper(device, "barrier"),
        False,
        "Algorithm 1, the paper's settings, barrier",
    ),
    "dd-no-multipliers": Method(
        lambda device: _paper(device, multiplier_bound=NO_MULTIPLIER),
        False,
        "the paper's settings without multipliers",
    ),
    "dd": Method(
        lambda device: DualDecomposition(device=device), False, "Algorithm 1, our defaults"
    ),
    "dd-graph": Method(
        lambda device: DualDecomposition(split="graph", device=device),
        False,
        "graph split, our defaults",
    ),
    "dd-paper-recover": Method(
        lambda device: Recovering(_paper(device)), False, "the paper's settings, recovered"
    ),
    "dd-recover": Method(
        lambda device: Recovering(DualDecomposition(device=device)),
        False,
        "Algorithm 1, our defaults, recovered",
    ),
    "prices": Method(lambda device: PriceCoordination(device=device), False, "price coordination"),
    "prices-one-round": Method(
        lambda device: PriceCoordination(max_rounds=1, choices=1), False, "one round of prices"
    ),
    "prices-no-smoothing": Method(
        lambda device: PriceCoordination(smoothing=0.0), False, "prices without smoothing"
    ),
    "prices-no-scarcity": Method(
        lambda device: PriceCoordination(choices=1), False, "prices, one choice"
    ),
    "ssg-printed": Method(
        lambda device: SingleStepGradient(repaired=False), False, "SSG as printed"
    ),
    "ssg": Method(lambda device: SingleStepGradient(), False, "SSG repaired"),
    "random": Method(lambda device: RandomInputs(), False, "random inputs"),
    "enumeration": Method(lambda device: Enumeration(), True, "enumeration"),
    "grid-search": Method(lambda device: GridSearch(), True, "grid search, 9 levels"),
    "bigm": Method(lambda device: BigM(check=False), True, "Big-M"),
    "bigm-tight": Method(
        lambda device: BigM(feastol=1e-9, check=False), True, "Big-M, tolerance 1e-9"
    ),
    "bigm-crown": Method(
        lambda device: BigM(ranges="crown", check=False), True, "Big-M, CROWN ranges"
    ),
    "sos1": Method(lambda device: BigM("sos", check=False), True, "SOS1"),
}


def solver_of(method: str, device: str = "cpu") -> Solver:
    """The solver of that name, on that device.

    >>> solver_of("bigm").method
    'exact model, Big-M'
    """
    if method not in METHODS:
        raise ValueError(f"method {method!r} is unknown; choose one of {', '.join(METHODS)}.")
    return METHODS[method].make(device)

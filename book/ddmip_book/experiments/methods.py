"""The methods by the names that rows carry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from ddmip_lib.baselines.bigm import BigM
from ddmip_lib.baselines.enumeration import Enumeration
from ddmip_lib.baselines.single_step import SingleStepGradient
from ddmip_lib.decomposition.solver import DualDecomposition
from ddmip_lib.model.problem import NeuralMIP
from ddmip_lib.model.solution import Solution
from ddmip_lib.pricing.coordination import PriceCoordination
from ddmip_lib.problems import SiteCare, grid_search

from .certified import Certified
from .peers import GurobiML, OmltHighs
from .random_inputs import RandomInputs

NO_MULTIPLIER = 1e-12
"""A multiplier clipped to this size does nothing; exactly zero is no bound that the solver takes."""


class Solver(Protocol):
    """What every method is."""

    def solve(
        self, problem: NeuralMIP, time_limit: float = 60.0, seed: int = 0, progress: bool = False
    ) -> Solution: ...


class Method(NamedTuple):
    """How a method is made, whether it is an exact model (run in a process of its own), and its name in figures."""

    make: Callable[[Any], Solver]
    """From the device."""
    exact: bool
    label: str


def _paper(device: str, block: str = "pgd", dtype: torch.dtype = torch.float64) -> DualDecomposition:
    solver = DualDecomposition.paper(block)
    solver.device, solver.dtype = torch.device(device), dtype
    return solver


def _without_multipliers(device: str) -> DualDecomposition:
    solver = _paper(device)
    solver.multiplier_bound = NO_MULTIPLIER
    return solver


def _paper_recovering(device: str) -> DualDecomposition:
    solver = _paper(device)
    solver.recover = True
    return solver


class GridSearch:
    """`grid_search` of a `SiteCare` problem as a method like the others; nothing in it is random."""

    method = "grid search"

    def solve(self, problem: NeuralMIP, time_limit: float = 60.0, seed: int = 0, progress: bool = False) -> Solution:
        """Tabulate the networks on nine levels of each continuous input, and choose exactly."""
        if not isinstance(problem, SiteCare):
            raise TypeError("grid search needs a problem from site_care, which knows the levels of its inputs.")
        return grid_search(problem, levels=9, time_limit=time_limit)


METHODS: dict[str, Method] = {
    "dd-paper": Method(_paper, False, "Algorithm 1, the paper's settings"),
    "dd-paper-float32": Method(
        lambda device: _paper(device, dtype=torch.float32), False, "Algorithm 1, the paper's settings, float32"
    ),
    "dd-barrier": Method(lambda device: _paper(device, "barrier"), False, "Algorithm 1, the paper's settings, barrier"),
    "dd-no-multipliers": Method(_without_multipliers, False, "the paper's settings without multipliers"),
    "dd": Method(lambda device: DualDecomposition(device=device), False, "Algorithm 1, our defaults"),
    "dd-graph": Method(
        lambda device: DualDecomposition(split="graph", device=device), False, "graph split, our defaults"
    ),
    "dd-paper-recover": Method(_paper_recovering, False, "the paper's settings, recovered"),
    "dd-recover": Method(
        lambda device: DualDecomposition(recover=True, device=device), False, "Algorithm 1, our defaults, recovered"
    ),
    "prices": Method(lambda device: PriceCoordination(device=device), False, "price coordination"),
    "certificate": Method(lambda device: Certified(device), False, "price coordination with certificate"),
    "ssg-printed": Method(lambda device: SingleStepGradient(repaired=False), False, "SSG as printed"),
    "ssg": Method(lambda device: SingleStepGradient(), False, "SSG repaired"),
    "random": Method(lambda device: RandomInputs(), False, "random inputs"),
    "enumeration": Method(lambda device: Enumeration(), True, "enumeration"),
    "grid-search": Method(lambda device: GridSearch(), True, "grid search, 9 levels"),
    "bigm": Method(lambda device: BigM(), True, "Big-M"),
    "bigm-tight": Method(lambda device: BigM(feastol=1e-9), True, "Big-M, tolerance 1e-9"),
    "sos1": Method(lambda device: BigM("sos"), True, "SOS1"),
    "gurobi-ml": Method(lambda device: GurobiML(), True, "gurobi-machinelearning"),
    "omlt-highs": Method(lambda device: OmltHighs(), True, "OMLT with HiGHS"),
}


def solver_of(method: str, device: str = "cpu") -> Solver:
    """The solver of that name, on that device.

    >>> solver_of("bigm").method
    'exact model, Big-M'
    """
    if method not in METHODS:
        raise ValueError(f"method {method!r} is unknown; choose one of {', '.join(METHODS)}.")
    return METHODS[method].make(device)

"""Nothing of a call stays in memory after its result: neither its run nor a model of SCIP."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ddmip_book.networks import mlp
from ddmip_book.problems import water_potability
from ddmip_lib import (
    DualDecomposition,
    Enumeration,
    NeuralMIP,
    PriceCoordination,
    Recovering,
    SequentialMIP,
    SingleStepGradient,
    certify,
    solve,
)
from ddmip_lib.certificates import lagrangian_bound
from ddmip_lib.methods import Run
from ddmip_lib.problems import hand_sized

METHODS: dict[str, Callable[[NeuralMIP], Any]] = {
    "dual decomposition": lambda p: DualDecomposition(max_iterations=3, penalty=1.0).solve(p),
    "graph split": lambda p: DualDecomposition(max_iterations=3, split="graph").solve(p),
    "enumeration": lambda p: Enumeration().solve(hand_sized()),
    "sequential": lambda p: SequentialMIP(callback=lambda event: event.iteration >= 3).solve(p),
    "prices": lambda p: PriceCoordination(max_rounds=1, choices=1).solve(p),
    "recovering": lambda p: Recovering(DualDecomposition(max_iterations=2, penalty=1.0)).solve(p),
    "gradient": lambda p: SingleStepGradient(callback=lambda event: event.iteration >= 3).solve(p),
    "solve": lambda p: solve(hand_sized()),
    "certify": lambda p: certify(p, PriceCoordination(max_rounds=1).solve(p)),
    "lagrangian_bound": lambda p: lagrangian_bound(hand_sized()),
}


@pytest.fixture
def without_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def runs_alive() -> int:
    return sum(type(each) is Run for each in gc.get_objects())


@pytest.mark.usefixtures("without_collection")
@pytest.mark.parametrize("name", METHODS)
def test_the_run_ends_with_its_result(name: str) -> None:
    problem = water_potability(n=2, net=mlp(1, 4, 9, seed=1), seed=1)
    before = runs_alive()
    result = METHODS[name](problem)
    assert result.bound is not None or result.objective is not None
    assert runs_alive() == before

"""The models of the suite by name."""

from collections.abc import Callable
from typing import NamedTuple

from ddmip_lib.model.problem import NeuralMIP
from . import families, given, trades
from .tiny import tiny_problem


class Member(NamedTuple):
    """One model: how it is built, its free network inputs, and whether the larger objective is the
    better one.
    """

    build: Callable[[], NeuralMIP]
    size: int
    sense: str = "maximise"
    box: bool = False
    """Whether it is one ReLU network in a box, as walks through linear regions want it."""


SUITE: dict[str, Member] = {
    "blend": Member(given.blend, 8, "minimise"),
    "ladder": Member(given.ladder, 4),
    "commit": Member(given.commit, 36, "minimise"),
    "diet": Member(given.diet, 15, "minimise"),
    "adversarial": Member(given.adversarial, 64, "minimise"),
    "sites": Member(given.sites, 24),
    "integers": Member(given.integers, 6, "minimise"),
    "jobs": Member(given.jobs, 6, "minimise"),
    "order": Member(given.order, 36),
    "wine": Member(trades.wine, 18),
    "city": Member(trades.city, 45),
    "car": Member(trades.car, 6),
    "workload": Member(trades.workload, 12),
    "surface": Member(trades.surface, 4, "minimise", box=True),
    "ocean": Member(trades.ocean, 64),
    "approvals": Member(trades.approvals, 45),
    "knapsack": Member(families.knapsack, 12),
    "units": Member(families.units, 10, "minimise"),
    "whole": Member(families.whole, 8, "minimise"),
    "switches": Member(families.switches, 30),
    "balance": Member(families.balance, 6, "minimise"),
    "chain": Member(families.chain, 9),
    "shared": Member(families.shared, 8, "minimise"),
    "sequence": Member(families.sequence, 12),
    "strip": Member(families.strip, 16),
    "departments": Member(families.departments, 30),
    "tiny": Member(tiny_problem, 4, "minimise"),
    "box": Member(families.box, 10, box=True),
    "deep_box": Member(families.deep_box, 20, box=True),
}


def member(name: str) -> Member:
    """The model of that name."""
    if name not in SUITE:
        raise ValueError(f"the suite has no model {name!r}; choose one of {', '.join(SUITE)}.")
    return SUITE[name]

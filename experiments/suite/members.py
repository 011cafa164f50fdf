"""The models of the suite by name."""

from collections.abc import Callable

from ddmip_lib import NeuralMIP
from . import families, given, trades
from .tiny import tiny_problem

MODELS: dict[str, Callable[[], NeuralMIP]] = {
    "blend": given.blend,
    "ladder": given.ladder,
    "commit": given.commit,
    "diet": given.diet,
    "adversarial": given.adversarial,
    "sites": given.sites,
    "integers": given.integers,
    "jobs": given.jobs,
    "order": given.order,
    "wine": trades.wine,
    "city": trades.city,
    "car": trades.car,
    "workload": trades.workload,
    "surface": trades.surface,
    "ocean": trades.ocean,
    "approvals": trades.approvals,
    "knapsack": families.knapsack,
    "units": families.units,
    "whole": families.whole,
    "switches": families.switches,
    "balance": families.balance,
    "chain": families.chain,
    "shared": families.shared,
    "sequence": families.sequence,
    "strip": families.strip,
    "departments": families.departments,
    "tiny": tiny_problem,
    "box": families.box,
    "deep_box": families.deep_box,
}
"""The functions that build them; `ddmip_book.experiments.grids.MODELS` holds their sizes."""


def build_model(name: str) -> NeuralMIP:
    """A new model of that name."""
    if name not in MODELS:
        raise ValueError(f"the suite has no model {name!r}; choose one of {', '.join(MODELS)}.")
    return MODELS[name]()

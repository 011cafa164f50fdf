"""The plan of `solve`: which methods fit a problem, in which order, for how long, and why."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..baselines.enumeration import Enumeration
from ..decomposition import DualDecomposition
from ..linearisation import SequentialMIP
from ..methods import Method
from ..model.blocks import Blocks
from ..model.instance import Instance
from ..model.problem import NeuralMIP
from ..model.structure import Structure
from ..model.text import counted
from ..pricing import PriceCoordination
from ..pricing.recognition import find_blocks
from ..proofs.exact import has_exact_model, has_one_input_models
from ..proofs.tables import unfixed

MAX_ENUMERATED_COMBINATIONS = 50_000
"""Combinations of all network inputs up to which they are compared one by one."""
MAX_TABULATED_VALUES = 64
"""Values of the inputs of one network evaluation up to which a MIP selects among them."""
MAX_TABLE_ENTRIES = 2**21
"""Numbers in the table of all combinations, at most."""
MAX_UNITS_FOR_LONG_PROOF = 1_000
"""Units of all network evaluations up to which much of the time is left for an exact model."""
FAILED_STARTS_BEFORE_PROOF = 10
"""Starts without a better point that end sequential linearisation where such a proof follows."""
LATER_TIME_FRACTION = 0.15
"""Fraction of the time limit for each later run of a method."""


@dataclass(frozen=True)
class PlannedMethod:
    """A method in the plan of `solve`.

    Attributes
    ----------
    solver
        The method.
    fraction
        Fraction of the time left that its first run may take.
    reason
        Reason for it, as in the log.
    later_fraction
        Fraction of the time limit that each later run, with another seed, may take; 0 if the
        method is deterministic.
    repeat_while_improving
        Whether the first run is repeated at once as long as each run finds a better point.
    """

    solver: Method
    fraction: float
    reason: str
    later_fraction: float = LATER_TIME_FRACTION
    repeat_while_improving: bool = False


def methods_for(problem: NeuralMIP, instance: Instance, client: Any = None) -> list[PlannedMethod]:
    """Return the methods that fit a problem, in the order in which `solve` runs them.

    Parameters
    ----------
    problem
        The problem.
    instance
        The same problem as arrays and maps.
    client
        A `distributed.Client` for the methods that can use a cluster.

    Returns
    -------
    list of PlannedMethod
        The plan, at least two methods.
    """
    blocks = find_blocks(problem, instance)
    priced = isinstance(blocks, Blocks)
    exact = has_exact_model(instance)
    provable = (
        exact
        and instance.nonlinear_units <= MAX_UNITS_FOR_LONG_PROOF
        and (not priced or has_one_input_models(instance))
    )
    prices = _planned_prices(blocks, client)
    fraction = 0.35 if provable else 0.5
    if prices and not priced:
        fraction = 0.25
    linearisation = _planned_linearisation(instance, exact, provable, fraction)
    why = "starts from the best point, moves all inputs at once"
    dual = PlannedMethod(DualDecomposition(), 0.05 if provable else 0.3, why)
    later = [*prices, linearisation] if priced else [linearisation, *prices]
    return [*_planned_enumeration(instance), *later, dual]


def _planned_enumeration(instance: Instance) -> list[PlannedMethod]:
    """Enumeration of all inputs together, or of those of each network evaluation, or neither."""
    count = combinations(instance)
    if count is not None:
        solver = Enumeration(max_values=max_combinations(instance))
        why = f"all inputs together take {count} values"
        return [PlannedMethod(solver, 0.5, why, later_fraction=0.0)]
    values = max_values(instance)
    if values > MAX_TABULATED_VALUES:
        return []
    why = f"the inputs of a network evaluation take at most {values} values"
    return [PlannedMethod(Enumeration(), 0.3, why, later_fraction=0.0)]


def _planned_prices(blocks: Blocks | Structure, client: Any) -> list[PlannedMethod]:
    """Price coordination, repeated where blocks of a general form were found; nothing without
    blocks.
    """
    if isinstance(blocks, Blocks):
        links = len(blocks.capacities)
        fraction = 0.4
    elif blocks.obstacle:
        return []
    else:
        links = len(blocks.names)
        fraction = 0.2
    why = f"{blocks.n} blocks, linked by {counted(links, 'constraint')}"
    general = isinstance(blocks, Structure)
    solver = PriceCoordination(client=client)
    return [PlannedMethod(solver, fraction, why, repeat_while_improving=general)]


def _planned_linearisation(
    instance: Instance, exact: bool, provable: bool, fraction: float
) -> PlannedMethod:
    inputs = instance.free_inputs
    evaluations = counted(sum(len(mapping.index) for mapping in instance.maps), "evaluation")
    integers = int(instance.milp.integer[inputs].sum())
    kind = "ReLU networks, exact near a point" if exact else "differentiable networks"
    why = f"{evaluations} of networks, {len(inputs)} free inputs ({integers} integer); {kind}"
    failed_starts = FAILED_STARTS_BEFORE_PROOF if provable else 2 * FAILED_STARTS_BEFORE_PROOF
    return PlannedMethod(SequentialMIP(max_failed_starts=failed_starts), fraction, why)


def combinations(instance: Instance) -> int | None:
    """Return the number of assignments of the network inputs that the constraints allow.

    None if they are too many, or if variables other than inputs and outputs are free.
    """
    milp = instance.milp
    inputs = instance.free_inputs
    others = (milp.lower < milp.upper) & ~instance.is_output
    others[inputs] = False
    if milp.others or others.any() or not milp.integer[inputs].all():
        return None
    found = instance.assignment_list.combinations(inputs, max_combinations(instance))
    return None if found is None else len(found)


def max_combinations(instance: Instance) -> int:
    """Return the number of combinations up to which they are compared one by one."""
    return min(MAX_ENUMERATED_COMBINATIONS, MAX_TABLE_ENTRIES // instance.milp.n_variables)


def max_values(instance: Instance) -> float:
    """Return the largest number of values that the inputs of one network evaluation take.

    Infinite if one of them is continuous, or if there are more than `MAX_TABULATED_VALUES`.
    """
    milp = instance.milp
    maximum = 0.0
    for row in itertools.chain.from_iterable(mapping.index for mapping in instance.maps):
        inputs = np.array(unfixed(milp, row), dtype=int)
        if not milp.integer[inputs].all():
            return np.inf
        found = instance.assignment_list.combinations(inputs, MAX_TABULATED_VALUES)
        if found is None:
            return np.inf
        maximum = max(maximum, len(found))
    return maximum

"""Which methods fit a problem, in which order, for which share of the time, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..baselines.enumeration import Enumeration
from ..bounds import Graph
from ..decomposition import DualDecomposition
from ..linearisation import SequentialMIP
from ..linearisation.neighbourhood import exact_graphs
from ..methods import ReportsPoints
from ..model.assignments import AssignmentList
from ..model.blocks import Blocks
from ..model.instance import Instance
from ..model.problem import NeuralMIP
from ..model.structure import Structure
from ..pricing import PriceCoordination
from ..pricing.recognition import find_blocks
from ..proofs.tables import unfixed

COMBINATIONS = 50_000  # of all inputs together that are compared one by one
VALUES = 64  # of each network row's inputs where a MIP chooses among them
NUMBERS = 2**21  # that a table of all assignments may hold
# of all networks and rows together, up to which much of the time is kept for a proof by an exact
# model,
UNITS = 1_000
IDLE = 10  # and so many starts without a better point are enough before it, which may find one too
LATER = 0.15  # of the whole time: what a method gets whenever it has another turn


@dataclass(frozen=True)
class PlannedMethod:
    """A method, the share of the time left that it may take, and the reason for it."""

    solver: ReportsPoints
    share: float
    why: str
    again: float = LATER
    """The share of the whole time that it may take in later turns, with other seeds; 0 where one
    turn says all.
    """
    insists: bool = False
    """Whether another turn follows at once as long as each finds a better point."""


def methods_for(problem: NeuralMIP, instance: Instance, client: Any = None) -> list[PlannedMethod]:
    """The methods that fit, strongest reasons first; those that can use a cluster get its
    client.
    """
    steps = []
    s = instance.milp
    rows = sum(len(m.index) for m in instance.maps)
    inputs = instance.free_inputs
    count = combinations(instance)
    if count is not None:
        all_ = Enumeration(max_values=max_combinations(instance))
        why = f"all inputs together take {count} values"
        steps.append(PlannedMethod(all_, 0.5, why, again=0.0))
    elif (most := max_values(instance)) <= VALUES:
        steps.append(
            PlannedMethod(
                Enumeration(),
                0.3,
                f"the inputs of a network row take at most {most} values",
                again=0.0,
            )
        )
    blocks = find_blocks(problem, instance)
    graphs = exact_graphs(instance)
    provable = (
        graphs is not None
        and units_of(instance, graphs) <= UNITS
        and not isinstance(blocks, Blocks)
    )
    links = len(blocks.capacities) if isinstance(blocks, Blocks) else len(blocks.names)
    why = f"{blocks.n} blocks, linked by {links} row{'s' * (links != 1)}"
    general = isinstance(blocks, Structure) and not blocks.obstacle
    prices = PlannedMethod(
        PriceCoordination(client=client), 0.2 if general else 0.4, why, insists=general
    )
    if isinstance(blocks, Blocks):
        steps.append(prices)
    whole = int(s.integer[inputs].sum())
    kind = "ReLU networks, exact near a point" if graphs else "networks with slopes"
    why = (
        f"{rows} network row{'s' * (rows != 1)}, {len(inputs)} free inputs ({whole} whole); {kind}"
    )
    share = 0.25 if general else 0.35 if provable else 0.5
    steps.append(
        PlannedMethod(SequentialMIP(max_failed_starts=IDLE if provable else 2 * IDLE), share, why)
    )
    if general:
        steps.append(prices)
    why = "starts from the best point, moves all inputs at once"
    steps.append(PlannedMethod(DualDecomposition(), 0.05 if provable else 0.3, why))
    return steps


def units_of(instance: Instance, graphs: Sequence[Graph]) -> int:
    """How many units the networks have on all their rows together."""
    counts = [sum(graph.nodes[k].units for k in graph.activations) for graph in graphs]
    return sum(count * len(m.index) for count, m in zip(counts, instance.maps, strict=True))


def combinations(instance: Instance) -> int | None:
    """How many assignments of the network inputs rows leave, where inputs and outputs are all that
    is free and they are few enough to be compared one by one.
    """
    s = instance.milp
    inputs = instance.free_inputs
    free = (s.lower < s.upper) & ~instance.is_output
    free[inputs] = False
    if s.others or free.any() or not s.integer[inputs].all():
        return None
    found = AssignmentList(s).combinations(inputs, max_combinations(instance))
    return None if found is None else len(found)


def max_combinations(instance: Instance) -> int:
    """So many combinations are compared one by one."""
    return min(COMBINATIONS, NUMBERS // instance.milp.n_variables)


def max_values(instance: Instance) -> float:
    """The largest number of values that the inputs of a network row take; infinite where one is
    continuous.
    """
    s = instance.milp
    listing = AssignmentList(instance.milp)
    most = 0.0
    for row in (row for m in instance.maps for row in m.index):
        inputs = np.array(unfixed(s, row), dtype=int)
        found = listing.combinations(inputs, VALUES) if s.integer[inputs].all() else None
        if found is None:
            return np.inf
        most = max(most, len(found))
    return most

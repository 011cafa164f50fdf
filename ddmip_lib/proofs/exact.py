"""A problem as a `Program`: networks whose inputs take few values as tables, others by exact models
of their units.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from ..bounds import Bounds, Graph, crown
from ..errors import UnsupportedNetworkError
from ..model.instance import InputMap, Instance
from ..model.predictor import Predictor
from ..model.scaling import Units
from ..model.verification import TOLERANCE
from ..programs.program import Program
from .encoding import (
    Ends,
    NetworkEncoder,
    NodeColumns,
    relax_bounds,
    relaxed_program,
    tighten_at,
)
from .tables import (
    Table,
    number_of_combinations,
    tables_of,
    tighten_to_tables,
    unfixed,
    write_tables,
)

MAX_EXACT_UNITS = 20_000
"""Nonlinear units of all networks and samples up to which their exact model is written."""
MAX_TABLE_SIZE = 64
"""Combinations of input values up to which a sample of a network becomes a table."""


def has_exact_model(instance: Instance) -> bool:
    """Return whether a MIP of acceptable size represents all networks and constraints exactly."""
    if instance.milp.others:
        return False
    try:
        graphs = instance.graphs
    except UnsupportedNetworkError:
        return False
    piecewise_linear = not any(graph.curved for graph in graphs)
    return piecewise_linear and instance.nonlinear_units <= MAX_EXACT_UNITS


def tabulated_program(instance: Instance, units: Units, tables: Sequence[Table]) -> Program:
    """Return the exact program of a problem whose networks are all tables.

    Parameters
    ----------
    instance
        The problem.
    units
        Its units, by which the tolerance relaxes it.
    tables
        The tables of all networks.
    """
    box = relax_bounds(instance, units)
    tighten_to_tables(tables, *box)
    encoder = NetworkEncoder(relaxed_program(instance, units, *box))
    write_tables(encoder, tables)
    return encoder.program()


def exact_program(
    instance: Instance,
    units: Units,
    box: Ends | None = None,
    tolerance: float = TOLERANCE,
    margin: float = 0.0,
    max_table_size: int = MAX_TABLE_SIZE,
) -> Program:
    """Return the program of a problem with exact models of its networks.

    With the default tolerance and margin, what is proved of it holds for all points in the box that
    `verify` accepts. To find points, a smaller tolerance and a margin are better.

    Parameters
    ----------
    instance
        The problem.
    units
        Its units.
    box
        A box inside which the program is exact, None for the problem's own.
    tolerance
        Tolerance by which constraints and bounds are relaxed, in their units.
    margin
        Distance of logits from 0.
    max_table_size
        Combinations of input values up to which a sample of a network becomes a table.
    """
    box = _relaxed_box(instance, units, box, tolerance)
    if (box[0] > box[1]).any():  # no integer between two bounds: every bound shows it
        return relaxed_program(instance, units, *box, tolerance)
    tabled = _few_combinations(instance, max_table_size)
    tables = tables_of(instance, list(map(np.flatnonzero, tabled))) or []
    tighten_to_tables(tables, *box)
    networks = list(_bounded_networks(instance, tabled, box))
    encoder = NetworkEncoder(relaxed_program(instance, units, *box, tolerance))
    write_tables(encoder, tables)
    for network in networks:
        network.encode(encoder, box, margin)
    return encoder.program()


def _relaxed_box(instance: Instance, units: Units, box: Ends | None, tolerance: float) -> Ends:
    lower, upper = relax_bounds(instance, units, tolerance)
    if box is None:
        return lower, upper
    return np.maximum(lower, box[0]), np.minimum(upper, box[1])


def _few_combinations(instance: Instance, maximum: int) -> list[ndarray]:
    """Return for each network which samples have inputs that take few values."""
    milp = instance.milp
    few = []
    for mapping in instance.maps:
        numbers = [number_of_combinations(milp, unfixed(milp, row)) for row in mapping.index]
        few.append(np.array(numbers) <= maximum)
    return few


class _BoundedNetwork(NamedTuple):
    """Samples of a network with the bounds of all its nodes."""

    predictor: Predictor
    mapping: InputMap
    graph: Graph
    samples: ndarray
    bounds: Bounds

    def encode(self, encoder: NetworkEncoder, box: Ends, margin: float) -> None:
        """Write the exact models of all samples."""
        for place, sample in enumerate(self.samples):
            inputs = self._inputs(sample, *box)
            values = encoder.add_network(self.graph, self.bounds, place, inputs)
            for unit, output in enumerate(self.mapping.output[sample]):
                lower = float(self.bounds.lower[place, unit])
                upper = float(self.bounds.upper[place, unit])
                gives_class = self.predictor.gives_class
                encoder.tie_output(int(output), values, unit, gives_class, (lower, upper), margin)

    def _inputs(self, sample: int, lower: ndarray, upper: ndarray) -> NodeColumns:
        """Return the inputs of a sample, those that are fixed as numbers."""
        index = self.mapping.index[sample]
        fixed = (index >= 0) & (lower[index] == upper[index])
        numbers = np.where(fixed, lower[index], self.mapping.constant[sample])
        return NodeColumns(np.where(fixed, -1, index), numbers)


def _bounded_networks(
    instance: Instance, tabled: Sequence[ndarray], box: Ends
) -> Iterator[_BoundedNetwork]:
    """Yield the networks with samples that are no tables; tighten the box, in place, to the bounds
    of their outputs.
    """
    for number, few in enumerate(tabled):
        if not few.all():
            yield _bounded_network(instance, number, np.flatnonzero(~few), box)


def _bounded_network(
    instance: Instance, number: int, samples: ndarray, box: Ends
) -> _BoundedNetwork:
    predictor = instance.predictors[number]
    mapping = instance.maps[number]
    graph = instance.graph(number)
    inputs = mapping.box(*box)[samples]
    bounds = crown(graph, inputs)
    low = predictor.outputs_of(bounds.lower.numpy())
    high = predictor.outputs_of(bounds.upper.numpy())
    tighten_at(box, mapping.output[samples], low, high)
    return _BoundedNetwork(predictor, mapping, graph, samples, bounds)

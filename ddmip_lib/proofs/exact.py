"""A problem as a `Program`: networks whose inputs take few values as tables, those with one free
input by their breakpoints, others by exact models of their units.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from ..bounds import Bounds, Graph, crown
from ..errors import UnsupportedNetworkError
from ..model.instance import InputMap, Instance
from ..model.predictor import Predictor
from ..model.scaling import Units
from ..model.verification import TOLERANCE
from ..programs.products import ProductWriter
from ..programs.program import Program
from ..programs.scip import OtherConstraint
from .breakpoints import Curve, curves
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
    """Return whether a MIP of acceptable size represents all networks exactly, and all constraints
    exactly or, if they are quadratic, up to the digits of their factors.
    """
    if not all(_is_bounded_quadratic(instance, other) for other in instance.milp.others):
        return False
    try:
        graphs = instance.graphs
    except UnsupportedNetworkError:
        return False
    piecewise_linear = not any(graph.curved for graph in graphs)
    return piecewise_linear and instance.nonlinear_units <= MAX_EXACT_UNITS


def _is_bounded_quadratic(instance: Instance, other: OtherConstraint) -> bool:
    """Whether a constraint is quadratic, and its factors are outputs or have finite bounds."""
    if other.quadratic is None:
        return False
    milp = instance.milp
    bounded = np.isfinite(milp.upper - milp.lower) | instance.is_output
    return bool(bounded[other.quadratic.factors].all())


def has_one_input_models(instance: Instance) -> bool:
    """Return whether every sample of a network has one free input at most, some a continuous one,
    and an exact model by its breakpoints.
    """
    milp = instance.milp
    free = [unfixed(milp, row) for mapping in instance.maps for row in mapping.index]
    continuous = any(not milp.integer[list(key)].all() for key in free)
    return continuous and max(map(len, free)) == 1 and has_exact_model(instance)


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
    relaxed = relax_bounds(instance, units, tolerance)
    if box is not None:
        tighten_at(relaxed, slice(len(box[0])), *box)
    box = relaxed
    if (box[0] > box[1]).any():  # no integer between two bounds: every bound shows it
        return relaxed_program(instance, units, *box, tolerance)
    tabled = _few_combinations(instance, max_table_size)
    tables = tables_of(instance, list(map(np.flatnonzero, tabled))) or []
    tighten_to_tables(tables, *box)
    networks = [
        _bounded_network(instance, number, np.flatnonzero(~few), box)
        for number, few in enumerate(tabled)
        if not few.all()
    ]
    encoder = NetworkEncoder(relaxed_program(instance, units, *box, tolerance))
    write_tables(encoder, tables)
    for network in networks:
        network.encode(encoder, box, margin)
    _encode_products(encoder, instance, tolerance)
    return encoder.program()


def _encode_products(encoder: NetworkEncoder, instance: Instance, tolerance: float) -> None:
    """Bound quadratic constraints, relaxed by the tolerance, whose factors have finite bounds."""
    writer = ProductWriter(
        encoder.variable,
        encoder.add_constraint,
        encoder.lower,
        encoder.upper,
        instance.milp.integer,
    )
    sizes = np.maximum(np.abs(encoder.lower), np.abs(encoder.upper))
    for other in instance.milp.others:
        quadratic = other.quadratic
        if quadratic is not None and np.isfinite(sizes[quadratic.factors]).all():
            values = np.array([1.0, quadratic.low, quadratic.high, quadratic.largest_value(sizes)])
            room = tolerance * np.abs(values[np.isfinite(values)]).max()
            writer.quadratic(quadratic, float(room))


def _few_combinations(instance: Instance, maximum: int) -> list[ndarray]:
    """Return for each network which samples have inputs that take few values."""
    milp = instance.milp
    few = []
    for mapping in instance.maps:
        numbers = [number_of_combinations(milp, unfixed(milp, row)) for row in mapping.index]
        few.append(np.array(numbers) <= maximum)
    return few


class _BoundedNetwork(NamedTuple):
    """Samples of a network with the bounds of all its nodes, as curves where one input is free, and
    with the ranges of the outputs.
    """

    predictor: Predictor
    mapping: InputMap
    graph: Graph
    samples: ndarray
    bounds: Bounds
    curves: dict[int, Curve]
    ranges: ndarray

    def encode(self, encoder: NetworkEncoder, box: Ends, margin: float) -> None:
        """Write the exact models of all samples."""
        for place, sample in enumerate(self.samples):
            inputs = self._inputs(sample, *box)
            if sample in self.curves:
                values = self.curves[sample].encode(encoder, int(inputs.at.max()))
            else:
                values = encoder.add_network(self.graph, self.bounds, place, inputs)
            for unit, output in enumerate(self.mapping.output[sample].tolist()):
                low, high = self.ranges[:, place, unit].tolist()
                gives_class = self.predictor.gives_class
                encoder.tie_output(output, values, unit, gives_class, (low, high), margin)

    def _inputs(self, sample: int, lower: ndarray, upper: ndarray) -> NodeColumns:
        """Return the inputs of a sample, those that are fixed as numbers."""
        index = self.mapping.index[sample]
        fixed = (index >= 0) & (lower[index] == upper[index])
        numbers = np.where(fixed, lower[index], self.mapping.constant[sample])
        return NodeColumns(np.where(fixed, -1, index), numbers)


def _bounded_network(
    instance: Instance, number: int, samples: ndarray, box: Ends
) -> _BoundedNetwork:
    """Bound a network at some samples; tighten the box, in place, to the bounds of its outputs."""
    predictor, mapping = instance.networks[number]
    graph = instance.graph(number)
    bounds = crown(graph, mapping.box(*box)[samples])
    curves_of = _curves(graph, mapping, samples, box)
    ranges = np.array([bounds.lower.numpy(), bounds.upper.numpy()])
    for place in np.flatnonzero(np.isin(samples, list(curves_of))):
        tighten_at(ranges, place, *curves_of[samples[place]].range)
    tighten_at(box, mapping.output[samples], *map(predictor.outputs_of, ranges))
    return _BoundedNetwork(predictor, mapping, graph, samples, bounds, curves_of, ranges)


def _curves(graph: Graph, mapping: InputMap, samples: ndarray, box: Ends) -> dict[int, Curve]:
    """Return the samples with one free input as curves."""
    if graph.curved:
        return {}
    low, high = map(mapping.at, box)
    single = [
        sample
        for sample in samples
        if len(np.unique(mapping.index[sample][low[sample] < high[sample]])) == 1
    ]
    found = curves(graph, low[single], high[single]) if single else None
    return {} if found is None else dict(zip(single, found, strict=True))

"""A whole problem as a `Program`: networks whose inputs take few values as tables, others by models
of their units.
"""

from collections.abc import Sequence

import numpy as np
import torch

from ..bounds import Box, Graph, crown
from ..model.instance import Instance
from ..model.scaling import Units
from ..model.verification import TOLERANCE
from ..programs.program import Program
from .encoding import Ends, NetworkEncoder, NodeColumns, relax_bounds, relaxed_program
from .tables import (
    Table,
    number_of_combinations,
    tables_of,
    tighten_to_tables,
    unfixed,
    write_tables,
)

FEW = 64  # values of the inputs of a network row up to which it is a table


def tabulated_program(instance: Instance, units: Units, tables: Sequence[Table]) -> Program:
    """The exact program of a problem whose networks are all tables."""
    ends = relax_bounds(instance, units)
    tighten_to_tables(tables, *ends)
    building = NetworkEncoder(relaxed_program(instance, units, *ends))
    write_tables(building, tables)
    return building.program()


def exact_program(
    instance: Instance,
    units: Units,
    graphs: Sequence[Graph],
    box: Ends | None = None,
    tolerance: float = TOLERANCE,
    margin: float = 0.0,
    few: int = FEW,
) -> Program:
    """The problem with exact models of its networks, on the boxes of their inputs or inside a
    smaller `box`.

    What is proved of it holds for all that `verify` accepts there. To find points, a smaller
    `tolerance` lets rows and bounds out by less, and a `margin` keeps logits away from 0. Where the
    inputs of a network row take at most `few` values, it is a table.
    """
    lower, upper = relax_bounds(instance, units, tolerance)
    if box is not None:
        lower = np.maximum(lower, box[0])
        upper = np.minimum(upper, box[1])
    if (
        lower > upper
    ).any():  # no whole number between two bounds: there is no point, which every bound shows
        return relaxed_program(instance, units, lower, upper, tolerance)
    small = [
        [
            number_of_combinations(instance.milp, unfixed(instance.milp, row)) <= few
            for row in m.index
        ]
        for m in instance.maps
    ]
    tables = tables_of(instance, [np.flatnonzero(rows) for rows in small]) or []
    tighten_to_tables(tables, lower, upper)
    networks = []
    for predictor, m, graph, tabled in zip(
        instance.predictors, instance.maps, graphs, small, strict=True
    ):
        rows = np.flatnonzero(~np.array(tabled))
        if not len(rows):
            continue
        bounds = crown(graph, Box(*(torch.tensor(m.at(end)[rows]) for end in (lower, upper))))
        networks.append((predictor, m, graph, rows, bounds))
        low, high = (predictor.outputs_of(end.numpy()) for end in (bounds.lower, bounds.upper))
        at = m.output[rows]
        lower[at], upper[at] = np.maximum(lower[at], low), np.minimum(upper[at], high)
    building = NetworkEncoder(relaxed_program(instance, units, lower, upper, tolerance))
    write_tables(building, tables)
    for predictor, m, graph, rows, bounds in networks:
        for place, row in enumerate(rows):
            index = m.index[row]
            constant = m.constant[row]
            fixed = (index >= 0) & (lower[index] == upper[index])
            inputs = NodeColumns(
                np.where(fixed, -1, index), np.where(fixed, lower[index], constant)
            )
            values = building.network(graph, bounds, place, inputs)
            for k, at in enumerate(m.output[row]):
                ends = float(bounds.lower[place, k]), float(bounds.upper[place, k])
                building.tie(int(at), values, k, predictor.gives_class, ends, margin)
    return building.program()

"""Whether bounds of the networks' outputs contradict the constraints, before any long work."""

from contextlib import suppress

import numpy as np

from ..bounds import Bounds, Graph, crown, intervals
from ..errors import ProblemError, UnsupportedNetworkError
from ..model.instance import Instance
from ..model.scaling import Units
from ..model.verification import TOLERANCE
from ..numerics import finite_size
from ..programs.presolve import propagate_bounds
from .encoding import Ends, relax_bounds, relaxed_program, tighten_at

RANGES_PROPAGATION_ROUNDS = 3
"""Passes of bound propagation."""
MAX_UNITS_FOR_CROWN = 2000
"""Units of all samples of all networks up to which CROWN is used too."""


def infeasible_by_ranges(instance: Instance) -> bool:
    """Return whether ranges of outputs prove that no point passes `verify`.

    The ranges are computed by intervals and then, for small networks, by CROWN. A network that
    cannot be read has no range. Problems without a constraint on an output are skipped.

    Examples
    --------
    >>> from ddmip_lib.problems import hand_sized
    >>> problem = hand_sized()
    >>> infeasible_by_ranges(problem.instance())
    False
    >>> _ = problem.model.addCons(problem.predictors[0].outputs[0, 0] >= 10)
    >>> infeasible_by_ranges(problem.instance())
    True
    """
    if not _constrains_outputs(instance):
        return False
    units = Units(instance, TOLERANCE)
    box = relax_bounds(instance, units)
    graphs = _graphs(instance)
    methods = [intervals]
    if _number_of_units(instance, graphs) <= MAX_UNITS_FOR_CROWN:
        methods.append(crown)
    for bound_network in methods:
        for number, graph in graphs.items():
            with suppress(ProblemError, UnsupportedNetworkError):  # numbers too large for a range
                mapping = instance.maps[number]
                bounds = bound_network(graph, mapping.box(*box))
                _tighten_outputs(bounds, instance, number, units, box)
        if (box[0] > box[1]).any():
            return True
        program = relaxed_program(instance, units, *box)
        if propagate_bounds(program.within(*box), RANGES_PROPAGATION_ROUNDS) is None:
            return True
    return False


def _constrains_outputs(instance: Instance) -> bool:
    """Return whether a constraint has an output, or a bound may exclude one of its values."""
    milp = instance.milp
    outputs = instance.outputs
    if milp.rows[:, outputs].nnz:
        return True
    lower = milp.lower[outputs]
    upper = milp.upper[outputs]
    free_class = milp.integer[outputs] & (lower <= 0) & (upper >= 1)
    bounded = np.isfinite(lower) | np.isfinite(upper)
    return bool((bounded & ~free_class).any())


def _graphs(instance: Instance) -> dict[int, Graph]:
    """Return the networks that can be read, by their number."""
    graphs = {}
    for number in range(len(instance.predictors)):
        with suppress(UnsupportedNetworkError):
            graphs[number] = instance.graph(number)
    return graphs


def _number_of_units(instance: Instance, graphs: dict[int, Graph]) -> int:
    total = 0
    for number, graph in graphs.items():
        samples = len(instance.maps[number].index)
        total += samples * sum(node.units for node in graph.nodes)
    return total


def _tighten_outputs(
    bounds: Bounds, instance: Instance, number: int, units: Units, box: Ends
) -> None:
    """Move the bounds of a network's outputs, in place, to its ranges, relaxed by the tolerance."""
    predictor = instance.predictors[number]
    outputs = instance.maps[number].output
    low = predictor.outputs_of(bounds.lower.numpy())
    high = predictor.outputs_of(bounds.upper.numpy())
    size = np.maximum(units.sizes[outputs], finite_size(low, high))
    room = 0.0 if predictor.gives_class else TOLERANCE * size
    tighten_at(box, outputs, low - room, high + room)

"""Before any long work: do rows or bounds ask of networks what their ranges show that they cannot
say?
"""

from contextlib import suppress

import numpy as np
import torch

from ..bounds import Bounds, Box, crown, intervals, network_graph
from ..errors import ProblemError, UnsupportedNetworkError
from ..model.instance import Instance
from ..model.scaling import Units
from ..model.verification import TOLERANCE
from ..programs.presolve import propagate_bounds
from .encoding import relax_bounds, relaxed_program

ROUNDS = 3  # of bounds that rows imply
UNITS = 2000  # units of all network rows together up to which CROWN is asked too


def infeasible_by_ranges(instance: Instance) -> bool:
    """Whether ranges of outputs prove that no point passes `verify`: first by intervals, then, for
    small networks, by CROWN. What cannot be read has no range; rows and bounds without outputs are
    not looked at.

    >>> from ddmip_lib.problems import hand_sized
    >>> problem = hand_sized()
    >>> infeasible_by_ranges(problem.instance())
    False
    >>> _ = problem.model.addCons(problem.predictors[0].outputs[0, 0] >= 10)
    >>> infeasible_by_ranges(problem.instance())
    True
    """
    s = instance.milp
    at = instance.outputs
    bounded = np.isfinite(s.lower[at]) | np.isfinite(s.upper[at])
    if not (
        s.rows[:, at].nnz
        or (bounded & ~(s.integer[at] & (s.lower[at] <= 0) & (s.upper[at] >= 1))).any()
    ):
        return False
    units = Units(instance, TOLERANCE)
    lower, upper = relax_bounds(instance, units)
    graphs = {}
    for k, predictor in enumerate(instance.predictors):
        with suppress(UnsupportedNetworkError):
            graphs[k] = network_graph(predictor.net, predictor.inputs.shape[1])
    small = (
        sum(sum(n.units for n in g.nodes) * len(instance.maps[k].index) for k, g in graphs.items())
        <= UNITS
    )
    for ranges in (intervals, crown)[: 1 + small]:
        for k, graph in graphs.items():
            m = instance.maps[k]
            with suppress(ProblemError, UnsupportedNetworkError):  # numbers too large for a range
                box = Box(*(torch.tensor(m.at(end)) for end in (lower, upper)))
                _keep(ranges(graph, box), instance, k, units, lower, upper)
        if (lower > upper).any():
            return True
        program = relaxed_program(instance, units, lower, upper)
        if propagate_bounds(program, lower, upper, ROUNDS) is None:
            return True
    return False


def _keep(
    found: Bounds, instance: Instance, k: int, units: Units, lower: np.ndarray, upper: np.ndarray
) -> None:
    """Move the ends of a network's outputs, in place, to its ranges and what `verify` forgives."""
    predictor = instance.predictors[k]
    at = instance.maps[k].output
    low, high = (predictor.outputs_of(end.numpy()) for end in (found.lower, found.upper))
    if not predictor.gives_class:
        room = TOLERANCE * np.maximum(units.sizes[at], np.maximum(np.abs(low), np.abs(high)))
        low = low - room
        high = high + room
    lower[at], upper[at] = np.maximum(lower[at], low), np.minimum(upper[at], high)

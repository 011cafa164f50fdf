"""Networks in series: an output that is an input of another network, or of another sample."""

from dataclasses import replace

import numpy as np
from numpy import ndarray

from ..errors import ProblemError
from .reformulation import Reformulation


def in_series(r: Reformulation) -> None:
    """Give each output that is an input elsewhere a copy, which is the input."""
    is_output = r.stated.is_output
    copies: dict[int, int] = {}
    for number, mapping in enumerate(r.maps):
        index = mapping.index.copy()
        for cell, at in np.ndenumerate(mapping.index):
            if 0 <= at < len(is_output) and is_output[at]:
                if at not in copies:
                    copies[at] = _copied(r, int(at))
                index[cell] = copies[at]
        r.maps[number] = replace(mapping, index=index)
    sources = list(copies)
    targets = list(copies.values())

    def copy_outputs(values: ndarray) -> None:
        values[targets] = values[sources]

    if copies:
        r.complete(copy_outputs, targets)


def _copied(r: Reformulation, at: int) -> int:
    """Add the copy of an output."""
    milp = r.stated.milp
    name = milp.names[at]
    if not np.isfinite(r.upper[at] - r.lower[at]):
        raise ProblemError(
            f"output {name} is an input of another network, and its range is not known: give it"
            " finite lb and ub."
        )
    copy = r.variable(r.lower[at], r.upper[at], bool(milp.integer[at]), f"copy of {name}")
    r.constrain([copy, at], [1.0, -1.0], 0.0, 0.0, f"copy of {name}")
    return copy

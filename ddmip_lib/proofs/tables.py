"""Networks whose inputs take few values, as tables: what each row of a network says at each of
them.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..clock import check_time
from ..model.assignments import AssignmentList, integers_between
from ..model.instance import Instance
from ..numerics import EPSILON
from ..programs.scip import MILP
from .encoding import NetworkEncoder

Key = tuple[int, ...]
"""The whole variables that decide one network row, by their number in the model."""


class Table(NamedTuple):
    """One row of a network: what decides it, the combinations of these values (m, k) at which the
    network has outputs, these (m, q), and the variables that carry them.
    """

    key: Key
    values: np.ndarray
    outputs: np.ndarray
    targets: np.ndarray


def unfixed(s: MILP, row: np.ndarray) -> Key:
    """The distinct inputs of a network row that may move."""
    return tuple(int(at) for at in np.unique(row[row >= 0]) if s.lower[at] < s.upper[at])


def number_of_combinations(s: MILP, key: Key) -> float:
    """How many combinations of values some variables have; infinite where one is continuous."""
    return math.prod(
        len(integers_between(s.lower[at], s.upper[at])) if s.integer[at] else math.inf for at in key
    )


def tables_of(
    instance: Instance, wanted: Sequence[np.ndarray], most: float = math.inf
) -> list[Table] | None:
    """Evaluate every network for its `wanted` rows at every combination that rows allow; those
    without a value are left out. None where a row has more than `most`, or a continuous input that
    no equation gives.
    """
    found = []
    s = instance.milp
    listing = AssignmentList(s)
    base = np.where(np.isfinite(s.lower), s.lower, 0.0)
    for predictor, m, numbers in zip(instance.predictors, instance.maps, wanted, strict=True):
        keys = []
        tables = []
        points = []
        for r in numbers:
            check_time()
            deciding = listing.deciders(np.array(unfixed(s, m.index[r]), dtype=int))
            values = None if deciding is None else listing.combinations(deciding.at, most)
            if deciding is None or values is None:
                return None
            keys.append(tuple(deciding.at.tolist()))
            tables.append(values)
            known = listing.assignments(deciding, values, base)
            points.append(np.where(m.index[r] >= 0, known[:, m.index[r]], m.constant[r]))
        if not len(numbers):
            continue
        raws = np.split(
            predictor.raw(np.concatenate(points)), np.cumsum(list(map(len, tables)))[:-1]
        )
        for key, values, raw, targets in zip(keys, tables, raws, m.output[numbers], strict=True):
            finite = np.isfinite(raw).all(axis=1)
            found.append(Table(key, values[finite], predictor.outputs_of(raw[finite]), targets))
    return found


def tighten_to_tables(tables: Sequence[Table], lower: np.ndarray, upper: np.ndarray) -> None:
    """Move the ends of outputs, in place, to what the tables hold."""
    for table in tables:
        at = table.targets
        lower[at] = np.maximum(lower[at], table.outputs.min(axis=0, initial=np.inf))
        upper[at] = np.minimum(upper[at], table.outputs.max(axis=0, initial=-np.inf))


def write_tables(building: NetworkEncoder, tables: Sequence[Table]) -> None:
    r"""$x = \sum_j v_j \delta_j$, $y = \sum_j f(v_j) \delta_j$ with one $\delta_j = 1$ for each
    key; for an input of two neighbouring values the line through both.
    """
    choices: dict[Key, dict[tuple[float, ...], int]] = {}
    for table in tables:
        if len(table.key) == 1 and np.array_equal(np.diff(table.values[:, 0]), [1.0]):
            (x,), (v, _) = table.key, table.values[:, 0].tolist()
            building.between(x, v, v + 1)
            for at, (one, two) in zip(
                table.targets.tolist(), table.outputs.T.tolist(), strict=True
            ):
                room = (
                    8 * EPSILON * (abs(one) + abs(two)) * (1 + abs(v))
                )  # of the slope and of the line
                middle = one - (two - one) * v
                building.row([at, x], [1.0, one - two], middle - room, middle + room)
            continue
        values = list(map(tuple, table.values.tolist()))
        if table.key not in choices:
            chosen = [building.variable(0.0, 1.0, integer=True) for _ in values]
            building.row(chosen, np.ones(len(chosen)), 1.0, 1.0)
            for at, column in zip(table.key, table.values.T, strict=True):
                building.row([at, *chosen], [-1.0, *column], 0.0, 0.0)
            choices[table.key] = dict(zip(values, chosen, strict=True))
        offered = choices[table.key]
        known = [k for k, value in enumerate(values) if value in offered]
        mine = [offered[values[k]] for k in known]
        if len(mine) < len(
            offered
        ):  # where another network of these inputs has a value, this one has none
            building.row(mine, np.ones(len(mine)), 1.0, 1.0)
        for at, column in zip(table.targets, table.outputs.T, strict=True):
            building.row([int(at), *mine], [-1.0, *column[known]], 0.0, 0.0)


def every_assignment(instance: Instance, tables: Sequence[Table], most: int) -> np.ndarray | None:
    """All full assignments (k, n) that rows on whole variables allow, if these and outputs are all
    that is free and there are at most `most` numbers.
    """
    s = instance.milp
    at = np.array(sorted({variable for table in tables for variable in table.key}), dtype=int)
    free = (s.lower < s.upper) & ~instance.is_output
    free[at] = False
    listing = AssignmentList(s)
    values = None if free.any() or s.others else listing.combinations(at, most / s.n_variables)
    if values is None:
        return None
    found = np.tile(s.lower, (len(values), 1))
    found[:, at] = values
    valued = np.ones(len(found), dtype=bool)
    for table in tables:
        check_time()
        entry = positions(table.values, found[:, list(table.key)])
        valued &= entry >= 0
        if len(table.values):
            found[:, table.targets] = table.outputs[entry]
    return found[valued]


def positions(values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The position of each row of `wanted` among the distinct rows of `values`; -1 where it is not
    among them.

    >>> positions(np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([[2.0, 3.0], [0.0, 3.0]]))
    array([ 1, -1])
    """
    if not values.shape[1]:  # nothing to look up: all rows are the empty one
        return np.full(len(wanted), len(values) - 1)
    _, code = np.unique(np.concatenate([values, wanted]), axis=0, return_inverse=True)
    code = code.ravel()
    position = np.full(code.max(initial=-1) + 1, -1)
    position[code[: len(values)]] = np.arange(len(values))
    return position[code[len(values) :]]

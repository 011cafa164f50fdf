"""Networks whose inputs take few values, as tables: what each row of a network says at each of them."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..model.instance import Instance
from ..model.scip import MILP
from .embedding import Embedding

Key = tuple[int, ...]
"""The unfixed variables of one network row, by their number in the model."""


class Table(NamedTuple):
    """One row of a network: its unfixed inputs, the combinations of their values (m, k) at which the network has
    outputs, these (m, q), and the variables that carry them."""

    key: Key
    values: np.ndarray
    outputs: np.ndarray
    targets: np.ndarray


def unfixed(s: MILP, row: np.ndarray) -> Key:
    """The distinct inputs of a network row that may move."""
    return tuple(int(at) for at in np.unique(row[row >= 0]) if s.lower[at] < s.upper[at])


def whole_numbers(s: MILP, at: int) -> range:
    """The values of a whole number between its bounds."""
    return range(math.ceil(s.lower[at] - 1e-9), math.floor(s.upper[at] + 1e-9) + 1)


def count_of(s: MILP, key: Key) -> float:
    """How many combinations of values some inputs have; infinite where one is continuous."""
    return math.prod(len(whole_numbers(s, at)) if s.integer[at] else math.inf for at in key)


def combinations_of(s: MILP, key: Key) -> np.ndarray:
    """All combinations of values of some whole numbers, (m, k)."""
    found = list(itertools.product(*(whole_numbers(s, at) for at in key)))
    return np.array(found, dtype=float).reshape(len(found), len(key))


def tables_of(instance: Instance, wanted: Sequence[np.ndarray]) -> list[Table]:
    """Evaluate every network for its `wanted` rows at every combination; those without a value are left out."""
    found, s = [], instance.milp
    for predictor, m, numbers in zip(instance.predictors, instance.maps, wanted, strict=True):
        if not len(numbers):
            continue
        keys = [unfixed(s, m.index[r]) for r in numbers]
        tables = [combinations_of(s, key) for key in keys]
        counts = [len(values) for values in tables]
        points, ends = np.repeat(m.at(s.lower)[numbers], counts, axis=0), np.cumsum(counts)
        for r, key, values, end in zip(numbers, keys, tables, ends, strict=True):
            for at, column in zip(key, values.T, strict=True):
                points[end - len(values) : end, m.index[r] == at] = column[:, None]
        raws = np.split(predictor.raw(points), ends[:-1])
        for key, values, raw, targets in zip(keys, tables, raws, m.output[numbers], strict=True):
            finite = np.isfinite(raw).all(axis=1)
            found.append(Table(key, values[finite], predictor.outputs_of(raw[finite]), targets))
    return found


def keep_tables(tables: Sequence[Table], lower: np.ndarray, upper: np.ndarray) -> None:
    """Move the ends of outputs, in place, to what the tables hold."""
    for table in tables:
        at = table.targets
        lower[at] = np.maximum(lower[at], table.outputs.min(axis=0, initial=np.inf))
        upper[at] = np.minimum(upper[at], table.outputs.max(axis=0, initial=-np.inf))


def write_tables(building: Embedding, tables: Sequence[Table]) -> None:
    r"""$x = \sum_j v_j \delta_j$, $y = \sum_j f(v_j) \delta_j$ with one $\delta_j = 1$ for each key."""
    choices: dict[Key, dict[tuple[float, ...], int]] = {}
    for table in tables:
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
        if len(mine) < len(offered):  # where another network of these inputs has a value, this one has none
            building.row(mine, np.ones(len(mine)), 1.0, 1.0)
        for at, column in zip(table.targets, table.outputs.T, strict=True):
            building.row([int(at), *mine], [-1.0, *column[known]], 0.0, 0.0)


def every_assignment(instance: Instance, tables: Sequence[Table], most: int) -> np.ndarray | None:
    """All full assignments (k, n), if inputs and outputs are all that is free and there are at most `most` numbers."""
    s, inputs = instance.milp, instance.free_inputs
    free = (s.lower < s.upper) & ~instance.is_output
    free[inputs] = False
    count = count_of(s, tuple(inputs.tolist()))
    if free.any() or s.others or count * s.n_variables > most:
        return None
    found = np.tile(s.lower, (int(count), 1))
    found[:, inputs] = combinations_of(s, tuple(inputs.tolist()))
    valued = np.ones(len(found), dtype=bool)
    for table in tables:
        place = {tuple(value): k for k, value in enumerate(table.values.tolist())}
        at = np.array([place.get(tuple(row), -1) for row in found[:, list(table.key)].tolist()], dtype=int)
        valued &= at >= 0
        if len(table.values):
            found[:, table.targets] = table.outputs[at]
    return found[valued]

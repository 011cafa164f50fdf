"""Networks whose inputs take few values, as tables: what each row of a network says at each of them."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..model.instance import Instance
from ..model.sizes import Units
from .embedding import Embedding, let_out, relaxed
from .program import Program

Key = tuple[int, ...]
"""The unfixed variables of one network row, by their number in the model."""


class Table(NamedTuple):
    """One row of a network: its unfixed inputs, the combinations of their values (m, k) at which the network has
    outputs, these (m, q), and the variables that carry them."""

    key: Key
    values: np.ndarray
    outputs: np.ndarray
    targets: np.ndarray


def tables_of(instance: Instance, combinations: Sequence[Sequence[tuple[Key, np.ndarray]]]) -> list[Table]:
    """Evaluate every network at every combination; those at which it has no value are left out."""
    found = []
    for predictor, m, rows in zip(instance.predictors, instance.maps, combinations, strict=True):
        counts = [len(values) for _, values in rows]
        points, ends = np.repeat(m.at(instance.milp.lower), counts, axis=0), np.cumsum(counts)
        for index, (key, values), end in zip(m.index, rows, ends, strict=True):
            for at, column in zip(key, values.T, strict=True):
                points[end - len(values) : end, index == at] = column[:, None]
        raws = np.split(predictor.raw(points), ends[:-1])
        for (key, values), raw, targets in zip(rows, raws, m.output, strict=True):
            finite = np.isfinite(raw).all(axis=1)
            found.append(Table(key, values[finite], predictor.outputs_of(raw[finite]), targets))
    return found


def tabulated(instance: Instance, units: Units, tables: Sequence[Table]) -> Program:
    r"""The exact program: $x = \sum_j v_j \delta_j$, $y = \sum_j f(v_j) \delta_j$ with one $\delta_j = 1$ for each key."""
    lower, upper = let_out(instance, units)
    for table in tables:
        ends = table.outputs.min(axis=0, initial=np.inf), table.outputs.max(axis=0, initial=-np.inf)
        lower[table.targets] = np.maximum(lower[table.targets], ends[0])
        upper[table.targets] = np.minimum(upper[table.targets], ends[1])
    building = Embedding(relaxed(instance, units, lower, upper))
    choices: dict[Key, tuple[np.ndarray, list[int]]] = {}
    for table in tables:
        if table.key not in choices:
            chosen = [building.variable(0.0, 1.0, integer=True) for _ in table.values]
            building.row(chosen, np.ones(len(chosen)), 1.0, 1.0)
            for at, column in zip(table.key, table.values.T, strict=True):
                building.row([at, *chosen], [-1.0, *column], 0.0, 0.0)
            choices[table.key] = (table.values, chosen)
        offered, chosen = choices[table.key]
        place = {tuple(value): k for k, value in enumerate(offered.tolist())}
        mine = [chosen[place[tuple(value)]] for value in table.values.tolist() if tuple(value) in place]
        if len(mine) < len(chosen):  # another network of these inputs has no value where this one has, or the reverse
            building.row(mine, np.ones(len(mine)), 1.0, 1.0)
        known = [k for k, value in enumerate(table.values.tolist()) if tuple(value) in place]
        for at, column in zip(table.targets, table.outputs.T, strict=True):
            building.row([int(at), *mine], [-1.0, *column[known]], 0.0, 0.0)
    return building.program()


def every_assignment(instance: Instance, tables: Sequence[Table], most: int) -> np.ndarray | None:
    """All full assignments (k, n), if inputs and outputs are all that is free and there are at most `most` numbers."""
    s, inputs = instance.milp, instance.free_inputs
    free = (s.lower < s.upper) & ~instance.is_output
    free[inputs] = False
    sets = [np.arange(np.ceil(s.lower[at] - 1e-9), np.floor(s.upper[at] + 1e-9) + 1) for at in inputs]
    count = np.prod([float(len(values)) for values in sets])
    if free.any() or s.others or count * s.n_variables > most:
        return None
    found = np.tile(s.lower, (int(count), 1))
    found[:, inputs] = np.array(list(itertools.product(*sets)), dtype=float).reshape(int(count), len(inputs))
    valued = np.ones(len(found), dtype=bool)
    for table in tables:
        place = {tuple(value): k for k, value in enumerate(table.values.tolist())}
        at = np.array([place.get(tuple(row), -1) for row in found[:, list(table.key)].tolist()], dtype=int)
        valued &= at >= 0
        if len(table.values):
            found[:, table.targets] = table.outputs[at]
    return found[valued]

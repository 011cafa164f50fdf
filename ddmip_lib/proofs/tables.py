"""Networks whose inputs take few values, as tables: the outputs of a sample at each combination."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy import ndarray

from ..clock import check_time
from ..model.assignments import integers_between
from ..model.instance import InputMap, Instance
from ..model.predictor import Predictor
from ..numerics import EPSILON
from ..programs.scip import MILP
from .encoding import NetworkEncoder, tighten_at

Key = tuple[int, ...]
"""The integer variables that determine one sample of a network, by their index in the model."""


class Table(NamedTuple):
    """One sample of a network, tabulated.

    Attributes
    ----------
    key
        The variables that determine the sample.
    values
        The combinations of their values at which the network has outputs, shape (m, k).
    outputs
        The outputs there, shape (m, q).
    targets
        The variables of the model that carry the outputs.
    """

    key: Key
    values: ndarray
    outputs: ndarray
    targets: ndarray


def unfixed(s: MILP, row: ndarray) -> Key:
    """Return the distinct inputs of a sample whose bounds differ."""
    return tuple(int(at) for at in np.unique(row[row >= 0]) if s.lower[at] < s.upper[at])


def number_of_combinations(s: MILP, key: Key) -> float:
    """Return the number of combinations of values of some variables; inf with a continuous one."""
    if not s.integer[list(key)].all():
        return math.inf
    return math.prod(len(integers_between(s.lower[at], s.upper[at])) for at in key)


def tables_of(
    instance: Instance, wanted: Sequence[ndarray], most: float = math.inf
) -> list[Table] | None:
    """Evaluate networks at every combination of their inputs that the constraints allow.

    Combinations at which a network has no finite output are left out.

    Parameters
    ----------
    instance
        The problem.
    wanted
        For every network, the numbers of the samples to be tabulated.
    most
        Maximum number of combinations of a sample.

    Returns
    -------
    list of Table or None
        None where a sample has more combinations, or a continuous input that no equation gives.
    """
    tables: list[Table] = []
    for (predictor, mapping), samples in zip(instance.networks, wanted, strict=True):
        inputs = []
        for sample in samples:
            check_time()
            each = _inputs(instance, mapping, sample, most)
            if each is None:
                return None
            inputs.append(each)
        if inputs:
            tables += _tables(predictor, inputs, mapping.output[samples])
    return tables


Inputs = tuple[Key, ndarray, ndarray]
"""All inputs of one sample: its key, the values of the key, and the network's inputs."""


def _tables(predictor: Predictor, inputs: Sequence[Inputs], targets: ndarray) -> Iterator[Table]:
    """Yield the tables of some samples of a network, which is evaluated once."""
    keys, values, points = zip(*inputs, strict=True)
    ends = np.cumsum([len(part) for part in points])
    outputs = np.split(predictor.raw(np.concatenate(points)), ends[:-1])
    for key, each, raw, target in zip(keys, values, outputs, targets, strict=True):
        finite = np.isfinite(raw).all(axis=1)
        yield Table(key, each[finite], predictor.outputs_of(raw[finite]), target)


def _inputs(instance: Instance, mapping: InputMap, sample: int, most: float) -> Inputs | None:
    """Return the inputs of a sample; None if they take more than `most` values."""
    milp = instance.milp
    assignments = instance.assignment_list
    index = mapping.index[sample]
    deciding = assignments.determining_variables(np.array(unfixed(milp, index), dtype=int))
    values = None if deciding is None else assignments.combinations(deciding.at, most)
    if deciding is None or values is None:
        return None
    base = np.where(np.isfinite(milp.lower), milp.lower, 0.0)
    known = assignments.assignments(deciding, values, base)
    points = np.where(index >= 0, known[:, index], mapping.constant[sample])
    return tuple(deciding.at.tolist()), values, points


def tighten_to_tables(tables: Iterable[Table], lower: ndarray, upper: ndarray) -> None:
    """Move the bounds of outputs, in place, to the ranges of their tables."""
    for table in tables:
        low = table.outputs.min(axis=0, initial=np.inf)
        high = table.outputs.max(axis=0, initial=-np.inf)
        tighten_at((lower, upper), table.targets, low, high)


def write_tables(building: NetworkEncoder, tables: Sequence[Table]) -> None:
    r"""Write tables: $x = \sum_j v_j \delta_j$, $y = \sum_j f(v_j) \delta_j$ with one
    $\delta_j = 1$ for each key; for an input with two neighbouring values the line through both.

    Parameters
    ----------
    building
        The program to be extended.
    tables
        The tables; those with the same key have the same binaries.
    """
    chosen: dict[Key, tuple[ndarray, ndarray]] = {}
    for table in tables:
        if len(table.key) == 1 and np.array_equal(np.diff(table.values[:, 0]), [1.0]):
            _write_line(building, table)
            continue
        if table.key not in chosen:
            chosen[table.key] = table.values, _write_choice(building, table)
        _write_outputs(building, table, *chosen[table.key])


def _write_line(building: NetworkEncoder, table: Table) -> None:
    """Write y = f(v) + (f(v + 1) - f(v)) (x - v) for an input x that is v or v + 1."""
    x = table.key[0]
    v = float(table.values[0, 0])
    building.tighten(x, v, v + 1)
    for target, one, two in zip(table.targets, *table.outputs, strict=True):
        room = 8 * EPSILON * (abs(one) + abs(two)) * (1 + abs(v))  # of slope and constant
        constant = one - (two - one) * v
        building.add_constraint([target, x], [1.0, one - two], constant - room, constant + room)


def _write_choice(building: NetworkEncoder, table: Table) -> ndarray:
    """Write one binary for each combination of the key's values, and return them."""
    binaries = np.array([building.variable(0.0, 1.0, integer=True) for _ in table.values], int)
    building.add_constraint(binaries, np.ones(len(binaries)), 1.0, 1.0)
    for variable, column in zip(table.key, table.values.T, strict=True):
        building.add_constraint([variable, *binaries], [-1.0, *column], 0.0, 0.0)
    return binaries


def _write_outputs(
    building: NetworkEncoder, table: Table, combinations: ndarray, binaries: ndarray
) -> None:
    """Write the outputs of a table as sums of the binaries of some combinations.

    Combinations that another network with the same key lacks have no binary; those that this
    network lacks are excluded.
    """
    entry = positions(combinations, table.values)
    known = entry >= 0
    mine = binaries[entry[known]]
    if len(mine) < len(binaries):
        building.add_constraint(mine, np.ones(len(mine)), 1.0, 1.0)
    for target, column in zip(table.targets, table.outputs.T, strict=True):
        building.add_constraint([target, *mine], [-1.0, *column[known]], 0.0, 0.0)


def every_assignment(instance: Instance, tables: Sequence[Table], most: int) -> ndarray | None:
    """Return all full assignments that the constraints on integer variables allow.

    Parameters
    ----------
    instance
        The problem.
    tables
        Tables of all its networks.
    most
        Maximum number of numbers in the result.

    Returns
    -------
    array of shape (k, n) or None
        None where there are more, or where inputs and outputs are not all that is free.
    """
    milp = instance.milp
    decided = np.array(sorted(set().union(*[table.key for table in tables])), dtype=int)
    free = (milp.lower < milp.upper) & ~instance.is_output
    free[decided] = False
    if free.any() or milp.others:
        return None
    values = instance.assignment_list.combinations(decided, most / milp.n_variables)
    if values is None:
        return None
    assignments = np.tile(milp.lower, (len(values), 1))
    assignments[:, decided] = values
    has_outputs = np.ones(len(assignments), dtype=bool)
    for table in tables:
        check_time()
        entry = positions(table.values, assignments[:, list(table.key)])
        has_outputs &= entry >= 0
        if len(table.values):
            assignments[:, table.targets] = table.outputs[entry]
    return assignments[has_outputs]


def positions(values: ndarray, wanted: ndarray) -> ndarray:
    """Return the position of each row of `wanted` in `values`, whose rows are distinct; -1 if none.

    >>> positions(np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([[2.0, 3.0], [0.0, 3.0]]))
    array([ 1, -1])
    """
    place = {row: k for k, row in enumerate(map(tuple, values.tolist()))}
    return np.array([place.get(row, -1) for row in map(tuple, wanted.tolist())], dtype=int)

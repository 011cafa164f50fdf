"""A problem that grows by auxiliary variables, linear constraints and networks.

Every method and proof shares the extended problem. The user's own model stays what points are
verified against.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy import ndarray
from pyscipopt import Model
from torch import nn

from ..bounds import Box, crown
from ..errors import ProblemError, UnsupportedNetworkError
from ..programs.presolve import propagate_bounds
from ..programs.scip import MILP, OtherConstraint, copy_model
from ..programs.scip_program import ScipProgram, model_of
from .extended import Auxiliary, Completion, ExtendedInstance, Networks
from .instance import InputMap, Instance
from .left_out import LeftOut
from .predictor import Predictor, Regression

PROPAGATION_ROUNDS = 3
"""Passes over all constraints for the ranges of variables."""
RANGE_MARGIN = 2e-6
"""Room around ranges, relative to their ends: verification tolerates 1e-6."""
Ends = tuple[ndarray, ndarray]


class Reformulation:
    """A problem that grows by auxiliary variables, constraints and networks.

    Variables are numbered as in the problem as stated, and auxiliary ones follow.

    Parameters
    ----------
    stated
        The problem as stated.
    tables
        Whether networks may stay as they are whose inputs take few values.

    Attributes
    ----------
    stated, tables
        The arguments.
    predictors, maps
        The networks of the extended problem, and the positions of their variables.
    lower, upper
        Ranges of all variables that follow from bounds, constraints and networks. The bounds of
        the extended problem are those of the model.
    others
        Constraints that are not linear, without those that were restated.
    left_out
        Which of them methods and proofs leave out, and why.
    extending, restricting
        Functions that set auxiliary variables when a point of the user's is extended, and those
        that set the user's variables when an extended point is restricted to them, in place.
    """

    def __init__(self, stated: Instance, tables: bool = True) -> None:
        self.stated = stated
        self.tables = tables
        self.predictors = list(stated.predictors)
        self.maps = list(stated.maps)
        self.others = list(stated.milp.others)
        self.left_out: list[LeftOut] = []
        lower, upper = ranges_of(stated)
        self.lower = lower.tolist()
        self.upper = upper.tolist()
        self._integer: list[bool] = []
        self._names: list[str] = []
        self._entries: list[tuple[Sequence[int], Sequence[float]]] = []
        self._sides: list[tuple[float, float]] = []
        self._row_names: list[str] = []
        self.extending: list[Completion] = []
        self.restricting: list[Completion] = []
        self._completions: list[Completion] = []
        self._determined: list[int] = []

    def variable(self, lower: float, upper: float, integer: bool = False, name: str = "") -> int:
        """Add an auxiliary variable and return its position."""
        self.lower.append(float(lower))
        self.upper.append(float(upper))
        self._integer.append(integer)
        self._names.append(name)
        return len(self.lower) - 1

    def constrain(
        self, at: Sequence[int], weights: Sequence[float], low: float, high: float, name: str = ""
    ) -> None:
        """Add the constraint low <= weights'v <= high on the variables at these positions."""
        self._entries.append((at, weights))
        self._sides.append((float(low), float(high)))
        self._row_names.append(name)

    def add_predictor(self, net: nn.Module, inputs: Any, outputs: Any, name: str) -> None:
        """Add the constraint outputs = net(inputs), of matrices of positions."""
        inputs = np.array(inputs, dtype=int)
        outputs = np.array(outputs, dtype=int)
        self.predictors.append(Regression(net, inputs, outputs, name))
        self.maps.append(InputMap(inputs, np.zeros(inputs.shape), outputs))

    def replace_predictor(self, number: int) -> None:
        """Remove a network that added constraints state: its outputs are computed by it still."""
        predictor = self.predictors.pop(number)
        mapping = self.maps.pop(number)

        def predict(values: ndarray) -> None:
            values[mapping.output] = predictor.predict(mapping.at(values))

        self.complete(predict, mapping.output.ravel().tolist())

    def complete(self, function: Completion, determines: Sequence[int] = ()) -> None:
        """Set auxiliary variables by a function, which is called after the networks.

        Parameters
        ----------
        function
            Sets them in a full assignment, in place.
        determines
            Positions of the variables that follow from network inputs and outputs alone.
        """
        self._completions.append(function)
        self._determined.extend(determines)

    def restate(self, other: OtherConstraint) -> None:
        """Remove a constraint that added ones state."""
        self.others.remove(other)

    def leave_out(self, other: OtherConstraint, reason: str, remedy: str) -> None:
        """Record that only candidates are checked by a constraint."""
        constraint = f"{other.kind} {other.name}"
        self.left_out.append(LeftOut(constraint, "bounds and exact models", reason, remedy))

    @property
    def unchanged(self) -> bool:
        """Whether nothing was added, restated or replaced."""
        same = len(self.others) == len(self.stated.milp.others)
        for found, given in zip(self.predictors, self.stated.predictors, strict=False):
            same &= found is given
        return same and not (self._names or self._entries)

    def instance(self) -> ExtendedInstance:
        """Return the extended problem."""
        milp = self._milp()
        model: Callable[[], Model]
        if self.others:
            written = self._extended_model(milp)
            model = cache(lambda: written.model)
            addresses = {v.ptr(): at for at, v in enumerate(written.model.getVars())}
            order = np.array([addresses[v.ptr()] for v in written.variables])
        else:
            order = np.argsort(np.argsort(milp.kind, kind="stable"), kind="stable")
            model = cache(lambda: model_of(moved))
        moved = _moved_milp(milp, order)
        maps = [_moved_map(mapping, order) for mapping in self.maps]
        return ExtendedInstance(
            self.stated,
            moved,
            model,
            Networks(self.predictors, maps, self._depth()),
            Auxiliary(
                order,
                self._completions,
                order[np.array(self._determined, dtype=int)],
                self.extending,
                self.restricting,
            ),
            self.left_out,
        )

    def _milp(self) -> MILP:
        """The extended model, the auxiliary variables last."""
        stated = self.stated.milp
        n = stated.n_variables
        first = np.cumsum([0, *(len(at) for at, _ in self._entries)])
        columns = np.concatenate([[], *(at for at, _ in self._entries)]).astype(int)
        weights = np.concatenate([[], *(weights for _, weights in self._entries)])
        rows = stated.rows.copy()
        rows.resize(stated.n_rows, len(self.lower))
        added = sp.csr_matrix((weights, columns, first), (len(self._entries), len(self.lower)))
        added.sum_duplicates()
        low, high = np.array(self._sides).reshape(-1, 2).T
        return replace(
            stated,
            cost=np.append(stated.cost, np.zeros(len(self._names))),
            lower=np.append(stated.lower, self.lower[n:]),
            upper=np.append(stated.upper, self.upper[n:]),
            integer=np.append(stated.integer, np.array(self._integer, dtype=bool)),
            names=[*stated.names, *self._names],
            rows=sp.vstack([rows, added], format="csr"),
            row_lower=np.append(stated.row_lower, low),
            row_upper=np.append(stated.row_upper, high),
            row_names=[*stated.row_names, *self._row_names],
            others=tuple(self.others),
        )

    def _extended_model(self, milp: MILP) -> ScipProgram:
        """A copy of the user's model with the auxiliary variables and constraints."""
        model = copy_model(self.stated.model)
        known = ScipProgram(model, model.getVars())
        variables = known.add(milp.program, self.stated.milp.n_rows)
        return ScipProgram(model, variables)

    def _depth(self) -> int:
        """Number of passes after which all outputs and auxiliary variables are known."""
        levels = evaluation_levels(self.stated)
        return 2 + max(int(level.max(initial=0)) for level in levels)


def _moved_milp(milp: MILP, order: ndarray) -> MILP:
    """A model with its variables at other positions."""
    back = np.argsort(order)
    others = tuple(
        replace(other, variables=tuple(order[list(other.variables)].tolist()))
        for other in milp.others
    )
    return replace(
        milp,
        cost=milp.cost[back],
        lower=milp.lower[back],
        upper=milp.upper[back],
        integer=milp.integer[back],
        names=[milp.names[at] for at in back],
        position={address: int(order[at]) for address, at in milp.position.items()},
        rows=milp.rows[:, back],
        others=others,
    )


def _moved_map(mapping: InputMap, order: ndarray) -> InputMap:
    index = np.where(mapping.index >= 0, order[mapping.index], -1)
    return InputMap(index, mapping.constant, order[mapping.output])


def evaluation_levels(instance: Instance) -> list[ndarray]:
    """Return for each network how many others its samples must wait for, one after the other.

    Parameters
    ----------
    instance
        The problem.

    Raises
    ------
    ProblemError
        If networks form a cycle.
    """
    first = np.cumsum([0, *(len(mapping.index) for mapping in instance.maps)])
    producer = np.full(instance.milp.n_variables + 1, -1)  # the last one stands for constants
    for begin, mapping in zip(first, instance.maps, strict=False):
        producer[mapping.output] = begin + np.arange(len(mapping.index))[:, None]
    producer[-1] = -1
    sources = [producer[mapping.index] for mapping in instance.maps]
    targets = [
        np.broadcast_to(begin + np.arange(len(source))[:, None], source.shape)
        for begin, source in zip(first, sources, strict=False)
    ]
    source = np.concatenate([part.ravel() for part in sources])
    target = np.concatenate([part.ravel() for part in targets])[source >= 0]
    source = source[source >= 0]
    level = np.zeros(first[-1], dtype=int)
    for _ in range(len(np.unique(source)) + 2):
        before = level.copy()
        np.maximum.at(level, target, level[source] + 1)
        if np.array_equal(before, level):
            return np.split(level, first[1:-1])
    number = int(np.searchsorted(first, level.argmax(), side="right")) - 1
    raise ProblemError(
        f"the networks form a cycle: an input of network {number},"
        f" {instance.predictors[number].name}, depends on its own output. Give one of the variables"
        " in the cycle a copy of its own, with finite bounds and a constraint copy == variable."
    )


def ranges_of(instance: Instance) -> Ends:
    """Return ranges of all variables, by bounds, constraints and networks, with some room.

    Parameters
    ----------
    instance
        The problem as stated.
    """
    milp = instance.milp
    program = milp.program
    program = propagate_bounds(program, PROPAGATION_ROUNDS) or program
    lower = program.lower.copy()
    upper = program.upper.copy()
    levels = evaluation_levels(instance)
    for level in range(1 + max(int(found.max(initial=0)) for found in levels)):
        for number, found in enumerate(levels):
            _tighten_outputs(instance, number, found == level, (lower, upper))
    tightened = program.within(lower, upper)
    tightened = propagate_bounds(tightened, PROPAGATION_ROUNDS) or tightened
    lower = tightened.lower
    upper = tightened.upper
    lower = np.where(milp.integer, lower, lower - RANGE_MARGIN * np.maximum(1.0, np.abs(lower)))
    upper = np.where(milp.integer, upper, upper + RANGE_MARGIN * np.maximum(1.0, np.abs(upper)))
    empty = lower > upper  # there is no point, which the methods are to find out
    return np.where(empty, milp.lower, lower), np.where(empty, milp.upper, upper)


def _tighten_outputs(instance: Instance, number: int, samples: ndarray, ranges: Ends) -> None:
    """Move the ranges of a network's outputs, in place, to those that its inputs leave."""
    predictor, mapping = instance.networks[number]
    if hasattr(predictor.net, "ensemble"):
        ensemble: Any = predictor.net.ensemble
        _tighten(predictor, mapping.output[samples], ensemble.range, ranges)
        return
    low, high = (mapping.at(end) for end in ranges)
    known = np.isfinite(low) & np.isfinite(high) & (low <= high)
    samples = samples & known.all(axis=1)
    if not samples.any():
        return
    try:
        box = Box(torch.tensor(low[samples]), torch.tensor(high[samples]))
        bounds = crown(instance.graph(number), box)
    except UnsupportedNetworkError:
        return
    found = bounds.lower.numpy(), bounds.upper.numpy()
    _tighten(predictor, mapping.output[samples], found, ranges)


def _tighten(predictor: Predictor, output: ndarray, found: Ends, ranges: Ends) -> None:
    """Move ranges, in place, to those of the values of a network that were found."""
    low, high = map(predictor.outputs_of, found)
    ranges[0][output] = np.maximum(ranges[0][output], low)
    ranges[1][output] = np.minimum(ranges[1][output], high)

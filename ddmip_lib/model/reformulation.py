"""A problem that grows by auxiliary variables, linear constraints and networks.

Every method and proof shares the extended problem. The user's own model stays what points are
verified against.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy import ndarray
from pyscipopt import Model

from ..bounds import Box, crown
from ..errors import ProblemError, UnsupportedNetworkError
from ..programs.presolve import propagate_bounds
from ..programs.scip import MILP, OtherConstraint, copy_model
from ..programs.scip_program import ScipProgram, model_of
from .extended import Auxiliary, Completion, ExtendedInstance
from .instance import InputMap, Instance
from .left_out import LeftOut

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
        Constraints that are not linear, without those that added constraints state.
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
        milp = stated.milp
        self.others = list(milp.others)
        self.left_out: list[LeftOut] = []
        self._levels = evaluation_levels(stated)
        lower, upper = _ranges(stated, self._levels)
        self.lower = lower.tolist()
        self.upper = upper.tolist()
        self._integer = milp.integer.tolist()
        self._names = list(milp.names)
        self._columns = milp.rows.indices.tolist()
        self._weights = milp.rows.data.tolist()
        self._first = milp.rows.indptr.tolist()
        self._row_lower = milp.row_lower.tolist()
        self._row_upper = milp.row_upper.tolist()
        self._row_names = list(milp.row_names)
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
        self._columns.extend(at)
        self._weights.extend(weights)
        self._first.append(len(self._columns))
        self._row_lower.append(low)
        self._row_upper.append(high)
        self._row_names.append(name)

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

    def leave_out(
        self,
        other: OtherConstraint,
        reason: str,
        remedy: str,
        left_out_of: str = "bounds and exact models",
    ) -> None:
        """Record which computations leave out a constraint, by which candidates are checked."""
        constraint = f"{other.kind} {other.name}"
        self.left_out.append(LeftOut(constraint, left_out_of, reason, remedy))

    @property
    def unchanged(self) -> bool:
        """Whether nothing was added, restated or replaced."""
        milp = self.stated.milp
        sizes = len(self._names), len(self._row_names), len(self.others)
        replaced = any(map(operator.is_not, self.predictors, self.stated.predictors))
        return not replaced and sizes == (milp.n_variables, milp.n_rows, len(milp.others))

    def instance(self) -> ExtendedInstance:
        """Return the extended problem."""
        milp = self._milp()
        model: Model | Callable[[], Model]
        if self.others:
            written = self._extended_model(milp)
            model = written.model
            addresses = {v.ptr(): at for at, v in enumerate(model.getVars())}
            order = np.array([addresses[v.ptr()] for v in written.variables])
        else:
            order = np.argsort(np.argsort(milp.kind, kind="stable"), kind="stable")
            model = cache(lambda: model_of(moved))
        moved = _moved_milp(milp, order)
        places = np.append(order, -1)  # the last one is that of constants
        maps = [
            InputMap(places[mapping.index], mapping.constant, order[mapping.output])
            for mapping in self.maps
        ]
        auxiliary = Auxiliary(
            order,
            2 + int(np.concatenate(self._levels).max()),  # then all variables are known
            self._completions,
            order[np.array(self._determined, dtype=int)],
            self.extending,
            self.restricting,
        )
        return ExtendedInstance(self.stated, moved, model, self.predictors, maps, auxiliary)

    def _milp(self) -> MILP:
        """The extended model, the auxiliary variables last."""
        stated = self.stated.milp
        n = stated.n_variables
        shape = len(self._row_names), len(self._names)
        rows = sp.csr_matrix((self._weights, self._columns, self._first), shape)
        rows.sum_duplicates()
        return replace(
            stated,
            cost=np.append(stated.cost, np.zeros(len(self._names) - n)),
            lower=np.append(stated.lower, self.lower[n:]),
            upper=np.append(stated.upper, self.upper[n:]),
            integer=np.array(self._integer),
            names=self._names,
            rows=rows,
            row_lower=np.array(self._row_lower),
            row_upper=np.array(self._row_upper),
            row_names=self._row_names,
            others=tuple(self.others),
        )

    def _extended_model(self, milp: MILP) -> ScipProgram:
        """A copy of the user's model with the auxiliary variables and constraints."""
        model = copy_model(self.stated.model)
        known = ScipProgram(model, model.getVars())
        variables = known.add(milp.program, self.stated.milp.n_rows)
        return ScipProgram(model, variables)


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
    depth = np.zeros(instance.milp.n_variables + 1, dtype=int)  # the last one is that of constants
    for _ in range(len(instance.outputs) + 1):
        levels = [depth[mapping.index].max(axis=1) for mapping in instance.maps]
        before = depth.copy()
        for mapping, level in zip(instance.maps, levels, strict=True):
            depth[mapping.output] = level[:, None] + 1
        if np.array_equal(before, depth):
            return levels
    number = int(np.argmax([level.max() for level in levels]))
    raise ProblemError(
        f"the networks form a cycle: an input of network {number},"
        f" {instance.predictors[number].name}, depends on its own output. Give one of the variables"
        " in the cycle a copy of its own, with finite bounds and a constraint copy == variable."
    )


def _ranges(instance: Instance, levels: list[ndarray]) -> Ends:
    """Ranges of all variables, by bounds, constraints and networks, with some room."""
    milp = instance.milp
    program = milp.program
    program = propagate_bounds(program, PROPAGATION_ROUNDS) or program
    lower = program.lower.copy()
    upper = program.upper.copy()
    for level in range(1 + int(np.concatenate(levels).max())):
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
    found: Ends
    if hasattr(predictor.net, "ensemble"):
        ensemble: Any = predictor.net.ensemble
        found = ensemble.range
    else:
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
    output = mapping.output[samples]
    low, high = map(predictor.outputs_of, found)
    ranges[0][output] = np.maximum(ranges[0][output], low)
    ranges[1][output] = np.minimum(ranges[1][output], high)

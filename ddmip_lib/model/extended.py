"""A problem with auxiliary variables, constraints and networks, on which methods and proofs work.

Points are verified against the problem as stated, by the user's variables alone.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy import ndarray
from pyscipopt import Model

from ..programs.scip import MILP
from .instance import InputMap, Instance
from .predictor import Predictor
from .variables import Variables

Completion = Callable[[ndarray], None]
"""Sets auxiliary variables of a full assignment, in place."""


class Auxiliary(NamedTuple):
    """How auxiliary variables follow from the others.

    Attributes
    ----------
    order
        Position of each variable, the user's before the auxiliary ones.
    depth
        Number of networks in the longest series.
    completions
        Functions that set the auxiliary variables, in that order.
    determined
        Positions of those that follow from network inputs and outputs.
    extending, restricting
        Functions that set auxiliary variables when the user's are extended by them, and the user's
        when others are left out, in that order.
    """

    order: ndarray
    depth: int
    completions: Sequence[Completion]
    determined: ndarray
    extending: Sequence[Completion]
    restricting: Sequence[Completion]

    def applied(self, functions: Sequence[Completion], values: ndarray) -> ndarray:
        """Return a full assignment after functions of its values in that order."""
        if not functions:
            return values
        ordered = values[self.order]
        for function in functions:
            function(ordered)
        changed = values.copy()
        changed[self.order] = ordered
        return changed


class ExtendedInstance(Instance):
    """A problem with auxiliary variables, for a problem as stated.

    Parameters
    ----------
    stated
        The problem as stated.
    milp
        The extended model as arrays.
    model
        The extended model of SCIP, with variables in the order of `milp`, or a function that
        builds it when it is first needed.
    predictors, maps
        Its networks, and the positions of their variables.
    auxiliary
        How auxiliary variables follow from the others.
    """

    def __init__(
        self,
        stated: Instance,
        milp: MILP,
        model: Model | Callable[[], Model],
        predictors: list[Predictor],
        maps: list[InputMap],
        auxiliary: Auxiliary,
    ) -> None:
        self._stated = stated
        self._model = model
        self.known = stated.known
        self.milp = milp
        self.auxiliary = auxiliary
        self.place = auxiliary.order[: stated.milp.n_variables]
        self._set_networks(predictors, maps)

    @property
    def stated(self) -> Instance:
        return self._stated

    @property
    def variables(self) -> Variables:
        return self._stated.variables

    @property
    def determined(self) -> ndarray:
        mask = self.is_output.copy()
        mask[self.auxiliary.determined] = True
        return mask

    @property
    def digest(self) -> str:
        return self._stated.digest

    def on_device(self, device: torch.device) -> Self:
        other = super().on_device(device)
        other._stated = self._stated.on_device(device)
        return other

    def restrict(self, values: ndarray) -> ndarray:
        if len(values) != self.milp.n_variables:
            return values
        if values.dtype != bool:  # a mask is no point
            values = self.auxiliary.applied(self.auxiliary.restricting, values)
        return values[self.place]

    def extend(self, values: ndarray, rest: ndarray | None = None) -> ndarray:
        if len(values) == self.milp.n_variables:
            return values
        extended = np.clip(0.0, self.milp.lower, self.milp.upper) if rest is None else rest.copy()
        extended[self.place] = values
        if rest is not None:
            return extended
        return self.auxiliary.applied(self.auxiliary.extending, extended)

    def full_start(self, start: list[ndarray] | None) -> list[ndarray] | None:
        if start is None:
            return None
        milp = self._stated.milp
        values = np.clip(0.0, milp.lower, milp.upper)
        for address in self.known.keys() & milp.position.keys():
            values[milp.position[address]] = self.known[address]
        return self.inputs(self.with_outputs(self._stated.assignment(start, rest=values)))

    def with_outputs(self, values: ndarray) -> ndarray:
        values = self.extend(values)
        for _ in range(self.auxiliary.depth):
            values = super().with_outputs(values)
            values = self.auxiliary.applied(self.auxiliary.completions, values)
        return values

"""A `NeuralMIP` read into arrays and maps at the moment of solving: what all solvers work on."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NoReturn, Self

import numpy as np
import torch
from pyscipopt import Model

from ..device import place
from ..errors import ProblemError
from ..programs.scip import MILP, read_model
from .digest import digest_of
from .grid import is_variable
from .network_checks import not_finite
from .predictor import Predictor
from .variables import Variables


@dataclass(frozen=True)
class InputMap:
    """Where the inputs of one predictor sit: `index` into a full assignment, or -1 for a
    constant.
    """

    index: np.ndarray
    constant: np.ndarray
    output: np.ndarray

    def at(self, values: np.ndarray) -> np.ndarray:
        """The input matrix at a full assignment."""
        return np.where(self.index >= 0, values[self.index], self.constant)

    def put(self, values: np.ndarray, x: np.ndarray) -> None:
        """Write an input matrix into a full assignment."""
        values[self.index[self.index >= 0]] = x[self.index >= 0]


class Instance:
    """The user's model as arrays (`milp`), its networks, and the map between both."""

    def __init__(
        self,
        model: Model | Callable[[], Model],
        predictors: list[Predictor],
        known: dict[int, float] | None = None,
        milp: MILP | None = None,
    ) -> None:
        """With `milp`, arrays that a problem was stated by, `model` may be a function: it is called
        on demand.
        """
        if not predictors:
            raise ProblemError(
                "the problem has no predictor: call problem.add_predictor(net, x, y) first."
            )
        self._model = model
        self.predictors = predictors
        self.known = known or {}
        self.milp: MILP = read_model(self.model) if milp is None else milp
        self.maps = [self._locate(p) for p in predictors]
        self.is_output = np.zeros(self.milp.n_variables, dtype=bool)
        for m in self.maps:
            self.is_output[m.output] = True
        self._asked: list[np.ndarray] = []
        self._said: list[np.ndarray] = []

    def elsewhere(self, device: torch.device) -> Self:
        """The same with the networks on another device, in double precision; all else is shared."""
        other = copy.copy(self)
        placed = [
            place(p.net, device, torch.float64, torch.zeros(p.inputs.shape).double())
            for p in self.predictors
        ]
        pairs = zip(self.predictors, placed, strict=True)
        other.predictors = [replace(p, net=net) for p, net in pairs]  # type: ignore[arg-type]  # it is called alike
        other._asked = []
        other._said = []
        return other

    def _locate(self, predictor: Predictor) -> InputMap:
        position = self.milp.position
        lower = self.milp.lower
        upper = self.milp.upper
        if np.issubdtype(
            predictor.inputs.dtype, np.integer
        ):  # numbers of variables, stated by arrays
            return InputMap(predictor.inputs, np.zeros(predictor.inputs.shape), predictor.outputs)
        index = np.full(predictor.inputs.shape, -1)
        constant = np.zeros(predictor.inputs.shape)
        for cell, entry in np.ndenumerate(predictor.inputs):
            if not is_variable(entry):
                constant[cell] = float(entry)
                continue
            at = position[entry.ptr()]
            if not (np.isfinite(lower[at]) and np.isfinite(upper[at])):
                raise ProblemError(
                    f"input variable {entry.name} is unbounded: give it finite lb and ub."
                )
            index[cell] = at
        output = np.array([[position[v.ptr()] for v in row] for row in predictor.outputs])
        return InputMap(index, constant, output)

    @property
    def model(self) -> Model:
        return self._model() if callable(self._model) else self._model

    @property
    def variables(self) -> Variables:
        return Variables(
            self.milp.names, self.milp.position, self.model if self.milp.position else None
        )

    @cached_property
    def free_inputs(self) -> np.ndarray:
        """The distinct unfixed variables that enter networks, in the order of the networks'
        inputs.
        """
        entering = np.concatenate([m.index[m.index >= 0] for m in self.maps])
        _, first = np.unique(entering, return_index=True)
        entering = entering[np.sort(first)]
        return entering[self.milp.lower[entering] < self.milp.upper[entering]]

    @cached_property
    def outputs(self) -> np.ndarray:
        """The output variables of all networks, one network after the other."""
        return np.concatenate([m.output.ravel() for m in self.maps])

    @cached_property
    def digest(self) -> str:
        """A name for this very problem (see `digest_of`): no other has the same."""
        places = [(m.index, m.constant, m.output) for m in self.maps]
        return digest_of(self.milp, self.predictors, places, lambda: self.model)

    def inputs(self, values: np.ndarray) -> list[np.ndarray]:
        """Input matrices of the predictors at a full assignment."""
        return [m.at(values) for m in self.maps]

    def assignment(self, inputs: list[np.ndarray], rest: float) -> np.ndarray:
        """A full assignment with these input matrices; all other variables at `rest`."""
        values = np.full(self.milp.n_variables, rest)
        for m, x in zip(self.maps, inputs, strict=True):
            m.put(values, x)
        return values

    def rounded(self, values: np.ndarray) -> np.ndarray:
        """The same assignment with every integer variable at an integer."""
        return np.where(self.milp.integer, np.round(values), values)

    def with_outputs(self, values: np.ndarray) -> np.ndarray:
        """The same assignment with every integer rounded and every output replaced by the true
        network's.
        """
        values = self.rounded(values)
        for predictor, m, raw in zip(self.predictors, self.maps, self.raws(values), strict=True):
            values[m.output] = predictor.outputs_of(raw)
        return values

    def blame(self, inputs: list[np.ndarray]) -> NoReturn:
        """An error that says which network, layer and row of these input matrices is NaN or
        infinite.
        """
        said = ((p, not_finite(p.net, x)) for p, x in zip(self.predictors, inputs, strict=True))
        why = next(
            (f"network {p.name}: {why}" for p, why in said if why),
            "a network's gradient is NaN or infinite",
        )
        raise ProblemError(
            f"{why}: tighten the bounds of the inputs, or use a network that is finite there."
        )

    def raws(self, values: np.ndarray) -> list[np.ndarray]:
        """What each network says at a full assignment; kept, since a point is asked for its
        outputs, then checked.
        """
        inputs = self.inputs(values)
        if not self._asked or not all(map(np.array_equal, inputs, self._asked)):
            self._asked = inputs
            self._said = [p.raw(x) for p, x in zip(self.predictors, inputs, strict=True)]
        return self._said

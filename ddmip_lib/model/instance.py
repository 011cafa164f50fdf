"""A `NeuralMIP` as arrays and maps, read when it is solved: what all solvers work on."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn, Self

import numpy as np
import torch
from numpy import ndarray
from pyscipopt import Model

from ..bounds.graph import Graph
from ..bounds.reader import network_graph
from ..bounds.regions import Box
from ..device import place
from ..errors import ProblemError
from ..programs.scip import MILP, read_model
from .assignments import AssignmentList
from .digest import digest_of
from .grid import is_variable
from .network_checks import not_finite
from .predictor import Predictor
from .variables import Variables


@dataclass(frozen=True)
class InputMap:
    """Positions of the inputs and outputs of one predictor in a full assignment.

    Attributes
    ----------
    index
        Position of each input, -1 for a constant.
    constant
        Values of the constants.
    output
        Position of each output.
    """

    index: ndarray
    constant: ndarray
    output: ndarray

    def at(self, values: ndarray) -> ndarray:
        """Return the input matrix at a full assignment."""
        return np.where(self.index >= 0, values[self.index], self.constant)

    def box(self, lower: ndarray, upper: ndarray) -> Box:
        """Return the box of the inputs of all samples, by bounds of all variables."""
        return Box(torch.tensor(self.at(lower)), torch.tensor(self.at(upper)))


@dataclass(frozen=True)
class Original:
    """The model that another one is a copy of.

    Attributes
    ----------
    model
        The model, which must live as long as its addresses are used; that of a copy of a copy also
        holds the first one.
    addresses
        Address in the copy of each variable, by its address in the model.
    """

    model: Any
    addresses: dict[int, int]


class Instance:
    """The user's model as arrays (`milp`), its networks, and the maps between both.

    Parameters
    ----------
    model
        The model, or a function that builds it when it is first needed.
    predictors
        Networks with their inputs and outputs.
    known
        Values of variables in a start that was given as a full point, by `Variable.ptr`.
    milp
        Arrays that the problem was stated by, instead of a model.
    original
        The model that `model` is a copy of, whose variables are found in solutions as well.

    Raises
    ------
    ProblemError
        If there is no predictor, or a network input is unbounded.
    """

    left_out: tuple[Any, ...] = ()
    """Constraints that methods and proofs leave out (`ddmip_lib.model.left_out.LeftOut`)."""

    def __init__(
        self,
        model: Model | Callable[[], Model],
        predictors: list[Predictor],
        known: dict[int, float] | None = None,
        milp: MILP | None = None,
        original: Original | None = None,
    ) -> None:
        if not predictors:
            raise ProblemError(
                "the problem has no predictor: call problem.add_predictor(net, x, y) first."
            )
        self._model = model
        self.known = known or {}
        self.original = original
        self.milp: MILP = read_model(self.model) if milp is None else milp
        self._set_networks(predictors, [self._locate(predictor) for predictor in predictors])
        self._require_bounded_inputs()

    def _set_networks(self, predictors: list[Predictor], maps: list[InputMap]) -> None:
        self.predictors = predictors
        self.maps = maps
        self.is_output = np.zeros(self.milp.n_variables, dtype=bool)
        self.is_output[self.outputs] = True
        self._graphs: dict[int, Graph] = {}
        self._evaluated: dict[int, tuple[ndarray, ndarray]] = {}

    def on_device(self, device: torch.device) -> Self:
        """Return the same instance with its networks on another device, in double precision."""
        other = copy.copy(self)
        predictors = []
        for predictor in self.predictors:
            like = torch.zeros(predictor.inputs.shape).double()
            net = place(predictor.net, device, torch.float64, like)
            predictors.append(replace(predictor, net=net))  # type: ignore[arg-type]
        other._set_networks(predictors, self.maps)
        return other

    def _locate(self, predictor: Predictor) -> InputMap:
        """The positions of a predictor's inputs and outputs."""
        if np.issubdtype(predictor.inputs.dtype, np.integer):  # positions, in problems by arrays
            constant = np.zeros(predictor.inputs.shape)
            return InputMap(predictor.inputs, constant, predictor.outputs)
        variable = np.vectorize(is_variable, otypes=[bool])(predictor.inputs)
        index = np.full(variable.shape, -1)
        index[variable] = self._positions(predictor.inputs[variable])
        constant = np.where(variable, 0.0, predictor.inputs).astype(float)
        return InputMap(index, constant, self._positions(predictor.outputs))

    def _positions(self, variables: ndarray) -> ndarray:
        """The positions of an array of variables."""
        positions = [self.milp.position[variable.ptr()] for variable in variables.flat]
        return np.array(positions, dtype=int).reshape(variables.shape)

    @property
    def _input_variables(self) -> ndarray:
        """The variables that are network inputs, in the order of the inputs, maybe repeated."""
        return np.concatenate([mapping.index[mapping.index >= 0] for mapping in self.maps])

    def _require_bounded_inputs(self) -> None:
        """Raise an error if an input is unbounded; outputs of networks are bounded by these."""
        milp = self.milp
        bounded = np.isfinite(milp.lower) & np.isfinite(milp.upper) | self.is_output
        inputs = self._input_variables
        unbounded = inputs[~bounded[inputs]]
        if len(unbounded):
            name = milp.names[unbounded[0]]
            raise ProblemError(f"input variable {name} is unbounded: give it finite lb and ub.")

    @property
    def stated(self) -> "Instance":
        """The problem as the user's model states it, without reformulations: this one."""
        return self

    @property
    def determined(self) -> ndarray:
        """Mask of the variables that follow from the network inputs: the outputs."""
        return self.is_output

    def restrict(self, values: ndarray) -> ndarray:
        """Return the values of the user's variables in a full assignment."""
        return values

    def extend(self, values: ndarray, rest: ndarray | None = None) -> ndarray:
        """Return a full assignment with these values of the user's variables.

        Parameters
        ----------
        values
            Values of the user's variables; a full assignment is returned as it is.
        rest
            A full assignment with the values of all others.
        """
        return values

    def full_start(self, start: list[ndarray] | None) -> list[ndarray] | None:
        """Return the input matrices of all predictors that follow from those of the user's."""
        return start

    @property
    def model(self) -> Model:
        """The user's model; built first if the problem was stated by arrays."""
        return self._model() if callable(self._model) else self._model

    @property
    def variables(self) -> Variables:
        """The variables by name and position."""
        position = self.milp.position
        if self.original is None:
            return Variables(self.milp.names, position, self.model if position else None)
        originals = {old: position[new] for old, new in self.original.addresses.items()}
        models = self.model, self.original.model
        return Variables(self.milp.names, {**originals, **position}, models)

    @cached_property
    def free_inputs(self) -> ndarray:
        """The distinct unfixed variables that are network inputs, in the order of the inputs."""
        inputs = self._input_variables
        _, first = np.unique(inputs, return_index=True)
        inputs = inputs[np.sort(first)]
        return inputs[self.milp.lower[inputs] < self.milp.upper[inputs]]

    @property
    def networks(self) -> list[tuple[Predictor, InputMap]]:
        """Each predictor with the positions of its inputs and outputs."""
        return list(zip(self.predictors, self.maps, strict=True))

    @cached_property
    def outputs(self) -> ndarray:
        """The output variables of all networks, one network after the other."""
        return np.concatenate([mapping.output.ravel() for mapping in self.maps])

    @cached_property
    def classes(self) -> ndarray:
        """Mask of the `outputs` that are classes."""
        counts = [mapping.output.size for mapping in self.maps]
        return np.repeat([predictor.gives_class for predictor in self.predictors], counts)

    @cached_property
    def digest(self) -> str:
        """A hash of the problem (see `digest_of`)."""
        places = [(mapping.index, mapping.constant, mapping.output) for mapping in self.maps]
        return digest_of(self.milp, self.predictors, places, lambda: self.model)

    @cached_property
    def assignment_list(self) -> AssignmentList:
        """The combinations of integer variables that the constraints allow."""
        return AssignmentList(self.milp)

    def graph(self, number: int) -> Graph:
        """Return a network as a graph, which is read once.

        Parameters
        ----------
        number
            Position of the network in `predictors`.

        Raises
        ------
        UnsupportedNetworkError
            If the network has a layer that cannot be bounded.
        """
        if number not in self._graphs:
            predictor = self.predictors[number]
            self._graphs[number] = network_graph(predictor.net, predictor.inputs.shape[1])
        return self._graphs[number]

    @property
    def graphs(self) -> list[Graph]:
        """All networks as graphs."""
        return [self.graph(number) for number in range(len(self.predictors))]

    @property
    def nonlinear_units(self) -> int:
        """Number of units with an activation, of all networks and samples."""
        return sum(
            graph.nodes[index].units * len(mapping.index)
            for graph, mapping in zip(self.graphs, self.maps, strict=True)
            for index in graph.activations
        )

    def inputs(self, values: ndarray) -> list[ndarray]:
        """Return the input matrices of the predictors at a full assignment."""
        return [mapping.at(values) for mapping in self.maps]

    def assignment(self, inputs: list[ndarray], rest: float | ndarray) -> ndarray:
        """Return a full assignment with these input matrices.

        Parameters
        ----------
        inputs
            One matrix for each predictor.
        rest
            Value of all other variables, or a full assignment with their values.
        """
        values = np.full(self.milp.n_variables, rest)
        for mapping, x in zip(self.maps, inputs, strict=True):
            variable = mapping.index >= 0
            values[mapping.index[variable]] = x[variable]
        return values

    def rounded(self, values: ndarray) -> ndarray:
        """Return the assignment with every integer variable rounded."""
        return np.where(self.milp.integer, np.round(values), values)

    def with_outputs(self, values: ndarray) -> ndarray:
        """Return the assignment with integers rounded and outputs replaced by the networks'."""
        values = self.rounded(values)
        raws = self.raw_outputs(values)
        for (predictor, mapping), raw in zip(self.networks, raws, strict=True):
            values[mapping.output] = predictor.outputs_of(raw)
        return values

    def raise_not_finite(self, inputs: list[ndarray]) -> NoReturn:
        """Raise an error that names the network, layer and sample with a value that is not finite.

        Parameters
        ----------
        inputs
            One matrix for each predictor.

        Raises
        ------
        ProblemError
            Always.
        """
        reason = "a network's gradient is NaN or infinite"
        for predictor, x in zip(self.predictors, inputs, strict=True):
            fault = not_finite(predictor.net, x)
            if fault:
                reason = f"network {predictor.name}: {fault}"
                break
        raise ProblemError(
            f"{reason}: tighten the bounds of the inputs, or use a network that is finite there."
        )

    def raw_outputs(self, values: ndarray) -> list[ndarray]:
        """Return the predictions or logits of each network at a full assignment.

        Those of the last inputs are kept: the outputs of a point are computed, then verified.
        """
        raws = []
        networks = zip(self.predictors, self.inputs(values), strict=True)
        for number, (predictor, x) in enumerate(networks):
            known = self._evaluated.get(number)
            if known is None or not np.array_equal(x, known[0]):
                known = self._evaluated[number] = (x, predictor.raw(x))
            raws.append(known[1])
        return raws

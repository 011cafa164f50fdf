"""Examples for `check_solver`: problems so small that their optimum is found by enumeration."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from pyscipopt import Model
from torch import nn

from ..bounds.layer import linear_layer
from ..model.changes import add_between
from ..model.problem import NeuralMIP
from ..problems.hand_sized import hand_sized_net

NEEDS = ("continuous inputs", "one block", "any module", "no free input")
"""What a solver may refuse: continuous network inputs; models that do not decompose into blocks;
networks that cannot be read; problems without a free input.
"""
Constraint = tuple[list[float], float, float]  # coefficients, lower and upper side
FEASIBILITY_TOLERANCE = 1e-9


def distance_net(
    *centre: float, outputs: int = 1, activation: Callable[[], nn.Module] = nn.ReLU
) -> nn.Sequential:
    r"""Return the network $f_k(x) = k \sum_j (g(x_j - a_j) + g(a_j - x_j))$ for $k = 1, \dots$

    With ReLU as $g$, this is $k$ times the $\ell_1$ distance to $a$.

    Parameters
    ----------
    centre
        The point $a$.
    outputs
        Number of outputs.
    activation
        Class or function that makes the layer of the activation $g$.

    Examples
    --------
    >>> distance_net(0.5, 2.0)(torch.tensor([[1.0, 1.0]])).item()
    1.5
    """
    size = len(centre)
    point = torch.tensor(centre)
    first = linear_layer(torch.cat([torch.eye(size), -torch.eye(size)]), torch.cat([-point, point]))
    factors = torch.arange(1.0, outputs + 1)[:, None].expand(outputs, 2 * size)
    last = linear_layer(factors, torch.zeros(outputs))
    return nn.Sequential(first, activation(), last).eval()


def scaled(net: nn.Sequential, factor: float, shift: float = 0.0) -> nn.Sequential:
    """Multiply the outputs of a network, add a number to them, and return the network.

    Parameters
    ----------
    net
        A network whose last layer is linear.
    factor, shift
        The factor and the number.
    """
    net[-1].weight.mul_(factor)  # type: ignore[operator]
    net[-1].bias.mul_(factor).add_(shift)  # type: ignore[operator]
    return net


@dataclass(eq=False)
class Example:
    """A problem whose optimum is among the products of `values`, found by enumeration.

    Parameters
    ----------
    name
        Name of the example.
    kinds
        One letter for each variable: B (binary), I (integer), C (continuous), or F (continuous
        without a lower bound).
    values
        For each variable, the values that are enumerated.
    networks
        Each network with its samples, whose entries are numbers of variables (int) or constants
        (float).
    objective, constraints
        Coefficients of the variables, then of the outputs; missing ones are 0. A constraint on one
        variable alone, with the coefficient 1, is stated as its bounds.
    sense, offset
        Sense and constant of the objective.
    needs
        What a solver must support for it, one of `NEEDS`; empty if every solver must solve it.
    output
        "regression" or "classification".
    start
        A start, one value for each variable.

    Attributes
    ----------
    problem
        The problem.
    best
        Its optimum; None if it is infeasible.
    size
        Largest absolute value of the objective without its offset, or 1.
    digest
        Digest of the problem when it was built.
    """

    name: str
    kinds: str
    values: Sequence[Any]
    networks: Sequence[tuple[nn.Module, Any]]
    objective: Sequence[float]
    constraints: Sequence[Constraint] = ()
    sense: str = "minimize"
    offset: float = 0.0
    needs: str = ""
    output: str = "regression"
    start: Sequence[float] | None = None

    def __post_init__(self) -> None:
        self.problem = self._problem()
        self.digest = self.problem.instance().digest
        self.best, self.size = self._optimum()

    @property
    def sign(self) -> int:
        """1 for a minimisation, -1 for a maximisation."""
        return 1 if self.sense == "minimize" else -1

    def _problem(self) -> NeuralMIP:
        model = Model(self.name)
        variables: list[Any] = []
        for j, (kind, values) in enumerate(zip(self.kinds, self.values, strict=True)):
            lower = None if kind == "F" else min(values)
            vtype = kind.replace("F", "C")
            variables.append(model.addVar(f"x{j}", vtype=vtype, lb=lower, ub=max(values)))
        problem = NeuralMIP(model, self.name)
        for net, samples in self.networks:
            inputs = [_entries(sample, variables) for sample in samples]
            variables += problem.add_predictor(net, inputs, output=self.output).outputs.flat
        self._add_constraints(model, variables)
        cost = _linear(self.objective, variables)
        model.setObjective(cost + self.offset, self.sense)  # type: ignore[arg-type]
        if self.start is not None:
            problem.set_start({f"x{j}": value for j, value in enumerate(self.start)})
        return problem

    def _add_constraints(self, model: Model, variables: Sequence[Any]) -> None:
        for number, (coefficients, lower, upper) in enumerate(self.constraints):
            if np.count_nonzero(coefficients) == 1:
                variable = variables[coefficients.index(1.0)]
                model.chgVarLb(variable, lower)
                model.chgVarUb(variable, upper)
            else:
                terms = _linear(coefficients, variables)
                add_between(model, terms, (lower, upper), f"c{number + 1}")

    def _optimum(self) -> tuple[float | None, float]:
        """The optimum (None if infeasible), and the size of the objective."""
        columns = self._columns()
        cost = np.zeros(len(columns[0])) + _linear(self.objective, columns)
        size = float(np.abs(cost).max()) or 1.0
        for coefficients, lower, upper in self.constraints:
            activity = _linear(coefficients, columns)
            violation = np.maximum(lower - activity, activity - upper)
            cost[violation > FEASIBILITY_TOLERANCE] = self.sign * np.inf
        best = self.sign * float((self.sign * cost).min())
        return best + self.offset if np.isfinite(best) else None, size

    def _columns(self) -> list[ndarray]:
        """The values of each variable, then of each output, at all points."""
        points = np.array(list(itertools.product(*self.values)), dtype=float)
        columns = [*points.T]
        for predictor, (_, samples) in zip(self.problem.predictors, self.networks, strict=True):
            for sample in samples:
                inputs = np.broadcast_arrays(*_entries(sample, points.T))
                columns += [*predictor.predict(np.column_stack(inputs)).T]
        return columns


def _entries(sample: Sequence[int | float], variables: Sequence[Any] | ndarray) -> list[Any]:
    """The entries of a sample: variables by their numbers, and constants."""
    return [variables[entry] if isinstance(entry, int) else entry for entry in sample]


def _linear(coefficients: Sequence[float], variables: Sequence[Any]) -> Any:
    """The sum of the first variables, or of columns of their values, times coefficients."""
    return sum(a * v for a, v in zip(coefficients, variables, strict=False))


BINARY = (0.0, 1.0)
INTEGERS = range(-2, 4)
GRID = (0.0, 0.25, 0.5, 0.75, 1.0)
PAIRS = [[0, 1], [2, 3]]  # two samples of two inputs
SINGLES = [[0], [1]]  # two samples of one input
PAIRS_OBJECTIVE = [1.5, 2.0, 1.5, 2.0, 1.0, 1.0]
AT_MOST_THREE: Constraint = ([1.0] * 4, -np.inf, 3.0)
NO_INPUTS = [0.0] * 4
OUTPUT_SUM = [*NO_INPUTS, 1.0, 1.0]


def _binary(name: str, **changes: Any) -> Example:
    """Two samples of two binary inputs, of which at most three are 1, with changes."""
    fields: dict[str, Any] = {
        "kinds": "BBBB",
        "values": [BINARY] * 4,
        "networks": [(hand_sized_net(), PAIRS)],
        "objective": PAIRS_OBJECTIVE,
        "constraints": [AT_MOST_THREE],
    }
    return Example(name, **fields | changes)


def _integer(name: str, net: nn.Module | None = None, **changes: Any) -> Example:
    """Two samples of one integer input each, of another network or with other changes."""
    fields: dict[str, Any] = {
        "kinds": "II",
        "values": [INTEGERS] * 2,
        "networks": [(net or distance_net(1.5), SINGLES)],
        "objective": [0.3, 0.3, 1.0, 1.0],
        "constraints": [([1.0, 1.0], 2.0, np.inf)],
        "start": [2, 2],
    }
    return Example(name, **fields | changes)


def examples() -> list[Example]:
    """Return all examples, built from scratch: those that fit every solver have two samples of a
    network under one constraint on both, which are blocks.
    """
    return [
        *_input_examples(),
        *_model_examples(),
        *_structure_examples(),
        *_network_examples(),
        *_value_examples(),
        *_numerical_examples(),
    ]


def _input_examples() -> list[Example]:
    """All kinds of inputs, and both kinds of outputs."""
    return [
        _binary("binary inputs"),
        _binary("to maximise", sense="maximize"),
        _integer("integer inputs"),
        Example(
            "continuous inputs",
            "CC",
            [GRID] * 2,
            [(distance_net(0.25), SINGLES)],
            [-0.5, -0.25, 1.0, 1.0],
            [([1.0, 1.0], -np.inf, 0.75)],
            needs="continuous inputs",
        ),
        Example(
            "mixed inputs",
            "ICIC",
            [(0, 1, 2), GRID] * 2,
            [(distance_net(1.75, 0.25), PAIRS)],
            [0.5, -0.5, 0.5, -0.5, 1.0, 1.0],
            [([1.0, 0.0, 1.0], -np.inf, 3.0)],
            needs="continuous inputs",
        ),
        _binary(
            "classes",
            networks=[(scaled(hand_sized_net(), -1.0, 1.0), PAIRS)],
            objective=[-0.3, -0.3, -0.3, -0.3, 1.0, 1.0],
            sense="maximize",
            output="classification",
        ),
    ]


def _model_examples() -> list[Example]:
    """Constraints and bounds of outputs, and an equality."""
    return [
        _binary(
            "constraints on outputs",
            constraints=[AT_MOST_THREE, (OUTPUT_SUM, 2.0, np.inf)],
            start=[0] * 4,
        ),
        _binary(
            "bounds of outputs",
            constraints=[([*NO_INPUTS, 1.0], -1.0, 4.0), ([*NO_INPUTS, 0.0, 1.0], -1.0, 4.0)],
            start=[0] * 4,
        ),
        _integer(
            "an equality",
            objective=[0.3, 0.1, 1.0, 1.0],
            constraints=[([1.0, 1.0], 3.0, 3.0)],
            start=[0, 3],
        ),
    ]


def _structure_examples() -> list[Example]:
    """Several networks, shared inputs, one sample."""
    return [
        Example(
            "two networks",
            "BBI",
            [BINARY, BINARY, INTEGERS],
            [(hand_sized_net(), [[0, 1]]), (distance_net(1.5), [[2]])],
            [1.5, 2.0, 0.3, 1.0, 1.0],
            [([1.0] * 3, -np.inf, 3.0)],
        ),
        Example(
            "shared inputs",
            "BB",
            [BINARY] * 2,
            [(hand_sized_net(), [[0, 1]]), (distance_net(1.0, 0.0), [[0, 1]])],
            [0.0, 0.0, 1.0, 2.0],
            needs="one block",
        ),
        Example(
            "one sample",
            "BB",
            [BINARY] * 2,
            [(hand_sized_net(), [[0, 1]])],
            [1.5, 2.0, 1.0],
            needs="one block",
        ),
    ]


def _network_examples() -> list[Example]:
    """Several outputs, and activations other than ReLU."""
    return [
        _integer(
            "two outputs",
            distance_net(1.5, outputs=2),
            objective=[0.0, 0.0, 2.0, -1.0, 1.0, 1.0],
        ),
        _integer(
            "leaky activations",
            distance_net(1.5, activation=partial(nn.PReLU, init=-0.5)),
            needs="any module",
        ),
        _integer(
            "a network without bounds of its own",
            distance_net(1.5, activation=nn.Softplus),
            needs="any module",
        ),
    ]


def _value_examples() -> list[Example]:
    """Special values of objective, inputs and bounds."""
    return [
        _binary("an offset", offset=7.5),
        _binary("no objective", objective=[]),
        _binary("fixed inputs", values=[BINARY, (1.0,), BINARY, (0.0,)]),
        Example(
            "numbers as inputs",
            "BB",
            [BINARY] * 2,
            [(hand_sized_net(), [[0, 1.0], [1, 0.0]])],
            [1.5, 2.0, 1.0, 1.0],
            [([1.0, 1.0], -np.inf, 1.0)],
        ),
        _binary("nothing to decide", values=[(0.0,), (1.0,)] * 2, needs="no free input"),
        _binary(
            "a side variable",
            kinds="BBBBC",
            values=[BINARY] * 4 + [(0, 1, 2)],
            objective=[*PAIRS_OBJECTIVE[:4], -0.25, 1.0, 1.0],
            constraints=[([1.0] * 5, -np.inf, 4.0)],
            start=[0] * 5,
        ),
        _binary(
            "a variable without a lower bound",
            kinds="BBBBF",
            values=[BINARY] * 5,
            objective=[*PAIRS_OBJECTIVE[:4], 1.5, 1.0, 1.0],
            constraints=[
                ([1.0, 0.0, -1.0, 0.0, -1.0], -np.inf, 0.0),
                ([-1.0, 0.0, 1.0, 0.0, -1.0], -np.inf, 0.0),
            ],
        ),
    ]


def _numerical_examples() -> list[Example]:
    """Small and large units, and infeasible problems."""
    return [
        _integer(
            "small units",
            scaled(distance_net(1.5), 1e-6),
            objective=[3e-7, 3e-7, 1.0, 1.0],
        ),
        _integer(
            "large units",
            scaled(distance_net(1.5), 1e6),
            objective=[3e5, 3e5, 1.0, 1.0],
        ),
        _binary("contradicting constraints", constraints=[([1.0] * 4, 5.0, np.inf)]),
        _binary(
            "a constraint that no output satisfies",
            constraints=[AT_MOST_THREE, (OUTPUT_SUM, 100.0, np.inf)],
        ),
    ]

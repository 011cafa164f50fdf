"""Tiny problems of every kind of network, variable and constraint, for the tables of `tools.support`.

Each has two samples of one input, and the network |x - 0.25| where nothing else is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from pyscipopt import Model, quicksum
from torch import Tensor, nn

from ddmip_book.networks import attention, conv1d, lstm, resnet
from ddmip_lib import NeuralMIP
from ddmip_lib.bounds.activations import LAYERS
from ddmip_lib.contract.problems import distance_net
from ddmip_lib.predictors import black_box

CENTRE = 0.25
OTHER_ACTIVATIONS = (nn.ELU, nn.GELU, nn.Hardtanh, nn.ReLU6, nn.SiLU, nn.Softplus, nn.Softsign)
"""Activations of torch without an entry of the library's table, to see what happens."""


class Kind(NamedTuple):
    """A line of a table: its name, and a function that builds its problem."""

    name: str
    build: Callable[[], NeuralMIP]


class Parts(NamedTuple):
    """A problem with what a further constraint may need."""

    problem: NeuralMIP
    model: Model
    x: list[Any]
    y: list[Any]


def basic(
    net: nn.Module | None = None, vtype: str = "C", output: str = "regression", upper: float = 1.0
) -> Parts:
    """Two samples of one input between 0 and `upper`, whose sum is at most three quarters of it."""
    model = Model()
    x = [model.addVar(f"x{i}", vtype=vtype, lb=0.0, ub=upper) for i in range(2)]
    problem = NeuralMIP(model)
    net = distance_net(CENTRE) if net is None else net
    predictor = problem.add_predictor(net.eval(), [[each] for each in x], output=output)
    y = list(predictor.outputs.flat)
    model.addCons(x[0] + x[1] <= 0.75 * upper)
    model.setObjective(quicksum(y) - 0.5 * x[0] - 0.25 * x[1])
    return Parts(problem, model, x, y)


def activations() -> Iterator[Kind]:
    """Yield activations: those of the library's table first."""
    for layer in (*LAYERS, *OTHER_ACTIVATIONS):
        net = partial(distance_net, CENTRE, activation=layer)
        yield Kind(f"`{layer.__name__}`", lambda net=net: basic(net()).problem)  # type: ignore[misc]


class Residual(nn.Module):
    """A sum of a layer and its input."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = distance_net(CENTRE)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


class Product(nn.Module):
    """A product of two layers."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - CENTRE) * (x + 1.0)


def between(layer: nn.Module, width: int = 4) -> nn.Sequential:
    """A network of one input with a layer between two linear ones, of fixed weights."""
    torch.manual_seed(0)
    first = nn.Linear(1, width)
    return nn.Sequential(first, layer, nn.ReLU(), nn.Flatten(), nn.LazyLinear(1)).eval()


def made(net: nn.Module) -> nn.Module:
    """The network in evaluation mode, with all its weights made."""
    net.eval()(torch.zeros(2, 1))
    return net


def networks() -> dict[str, Callable[[], nn.Module]]:
    """Layers and architectures by name."""
    channels = partial(nn.Unflatten, 1, (1, 4))
    return {
        "`Linear`": lambda: distance_net(CENTRE),
        "`Conv1d`": lambda: between(nn.Sequential(channels(), nn.Conv1d(1, 2, 3, padding=1))),
        "`Conv2d`": lambda: between(
            nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 2, 2, padding=1))
        ),
        "`BatchNorm1d`": lambda: between(nn.BatchNorm1d(4)),
        "`Dropout` (evaluation mode)": lambda: between(nn.Dropout()),
        "`LayerNorm`": lambda: between(nn.LayerNorm(4)),
        "`MaxPool1d`": lambda: between(nn.Sequential(channels(), nn.MaxPool1d(2))),
        "`AvgPool1d`": lambda: between(nn.Sequential(channels(), nn.AvgPool1d(2))),
        "`Softmax`": lambda: between(nn.Softmax(1)),
        "residual sum": Residual,
        "product of two layers": Product,
        "`resnet`": lambda: resnet(depth=1, width=4, n_in=1),
        "`conv1d`": lambda: conv1d(depth=1, width=4, n_in=1),
        "`attention`": lambda: attention(depth=1, width=4, n_in=1),
        "`lstm`": lambda: lstm(depth=1, width=4, n_in=1),
        "a Python function (`black_box`)": lambda: black_box(lambda x: abs(x - CENTRE)),
    }


def layers() -> Iterator[Kind]:
    """Yield layers and architectures."""
    for name, net in networks().items():
        yield Kind(name, lambda net=net: basic(made(net())).problem)  # type: ignore[misc]


def equality(parts: Parts) -> None:
    parts.model.addCons(parts.x[0] - parts.x[1] == 0.125)


def on_outputs(parts: Parts) -> None:
    parts.model.addCons(parts.y[0] + parts.y[1] >= 0.25)


def output_bounds(parts: Parts) -> None:
    parts.model.chgVarLb(parts.y[0], 0.125)


def quadratic(parts: Parts) -> None:
    parts.model.addCons(parts.x[0] * parts.x[0] + parts.x[1] * parts.x[1] <= 0.25)


def bilinear(parts: Parts) -> None:
    parts.model.addCons(parts.x[0] * parts.x[1] <= 0.0625)


def indicator(parts: Parts) -> None:
    on = parts.model.addVar("on", vtype="B")
    parts.model.addCons(parts.x[0] <= on)
    parts.model.addConsIndicator(parts.x[1] <= 0.25, binvar=on)


def sos1(parts: Parts) -> None:
    parts.model.addConsSOS1(parts.x)


def sos2(parts: Parts) -> None:
    parts.model.addConsSOS2(parts.x)


def free_variable(parts: Parts) -> None:
    free = parts.model.addVar("free", lb=None, ub=None, obj=0.0)
    parts.model.addCons(free >= parts.x[0] - parts.x[1])
    parts.model.addCons(free >= parts.x[1] - parts.x[0])
    parts.model.setObjective(parts.model.getObjective() + 0.5 * free)


def shared_inputs(parts: Parts) -> None:
    parts.problem.add_predictor(distance_net(0.5), [[each] for each in parts.x])


def in_series(parts: Parts) -> None:
    for y in parts.y:
        parts.model.chgVarLb(y, 0.0)
        parts.model.chgVarUb(y, 1.0)
    second = parts.problem.add_predictor(distance_net(0.5), [[each] for each in parts.y])
    objective = parts.model.getObjective() + quicksum(second.outputs.flat)
    parts.model.setObjective(objective)


CONSTRAINTS: dict[str, Callable[[Parts], None]] = {
    "linear inequality": lambda parts: None,
    "linear equality": equality,
    "linear, on outputs": on_outputs,
    "bounds of outputs": output_bounds,
    "quadratic": quadratic,
    "product of two variables": bilinear,
    "indicator": indicator,
    "SOS1": sos1,
    "SOS2": sos2,
    "a variable without bounds": free_variable,
    "two networks of the same inputs": shared_inputs,
    "networks in series": in_series,
}
"""What is added to the basic problem."""


def constrained(add: Callable[[Parts], None]) -> NeuralMIP:
    parts = basic()
    add(parts)
    return parts.problem


def variables() -> Iterator[Kind]:
    """Yield kinds of inputs and outputs."""
    for name, vtype, upper in (
        ("binary", "B", 1.0),
        ("integer", "I", 4.0),
        ("continuous", "C", 1.0),
    ):
        yield Kind(
            f"{name} inputs",
            lambda vtype=vtype, upper=upper: basic(vtype=vtype, upper=upper).problem,  # type: ignore[misc]
        )
    yield Kind("classes as outputs", lambda: basic(output="classification").problem)


def constraints() -> Iterator[Kind]:
    """Yield kinds of constraints and of networks in a model."""
    for name, add in CONSTRAINTS.items():
        yield Kind(name, lambda add=add: constrained(add))  # type: ignore[misc]


TABLES: dict[str, Callable[[], Iterator[Kind]]] = {
    "Activations": activations,
    "Layers and architectures": layers,
    "Variables": variables,
    "Constraints": constraints,
}
"""The tables of the page, in order."""

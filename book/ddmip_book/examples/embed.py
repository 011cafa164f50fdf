"""The exact mixed-integer model of a network, with bounds that save binaries."""

from typing import Any

from pyscipopt import Model, quicksum

from ddmip_lib.bounds import Bounds, Graph
from ddmip_lib.bounds.graph import Affine, Elementwise, Input, Sum
from ddmip_lib.errors import UnsupportedNetworkError


def embed(
    model: Model, x: Any, graph: Graph, bounds: Bounds, row: int = 0, relaxed: bool = False
) -> list[Any]:
    r"""Write the network on the variables `x` into `model` by Big-M rows with the bounds of one
    row; its outputs.

    For $z = (a)_+$ with $M^- \le a \le M^+$: $z \ge a$, $z \le a - M^- (1 - \delta)$, $z \le M^+
    \delta$ and a binary $\delta$. A unit that cannot switch costs no binary: off, it is 0; on, it
    equals its input. With `relaxed` the switches lie anywhere in $[0, 1]$. The bounds must hold
    without splits.

    >>> import torch
    >>> from ddmip_lib.bounds import Box, crown, network_graph
    >>> from ddmip_lib.problems import hand_sized_net
    >>> model, graph = Model(), network_graph(hand_sized_net(), 2)
    >>> x = [model.addVar(ub=1.0) for _ in range(2)]
    >>> outputs = embed(model, x, graph, crown(graph, Box(torch.zeros(1, 2), torch.ones(1, 2))))
    >>> len(outputs), model.getNBinVars()
    (1, 3)
    """
    if graph.curved:
        raise UnsupportedNetworkError(
            f"{graph.curved[0]} has no exact linear model: embed takes ReLU networks."
        )
    ranges = [
        list(zip(low[row].tolist(), high[row].tolist(), strict=True)) for low, high in bounds.nodes
    ]
    values: list[list[Any]] = []
    for index, node in enumerate(graph.nodes):
        before = [values[parent] for parent in node.parents]
        if isinstance(node, Input):
            found = list(x)
        elif isinstance(node, Elementwise):
            units = zip(before[0], ranges[node.parent], strict=True)
            found = [_relu(model, a, low, high, relaxed) for a, (low, high) in units]
        elif isinstance(node, Affine):
            rows = zip(node.weight.tolist(), node.bias.tolist(), strict=True)
            found = [
                quicksum(c * v for c, v in zip(row, before[0], strict=True) if c) + b
                for row, b in rows
            ]
        else:
            found = [quicksum(terms) for terms in zip(*before, strict=True)]
        if isinstance(node, Sum) or (isinstance(node, Affine) and index + 1 == len(graph.nodes)):
            found = [
                _equal(model, a, low, high)
                for a, (low, high) in zip(found, ranges[index], strict=True)
            ]
        values.append(found)
    return values[-1]


def _relu(model: Model, a: Any, low: float, high: float, relaxed: bool) -> Any:
    """A variable that equals the positive part of `a`, which lies between `low` and `high`."""
    z = model.addVar(lb=max(low, 0.0), ub=max(high, 0.0))
    if low < 0 < high:
        on = model.addVar(vtype="C" if relaxed else "B", ub=1.0)
        model.addCons(z >= a)
        model.addCons(z <= a - low * (1 - on))
        model.addCons(z <= high * on)
    elif low >= 0:
        model.addCons(z == a)
    return z


def _equal(model: Model, a: Any, low: float, high: float) -> Any:
    """A variable that equals `a`."""
    z = model.addVar(lb=low, ub=high)
    model.addCons(z == a)
    return z

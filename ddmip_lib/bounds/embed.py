"""The exact mixed-integer model of a network, with bounds that save binaries."""

from typing import Any

from pyscipopt import Model, quicksum

from ..errors import UnsupportedNetworkError
from .activations import ACTIVATIONS
from .graph import Activation, Affine, Graph, Input, Sum
from .result import Bounds


def embed(model: Model, x: Any, graph: Graph, bounds: Bounds, row: int = 0, relaxed: bool = False) -> list[Any]:
    r"""Write the network on the variables `x` into `model` by Big-M rows with the bounds of one row; its outputs.

    For $z = (a)_+$ with $M^- \le a \le M^+$: $z \ge a$, $z \le a - M^- (1 - \delta)$, $z \le M^+ \delta$ and a binary
    $\delta$. A unit that cannot switch costs no binary: off, it is 0; on, it equals its input. With `relaxed` the
    switches lie anywhere in $[0, 1]$. The bounds must hold without splits.

    >>> import torch
    >>> from ddmip_lib.problems import hand_sized_net
    >>> from .crown import crown
    >>> from .reader import network_graph
    >>> from .regions import Box
    >>> model, graph = Model(), network_graph(hand_sized_net(), 2)
    >>> x = [model.addVar(ub=1.0) for _ in range(2)]
    >>> outputs = embed(model, x, graph, crown(graph, Box(torch.zeros(1, 2), torch.ones(1, 2))))
    >>> len(outputs), model.getNBinVars()
    (1, 3)
    """
    ranges = [list(zip(low[row].tolist(), high[row].tolist(), strict=True)) for low, high in bounds.nodes]
    values: list[list[Any]] = []
    for index, node in enumerate(graph.nodes):
        before = [values[parent] for parent in node.parents]
        if isinstance(node, Input):
            found = list(x)
        elif isinstance(node, Activation):
            if (rows_of := ACTIVATIONS[node.kind].rows) is None:
                raise UnsupportedNetworkError(f"{node.kind} has no exact linear model: embed takes ReLU networks.")
            units = zip(before[0], ranges[node.parent], strict=True)
            found = [rows_of(model, a, low, high, relaxed) for a, (low, high) in units]
        elif isinstance(node, Affine):
            rows = zip(node.weight.tolist(), node.bias.tolist(), strict=True)
            found = [quicksum(c * v for c, v in zip(row, before[0], strict=True) if c) + b for row, b in rows]
        else:
            found = [quicksum(terms) for terms in zip(*before, strict=True)]
        if isinstance(node, Sum) or (isinstance(node, Affine) and index + 1 == len(graph.nodes)):
            found = [_equal(model, a, low, high) for a, (low, high) in zip(found, ranges[index], strict=True)]
        values.append(found)
    return values[-1]


def _equal(model: Model, a: Any, low: float, high: float) -> Any:
    """A variable that equals `a`."""
    z = model.addVar(lb=low, ub=high)
    model.addCons(z == a)
    return z

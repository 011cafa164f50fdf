r"""Sound bounds on every unit of a ReLU network over a box, by intervals and by CROWN, and the
exact model they give.

Networks are flat lists of layers (`flat_layers` of `bounds.chain`); boxes are rows: `lower` and
`upper` are (n, p). `Bounds` holds one pair $(M^-, M^+)$ of arrays (n, units) for each Linear layer;
the last pair bounds the outputs.
"""

import time
from typing import Any, NamedTuple

import numpy as np
import torch
from pyscipopt import SCIP_PARAMSETTING, Model
from torch import nn

from ddmip_lib.bounds import Box, Graph, constant_bounds, crown, intervals
from ddmip_lib.bounds.graph import GraphBuilder
from .embed import embed as embed_graph

Bounds = list[tuple[np.ndarray, np.ndarray]]


def weights(layers: list[nn.Module]) -> list[tuple[np.ndarray, np.ndarray]]:
    r"""Matrix $\Theta_i$ and bias $\beta_i$ of every Linear layer of a flat ReLU network.

    >>> from ddmip_lib.problems import hand_sized_net
    >>> weights(list(hand_sized_net()))[0][1]
    array([-0.5,  1.5, -0.5])
    """
    linear = layers[::2]
    between = layers[1::2]
    if len(layers) % 2 == 0 or not all(isinstance(layer, nn.ReLU) for layer in between):
        raise ValueError(
            "CROWN is written here for Linear, ReLU, Linear, ... alone: see flat_layers."
        )
    return [(layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in linear]  # type: ignore[operator]


def interval_layers(layers: list[nn.Module], lower: np.ndarray, upper: np.ndarray) -> Bounds:
    """Interval bounds of every Linear layer's values.

    >>> from ddmip_lib.problems import hand_sized_net
    >>> low, high = interval_layers(list(hand_sized_net()), np.zeros((1, 2)), np.ones((1, 2)))[0]
    >>> low[0].round(9).tolist(), high[0].round(9).tolist()
    ([-2.5, -0.5, -0.5], [0.5, 3.5, 1.5])
    """
    found = intervals(_graph(layers), Box(torch.tensor(lower), torch.tensor(upper)))
    return [(low.numpy(), high.numpy()) for low, high in found.nodes[1::2]]


def crown_layers(
    layers: list[nn.Module], lower: np.ndarray, upper: np.ndarray, slope: float | None = None
) -> Bounds:
    r"""CROWN bounds of every Linear layer's values, each cut with one interval step from the layer
    before.

    A value $\Lambda z + \kappa$ is followed back to the input: each ReLU is replaced by its linear
    bound on the side that the sign of $\Lambda$ requires, and what reaches the input is minimised
    over the box.

    >>> from ddmip_lib.problems import hand_sized_net
    >>> low, high = crown_layers(list(hand_sized_net()), np.zeros((1, 2)), np.ones((1, 2)))[-1]
    >>> round(low.item(), 9), round(high.item(), 9)
    (-3.0, 4.25)
    """
    graph = _graph(layers)
    shapes = [(len(lower), graph.nodes[node].units) for node in graph.activations]
    slopes = (
        None
        if slope is None
        else [torch.full(shape, slope, dtype=torch.float64) for shape in shapes]
    )
    found = crown(graph, Box(torch.tensor(lower), torch.tensor(upper)), slopes)
    return [(low.numpy(), high.numpy()) for low, high in found.nodes[1::2]]


def _graph(layers: list[nn.Module]) -> Graph:
    """Input, Linear, ReLU, Linear, ...: every other node is a Linear layer."""
    parts = weights(layers)
    builder = GraphBuilder(parts[0][0].shape[1])
    node = 0
    for i, (theta, beta) in enumerate(parts):
        node = builder.affine(
            builder.activation(node, "relu") if i else 0, torch.tensor(theta), torch.tensor(beta)
        )
    return builder.graph(node)


def ambiguous(bounds: Bounds) -> np.ndarray:
    """How many units of each hidden layer can be on and off, over all boxes.

    >>> ambiguous(
    ...     [(np.array([[-1.0, 1.0]]), np.array([[2.0, 2.0]])), (np.zeros((1, 1)), np.ones((1, 1)))]
    ... )
    array([1])
    """
    return np.array([int(((low < 0) & (high > 0)).sum()) for low, high in bounds[:-1]])


def embed(
    model: Model, x: Any, layers: list[nn.Module], bounds: Bounds, relaxed: bool = False
) -> list[Any]:
    r"""Write one network on the variables `x` into `model` by Big-M rows with these bounds (row 0);
    its outputs.

    A unit that cannot switch costs no binary: off, it is 0; on, it equals its input. With `relaxed`
    the switches lie anywhere in $[0, 1]$.

    >>> from ddmip_lib.problems import hand_sized_net
    >>> model, net = Model(), list(hand_sized_net())
    >>> x = [model.addVar(vtype="B") for _ in range(2)]
    >>> outputs = embed(model, x, net, interval_layers(net, np.zeros((1, 2)), np.ones((1, 2))))
    >>> len(outputs), model.getNBinVars()
    (1, 5)
    """
    graph = _graph(layers)
    ranges = [(torch.tensor(low), torch.tensor(high)) for low, high in bounds]
    nodes = [
        ranges[i // 2] for i in range(len(graph.nodes))
    ]  # node 2i + 1 is Linear layer i; others need none
    return embed_graph(model, x, graph, constant_bounds(nodes, graph.n_in), relaxed=relaxed)


class Search(NamedTuple):
    """What a search found: the best value (nan if none), the proven bound, nodes and seconds."""

    value: float
    bound: float
    nodes: int
    seconds: float


def plain_search(model: Model) -> None:
    """Leave branch and bound alone at work: no presolving, cuts, heuristics or propagation, so that
    nodes count the quality of the relaxation.

    >>> model = Model()
    >>> plain_search(model)
    >>> model.getParam("presolving/maxrounds"), model.getParam("propagating/maxrounds")
    (0, 0)
    """
    model.hideOutput()
    for switch in (model.setPresolve, model.setSeparating, model.setHeuristics):
        switch(SCIP_PARAMSETTING.OFF)
    for name in ("propagating/maxrounds", "propagating/maxroundsroot"):
        model.setParam(name, 0)


def largest_output(
    layers: list[nn.Module],
    box: tuple[np.ndarray, np.ndarray],
    bounds: Bounds,
    unit: int = 0,
    sign: float = 1.0,
    relaxed: bool = False,
    time_limit: float = 60.0,
) -> Search:
    """The largest `sign` times output `unit` over the box of one row, by the exact model and plain
    branch and bound.

    >>> from ddmip_lib.problems import hand_sized_net
    >>> net, box = list(hand_sized_net()), (np.zeros((1, 2)), np.ones((1, 2)))
    >>> round(largest_output(net, box, crown_layers(net, *box), sign=-1.0).value, 6)
    3.0
    """
    model = Model()
    began = time.perf_counter()
    plain_search(model)
    model.setParam("limits/time", time_limit)
    x = [
        model.addVar(lb=float(low), ub=float(high))
        for low, high in zip(box[0][0], box[1][0], strict=True)
    ]
    model.setObjective(sign * embed(model, x, layers, bounds, relaxed)[unit], "maximize")
    model.optimize()
    value = float(model.getObjVal()) if model.getNSols() else float("nan")
    return Search(
        value, float(model.getDualbound()), model.getNTotalNodes(), time.perf_counter() - began
    )

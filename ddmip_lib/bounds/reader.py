"""Any torch module made of affine layers, activations and sums, read into a `Graph` by torch.fx."""

import copy
import operator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, fx, nn

from ..errors import UnsupportedNetworkError
from .graph import Builder, Graph

MATRICES = (nn.Linear, nn.Conv1d, nn.Conv2d)
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
SILENT = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Identity, nn.Flatten, nn.Unflatten)
KINDS = {nn.ReLU: "relu", nn.Sigmoid: "sigmoid", nn.Tanh: "tanh"}
NAMES = {"relu": "relu", "relu_": "relu", "sigmoid": "sigmoid", "tanh": "tanh"}
RESHAPES = {"flatten", "unsqueeze", "squeeze", "reshape", "view", "contiguous"}
ARITHMETIC = {"add": "add", "iadd": "add", "sub": "sub", "isub": "sub", "mul": "mul", "imul": "mul", "truediv": "div"}
ARITHMETIC["div"] = "div"
SHAPES = {"size", "dim", "getattr"}
KNOWN = {*NAMES, *RESHAPES, *ARITHMETIC, *SHAPES, "getitem", "leaky_relu", "dropout", "neg"}
SUPPORTED = (
    "Linear, Conv1d, Conv2d, BatchNorm, ReLU, LeakyReLU, Sigmoid, Tanh, Dropout, Identity, Flatten, reshaping, sums of "
    "layers, and constants added or multiplied"
)


class Value(NamedTuple):
    """A tensor inside the network: its node, and its value at the probe, which tells its shape."""

    node: int
    probe: Tensor


class Refused(Exception):
    """An operation that bounds cannot follow; the text names it."""


def network_graph(net: nn.Module, n_in: int) -> Graph:
    """The network, in evaluation mode and float64, as a graph of affine maps, activations and sums.

    Any module that `torch.fx` can trace is read, with residual sums, convolutions (as matrices) and functions such as
    `torch.relu` in its `forward`; BatchNorm is folded. Everything else is refused by name.

    >>> from ddmip_lib.predictors import resnet
    >>> [type(node).__name__ for node in network_graph(resnet(depth=1, width=4, n_in=3), 3).nodes]
    ['Input', 'Affine', 'Affine', 'Activation', 'Affine', 'Sum', 'Activation', 'Affine']
    >>> network_graph(nn.Sequential(nn.Linear(2, 2), nn.Softmax(1)), 2)
    Traceback (most recent call last):
    ...
    ddmip_lib.errors.UnsupportedNetworkError: bounds cannot follow Softmax: they need Linear, Conv1d, ...
    """
    net = copy.deepcopy(net).double().eval().requires_grad_(False)
    try:
        traced = fx.symbolic_trace(nn.Sequential(net))
    except Exception as problem:
        names = ", ".join(_foreign(net)) or f"{type(net).__name__}.forward (torch.fx says: {problem})"
        raise _unsupported(names) from problem
    scales = torch.tensor([[0.1], [1.0], [3.0], [10.0], [30.0]])
    probe = scales * torch.tensor(np.random.default_rng(0).standard_normal((5, n_in)))
    with torch.no_grad():
        graph = _Reader(traced, n_in).read(probe.clone())
        expected = net(probe.clone())  # a layer may work in place
        same = torch.allclose(graph(probe), expected.reshape(len(probe), -1), rtol=1e-9, atol=1e-9)
    if expected.dim() != 2 or not same:
        raise UnsupportedNetworkError(
            f"{type(net).__name__} does something in forward() that its operations do not say (an operation in place, "
            "perhaps), or its output is no matrix (batch, outputs): write it without."
        )
    return graph


def _unsupported(names: str) -> UnsupportedNetworkError:
    return UnsupportedNetworkError(f"bounds cannot follow {names}: they need {SUPPORTED}.")


def _foreign(net: nn.Module) -> list[str]:
    """Names of torch's own layers in the network that are not supported."""
    known = (*MATRICES, *NORMS, *SILENT, *KINDS, nn.LeakyReLU, nn.Sequential, nn.ModuleList, nn.ModuleDict)
    layers = [m for m in net.modules() if type(m).__module__.startswith("torch.nn") and not isinstance(m, known)]
    return list(dict.fromkeys(type(layer).__name__ for layer in layers))


class _Reader:
    """Follows a traced network operation by operation."""

    def __init__(self, traced: fx.GraphModule, n_in: int) -> None:
        self.traced, self.builder = traced, Builder(n_in)

    def read(self, probe: Tensor) -> Graph:
        known: dict[fx.Node, Any] = {}
        refused: list[str] = []
        for node in self.traced.graph.nodes:
            args, kwargs = fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
            try:
                known[node] = (
                    Value(0, probe) if node.op == "placeholder" else self._operation(node, known, args, kwargs)
                )
            except Refused as problem:
                refused.append(str(problem))
                known[node] = None  # what follows from it is looked at for its names alone
        if refused:
            raise _unsupported(", ".join(dict.fromkeys(refused)))
        if not isinstance(known[node], Value):
            raise _unsupported("an output that is no tensor")
        return self.builder.graph(known[node].node)

    def _operation(
        self, node: fx.Node, known: dict[fx.Node, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if node.op == "get_attr":
            return operator.attrgetter(str(node.target))(self.traced)
        if node.op == "output":
            return args[0]
        inside = [known[other] for other in node.all_input_nodes]
        if node.op == "call_module":
            layer = self.traced.get_submodule(str(node.target))
            return self._module(layer, inside[0] if inside else None)
        target: Any = node.target
        name = target if node.op == "call_method" else target.__name__
        if all(value is not None and not isinstance(value, Value) for value in inside):  # arithmetic of shapes
            return getattr(args[0], name)(*args[1:], **kwargs) if target is name else target(*args, **kwargs)
        if name not in KNOWN:
            raise Refused(name)
        return None if None in inside else self._function(name, args, kwargs)

    def _module(self, layer: nn.Module, value: Value | None) -> Value | None:
        if not isinstance(layer, (*MATRICES, *NORMS, *SILENT, *KINDS, nn.LeakyReLU)):
            raise Refused(type(layer).__name__)
        if value is None:
            return None
        after = layer(value.probe)
        if isinstance(layer, SILENT):
            return Value(value.node, after)
        if isinstance(layer, MATRICES):
            return Value(self._matrix(layer, value), after)
        if isinstance(layer, NORMS):
            return Value(self._norm(layer, value), after)
        if isinstance(layer, nn.LeakyReLU):
            return Value(self._leaky(value.node, layer.negative_slope), after)
        kind = next(kind for known, kind in KINDS.items() if isinstance(layer, known))
        return Value(self.builder.activation(value.node, kind), after)

    def _function(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name in ARITHMETIC and len(args) == 2 and not kwargs:
            return self._arithmetic(ARITHMETIC[name], *args)
        if not args or not isinstance(args[0], Value):
            raise Refused(f"this {name}")
        value, *rest = args
        if name == "neg":
            return self._scaled(value, -1.0, 0.0)
        if name == "dropout" and not rest and not kwargs.get("training", True):
            return value
        if name == "getattr" and rest in (["shape"], ["ndim"]):
            return getattr(value.probe, rest[0])
        if name in ("size", "dim"):
            return getattr(value.probe, name)(*rest, **kwargs)
        if name in NAMES:
            kind = NAMES[name]
            return Value(self.builder.activation(value.node, kind), getattr(torch, kind)(value.probe))
        if name == "leaky_relu":
            slope = rest[0] if rest else kwargs.get("negative_slope", 0.01)
            return Value(self._leaky(value.node, slope), nn.functional.leaky_relu(value.probe, slope))
        if name in RESHAPES:
            after = getattr(value.probe, name)(*rest, **kwargs)
            if len(after) == len(value.probe):
                return Value(value.node, after)
        raise Refused(f"this {name}")

    def _matrix(self, layer: nn.Module, value: Value) -> int:
        """The matrix of a linear layer, column by column: its values at the unit vectors, without the bias."""
        shape = value.probe.shape[1:]
        bare: Any = copy.deepcopy(layer)
        bare.bias = None
        unit = torch.eye(shape.numel(), dtype=torch.float64).reshape(-1, *shape)
        bias = layer(torch.zeros_like(unit[:1])).flatten()
        return self.builder.affine(value.node, bare(unit).flatten(1).T.contiguous(), bias)

    def _norm(self, layer: Any, value: Value) -> int:
        if layer.running_mean is None or layer.running_var is None:
            raise Refused(f"{type(layer).__name__} without running statistics")
        scale = (layer.running_var + layer.eps).rsqrt() * (layer.weight if layer.affine else 1.0)
        bias = layer.bias if layer.affine else torch.zeros_like(scale)
        moved = layer.running_mean * scale
        parts = scale, bias - moved, bias.abs() + moved.abs()
        repeats = value.probe[0].numel() // len(scale)  # positions of a channel follow one another
        return self.builder.scaled(value.node, *(part.repeat_interleave(repeats) for part in parts))

    def _leaky(self, node: int, slope: float) -> int:
        r"""$\max(a, sa) = s a + (1 - s)(a)_+$ for a slope $s$ up to 1."""
        if not 0 <= slope <= 1:
            raise Refused(f"LeakyReLU with slope {slope}")
        one = torch.ones(self.builder.nodes[node].units, dtype=torch.float64)
        on = self.builder.activation(node, "relu")
        parts = self.builder.scaled(node, slope * one, 0 * one), self.builder.scaled(on, (1 - slope) * one, 0 * one)
        return self.builder.sum(parts)

    def _arithmetic(self, name: str, one: Any, two: Any) -> Value:
        if isinstance(one, Value) and isinstance(two, Value):
            if name not in ("add", "sub") or one.probe.shape != two.probe.shape:
                raise Refused(f"{name} of two layers of these shapes")
            other = two if name == "add" else self._scaled(two, -1.0, 0.0)
            return Value(self.builder.sum((one.node, other.node)), one.probe + other.probe)
        value, constant = (one, two) if isinstance(one, Value) else (two, one)
        if name == "add":
            return self._scaled(value, 1.0, constant)
        if name == "mul":
            return self._scaled(value, constant, 0.0)
        if name == "sub":
            return self._scaled(value, 1.0, -constant) if value is one else self._scaled(value, -1.0, constant)
        if value is two or not torch.as_tensor(constant).all():
            raise Refused("division by a layer or by zero")
        return self._scaled(value, 1 / constant, 0.0)

    def _scaled(self, value: Value, scale: Any, shift: Any) -> Value:
        row = value.probe[:1]
        try:
            parts = [torch.as_tensor(part, dtype=torch.float64).expand(row.shape).flatten() for part in (scale, shift)]
        except RuntimeError as problem:
            raise Refused("a constant of another shape than the layer") from problem
        return Value(self.builder.scaled(value.node, *parts), value.probe * scale + shift)

"""ONNX graphs as torch modules, for inference in double precision.

The package `onnx` reads the file; the operators are those of `OPERATORS`, written by operations of
torch, so that bounds follow them as they follow any other module.
"""

import copy
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy import ndarray
from torch import Tensor, nn

from ..errors import ProblemError, UnsupportedNetworkError, of_extra
from .grid import random_samples

CALIBRATION = 10.0
"""Error of onnxruntime, as a multiple of the rounding error of this module in float32."""
RELATIVE_DIFFERENCE = 1e-4
"""Difference from onnxruntime, relative to the largest output, that other kernels may cause."""

MAX_CONSTANT = 1e300
"""Replaces infinity, which stands for no bound."""
NO_LIMIT = 1e30
"""Bounds of a Clip of at least this absolute value are none."""
INTEGER_TYPES = (6, 7)
FLOAT_TYPES = (1, 10, 11, 16)
"""ONNX's numbers of its types of numbers, which become int64 and float64."""


class UnsupportedSetting(Exception):
    """An attribute of a node that its operator does not support: reason and remedy."""


@dataclass(frozen=True)
class Step:
    """A node of an ONNX graph.

    Attributes
    ----------
    name, kind
        The node and its operator.
    inputs, output
        The names of its values.
    attributes
        Its attributes.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    output: str
    attributes: dict[str, Any]

    def refused(self, reason: str, remedy: str) -> UnsupportedNetworkError:
        """Return the error that names operator, node and remedy."""
        return UnsupportedNetworkError(
            f"operator {self.kind} (node {self.name!r}) {reason}: {remedy}"
        )


class OnnxNetwork(nn.Module):
    """An ONNX graph as a module; see `read_onnx`.

    Parameters
    ----------
    onnx : module
        The package.
    model : onnx.ModelProto
        The model.

    Attributes
    ----------
    steps
        The nodes that compute, in order.
    names
        The names of the constants, in the order of the buffers.
    entry, result
        The names of the input and of the output.
    shape
        The shape of one sample.
    batch
        The number of samples that the graph states; None if it is free.
    source
        The model as bytes.
    """

    def __init__(self, onnx: Any, model: Any) -> None:
        super().__init__()
        self.names: list[str] = []
        self.steps: list[Step] = []
        for weight in model.graph.initializer:
            self._keep(weight.name, onnx.numpy_helper.to_array(weight))
        versions = [entry.version for entry in model.opset_import if not entry.domain]
        for node in model.graph.node:
            values = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            if node.op_type == "Constant":
                (value,) = values.values()
                is_tensor = isinstance(value, onnx.TensorProto)
                self._keep(
                    node.output[0], onnx.numpy_helper.to_array(value) if is_tensor else value
                )
            else:
                self.steps.append(_step(node, values, max(versions, default=1)))
        inputs = [value for value in model.graph.input if value.name not in self.names]
        self.entry, self.batch, self.shape = _only_input(inputs, model.graph.output)
        self.result = model.graph.output[0].name
        self.source = model.SerializeToString()
        self.original_name = "ONNX"
        self.train(False)

    def _keep(self, name: str, value: Any) -> None:
        """Store a constant, widened to float64 if it is a floating-point number."""
        array = np.array(value)
        if array.dtype.kind not in "biu":
            array = np.clip(array.astype(np.float64), -MAX_CONSTANT, MAX_CONSTANT)
        self.register_buffer(f"constant{len(self.names)}", torch.tensor(array))
        self.names.append(name)

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate the graph at samples (n, p); inputs of other shapes are folded from them."""
        values: dict[str, Any] = dict(zip(self.names, self.buffers(), strict=True))
        values[""] = None  # an input that is absent
        values[self.entry] = x.reshape(-1, *self.shape)
        for step in self.steps:
            given = [values[name] for name in step.inputs]
            if step.kind == "Reshape":
                given[1] = self._shape(given[1], len(x))
            try:
                values[step.output] = OPERATORS[step.kind](*given, **step.attributes)
            except UnsupportedSetting as error:
                raise step.refused(*error.args) from error
        out = values[self.result]
        return out if out.dim() == 2 else out.reshape(len(x), -1)

    def _shape(self, shape: Tensor, samples: int) -> list[int]:
        """The target of a Reshape, for this number of samples and not that of the export."""
        sizes = shape.tolist()
        return [samples, *sizes[1:]] if sizes[0] == self.batch else sizes

    def extra_repr(self) -> str:
        return f"{len(self.steps)} nodes"


def _step(node: Any, attributes: dict[str, Any], opset: int) -> Step:
    """A node of a graph; an error if it is not supported."""
    if node.op_type == "Softmax":
        attributes["opset"] = opset
    name = node.name or node.output[0]
    kept = {} if node.op_type in PLAIN else attributes
    step = Step(name, node.op_type, tuple(node.input), node.output[0], kept)
    if node.domain not in ("", "ai.onnx") or node.op_type not in OPERATORS:
        raise step.refused(
            "is not supported",
            f"build the network of {', '.join(OPERATORS)}, or pass a Python function by"
            " ddmip_lib.predictors.black_box.",
        )
    return step


def _only_input(inputs: list[Any], outputs: list[Any]) -> tuple[str, int | None, tuple[int, ...]]:
    """Name, number of samples, if it is fixed, and shape of a sample of the only input."""
    if len(inputs) != 1 or len(outputs) != 1:
        names = ", ".join(value.name for value in [*inputs, *outputs])
        raise ProblemError(
            f"the ONNX graph has {len(inputs)} inputs and {len(outputs)} outputs ({names}): export"
            " a network with one of each."
        )
    sizes = [size.dim_value for size in inputs[0].type.tensor_type.shape.dim]
    if len(sizes) < 2 or 0 in sizes[1:]:
        raise ProblemError(
            f"input {inputs[0].name} of the ONNX graph has shape {sizes}, where 0 is free: export"
            " it with a batch dimension first, and a fixed number of features."
        )
    return inputs[0].name, sizes[0] or None, tuple(sizes[1:])


def is_onnx_model(net: Any) -> bool:
    """Return whether an object is an `onnx.ModelProto`; `onnx` is not imported."""
    return type(net).__name__ == "ModelProto" and type(net).__module__.startswith("onnx")


def read_onnx(net: Any) -> OnnxNetwork:
    """Read an ONNX model with one input and one output as a module.

    Weights are widened to float64, in which the module evaluates. Inputs are samples by features; a
    graph whose samples have more dimensions gets them folded from the features, and its output
    is flattened.

    Parameters
    ----------
    net : onnx.ModelProto, str or os.PathLike
        The model, or the path of one.

    Returns
    -------
    OnnxNetwork
        A module in evaluation mode.

    Raises
    ------
    ImportError
        If the package onnx is not installed.
    ProblemError
        If the file cannot be read, or the graph has other inputs or outputs.
    UnsupportedNetworkError
        If an operator is not supported; the message names operator, node and remedy.
    """
    onnx = of_extra("onnx", "onnx", "reading ONNX models")
    if isinstance(net, (str, os.PathLike)):
        try:
            net = onnx.load(net)
        except Exception as error:  # protobuf has several implementations with errors of their own
            raise ProblemError(f"{os.fspath(net)} is no ONNX file: {error}") from error
    return OnnxNetwork(onnx, net)


def compare_with_runtime(net: Any, lower: ndarray, upper: ndarray) -> None:
    """Compare an ONNX network with onnxruntime, where it is installed, at random points of boxes.

    Parameters
    ----------
    net : OnnxNetwork or object
        The network; any other object is not compared.
    lower, upper : numpy.ndarray
        Bounds of the inputs, (n, p).

    Raises
    ------
    ProblemError
        If the values differ by more than rounding in single precision.
    """
    if not isinstance(net, OnnxNetwork) or find_spec("onnxruntime") is None:
        return
    samples = net.batch or 5
    points = random_samples(lower, upper, samples, np.random.default_rng(0)).astype(np.float32)
    single = copy.deepcopy(net).float()
    with torch.no_grad():
        own = net(torch.tensor(points).double()).numpy()
        rounded = single(torch.tensor(points)).double().numpy()
    try:
        found = _run(net, points).reshape(own.shape)
    except Exception as error:  # a model that onnxruntime does not support
        warnings.warn(f"onnxruntime cannot check the ONNX network: {error}", stacklevel=4)
        return
    tolerance = CALIBRATION * np.abs(rounded - own).max() + RELATIVE_DIFFERENCE * np.abs(own).max()
    difference = np.abs(found - own).max()
    if not difference <= tolerance:
        raise ProblemError(
            f"the ONNX network as read differs from onnxruntime by {difference:.2g} near"
            f" {points[0].tolist()}: pass the network that it was exported from, and report this"
            " model."
        )


def _run(net: OnnxNetwork, points: ndarray) -> ndarray:
    """The outputs of onnxruntime."""
    runtime = of_extra("onnxruntime", "onnx", "comparing ONNX models")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(net.source, options, providers=["CPUExecutionProvider"])
    kind = float if "double" in session.get_inputs()[0].type else np.float32
    (found,) = session.run(None, {net.entry: points.reshape(-1, *net.shape).astype(kind)})
    return np.asarray(found, dtype=float)


def _gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    **more: Any,
) -> Tensor:
    a = a.t() if more.get("transA") else a
    b = b.t() if more.get("transB") else b
    weight = alpha * b
    return a @ weight if c is None else torch.addmm(beta * c, a, weight)


def _divide(one: Tensor, two: Tensor, **_: Any) -> Tensor:
    return one / two if one.is_floating_point() else torch.div(one, two, rounding_mode="trunc")


def _clip(x: Tensor, min: Any = None, max: Any = None, **_: Any) -> Tensor:
    """The smaller of a bound and the larger of another, by ReLUs, which bounds follow."""
    if min is not None and min > -NO_LIMIT:
        x = torch.relu(x - min) + min
    if max is not None and max < NO_LIMIT:
        x = max - torch.relu(max - x)
    return x


def _softmax(x: Tensor, opset: int, axis: int | None = None, **_: Any) -> Tensor:
    if opset >= 13:
        return torch.softmax(x, -1 if axis is None else axis)
    return torch.softmax(x.flatten(1 if axis is None else axis), -1).reshape(x.shape)


def _transpose(x: Tensor, perm: list[int] | None = None) -> Tensor:
    return x.permute(perm or list(range(x.dim()))[::-1])


def _flatten(x: Tensor, axis: int = 1) -> Tensor:
    if axis != 1:
        raise UnsupportedSetting("does not keep the samples", "export it with axis 1.")
    return x.flatten(1)


def _reshape(x: Tensor, shape: list[int], allowzero: int = 0, **_: Any) -> Tensor:
    kept = [x.shape[place] if size == 0 else size for place, size in enumerate(shape)]
    return x.reshape(shape if allowzero else kept)


def _integers(values: Any) -> list[int]:
    """The integers of an attribute or, in later versions, of an input; none if it is absent."""
    return [] if values is None else [int(value) for value in values]


def _unsqueeze(x: Tensor, axes: Any) -> Tensor:
    places = _integers(axes)
    rank = x.dim() + len(places)
    for axis in sorted(axis % rank for axis in places):
        x = x.unsqueeze(axis)
    return x


def _squeeze(x: Tensor, axes: Any = None) -> Tensor:
    return x.squeeze(tuple(_integers(axes) or range(1, x.dim())))


def _slice(x: Tensor, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Tensor:
    strides = _integers(steps) or [1] * len(starts)
    if min(strides) < 1:
        raise UnsupportedSetting("has a negative step", "export it without.")
    parts = [slice(None)] * x.dim()
    ranges = map(slice, _integers(starts), _integers(ends), strides)
    for axis, part in zip(_integers(axes) or range(len(starts)), ranges, strict=True):
        parts[axis] = part
    return x[tuple(parts)]


def _gather(x: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    axis %= x.dim()
    chosen = x.index_select(axis, indices.flatten() % x.shape[axis])
    return chosen.reshape([*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]])


def _cast(x: Tensor, to: int, **_: Any) -> Tensor:
    if to in INTEGER_TYPES:
        return x.long()
    if to not in FLOAT_TYPES:
        raise UnsupportedSetting("makes values of another type", "use floating-point numbers.")
    return x if x.is_floating_point() else x.double()


def _reduce(function: Any, x: Tensor, axes: Any = None, keepdims: int = 1, **_: Any) -> Tensor:
    places = _integers(axes)
    if not places:
        raise UnsupportedSetting("is over all samples", "state its axes.")
    return function(x, places, bool(keepdims))


def _normalise(
    x: Tensor, *weights: Tensor, epsilon: float = 1e-5, training_mode: int = 0, **_: Any
) -> Tensor:
    if training_mode:
        raise UnsupportedSetting("is in training mode", "call net.eval() before the export.")
    scale, bias, mean, var = weights
    return F.batch_norm(x, mean, var, scale, bias, eps=epsilon)


def _window(x: Tensor, value: float, attributes: dict[str, Any]) -> tuple[Tensor, list[list[int]]]:
    """The input, and strides, paddings and dilations along its one or two spatial dimensions.

    Paddings that are not symmetric become part of the input, filled with `value`.
    """
    spatial = x.dim() - 2
    if spatial not in (1, 2):
        raise UnsupportedSetting(f"has {spatial} spatial dimensions", "one and two are supported.")
    automatic = attributes.get("auto_pad", b"NOTSET").decode()
    if automatic not in ("NOTSET", "VALID"):
        raise UnsupportedSetting(f"has auto_pad {automatic}", "export explicit pads.")
    ones = [1] * spatial
    pads = attributes.get("pads") or [0] * (2 * spatial)
    padding = pads[:spatial]
    if padding != pads[spatial:]:
        ends = np.reshape(pads, (2, spatial)).T[::-1]  # those of the last dimension first
        x = F.pad(x, ends.ravel().tolist(), value=value)
        padding = [0] * spatial
    return x, [attributes.get("strides") or ones, padding, attributes.get("dilations") or ones]


def _convolve(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, group: int = 1, **attributes: Any
) -> Tensor:
    x, windows = _window(x, 0.0, attributes)
    convolution: Any = F.conv1d if x.dim() == 3 else F.conv2d
    return convolution(x, weight, bias, *windows, group)


def _max_pool(x: Tensor, kernel_shape: list[int], ceil_mode: int = 0, **attributes: Any) -> Tensor:
    x, windows = _window(x, -torch.inf, attributes)
    pool: Any = F.max_pool1d if x.dim() == 3 else F.max_pool2d
    return pool(x, kernel_shape, *windows, bool(ceil_mode))


def _average_pool(
    x: Tensor,
    kernel_shape: list[int],
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    **attributes: Any,
) -> Tensor:
    padded, (strides, padding, dilations) = _window(x, 0.0, attributes)
    if max(dilations) > 1 or (padded is not x and not count_include_pad):
        raise UnsupportedSetting("has dilations or one-sided pads", "export it without.")
    pool = F.avg_pool1d if x.dim() == 3 else F.avg_pool2d
    return pool(padded, kernel_shape, strides, padding, bool(ceil_mode), bool(count_include_pad))


def _same(x: Tensor, *_: Any, **__: Any) -> Tensor:
    return x


PLAIN: dict[str, Callable[..., Tensor]] = {
    "Add": torch.add,
    "Erf": torch.erf,
    "MatMul": torch.matmul,
    "Mul": torch.mul,
    "Neg": torch.neg,
    "Relu": torch.relu,
    "Sigmoid": torch.sigmoid,
    "Softplus": F.softplus,
    "Sqrt": torch.sqrt,
    "Sub": torch.sub,
    "Tanh": torch.tanh,
}
"""Operators that are functions of torch; attributes in early versions of ONNX are left out."""
OPERATORS: dict[str, Callable[..., Tensor]] = {
    **PLAIN,
    **dict.fromkeys(("Constant", "Dropout", "Identity"), _same),
    "AveragePool": _average_pool,
    "BatchNormalization": _normalise,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": lambda *parts, axis: torch.cat(parts, axis),
    "Conv": _convolve,
    "Div": _divide,
    "Elu": lambda x, alpha=1.0, **_: F.elu(x, alpha),
    "Flatten": _flatten,
    "Gather": _gather,
    "Gelu": lambda x, approximate=b"none": F.gelu(x, approximate=approximate.decode()),
    "Gemm": _gemm,
    "GlobalAveragePool": lambda x: x.mean(dim=list(range(2, x.dim())), keepdim=True),
    "LeakyRelu": lambda x, alpha=0.01, **_: F.leaky_relu(x, alpha),
    "MaxPool": _max_pool,
    "PRelu": lambda x, slope, **_: slope * x + (1 - slope) * torch.relu(x),
    "ReduceMean": partial(_reduce, torch.mean),
    "ReduceSum": partial(_reduce, torch.sum),
    "Reshape": _reshape,
    "Shape": lambda x, start=0, end=None, **_: torch.tensor(x.shape[start:end]),
    "Slice": _slice,
    "Softmax": _softmax,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
"""The operators that are supported, as functions of the inputs and, by name, the attributes."""

"""ONNX graphs as torch modules, for inference in double precision.

The package `onnx` reads the file; the operators are those of `OPERATORS`, written by operations of
torch, so that bounds follow them as they follow any other module.
"""

import copy
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy import ndarray
from torch import Tensor, nn

from ..errors import ProblemError, UnsupportedNetworkError, of_extra
from .grid import random_samples

Values = dict[str, Any]
"""Tensors by their names in the graph; "" is an input that is absent."""
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
    opset
        The version of the operators.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    output: str
    attributes: dict[str, Any]
    opset: int

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute."""
        return self.attributes.get(name, default)

    def axes(self, given: Tensor | None) -> list[int]:
        """Return the axes, an attribute or, in later versions, an input."""
        axes = self.get("axes", []) if given is None else given.tolist()
        return list(axes)

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
        The buffer of each constant.
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
        self.names: dict[str, str] = {}
        for weight in model.graph.initializer:
            self._keep(weight.name, onnx.numpy_helper.to_array(weight))
        versions = [entry.version for entry in model.opset_import if not entry.domain]
        self.steps: list[Step] = []
        for node in model.graph.node:
            values = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            if node.op_type == "Constant":
                (value,) = values.values()
                is_tensor = "value" in values
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
        if not np.issubdtype(array.dtype, np.integer) and array.dtype != bool:
            array = np.clip(array.astype(np.float64), -MAX_CONSTANT, MAX_CONSTANT)
        self.names[name] = f"constant{len(self.names)}"
        self.register_buffer(self.names[name], torch.tensor(array))

    def forward(self, x: Tensor) -> Tensor:
        """Evaluate the graph at samples (n, p); inputs of other shapes are folded from them."""
        values: Values = {name: getattr(self, buffer) for name, buffer in self.names.items()}
        values[""] = None
        values[self.entry] = x.reshape(-1, *self.shape)
        for step in self.steps:
            given = [values[name] for name in step.inputs]
            if step.kind == "Reshape":
                given[1] = self._shape(given[1], len(x))
            values[step.output] = OPERATORS[step.kind](step, *given)
        out: Tensor = values[self.result]
        return out if out.dim() == 2 else out.reshape(len(x), -1)

    def _shape(self, shape: Tensor, samples: int) -> list[int]:
        """The target of a Reshape, for this number of samples and not that of the export."""
        sizes = [int(size) for size in shape.tolist()]
        if self.batch is not None and sizes[0] == self.batch and samples != self.batch:
            sizes[0] = samples
        return sizes

    def extra_repr(self) -> str:
        return f"{len(self.steps)} nodes"


def _step(node: Any, attributes: dict[str, Any], opset: int) -> Step:
    """A node of a graph; an error if it is not supported."""
    for name, value in attributes.items():
        if isinstance(value, bytes):
            attributes[name] = value.decode()
    name = node.name or node.output[0]
    step = Step(name, node.op_type, tuple(node.input), node.output[0], attributes, opset)
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
    sizes = [int(size.dim_value) for size in inputs[0].type.tensor_type.shape.dim]
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


def _gemm(step: Step, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    a = a.t() if step.get("transA", 0) else a
    b = b.t() if step.get("transB", 0) else b
    alpha = step.get("alpha", 1.0)
    weight = b if alpha == 1 else alpha * b
    if c is None:
        return a @ weight
    return torch.addmm(step.get("beta", 1.0) * c, a, weight)


def _divide(step: Step, one: Tensor, two: Tensor) -> Tensor:
    if one.is_floating_point():
        return one / two
    return torch.div(one, two, rounding_mode="trunc")


def _clip(step: Step, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    """The smaller of a bound and the larger of another, by ReLUs, which bounds follow."""
    least = step.get("min") if low is None else low
    most = step.get("max") if high is None else high
    if least is not None and least > -NO_LIMIT:
        x = torch.relu(x - least) + least
    if most is not None and most < NO_LIMIT:
        x = most - torch.relu(most - x)
    return x


def _prelu(step: Step, x: Tensor, slope: Tensor) -> Tensor:
    return slope * x + (1 - slope) * torch.relu(x)


def _softmax(step: Step, x: Tensor) -> Tensor:
    if step.opset >= 13:
        return torch.softmax(x, step.get("axis", -1))
    flat = x.flatten(step.get("axis", 1))
    return torch.softmax(flat, -1).reshape(x.shape)


def _transpose(step: Step, x: Tensor) -> Tensor:
    order = step.get("perm") or list(range(x.dim()))[::-1]
    return x.permute(*order)


def _flatten(step: Step, x: Tensor) -> Tensor:
    if step.get("axis", 1) != 1:
        raise step.refused("does not keep the samples", "export it with axis 1.")
    return x.flatten(1)


def _reshape(step: Step, x: Tensor, shape: list[int]) -> Tensor:
    kept = [x.shape[place] if size == 0 else size for place, size in enumerate(shape)]
    return x.reshape(shape if step.get("allowzero", 0) else kept)


def _unsqueeze(step: Step, x: Tensor, axes: Tensor | None = None) -> Tensor:
    places = step.axes(axes)
    rank = x.dim() + len(places)
    for axis in sorted(axis % rank for axis in places):
        x = x.unsqueeze(axis)
    return x


def _squeeze(step: Step, x: Tensor, axes: Tensor | None = None) -> Tensor:
    places = step.axes(axes) or [axis for axis in range(1, x.dim()) if x.shape[axis] == 1]
    for axis in sorted((axis % x.dim() for axis in places), reverse=True):
        x = x.squeeze(axis)
    return x


def _slice(step: Step, x: Tensor, *given: Tensor | None) -> Tensor:
    parts: list[Any] = [None if part is None else part.tolist() for part in given]
    parts = parts or [step.get("starts"), step.get("ends"), step.get("axes")]
    starts, ends, axes, strides = [*parts, None, None][:4]
    for place, axis in enumerate(axes or range(len(starts))):
        stride = strides[place] if strides else 1
        if stride < 1:
            raise step.refused("has a negative step", "export it without.")
        x = x[(slice(None),) * (axis % x.dim()) + (slice(starts[place], ends[place], stride),)]
    return x


def _gather(step: Step, x: Tensor, indices: Tensor) -> Tensor:
    axis = step.get("axis", 0)
    if indices.dim() == 0:
        return x.select(axis, int(indices))
    chosen = x.index_select(axis, indices.flatten() % x.shape[axis])
    axis %= x.dim()
    return chosen.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def _cast(step: Step, x: Tensor) -> Tensor:
    if step.get("to") in INTEGER_TYPES:
        return x.long()
    if step.get("to") not in FLOAT_TYPES:
        raise step.refused("makes values of another type", "use floating-point numbers.")
    return x if x.is_floating_point() else x.double()


def _reduce(step: Step, x: Tensor, axes: Tensor | None = None) -> Tensor:
    places = step.axes(axes)
    if not places:
        raise step.refused("is over all samples", "state its axes.")
    function = torch.mean if step.kind == "ReduceMean" else torch.sum
    return function(x, dim=places, keepdim=bool(step.get("keepdims", 1)))


def _normalise(
    step: Step, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor
) -> Tensor:
    if step.get("training_mode", 0):
        raise step.refused("is in training mode", "call net.eval() before the export.")
    return F.batch_norm(x, mean, var, scale, bias, eps=step.get("epsilon", 1e-5))


def _padded(step: Step, x: Tensor, value: float) -> tuple[Tensor, list[int]]:
    """The input and symmetric paddings: others are made of `value` in front."""
    spatial = x.dim() - 2
    if step.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise step.refused(f"has auto_pad {step.get('auto_pad')}", "export explicit pads.")
    pads = list(step.get("pads") or [0] * (2 * spatial))
    before = pads[:spatial]
    after = pads[spatial:]
    if before == after:
        return x, before
    ends = [end for pair in zip(before[::-1], after[::-1], strict=True) for end in pair]
    return F.pad(x, ends, value=value), [0] * spatial


def _convolve(step: Step, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    spatial = _spatial(step, x)
    x, padding = _padded(step, x, 0.0)
    convolution = F.conv1d if spatial == 1 else F.conv2d
    strides = step.get("strides") or [1] * spatial
    dilations = step.get("dilations") or [1] * spatial
    return convolution(x, weight, bias, strides, padding, dilations, step.get("group", 1))


def _max_pool(step: Step, x: Tensor) -> Tensor:
    spatial = _spatial(step, x)
    x, padding = _padded(step, x, -torch.inf)
    pool = F.max_pool1d if spatial == 1 else F.max_pool2d
    return pool(
        x,
        step.get("kernel_shape"),
        stride=step.get("strides") or [1] * spatial,
        padding=padding,
        dilation=step.get("dilations") or [1] * spatial,
        ceil_mode=bool(step.get("ceil_mode", 0)),
    )


def _average_pool(step: Step, x: Tensor) -> Tensor:
    spatial = _spatial(step, x)
    counts = bool(step.get("count_include_pad", 0))
    padded, padding = _padded(step, x, 0.0)
    if max(step.get("dilations") or [1]) > 1 or (padded is not x and not counts):
        raise step.refused("has dilations or one-sided pads", "export it without.")
    pool = F.avg_pool1d if spatial == 1 else F.avg_pool2d
    strides = step.get("strides") or [1] * spatial
    ceil = bool(step.get("ceil_mode", 0))
    return pool(padded, step.get("kernel_shape"), strides, padding, ceil, counts)


def _spatial(step: Step, x: Tensor) -> int:
    """The number of spatial dimensions, 1 or 2."""
    spatial = x.dim() - 2
    if spatial not in (1, 2):
        raise step.refused(f"has {spatial} spatial dimensions", "one and two are supported.")
    return spatial


def _same(step: Step, x: Tensor, *_: Any) -> Tensor:
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
"""Operators that are functions of torch."""


def _plain(step: Step, *values: Tensor) -> Tensor:
    return PLAIN[step.kind](*values)


OPERATORS: dict[str, Callable[..., Tensor]] = {
    **dict.fromkeys(PLAIN, _plain),
    **dict.fromkeys(("Constant", "Dropout", "Identity"), _same),
    "AveragePool": _average_pool,
    "BatchNormalization": _normalise,
    "Cast": _cast,
    "Clip": _clip,
    "Concat": lambda step, *parts: torch.cat(parts, step.get("axis")),
    "Conv": _convolve,
    "Div": _divide,
    "Elu": lambda step, x: F.elu(x, step.get("alpha", 1.0)),
    "Flatten": _flatten,
    "Gather": _gather,
    "Gelu": lambda step, x: F.gelu(x, approximate=step.get("approximate", "none")),
    "Gemm": _gemm,
    "GlobalAveragePool": lambda step, x: x.mean(dim=list(range(2, x.dim())), keepdim=True),
    "LeakyRelu": lambda step, x: F.leaky_relu(x, step.get("alpha", 0.01)),
    "MaxPool": _max_pool,
    "PRelu": _prelu,
    "ReduceMean": _reduce,
    "ReduceSum": _reduce,
    "Reshape": _reshape,
    "Shape": lambda step, x: torch.tensor(x.shape),
    "Slice": _slice,
    "Softmax": _softmax,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
"""The operators that are supported, as functions of the node and its inputs."""

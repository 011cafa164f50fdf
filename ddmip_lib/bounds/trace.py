r"""A tensor that records the operations on it: networks are read by running them on one.

A `Traced` tensor goes through a network in the place of its input. Torch dispatches every operation
on it to `Tape.follow`, which finds its rule in the table `RULES`, adds nodes to the graph by the
rule, and also computes the operation on a probe batch, so that shapes are given. Values cannot be
read: an operation that requires one is refused.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from .activations import ACTIVATIONS, LAYERS, LEAKY
from .graph import GraphBuilder

PROBE_ROWS = 3  # samples of the probe batch
MIN_WEIGHT = 1e-120
MAX_WEIGHT = 1e120
"""Weights of other absolute values are refused: products of them could underflow or overflow."""
MIXED = "samples that influence each other"
NAMED_BY_OPERATION = {"Linear", "Conv", "BatchNorm", "Sequential"}
NAMED_BY_OPERATION |= {layer.__name__ for layer in LAYERS}
"""Layers of torch that are supported: refused operations in them are named, not the layers."""
aten: Any = torch.ops.aten


class Refused(Exception):
    """An operation that the graph cannot represent; the text, if any, gives the reason."""


class Traced(Tensor):
    """A value inside a network.

    Attributes
    ----------
    probe : Tensor
        The value for the probe batch.
    node : int or None
        The index of its node in the graph; None after a refusal.
    tape : Tape
        The tape that records its operations.
    """

    probe: Tensor
    node: int | None
    tape: "Tape"

    @staticmethod
    def __new__(cls, probe: Tensor, node: int | None, tape: "Tape") -> "Traced":
        made: Any = Tensor._make_wrapper_subclass(
            cls, probe.shape, strides=probe.stride(), dtype=probe.dtype
        )
        made.probe = probe
        made.node = node
        made.tape = tape
        tape.made.add(made)
        return made

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"a layer of shape {tuple(self.shape)}"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return _traced_in((args, kwargs))[0].tape.follow(func, args, kwargs or {})


@dataclass(eq=False)
class Tape:
    """Records a run operation by operation.

    Attributes
    ----------
    builder : GraphBuilder
        The graph so far.
    output : int
        The index of the output node.
    last : str
        The name of the last operation that computes.
    inside : list of pairs of Module and str
        The layers whose forward() is running, with their paths.
    refused : dict of str to list of str
        The layers that the graph cannot represent, with reasons.
    made : weak set of Traced
        All traced values.
    """

    builder: GraphBuilder
    output: int = 0
    last: str = ""
    inside: list[tuple[nn.Module, str]] = field(default_factory=list)
    refused: dict[str, list[str]] = field(default_factory=dict)
    made: WeakSet[Traced] = field(default_factory=WeakSet)

    def refuse(self, reason: str) -> None:
        """Record why the layer that is running cannot be read."""
        layer = type(self.inside[-1][0])
        reasons = self.refused.setdefault(layer.__name__, [])
        from_torch = layer.__module__.startswith("torch.nn")
        named = not from_torch or layer.__name__.rstrip("12d") in NAMED_BY_OPERATION
        if named and reason not in reasons:
            reasons.append(reason)

    @property
    def names(self) -> str:
        """The refused layers with their reasons, for messages."""
        return ", ".join(
            f"{layer} ({', '.join(reasons)})" if reasons else layer
            for layer, reasons in self.refused.items()
        )

    def follow(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Execute an operation on the probe batch, and add its nodes to the graph.

        Parameters
        ----------
        func : OpOverload
            The operation of torch.
        args, kwargs : tuple and dict
            Its arguments, some of which are traced.

        Returns
        -------
        Traced, Tensor or sequence of Traced
            The result.

        Raises
        ------
        Refused
            If a value is required, or written into a tensor that is not traced.
        """
        operation = Operation(self, func)
        if operation.kind not in RULES:
            parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        values = _traced_in((args, kwargs))
        written = operation.written(args, values[0])
        probes = [value.probe for value in values]
        if written is not None:
            probes[0] = written.probe.clone()
        out = _evaluate(func, args, kwargs, probes)
        if operation.kind in CONSTANTS:
            return out
        if operation.kind not in MOVES:
            self.last = operation.name.strip("_")
        operation.out = out
        nodes = None
        try:
            if written is not None:
                operation.check_written(written)
            operation.check()
            if all(value.node is not None for value in values):
                layer, path = self.inside[-1]
                self.builder.layer = f"{type(layer).__name__} {path}".strip()
                nodes = RULES[operation.kind](operation, *args, **kwargs)
        except Refused as error:
            self.refuse(str(error))
        if written is not None:
            written.probe = out
            written.node = nodes
            return written
        if isinstance(out, Tensor):
            return Traced(out, nodes, self)
        nodes = nodes or [None] * len(out)
        return type(out)(Traced(part, node, self) for part, node in zip(out, nodes, strict=True))


@dataclass(eq=False)
class Operation:
    """An operation of torch on traced values.

    Attributes
    ----------
    tape : Tape
        The tape that records it.
    func : OpOverload
        The operation.
    out : Tensor or sequence of Tensor
        Its results for the probe batch.
    """

    tape: Tape
    func: Any
    out: Any = None

    @property
    def name(self) -> str:
        """Its name, which ends in _ if it changes a value in place."""
        name: str = self.func._schema.name
        return name.removeprefix("aten::")

    @property
    def kind(self) -> str:
        """The name of its rule."""
        return self.name.rstrip("_")

    def written(self, args: Any, first: Traced) -> Traced | None:
        """Return the value that it changes in place, if any: only its first argument may be."""
        if self.name == "_local_scalar_dense":
            reason = "control flow by data"
        elif not self.func._schema.is_mutable:
            return None
        elif self.name.endswith("_") and args[0] is first:
            return first
        else:
            reason = f"{self.name} into another tensor"
        self.tape.refuse(reason)
        raise Refused(reason)

    def check_written(self, value: Traced) -> None:
        """Refuse a change in place of the input, of a value with another name or view, or of its
        shape.
        """
        storages = [other.probe.untyped_storage().data_ptr() for other in self.tape.made]
        shared = storages.count(value.probe.untyped_storage().data_ptr()) > 1
        if shared or self.out.shape != value.shape:
            raise Refused(f"{self.name} in place, on the input or on what has another name or view")

    def check(self) -> None:
        """Refuse what no graph represents."""
        if torch.Tag.nondeterministic_seeded in self.func.tags:
            raise Refused(f"{self.name}, which is random: dropout in training mode?")
        if self.kind not in RULES:
            raise Refused(self.tape.last)
        if isinstance(self.out, Tensor) and self.out.dtype != torch.float64:
            raise Refused("another precision than float64")

    def affine(
        self, value: Traced, weight: Tensor, bias: Tensor, bias_size: Tensor | None = None
    ) -> int:
        """Add the node `weight @ value + bias`.

        Parameters
        ----------
        value : Traced
            The value.
        weight, bias : Tensor
            The matrix and the constants.
        bias_size : Tensor, optional
            Bounds of the absolute values that were summed for `bias`.

        Returns
        -------
        int
            The index of the node.

        Raises
        ------
        Refused
            If weights are too large or too small.
        """
        assert value.node is not None
        node = self.tape.builder.affine(value.node, weight, bias, bias_size)
        made: Any = self.tape.builder.nodes[node]
        for part in (weight, bias, made.weight_size, made.bias_size):
            size = part.abs()
            if not ((size == 0) | (size >= MIN_WEIGHT) & (size <= MAX_WEIGHT)).all():
                raise Refused(
                    f"weights whose size or product is not in [{MIN_WEIGHT:g}, {MAX_WEIGHT:g}]"
                    " (rescale them)"
                )
        return node

    def scaled(self, value: Any, scale: Any, shift: Any = 0.0, size: Any = 0.0) -> int:
        """Add the elementwise node `scale * value + shift`; see `affine`.

        Parameters
        ----------
        value : Traced
            The value.
        scale, shift : Tensor or float
            Constants, the same for every sample.
        size : Tensor or float
            Bounds of the absolute values that were summed for `shift`, if above its own.
        """
        weight = torch.diag(self.per_sample(scale))
        bias = self.per_sample(shift)
        size = self.per_sample(size).maximum(bias.abs())
        return self.affine(self.broadcast(value), weight, bias, size)

    def broadcast(self, value: Traced) -> Traced:
        """Return a value expanded to the shape of the result."""
        shape = self.out.shape
        if value.shape == shape:
            return value
        wide = value.probe.expand(shape)
        node = _move(Operation(self.tape, aten.expand, wide), value, shape)
        return Traced(wide, node, self.tape)

    def per_sample(self, constant: Any) -> Tensor:
        """Return the entries of a constant for one sample of the result."""
        if not isinstance(constant, Traced):
            wide = torch.as_tensor(constant, dtype=torch.float64).expand(self.out.shape)
            samples = _samples(wide)
            if (samples == samples[:1]).all():
                return samples[0].clone()
        raise Refused("a constant that is not the same for every sample")


def _traced_in(tree: Any) -> list[Traced]:
    """The traced values among arguments."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Traced)]


def _evaluate(func: Any, args: Any, kwargs: Any, values: Iterable[Tensor]) -> Any:
    """The result of an operation whose traced arguments have these values."""
    given = iter(values)

    def value_of(leaf: Any) -> Any:
        return next(given) if isinstance(leaf, Traced) else leaf

    plain, named = tree_map(value_of, (args, kwargs))
    return func(*plain, **named)


def _samples(result: Any) -> Tensor:
    """The entries of each sample in the results of an operation, side by side."""
    parts = [result] if isinstance(result, Tensor) else result
    if any(part.numel() % PROBE_ROWS or not part.numel() for part in parts):
        raise Refused(MIXED)
    return torch.cat([part.reshape(PROBE_ROWS, -1) for part in parts], 1)


def _matrix(func: Any, args: Any, named: Any, place: int) -> Tensor:
    """The matrix by which a linear operation maps one of its traced arguments, with its results
    below each other.

    The columns are its values at unit vectors, which replace the samples of the probe batch.
    """
    values = _traced_in(args)
    n = values[place].numel() // PROBE_ROWS
    units = torch.eye(n + -n % PROBE_ROWS, n, dtype=torch.float64)
    drawn = torch.Generator().manual_seed(0)
    random = torch.randn(PROBE_ROWS, n, dtype=torch.float64, generator=drawn)
    columns = []
    for batch in [*units.split(PROBE_ROWS), random]:
        inputs = [torch.zeros_like(value.probe) for value in values]
        inputs[place] = batch.reshape(values[place].shape)
        columns.append(_samples(_evaluate(func, args, named, inputs)))
    matrix = torch.cat(columns[:-1])[:n]
    error = (random @ matrix - columns[-1]).abs()
    if (error > 1e-9 * (random.abs() @ matrix.abs())).any():
        raise Refused(MIXED)
    return matrix.T.contiguous()


def _activation(op: Operation, value: Traced) -> int:
    assert value.node is not None
    return op.tape.builder.activation(value.node, op.kind)


def _leaky(op: Operation, value: Traced, slope: Any = 0.01) -> int:
    r"""$s a + (1 - s)(a)_+$, which is $a$ for $a \ge 0$ and $s a$ for $a < 0$."""
    assert value.node is not None
    builder = op.tape.builder
    positive = Traced(value.probe.relu(), builder.activation(value.node, "relu"), op.tape)
    return builder.sum((op.scaled(value, slope), op.scaled(positive, 1 - slope)))


def _linear(op: Operation, *args: Any, bias: Any = 0.0, **named: Any) -> int:
    """A linear function of each sample of one value, and constants that are added to it."""
    values = _traced_in(args)
    if len(values) != 1 or _traced_in(bias):
        raise Refused(f"{op.tape.last} of two layers")
    return op.affine(values[0], _matrix(op.func, args, named, 0), op.per_sample(bias))


def _addmm(op: Operation, bias: Any, value: Any, matrix: Any, beta: Any = 1, alpha: Any = 1) -> int:
    if isinstance(bias, Traced) or isinstance(matrix, Traced):
        raise Refused("addmm of two layers")
    return _linear(replace(op, func=aten.mm), value, alpha * matrix, bias=beta * bias)


def _convolution(op: Operation, value: Any, weight: Any, bias: Any, *rest: Any) -> int:
    shift = 0.0 if bias is None else bias.reshape(-1, *[1] * (op.out.dim() - 2))
    return _linear(op, value, weight, None, *rest, bias=shift)


def _norm(op: Operation, value: Any, weight: Any, bias: Any, *statistics: Any) -> Any:
    """Batch norm; its settings are: whether it is in training, momentum, and epsilon."""
    mean, var, training, _, eps = statistics
    if training or mean is None:
        raise Refused("batch norm without running statistics")
    out = op.out[0]
    shape = (-1, *[1] * (out.dim() - 2))  # one entry for each channel
    scale = (var + eps).rsqrt()
    if weight is not None:
        scale = scale * weight
    bias = torch.zeros_like(scale) if bias is None else bias
    shift = bias - mean * scale
    size = bias.abs() + (mean * scale).abs()
    parts = [part.reshape(shape) for part in (scale, shift, size)]
    return [replace(op, out=out).scaled(value, *parts), None, None]


def _add(op: Operation, one: Any, two: Any, alpha: Any = 1) -> int:
    """`one + alpha * two`; one of them may be a constant."""
    if not isinstance(two, Traced):
        return op.scaled(one, 1.0, alpha * two)
    if not isinstance(one, Traced):
        return op.scaled(two, alpha, one)
    one = op.broadcast(one)
    two = op.broadcast(two)
    other = two.node if alpha == 1 else op.scaled(two, alpha)
    return op.tape.builder.sum((one.node, other))


def _multiply(op: Operation, one: Any, two: Any, **named: Any) -> int:
    if named or (isinstance(one, Traced) and isinstance(two, Traced)):
        raise Refused(f"{op.tape.last} of two layers")
    return op.scaled(one, two) if isinstance(one, Traced) else op.scaled(two, one)


def _divide(op: Operation, one: Any, two: Any, **named: Any) -> int:
    if isinstance(two, Traced) or not torch.as_tensor(two).all():
        raise Refused("division by a layer or by zero")
    return _multiply(op, one, 1 / two, **named)


def _same(op: Operation, value: Traced, *_: Any, **named: Any) -> int | None:
    """The same entries in the same order."""
    return value.node


def _move(op: Operation, *args: Any, **named: Any) -> Any:
    """Entries that change places, of one value or several."""
    tensors = [leaf for leaf in tree_leaves(args) if isinstance(leaf, Tensor)]
    values = _traced_in(args)
    if sum(tensor.is_floating_point() for tensor in tensors) > len(values):
        raise Refused("layers joined with constants")
    single = isinstance(op.out, Tensor)
    sizes = [part.numel() // PROBE_ROWS for part in ([op.out] if single else op.out)]
    blocks = [_matrix(op.func, args, named, i).split(sizes) for i in range(len(values))]
    nodes = []
    for weights in zip(*blocks, strict=True):
        parts: list[Any] = []
        for value, weight in zip(values, weights, strict=True):
            if torch.equal(weight, torch.eye(len(weight)).double()):
                parts.append(value.node)
            elif weight.any():
                parts.append(op.affine(value, weight, torch.zeros_like(weight[:, 0])))
        nodes.append(parts[0] if len(parts) == 1 else op.tape.builder.sum(tuple(parts)))
    return nodes[0] if single else nodes


SAME = {
    "view",
    "_unsafe_view",
    "_reshape_alias",
    "unsqueeze",
    "squeeze",
    "clone",
    "detach",
    "alias",
    "_to_copy",
    "lift_fresh",
}
"""Operations that keep all entries and their order."""
MOVES = SAME | {
    "expand",
    "permute",
    "transpose",
    "t",
    "slice",
    "select",
    "split",
    "split_with_sizes",
    "unbind",
    "cat",
    "stack",
    "flip",
    "index_select",
}
"""Operations that move entries without computing."""
CONSTANTS = {"zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"}
"""Operations whose results depend on the shapes of their arguments alone."""
RULES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(MOVES, _move),
    **dict.fromkeys(SAME, _same),
    **dict.fromkeys(ACTIVATIONS, _activation),
    **dict.fromkeys(LEAKY, _leaky),
    **dict.fromkeys(("mm", "sum", "mean", "avg_pool2d"), _linear),
    "addmm": _addmm,
    "convolution": _convolution,
    "native_batch_norm": _norm,
    "add": _add,
    "sub": lambda op, one, two, alpha=1: _add(op, one, two, -alpha),
    "mul": _multiply,
    "div": _divide,
    "rsub": lambda op, one, two, alpha=1: _add(op, two, one, -alpha),
    "neg": lambda op, value: op.scaled(value, -1.0),
}
"""The rules by which operations of torch add nodes; those in place have the same names."""

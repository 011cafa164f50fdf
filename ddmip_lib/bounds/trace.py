r"""A tensor that records the operations on it: networks are read by running them on one.

A `Traced` tensor goes through a network in the place of its input. Torch dispatches every operation
on it to `Tape.follow`, which finds its rule in the table `RULES`, adds nodes to the graph by the
rule, and also computes the operation on a probe batch, so that shapes are given. Values cannot be
read: an operation that requires one is refused.
"""

import weakref
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from .activations import ACTIVATIONS, LEAKY
from .graph import GraphBuilder

PROBE_ROWS = 3  # samples of the probe batch
MIN_WEIGHT = 1e-120
MAX_WEIGHT = 1e120
"""Weights of other absolute values are refused: products of them could underflow or overflow."""
MIXED = "samples that influence each other"
NAMED_BY_OPERATION = {"Linear", "Conv", "BatchNorm", "Sequential"} | {
    layer.__name__ for layer in [*(unit.layer for unit in ACTIVATIONS.values()), *LEAKY.values()]
}
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
        wrap: Any = Tensor._make_wrapper_subclass
        made: Any = wrap(cls, probe.shape, strides=probe.stride(), dtype=probe.dtype)
        made.probe = probe
        made.node = node
        made.tape = tape
        tape.made.append(weakref.ref(made))
        return made

    def __init__(self, *_: Any) -> None:
        super().__init__()

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"a layer of shape {tuple(self.shape)}"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return _traced_in((args, kwargs))[0].tape.follow(func, args, kwargs or {})


class Tape:
    """Records a run operation by operation.

    Parameters
    ----------
    n_in : int
        The number of inputs.

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
    made : list of weak references
        All traced values.
    """

    def __init__(self, n_in: int) -> None:
        self.builder = GraphBuilder(n_in)
        self.output = 0
        self.last = ""
        self.inside: list[tuple[nn.Module, str]] = []
        self.refused: dict[str, list[str]] = {}
        self.made: list[weakref.ref[Traced]] = []

    def refuse(self, reason: str) -> None:
        """Record why the layer that is running cannot be read."""
        layer = type(self.inside[-1][0])
        reasons = self.refused.setdefault(layer.__name__, [])
        from_torch = layer.__module__.startswith("torch.nn")
        if from_torch and layer.__name__.rstrip("12d") not in NAMED_BY_OPERATION:
            return
        if reason not in reasons:
            reasons.append(reason)

    @property
    def names(self) -> str:
        """The refused layers with their reasons, for messages."""
        parts = []
        for layer, reasons in self.refused.items():
            parts.append(f"{layer} ({', '.join(reasons)})" if reasons else layer)
        return ", ".join(parts)

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
        name = func._schema.name.removeprefix("aten::")
        operation = name.rstrip("_")
        if operation not in RULES:
            parts = func.decompose(*args, **kwargs)
            if parts is not NotImplemented:
                return parts
        written = self._written(func, name, args, kwargs)
        out = _probe_result(func, args, kwargs, written)
        if operation in CONSTANTS:
            return out
        if operation not in MOVES:
            self.last = name.strip("_")
        nodes = None
        try:
            if written is not None:
                self._check_written(written, out, name)
            nodes = self._nodes(func, out, args, kwargs)
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

    def _written(self, func: Any, name: str, args: Any, kwargs: Any) -> Traced | None:
        """The value that an operation changes in place, if any."""
        changed = []
        for place, argument in enumerate(func._schema.arguments):
            if argument.alias_info and argument.alias_info.is_write:
                changed.append(place)
        first = _traced_in((args, kwargs))[0]
        if changed == [0] and args[0] is first:
            return first
        if changed:
            reason = f"{name} into another tensor"
        elif name == "_local_scalar_dense":
            reason = "control flow by data"
        else:
            return None
        self.refuse(reason)
        raise Refused(reason)

    def _nodes(self, func: Any, out: Any, args: Any, kwargs: Any) -> Any:
        """The nodes of the results by the rule of the operation; None after an earlier refusal."""
        name = func._schema.name.removeprefix("aten::")
        rule = RULES.get(name.rstrip("_"))
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise Refused(f"{name}, which is random: dropout in training mode?")
        if rule is None:
            raise Refused(self.last)
        if isinstance(out, Tensor) and out.dtype != torch.float64:
            raise Refused("another precision than float64")
        if any(value.node is None for value in _traced_in((args, kwargs))):
            return None
        layer, path = self.inside[-1]
        self.builder.layer = f"{type(layer).__name__} {path}".strip()
        return rule(self, func, out, *args, **kwargs)

    def _check_written(self, value: Traced, out: Tensor, name: str) -> None:
        """Refuse a change in place of the input, of a value with another name or view, or of its
        shape.
        """
        shared = out.shape != value.shape
        storage = value.probe.untyped_storage().data_ptr()
        for reference in self.made:
            other = reference()
            if other is not None and other is not value:
                shared = shared or other.probe.untyped_storage().data_ptr() == storage
        if shared:
            raise Refused(f"{name} in place, on the input or on what has another name or view")

    def affine(
        self, value: Traced, weight: Tensor, bias: Tensor, out: Tensor, size: Tensor | None = None
    ) -> int:
        """Add the node `weight @ value + bias`.

        Parameters
        ----------
        value : Traced
            The value.
        weight, bias : Tensor
            The matrix and the constants.
        out : Tensor
            The result for the probe batch, which the node must reproduce.
        size : Tensor, optional
            Bounds of the absolute values that were summed for `bias`.

        Returns
        -------
        int
            The index of the node.

        Raises
        ------
        Refused
            If the result is another one, or weights are too large or too small.
        """
        assert value.node is not None
        before = value.probe.reshape(PROBE_ROWS, -1)
        bias_size = bias.abs() if size is None else size
        error = (before @ weight.T + bias - out.reshape(PROBE_ROWS, -1)).abs()
        if (error > 1e-9 * (before.abs() @ weight.abs().T + bias_size)).any():
            raise Refused(MIXED)
        node = self.builder.affine(value.node, weight, bias, size)
        made: Any = self.builder.nodes[node]
        for part in (weight, bias, made.weight_size, made.bias_size):
            sizes = part.abs()[part != 0]
            if sizes.numel() and not (sizes.min() >= MIN_WEIGHT and sizes.max() <= MAX_WEIGHT):
                raise Refused(
                    f"weights whose size or product is not in [{MIN_WEIGHT:g}, {MAX_WEIGHT:g}]"
                    " (rescale them)"
                )
        return node

    def scaled(
        self, value: Any, scale: Any, shift: Any, out: Tensor, size: Tensor | None = None
    ) -> int:
        """Add the elementwise node `scale * value + shift`; see `affine`.

        Parameters
        ----------
        value : Traced
            The value.
        scale, shift : Tensor or float
            Constants, the same for every sample.
        out : Tensor
            The result for the probe batch.
        size : Tensor, optional
            Bounds of the absolute values that were summed for `shift`.
        """
        value = self.broadcast(value, out)
        bias_size = None if size is None else _per_sample(size, out)
        weight = torch.diag(_per_sample(scale, out))
        return self.affine(value, weight, _per_sample(shift, out), out, bias_size)

    def broadcast(self, value: Traced, out: Tensor) -> Traced:
        """Return a value expanded to the shape of a result."""
        if value.shape == out.shape:
            return value
        wide = value.probe.expand(out.shape)
        return Traced(wide, _move(self, aten.expand, wide, value, out.shape), self)


def _traced_in(tree: Any) -> list[Traced]:
    """The traced values among arguments."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Traced)]


def _probe_result(func: Any, args: Any, kwargs: Any, written: Traced | None) -> Any:
    """The result of an operation for the probe batch; changes in place are made in a copy."""

    def probe(leaf: Any) -> Any:
        return leaf.probe if isinstance(leaf, Traced) else leaf

    probes, named = tree_map(probe, (args, kwargs))
    if written is not None:
        probes = (probes[0].clone(), *probes[1:])
    return func(*probes, **named)


def _per_sample(constant: Any, out: Tensor) -> Tensor:
    """The entries of a constant for one sample of a result."""
    if not isinstance(constant, Traced):
        wide = torch.as_tensor(constant, dtype=torch.float64).expand(out.shape)
        samples = wide.reshape(PROBE_ROWS, -1)
        if (samples == samples[:1]).all():
            return samples[0].clone()
    raise Refused("a constant that is not the same for every sample")


def _activation(tape: Tape, func: Any, out: Tensor, value: Traced) -> int:
    assert value.node is not None
    return tape.builder.activation(value.node, tape.last)


def _leaky(tape: Tape, func: Any, out: Tensor, value: Traced, slope: Any = 0.01) -> int:
    r"""$s a + (1 - s)(a)_+$, which is $a$ for $a \ge 0$ and $s a$ for $a < 0$."""
    assert value.node is not None
    positive = Traced(value.probe.relu(), tape.builder.activation(value.node, "relu"), tape)
    linear = tape.scaled(value, slope, 0.0, slope * value.probe)
    rest = tape.scaled(positive, 1 - slope, 0.0, (1 - slope) * positive.probe)
    return tape.builder.sum((linear, rest))


def _linear(
    tape: Tape, func: Any, out: Tensor, value: Any, *rest: Any, bias: Any = 0.0, **named: Any
) -> int:
    """A linear map of each sample: its matrix consists of its values at the unit vectors."""
    if not isinstance(value, Traced) or _traced_in((rest, bias)):
        raise Refused(f"{tape.last} of two layers")
    if value.dim() == 0 or len(value) % PROBE_ROWS or out.numel() % PROBE_ROWS:
        raise Refused(MIXED)
    n = value.numel() // PROBE_ROWS
    shape = (n * len(value) // PROBE_ROWS, *value.shape[1:])
    unit = torch.eye(n, dtype=torch.float64).reshape(shape)
    matrix = func(unit, *rest, **named)
    if matrix.numel() != n * out.numel() // PROBE_ROWS:
        raise Refused(MIXED)
    return tape.affine(value, matrix.reshape(n, -1).T.contiguous(), _per_sample(bias, out), out)


def _addmm(
    tape: Tape, func: Any, out: Tensor, bias: Any, value: Any, matrix: Any, **factors: Any
) -> int:
    if isinstance(bias, Traced) or isinstance(matrix, Traced):
        raise Refused("addmm of two layers")
    bias = factors.get("beta", 1) * bias
    return _linear(tape, aten.mm, out, value, factors.get("alpha", 1) * matrix, bias=bias)


def _convolution(
    tape: Tape, func: Any, out: Tensor, value: Any, weight: Any, bias: Any, *rest: Any
) -> int:
    shift = 0.0 if bias is None else bias.reshape(-1, *[1] * (out.dim() - 2))
    return _linear(tape, func, out, value, weight, None, *rest, bias=shift)


def _norm(tape: Tape, func: Any, out: Any, value: Any, *parameters: Any) -> Any:
    scale, shift, size = _norm_terms(*parameters)
    shape = (-1, *[1] * (out[0].dim() - 2))  # one entry for each channel
    terms = scale.reshape(shape), shift.reshape(shape)
    node = tape.scaled(value, *terms, out[0], size.reshape(shape))
    return [node, None, None]


def _norm_terms(
    weight: Any, bias: Any, mean: Any, var: Any, *settings: Any
) -> tuple[Tensor, Tensor, Tensor]:
    """Scale and shift of batch norm for each channel, and the absolute values in the shift."""
    training, _, eps = settings
    if training or mean is None:
        raise Refused("batch norm without running statistics")
    scale = (var + eps).rsqrt()
    if weight is not None:
        scale = scale * weight
    if bias is None:
        bias = torch.zeros_like(scale)
    return scale, bias - mean * scale, bias.abs() + (mean * scale).abs()


def _add(tape: Tape, func: Any, out: Tensor, one: Any, two: Any, alpha: Any = 1) -> int:
    """`one + alpha * two`; one of them may be a constant."""
    if not isinstance(two, Traced):
        return tape.scaled(one, 1.0, alpha * two, out)
    if not isinstance(one, Traced):
        return tape.scaled(two, alpha, one, out)
    one = tape.broadcast(one, out)
    two = tape.broadcast(two, out)
    other = two.node
    if alpha != 1:
        other = tape.scaled(two, alpha, 0.0, alpha * two.probe)
    return tape.builder.sum((one.node, other))


def _subtract(tape: Tape, func: Any, out: Tensor, one: Any, two: Any, alpha: Any = 1) -> int:
    return _add(tape, func, out, one, two, -alpha)


def _subtract_from(tape: Tape, func: Any, out: Tensor, one: Any, two: Any, alpha: Any = 1) -> int:
    return _add(tape, func, out, two, one, -alpha)


def _negate(tape: Tape, func: Any, out: Tensor, value: Any) -> int:
    return tape.scaled(value, -1.0, 0.0, out)


def _multiply(tape: Tape, func: Any, out: Tensor, one: Any, two: Any, **named: Any) -> int:
    if named or (isinstance(one, Traced) and isinstance(two, Traced)):
        raise Refused(f"{tape.last} of two layers")
    if isinstance(one, Traced):
        return tape.scaled(one, two, 0.0, out)
    return tape.scaled(two, one, 0.0, out)


def _divide(tape: Tape, func: Any, out: Tensor, one: Any, two: Any, **named: Any) -> int:
    if isinstance(two, Traced) or not torch.as_tensor(two).all():
        raise Refused("division by a layer or by zero")
    return _multiply(tape, func, out, one, 1 / two, **named)


def _move(tape: Tape, func: Any, out: Any, *args: Any, **named: Any) -> Any:
    """Entries that change places: moving their numbers shows where each came from."""
    for leaf in tree_leaves(args):
        constant = isinstance(leaf, Tensor) and not isinstance(leaf, Traced)
        if constant and leaf.is_floating_point():
            raise Refused("layers joined with constants")
    values = _traced_in(args)
    starts = [0, *accumulate(value.numel() // PROBE_ROWS for value in values)]
    numbers = iter([_sample_starts(starts) + _numbers(*ends) for ends in pairwise(starts)])

    def numbered(leaf: Any) -> Any:
        return next(numbers).reshape(leaf.shape) if isinstance(leaf, Traced) else leaf

    moved = func(*tree_map(numbered, args), **named)
    if isinstance(out, Tensor):
        return _selected(tape, values, starts, moved)
    return [_selected(tape, values, starts, part) for part in moved]


def _numbers(first: int, last: int) -> Tensor:
    return torch.arange(first, last, dtype=torch.float64)


def _sample_starts(starts: list[int]) -> Tensor:
    """The numbers of the first entries of all samples."""
    return starts[-1] * _numbers(0, PROBE_ROWS)[:, None]


def _selected(tape: Tape, values: Sequence[Traced], starts: list[int], found: Tensor) -> Any:
    """The node of a result whose entries have the numbers `found` among those of values."""
    if not found.numel() or found.numel() % PROBE_ROWS:
        raise Refused(MIXED)
    found = found.reshape(PROBE_ROWS, -1)
    entry = found[0]
    if entry.max() >= starts[-1] or not torch.equal(found, _sample_starts(starts) + entry):
        raise Refused(MIXED)
    if len(values) == 1 and torch.equal(entry, _numbers(0, starts[-1])):
        return values[0].node
    parts = []
    for value, ends in zip(values, pairwise(starts), strict=True):
        chosen = (entry[:, None] == _numbers(*ends)).double()
        if chosen.any():
            assert value.node is not None
            parts.append(tape.builder.affine(value.node, chosen, torch.zeros_like(entry)))
    return parts[0] if len(parts) == 1 else tape.builder.sum(tuple(parts))


MOVES = {
    "view",
    "_unsafe_view",
    "_reshape_alias",
    "unsqueeze",
    "squeeze",
    "expand",
    "clone",
    "detach",
    "alias",
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
    "_to_copy",
    "lift_fresh",
}
"""Operations that move entries without computing."""
CONSTANTS = {"zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"}
"""Operations whose results depend on the shapes of their arguments alone."""
RULES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(MOVES, _move),
    **dict.fromkeys(ACTIVATIONS, _activation),
    **dict.fromkeys(LEAKY, _leaky),
    **dict.fromkeys(("mm", "sum", "mean", "avg_pool2d"), _linear),
    "addmm": _addmm,
    "convolution": _convolution,
    "native_batch_norm": _norm,
    "add": _add,
    "sub": _subtract,
    "mul": _multiply,
    "div": _divide,
    "rsub": _subtract_from,
    "neg": _negate,
}
"""The rules by which operations of torch add nodes; those in place have the same names."""

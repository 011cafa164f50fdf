r"""A tensor without storage that writes down what happens to it: the one reader of networks.

A `Traced` tensor goes through a network in the place of its input. Every operation of torch,
whoever calls it, arrives in `Tape.follow`, which finds in the one table `RULES` what it adds to the
graph, and computes it on a probe of `BATCH` rows as well, so that shapes are known. Values cannot
leave: whoever asks for one is refused.
"""

import weakref
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from .activations import ACTIVATIONS
from .graph import GraphBuilder

BATCH = 3
SMALL = 1e-120
LARGE = 1e120
"""Weights of other sizes are refused: products of them could vanish or overflow."""
MIXED = "rows that influence each other"
KNOWN = {"Linear", "Conv", "BatchNorm", "ReLU", "LeakyReLU", "Sequential"}
aten: Any = torch.ops.aten


class Refused(Exception):
    """An operation that the graph cannot hold; the text, if any, says what about it."""


class Traced(Tensor):
    """A value inside a network: the node that holds it (None after a refusal) and what it is at the
    probe.
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
        tape = next(leaf.tape for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Traced))
        return tape.follow(func, args, kwargs or {})


class Tape:
    """Follows a run operation by operation; `refused` are the names of those that the graph cannot
    hold.
    """

    def __init__(self, n_in: int) -> None:
        self.builder = GraphBuilder(n_in)
        self.output = 0
        self.last = ""
        self.inside: list[
            tuple[nn.Module, str]
        ] = []  # the layers whose forward() is running, with their paths
        self.refused: dict[str, list[str]] = {}
        self.made: list[weakref.ref[Traced]] = []

    def refuse(self, what: str) -> None:
        """Note what cannot be read in the layer that is running."""
        layer = type(self.inside[-1][0])
        reasons = self.refused.setdefault(layer.__name__, [])
        foreign = (
            layer.__module__.startswith("torch.nn") and layer.__name__.rstrip("12d") not in KNOWN
        )
        if what not in reasons and not foreign:
            reasons.append(what)

    @property
    def names(self) -> str:
        """What was refused, for the error: a layer of torch by its name, others by what they do."""
        return ", ".join(
            f"{layer} ({', '.join(why)})" if why else layer for layer, why in self.refused.items()
        )

    def follow(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The result of an operation, whose place in the graph is found by its rule."""
        name = func._schema.name.removeprefix("aten::")
        plain = name.rstrip("_")
        if plain not in RULES and (parts := func.decompose(*args, **kwargs)) is not NotImplemented:
            return parts
        values = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Traced)]
        places = [
            i
            for i, arg in enumerate(func._schema.arguments)
            if arg.alias_info and arg.alias_info.is_write
        ]
        written = places == [0] and args[0] is values[0]
        if plain == "_local_scalar_dense" or (places and not written):
            self.refuse(what := f"{name} into another tensor" if places else "control flow by data")
            raise Refused(what)
        probes, named = tree_map(
            lambda leaf: leaf.probe if isinstance(leaf, Traced) else leaf, (args, kwargs)
        )
        if written:
            probes = (probes[0].clone(), *probes[1:])
        out = func(*probes, **named)
        if plain in CONSTANTS:
            return out
        nodes = None
        (layer, path) = self.inside[-1]
        self.last = self.last if plain in MOVES else name.strip("_")
        try:
            if written:
                self._check_written(values[0], out, name)
            if torch.Tag.nondeterministic_seeded in func.tags:
                raise Refused(f"{name}, which is random: dropout in training mode?")
            if plain not in RULES:
                raise Refused(self.last)
            if isinstance(out, Tensor) and out.dtype != torch.float64:
                raise Refused("another precision than float64")
            if all(value.node is not None for value in values):
                self.builder.layer = f"{type(layer).__name__} {path}".strip()
                nodes = RULES[plain](self, func, out, *args, **kwargs)
        except Refused as problem:
            self.refuse(str(problem))
        if written:
            values[0].probe = out
            values[0].node = nodes
            return values[0]
        if isinstance(out, Tensor):
            return Traced(out, nodes, self)
        nodes = nodes or [None] * len(out)
        return type(out)(Traced(part, node, self) for part, node in zip(out, nodes, strict=True))

    def _check_written(self, value: Traced, out: Tensor, name: str) -> None:
        """What is changed in place must be no input, have no other name or view, and keep its
        shape.
        """
        place = value.probe.untyped_storage().data_ptr()
        others = [other for ref in self.made if (other := ref()) is not None and other is not value]
        if out.shape != value.shape or any(
            other.probe.untyped_storage().data_ptr() == place for other in others
        ):
            raise Refused(f"{name} in place, on the input or on what has another name or view")

    def affine(
        self, value: Traced, weight: Tensor, bias: Tensor, out: Tensor, size: Tensor | None = None
    ) -> int:
        """The node `weight @ value + bias`, which must be what `out` says, row by row."""
        assert value.node is not None
        before = value.probe.reshape(BATCH, -1)
        reach = bias.abs() if size is None else size
        off = (before @ weight.T + bias - out.reshape(BATCH, -1)).abs()
        if (off > 1e-9 * (before.abs() @ weight.abs().T + reach)).any():
            raise Refused(MIXED)
        node = self.builder.affine(value.node, weight, bias, size)
        made: Any = self.builder.nodes[node]
        for part in (weight, bias, made.weight_size, made.bias_size):
            sizes = part.abs()[part != 0]
            if sizes.numel() and not (sizes.min() >= SMALL and sizes.max() <= LARGE):
                raise Refused(
                    f"weights whose size or product is not in [{SMALL:g}, {LARGE:g}] (rescale them)"
                )
        return node

    def scaled(
        self, value: Any, scale: Any, shift: Any, out: Tensor, size: Tensor | None = None
    ) -> int:
        """The node `scale * value + shift`, entry by entry; constants are the same for
        every row.
        """
        value = self.broadcast(value, out)
        parts = [_row(part, out) for part in (scale, shift)]
        return self.affine(
            value, torch.diag(parts[0]), parts[1], out, None if size is None else _row(size, out)
        )

    def broadcast(self, value: Traced, out: Tensor) -> Traced:
        if value.shape == out.shape:
            return value
        return Traced(
            wide := value.probe.expand(out.shape),
            _move(self, aten.expand, wide, value, out.shape),
            self,
        )


def _row(constant: Any, out: Tensor) -> Tensor:
    """The entries of a constant for one row of a result."""
    if not isinstance(constant, Traced):
        rows = torch.as_tensor(constant, dtype=torch.float64).expand(out.shape).reshape(BATCH, -1)
        if (rows == rows[:1]).all():
            return rows[0].clone()
    raise Refused("a constant that is not the same for every row")


def _activation(tape: Tape, func: Any, out: Tensor, value: Traced) -> int:
    assert value.node is not None
    return tape.builder.activation(value.node, tape.last)


def _leaky(tape: Tape, func: Any, out: Tensor, value: Traced, slope: float = 0.01) -> int:
    r"""$\max(a, sa) = s a + (1 - s)(a)_+$ for a slope $s$ up to 1."""
    assert value.node is not None
    if not 0 <= slope <= 1:
        raise Refused(f"a slope of {slope}")
    on = Traced(value.probe.relu(), tape.builder.activation(value.node, "relu"), tape)
    parts = [(value, slope), (on, 1 - slope)]
    return tape.builder.sum(tuple(tape.scaled(part, s, 0.0, s * part.probe) for part, s in parts))


def _linear(
    tape: Tape, func: Any, out: Tensor, value: Any, *rest: Any, bias: Any = 0.0, **named: Any
) -> int:
    """A linear map of each row: its matrix consists of its values at the unit vectors."""
    if not isinstance(value, Traced) or any(
        isinstance(leaf, Traced) for leaf in tree_leaves((rest, bias))
    ):
        raise Refused(f"{tape.last} of two layers")
    if value.dim() == 0 or len(value) % BATCH or out.numel() % BATCH:
        raise Refused(MIXED)
    n = value.numel() // BATCH
    unit = torch.eye(n, dtype=torch.float64).reshape(n * len(value) // BATCH, *value.shape[1:])
    matrix = func(unit, *rest, **named)
    if matrix.numel() != n * out.numel() // BATCH:
        raise Refused(MIXED)
    return tape.affine(value, matrix.reshape(n, -1).T.contiguous(), _row(bias, out), out)


def _addmm(
    tape: Tape,
    func: Any,
    out: Tensor,
    bias: Any,
    value: Any,
    matrix: Any,
    beta: Any = 1,
    alpha: Any = 1,
) -> int:
    if isinstance(bias, Traced) or isinstance(matrix, Traced):
        raise Refused("addmm of two layers")
    return _linear(tape, aten.mm, out, value, alpha * matrix, bias=beta * bias)


def _convolution(
    tape: Tape, func: Any, out: Tensor, value: Any, weight: Any, bias: Any, *rest: Any
) -> int:
    shift = 0.0 if bias is None else bias.reshape(-1, *[1] * (out.dim() - 2))
    return _linear(tape, func, out, value, weight, None, *rest, bias=shift)


def _norm(
    tape: Tape,
    func: Any,
    out: Any,
    value: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    var: Any,
    *rest: Any,
) -> Any:
    training, _, eps = rest
    if training or mean is None:
        raise Refused("batch norm without running statistics")
    scale = (var + eps).rsqrt() * (1.0 if weight is None else weight)
    bias = torch.zeros_like(scale) if bias is None else bias
    parts = scale, bias - mean * scale, bias.abs() + (mean * scale).abs()
    scale, shift, size = (part.reshape(-1, *[1] * (out[0].dim() - 2)) for part in parts)
    return [tape.scaled(value, scale, shift, out[0], size), None, None]


def _add(
    tape: Tape, func: Any, out: Tensor, one: Any, two: Any, alpha: Any = 1, sign: int = 1
) -> int:
    """`one + sign * alpha * two`; one of them may be a constant."""
    if not isinstance(two, Traced):
        return tape.scaled(one, 1.0, sign * alpha * two, out)
    if not isinstance(one, Traced):
        return tape.scaled(two, sign * alpha, one, out)
    one = tape.broadcast(one, out)
    two = tape.broadcast(two, out)
    other = (
        two.node
        if sign * alpha == 1
        else tape.scaled(two, sign * alpha, 0.0, sign * alpha * two.probe)
    )
    return tape.builder.sum((one.node, other))


def _mul(tape: Tape, func: Any, out: Tensor, one: Any, two: Any, **named: Any) -> int:
    if named or (isinstance(one, Traced) and isinstance(two, Traced)):
        raise Refused(f"{tape.last} of two layers")
    return (
        tape.scaled(one, two, 0.0, out)
        if isinstance(one, Traced)
        else tape.scaled(two, one, 0.0, out)
    )


def _div(tape: Tape, func: Any, out: Tensor, one: Any, two: Any, **named: Any) -> int:
    if isinstance(two, Traced) or not torch.as_tensor(two).all():
        raise Refused("division by a layer or by zero")
    return _mul(tape, func, out, one, 1 / two, **named)


def _move(tape: Tape, func: Any, out: Any, *args: Any, **named: Any) -> Any:
    """Entries that go elsewhere: done to their numbers, the operation says where each came from."""
    leaves = tree_leaves(args)
    values = [leaf for leaf in leaves if isinstance(leaf, Traced)]
    if any(
        isinstance(leaf, Tensor) and leaf.is_floating_point() and not isinstance(leaf, Traced)
        for leaf in leaves
    ):
        raise Refused("layers joined with constants")
    sizes = [value.numel() // BATCH for value in values]
    total = sum(sizes)
    starts = torch.tensor([0, *sizes]).cumsum(0).tolist()
    rows = total * torch.arange(BATCH, dtype=torch.float64)[:, None]
    numbers = iter([(rows + torch.arange(first, last)) for first, last in pairwise(starts)])
    moved = func(
        *tree_map(
            lambda leaf: next(numbers).reshape(leaf.shape) if isinstance(leaf, Traced) else leaf,
            args,
        ),
        **named,
    )

    def node(found: Tensor) -> Any:
        if not found.numel() or found.numel() % BATCH:
            raise Refused(MIXED)
        column = (found := found.reshape(BATCH, -1))[0]
        if not (torch.equal(found, rows + column) and column.max() < total):
            raise Refused(MIXED)
        if len(values) == 1 and torch.equal(column, torch.arange(total, dtype=torch.float64)):
            return values[0].node
        parts = []
        for value, (first, last) in zip(values, pairwise(starts), strict=True):
            chosen = (column[:, None] == torch.arange(first, last)).double()
            if chosen.any():
                parts.append(tape.builder.affine(value.node, chosen, torch.zeros_like(column)))  # type: ignore[arg-type]
        return parts[0] if len(parts) == 1 else tape.builder.sum(tuple(parts))

    return tree_map(node, moved) if isinstance(out, Tensor) else [node(part) for part in moved]


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
CONSTANTS = {"zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"}
RULES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(MOVES, _move),
    **dict.fromkeys(ACTIVATIONS, _activation),
    **dict.fromkeys(("mm", "sum", "mean", "avg_pool2d"), _linear),
    "addmm": _addmm,
    "convolution": _convolution,
    "native_batch_norm": _norm,
    "leaky_relu": _leaky,
    "add": _add,
    "sub": partial(_add, sign=-1),
    "mul": _mul,
    "div": _div,
    "rsub": lambda tape, func, out, one, two, alpha=1: _add(tape, func, out, two, one, alpha, -1),
    "neg": lambda tape, func, out, value: tape.scaled(value, -1.0, 0.0, out),
}
"""What each operation of torch adds to the graph; those in place go by the same names."""

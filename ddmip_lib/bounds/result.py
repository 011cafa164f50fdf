"""Bounds of a network over n regions, and how to select and concatenate batches of arrays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from operator import attrgetter
from typing import Any, Self

import torch
from torch import Tensor

from ..renamed import renamed_fields

Range = tuple[Tensor, Tensor]


@renamed_fields(lower_form="lower_linear", upper_form="upper_linear")
@dataclass(eq=False)
class Batch:
    """Base class of data classes whose fields are arrays, or lists and tuples of arrays, with one
    entry for each element of a batch: `batch[rows]` selects elements.
    """

    def __getitem__(self, rows: Any) -> Self:
        return type(self)(*(select(getattr(self, field.name), rows) for field in fields(self)))


@dataclass(eq=False)
class Bounds(Batch):
    r"""Sound bounds of a graph over n regions; `bounds[rows]` selects regions.

    Attributes
    ----------
    nodes : list of pairs of Tensor
        Lower and upper bounds of the values of each node, (n, units).
    lower_linear, upper_linear : pair of Tensor
        $A$ and $b$, (n, q, p) and (n, q), of linear bounds of the outputs over the regions: $A u +
        b \le f(u)$, and $f(u) \le A u + b$.
    lower, upper : Tensor
        Bounds of the outputs, (n, q).
    empty : Tensor
        Regions whose splits contradict the bounds, (n,): there `lower` is inf and `upper` -inf.
    slopes : list of Tensor, optional
        Optimised slopes of the last pass, (n, 2q, units) for each activation.

    Examples
    --------
    >>> one = torch.ones(3, 1)
    >>> constant_bounds([(-one, one)], n_in=1)[:2].upper
    tensor([[1.],
            [1.]])
    """

    nodes: list[Range]
    lower_linear: tuple[Tensor, Tensor]
    upper_linear: tuple[Tensor, Tensor]
    lower: Tensor
    upper: Tensor
    empty: Tensor
    slopes: list[Tensor] | None = None


def constant_bounds(nodes: list[Range], n_in: int) -> Bounds:
    """Return bounds that consist of the ranges of the nodes alone.

    Parameters
    ----------
    nodes : list of pairs of Tensor
        Lower and upper bounds of the values of each node, (n, units).
    n_in : int
        The number of inputs of the network.

    Returns
    -------
    Bounds
        The bounds; their linear bounds are constants.

    Examples
    --------
    >>> constant_bounds([(torch.zeros(1, 1), torch.ones(1, 1))], n_in=1).upper_linear
    (tensor([[[0.]]]), tensor([[1.]]))
    """
    lower, upper = nodes[-1]
    flat = lower.new_zeros(*lower.shape, n_in)
    empty = torch.zeros_like(lower[:, 0], dtype=torch.bool)
    return Bounds(nodes, (flat, lower), (flat, upper), lower, upper, empty)


def select(part: Any, rows: Any) -> Any:
    """Return some rows of a tensor or region, or of lists and tuples of them.

    Parameters
    ----------
    part : Tensor, Box, list, tuple or None
        The object; None stays None.
    rows : slice or Tensor
        The rows.

    Examples
    --------
    >>> select([torch.arange(3), None], slice(0, 2))
    [tensor([0, 1]), None]
    """
    if part is None:
        return None
    if isinstance(part, (list, tuple)):
        return type(part)(select(each, rows) for each in part)
    return part[rows]


def in_chunks(rows: int, region: Any, solve: Callable[..., Bounds], *parts: Any) -> Bounds:
    """Return `solve(region, *parts)`, computed for at most `rows` regions at a time."""
    chunks = [slice(k, k + rows) for k in range(0, max(1, len(region)), rows)]
    return concatenate([solve(*select((region, *parts), chunk)) for chunk in chunks])


def concatenate(parts: Sequence[Any]) -> Any:
    """Concatenate tensors, or tuples, lists and data classes of them.

    Parameters
    ----------
    parts : sequence
        Objects of the same structure; None stays None.

    Returns
    -------
    object
        One object of this structure.

    Examples
    --------
    >>> concatenate([(torch.zeros(1), [torch.ones(1)]), (torch.ones(2), [torch.ones(1)])])
    (tensor([0., 1., 1.]), [tensor([1., 1.])])
    """
    first = parts[0]
    if len(parts) == 1 or first is None:
        return first
    if isinstance(first, Tensor):
        return torch.cat(list(parts))
    kind: Any = type(first)
    if is_dataclass(first):
        values = attrgetter(*(field.name for field in fields(first)))
        return kind(*map(concatenate, zip(*map(values, parts), strict=True)))
    return kind(map(concatenate, zip(*parts, strict=True)))

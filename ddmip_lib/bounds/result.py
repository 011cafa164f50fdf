"""What a method found about a network on n regions, and how to cut and join it by rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor

Range = tuple[Tensor, Tensor]


@dataclass(eq=False)
class Bounds:
    r"""Sound bounds of a graph over n regions.

    `nodes[i]` is the pair (lower, upper), each (n, units), of the values of node i. With
    `lower_form` $= (A, b)$ of shapes (n, q, p) and (n, q), $A u + b \le f(u)$ for all u in the
    region, and with `upper_form` from above. Rows whose splits contradict the bounds are `empty`:
    `lower` is inf and `upper` -inf there. `slopes` are those of the last pass, (n, 2q, units) for
    each activation, where they were optimised. `bounds[rows]` picks rows.

    >>> one = torch.ones(3, 1)
    >>> constant_bounds([(-one, one)], n_in=1)[:2].upper
    tensor([[1.],
            [1.]])
    """

    nodes: list[Range]
    lower_form: tuple[Tensor, Tensor]
    upper_form: tuple[Tensor, Tensor]
    lower: Tensor
    upper: Tensor
    empty: Tensor
    slopes: list[Tensor] | None = None

    def __getitem__(self, rows: Any) -> "Bounds":
        return Bounds(*(select(getattr(self, field.name), rows) for field in fields(self)))


def constant_bounds(nodes: list[Range], n_in: int) -> Bounds:
    """Bounds that consist of the ranges of the nodes alone: the forms are constants.

    >>> constant_bounds([(torch.zeros(1, 1), torch.ones(1, 1))], n_in=1).upper_form
    (tensor([[[0.]]]), tensor([[1.]]))
    """
    lower, upper = nodes[-1]
    flat = lower.new_zeros(*lower.shape, n_in)
    return Bounds(
        nodes,
        (flat, lower),
        (flat, upper),
        lower,
        upper,
        torch.zeros_like(lower[:, 0], dtype=torch.bool),
    )


def select(part: Any, rows: Any) -> Any:
    """Some rows of a tensor or region, or of lists and tuples of them, in which None stays None.

    >>> select([torch.arange(3), None], slice(0, 2))
    [tensor([0, 1]), None]
    """
    if part is None:
        return None
    return (
        type(part)(select(p, rows) for p in part) if isinstance(part, (list, tuple)) else part[rows]
    )


def in_chunks(rows: int, region: Any, solve: Callable[..., Bounds], *parts: Any) -> Bounds:
    """`solve(region, *parts)` for at most so many rows at a time."""
    if len(region) <= rows:
        return solve(region, *parts)
    found = []
    for first in range(0, len(region), rows):
        chunk = slice(first, first + rows)
        found.append(solve(region[chunk], *(select(part, chunk) for part in parts)))
    joined: Bounds = concatenate(found)
    return joined


def concatenate(parts: Sequence[Any]) -> Any:
    """Tensors one after another, or tuples, lists and data classes of them, in which None stays
    None.

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
        return kind(
            *(concatenate([getattr(part, field.name) for part in parts]) for field in fields(first))
        )
    return kind(concatenate(group) for group in zip(*parts, strict=True))

r"""Bound propagation through a network: ranges of the nodes from front to back, linear bounds from
each node back to the input.

A linear function $C v + \kappa$ of the values of a node is propagated back: affine maps are
substituted, each activation is replaced by its linear lower bound where the coefficient is positive
and by its linear upper bound where it is negative, and what reaches the input is minimised over the
region. Upper bounds are lower bounds of the negative; both are computed together, as 2k functions.
All bounds are pushed outward by the possible rounding errors: see `rounding`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..clock import check_time
from .activations import ACTIVATIONS, Lines
from .graph import Affine, Elementwise, Graph, Input
from .regions import Box
from .result import Bounds, Range
from .rounding import UNDERFLOW, require_finite, step_error

PerUnit = Sequence[Tensor | None]
"""One entry for each activation, in the order of `graph.activations`."""


@dataclass(eq=False)
class BoundPropagation:
    """Bounds of the nodes of a graph over n regions.

    Attributes
    ----------
    graph : Graph
        The network.
    region : Box
        The regions.
    slopes, splits : sequence of Tensor or None, optional
        Slopes of the lower bounds, and signs of split units, for each activation.
    ranges : list of pairs of Tensor
        Lower and upper bounds of the values of each node, (n, units).
    lines : dict of int to Lines
        Linear bounds of the activations, by the index of the node.
    errors : list of Tensor
        Bounds of the rounding error in the step of each node.
    frugal : bool
        Whether units that cannot switch keep their interval bounds: they are linear already.
    empty : Tensor
        Regions in which no point satisfies the splits, (n,).
    vanished : float or Tensor
        A bound of the sum of all products that underflow.
    """

    graph: Graph
    region: Box
    slopes: PerUnit | None = None
    splits: PerUnit | None = None
    ranges: list[Range] = field(default_factory=list)
    lines: dict[int, Lines] = field(default_factory=dict)
    errors: list[Tensor] = field(default_factory=list)
    frugal: bool = False
    empty: Tensor = field(init=False)
    vanished: float | Tensor = 0.0

    def run(self, known: Sequence[Range] | None = None, tighten: bool = True) -> "BoundPropagation":
        """Compute the ranges of all nodes, each from those before it.

        Parameters
        ----------
        known : sequence of pairs of Tensor, optional
            Ranges of all nodes that hold already.
        tighten : bool
            Whether linear bounds improve the ranges of the inputs of activations.

        Returns
        -------
        BoundPropagation
            This object.
        """
        box = self.region.box()
        self.empty = torch.zeros_like(box.lower[:, 0], dtype=torch.bool)
        sizes = [box.size]
        places = {node: place for place, node in enumerate(self.graph.hidden)}
        for index, node in enumerate(self.graph.nodes):
            if isinstance(node, Elementwise):
                self.lines[index] = ACTIVATIONS[node.kind].linear_bounds(*self.ranges[node.parent])
            self.errors.append(step_error(self.graph, index, sizes))
            ends = (box.lower, box.upper) if isinstance(node, Input) else self._interval(index)
            if known is not None:
                ends = _intersection(ends, known[index])
            if index in places:
                if tighten and index > 0:
                    ends = self._tightened(index, ends, places[index])
                ends = self._clip(*ends, places[index])
            self.ranges.append(ends)
            if index > 0:
                sizes.append(torch.maximum(*(end.abs() for end in ends)))
            require_finite(sizes[index], f"the range of {self.graph.name(index)}")
            underflow = UNDERFLOW * node.units * (1 + sizes[index].sum(-1, keepdim=True))
            self.vanished = self.vanished + underflow
        return self

    def _tightened(self, index: int, ends: Range, place: int) -> Range:
        """The range of a node that enters an activation, improved by a backward pass of its own."""
        units = None
        if self.frugal and ACTIVATIONS[self.graph.kinds[place]].switches:
            free = (ends[0] < 0) & (ends[1] > 0)
            order = free.to(torch.int8).argsort(dim=-1, descending=True, stable=True)
            units = order[:, : int(free.sum(-1).max())]
            if not units.shape[1]:
                return ends
        low, high = self.bounds(index, units).tensor_split(2, 1)
        if units is not None:
            low = torch.full_like(ends[0], -torch.inf).scatter(1, units, low)
            high = torch.full_like(ends[1], -torch.inf).scatter(1, units, high)
        return _intersection(ends, (low, -high))

    def _interval(self, index: int) -> Range:
        """The range of a node from those of its parents, by interval arithmetic."""
        node = self.graph.nodes[index]
        error = self.errors[index]
        low, high = self.ranges[node.parents[0]]
        if isinstance(node, Affine):
            positive = node.weight.clamp(min=0.0).T
            negative = node.weight.clamp(max=0.0).T
            lower = low @ positive + high @ negative + node.bias
            upper = high @ positive + low @ negative + node.bias
        elif isinstance(node, Elementwise):
            activation = ACTIVATIONS[node.kind]
            lower = activation.value(low)
            upper = activation.value(high)
            if not activation.error:
                return lower, upper
        else:
            lower, upper = map(node.total, zip(*self.ranges, strict=True))
        return lower - error, upper + error

    def _clip(self, low: Tensor, high: Tensor, place: int) -> Range:
        """The range on the side of each split."""
        split = None if self.splits is None else self.splits[place]
        if split is None:
            return low, high
        low = torch.where(split > 0, low.clamp(min=0.0), low)
        high = torch.where(split < 0, high.clamp(max=0.0), high)
        crossed = low > high  # no point of the region is on this side
        self.empty = self.empty | crossed.any(-1)
        return torch.where(crossed, 0.0, low), torch.where(crossed, 0.0, high)

    def linear_bounds(
        self,
        index: int,
        slopes: PerUnit | None = None,
        duals: PerUnit | None = None,
        units: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        r"""Compute linear lower bounds of the values of a node and of their negatives.

        Parameters
        ----------
        index : int
            The node.
        slopes, duals : sequence of Tensor or None, optional
            Slopes of the lower bounds, and multipliers of the splits, for each activation:
            (n, units) or (n, 2k, units).
        units : Tensor, optional
            The units (n, k) of the node that are bounded; by default all.

        Returns
        -------
        coef, const : Tensor
            $A$ and $b$ of the linear bounds $A u + b$, (n, 2k, p) and (n, 2k): first those of the
            values.
        """
        count = self.graph.nodes[index].units
        unit = torch.eye(count, dtype=torch.float64, device=self.region.lower.device)
        unit = unit[None] if units is None else unit[units]
        return self.follow_back(index, torch.cat([unit, -unit], 1), slopes, duals)

    def follow_back(
        self,
        index: int,
        form: Tensor,
        slopes: PerUnit | None,
        duals: PerUnit | None,
    ) -> tuple[Tensor, Tensor]:
        """Compute linear lower bounds, in the inputs, of linear functions of the values of a node.

        Parameters
        ----------
        index : int
            The node.
        form : Tensor
            Coefficients of the k functions, (n or 1, k, units).
        slopes, duals : sequence of Tensor or None, optional
            As in `linear_bounds`.

        Returns
        -------
        coef, const : Tensor
            The linear bounds, (n, k, p) and (n, k).
        """
        coefs = {index: form}
        const = form.new_zeros(1, form.shape[1])
        for i in range(index, 0, -1):
            if i not in coefs:
                continue
            check_time()
            node = self.graph.nodes[i]
            coef = coefs.pop(i)
            if isinstance(node, Elementwise):
                coef, const = self._relax(i, coef, const, slopes, duals)
            else:
                const = const - _times(coef.abs(), self.errors[i])
                if isinstance(node, Affine):
                    const = const + coef @ node.bias
                    coef = coef @ node.weight
            for parent in node.parents:
                coefs[parent] = coefs[parent] + coef if parent in coefs else coef
        shape = (len(self.region), const.shape[1], self.graph.n_in)
        coef = coefs.get(0, form.new_zeros(1)).expand(shape)
        return coef, const - _times(coef.abs(), self.errors[0]) - self.vanished

    def _relax(
        self, index: int, coef: Tensor, const: Tensor, slopes: PerUnit | None, duals: PerUnit | None
    ) -> tuple[Tensor, Tensor]:
        """The linear bounds after an activation is replaced by its own linear bounds, with the
        multipliers of its splits.
        """
        line = self.lines[index]
        error = self.errors[index]
        place = self.graph.activations.index(index)
        slope, split, dual = (_entry(parts, place) for parts in (slopes, self.splits, duals))
        positive = coef.clamp(min=0.0)
        negative = coef - positive
        const = const + _times(positive, line.below_shift - error)
        const = const + _times(negative, line.above_shift + error)
        below = line.below[:, None]
        if slope is not None:
            below = torch.where(line.free[:, None], slope, below)
        coef = positive * below + negative * line.above[:, None]
        return (coef if split is None or dual is None else coef - dual * split), const

    def bounds(self, index: int, units: Tensor | None = None) -> Tensor:
        """Return lower bounds of the values of a node and of their negatives.

        Parameters
        ----------
        index : int
            The node.
        units : Tensor, optional
            The units (n, k) of the node that are bounded; by default all.

        Returns
        -------
        Tensor
            The bounds, (n, 2k): first those of the values.
        """
        coef, const = self.linear_bounds(index, self.slopes, units=units)
        return self.region.smallest(coef) + const

    def result(self, slopes: PerUnit | None = None, duals: PerUnit | None = None) -> Bounds:
        """Return the bounds of all nodes, with given slopes and multipliers for the outputs.

        Parameters
        ----------
        slopes, duals : sequence of Tensor or None, optional
            As in `linear_bounds`.

        Returns
        -------
        Bounds
            The bounds.

        Raises
        ------
        UnsupportedNetworkError
            If a linear bound is not finite.
        """
        coef, const = self.linear_bounds(len(self.graph.nodes) - 1, slopes, duals)
        ends = self.region.smallest(coef) + const
        require_finite(ends, "a linear bound of the outputs")
        below, above = ends.tensor_split(2, 1)
        low, high = _intersection(self.ranges[-1], (below, -above))
        empty = self.empty | (low > high).any(-1)
        q = self.graph.n_out
        return Bounds(
            nodes=[*self.ranges[:-1], (low, high)],
            lower_linear=(coef[:, :q], const[:, :q]),
            upper_linear=(-coef[:, q:], -const[:, q:]),
            lower=torch.where(empty[:, None], torch.inf, low),
            upper=torch.where(empty[:, None], -torch.inf, high),
            empty=empty,
        )


def _intersection(one: Range, two: Range) -> Range:
    return torch.maximum(one[0], two[0]), torch.minimum(one[1], two[1])


def _times(coef: Tensor, vector: Tensor) -> Tensor:
    """Linear functions (n or 1, k, units) at vectors (n, units)."""
    if coef.shape[1] == 1:  # many small products are slower
        return (coef * vector[:, None]).sum(-1)
    return (coef @ vector.unsqueeze(-1)).squeeze(-1)


def _entry(parts: PerUnit | None, place: int) -> Tensor | None:
    """The entry of one activation, with an axis for the linear functions."""
    part = None if parts is None else parts[place]
    if part is None or part.dim() != 2:
        return part
    return part[:, None]

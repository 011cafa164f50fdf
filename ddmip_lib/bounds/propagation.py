r"""One sweep through a network: ranges of the nodes from front to back, linear forms from each node
back to the input.

A value $C v + \kappa$ of a node is followed back: affine maps are put in, each activation is
replaced by its line below where the coefficient is positive and by its line above where it is
negative, and what reaches the input is minimised over the region. Upper bounds are lower bounds of
the negative; both sides travel together, as 2k rows. All bounds are pushed outward by what floating
point can have changed: see `rounding`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..clock import check_time
from .activations import ACTIVATIONS, Lines
from .graph import Affine, Elementwise, Graph, Input, Sum
from .regions import Box
from .result import Bounds, Range
from .rounding import TINY, require_finite, step_error

PerUnit = Sequence[
    Tensor | None
]  # one entry for each activation, in the order of `graph.activations`


@dataclass(eq=False)
class BoundPropagation:
    """What is known about the nodes of a graph on some regions: their ranges, their lines and their
    rounding.
    """

    graph: Graph
    region: Box
    slopes: PerUnit | None = None
    splits: PerUnit | None = None
    ranges: list[Range] = field(default_factory=list)
    lines: dict[int, Lines] = field(default_factory=dict)
    errors: list[Tensor] = field(default_factory=list)
    # whether units that cannot switch are left as they are: their lines are exact already
    frugal: bool = False
    empty: Tensor = field(init=False)
    vanished: float | Tensor = 0.0  # what products too small for floating point can add up to

    def __post_init__(self) -> None:
        self.empty = torch.zeros_like(self.region.lower[:, 0], dtype=torch.bool)

    def run(self, known: Sequence[Range] | None = None, tighten: bool = True) -> "BoundPropagation":
        """Find the ranges of all nodes, each from those before it."""
        box = self.region.box()
        sizes = [box.size]
        places = {node: place for place, node in enumerate(self.graph.hidden)}
        for index, node in enumerate(self.graph.nodes):
            if isinstance(node, Elementwise):
                self.lines[index] = ACTIVATIONS[node.kind].lines(*self.ranges[node.parent])
            self.errors.append(step_error(self.graph, index, sizes))
            low, high = (box.lower, box.upper) if isinstance(node, Input) else self._step(index)
            if known is not None:
                low = torch.maximum(low, known[index][0])
                high = torch.minimum(high, known[index][1])
            if tighten and index in places and index > 0:
                low, high = self._tightened(index, low, high, places[index])
            self.ranges.append(
                self._clip(low, high, places[index]) if index in places else (low, high)
            )
            if index > 0:
                sizes.append(torch.maximum(*(end.abs() for end in self.ranges[-1])))
            require_finite(sizes[index], f"the range of {self.graph.name(index)}")
            self.vanished = self.vanished + TINY * node.units * (
                1 + sizes[index].sum(-1, keepdim=True)
            )
        return self

    def _tightened(self, index: int, low: Tensor, high: Tensor, place: int) -> Range:
        """The range of a node that enters an activation, improved by a pass back of its own."""
        units = None
        user = self.graph.nodes[self.graph.activations[place]]
        if self.frugal and isinstance(user, Elementwise) and ACTIVATIONS[user.kind].switches:
            switch = (low < 0) & (high > 0)
            most = int(switch.sum(-1).max())
            units = switch.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[:, :most]
            if not most:
                return low, high
        below, above = self.bounds(index, units).tensor_split(2, 1)
        if units is None:
            return torch.maximum(low, below), torch.minimum(high, -above)
        below = torch.maximum(low.gather(1, units), below)
        above = torch.minimum(high.gather(1, units), -above)
        return low.scatter(1, units, below), high.scatter(1, units, above)

    def _step(self, index: int) -> Range:
        """The range of a node from those of its parents, by interval arithmetic."""
        node = self.graph.nodes[index]
        error = self.errors[index]
        low, high = self.ranges[node.parents[0]]
        if isinstance(node, Affine):
            plus = node.weight.clamp(min=0.0).T
            minus = node.weight.clamp(max=0.0).T
            low, high = low @ plus + high @ minus + node.bias, high @ plus + low @ minus + node.bias
        elif isinstance(node, Sum):
            low, high = (
                torch.stack([self.ranges[p][side] for p in node.parents]).sum(0) for side in (0, 1)
            )
        elif isinstance(node, Elementwise):
            unit = ACTIVATIONS[node.kind]
            low = unit.value(low)
            high = unit.value(high)
            if not unit.error:
                return low, high
        return low - error, high + error

    def _clip(self, low: Tensor, high: Tensor, place: int) -> Range:
        """The range on the side of each split that the row is on."""
        split = None if self.splits is None else self.splits[place]
        if split is None:
            return low, high
        low = torch.where(split > 0, low.clamp(min=0.0), low)
        high = torch.where(split < 0, high.clamp(max=0.0), high)
        crossed = low > high  # no point of the region is on this side
        self.empty = self.empty | crossed.any(-1)
        return torch.where(crossed, 0.0, low), torch.where(crossed, 0.0, high)

    def forms(
        self,
        index: int,
        slopes: PerUnit | None = None,
        duals: PerUnit | None = None,
        units: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        r"""Linear forms $A u + b$ below the values of a node (the first k rows) and below their
        negatives.

        `slopes` and `duals` (multipliers of the splits) are (n, units) or (n, 2k, units) for each
        activation; `units` (n, k) names those of the node that are wanted, by default all.
        """
        unit = torch.eye(
            self.graph.nodes[index].units, dtype=torch.float64, device=self.region.lower.device
        )
        unit = unit[None] if units is None else unit[units]
        return self.follow_back(index, torch.cat([unit, -unit], 1), slopes, duals)

    def follow_back(
        self,
        index: int,
        form: Tensor,
        slopes: PerUnit | None,
        duals: PerUnit | None,
        rounded: bool = True,
    ) -> tuple[Tensor, Tensor]:
        """Linear forms of the input below the forms (n or 1, k, units) of a node; sound only if
        `rounded`.
        """
        coefs = {index: form}
        const = form.new_zeros(1, form.shape[1])
        places = {node: place for place, node in enumerate(self.graph.activations)}
        for i in range(index, 0, -1):
            if i not in coefs:
                continue
            check_time()
            node = self.graph.nodes[i]
            coef = coefs.pop(i)
            if isinstance(node, Elementwise):
                line = self.lines[i]
                error = self.errors[i] if rounded else 0.0
                plus = coef.clamp(min=0.0)
                minus = coef - plus
                const = (
                    const
                    + _times(plus, line.below_shift - error)
                    + _times(minus, line.above_shift + error)
                )
                below = line.below[:, None]
                slope = _entry(slopes, places[i])
                if slope is not None:
                    below = torch.where(line.free[:, None], slope, below)
                coef = plus * below + minus * line.above[:, None]
                split = _entry(self.splits, places[i])
                dual = _entry(duals, places[i])
                if split is not None and dual is not None:
                    coef = coef - dual * split
            else:
                const = const - _times(coef.abs(), self.errors[i]) if rounded else const
                if isinstance(node, Affine):
                    const = const + coef @ node.bias
                    coef = coef @ node.weight
            for parent in node.parents:
                coefs[parent] = coefs[parent] + coef if parent in coefs else coef
        shape = (len(self.region), const.shape[1], self.graph.n_in)
        coef = coefs[0].expand(shape) if 0 in coefs else form.new_zeros(shape)
        return coef, const - _times(
            coef.abs(), self.errors[0]
        ) - self.vanished if rounded else const

    def bounds(self, index: int, units: Tensor | None = None) -> Tensor:
        """Lower bounds (n, 2k) of the values of a node, or of some `units` (n, k) of it, and of
        their negatives.
        """
        coef, const = self.forms(index, self.slopes, units=units)
        return self.region.smallest(coef) + const

    def result(self, slopes: PerUnit | None = None, duals: PerUnit | None = None) -> Bounds:
        """The bounds of the outputs with these slopes in the last pass."""
        q = self.graph.n_out
        coef, const = self.forms(len(self.graph.nodes) - 1, slopes, duals)
        ends = self.region.smallest(coef) + const
        (low, high) = self.ranges[-1]
        require_finite(ends, "a linear form of the outputs")
        low = torch.maximum(low, ends[:, :q])
        high = torch.minimum(high, -ends[:, q:])
        empty = self.empty | (low > high).any(-1)
        return Bounds(
            nodes=[*self.ranges[:-1], (low, high)],
            lower_form=(coef[:, :q], const[:, :q]),
            upper_form=(-coef[:, q:], -const[:, q:]),
            lower=torch.where(empty[:, None], torch.inf, low),
            upper=torch.where(empty[:, None], -torch.inf, high),
            empty=empty,
        )


def _times(coef: Tensor, vector: Tensor) -> Tensor:
    """Forms (n or 1, k, h) at vectors (n, h)."""
    if coef.shape[1] == 1:  # many small products are slower
        return (coef * vector[:, None]).sum(-1)
    return (coef @ vector.unsqueeze(-1)).squeeze(-1)


def _entry(parts: PerUnit | None, place: int) -> Tensor | None:
    """What is given for one activation, with an axis for the forms."""
    part = None if parts is None else parts[place]
    return part[:, None] if part is not None and part.dim() == 2 else part

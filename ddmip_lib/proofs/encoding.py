r"""A whole problem as a `Program`: the user's rows, and every network as an exact model of its
units.

*What is proved* is a bound for **every point that `verify` accepts** and whose outputs are the
network's: each row and bound is let out by what `verify` forgives, and each step of a network by
what float64 may round (`bounds.rounding`). So a verified objective beyond such a bound is a mistake
in this library, never a matter of tolerances.

A unit $z = (a)_+$ with $m \le a \le M$, $m < 0 < M$, becomes $z \ge a$, $z \le a - m(1 - \delta)$,
$z \le M\delta$ with a binary $\delta$; other units are linear. A tanh or sigmoid lies between two
lines, which is a relaxation. A class $y$ of a logit $o$ is tied by $y = 1 \Rightarrow o \ge 0$ and
$y = 0 \Rightarrow o \le 0$, without a margin. Constraints of the user's model that are no rows are
left out: a bound without them is one with them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from ..bounds import Bounds, Graph
from ..bounds.activations import ACTIVATIONS
from ..bounds.graph import Affine, Elementwise, Input, Sum
from ..bounds.rounding import step_error
from ..clock import check_time
from ..model.instance import Instance
from ..model.scaling import Units
from ..model.verification import TOLERANCE
from ..programs.presolve import propagate_bounds
from ..programs.program import Program, Rows

Ends = tuple[np.ndarray, np.ndarray]


def relax_bounds(instance: Instance, units: Units, tolerance: float = TOLERANCE) -> Ends:
    """The bounds of all variables, let out by what `verify` forgives (or, for a search of points,
    by less).
    """
    s = instance.milp
    lower = s.lower - tolerance * units.bound(s.lower)
    upper = s.upper + tolerance * units.bound(s.upper)
    lower = np.where(s.integer, np.ceil(lower), lower)
    upper = np.where(s.integer, np.floor(upper), upper)
    return np.where(units.fixed, s.lower, lower), np.where(units.fixed, s.upper, upper)


def relaxed_program(
    instance: Instance,
    units: Units,
    lower: np.ndarray,
    upper: np.ndarray,
    tolerance: float = TOLERANCE,
) -> Program:
    """The user's rows, let out by what `verify` forgives, in a box; the cost is that of a
    minimisation.
    """
    s = instance.milp
    cost = s.sign * s.cost
    constant = s.sign * s.offset
    room = tolerance * units.row
    rows = Rows.of(s.rows)
    first = Program(
        cost, rows, s.row_lower - room, s.row_upper + room, lower, upper, s.integer, constant
    )
    # what adding up costs, 1e-12 of the terms, is less than what the box is rounded outward by
    ends = propagate_bounds(first, lower, upper, rounds=3) or (lower, upper)
    room = tolerance * units.rows(np.maximum(*map(np.abs, ends)))
    return Program(cost, rows, s.row_lower - room, s.row_upper + room, *ends, s.integer, constant)


class NodeColumns(NamedTuple):
    """Values of a network's node inside a program: `at` is a variable, or -1 for a `number`."""

    at: np.ndarray
    number: np.ndarray


class NetworkEncoder:
    """A `Program` that grows by variables and rows."""

    def __init__(self, start: Program) -> None:
        self.start = start
        self.lower = list(start.lower)
        self.upper = list(start.upper)
        self.integer = list(start.integer)
        self.entries: list[tuple[np.ndarray, np.ndarray]] = []
        self.sides: list[tuple[float, float]] = []

    def variable(self, lower: float, upper: float, integer: bool = False) -> int:
        self.lower.append(lower)
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.lower) - 1

    def row(
        self,
        at: Sequence[int] | np.ndarray,
        weights: Sequence[float] | np.ndarray,
        low: float,
        high: float,
    ) -> None:
        """low <= weights'v <= high; an index of -1 is left out by whoever calls."""
        self.entries.append((np.asarray(at, dtype=int), np.asarray(weights, dtype=float)))
        self.sides.append((low, high))

    def between(self, at: int, lower: float, upper: float) -> None:
        self.lower[at], self.upper[at] = max(self.lower[at], lower), min(self.upper[at], upper)

    def program(self) -> Program:
        start = self.start
        count = len(self.lower)
        counts = [len(at) for at, _ in self.entries]
        at = np.concatenate([[], *(at for at, _ in self.entries)]).astype(int)
        weights = np.concatenate([[], *(weights for _, weights in self.entries)])
        new = sp.csr_matrix(
            (weights, at, np.concatenate([[0], np.cumsum(counts)]).astype(int)),
            (len(counts), count),
        )
        new.sum_duplicates()
        sides = np.array(self.sides).reshape(-1, 2)
        rows = Rows.of(sp.vstack([start.rows.matrix(count), new]).tocsr())
        return Program(
            np.concatenate([start.cost, np.zeros(count - len(start.cost))]),
            rows,
            np.concatenate([start.row_lower, sides[:, 0]]),
            np.concatenate([start.row_upper, sides[:, 1]]),
            np.array(self.lower),
            np.array(self.upper),
            np.array(self.integer, dtype=bool),
            start.constant,
        )

    def tie(
        self,
        at: int,
        value: NodeColumns,
        unit: int,
        gives_class: bool,
        ends: tuple[float, float],
        margin: float = 0.0,
    ) -> None:
        """The user's output `at` is this unit, whose range is `ends`, or its class, which a logit
        of `margin` has.
        """
        low, high = ends
        source = int(value.at[unit])
        number = float(value.number[unit])
        if source < 0:
            low = high = number
        if gives_class:
            self.between(at, float(low > 0), float(high > 0))
            if low <= 0 < high:  # o >= margin y + low (1 - y), o <= high y
                self.row([source, at], [1.0, low - margin], low, np.inf)
                self.row([source, at], [1.0, -high], -np.inf, 0.0)
        elif source < 0:
            self.between(at, number, number)
        else:
            self.between(at, low, high)
            self.row([source, at], [1.0, -1.0], 0.0, 0.0)

    def network(self, graph: Graph, bounds: Bounds, row: int, inputs: NodeColumns) -> NodeColumns:
        """Write one row of a network, with ranges that hold for it, on its inputs; its outputs."""
        check_time()
        ranges = [(low[row].numpy(), high[row].numpy()) for low, high in bounds.nodes]
        sizes = [
            torch.maximum(low[row : row + 1].abs(), high[row : row + 1].abs())
            for low, high in bounds.nodes
        ]
        values: list[NodeColumns] = []
        for index, node in enumerate(graph.nodes):
            if isinstance(node, Input):
                values.append(inputs)
                continue
            low, high = ranges[index]
            error = step_error(graph, index, sizes)[0].numpy()
            if isinstance(node, Elementwise):
                values.append(
                    self._activation(
                        node.kind, values[node.parent], ranges[node.parent], (low, high), error
                    )
                )
                continue
            if isinstance(node, Affine):
                weights = node.weight.numpy()
                shift = node.bias.numpy()
                before = values[node.parent]
            else:
                assert isinstance(node, Sum)
                parts = [values[parent] for parent in node.parents]
                before = NodeColumns(
                    np.concatenate([p.at for p in parts]), np.concatenate([p.number for p in parts])
                )
                weights = np.hstack([np.eye(node.units)] * len(parts))
                shift = np.zeros(node.units)
            values.append(self._affine(weights, shift, before, (low, high), error))
        return values[-1]

    def _affine(
        self,
        weights: np.ndarray,
        shift: np.ndarray,
        before: NodeColumns,
        ends: Ends,
        error: np.ndarray,
    ) -> NodeColumns:
        at = np.empty(len(shift), dtype=int)
        for k, w in enumerate(weights):
            moving = (before.at >= 0) & (w != 0)
            still = (before.at < 0) & (w != 0)
            at[k] = self.variable(ends[0][k], ends[1][k])
            constant = shift[k] + w[still] @ before.number[still]
            self.row(
                [*before.at[moving], at[k]],
                [*w[moving], -1.0],
                -constant - error[k],
                -constant + error[k],
            )
        return NodeColumns(at, np.zeros(len(at)))

    def _activation(
        self,
        kind: str,
        before: NodeColumns,
        ranges: Ends,
        ends: Ends,
        error: np.ndarray,
    ) -> NodeColumns:
        at = before.at.copy()
        number = before.number.copy()
        for k, (a, low, high) in enumerate(zip(before.at, *ranges, strict=True)):
            if kind == "relu":
                if a < 0 or high <= 0:
                    at[k], number[k] = -1, max(number[k], 0.0) if a < 0 else 0.0
                elif low < 0:
                    at[k] = z = self.variable(0.0, high)
                    on = self.variable(0.0, 1.0, integer=True)
                    self.row([z, a], [1.0, -1.0], 0.0, np.inf)
                    self.row([z, a, on], [1.0, -1.0, -low], -np.inf, -low)
                    self.row([z, on], [1.0, -high], -np.inf, 0.0)
                continue
            at[k] = z = self.variable(ends[0][k], ends[1][k])
            if a >= 0:
                line = ACTIVATIONS[kind].lines(
                    *(torch.tensor([end], dtype=torch.float64) for end in (low, high))
                )
                self.row(
                    [z, a],
                    [1.0, -float(line.below[0])],
                    float(line.below_shift[0]) - error[k],
                    np.inf,
                )
                self.row(
                    [z, a],
                    [1.0, -float(line.above[0])],
                    -np.inf,
                    float(line.above_shift[0]) + error[k],
                )
        return NodeColumns(at, number)

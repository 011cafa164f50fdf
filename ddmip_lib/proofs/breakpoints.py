r"""ReLU networks as piecewise linear functions of one input: breakpoints, and their MIP.

Where only one input $x$ of a sample is free, its outputs are piecewise linear in $x$. All
breakpoints $b_0 < \dots < b_k$ are computed, and the function becomes

$$x = b_0 + \sum_j (b_j - b_{j-1}) \delta_j, \quad y = f(b_0) + \sum_j (f(b_j) - f(b_{j-1}))
\delta_j, \quad 1 \ge \delta_1 \ge z_1 \ge \delta_2 \ge \dots \ge z_{k-1} \ge \delta_k \ge 0$$

with binary $z$ (Markowitz and Manne, 1957). Without integrality it is the convex hull of the
graph, so that its bound is that of the Lagrangian dual over all such samples.

Every interval between breakpoints carries an error bound: rounding of the network, and what a unit
differs from its chord where it changes sign close to an end.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from numpy import ndarray

from ..bounds import Graph
from ..bounds.graph import Affine, Elementwise
from ..bounds.rounding import step_error
from ..clock import check_time
from ..numerics import EPSILON, gamma
from .encoding import NetworkEncoder, NodeColumns

MAX_PIECES = 20_000
"""Intervals of all samples of a network together, above which its units are modelled instead."""
MIN_FRACTION = 1e-9
"""Fraction of an interval: breakpoints that are closer to an end count as this end."""

ROUNDED_UP = 1 + 1e-9
"""Factor that covers the rounding of sums of error bounds."""


class Curve(NamedTuple):
    """The outputs of one sample as functions of one variable.

    Attributes
    ----------
    ends
        The breakpoints with both ends of the range, (k + 1,).
    values
        The outputs there, (k + 1, units).
    error
        Largest difference between the network and the linear interpolation, (units,).
    """

    ends: ndarray
    values: ndarray
    error: ndarray

    @property
    def range(self) -> tuple[ndarray, ndarray]:
        """Lower and upper bounds of the outputs."""
        return self.values.min(axis=0) - self.error, self.values.max(axis=0) + self.error

    def encode(self, encoder: NetworkEncoder, variable: int) -> NodeColumns:
        """Add the outputs to a program, as functions of one of its variables."""
        parts = self._encode_parts(encoder)
        widths = np.diff(self.ends)
        first = float(self.ends[0])
        shift = self._rounding * float(np.abs(self.ends).max())
        encoder.add_constraint([variable, *parts], [1.0, *-widths], first - shift, first + shift)
        rises = np.diff(self.values, axis=0)
        room = self._room(rises, widths, shift)
        at = np.array([encoder.variable(*ends) for ends in zip(*self.range, strict=True)], int)
        for y, start, rise, gap in zip(at, self.values[0], rises.T, room, strict=True):
            encoder.add_constraint([y, *parts], [1.0, *-rise], start - gap, start + gap)
        return NodeColumns(at, np.zeros(len(at)))

    def _encode_parts(self, encoder: NetworkEncoder) -> list[int]:
        """Add the parts of the intervals; each is 1 before the next one begins."""
        parts = [encoder.variable(0.0, 1.0) for _ in self.ends[1:]]
        for before, after in pairwise(parts):
            full = encoder.variable(0.0, 1.0, integer=True)
            encoder.add_constraint([before, full], [1.0, -1.0], 0.0, np.inf)
            encoder.add_constraint([full, after], [1.0, -1.0], 0.0, np.inf)
        return parts

    @property
    def _rounding(self) -> float:
        """Relative error of the sums over all intervals."""
        return gamma(4 * (len(self.ends) - 1) + 8)

    def _room(self, rises: ndarray, widths: ndarray, shift: float) -> ndarray:
        """Error of each output: of the curve, of the variable, and of the sums."""
        steepest = (np.abs(rises) / widths[:, None]).max(axis=0)
        size = np.abs(self.values).max(axis=0) + np.abs(rises).sum(axis=0)
        return self.error + shift * steepest + self._rounding * size


class _Node(NamedTuple):
    """Values of a node at both ends of all intervals, and bounds of its error between them."""

    left: ndarray
    right: ndarray
    error: ndarray

    @property
    def size(self) -> ndarray:
        return np.maximum(np.abs(self.left), np.abs(self.right)) + self.error

    @property
    def crossing(self) -> ndarray:
        """Where a unit changes its sign, as a fraction of the interval; 0 where it does not."""
        changes = self.left * self.right < 0
        difference = np.where(changes, self.left - self.right, 1.0)
        return np.where(changes, self.left / difference, 0.0)

    def split(self, parent: ndarray, start: ndarray, end: ndarray, precision: ndarray) -> "_Node":
        """Values in parts of the intervals, each from `start` to `end` of its `parent`."""
        left = self.left[parent]
        right = self.right[parent]
        rise = right - left
        first = np.where(start > 0, left + start * rise, left)
        last = np.where(end < 1, left + end * rise, right)
        error = self.error[parent]
        error = error + ((start > 0) | (end < 1)) * precision[parent] * self.size[parent]
        return _Node(first, last, error)


def curves(graph: Graph, low: ndarray, high: ndarray) -> list[Curve] | None:
    """Compute the outputs on segments of the input space.

    Parameters
    ----------
    graph
        A network whose only activations are ReLUs.
    low, high
        Ends of the segments, (n, inputs): all inputs that differ are one variable.

    Returns
    -------
    list of Curve or None
        One for each segment, as functions of that variable; None if there are too many pieces.

    Examples
    --------
    >>> from torch import nn
    >>> from ..bounds.reader import network_graph
    >>> net = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1)).double()
    >>> for weights, values in zip(net.parameters(), ([1, -1], [0, 1], [1, 2], [0]), strict=True):
    ...     weights.data[:] = torch.tensor(values).view(weights.shape)
    >>> graph = network_graph(net, 1)
    >>> curve = curves(graph, np.array([[-1.0]]), np.array([[2.0]]))[0]
    >>> curve.ends, curve.values.ravel()
    (array([-1.,  0.,  1.,  2.]), array([4., 2., 1., 2.]))
    """
    segments = _Segments(graph, low, high)
    for index in range(1, len(graph.nodes)):
        check_time()
        if not segments.add(index):
            return None
    return [segments.curve(number) for number in range(len(low))]


class _Segments:
    """The intervals on which all nodes so far are linear, up to their errors."""

    def __init__(self, graph: Graph, low: ndarray, high: ndarray) -> None:
        self.graph = graph
        self.variable = (low < high).argmax(axis=1)
        self.sample = np.arange(len(low))
        self.nodes = [_Node(low, high, np.zeros_like(low))]

    def add(self, index: int) -> bool:
        """Evaluate the next node; return whether the number of pieces is acceptable."""
        node = self.graph.nodes[index]
        if isinstance(node, Elementwise) and not self._divide(node.parent):
            return False
        before = self.nodes[node.parent]
        if isinstance(node, Affine):
            weight = node.weight.numpy()
            bias = node.bias.numpy()
            error = before.error @ np.abs(weight).T
            values = _Node(before.left @ weight.T + bias, before.right @ weight.T + bias, error)
        elif isinstance(node, Elementwise):
            left = np.maximum(before.left, 0.0)
            right = np.maximum(before.right, 0.0)
            below = np.maximum(left - before.left, right - before.right)
            values = _Node(left, right, before.error + np.minimum(np.maximum(left, right), below))
        else:
            parents = zip(*(self.nodes[parent] for parent in node.parents), strict=True)
            values = _Node(*(np.sum(parts, axis=0) for parts in parents))
        sizes = [torch.from_numpy(known.size) for known in self.nodes]
        rounding = 2 * step_error(self.graph, index, sizes).numpy()  # of the network, and here
        self.nodes.append(values._replace(error=ROUNDED_UP * values.error + rounding))
        return True

    def _divide(self, index: int) -> bool:
        """Divide all intervals where a unit of this node changes its sign."""
        crossing = self.nodes[index].crossing
        inside = (crossing > MIN_FRACTION) & (crossing < 1 - MIN_FRACTION)
        if len(crossing) + inside.sum() > MAX_PIECES:
            return False
        parent, start, end = _parts(inside, crossing)
        precision = self._precision()[:, None]
        first, *others = (
            node.split(parent, start[:, None], end[:, None], precision) for node in self.nodes
        )
        exact = np.zeros_like(first.error)  # the breakpoints of the inputs are these numbers
        self.nodes = [first._replace(error=exact), *others]
        self.sample = self.sample[parent]
        return True

    def _precision(self) -> ndarray:
        """Relative error of a point of each interval, as a fraction of the interval."""
        x = self._variable()
        width = np.maximum(x.right - x.left, np.finfo(float).tiny)
        precision: ndarray = 16 * EPSILON * (1 + (np.abs(x.left) + np.abs(x.right)) / width)
        return precision

    def _variable(self) -> _Node:
        """The variable of each interval."""
        at = np.arange(len(self.sample)), self.variable[self.sample]
        return _Node(*(part[at] for part in self.nodes[0]))

    def curve(self, number: int) -> Curve:
        """Return the outputs of one segment."""
        x = self._variable()
        mine = np.flatnonzero((self.sample == number) & (x.left < x.right))
        ends = np.append(x.left[mine], x.right[mine[-1]])
        left, right, error = (part[mine] for part in self.nodes[-1])
        values = np.vstack([left, right[-1:]])
        jump = np.abs(right[:-1] - left[1:]).max(axis=0, initial=0.0)
        return Curve(ends, values, error.max(axis=0) + jump)


def _parts(inside: ndarray, crossing: ndarray) -> tuple[ndarray, ndarray, ndarray]:
    """Return the parts of all intervals: number, start and end, by where units cross 0 inside."""
    count = len(inside)
    parent = np.concatenate([np.arange(count), np.nonzero(inside)[0]])
    start = np.concatenate([np.zeros(count), crossing[inside]])
    order = np.lexsort([start, parent])
    parent = parent[order]
    start = start[order]
    kept = (start == 0) | (np.diff(start, prepend=0.0) > MIN_FRACTION)
    start = start[kept]
    following = np.append(start[1:], 0.0)  # 0 in the next interval
    return parent[kept], start, np.where(following > 0, following, 1.0)

r"""A problem as a `Program`: its linear constraints, and exact models of its networks.

*What is proved* is a bound for **every point that `verify` accepts** and whose outputs are the
network's: each constraint and bound is relaxed by the feasibility tolerance, and each node of a
network by its rounding error in float64 (`bounds.rounding`). So a verified objective beyond such a
bound is a mistake in this library, never a matter of tolerances.

An activation has the constraints of its entry in `bounds.activations`: a ReLU that can switch takes
a binary, other ReLUs are linear. One without, such as tanh, lies between two linear bounds, which
is a relaxation. A class $y$ of a logit $o$ is tied by $y = 1 \Rightarrow o \ge 0$ and
$y = 0 \Rightarrow o \le 0$, without a margin. Constraints of the user's model that are not linear
are left out: a bound without them is one with them.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy import ndarray

from ..bounds import Bounds, Graph
from ..bounds.activations import ACTIVATIONS
from ..bounds.graph import Affine, Elementwise, Input, Node
from ..bounds.rounding import step_error
from ..clock import check_time
from ..model.instance import Instance
from ..model.scaling import Units
from ..model.verification import TOLERANCE
from ..numerics import finite_size
from ..programs.presolve import propagate_bounds
from ..programs.program import Entries, Program, stacked_rows

Ends = tuple[ndarray, ndarray]


def relax_bounds(instance: Instance, units: Units, tolerance: float = TOLERANCE) -> Ends:
    """Return the bounds of all variables, relaxed by the tolerance.

    Parameters
    ----------
    instance
        The problem.
    units
        Its units.
    tolerance
        The tolerance of `verify`, or less for a search of points.
    """
    milp = instance.milp
    lower = milp.lower - tolerance * units.lower
    upper = milp.upper + tolerance * units.upper
    lower = np.where(milp.integer, np.ceil(lower), lower)
    upper = np.where(milp.integer, np.floor(upper), upper)
    lower = np.where(units.fixed, milp.lower, lower)
    upper = np.where(units.fixed, milp.upper, upper)
    return lower, upper


def tighten_at(box: Ends | ndarray, index: Any, lower: ndarray, upper: ndarray) -> None:
    """Intersect the bounds of some variables, in place, with others."""
    box[0][index] = np.maximum(box[0][index], lower)
    box[1][index] = np.minimum(box[1][index], upper)


def relaxed_program(
    instance: Instance,
    units: Units,
    lower: ndarray,
    upper: ndarray,
    tolerance: float = TOLERANCE,
) -> Program:
    """Return the linear constraints of a problem, relaxed by the tolerance, in a box.

    Parameters
    ----------
    instance
        The problem.
    units
        Its units.
    lower, upper
        The box.
    tolerance
        The tolerance of `verify`, or less for a search of points.

    Returns
    -------
    Program
        A minimisation.
    """
    milp = instance.milp
    room = tolerance * units.row
    program = replace(
        milp.program,
        row_lower=milp.row_lower - room,
        row_upper=milp.row_upper + room,
        lower=lower,
        upper=upper,
    )
    # the rounding error of a sum, 1e-12 of its terms, is less than the outward rounding of the box
    program = propagate_bounds(program, rounds=3) or program
    room = tolerance * units.rows(np.maximum(np.abs(program.lower), np.abs(program.upper)))
    return replace(program, row_lower=milp.row_lower - room, row_upper=milp.row_upper + room)


class NodeColumns(NamedTuple):
    """The units of a network's node inside a program.

    Attributes
    ----------
    at
        Index of a variable, or -1 for a number.
    number
        The numbers.
    """

    at: ndarray
    number: ndarray


class NetworkEncoder:
    """A program that is extended by variables and constraints.

    Parameters
    ----------
    start
        The program; its variables come first.
    """

    def __init__(self, start: Program) -> None:
        self.start = start
        self.lower = list(start.lower)
        self.upper = list(start.upper)
        self.integer = list(start.integer)
        self.entries: list[tuple[Entries, Entries]] = []
        self.sides: list[tuple[float, float]] = []

    def variable(self, lower: float, upper: float, integer: bool = False) -> int:
        """Add a variable and return its index."""
        self.lower.append(lower)
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.lower) - 1

    def add_constraint(self, at: Entries, weights: Entries, low: float, high: float) -> None:
        """Add the constraint low <= weights'v <= high on the variables `at`, without any -1."""
        self.entries.append((at, weights))
        self.sides.append((low, high))

    def tighten(self, at: int, lower: float, upper: float) -> None:
        """Intersect the bounds of a variable with others."""
        self.lower[at] = max(self.lower[at], lower)
        self.upper[at] = min(self.upper[at], upper)

    def program(self) -> Program:
        """Return the extended program."""
        columns = len(self.lower)
        extended = replace(
            self.start,
            cost=np.append(self.start.cost, np.zeros(columns - len(self.start.cost))),
            lower=np.array(self.lower),
            upper=np.array(self.upper),
            integer=np.array(self.integer, dtype=bool),
        )
        sides = np.array(self.sides).reshape(-1, 2).T
        return extended.with_constraints(stacked_rows(self.entries, columns), *sides)

    def tie_output(
        self,
        at: int,
        value: NodeColumns,
        unit: int,
        gives_class: bool,
        ends: tuple[float, float],
        margin: float = 0.0,
    ) -> None:
        """Tie an output of the user's model to a unit of the network's last node.

        Parameters
        ----------
        at
            Index of the output.
        value, unit
            The last node, and the unit.
        gives_class
            Whether the output is the class of a logit.
        ends
            The unit's range.
        margin
            Least logit of class 1.
        """
        low, high = ends
        source = int(value.at[unit])
        if source < 0:
            low = high = float(value.number[unit])
        if gives_class:
            self.tighten(at, float(low > 0), float(high > 0))
            if low <= 0 < high:  # o >= margin y + low (1 - y), o <= high y
                self.add_constraint([source, at], [1.0, low - margin], low, np.inf)
                self.add_constraint([source, at], [1.0, -high], -np.inf, 0.0)
        else:
            self.tighten(at, low, high)
            if source >= 0:
                self.add_constraint([source, at], [1.0, -1.0], 0.0, 0.0)

    def add_network(
        self, graph: Graph, bounds: Bounds, row: int, inputs: NodeColumns
    ) -> NodeColumns:
        """Add the exact model of one sample of a network.

        Parameters
        ----------
        graph
            The network.
        bounds
            Bounds of its nodes.
        row
            Position of the sample in these bounds.
        inputs
            The sample's inputs.

        Returns
        -------
        NodeColumns
            The network's last node.
        """
        check_time()
        ranges = [(low[row].numpy(), high[row].numpy()) for low, high in bounds.nodes]
        sizes = [torch.from_numpy(finite_size(*ends))[None] for ends in ranges]
        values: list[NodeColumns] = []
        for index, node in enumerate(graph.nodes):
            if isinstance(node, Input):
                values.append(inputs)
                continue
            error = step_error(graph, index, sizes)[0].numpy()
            if isinstance(node, Elementwise):
                columns = self._activation(
                    node.kind, values[node.parent], ranges[node.parent], ranges[index], error
                )
            else:
                columns = self._affine(*_affine_map(node, values), ranges[index], error)
            values.append(columns)
        return values[-1]

    def _affine(
        self,
        weights: ndarray,
        bias: ndarray,
        before: NodeColumns,
        ends: Ends,
        error: ndarray,
    ) -> NodeColumns:
        """Add an affine node; return its units."""
        at = np.empty(len(bias), dtype=int)
        for k, w in enumerate(weights):
            moving = (before.at >= 0) & (w != 0)
            fixed = (before.at < 0) & (w != 0)
            at[k] = self.variable(ends[0][k], ends[1][k])
            constant = bias[k] + w[fixed] @ before.number[fixed]
            self.add_constraint(
                [*before.at[moving], at[k]],
                [*w[moving], -1.0],
                -constant - error[k],
                -constant + error[k],
            )
        return NodeColumns(at, np.zeros(len(at)))

    def _activation(
        self, kind: str, before: NodeColumns, ranges: Ends, ends: Ends, error: ndarray
    ) -> NodeColumns:
        """Add an activation of units with these ranges, whose values lie in `ends`."""
        at = before.at.copy()
        number = before.number.copy()
        activation = ACTIVATIONS[kind]
        if activation.constraints is not None:
            for k, unit in enumerate(zip(before.at, number, *ranges, strict=True)):
                at[k], number[k] = activation.constraints(self, *unit)
            return NodeColumns(at, number)
        lines = [part.numpy() for part in activation.linear_bounds(*map(torch.from_numpy, ranges))]
        for k, a in enumerate(before.at):
            at[k] = self.variable(ends[0][k], ends[1][k])
            if a >= 0:
                below, below_shift, above, above_shift, _ = (part[k] for part in lines)
                self.add_constraint([at[k], a], [1.0, -below], below_shift - error[k], np.inf)
                self.add_constraint([at[k], a], [1.0, -above], -np.inf, above_shift + error[k])
        return NodeColumns(at, number)


def _affine_map(node: Node, values: list[NodeColumns]) -> tuple[ndarray, ndarray, NodeColumns]:
    """Return the weights and the bias of a node, and the units that they apply to."""
    parents = zip(*(values[parent] for parent in node.parents), strict=True)
    before = NodeColumns(*map(np.concatenate, parents))
    if isinstance(node, Affine):
        return node.weight.numpy(), node.bias.numpy(), before
    return np.hstack([np.eye(node.units)] * len(node.parents)), np.zeros(node.units), before

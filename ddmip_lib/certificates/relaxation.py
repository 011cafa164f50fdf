r"""A neural MIP with linear forms in place of its networks: what its multipliers are worth, and the
relaxation.

*Numerical safety.* Forms and ranges hold for the network in float64 (see `ddmip_lib.bounds`), rows
and bounds are let out by what `verify` forgives, and the bound of a linear program is computed from
its multipliers (`ddmip_lib.proofs`): what HiGHS says of it is not used.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from ..bounds import Bounds, Box, Graph, network_graph
from ..clock import check_time
from ..model.instance import Instance
from ..model.problem import NeuralMIP
from ..model.scaling import Units
from ..numerics import gamma
from ..programs.lp import LPSolver
from ..programs.presolve import propagate_bounds, strengthen_coefficients
from ..programs.program import Program
from ..proofs.encoding import NetworkEncoder, relaxed_program

Place = tuple[int, int]  # a predictor and one of its rows


class LinearBounds(NamedTuple):
    """Linear forms below and above the outputs of one network row: slopes (q, p) and constants
    (q,).
    """

    below: np.ndarray
    below_constant: np.ndarray
    above: np.ndarray
    above_constant: np.ndarray


class OutputBounds(NamedTuple):
    """What is known about the outputs of one network row on a box."""

    low: np.ndarray
    high: np.ndarray
    forms: tuple[LinearBounds, ...]


class RelaxationResult(NamedTuple):
    """What is proved of a relaxation: a bound (inf: there is no point, -inf: nothing), and the
    point proposed.
    """

    bound: float
    values: np.ndarray | None


class LinearRelaxation:
    """The user's rows with linear forms in place of the networks, in one box after the other.

    `lower` and `upper` are the whole box, which holds the outputs too.
    """

    def __init__(
        self, instance: Instance, units: Units, lower: np.ndarray, upper: np.ndarray
    ) -> None:
        self.instance = instance
        self.proposer = LPSolver()
        self.base = relaxed_program(instance, units, lower, upper)

    def program(
        self, rows: dict[Place, OutputBounds], lower: np.ndarray, upper: np.ndarray
    ) -> Program | None:
        """The program of some box, or None where the ranges of the networks leave no point
        in it.
        """
        low = np.maximum(lower, self.base.lower)
        high = np.minimum(upper, self.base.upper)
        tighten_outputs(self.instance, rows, low, high)
        if (low > high).any():
            return None
        building = NetworkEncoder(self.base.within(low, high))
        for place, row in rows.items():
            check_time()
            for form in row.forms:
                self._add(building, place, form, lower, upper)
        return building.program()

    def solve(
        self,
        rows: dict[Place, OutputBounds],
        lower: np.ndarray,
        upper: np.ndarray,
        seconds: float = np.inf,
    ) -> RelaxationResult:
        """The bound of the linear program in a box."""
        program = self.program(rows, lower, upper)
        box = (
            None
            if program is None
            else propagate_bounds(program, program.lower, program.upper, rounds=3)
        )
        if program is None or box is None:
            return RelaxationResult(np.inf, None)
        tight = strengthen_coefficients(program, *box).within(*box)
        proposal = self.proposer.ask(tight, seconds)
        if proposal.empty:
            return RelaxationResult(
                np.inf if tight.proves_empty(proposal.multipliers, *box) else -np.inf, None
            )
        point = None if proposal.point is None else proposal.point[: self.instance.milp.n_variables]
        return RelaxationResult(tight.value(proposal.multipliers, *box), point)

    def _add(
        self,
        building: NetworkEncoder,
        place: Place,
        form: LinearBounds,
        lower: np.ndarray,
        upper: np.ndarray,
    ) -> None:
        """The forms of one network row as rows on its outputs."""
        where = self.instance.maps[place[0]]
        gives_class = self.instance.predictors[place[0]].gives_class
        index = where.index[place[1]]
        constants = where.constant[place[1]]
        free = index >= 0
        low, high = (np.where(free, end[index], constants) for end in (lower, upper))
        size = np.maximum(np.abs(low), np.abs(high))
        for k, at in enumerate(where.output[place[1]]):
            sides = (
                (form.below[k], form.below_constant[k], 1.0),
                (form.above[k], form.above_constant[k], -1.0),
            )
            for a, b, side in sides:
                room = gamma(2 * len(a) + 16) * (
                    np.abs(a) @ size + abs(b)
                )  # what adding up may cost here
                constant = side * (b + a[~free] @ constants[~free]) - room
                terms = -side * a[free]
                if not gives_class:  # side (y - a'x) >= side b
                    building.row([*index[free], at], [*terms, side], constant, np.inf)
                    continue
                # farthest that the form is on the wrong side of 0 on the box: it may be so only if
                # y allows it
                wrong = max(
                    0.0, side * b + np.maximum(side * a * low, side * a * high).sum() + room
                )
                if wrong > 0:  # side (a'x + b) <= wrong y, or wrong (1 - y)
                    building.row(
                        [*index[free], at],
                        [*terms, side * wrong],
                        constant - (side < 0) * wrong,
                        np.inf,
                    )


def tighten_outputs(
    instance: Instance, rows: dict[Place, OutputBounds], lower: np.ndarray, upper: np.ndarray
) -> None:
    """Move the ends of outputs, in place, to what their networks' ranges allow."""
    for (t, r), row in rows.items():
        at = instance.maps[t].output[r]
        gives_class = instance.predictors[t].gives_class
        lower[at] = np.maximum(lower[at], row.low > 0 if gives_class else row.low)
        upper[at] = np.minimum(upper[at], row.high > 0 if gives_class else row.high)


def read_problem(problem: NeuralMIP) -> tuple[Instance, list[Graph]]:
    """A problem as arrays and its networks as graphs; layers that have no bounds are refused by
    name.
    """
    if not isinstance(problem, NeuralMIP):
        raise TypeError(
            f"a bound needs a NeuralMIP, not {type(problem).__name__}: wrap the model in"
            " NeuralMIP(model)."
        )
    graphs = [network_graph(p.net, p.inputs.shape[1]) for p in problem.predictors]
    return problem.instance(), graphs


def rows_of(found: Bounds) -> list[OutputBounds]:
    """Bounds of one network, row by row."""
    parts = (found.lower, found.upper, *found.lower_form, *found.upper_form)
    return [
        OutputBounds(low, high, (LinearBounds(*form),))
        for low, high, *form in zip(*(x.numpy() for x in parts), strict=True)
    ]


def entire_box(
    instance: Instance,
    graphs: list[Graph],
    bounds: Callable[..., Bounds],
    lower: np.ndarray,
    upper: np.ndarray,
) -> dict[Place, OutputBounds]:
    """Every network row on the box of its inputs."""
    rows: dict[Place, OutputBounds] = {}
    for t, (graph, m) in enumerate(zip(graphs, instance.maps, strict=True)):
        found = bounds(graph, Box(*(torch.tensor(m.at(end)) for end in (lower, upper))))
        rows |= {(t, r): row for r, row in enumerate(rows_of(found))}
    return rows


def form_below(
    instance: Instance,
    rows: dict[Place, OutputBounds],
    weight: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
) -> tuple[np.ndarray, float, float]:
    r"""$A^\top v + b$ below the weighted sum of all outputs, in all variables, on a box; those that
    are fixed count in b. Last comes the size of all numbers that were added up to b.
    """
    slope = np.zeros(instance.milp.n_variables)
    constant = 0.0
    size = 0.0
    start = 0
    for (t, r), row in rows.items():
        m = instance.maps[t]
        form = row.forms[0]
        index = m.index[r]
        q = len(row.low)
        ends = [np.where(index >= 0, end[index], m.constant[r]) for end in (lower, upper)]
        for k, w in enumerate(weight[start : start + q]):
            a, b = (
                (form.below[k], form.below_constant[k])
                if w > 0
                else (form.above[k], form.above_constant[k])
            )
            if instance.predictors[t].gives_class:
                a, b = _class_form(a, b, ends, above=w <= 0)
            fixed = (index < 0) | (ends[0] == ends[1])
            np.add.at(slope, index[~fixed], w * a[~fixed])
            constant += w * (b + a[fixed] @ ends[0][fixed])
            size += abs(w) * (abs(b) + np.abs(a) @ np.maximum(np.abs(ends[0]), np.abs(ends[1])))
        start += q
    return slope, float(constant), float(size)


def _class_form(
    a: np.ndarray, b: float, ends: list[np.ndarray], above: bool
) -> tuple[np.ndarray, float]:
    r"""A line above (below) $1[f > 0]$ from one above (below) f: on the range $[l, h]$ of the form
    $v$ on the box, $1[v > 0] \le 1 - v/l$ and $1[v > 0] \ge v/h$, or the constants 1 and 0,
    whichever encloses the smaller area.
    """
    low, high = (float(b + end(a * ends[0], a * ends[1]).sum()) for end in (np.minimum, np.maximum))
    room = gamma(2 * len(a) + 16) * float(
        abs(b) + np.maximum(np.abs(a * ends[0]), np.abs(a * ends[1])).sum()
    )
    low = low - room
    high = high + room
    if high <= 0 or low > 0:
        return 0 * a, float(low > 0)
    if above:
        return (-a / low, 1 - b / low) if -low > high else (0 * a, 1.0)
    return (a / high, b / high) if high > -low else (0 * a, 0.0)


def output_cost(instance: Instance) -> np.ndarray:
    """Cost of every output, as a minimisation."""
    s = instance.milp
    return s.sign * s.cost[instance.outputs]


def best_multipliers(
    instance: Instance, rows: dict[Place, OutputBounds], lower: np.ndarray, upper: np.ndarray
) -> np.ndarray:
    r"""$-A$ for the first form of every network row."""
    return -form_below(instance, rows, output_cost(instance), lower, upper)[0][instance.free_inputs]

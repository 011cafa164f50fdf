r"""A neural MIP with linear forms in place of its networks: what its multipliers are worth, and the relaxation.

*Numerical safety.* Forms and ranges hold for the network in float64 (see `ddmip_lib.bounds`). A form is moved outward
by a further $10^{-9}$ of the sizes that it adds up, so that SCIP's rounding cannot cut off a true point, and a range,
which the forms imply, by $10^{-6}$. Of SCIP's answer only the dual bound counts, a sum in which each reduced cost may
have the wrong sign by $10^{-9}$: it is lowered by $10^{-7}$ of the largest of 1, itself and the sum of the absolute
terms of the objective. SCIP's tolerance on rows is $10^{-7}$, which only lowers the bound; with $10^{-9}$ its dual
presolving took rows this close to each other for equal and cut off optima, so dual reductions are off as well.
Infeasible is what is so with the tolerance of `NeuralMIP.verify`, too.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from pyscipopt import quicksum

from ..bounds import Bounds, Box, Graph, network_graph
from ..model.instance import Instance
from ..model.problem import NeuralMIP
from ..model.scip import copy_model, matrix_of, set_time_limit, solution_values
from ..model.verification import TOLERANCE

FEASTOL, SLACK, ROOM = 1e-7, 1e-7, 1e-9
"""SCIP's tolerance on rows; what its bounds are lowered by; what forms are moved outward by."""

Place = tuple[int, int]  # a predictor and one of its rows


class Form(NamedTuple):
    """Linear forms below and above the outputs of one network row: slopes (q, p) and constants (q,)."""

    below: np.ndarray
    below_constant: np.ndarray
    above: np.ndarray
    above_constant: np.ndarray


class Row(NamedTuple):
    """What is known about the outputs of one network row on a box."""

    low: np.ndarray
    high: np.ndarray
    forms: tuple[Form, ...]


class Solved(NamedTuple):
    """SCIP's answer for a relaxation: a bound (inf: infeasible, -inf: none), and its best point."""

    bound: float
    values: np.ndarray | None
    status: str


class Relaxation:
    """A copy of the user's model, which takes linear forms in place of the networks, on one box after the other."""

    def __init__(self, instance: Instance, seed: int = 0) -> None:
        self.instance = instance
        self.model = copy_model(instance.model, seed)
        for kind in ("strong", "weak"):  # on rows this close to each other, dual presolving has cut off optima
            self.model.setParam(f"misc/allow{kind}dualreds", False)
        self.variables = self.model.getVars()
        self.all = matrix_of(self.variables)
        self.moving = np.unique([at for m in instance.maps for at in (*m.index[m.index >= 0], *m.output.flat)])
        self.added: list[Any] = []
        self.reset(instance.milp.lower, instance.milp.upper)

    def reset(self, lower: np.ndarray, upper: np.ndarray) -> None:
        """Forget all forms; the box of network inputs and outputs is this one."""
        self.model.freeTransform()
        for row in self.added:
            self.model.delCons(row)
        self.added, self.empty, self.lower, self.upper = [], False, lower, upper
        for at in self.moving:
            self._between(at, lower[at], upper[at])

    def _between(self, at: int, lower: float, upper: float) -> None:
        self.model.chgVarLb(self.variables[at], lower if np.isfinite(lower) else None)
        self.model.chgVarUb(self.variables[at], upper if np.isfinite(upper) else None)

    def limit(self, place: Place, row: Row) -> None:
        """Keep the outputs of one network row in their range, pushed outward; `empty` where the user's forbids it."""
        predictor, s = self.instance.predictors[place[0]], self.instance.milp
        for at, low, high in zip(self.instance.maps[place[0]].output[place[1]], row.low, row.high, strict=True):
            if predictor.gives_class:
                low, high = float(low > 0), float(high > 0)
            else:
                low, high = low - TOLERANCE * (1 + abs(low)), high + TOLERANCE * (1 + abs(high))
            low, high = max(low, s.lower[at]), min(high, s.upper[at])
            if low <= high:
                self._between(at, low, high)
            elif low - high > TOLERANCE * max(1.0, abs(low), abs(high)):
                self.empty = True

    def add(self, place: Place, form: Form) -> None:
        """The forms of one network row as rows on its outputs."""
        where, gives_class = self.instance.maps[place[0]], self.instance.predictors[place[0]].gives_class
        index, constants = where.index[place[1]], where.constant[place[1]]
        free = index >= 0
        low, high = (np.where(free, end[index], constants) for end in (self.lower, self.upper))
        size = np.maximum(np.abs(low), np.abs(high))
        for k, at in enumerate(where.output[place[1]]):
            y = self.variables[at]
            sides = (form.below[k], form.below_constant[k], 1.0), (form.above[k], form.above_constant[k], -1.0)
            for a, b, side in sides:
                room = ROOM * (1 + np.abs(a) @ size + abs(b))
                constant = b + a[~free] @ constants[~free] - side * room
                terms = quicksum(float(c) * self.variables[i] for c, i in zip(a[free], index[free], strict=True) if c)
                if not gives_class:
                    self.added.append(self.model.addCons(side * (y - terms) >= side * constant))
                    continue
                # farthest that the form is on the wrong side of 0 on the box: it may be so only if y allows it
                wrong = max(0.0, side * b + np.maximum(side * a * low, side * a * high).sum() + room)
                if wrong > 0:
                    allowed = wrong * y if side > 0 else wrong * (1 - y)
                    self.added.append(self.model.addCons(side * (terms + constant) <= allowed))

    def solve(self, cost: np.ndarray, seconds: float) -> Solved:
        """Minimise `cost`, with the user's constant; what SCIP calls infeasible must be so with our tolerance, too."""
        if self.empty:
            return Solved(np.inf, None, "infeasible")
        s, model = self.instance.milp, self.model
        model.setObjective(quicksum(float(cost[i]) * self.variables[i] for i in np.flatnonzero(cost)), "minimize")
        began = time.perf_counter()
        for feastol in (FEASTOL, TOLERANCE):
            model.freeTransform()
            model.setParam("numerics/feastol", feastol)
            model.setParam("numerics/dualfeastol", ROOM)
            set_time_limit(model, seconds - (time.perf_counter() - began))
            model.optimize()
            if model.getStatus() != "infeasible":
                break
        status = model.getStatus()
        if status == "infeasible":
            return Solved(np.inf, None, status)
        bound = model.getDualbound() if status not in ("unbounded", "inforunbd") else -np.inf
        if not abs(bound) < 1e20:
            return Solved(-np.inf, None, status)
        values = solution_values(model, self.all) if model.getNSols() else None
        terms = 0.0 if values is None else float(np.abs(cost * values).sum())
        bound += s.sign * s.offset - model.getObjoffset()
        return Solved(bound - SLACK * max(1.0, abs(bound), terms), values, status)


def read_problem(problem: NeuralMIP) -> tuple[Instance, list[Graph]]:
    """A problem as arrays and its networks as graphs; layers that have no bounds are refused by name."""
    if not isinstance(problem, NeuralMIP):
        raise TypeError(f"a bound needs a NeuralMIP, not {type(problem).__name__}: wrap the model in NeuralMIP(model).")
    graphs = [network_graph(p.net, p.inputs.shape[1]) for p in problem.predictors]
    return problem.instance(), graphs


def rows_of(found: Bounds) -> list[Row]:
    """Bounds of one network, row by row."""
    parts = (found.lower, found.upper, *found.lower_form, *found.upper_form)
    return [Row(low, high, (Form(*form),)) for low, high, *form in zip(*(x.numpy() for x in parts), strict=True)]


def whole_box(instance: Instance, graphs: list[Graph], bounds: Callable[..., Bounds]) -> dict[Place, Row]:
    """Every network row on the box of its inputs."""
    rows: dict[Place, Row] = {}
    for t, (graph, m) in enumerate(zip(graphs, instance.maps, strict=True)):
        ends = (torch.tensor(m.at(end)) for end in (instance.milp.lower, instance.milp.upper))
        found = bounds(graph, Box(*ends))
        rows |= {(t, r): row for r, row in enumerate(rows_of(found))}
    return rows


def form_below(instance: Instance, rows: dict[Place, Row], weight: np.ndarray) -> tuple[np.ndarray, float]:
    r"""$A^\top v + b$ below the weighted sum of all outputs, in all variables; those that are fixed count in b."""
    s = instance.milp
    slope, constant, start = np.zeros(s.n_variables), 0.0, 0
    for (t, r), row in rows.items():
        m, form = instance.maps[t], row.forms[0]
        index, q = m.index[r], len(row.low)
        ends = [np.where(index >= 0, end[index], m.constant[r]) for end in (s.lower, s.upper)]
        for k, w in enumerate(weight[start : start + q]):
            a, b = (form.below[k], form.below_constant[k]) if w > 0 else (form.above[k], form.above_constant[k])
            if instance.predictors[t].gives_class:
                a, b = _class_form(a, b, ends, above=w <= 0)
            fixed = (index < 0) | (ends[0] == ends[1])
            np.add.at(slope, index[~fixed], w * a[~fixed])
            constant += w * (b + a[fixed] @ ends[0][fixed])
        start += q
    return slope, float(constant)


def _class_form(a: np.ndarray, b: float, ends: list[np.ndarray], above: bool) -> tuple[np.ndarray, float]:
    r"""A line above (below) $1[f > 0]$ from one above (below) f: on the range $[l, h]$ of the form $v$ on the box,
    $1[v > 0] \le 1 - v/l$ and $1[v > 0] \ge v/h$, or the constants 1 and 0, whichever encloses the smaller area."""
    low, high = (float(b + end(a * ends[0], a * ends[1]).sum()) for end in (np.minimum, np.maximum))
    if high <= 0 or low > 0:
        return 0 * a, float(low > 0)
    if above:
        return (-a / low, 1 - b / low) if -low > high else (0 * a, 1.0)
    return (a / high, b / high) if high > -low else (0 * a, 0.0)


def output_cost(instance: Instance) -> np.ndarray:
    """Cost of every output, as a minimisation."""
    s = instance.milp
    return s.sign * s.cost[instance.outputs]


def best_multipliers(instance: Instance, rows: dict[Place, Row]) -> np.ndarray:
    r"""$-A$ for the first form of every network row."""
    return -form_below(instance, rows, output_cost(instance))[0][instance.free_inputs]

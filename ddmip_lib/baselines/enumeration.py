"""Exact and cheap where a network meets few points: tabulate it, and let SCIP choose among the entries."""

import itertools
import math
import time
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from pyscipopt import Model, quicksum

from ..errors import ProblemError
from ..model.incumbent import Visit
from ..model.instance import InputMap
from ..model.predictor import Predictor
from ..model.problem import NeuralMIP
from ..model.scip import MILP, copy_model, matrix_of
from ..model.solution import Solution
from ..model.solver import Begun, begin
from ..model.verification import TOLERANCE
from .scip_run import Numerics, exact_solution, optimise

FEASTOL = 1e-9
"""So much may SCIP miss a row by: its own 1e-6 adds up over hundreds of rows to more than the last digits."""

Key = tuple[int, ...]
"""The unfixed variables of one network row, by their number in the model."""


@dataclass(frozen=True)
class Enumeration:
    r"""The exact MILP of a problem whose unfixed network inputs are integer and take few values in each row.

    The network is evaluated at every combination $v_1, \dots, v_m$ of the unfixed inputs of a row, and

    $$x = \sum_j v_j \delta_j, \quad y = \sum_j f(v_j)\,\delta_j, \quad \sum_j \delta_j = 1, \quad
    \delta \in \{0, 1\}^m;$$

    for a single input of two values $\delta$ is that input: $y = f(0) + (f(1) - f(0))\,x$ for a binary one. Nothing
    about the network's structure is used, so any module will do. `max_values` limits $m$.

    >>> import pyscipopt, torch
    >>> m = pyscipopt.Model()
    >>> x = m.addMatrixVar((1, 1), vtype="I", lb=-2, ub=3)
    >>> y = m.addMatrixVar((1, 1), lb=None)
    >>> m.setObjective(y[0, 0] + 0.5 * x[0, 0], "maximize")
    >>> problem = NeuralMIP(m)
    >>> _ = problem.add_predictor(torch.nn.Sequential(torch.nn.Softsign()).eval(), x, y)
    >>> solution = Enumeration().solve(problem)
    >>> solution.status, solution.objective, solution.details["evaluations"]
    ('optimal', 2.25, 6)
    """

    max_values: int = 64
    method: ClassVar[str] = "enumeration"

    def __post_init__(self) -> None:
        if self.max_values < 1:
            raise ValueError(f"max_values={self.max_values} must be at least 1.")

    def solve(self, problem: NeuralMIP, time_limit: float = 60.0, seed: int = 0, progress: bool = False,
              visit: Visit | None = None) -> Solution:  # fmt: skip
        """Tabulate the networks and let SCIP work on the MILP until the time limit."""
        begun = begin(problem, time_limit, seed, visit)
        return begun.guarded(self.method, partial(self._solve, progress=progress))

    def _solve(self, begun: Begun, progress: bool) -> Solution:
        problem, time_limit, seed = begun.problem, begun.time_limit, begun.seed
        instance, began, deadline = begun.instance, begun.began, begun.deadline
        tables = [[self._table(instance.milp, row) for row in where.index] for where in instance.maps]
        incumbent = begun.incumbent(with_start=False)
        details: dict[str, Any] = {"evaluations": 0}
        if time_limit <= 0:
            return exact_solution(self.method, incumbent, "timelimit", None, details)
        if any(not len(values) for rows in tables for _, values in rows):  # no integer between the bounds
            return exact_solution(self.method, incumbent, "infeasible", None, details)
        incumbent.consider_start(problem.start, time_limit)
        for feastol in (FEASTOL, TOLERANCE):  # what only the strict tolerance forbids is not infeasible
            model = copy_model(problem.model, seed)
            variables = model.getVars()
            choices: dict[Key, list[Any]] = {}
            details["evaluations"] = 0
            for cells in zip(instance.predictors, instance.maps, tables, strict=True):
                if time.perf_counter() >= deadline:
                    return exact_solution(self.method, incumbent, "timelimit", None, details)
                details["evaluations"] += _tabulate(model, variables, instance.milp, choices, *cells)
            details["build_seconds"] = time.perf_counter() - began
            optimise(model, matrix_of(variables), incumbent, deadline, self.method, progress, Numerics(feastol))
            details["solve_seconds"] = time.perf_counter() - began - details["build_seconds"]
            if model.getStatus() != "infeasible":
                break
        return exact_solution(self.method, incumbent, model.getStatus(), model.getDualbound(), details)

    def _table(self, s: MILP, row: np.ndarray) -> tuple[Key, np.ndarray]:
        """The unfixed variables of a network row and all combinations of their values, after checking both."""
        key = tuple(int(at) for at in np.unique(row[row >= 0]) if s.lower[at] < s.upper[at])
        for at in key:
            if not s.integer[at]:
                raise ProblemError(
                    f"network input {s.names[at]} is continuous, so its values cannot be enumerated: use "
                    "BigM or DualDecomposition, or make the variable integer."
                )
        ranges = [range(math.ceil(s.lower[at] - 1e-9), math.floor(s.upper[at] + 1e-9) + 1) for at in key]
        m = math.prod(map(len, ranges))
        if m > self.max_values:
            raise ProblemError(
                f"the inputs {', '.join(s.names[at] for at in key[:4])}{', ...' * (len(key) > 4)} of one "
                f"network row take {m} values together, more than max_values={self.max_values}: allow them "
                f"with Enumeration(max_values={m}), tighten bounds, or use BigM or DualDecomposition."
            )
        return key, np.array(list(itertools.product(*ranges)), dtype=float).reshape(m, len(key))


def _tabulate(
    model: Model,
    variables: list[Any],
    s: MILP,
    choices: dict[Key, list[Any]],
    predictor: Predictor,
    where: InputMap,
    tables: list[tuple[Key, np.ndarray]],
) -> int:
    """Write y = f(x) for every row of one predictor; the number of network evaluations."""
    points = np.repeat(where.at(s.lower), [len(values) for _, values in tables], axis=0)
    ends = np.cumsum([len(values) for _, values in tables])
    for row, (key, values), end in zip(where.index, tables, ends, strict=True):
        for at, column in zip(key, values.T, strict=True):
            points[end - len(values) : end, row == at] = column[:, None]
    raw = predictor.raw(points)
    for targets, (key, values), block in zip(where.output, tables, np.split(raw, ends[:-1]), strict=True):
        if key not in choices:
            choices[key] = _choice(model, [variables[at] for at in key], values)
        finite = np.isfinite(block).all(axis=1)
        for choice in itertools.compress(choices[key], ~finite):
            model.addCons(choice <= 0)  # where the network has no value, no point is feasible
        for at, column in zip(targets, predictor.outputs_of(block).T, strict=True):
            terms = zip(column[finite].tolist(), itertools.compress(choices[key], finite), strict=True)
            model.addCons(variables[at] == quicksum(f * choice for f, choice in terms))
    return len(points)


def _choice(model: Model, inputs: list[Any], values: np.ndarray) -> list[Any]:
    """For each row of `values` an expression that is 1 where `inputs` take these values, else 0."""
    if len(inputs) == 1 and len(values) == 2:
        return [values[1, 0] - inputs[0], inputs[0] - values[0, 0]]
    delta = [model.addVar(vtype="B") for _ in values]
    model.addCons(quicksum(delta) == 1)
    for x, column in zip(inputs, values.T.tolist(), strict=True):
        model.addCons(x == quicksum(v * d for v, d in zip(column, delta, strict=True)))
    return delta

"""Exact and cheap where networks have few possible inputs: tabulate them, and choose one."""

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy import ndarray

from ..errors import ProblemError
from ..methods import Callback, Method, Run
from ..model.incumbent import Incumbent
from ..model.instance import Instance
from ..model.solution import Solution
from ..model.verification import TOLERANCE
from ..numerics import power_of_two
from ..programs.scip import excess
from ..programs.scip_program import ScipProgram
from ..proofs.encoding import NetworkEncoder
from ..proofs.exact import tabulated_program
from ..proofs.tables import (
    Table,
    every_assignment,
    number_of_combinations,
    tables_of,
    unfixed,
    write_tables,
)
from .scaled_model import scaled_model, units_of_variables
from .scip_run import Numerics, exact_run, exact_solution, incumbent_of

TABLE_FEASTOL = 1e-9
"""SCIP's feasibility tolerance: its own 1e-6 adds up over hundreds of constraints."""
MAX_ASSIGNMENT_NUMBERS = 2**21
"""Numbers in all full assignments together up to which these are compared one by one."""


@dataclass(frozen=True)
class Enumeration(Method):
    r"""The exact MILP of a problem whose unfixed network inputs are integer and take few values in
    each sample.

    The network is evaluated at every combination $v_1, \dots, v_m$ of the unfixed inputs of a
    sample that the constraints on them allow (of the integer variables that determine a continuous
    input by an equation, such as the steps of a grid), and

    $$x = \sum_j v_j \delta_j, \quad y = \sum_j f(v_j)\,\delta_j, \quad \sum_j \delta_j = 1, \quad
    \delta \in \{0, 1\}^m;$$

    for a single input of two neighbouring values, $y = f(v) + (f(v + 1) - f(v))\,(x - v)$ is
    equivalent. Nothing about the network's structure is used, so any module will do. Where inputs
    and outputs are all that is free and there are few assignments, these are compared without a
    solver; otherwise SCIP's "optimal" or "infeasible" is a claim.

    Parameters
    ----------
    max_values
        Maximum of $m$.
    check
        Whether SCIP's claim is checked, as by `BigM`.
    callback
        Function that is called with a `ProgressEvent` after each assignment that is compared, or as
        by `BigM`.

    Raises
    ------
    ValueError
        If `max_values` is less than 1.

    Examples
    --------
    >>> import pyscipopt, torch
    >>> from ddmip_lib import NeuralMIP
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
    check: bool = True
    callback: Callback | None = None
    method: ClassVar[str] = "enumeration"
    checks_ranges_first: ClassVar[bool] = False  # the tables hold all values of the outputs

    def __post_init__(self) -> None:
        if self.max_values < 1:
            raise ValueError(f"max_values={self.max_values} must be at least 1.")

    def run(self, run: Run) -> Solution:
        """Tabulate the networks; compare all assignments if they are few, else solve the MILP.

        Raises
        ------
        ProblemError
            If an input is continuous, or the inputs of a sample take too many values.
        """
        instance = run.instance
        incumbent = run.incumbent(with_start=False)
        samples = [np.arange(len(mapping.index)) for mapping in instance.maps]
        tables = tables_of(instance, samples, self.max_values)
        if tables is None:
            self._refuse(instance)
        if run.time_limit <= 0:
            return exact_solution(run, "timelimit", None, {"evaluations": 0})
        details: dict[str, Any] = {"evaluations": sum(len(table.values) for table in tables)}
        # an equation that determines a continuous input holds within a tolerance only
        exact = bool(instance.milp.integer[instance.free_inputs].all())
        if not all(len(table.values) for table in tables):  # no integers, or no outputs there
            if exact:
                run.raise_bound(np.inf)
            return exact_solution(run, "infeasible", None, details)
        assignments = every_assignment(instance, tables, MAX_ASSIGNMENT_NUMBERS)
        if assignments is not None:
            return self._compare(run, assignments, details)
        start = None if run.problem.start_failed else run.start
        incumbent.consider_start(start, run.time_limit)
        written = _written_model(run, tables)
        details["build_seconds"] = run.seconds
        program = None
        if self.check and exact:
            program = partial(tabulated_program, instance, incumbent.units, tables)
        return exact_run(written, run, details, program)

    def _compare(self, run: Run, assignments: ndarray, details: dict[str, Any]) -> Solution:
        """Return the best assignment: the first that is feasible, in order of the objectives."""
        incumbent = incumbent_of(run)
        milp = run.instance.milp
        cost = milp.sign * (assignments @ milp.cost + milp.offset)
        possible = _possibly_feasible(incumbent, assignments)
        for index in possible[np.argsort(cost[possible], kind="stable")]:
            feasible = incumbent.consider(assignments[index]).feasible
            bound = float(cost[index])
            stop = run.notify(float(milp.sign * bound))
            if feasible:
                status = "optimal"
            elif run.seconds_left <= 0:
                status = "timelimit"
            elif stop:
                status = "userinterrupt"
            else:
                continue
            run.raise_bound(bound)
            return exact_solution(run, status, None, details)
        run.raise_bound(np.inf)
        return exact_solution(run, "infeasible", None, details)

    def _refuse(self, instance: Instance) -> NoReturn:
        """Name the inputs of a sample that cannot be enumerated, or take too many values."""
        milp = instance.milp
        listing = instance.assignment_list
        keys = [unfixed(milp, row) for mapping in instance.maps for row in mapping.index]
        for index in itertools.chain(*keys):
            if listing.determining_variables(np.array([index])) is None:
                raise ProblemError(
                    f"network input {milp.names[index]} is continuous, so its values cannot be"
                    " enumerated: use solve, SequentialMIP or BigM, or make the variable integer."
                )
        deciding = [listing.determining_variables(np.array(key, dtype=int)) for key in keys]
        variables = next(
            each.at.tolist()
            for each in deciding
            if each is not None and listing.combinations(each.at, self.max_values) is None
        )
        names = [milp.names[index] for index in variables[:4]]
        m = number_of_combinations(milp, tuple(variables))
        raise ProblemError(
            f"the inputs {', '.join(names)}{', ...' if len(variables) > 4 else ''} of one sample"
            f" take {m} values together, more than max_values={self.max_values}: allow them with"
            f" Enumeration(max_values={m}), tighten bounds, or use solve, SequentialMIP or BigM."
        )


def _possibly_feasible(incumbent: Incumbent, assignments: ndarray) -> ndarray:
    """Return which assignments satisfy the linear constraints within twice the tolerance.

    Without any, the one of the smallest violation is evaluated for the report.
    """
    milp = incumbent.instance.milp
    largest = np.abs(assignments).max(axis=0, initial=0.0)
    room = 2 * TOLERANCE * incumbent.units.rows(largest)
    violation = excess((milp.rows @ assignments.T).T, *milp.sides) / room
    largest_violation = violation.max(axis=1, initial=0.0)
    possible = largest_violation <= 1
    if len(possible) and not possible.any():
        incumbent.consider(assignments[largest_violation.argmin()])
    return np.flatnonzero(possible)


def _written_model(run: Run, tables: list[Table]) -> ScipProgram:
    """Return the user's model with the tables, for SCIP."""
    instance = run.instance
    milp = instance.milp
    unit = units_of_variables(instance)
    for table in tables:
        size = power_of_two(np.abs(table.outputs).max(axis=0))
        unit[table.targets] = np.where(milp.integer[table.targets], 1.0, size)
    written = scaled_model(instance, unit, Numerics(TABLE_FEASTOL), run.seed)
    # the model's own bounds: tighter ones slow SCIP down
    encoder = NetworkEncoder(milp.program)
    write_tables(encoder, tables)
    written.add(encoder.program(), milp.n_rows)
    return written

"""Exact and cheap where a network meets few points: tabulate it, and choose among the entries."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NoReturn

import numpy as np

from ..clock import now
from ..errors import ProblemError
from ..methods import Callback, Method, Run
from ..model.assignments import AssignmentList
from ..model.incumbent import Incumbent
from ..model.instance import Instance
from ..model.solution import Solution
from ..model.verification import TOLERANCE
from ..numerics import power_of_two
from ..programs.program import Program, Rows
from ..programs.scip import excess
from ..proofs.encoding import NetworkEncoder
from ..proofs.exact import tabulated_program
from ..proofs.tables import (
    every_assignment,
    number_of_combinations,
    tables_of,
    unfixed,
    write_tables,
)
from .scaled_model import add_program, scaled_model, units_of_variables
from .scip_run import Numerics, exact_run, exact_solution

FEASTOL = 1e-9
"""So much may SCIP miss a row by: its own 1e-6 adds up over hundreds of rows to more than the last
digits.
"""

MOST_NUMBERS = 2**21
"""So many numbers may all assignments together have that are compared one by one."""


@dataclass(frozen=True)
class Enumeration(Method):
    r"""The exact MILP of a problem whose unfixed network inputs are integer and take few values in
    each row.

    The network is evaluated at every combination $v_1, \dots, v_m$ of the unfixed inputs of a row
    that the rows on them allow (of the whole variables that decide a continuous input by an
    equation, as steps of a ladder do), and

    $$x = \sum_j v_j \delta_j, \quad y = \sum_j f(v_j)\,\delta_j, \quad \sum_j \delta_j = 1, \quad
    \delta \in \{0, 1\}^m;$$

    for a single input of two neighbouring values, $y = f(v) + (f(v + 1) - f(v))\,(x - v)$ says the
    same. Nothing about the network's structure is used, so any module will do. `max_values` limits
    $m$. Where inputs and outputs are all that is free and there are few assignments, these are
    compared without a solver; otherwise what SCIP calls optimal or infeasible is a claim, and with
    `check` it is proved, or not, as in `BigM`. `callback` hears a `Moment` after each assignment
    that is compared, or as in `BigM`.

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
        """Tabulate the networks; compare all assignments if they are few, else solve the MILP."""
        instance = run.instance
        incumbent = run.incumbent(with_start=False)
        details: dict[str, Any] = {"evaluations": 0}
        tables = tables_of(
            instance, [np.arange(len(where.index)) for where in instance.maps], self.max_values
        )
        if tables is None:
            self._refuse(instance)
        if run.time_limit <= 0:
            return exact_solution(self.method, incumbent, "timelimit", None, details)
        exactly = bool(
            instance.milp.integer[instance.free_inputs].all()
        )  # an equation holds within a tolerance only
        details["evaluations"] = sum(len(table.values) for table in tables)
        if not all(
            len(table.values) for table in tables
        ):  # no integer between the bounds, or no value of the network
            empty = np.inf if exactly else None
            return exact_solution(
                self.method, incumbent, "infeasible", None, details, checked=empty
            )
        everything = every_assignment(instance, tables, MOST_NUMBERS)
        if everything is not None:
            return self._compared(incumbent, everything, run, details)
        incumbent.consider_start(
            None if run.problem.start_failed else run.problem.start, run.time_limit
        )
        unit = units_of_variables(instance)
        for table in tables:
            size = np.where(
                instance.milp.integer[table.targets],
                1.0,
                power_of_two(np.abs(table.outputs).max(axis=0)),
            )
            unit[table.targets] = size
        written = scaled_model(instance, unit, Numerics(FEASTOL), run.seed)
        s = instance.milp  # its own bounds: tighter ones slow SCIP down
        exact = NetworkEncoder(
            Program(s.sign * s.cost, Rows.of(s.rows), *s.sides, s.lower, s.upper, s.integer)
        )
        write_tables(exact, tables)
        add_program(written, exact.program(), s.n_rows)
        details["build_seconds"] = now() - run.began
        program = (
            partial(tabulated_program, instance, incumbent.units, tables)
            if self.check and exactly
            else None
        )
        return exact_run(written, incumbent, run, self.method, details, program)

    def _compared(
        self, incumbent: Incumbent, everything: np.ndarray, run: Run, details: dict[str, Any]
    ) -> Solution:
        """The best of all assignments, in order of their objectives: the first that is feasible."""
        s = incumbent.instance.milp
        cost = s.sign * (everything @ s.cost + s.offset)
        room = 2 * TOLERANCE * incumbent.units.rows(np.abs(everything).max(axis=0, initial=0.0))
        left = (s.rows @ everything.T).T
        possible = ((left >= s.row_lower - room) & (left <= s.row_upper + room)).all(axis=1)
        if len(left) and not possible.any():  # for the report
            incumbent.consider(everything[(excess(left, *s.sides) / room).max(axis=1).argmin()])
        for at in np.flatnonzero(possible)[np.argsort(cost[possible], kind="stable")]:
            feasible = incumbent.consider(everything[at]).feasible
            bound = float(cost[at])
            stop = run.notify(float(s.sign * bound))
            if feasible:
                return exact_solution(
                    self.method, incumbent, "optimal", None, details, checked=bound
                )
            if run.seconds_left <= 0:
                return exact_solution(
                    self.method, incumbent, "timelimit", None, details, checked=bound
                )
            if stop:
                return exact_solution(
                    self.method, incumbent, "userinterrupt", None, details, checked=bound
                )
        return exact_solution(self.method, incumbent, "infeasible", None, details, checked=np.inf)

    def _refuse(self, instance: Instance) -> NoReturn:
        """Say which inputs of a network row cannot be enumerated, or take too many values."""
        s = instance.milp
        listing = AssignmentList(instance.milp)
        keys = [unfixed(s, row) for where in instance.maps for row in where.index]
        for free in (
            free for key in keys for free in key if listing.deciders(np.array([free])) is None
        ):
            raise ProblemError(
                f"network input {s.names[free]} is continuous, so its values cannot be enumerated:"
                " use BigM or DualDecomposition, or make the variable integer."
            )
        deciding = [listing.deciders(np.array(key, dtype=int)).at for key in keys]  # type: ignore[union-attr]
        at = next(at for at in deciding if listing.combinations(at, self.max_values) is None)
        m = number_of_combinations(s, tuple(at.tolist()))
        raise ProblemError(
            f"the inputs {', '.join(s.names[j] for j in at[:4])}{', ...' * (len(at) > 4)} of one"
            f" network row take {m} values together, more than max_values={self.max_values}: allow"
            f" them with Enumeration(max_values={m}), tighten bounds, or use BigM or"
            " DualDecomposition."
        )

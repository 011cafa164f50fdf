"""Mixed-integer programs as arrays, solved approximately by HiGHS or, with nonlinear constraints of
a user's model, by SCIP.
"""

from typing import NamedTuple

import highspy
import numpy as np
from numpy import ndarray
from pyscipopt import Model

from .highs import pass_program, run_highs, silent_highs
from .program import Program
from .scip import copy_model, optimise, solution_values
from .scip_program import ScipProgram, set_objective

MIP_GAP = 5e-3
"""Relative gap at which a solve ends: its solution need not be optimal."""
MIP_NODES = 50
"""Nodes after which a solve ends."""
MIP_FEASIBILITY_TOLERANCE = 1e-8
"""Feasibility tolerance of HiGHS, on constraints and on integrality."""
HEURISTICS = ("rins", "rens", "root_reduced_cost")
"""Heuristics of HiGHS that solve MIPs inside the MIP."""
WORK_PER_CALL = 20.0
"""Simplex iterations that take as long as building and presolving a small model."""


class MIPResult(NamedTuple):
    """The result of an approximate solve, unverified.

    Attributes
    ----------
    point
        The best point found, None where there is none.
    solved_to_gap
        Whether the solver claims that it solved the program to the gap, or that it is infeasible.
    work
        The work in simplex iterations.
    """

    point: ndarray | None
    solved_to_gap: bool
    work: float = 0.0


def solve_program(
    program: Program,
    seconds: float = np.inf,
    nodes: int = MIP_NODES,
    seed: int = 0,
    start: ndarray | None = None,
    gap: float = MIP_GAP,
    heuristics: bool = True,
) -> MIPResult:
    """Solve a program approximately by HiGHS.

    Parameters
    ----------
    program
        The program.
    seconds, nodes, gap
        Limits: time, number of nodes, relative gap.
    seed
        Random seed.
    start
        Values of the first variables, NaN where unknown.
    heuristics
        Whether HiGHS may solve MIPs inside the MIP, and restart.

    Returns
    -------
    MIPResult
        Point, claim and work.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from ..programs.program import Rows
    >>> one = np.ones(2)
    >>> rows = Rows.of(sp.csr_matrix([[2.0, 3.0]]))
    >>> cost = np.array([1.0, 1.4])
    >>> solve_program(Program(cost, rows, 4 * one[:1], np.inf * one[:1], 0 * one, 3 * one, one > 0))
    MIPResult(point=array([2., 0.]), solved_to_gap=True, work=20.0)
    """
    options = {
        "random_seed": seed,
        "mip_rel_gap": gap,
        "mip_max_nodes": nodes,
        "primal_feasibility_tolerance": MIP_FEASIBILITY_TOLERANCE,
        "mip_feasibility_tolerance": MIP_FEASIBILITY_TOLERANCE,
        # it takes longer than all else on small models
        "mip_heuristic_run_feasibility_jump": False,
        **{f"mip_heuristic_run_{name}": heuristics for name in HEURISTICS},
        "mip_allow_restart": heuristics,
        "time_limit": max(0.01, min(seconds, 1e9)),
    }
    highs = silent_highs(options)
    has_integers = bool(program.integer.any())
    pass_program(highs, program)
    if start is not None and has_integers:
        known = np.flatnonzero(~np.isnan(start))
        highs.setSolution(len(known), known.astype(np.int32), start[known])
    run_highs(highs, len(program.rows.weight), has_integers)
    return _mip_result(highs, program)


def solve_continuous(program: Program, seconds: float) -> ndarray | None:
    """Solve a program without integers by HiGHS, in its own units and to HiGHS's own tolerances.

    Parameters
    ----------
    program
        The program.
    seconds
        Time limit.

    Returns
    -------
    numpy.ndarray or None
        The best point, None where there is none.
    """
    highs = silent_highs({"time_limit": seconds})
    pass_program(highs, program)
    run_highs(highs, len(program.rows.weight), integers=False)
    return _mip_result(highs, program).point


def _mip_result(highs: highspy.Highs, program: Program) -> MIPResult:
    solution = highs.getSolution()
    info = highs.getInfo()
    statuses = highspy.HighsModelStatus
    closed = highs.getModelStatus() in (statuses.kOptimal, statuses.kInfeasible)
    work = WORK_PER_CALL + max(0, info.simplex_iteration_count)
    feasible = info.primal_solution_status == highspy.kSolutionStatusFeasible
    point = np.asarray(solution.col_value, dtype=float)
    usable = solution.value_valid and feasible and np.isfinite(point).all()
    return MIPResult(_with_integers_rounded(point, program) if usable else None, closed, work)


def _with_integers_rounded(point: ndarray, program: Program) -> ndarray:
    return np.where(program.integer, np.round(point) + 0.0, point)


def solve_with_scip(model: Model, program: Program, seconds: float, seed: int = 0) -> MIPResult:
    """Solve a program approximately by SCIP, under all constraints of a user's model.

    Parameters
    ----------
    model
        The user's model, which is copied. Its variables are the first ones of the program.
    program
        The program.
    seconds
        Time limit.
    seed
        Random seed.

    Returns
    -------
    MIPResult
        Point, claim and work.
    """
    copy = copy_model(model, seed)
    variables = ScipProgram(copy, copy.getVars()).add(program)
    set_objective(copy, variables, program.cost)
    copy.setParams({"limits/gap": MIP_GAP, "limits/nodes": MIP_NODES})
    optimise(copy, seconds)
    closed = copy.getStatus() in ("optimal", "gaplimit", "infeasible")
    work = WORK_PER_CALL + float(copy.getNLPIterations())
    if copy.getNSols() == 0:
        return MIPResult(None, closed, work)
    point = solution_values(copy, variables)
    return MIPResult(_with_integers_rounded(point, program), closed, work)

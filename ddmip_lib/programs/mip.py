"""Mixed-integer programs as arrays, solved approximately by HiGHS or, with nonlinear constraints of
a user's model, by SCIP.
"""

from typing import NamedTuple

import highspy
import numpy as np
from pyscipopt import Model, Variable, quicksum

from .highs import run_highs, silent_highs
from .program import Program
from .scip import add_rows, add_variables, copy_model, matrix_of, optimise, solution_values

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
    closed
        Whether the solver claims that it solved the program to the gap, or that it is infeasible.
    work
        The work in simplex iterations.
    """

    point: np.ndarray | None
    solved_to_gap: bool
    work: float = 0.0


def solve_program(
    program: Program,
    seconds: float = np.inf,
    nodes: int = MIP_NODES,
    seed: int = 0,
    start: np.ndarray | None = None,
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
    highs.passModel(_highs_model(program))
    if start is not None and has_integers:
        known = np.flatnonzero(~np.isnan(start))
        highs.setSolution(len(known), known.astype(np.int32), start[known])
    run_highs(highs, len(program.rows.weight), has_integers)
    return _mip_result(highs, program)


def _highs_model(program: Program) -> highspy.HighsLp:
    lp = highspy.HighsLp()
    lp.num_col_ = len(program.cost)
    lp.num_row_ = len(program.row_lower)
    lp.col_cost_ = program.cost
    lp.col_lower_ = program.lower
    lp.col_upper_ = program.upper
    lp.row_lower_ = program.row_lower
    lp.row_upper_ = program.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = program.rows.first
    lp.a_matrix_.index_ = program.rows.column
    lp.a_matrix_.value_ = program.rows.weight
    if program.integer.any():
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(integer)] for integer in program.integer]
    return lp


def _mip_result(highs: highspy.Highs, program: Program) -> MIPResult:
    solution = highs.getSolution()
    info = highs.getInfo()
    statuses = highspy.HighsModelStatus
    closed = highs.getModelStatus() in (statuses.kOptimal, statuses.kInfeasible)
    work = WORK_PER_CALL + max(0, info.simplex_iteration_count)
    feasible = info.primal_solution_status == highspy.kSolutionStatusFeasible
    if not (solution.value_valid and feasible):
        return MIPResult(None, closed, work)
    point = np.asarray(solution.col_value, dtype=float)
    if not np.isfinite(point).all():
        return MIPResult(None, closed, work)
    return MIPResult(_with_integers_rounded(point, program), closed, work)


def _with_integers_rounded(point: np.ndarray, program: Program) -> np.ndarray:
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
    variables = _add_to_copy(copy, program)
    copy.setParams({"limits/gap": MIP_GAP, "limits/nodes": MIP_NODES})
    optimise(copy, seconds)
    closed = copy.getStatus() in ("optimal", "gaplimit", "infeasible")
    work = WORK_PER_CALL + float(copy.getNLPIterations())
    if copy.getNSols() == 0:
        return MIPResult(None, closed, work)
    point = solution_values(copy, matrix_of(variables))
    return MIPResult(_with_integers_rounded(point, program), closed, work)


def _add_to_copy(copy: Model, program: Program) -> list[Variable]:
    """Write a program into a copy of the user's model and return its variables."""
    infinity = copy.infinity()
    own = copy.getVars()
    for variable, lower, upper in zip(own, program.lower, program.upper, strict=False):
        copy.chgVarLb(variable, max(lower, -infinity))
        copy.chgVarUb(variable, min(upper, infinity))
    new = slice(len(own), None)
    variables: list[Variable] = own + add_variables(
        copy, program.lower[new], program.upper[new], program.integer[new]
    )
    add_rows(
        copy, variables, program.rows.matrix(len(variables)), program.row_lower, program.row_upper
    )
    terms = zip(program.cost.tolist(), variables, strict=True)
    copy.setObjective(quicksum(c * v for c, v in terms if c), "minimize")
    return variables

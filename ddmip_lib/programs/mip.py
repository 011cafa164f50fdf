"""A mixed-integer program as arrays, solved roughly: by HiGHS or, with constraints that are no
rows, by SCIP.
"""

from typing import NamedTuple

import highspy
import numpy as np
from pyscipopt import Model, quicksum

from .highs import run_highs
from .program import Program
from .scip import add_rows, add_variables, copy_model, matrix_of, optimise, solution_values

GAP = 5e-3
NODES = 50
"""A step need not be optimal: it ends at this relative gap, or after so many nodes."""
FEASIBILITY = 1e-8
HEURISTICS = ("rins", "rens", "root_reduced_cost")
CALL = 20.0  # pivots that building and presolving a small model is worth
KINDS = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)


class MIPResult(NamedTuple):
    """The best point found, or None; whether its solver says that none is better; and its work, in
    pivots or so.
    """

    point: np.ndarray | None
    closed: bool
    work: float = 0.0


def solve_program(
    program: Program,
    seconds: float = np.inf,
    nodes: int = NODES,
    seed: int = 0,
    start: np.ndarray | None = None,
    gap: float = GAP,
    heuristics: bool = True,
) -> MIPResult:
    """What HiGHS finds within the limits; `start` holds values of the first variables, NaN where
    unknown; `heuristics` are the MIPs that it solves inside the MIP.

    >>> import scipy.sparse as sp
    >>> from ..programs.program import Rows
    >>> one = np.ones(2)
    >>> rows = Rows.of(sp.csr_matrix([[2.0, 3.0]]))
    >>> cost = np.array([1.0, 1.4])
    >>> solve_program(Program(cost, rows, 4 * one[:1], np.inf * one[:1], 0 * one, 3 * one, one > 0))
    MIPResult(point=array([2., 0.]), closed=True, work=20.0)
    """
    highs = highspy.Highs()
    whole = program.integer
    e = program.rows
    highs.silent()
    options = {
        "threads": 1,
        "random_seed": seed,
        "mip_rel_gap": gap,
        "mip_max_nodes": nodes,
        "primal_feasibility_tolerance": FEASIBILITY,
        "mip_feasibility_tolerance": FEASIBILITY,
        # it takes longer than all else on small models
        "mip_heuristic_run_feasibility_jump": False,
        **{f"mip_heuristic_run_{name}": heuristics for name in HEURISTICS},
        "mip_allow_restart": heuristics,
        "time_limit": max(0.01, min(seconds, 1e9)),
    }
    for name, value in options.items():
        highs.setOptionValue(name, value)
    lp = highspy.HighsLp()
    lp.num_col_ = len(program.cost)
    lp.num_row_ = len(program.row_lower)
    lp.col_cost_ = program.cost
    lp.col_lower_ = program.lower
    lp.col_upper_ = program.upper
    lp.row_lower_ = program.row_lower
    lp.row_upper_ = program.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = e.first
    lp.a_matrix_.index_ = e.column
    lp.a_matrix_.value_ = e.weight
    if whole.any():
        lp.integrality_ = [KINDS[int(kind)] for kind in whole]
    highs.passModel(lp)
    if start is not None and whole.any():
        known = np.flatnonzero(~np.isnan(start))
        highs.setSolution(len(known), known.astype(np.int32), start[known])
    run_highs(highs, len(e.weight), bool(whole.any()))
    found = highs.getSolution()
    status = highs.getModelStatus()
    closed = status in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible)
    work = CALL + max(0, highs.getInfo().simplex_iteration_count)
    if (
        not found.value_valid
        or highs.getInfo().primal_solution_status != highspy.kSolutionStatusFeasible
    ):
        return MIPResult(None, closed, work)
    point = np.asarray(found.col_value, dtype=float)
    return MIPResult(
        np.where(whole, np.round(point) + 0.0, point) if np.isfinite(point).all() else None,
        closed,
        work,
    )


def solve_with_scip(model: Model, program: Program, seconds: float, seed: int = 0) -> MIPResult:
    """The same by SCIP in a copy of `model`: its variables come first, and all its constraints hold
    too.
    """
    copy = copy_model(model, seed)
    infinity = copy.infinity()
    own = copy.getVars()
    for variable, low, high in zip(own, program.lower, program.upper, strict=False):
        copy.chgVarLb(variable, max(low, -infinity))
        copy.chgVarUb(variable, min(high, infinity))
    more = slice(len(own), None)
    variables = own + add_variables(
        copy, program.lower[more], program.upper[more], program.integer[more]
    )
    add_rows(
        copy, variables, program.rows.matrix(len(variables)), program.row_lower, program.row_upper
    )
    copy.setObjective(
        quicksum(c * v for c, v in zip(program.cost.tolist(), variables, strict=True) if c),
        "minimize",
    )
    copy.setParams({"limits/gap": GAP, "limits/nodes": NODES})
    optimise(copy, seconds)
    closed = copy.getStatus() in ("optimal", "gaplimit", "infeasible")
    work = CALL + float(copy.getNLPIterations())
    if copy.getNSols() == 0:
        return MIPResult(None, closed, work)
    point = solution_values(copy, matrix_of(variables))
    return MIPResult(np.where(program.integer, np.round(point) + 0.0, point), closed, work)

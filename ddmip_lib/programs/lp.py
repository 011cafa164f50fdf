"""HiGHS proposes multipliers and points for linear programs; none of its claims is relied on."""

from dataclasses import replace
from typing import NamedTuple

import highspy
import numpy as np

from ..numerics import finite_size, power_of_two
from .highs import pass_program, run_highs, silent_highs
from .program import Program

LP_OPTIONS = {
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
    "small_matrix_value": 1e-12,
}
"""Options of HiGHS, for programs in scaled units."""


class LPProposal(NamedTuple):
    """The result of HiGHS for a linear program, unverified.

    Attributes
    ----------
    multipliers
        One for each constraint.
    point
        Values of all variables, None where there are none.
    empty
        Whether the multipliers are meant to prove that no point is feasible.
    basis
        The basis, from which the solve of a similar program can start.
    """

    multipliers: np.ndarray
    point: np.ndarray | None
    empty: bool
    basis: highspy.HighsBasis | None = None


class LPScales(NamedTuple):
    """Powers of two that bring variables, constraints and cost of a program to a size of about 1.

    Attributes
    ----------
    column, row
        Unit of every variable, and divisor of every constraint.
    cost
        Divisor of the cost.
    weight
        Entries of the constraint matrix on scaled variables, not yet divided by `row`.
    """

    column: np.ndarray
    row: np.ndarray
    cost: float
    weight: np.ndarray


class LPSolver:
    """Solves one linear program after the other by HiGHS.

    Parameters
    ----------
    scaled
        Whether programs are scaled first, and solved to a smaller tolerance.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from .program import Rows
    >>> one = np.ones(2)
    >>> rows = Rows.of(sp.csr_matrix([[1.0, 2.0]]))
    >>> program = Program(one, rows, one[:1], np.inf * one[:1], 0 * one, one, one > 0)
    >>> proposal = LPSolver().solve(program)
    >>> proposal.multipliers, proposal.point
    (array([0.5]), array([0. , 0.5]))
    """

    def __init__(self, scaled: bool = True) -> None:
        self.scaled = scaled
        self.highs: highspy.Highs | None = None

    def solve(
        self, program: Program, seconds: float = np.inf, basis: highspy.HighsBasis | None = None
    ) -> LPProposal:
        """Solve a linear program.

        Parameters
        ----------
        program
            The program; that some of its variables are integer is ignored.
        seconds
            Time limit.
        basis
            Basis of a similar program, from which HiGHS starts.

        Returns
        -------
        LPProposal
            Multipliers and point, unverified.
        """
        highs = self._take_solver()
        scales = _scales(program) if self.scaled else _no_scales(program)
        pass_program(highs, _scaled(program, scales))
        highs.setOptionValue("presolve", "choose" if basis is None else "off")
        if basis is not None:
            highs.setBasis(basis)
        highs.setOptionValue("time_limit", highs.getRunTime() + max(0.0, min(seconds, 1e9)))
        entries = len(scales.weight)
        run_highs(highs, entries, integers=False)
        if basis is None and _claims_empty(highs):  # presolving gives no ray, and has been wrong
            highs.setOptionValue("presolve", "off")
            run_highs(highs, entries, integers=False)
        self.highs = highs
        return _proposal(highs, program, scales)

    def _take_solver(self) -> highspy.Highs:
        """Return the last solver, or a new one where an exception ended its solve."""
        highs = self.highs
        self.highs = None
        if highs is not None:
            return highs
        return silent_highs(LP_OPTIONS if self.scaled else {})


def _scales(program: Program) -> LPScales:
    rows = program.rows
    column = power_of_two(finite_size(program.lower, program.upper))
    weight = rows.weight * column[rows.column]
    largest = np.zeros(len(rows.first) - 1)
    np.maximum.at(largest, rows.row, np.abs(weight))
    largest_cost = np.abs(program.cost * column).max(initial=0.0)
    return LPScales(column, power_of_two(largest), float(power_of_two(largest_cost)), weight)


def _no_scales(program: Program) -> LPScales:
    column = np.ones(len(program.cost))
    return LPScales(column, np.ones(len(program.row_lower)), 1.0, program.rows.weight)


def _scaled(program: Program, scales: LPScales) -> Program:
    """Return the linear relaxation in these units."""
    rows = program.rows
    return replace(
        program,
        cost=program.cost * scales.column / scales.cost,
        rows=rows._replace(weight=scales.weight / scales.row[rows.row]),
        row_lower=program.row_lower / scales.row,
        row_upper=program.row_upper / scales.row,
        lower=program.lower / scales.column,
        upper=program.upper / scales.column,
        integer=np.zeros_like(program.integer),
    )


def _claims_empty(highs: highspy.Highs) -> bool:
    status = highspy.HighsModelStatus
    return highs.getModelStatus() in (status.kInfeasible, status.kUnboundedOrInfeasible)


def _proposal(highs: highspy.Highs, program: Program, scales: LPScales) -> LPProposal:
    """Return the ray of an infeasible program, or multipliers and point, without scales."""
    none = np.zeros(len(scales.row))
    if _claims_empty(highs):
        _, known, ray = highs.getDualRay()  # type: ignore[attr-defined]  # its stubs lack it
        if known and ray is not None:
            return LPProposal(np.asarray(ray, dtype=float) / scales.row, None, True)
        return LPProposal(none, None, True)
    solution = highs.getSolution()
    multipliers = np.asarray(solution.row_dual, dtype=float)
    if len(multipliers) != len(none) or not np.isfinite(multipliers).all():
        return LPProposal(none, None, False)
    multipliers = multipliers * scales.cost / scales.row
    values = np.asarray(solution.col_value) * scales.column
    point = np.clip(values, program.lower, program.upper)
    usable = solution.value_valid and np.isfinite(point).all()
    return LPProposal(multipliers, point if usable else None, False, highs.getBasis())

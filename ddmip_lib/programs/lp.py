"""HiGHS proposes multipliers and points for linear programs; none of its claims is relied on."""

from dataclasses import replace
from typing import NamedTuple

import highspy
import numpy as np
from numpy import ndarray

from ..numerics import finite_size, power_of_two
from .highs import pass_program, run_highs, silent_highs
from .program import Program
from .scales import Scales

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

    multipliers: ndarray
    point: ndarray | None
    empty: bool
    basis: highspy.HighsBasis | None = None


class LPSolver:
    """Solves one linear program after the other by HiGHS, scaled.

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

    def __init__(self) -> None:
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
        highs = self.highs or silent_highs(LP_OPTIONS)
        self.highs = None  # unless an exception ends the solve, it is used again
        scales = Scales.of(program, power_of_two(finite_size(program.lower, program.upper)))
        relaxed = replace(program, integer=np.zeros_like(program.integer))
        pass_program(highs, scales.scaled(relaxed))
        highs.setOptionValue("presolve", "choose" if basis is None else "off")
        if basis is not None:
            highs.setBasis(basis)
        highs.setOptionValue("time_limit", highs.getRunTime() + max(0.0, min(seconds, 1e9)))
        entries = len(program.rows.weight)
        run_highs(highs, entries, integers=False)
        if basis is None and _claims_empty(highs):  # presolving gives no ray, and has been wrong
            highs.setOptionValue("presolve", "off")
            run_highs(highs, entries, integers=False)
        self.highs = highs
        return _proposal(highs, program, scales)


def _claims_empty(highs: highspy.Highs) -> bool:
    status = highspy.HighsModelStatus
    return highs.getModelStatus() in (status.kInfeasible, status.kUnboundedOrInfeasible)


def _proposal(highs: highspy.Highs, program: Program, scales: Scales) -> LPProposal:
    """Return the ray of an infeasible program, or multipliers and point, without scales."""
    none = np.zeros(len(scales.row))
    if _claims_empty(highs):
        _, known, ray = highs.getDualRay()  # type: ignore[attr-defined]  # its stubs lack it
        usable = known and ray is not None
        return LPProposal(np.asarray(ray) / scales.row if usable else none, None, True)
    solution = highs.getSolution()
    duals = np.asarray(solution.row_dual, dtype=float)
    if len(duals) != len(none) or not np.isfinite(duals).all():
        return LPProposal(none, None, False)
    values = np.asarray(solution.col_value) * scales.column
    point = np.clip(values, program.lower, program.upper)
    usable = solution.value_valid and np.isfinite(point).all()
    multipliers = duals * scales.cost / scales.row
    return LPProposal(multipliers, point if usable else None, False, highs.getBasis())

"""HiGHS proposes multipliers and points for linear programs; nothing that it says is taken for
true.
"""

from typing import NamedTuple

import highspy
import numpy as np

from ..numerics import power_of_two
from .highs import run_highs
from .program import Program

TOLERANCE = 1e-9


class LPProposal(NamedTuple):
    """Multipliers of the rows and a point; `empty` where the multipliers are to prove that there is
    none.
    """

    multipliers: np.ndarray
    point: np.ndarray | None
    empty: bool
    basis: highspy.HighsBasis | None = None


class LPSolver:
    """Asks HiGHS about one program after the other, in units in which variables, rows and cost are
    about 1.

    >>> import scipy.sparse as sp
    >>> from .program import Rows
    >>> one = np.ones(2)
    >>> rows = Rows.of(sp.csr_matrix([[1.0, 2.0]]))
    >>> proposal = LPSolver().ask(
    ...     Program(one, rows, one[:1], np.inf * one[:1], 0 * one, one, one > 0)
    ... )
    >>> proposal.multipliers, proposal.point
    (array([0.5]), array([0. , 0.5]))
    """

    def __init__(self) -> None:
        self.highs: highspy.Highs | None = None

    def ask(
        self, program: Program, seconds: float = np.inf, basis: highspy.HighsBasis | None = None
    ) -> LPProposal:
        """What HiGHS proposes for a program within so many seconds, from the `basis` of one like
        it.
        """
        highs = self._free()
        e = program.rows
        lower = program.lower
        upper = program.upper
        size = np.maximum(*(np.where(np.isfinite(end), np.abs(end), 0.0) for end in (lower, upper)))
        column = power_of_two(size)
        weight = e.weight
        weight = weight * column[e.column]
        cost = program.cost * column
        largest = np.zeros(len(e.first) - 1)
        np.maximum.at(largest, e.row, np.abs(weight))
        row = power_of_two(largest)
        scale = float(power_of_two(np.abs(cost).max(initial=0.0)))
        highs.passModel(
            len(cost),
            len(row),
            len(weight),
            int(highspy.MatrixFormat.kRowwise),
            int(highspy.ObjSense.kMinimize),
            0.0,
            cost / scale,
            lower / column,
            upper / column,
            program.row_lower / row,
            program.row_upper / row,
            e.first,
            e.column,
            weight / row[e.row],
            np.zeros(len(cost), dtype=np.int32),
        )
        highs.setOptionValue("presolve", "choose" if basis is None else "off")
        if basis is not None:
            highs.setBasis(basis)
        highs.setOptionValue("time_limit", highs.getRunTime() + max(0.0, min(seconds, 1e9)))
        run_highs(highs, len(weight), integers=False)
        if basis is None and _empty(highs):  # presolving knows no ray, and has been wrong
            highs.setOptionValue("presolve", "off")
            run_highs(highs, len(weight), integers=False)
        self.highs = highs
        if _empty(highs):
            _, known, ray = highs.getDualRay()  # type: ignore[attr-defined]  # its stubs lack it
            return LPProposal(
                np.asarray(ray, dtype=float) / row if known and ray is not None else 0 * row,
                None,
                True,
            )
        found = highs.getSolution()
        multipliers = np.asarray(found.row_dual, dtype=float)
        if len(multipliers) != len(row) or not np.isfinite(multipliers).all():
            return LPProposal(np.zeros(len(row)), None, False)
        point = np.clip(np.asarray(found.col_value) * column, lower, upper)
        usable = found.value_valid and np.isfinite(point).all()
        return LPProposal(
            multipliers * scale / row, point if usable else None, False, highs.getBasis()
        )

    def _free(self) -> highspy.Highs:
        """The solver of the last program, or a new one where the time limit or Ctrl-C left that one
        at work.
        """
        highs = self.highs
        self.highs = None
        return _solver() if highs is None else highs


def _solver() -> highspy.Highs:
    highs = highspy.Highs()
    highs.silent()
    for name in ("primal", "dual"):
        highs.setOptionValue(f"{name}_feasibility_tolerance", TOLERANCE)
    highs.setOptionValue("small_matrix_value", 1e-12)
    highs.setOptionValue("threads", 1)
    return highs


def _empty(highs: highspy.Highs) -> bool:
    status = highspy.HighsModelStatus
    return highs.getModelStatus() in (status.kInfeasible, status.kUnboundedOrInfeasible)

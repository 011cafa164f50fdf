"""HiGHS under the time limits of the library: every run of it goes through `run_highs`."""

from typing import Any

import highspy
import numpy as np

from ..clock import awaited, check_time
from .program import Program

MAX_ENTRIES_IN_THIS_THREAD = 5_000
"""Nonzero entries of a linear program that is solved within milliseconds, so in this thread."""


def silent_highs(options: dict[str, Any]) -> highspy.Highs:
    """Return a solver with these options that uses one thread and prints nothing."""
    highs = highspy.Highs()
    highs.silent()
    highs.setOptionValue("threads", 1)
    for name, value in options.items():
        highs.setOptionValue(name, value)
    return highs


def pass_program(highs: highspy.Highs, program: Program) -> None:
    """Pass a program, without its constant, to HiGHS: all models of HiGHS are written here."""
    rows = program.rows
    highs.passModel(
        len(program.cost),
        len(program.row_lower),
        len(rows.weight),
        int(highspy.MatrixFormat.kRowwise),
        int(highspy.ObjSense.kMinimize),
        0.0,
        program.cost,
        program.lower,
        program.upper,
        program.row_lower,
        program.row_upper,
        rows.first,
        rows.column,
        rows.weight,
        program.integer.astype(np.int32),  # 0 and 1 are HiGHS's continuous and integer variables
    )


def run_highs(highs: highspy.Highs, entries: int, integers: bool) -> None:
    """Solve the model that was passed to HiGHS, at most until the time limit in force.

    HiGHS checks its own time limit between two steps, one of which can take seconds.

    Parameters
    ----------
    highs
        The solver. It must not be used again where an exception ends the solve.
    entries
        Number of nonzero entries of the model.
    integers
        Whether the model has integer variables.

    Raises
    ------
    TimeOver
        If the time limit ends before HiGHS does.
    KeyboardInterrupt
        At Ctrl-C.
    """
    check_time()
    if entries <= MAX_ENTRIES_IN_THIS_THREAD and not integers:
        highs.run()
        return
    awaited(highs.run, lambda: highs.setOptionValue("time_limit", 0.0))
    check_time()

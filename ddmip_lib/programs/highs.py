"""HiGHS under the time limits of the library: every run of it goes through `run_highs`."""

import highspy

from ..clock import awaited, check_time

SMALL = 5_000  # entries of a linear program that is solved in this thread: it is over in a moment


def run_highs(highs: highspy.Highs, entries: int, integers: bool) -> None:
    """Solve the model that was passed, of so many entries, with or without integer variables.

    `TimeOver` or Ctrl-C may end it before HiGHS does, which must then not be used again.

    HiGHS looks at its own time limit between two steps, of which one can take seconds.
    """
    check_time()
    if entries <= SMALL and not integers:
        highs.run()
        return
    awaited(highs.run, lambda: highs.setOptionValue("time_limit", 0.0))
    check_time()

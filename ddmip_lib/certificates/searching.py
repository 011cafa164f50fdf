"""Searches of several networks in one process, in turn."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..clock import TimeOver, now
from .unit_search import LossBounds, ReLUBranchAndBound

REPORT_SECONDS = 1.0
"""Seconds between two reports."""

Report = Callable[[list[LossBounds]], Any]


def search_in_turn(searches: Sequence[ReLUBranchAndBound], deadline: float, report: Report) -> None:
    """Run searches in turn until the deadline, until all are finished, or until `report` returns
    false.
    """
    going = True
    seconds = REPORT_SECONDS / max(1, len(searches))
    try:
        while going and now() < deadline and not all(search.finished for search in searches):
            for search in searches:
                search.run(min(deadline, now() + seconds))
            going = report([search.progress() for search in searches]) is not False
    except TimeOver:  # an unfinished batch of nodes counts as unfathomed
        report([search.progress() for search in searches])
        raise


def search_group(group: Sequence[tuple[Any, ...]], deadline: float, report: Report) -> None:
    """Run searches, given by the arguments of `ReLUBranchAndBound`, in a process of their own."""
    torch.set_num_threads(1)
    search_in_turn([ReLUBranchAndBound(*arguments) for arguments in group], deadline, report)

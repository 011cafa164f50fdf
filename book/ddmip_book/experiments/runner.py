"""Running cases in this process, one after another: resumable, one record on disk for each.

Whole grids are run by `python -m experiments` of the project, in processes with limits.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from .case import Case
from .execute import run_case
from .results import Results
from .rows import Row
from .store import Store


def missing(cases: Sequence[Case], rows: Iterable[Row]) -> list[Case]:
    """The cases that have no record yet, in their order."""
    done = {row.key for row in rows}
    return [case for case in cases if case.key not in done]


def store_of(cases: Sequence[Case], folder: Path | str) -> Store:
    """The file of the experiment that all cases belong to."""
    experiments = {case.experiment for case in cases}
    if len(experiments) != 1:
        raise ValueError(
            f"the cases belong to {len(experiments)} experiments; each experiment has its own file."
        )
    return Store(experiments.pop(), Path(folder))


def rows_of(cases: Sequence[Case], store: Store) -> Results:
    """The records of these cases."""
    keys = {case.key for case in cases}
    return Results([row for row in store.rows() if row.key in keys])


def run_cases(
    cases: Sequence[Case],
    folder: Path | str,
    run: Callable[[Case, Path], Row] = run_case,
) -> Results:
    """Run the cases of one experiment that have no record in `folder` yet, and return the records
    of all.

    Each record is on the disk before the next case begins: a run that was stopped, or killed,
    continues where it was. `run` makes a record from a case and the folder of stored networks.
    """
    store = store_of(cases, folder)
    with store.writing():
        for case in missing(cases, store.rows()):
            store.append(run(case, Path(folder) / "networks"))
    return rows_of(cases, store)

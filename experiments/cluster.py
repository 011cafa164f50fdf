"""Cases as tasks of a Dask cluster: each worker runs them in children of its own, the rows are
written here.
"""

import multiprocessing
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from ddmip_book.data import source
from ddmip_book.experiments.case import Case
from ddmip_book.experiments.rows import Row
from ddmip_book.experiments.store import Store
from ddmip_lib.workers import check_client
from ddmip_lib.workers.cluster import cluster_errors
from .worker import CaseFailed, Worker

_mine = threading.local()  # of each thread of a Dask worker: what runs its cases


def work_on_cluster(
    todo: Sequence[Case],
    store: Store,
    weights: Path,
    client: Any,
    memory_limit: float,
    progress: bool,
) -> list[str]:
    """Let the workers take the cases; each row is on the disk before the next one is taken. What
    failed, in words.

    A case whose worker dies is given to another one. Where the scheduler is lost, what is done
    stays done.
    """
    check_client(client)
    distributed = import_module("distributed")
    here = _data(todo)
    workers = max(1, sum(client.nthreads().values()))
    failures = list[str]()
    given = {
        client.submit(_row, case, weights, memory_limit, workers, here, pure=False): case
        for case in todo
    }
    left = set(given)
    try:
        for future in tqdm(
            distributed.as_completed(list(given)),
            total=len(todo),
            disable=not progress,
            unit=" runs",
        ):
            try:
                row: Row = future.result()
            except CaseFailed as problem:
                failures.append(str(problem))
            except distributed.KilledWorker:
                failures.append(f"{given[future].key}: every worker that took this case died.")
            else:
                store.append(row)
            left.remove(future)
    except cluster_errors() as error:
        failures.append(
            f"the connection to the cluster failed ({type(error).__name__}):"
            f" {len(todo) - len(left)} of {len(todo)} cases are done, and their records are in"
            f" {store.path}. Run the same command again for the other {len(left)}."
        )
    finally:
        with suppress(Exception):  # a lost cluster has nothing left to cancel
            client.cancel(list(left))
    return failures


def _data(cases: Sequence[Case]) -> dict[str, str]:
    """Which data this machine has, by the names that the cases need."""
    return {
        name: source(name)
        for name in {"water" if c.problem.startswith("water") else "trees" for c in cases}
    }


def _row(case: Case, weights: Path, memory_limit: float, workers: int, data: dict[str, str]) -> Row:
    """On a worker: the row of one case, in a child that is ended at its limits and else kept for
    the next case.
    """
    mine = _data([case])
    if any(data[name] != found for name, found in mine.items()):
        raise CaseFailed(
            f"{case.key}: a worker has {mine} where the runner has {data}: set DDMIP_DATA_DIR on"
            " both."
        )
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # Dask's may have none
    limits = weights, memory_limit, workers
    if getattr(_mine, "limits", None) != limits:
        _mine.limits = limits
        _mine.worker = Worker(*limits)
    row: Row = _mine.worker.run(case)
    return row

"""Cases as tasks of a Dask cluster: each worker runs them in children of its own, the rows are
written here.
"""

import logging
import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tqdm.auto import tqdm

from ddmip_lib.data import source
from ddmip_lib.model.workers import check_client, lost_by
from .case import Case
from .rows import Row
from .store import Store
from .worker import CaseFailed, Worker

REMEDY = "dask.distributed is not installed: pip install 'ddmip-lib[cluster]'."
WAIT = "10s"  # for a scheduler that does not answer
ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": 2**30, "MALLOC_MMAP_THRESHOLD_": 2**25}
"""Dask lets its processes give memory back at once (64 KiB), and networks then wait for it half of
their time.
"""
_mine = threading.local()  # of each thread of a Dask worker: what runs its cases


@contextmanager
def cluster_client(
    scheduler: str = "", local: int = 0, ca: str = "", cert: str = "", key: str = ""
) -> Iterator[Any | None]:
    """A client of the scheduler at an address, or of `local` processes here; None where neither is
    asked for.

    With TLS files only encrypted connections are made, and only to who shows a certificate of that
    authority. Tasks and rows are pickled: connect to schedulers that you trust, and to no others.
    """
    if not scheduler and not local:
        yield None
        return
    try:
        distributed = import_module("distributed")
    except ImportError as error:
        raise ValueError(REMEDY) from error
    files = {"tls_ca_file": ca, "tls_client_cert": cert, "tls_client_key": key}
    given = {name: file for name, file in files.items() if file}
    if given and (len(given) < len(files) or not scheduler):
        raise ValueError(
            "TLS needs all of --tls-ca, --tls-cert and --tls-key, and a scheduler (tls://...) to"
            " talk to."
        )
    security = distributed.Security(require_encryption=True, **given) if given else None
    if not scheduler:
        kept = {name: str(value) for name, value in ALLOCATOR.items()}
        wanted = {
            f"distributed.nanny.pre-spawn-environ.{name}": value
            for name, value in ALLOCATOR.items()
        }
        with (
            import_module("dask").config.set(wanted),
            patch.dict(
                os.environ, kept
            ),  # an earlier cluster of this process has set them otherwise
            distributed.LocalCluster(
                n_workers=local,
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",
                silence_logs=logging.ERROR,
            ) as here,
            distributed.Client(here) as client,
        ):
            yield client
        return
    try:
        client = distributed.Client(scheduler, security=security, timeout=WAIT)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"no scheduler answers at {scheduler}: start one with "
            f"`dask scheduler --dashboard-address 127.0.0.1:8787`. ({error})"
        ) from error
    with client:
        yield client


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
    except lost_by() as error:
        failures.append(
            f"the cluster is lost ({type(error).__name__}): {len(todo) - len(left)} of {len(todo)}"
            f" cases are done, and their rows are in {store.path}. Run the same command again for"
            f" the other {len(left)}."
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

"""Running a grid of cases: resumable, with the time left, one row on disk for each finished
case.
"""

import queue
import statistics
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from ddmip_book.data import source
from ddmip_book.experiments.case import SUITE, Case
from ddmip_book.experiments.grids import grid
from ddmip_book.experiments.methods import solver_of
from ddmip_book.experiments.results import Results
from ddmip_book.experiments.rows import Row
from ddmip_book.experiments.runner import missing, rows_of, store_of
from ddmip_book.experiments.store import Store, results_folder
from .cluster import work_on_cluster
from .peers.peer import Peer
from .worker import CaseFailed, Worker


def expected_seconds(case: Case, rows: Iterable[Row]) -> float:
    """What a case will take, by the rows most like it; an unknown one is expected to use
    its limit.
    """
    alike = [
        row
        for row in rows
        if row.method == case.method and row.device == case.device and row.seconds
    ]
    for names in (("network", "size"), ("network",), ()):
        near = [
            row.seconds for row in alike if all(getattr(row, n) == getattr(case, n) for n in names)
        ]
        if near:
            return min(case.time_limit, statistics.fmean(s for s in near if s is not None))
    return case.time_limit


def run(
    experiment: str,
    profile: str = "quick",
    workers: int = 1,
    device: str = "cpu",
    folder: Path | str | None = None,
    memory_limit: float = 8192.0,
    progress: bool = True,
    only: str = "",
    client: Any = None,
) -> Results:
    """Run what is missing of an experiment's grid on `device`, and return all of its rows.

    `only` keeps the cases whose key contains it. `folder` takes the place of the results folder;
    there, and only there, rows of the synthetic stand-in may be written. For the other arguments
    see `run_cases`.
    """
    cases = [
        case for case in grid(experiment, profile) if case.device == device and only in case.key
    ]
    if not cases:
        raise ValueError(
            f"the {profile} profile of {experiment} has no case on {device!r} with {only!r} in its"
            " key."
        )
    left_out = {
        case.method for case in cases if case.problem == SUITE and not _installed(case.method)
    }
    if left_out:
        print(
            f"left out, since their packages are not installed: {', '.join(sorted(left_out))}",
            flush=True,
        )
        cases = [case for case in cases if case.method not in left_out]
    if folder is None:
        given = [case for case in cases if case.problem != SUITE]
        found = {source("water" if case.problem.startswith("water") else "trees") for case in given}
        if found - {"real"}:
            raise ValueError(
                "published results come from the real data: set DDMIP_DATA_DIR, or name another"
                " folder for these records."
            )
    where = results_folder(writing=True) if folder is None else folder
    return run_cases(cases, where, workers, memory_limit, progress, client)


def _installed(method: str) -> bool:
    """Whether a peer's packages are here; methods of this project need none."""
    solver = solver_of(method)
    return not isinstance(solver, Peer) or solver.available()


def run_cases(
    cases: Sequence[Case],
    folder: Path | str,
    workers: int = 1,
    memory_limit: float = 8192.0,
    progress: bool = True,
    client: Any = None,
) -> Results:
    """Run the cases of one experiment that have no row in `folder` yet, and return the rows of all.

    Each row is on the disk before the next case begins: a run that was stopped, or killed,
    continues where it was. Each of the `workers` is a process that is ended at `memory_limit` (MiB)
    or, should a solver not keep its time limit, soon after that. A case that raises is reported at
    the end, after all others have run. With a `client`, a `distributed.Client`, the workers of its
    cluster take the place of processes here.
    """
    if workers < 1 or not memory_limit > 0:
        raise ValueError(f"{workers=} and {memory_limit=} must be positive.")
    store = store_of(cases, folder)
    with store.writing():
        todo = missing(cases, store.rows())
        weights = Path(folder) / "networks"
        if client is None:
            failures = _work(todo, store, weights, workers, memory_limit, progress)
        else:
            failures = work_on_cluster(todo, store, weights, client, memory_limit, progress)
    if failures:
        raise CaseFailed("\n\n".join(failures))
    return rows_of(cases, store)


def _work(
    todo: list[Case], store: Store, weights: Path, workers: int, memory_limit: float, progress: bool
) -> list[str]:
    """Let the workers take cases until none is left; returns the messages of those that failed."""
    waiting: queue.SimpleQueue[Case] = queue.SimpleQueue()
    for case in todo:
        waiting.put(case)
    lock = threading.Lock()
    rows = store.rows()
    left = list(todo)
    failures: list[str] = []
    errors: list[BaseException] = []
    bar = tqdm(
        total=len(todo),
        disable=not progress,
        unit=" runs",
        bar_format="{desc}{percentage:3.0f}% {n}/{total}",
    )

    def show(word: str) -> None:
        seconds = sum(expected_seconds(case, rows) for case in left) / workers
        bar.set_description_str(f"{word}, about {seconds / 60:.0f} min left ", refresh=True)

    def serve() -> None:
        worker = Worker(weights, memory_limit, workers)
        try:
            while True:
                case = waiting.get_nowait()
                with lock:
                    show(case.key)
                try:
                    row = worker.run(case)
                except CaseFailed as problem:
                    with lock:
                        failures.append(str(problem))
                        left.remove(case)
                    continue
                with lock:
                    store.append(row)
                    rows.append(row)
                    left.remove(case)
                    bar.update(1)
        except queue.Empty:
            pass
        except BaseException as problem:  # raised below, in the thread that the caller sees
            errors.append(problem)
        finally:
            worker.close(gently=True)

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bar.close()
    if errors:
        raise errors[0]
    return failures

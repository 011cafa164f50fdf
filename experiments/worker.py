"""A child process that turns cases into rows, and is ended when it takes too long or too much
memory.
"""

import ctypes
import multiprocessing
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from ddmip_book.experiments import execute
from ddmip_book.experiments.case import SUITE, Case
from ddmip_book.experiments.methods import METHODS
from ddmip_book.experiments.networks import data_sets, networks_of
from ddmip_book.experiments.rows import Row, provenance
from ddmip_book.experiments.suite import REFUSED
from ddmip_lib.errors import ProblemError, UnsupportedNetworkError
from .code_hash import method_hash
from .suite.looks import features

LINUX_PARENT_DEATH_SIGNAL = 1
GRACE = 60.0
"""Seconds beyond the time limit before a run is ended from outside: solvers keep their limit
themselves.
"""
GUARD = "In a script of your own, call the runner under: if __name__ == '__main__'."
"""A child imports the script that started it."""
TURN = 0.2
"""Seconds between two looks at a child's memory."""


class CaseFailed(RuntimeError):
    """A case raised an error; the message holds the child's traceback."""


def run_case(
    case: Case,
    weights: Path | None = None,
    workers: int = 1,
    ready: Callable[[], Any] = lambda: None,
) -> Row:
    """The row of a case, with the hash of the code that made it.

    Not every method takes every model of the suite: there, a refusal is a row too.
    """
    try:
        row = execute.run_case(case, weights, workers, ready)
    except (ProblemError, UnsupportedNetworkError) as refusal:
        if case.problem != SUITE:
            raise
        row = _row_without_result(case, workers, REFUSED, str(refusal))
    if case.problem == SUITE:
        problem = execute.build(case, networks_of(case))
        details = row.details | {"features": features(problem)}
        untreated = execute.untreated_objective(problem)
        row = replace(row, untreated=untreated, details=details, trace={})
    return _with_code(row)


def _with_code(row: Row) -> Row:
    """The row with the hash of its method's code."""
    code = method_hash(row.method, row.problem)
    return replace(row, provenance=row.provenance | {"code": code})


def _row_without_result(case: Case, workers: int, status: str, reason: str) -> Row:
    data = [each.provenance for each in data_sets(case).values()]
    origin = provenance(data, case.device, workers)
    return Row(key=case.key, **case.setting(), status=status, why=reason, provenance=origin)


def _serve(pipe: Connection, weights: Path | None, workers: int) -> None:
    """The child: receive a case, send ("ready",), send ("row", row) or ("error", text), until the
    pipe closes.
    """
    if (
        sys.platform == "linux"
    ):  # a killed parent takes its children along, even while they are inside SCIP
        ctypes.CDLL(None).prctl(LINUX_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    threads = torch.get_num_threads()
    while True:
        try:
            case = pipe.recv()
        except EOFError:
            return
        torch.set_num_threads(1 if case.device == "cpu" else threads)
        try:
            pipe.send(
                ("row", run_case(case, weights, workers, ready=lambda: pipe.send(("ready", None))))
            )
        except Exception:
            pipe.send(("error", traceback.format_exc()))


class Worker:
    """Runs cases one after another in a child; exact models get a fresh child each, so that memory
    is free again.
    """

    def __init__(
        self, weights: Path | None = None, memory_limit: float = 8192.0, workers: int = 1
    ) -> None:
        self.weights = weights
        self.memory_limit = memory_limit
        self.workers = workers
        self._process: Any = None

    def run(self, case: Case) -> Row:
        """The case's row; where the child had to be ended, a row with the reason."""
        exact = METHODS[case.method].exact
        if exact:
            self.close()
        if self._process is None:
            self._start()
        self._pipe.send(case)
        began = time.perf_counter()
        deadline = float("inf")
        peak = 0.0
        while True:
            if self._pipe.poll(TURN):
                try:
                    word, content = self._pipe.recv()
                except (EOFError, ConnectionResetError):
                    self._process.join()
                    why = f"the process ended by itself, with code {self._process.exitcode}"
                    if deadline == float(
                        "inf"
                    ):  # nothing was solved, so there is nothing to write down
                        self.close()
                        raise CaseFailed(f"{case.key}: {why}, before it began. {GUARD}") from None
                    return self._ended(case, "killed", why, peak, began)
                if word == "ready":  # training and the warm-up are not counted
                    began = time.perf_counter()
                    deadline = began + case.time_limit + GRACE
                    continue
                break
            peak = max(peak, self._memory())
            if peak > self.memory_limit:
                return self._ended(
                    case, "memory_limit", f"more than {self.memory_limit:.0f} MiB", peak, began
                )
            if time.perf_counter() > deadline:
                return self._ended(
                    case, "killed", f"still running {GRACE:.0f} s after its limit", peak, began
                )
        if exact:
            self.close(gently=True)
        if word == "error":
            raise CaseFailed(f"{case.key} failed:\n{content}")
        row: Row = content
        return row

    def _start(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(
            target=_serve, args=(theirs, self.weights, self.workers), daemon=True
        )
        self._process.start()
        theirs.close()

    def _memory(self) -> float:
        """MiB that the child holds now."""
        status = Path(f"/proc/{self._process.pid}/status")
        if sys.platform != "linux":
            import psutil

            try:
                return float(psutil.Process(self._process.pid).memory_info().rss / 2**20)
            except psutil.NoSuchProcess:
                return 0.0
        try:
            lines = status.read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            return 0.0
        return next(
            (int(line.split()[1]) / 2**10 for line in lines if line.startswith("VmRSS")), 0.0
        )

    def _ended(self, case: Case, status: str, why: str, peak: float, began: float) -> Row:
        self.close()
        row = _row_without_result(case, self.workers, status, why)
        return _with_code(
            replace(row, seconds=time.perf_counter() - began, peak_memory=round(peak, 1))
        )

    def close(self, gently: bool = False) -> None:
        """End the child, if there is one; an idle one ends by itself when its pipe closes."""
        if self._process is not None:
            self._pipe.close()
            if gently:
                self._process.join(5.0)
            self._process.kill()
            self._process.join()
            self._process = None

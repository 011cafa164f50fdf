"""Searches in several processes: each one searches some blocks, reports its bounds every second,
and can be killed.

A child process is started as a command and not as a copy of this process, so that a script that
calls `certify` needs no guard around its main part. Every report is valid by itself; the last one
counts.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..clock import TimeOver, limited, now
from .unit_search import LossBounds, ReLUBranchAndBound

REPORT_SECONDS = 1.0
"""Seconds between two reports."""
STOP_BEFORE_DEADLINE = 0.1
"""Seconds before the deadline at which a worker ends its search."""
WAIT_AFTER_DEADLINE = 0.1
"""Seconds after the deadline until which a last report counts."""
POLL_SECONDS = 0.02
"""Seconds between two checks of whether the children have ended."""
CHILD = """
import importlib.util, sys
package, file, module = sys.argv[1:]
spec = importlib.util.spec_from_file_location(package, file)
sys.modules[package] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[package])
importlib.import_module(module).main()
"""
"""Program of a child process. It loads the package from its file, since the folder around it may
contain modules of other names.
"""

Reported = Callable[[int, list[LossBounds]], bool]
"""Function of the number of a group and the progress of its searches; if it returns false, all
processes end.
"""


def work(
    searches: Sequence[ReLUBranchAndBound],
    deadline: float,
    report: Callable[[list[LossBounds]], Any],
) -> None:
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


def work_in_processes(
    groups: Sequence[list[tuple[Any, ...]]], deadline: float, reported: Reported
) -> None:
    """Run each group of searches in a process of its own until the deadline or until all are
    finished.

    Parameters
    ----------
    groups
        For each process, the arguments of `ReLUBranchAndBound` for each of its searches.
    deadline
        End of the searches, in seconds of `ddmip_lib.clock.now`.
    reported
        Function that is called with every report.

    Raises
    ------
    RuntimeError
        If a process fails.
    """
    reports = _Reports(reported)
    children: list[subprocess.Popen[bytes]] = []
    readers: list[threading.Thread] = []
    try:
        until = time.time() + deadline - STOP_BEFORE_DEADLINE - now()  # by the system's clock
        for number, group in enumerate(groups):
            child = _start()
            children.append(child)
            reader = threading.Thread(
                target=_listen, args=(child, (group, until), number, reports), daemon=True
            )
            reader.start()
            readers.append(reader)
        while any(reader.is_alive() for reader in readers) and not reports.stopped.is_set():
            _require_no_failure(children)
            if now() > deadline + WAIT_AFTER_DEADLINE:
                break
            time.sleep(POLL_SECONDS)
        if reports.errors:
            raise reports.errors[0]
        if not reports.stopped.is_set():
            _require_no_failure(children)
    finally:
        reports.stopped.set()
        _kill(children)


@dataclass
class _Reports:
    """The reports of all processes, passed on one at a time, and the errors of `reported`."""

    reported: Reported
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopped: threading.Event = field(default_factory=threading.Event)
    errors: list[Exception] = field(default_factory=list)

    def pass_on(self, number: int, found: list[LossBounds]) -> None:
        with self.lock:
            if self.stopped.is_set():
                return
            try:
                if self.reported(number, found) is False:
                    self.stopped.set()
            except Exception as error:  # raised again in the main thread
                self.errors.append(error)
                self.stopped.set()


def _kill(children: Sequence[subprocess.Popen[bytes]]) -> None:
    for child in children:
        child.kill()
    for child in children:
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def _require_no_failure(children: Sequence[subprocess.Popen[bytes]]) -> None:
    for child in children:
        code = child.poll()
        if code:
            raise RuntimeError(
                f"a process of the certificate ended with code {code}: see its error above."
            )


def _start() -> subprocess.Popen[bytes]:
    """Start a child process with this very library and nothing from the current folder."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(filter(os.path.isabs, given))  # others depend on the current folder
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    package = __name__.partition(".")[0]
    file = str(sys.modules[package].__file__)
    command = [sys.executable, "-P", "-c", CHILD, package, file, __name__]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def _listen(child: subprocess.Popen[bytes], searches: Any, number: int, reports: _Reports) -> None:
    """Send one child its searches and pass on its reports until the last."""
    assert child.stdin is not None
    assert child.stdout is not None
    # a child that has ended breaks the pipe; its exit code is checked elsewhere
    with contextlib.suppress(BrokenPipeError), child.stdin:
        pickle.dump(searches, child.stdin)
    while not reports.stopped.is_set():
        try:
            found = pickle.load(child.stdout)
        except (EOFError, pickle.UnpicklingError, ValueError):  # ended, or killed within a report
            break
        reports.pass_on(number, found)
    child.wait()


def main() -> None:
    """Run a child process: read the searches, search, report."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    torch.set_num_threads(1)
    group, until = pickle.load(sys.stdin.buffer)
    deadline = now() + until - time.time()

    def report(found: list[LossBounds]) -> None:
        pickle.dump(found, sys.stdout.buffer)
        sys.stdout.buffer.flush()

    # the pipe is broken where the parent has ended
    with contextlib.suppress(BrokenPipeError, TimeOver), limited(deadline):
        work([ReLUBranchAndBound(*arguments) for arguments in group], deadline, report)
    os._exit(0)  # without torch's clean-up, for which the parent would wait

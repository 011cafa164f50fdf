"""Searches in processes of their own: each gets some rows, reports what it has proven every second,
and can be killed.

The children are plain commands, not copies of this process, so a script that calls `certify` needs
no guard around its main part. What they send is valid at any time; the last report counts.
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
from typing import Any

import torch

from ..clock import TimeOver, limited, now
from .unit_search import LossBounds, ReLUBranchAndBound

REPORT = 1.0  # seconds between two reports
EARLY = 0.1
GRACE = (
    0.1  # seconds before the deadline at which a child ends, and after it until its report counts
)
CHILD = """
import importlib.util, sys
package, file, module = sys.argv[1:]
spec = importlib.util.spec_from_file_location(package, file)
sys.modules[package] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[package])
importlib.import_module(module).main()
"""
"""What a child runs: it takes the package from its file, since the folder around it may hold
modules of other names.
"""

Reported = Callable[[int, list[LossBounds]], bool]
"""Gets the number of a group and the progress of its searches; false means that nothing more is
needed.
"""


def work(
    searches: Sequence[ReLUBranchAndBound],
    deadline: float,
    report: Callable[[list[LossBounds]], Any],
) -> None:
    """Let searches take turns until the deadline, the end, or until `report` returns false."""
    going = True
    each = REPORT / max(1, len(searches))
    try:
        while going and now() < deadline and not all(search.finished for search in searches):
            for search in searches:
                search.run(min(deadline, now() + each))
            going = report([search.progress() for search in searches]) is not False
    except TimeOver:  # raised between two steps or inside one, after which the batch counts as open
        report([search.progress() for search in searches])
        raise


def work_in_processes(
    groups: Sequence[list[tuple[Any, ...]]], deadline: float, reported: Reported
) -> None:
    """The searches of each group (the arguments of `ReLUBranchAndBound`) in one process, until the
    deadline or the end.
    """
    lock = threading.Lock()
    children = []
    readers = []
    stopped = threading.Event()
    errors = list[Exception]()
    try:
        until = time.time() + deadline - EARLY - now()  # children have clocks of their own
        for number, group in enumerate(groups):
            child = _start()
            children.append(child)
            arguments = (child, (group, until), number, reported, lock, stopped, errors)
            reader = threading.Thread(
                target=_listen, args=arguments, daemon=True
            )  # nobody waits for a slow start
            reader.start()
            readers.append(reader)
        while any(reader.is_alive() for reader in readers) and not stopped.is_set():
            _expect_no_failure(children)
            if now() > deadline + GRACE:
                break
            time.sleep(0.02)
        if errors:
            raise errors[0]
        if not stopped.is_set():
            _expect_no_failure(children)
    finally:
        stopped.set()
        for child in children:
            child.kill()
        for child in children:
            child.wait()
            assert child.stdout is not None
            child.stdout.close()


def _expect_no_failure(children: Sequence[subprocess.Popen[bytes]]) -> None:
    failed = [code for child in children if (code := child.poll()) not in (None, 0)]
    if failed:
        raise RuntimeError(
            f"a process of the certificate ended with code {failed[0]}: see its error above."
        )


def _start() -> subprocess.Popen[bytes]:
    """A child that runs this very library, and nothing from the current folder, wherever
    that is.
    """
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(filter(os.path.isabs, given))  # all others depend on the current folder
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    package = __name__.partition(".")[0]
    command = [
        sys.executable,
        "-P",
        "-c",
        CHILD,
        package,
        str(sys.modules[package].__file__),
        __name__,
    ]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def _listen(
    child: subprocess.Popen[bytes],
    work: Any,
    number: int,
    reported: Reported,
    lock: threading.Lock,
    stopped: threading.Event,
    errors: list[Exception],
) -> None:
    """Send its work to one child and hand on its reports until the last."""
    assert child.stdin is not None
    assert child.stdout is not None
    with (
        contextlib.suppress(BrokenPipeError),
        child.stdin,
    ):  # broken where it has ended: its code says so
        pickle.dump(work, child.stdin)
    while not stopped.is_set():
        try:
            found = pickle.load(child.stdout)
        except (
            EOFError,
            pickle.UnpicklingError,
            ValueError,
        ):  # its last, or it was killed in the middle of one
            break
        with lock:
            try:
                if not stopped.is_set() and reported(number, found) is False:
                    stopped.set()
            except Exception as error:  # raised again where it is heard
                errors.append(error)
                stopped.set()
    child.wait()


def main() -> None:
    """The child: read the searches, work, report."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    torch.set_num_threads(1)
    group, until = pickle.load(sys.stdin.buffer)
    deadline = now() + until - time.time()

    def report(found: list[LossBounds]) -> None:
        pickle.dump(found, sys.stdout.buffer)
        sys.stdout.buffer.flush()

    with (
        contextlib.suppress(BrokenPipeError, TimeOver),
        limited(deadline),
    ):  # nobody listens any more, or time is over
        work([ReLUBranchAndBound(*arguments) for arguments in group], deadline, report)
    os._exit(0)  # the parent waits for it, and need not wait until torch has cleaned up

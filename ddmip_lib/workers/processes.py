"""Tasks in other processes, each of which reports what it has found as long as it works, and can be
killed.

A child process is started as a command and not as a copy of this process, so that a script needs no
guard around its main part. Every report is valid by itself; the last one counts.
"""

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ..clock import TimeOver, limited, now

STOP_BEFORE_DEADLINE = 0.1
"""Seconds before the deadline at which a worker ends its task."""
WAIT_AFTER_DEADLINE = 0.1
"""Seconds after the deadline until which a last report counts."""
POLL_SECONDS = 0.1
"""Seconds after which the wait for a report is interrupted, so that Ctrl-C ends it everywhere."""
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


def work_in_processes(
    work: Callable[[Any, float, Callable[[Any], Any]], Any],
    tasks: Sequence[Any],
    deadline: float,
    reported: Callable[[int, Any], bool],
) -> None:
    """Execute ``work(task, deadline, report)`` for each task in a process of its own, until all
    have ended or until the deadline.

    Parameters
    ----------
    work
        Function of a module, which calls ``report`` with what it has found so far.
    tasks
        The task of each process.
    deadline
        End of the work, in seconds of `ddmip_lib.clock.now`.
    reported
        Function that is called with the number of a task and each of its reports; if it returns
        False, all processes end.

    Raises
    ------
    RuntimeError
        If a process fails.
    """
    until = time.time() + deadline - STOP_BEFORE_DEADLINE - now()  # by the system's clock
    reports: queue.SimpleQueue[tuple[int, Any, int | None]] = queue.SimpleQueue()
    children: list[subprocess.Popen[bytes]] = []
    try:
        for number, task in enumerate(tasks):
            children.append(_start())
            arguments = (children[-1], (work, task, until), number, reports)
            threading.Thread(target=_listen, args=arguments, daemon=True).start()
        running = len(children)
        while running and now() <= deadline + WAIT_AFTER_DEADLINE:
            with suppress(queue.Empty):
                number, found, code = reports.get(timeout=POLL_SECONDS)
                if code:
                    raise RuntimeError(
                        f"a process of the proof ended with code {code}: see its error above."
                    )
                if code is not None:
                    running -= 1
                elif reported(number, found) is False:
                    return
    finally:
        for child in children:
            child.kill()
        for child in children:
            child.wait()
            assert child.stdout is not None
            child.stdout.close()


def _start() -> subprocess.Popen[bytes]:
    """Start a child process with this very library and nothing from the current folder."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(filter(os.path.isabs, given))  # others depend on the current folder
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    package = __name__.partition(".")[0]
    file = str(sys.modules[package].__file__)
    command = [sys.executable, "-P", "-c", CHILD, package, file, __name__]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def _listen(
    child: subprocess.Popen[bytes], task: Any, number: int, reports: queue.SimpleQueue[Any]
) -> None:
    """Send one child its task and pass on its reports, then the code with which it ended."""
    assert child.stdin is not None
    assert child.stdout is not None
    with suppress(BrokenPipeError), child.stdin:  # broken by a child that has ended
        pickle.dump(task, child.stdin)
    with suppress(EOFError, pickle.UnpicklingError, ValueError):  # ended, maybe within a report
        while True:
            reports.put((number, pickle.load(child.stdout), None))
    reports.put((number, None, child.wait()))


def main() -> None:
    """Run a child process: read the task, work, report."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    work, task, until = pickle.load(sys.stdin.buffer)
    deadline = now() + until - time.time()

    def report(found: Any) -> None:
        pickle.dump(found, sys.stdout.buffer)
        sys.stdout.buffer.flush()

    # the pipe is broken where the parent has ended
    with suppress(BrokenPipeError, TimeOver), limited(deadline):
        work(task, deadline, report)
    os._exit(0)  # without torch's clean-up, for which the parent would wait

"""All checks, in stages, with the seconds that each took.

    python -m tools.run_tests [--only STAGE]

A stage that keeps one core busy runs beside one that can use all; what it says is shown when it ends. The first
stage that fails ends the run with its exit code.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

GRACE = 20.0  # seconds for an orderly end
ROOT = Path(__file__).resolve().parent.parent
PYTEST = ["-m", "pytest", "-q", "-m", "not long", "-n", "2", "--durations", "10"]
STEALING = [*PYTEST, "--dist", "worksteal"]
IN_ORDER = [*PYTEST, "--dist", "load", "--maxschedchunk", "1"]  # tests whose longest stand first
STAGES: dict[str, list[list[str]]] = {
    "lint": [["-m", "ruff", "check", "."], ["-m", "ruff", "format", "--check", "."], ["-m", "mypy"]],
    "notebooks": [[*IN_ORDER, "tests/notebooks"], ["-m", "tools.notebooks", "--seconds"]],
    "book": [["-m", "tools.build_book"]],
    "unit": [[*STEALING, "--doctest-modules", "tests/unit", "tests/project", "ddmip_lib", "book/ddmip_book", "tools"]],
    "pages": [[*STEALING, "tests/book"]],
}
TOGETHER = (("notebooks", "lint"), ("unit", "book"), ("pages",))
"""The first of each is shown as it runs, the other beside it."""


class Stage:
    """The commands of a stage, one after another; whoever waits for it asks `going` from time to time."""

    def __init__(self, name: str, output: IO[str] | None = None) -> None:
        self.name, self.output, self.start = name, output, time.perf_counter()
        self.seconds, self.left = 0.0, list(STAGES[name])
        self._next()

    def _next(self) -> None:
        command = [sys.executable, *self.left.pop(0)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=self.output, stderr=self.output)

    def going(self) -> bool:
        """Whether it still runs; begins its next command when one has passed."""
        if self.process.poll() == 0 and self.left:
            self._next()
        if self.process.poll() is None:
            self.seconds = time.perf_counter() - self.start
        return self.process.poll() is None

    def end(self) -> None:
        """Stop what runs as the keyboard would, so that pytest and its workers say and leave all in order."""
        self.left.clear()
        if self.process.poll() is None:  # whom a shell started in the background, ignores the keyboard
            deaf = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            self.process.send_signal(signal.SIGTERM if deaf else signal.SIGINT)
        try:
            self.process.wait(timeout=GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def run_together(names: tuple[str, ...]) -> tuple[list[Stage], Stage | None]:
    """Run the stages at the same time until all have ended or one has failed: all of them, and the one that failed."""
    print(f"\n== {names[0]}" + "".join(f" (and {name} beside it, shown below)" for name in names[1:]), flush=True)
    with tempfile.TemporaryFile("w+") as output:
        stages = [Stage(name, output if number else None) for number, name in enumerate(names)]
        try:
            while [stage for stage in stages if stage.going()] and not any(stage.process.poll() for stage in stages):
                time.sleep(0.1)
            failed = next((stage for stage in stages if stage.process.poll()), None)
        finally:
            for stage in stages:
                stage.end()
        for name in names[1:]:
            output.seek(0)
            print(f"\n== {name}\n{output.read()}", end="", flush=True)
    return stages, failed


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the tests stage by stage.")
    parser.add_argument("--only", choices=list(STAGES))
    parser.add_argument("--setup-seconds", type=float, default=0.0)
    arguments = parser.parse_args()
    start, seconds, failed = time.perf_counter(), {"set-up": arguments.setup_seconds}, None
    for names in [(arguments.only,)] if arguments.only else TOGETHER:
        stages, failed = run_together(names)
        seconds |= {stage.name: stage.seconds for stage in stages}
        if failed:
            break
    total = arguments.setup_seconds + time.perf_counter() - start
    print("\nseconds: " + ", ".join(f"{stage} {spent:.0f}" for stage, spent in seconds.items()))
    print(f"total {total:.0f} s: " + (f"FAILED in {failed.name}" if failed else "all passed"))
    return failed.process.returncode if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())

"""All checks, in stages, with the seconds that each took and one table of what failed.

    python -m tools.run_tests [--only STAGE]

A stage that keeps one core busy runs beside one that can use all; its output is shown when both
have ended. Every command of every stage runs, whatever failed before it; only a stage that needs
the result of a failed one is left out. No stage has a time limit: a busy machine takes longer, and
that is all.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

GRACE = 20.0  # seconds for an orderly end after Ctrl-C
ROOT = Path(__file__).resolve().parent.parent
PYTEST = ["-m", "pytest", "-q", "-m", "not long", "-n", "2", "--durations", "10"]
STEALING = [*PYTEST, "--dist", "worksteal"]
IN_ORDER = [*PYTEST, "--dist", "load", "--maxschedchunk", "1"]  # tests whose longest stand first
STAGES: dict[str, list[list[str]]] = {
    "lint": [
        ["-m", "ruff", "check", "."],
        ["-m", "ruff", "format", "--check", "."],
        ["-m", "mypy"],
    ],
    "notebooks": [[*IN_ORDER, "tests/notebooks"], ["-m", "tools.notebooks", "--seconds"]],
    "book": [["-m", "tools.build_book"]],
    "unit": [
        [
            *STEALING,
            "--doctest-modules",
            "tests/unit",
            "tests/project",
            "ddmip_lib",
            "book/ddmip_book",
            "experiments",
            "tools",
        ]
    ],
    "pages": [[*STEALING, "tests/book"]],
}
TOGETHER = (("notebooks", "lint"), ("unit", "book"), ("pages",))
"""The first of each is shown as it runs, the other beside it."""
NEEDS = {"pages": "book"}
"""Stages that check what another one builds."""
NOT_RUN = "not run"


@dataclass
class Failure:
    """A row of the closing table: a command that failed, or a stage that was not run, and what is
    known about it.
    """

    stage: str
    command: str
    outcome: str
    lines: list[str]


@dataclass
class Results:
    """What the stages have come to so far."""

    seconds: dict[str, float]
    failures: list[Failure] = field(default_factory=list)
    interrupted: bool = False

    def stages(self, *, run: bool) -> list[str]:
        """The stages with a failure, or those that were not run, in the order of the table."""
        rows = [failure for failure in self.failures if (failure.outcome != NOT_RUN) == run]
        return list(dict.fromkeys(row.stage for row in rows))


def lines_of(file: Path) -> list[str]:
    """The lines of a file that are not blank; none if there is no file."""
    text = file.read_text(errors="replace") if file.exists() else ""
    return [line.rstrip() for line in text.splitlines() if line.strip()]


class Stage:
    """The commands of a stage, one after another, in child processes."""

    def __init__(self, name: str, folder: Path, shown: bool) -> None:
        self.name = name
        self.folder = folder
        self.shown = shown
        self.start = time.perf_counter()
        self.seconds = 0.0
        self.failures: list[Failure] = []
        self.outputs: list[Path] = []
        self.waiting = list(STAGES[name])
        self.begin_next()

    def begin_next(self) -> None:
        """Start the next command; pytest also writes the tests that fail into a file."""
        self.command = self.waiting.pop(0)
        self.failing_tests = self.folder / f"{self.name}-{len(self.waiting)}.failures"
        self.output = self.folder / f"{self.name}-{len(self.waiting)}.output"
        self.outputs.append(self.output)
        words = [sys.executable, *self.command]
        if self.command[:2] == ["-m", "pytest"]:
            words += ["-p", "tools.failed_tests", "--failures", str(self.failing_tests)]
        if self.shown:
            self.process = subprocess.Popen(words, cwd=ROOT)
            return
        with self.output.open("w") as file:
            self.process = subprocess.Popen(words, cwd=ROOT, stdout=file, stderr=file)

    def is_running(self) -> bool:
        """Whether a command still runs; notes one that failed, and starts the next."""
        if self.process.poll() is None:
            return True
        self.seconds = time.perf_counter() - self.start
        self.note_failure()
        if not self.waiting:
            return False
        self.begin_next()
        return True

    def note_failure(self) -> None:
        """Add a row to the table if the command that has ended failed."""
        code = self.process.returncode
        if code:
            outcome = f"exit {code}" if code > 0 else f"signal {-code}"
            lines = lines_of(self.failing_tests) or self.last_line()
            self.failures.append(Failure(self.name, self.written(), outcome, lines))

    def written(self) -> str:
        """The command as one would type it."""
        return shlex.join(["python", *self.command])

    def last_line(self) -> list[str]:
        """The last line that the command printed."""
        if self.shown:
            return ["its output is shown above"]
        return lines_of(self.output)[-1:] or ["it printed nothing"]

    def text(self) -> str:
        """The output of all commands so far."""
        return "".join(file.read_text(errors="replace") for file in self.outputs)

    def stop(self) -> None:
        """Stop the command as the keyboard would, so that pytest and its workers leave everything
        in order.
        """
        if self.process.poll() is None:
            # a child of a shell's background job ignores the keyboard's signal
            ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            self.process.send_signal(signal.SIGTERM if ignored else signal.SIGINT)
        try:
            self.process.wait(timeout=GRACE)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self.process.kill()
            self.process.wait()
        self.seconds = time.perf_counter() - self.start
        already_noted = self.written() in [failure.command for failure in self.failures]
        if not already_noted and (tests := lines_of(self.failing_tests)):
            self.failures.append(Failure(self.name, self.written(), "stopped", tests))


def run_together(names: list[str], results: Results) -> None:
    """Run the stages at the same time until all have ended; Ctrl-C stops them."""
    print(
        f"\n== {names[0]}" + "".join(f" (and {name} beside it, shown below)" for name in names[1:]),
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        stages: list[Stage] = []
        try:
            for name in names:
                stages.append(Stage(name, Path(folder), shown=name == names[0]))
            running = stages
            while running:
                time.sleep(0.1)
                running = [stage for stage in running if stage.is_running()]
        except KeyboardInterrupt:
            results.interrupted = True
            for stage in stages:
                stage.stop()
        for stage in stages:
            if not stage.shown:
                print(f"\n== {stage.name}\n{stage.text()}", end="", flush=True)
            results.seconds[stage.name] = stage.seconds
            results.failures += stage.failures


def without_what_they_need(names: tuple[str, ...], results: Results) -> list[Failure]:
    """A row for each stage that checks what a failed stage should have built."""
    missing = {name: NEEDS[name] for name in names if NEEDS.get(name) in results.stages(run=True)}
    return [
        Failure(name, "", NOT_RUN, [f"it needs the result of stage {needed}, which failed"])
        for name, needed in missing.items()
    ]


def run_stages(groups: tuple[tuple[str, ...], ...], results: Results) -> None:
    """Run one group after another; an interrupt ends the run."""
    for names in groups:
        left_out = without_what_they_need(names, results)
        results.failures += left_out
        without = {failure.stage for failure in left_out}
        names_to_run = [name for name in names if name not in without]
        if names_to_run:
            run_together(names_to_run, results)
        if results.interrupted:
            return


def table(failures: list[Failure]) -> str:
    """What failed: stage, exit code and command, and below each the failing tests or its last line.

    >>> print(table([Failure("lint", "python -m mypy", "exit 1", ["Found 1 error in 1 file"])]))
    stage      outcome    command
    lint       exit 1     python -m mypy
                            Found 1 error in 1 file
    """
    rows = [("stage", "outcome", "command")]
    for failure in failures:
        rows.append((failure.stage, failure.outcome, failure.command))
        rows += [("", "", f"  {line}") for line in failure.lines]
    return "\n".join(f"{stage:10} {outcome:10} {text}".rstrip() for stage, outcome, text in rows)


def closing_line(total: float, results: Results) -> str:
    """The verdict, in the last line of the output."""
    if results.interrupted:
        verdict = "INTERRUPTED"
    elif results.failures:
        verdict = f"FAILED in {', '.join(results.stages(run=True))}"
        if left_out := results.stages(run=False):
            verdict += f"; not run: {', '.join(left_out)}"
    else:
        verdict = "all passed"
    return f"total {total:.0f} s: {verdict}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the tests stage by stage.")
    parser.add_argument("--only", choices=list(STAGES))
    parser.add_argument("--setup-seconds", type=float, default=0.0)
    arguments = parser.parse_args()
    start = time.perf_counter()
    results = Results({"set-up": arguments.setup_seconds})
    run_stages(((arguments.only,),) if arguments.only else TOGETHER, results)
    total = arguments.setup_seconds + time.perf_counter() - start
    if results.failures:
        print(f"\n== what failed\n{table(results.failures)}")
    print(
        "\nseconds: "
        + ", ".join(f"{stage} {spent:.0f}" for stage, spent in results.seconds.items())
    )
    print(closing_line(total, results))
    if results.interrupted:
        return 130
    return 1 if results.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
